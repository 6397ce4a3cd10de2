"""A report's facts as ten million transactions of 64 nodes would give them, at the limits of all that a page lists."""

import numpy as np

from binlog_merge.cli.report_schemas import MOST_NODE_DDL, MOST_SKEWS, MOST_VERSIONS
from binlog_merge.files.manifest import Header, ManifestState, OutputFile, Publish
from binlog_merge.observe.report.document import MOST_FILES, MOST_TABLES
from binlog_merge.observe.report.facts import Facts, Running
from binlog_merge.observe.report.log import LANE_BINS, MOST_STATEMENTS, TABLE_BINS
from binlog_merge.observe.report.values import (
    FIRST_NODE,
    Bins,
    LogFacts,
    NodeDdl,
    NodeLanes,
    Placed,
    SchemaFacts,
    SkewSpan,
    StatementFact,
    TableCounts,
    Version,
    size_for,
)
from snapshot_store.tso import OrderKey

TRANSACTIONS, NODES, TABLES = 10_000_000, 64, MOST_TABLES + 50
_FIRST_US, _SPAN_US = 1_790_000_000_000_000, 6 * 3600 * 1_000_000
_CHUNK = 500_000
_SQL = "ALTER TABLE `shop`.`orders` ADD COLUMN `a_column_with_a_long_name` VARCHAR(200) NOT NULL DEFAULT 'x', " * 8


def facts() -> Facts:
    """Return the facts; the same at every call."""
    random = np.random.default_rng(1)
    names = tuple(f"storage-node-{number:03d}" for number in range(NODES))
    size, node_size = size_for(FIRST_NODE + NODES, LANE_BINS), size_for(NODES, LANE_BINS)
    by_time, by_rank = Bins(size, FIRST_NODE + NODES), Bins(size, FIRST_NODE + NODES)
    bytes_by_time, bytes_by_rank = Bins(LANE_BINS, 1), Bins(LANE_BINS, 1)
    node_time, node_rank = Bins(node_size, NODES), Bins(node_size, NODES)
    rows_by_time, rows_by_rank = Bins(TABLE_BINS), Bins(TABLE_BINS)
    for first in range(0, TRANSACTIONS, _CHUNK):
        ranks = np.arange(first + 1, first + _CHUNK + 1)
        times = _FIRST_US + ranks * _SPAN_US // TRANSACTIONS
        lanes, nodes = np.zeros(_CHUNK, np.int64), random.integers(0, NODES, _CHUNK)
        sizes = random.integers(100, 4000, _CHUNK)
        for bins, series, values in (
            (by_time, lanes, times), (by_rank, lanes, ranks), (node_time, nodes, times), (node_rank, nodes, ranks),
        ):  # fmt: skip
            bins.add(series, values)
        bytes_by_time.add(lanes, times, sizes)
        bytes_by_rank.add(lanes, ranks, sizes)
        tables = random.integers(0, TABLES, _CHUNK)
        rows_by_time.add(tables, times, sizes)
        rows_by_rank.add(tables, ranks, sizes)
    every = TRANSACTIONS // MOST_STATEMENTS
    statements = tuple(
        StatementFact(
            rank, _FIRST_US + rank * _SPAN_US // TRANSACTIONS, "shop", _SQL[:500], "binlog.000001", rank * 500
        )
        for rank in range(every, TRANSACTIONS + 1, every)
    )
    keys = [OrderKey((at.us // 1000) << 22, at.rank, 0, 0) for at in statements]
    log = LogFacts(
        ("shared", "unknown", "statements", *names), TRANSACTIONS, 10**10, _FIRST_US, _FIRST_US + _SPAN_US,
        by_time, by_rank, bytes_by_time, bytes_by_rank,
        tuple(map(_counts, range(TABLES))),
        rows_by_time, rows_by_rank, statements, 3 * len(statements), None,
        {key: Placed(at.rank + 1, at.us) for key, at in zip(keys, statements, strict=True)},
    )  # fmt: skip
    lanes_of_nodes = NodeLanes(
        names, node_time, node_rank, (TRANSACTIONS // NODES,) * NODES, TRANSACTIONS, TRANSACTIONS, True
    )
    return Facts(
        "merged", 1_795_000_000.0, "0.1.0", _state(names, keys), log, _schemas(names, keys), lanes_of_nodes, Running()
    )


_TWO = ("shop_1.orders_1", "shop_1.orders_2")
_HOW = "trims a_column_with_a_long_name varchar(200); converts quantity bigint -> int"


def _counts(number: int) -> TableCounts:
    return TableCounts("shop", f"table_{number}", 10**6, 10**6, 10**5, 10**9, _FIRST_US, _FIRST_US + _SPAN_US)


def _schemas(names: tuple[str, ...], keys: list[OrderKey]) -> SchemaFacts:
    changes = ("+ column `a_column_with_a_long_name` varchar(200) NOT NULL DEFAULT 'x' after another_column",) * 8
    versions = {
        f"shop.table_{t}": tuple(
            Version(
                keys[t * 10 + n], t * 10 + n, "marker", "changed", _SQL[:400], changes, "/var/lib/node/binlog.000001:1"
            )
            for n in range(10)
        )
        for t in range(MOST_VERSIONS // 10)
    }
    ran = tuple(
        NodeDdl(
            keys[n % len(keys)], names[n % NODES], f"shop_{n % 9}.orders_{n % 7}", _SQL[:400], "/var/binlog.000001", n
        )
        for n in range(MOST_NODE_DDL)
    )
    skews = tuple(
        SkewSpan("ahead", False, "shop.orders", names[n % NODES], _TWO, keys[n], keys[n + 3], _HOW)
        for n in range(MOST_SKEWS)
    )  # fmt: skip
    return SchemaFacts(
        versions, ran, skews, {"logical": 20, "physical": 9000, "versions": 10_000}, None, {"versions": 9000}
    )


def _state(names: tuple[str, ...], keys: list[OrderKey]) -> ManifestState:
    files, each = MOST_FILES + 100, TRANSACTIONS // (MOST_FILES + 100)
    step = len(keys) // files or 1
    found = tuple(
        OutputFile(
            f"binlog.{n + 1:06d}", 1 << 29, True, keys[min(n * step, len(keys) - 1)].text(),
            keys[min(n * step + 1, len(keys) - 1)].text(), n * each + 1, (n + 1) * each, 1 << 29, each, each, "0" * 64,
        )
        for n in range(files)
    )  # fmt: skip
    header = Header(
        "11111111-2222-3333-4444-555555555555", "large", {n: i for i, n in enumerate(names, 1)}, "9.7.4", "", {}
    )
    return ManifestState(header, Publish(1, found, found[-1].last_key, found[-1].last_key, TRANSACTIONS, {}, {}), found)
