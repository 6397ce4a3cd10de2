"""Scanning one node's files in any pieces, and what the order stage makes of them."""

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.directory import discover
from binlog_merge.files.manifest import ManifestState
from binlog_merge.pipeline.assemble.driver import assemble_node
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.blocks import read_block
from binlog_merge.pipeline.order.ordered import OrderTask
from binlog_merge.pipeline.order.task import GREATEST, LEAST, order
from binlog_merge.pipeline.scan.driver import misread
from binlog_merge.pipeline.scan.inputs import node_inputs, scan_tasks
from binlog_merge.pipeline.scan.task import scan
from binlog_merge.pipeline.scan.values import PieceBlock, ScanTask
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.oracle.config import load
from tests.oracle.order import NodeOrder, choose_carrier, order_node, read_node, table_maps

END = OrderKey((1 << 63) - 1, 0, 0, 0)
Row = tuple[OrderKey, int, int, int]  # key, file, start, end


@dataclass(frozen=True)
class Expected:
    """What the oracle finds in one node's log; DDL apart."""

    rows: tuple[Row, ...]
    ddl: tuple[OrderKey, ...]
    watermark: OrderKey | None


def tasks_of(config: Path, carrier: str, folder: Path) -> dict[str, list[ScanTask]]:
    """Return the scan tasks of every node, one per file."""
    settings = MergeConfig.load(config)
    inputs = node_inputs(discover(settings), settings.node_numbers(), ManifestState())
    tasks: dict[str, list[ScanTask]] = {}
    for task in scan_tasks(inputs, settings, carrier, str(folder / "piece"), None, frozenset()):
        tasks.setdefault(task.node, []).append(task)
    return tasks


def cut(tasks: Sequence[ScanTask], rng: random.Random, pieces: int) -> list[ScanTask]:
    """Cut every file at random places."""
    found = []
    for task in tasks:
        places = sorted({4, *(rng.randrange(4, task.size) for _ in range(rng.randint(0, pieces - 1)))})
        for start, stop in zip(places, [*places[1:], task.stop], strict=True):
            number = len(found)
            block = PieceBlock(f"{Path(task.block.path).parent}/cut-{number:06d}")
            exact = start == task.start
            found.append(replace(task, piece=number, start=start, stop=stop, block=block, exact=exact))
    return found


def scanned(config: Path, tasks: Sequence[ScanTask], end_of_input: bool = True) -> ScannedNode:
    """Scan and assemble one node."""
    settings = MergeConfig.load(config)
    inputs = node_inputs(discover(settings), settings.node_numbers(), ManifestState())
    node = next(n for n in inputs if n.source_id == tasks[0].node)
    results = [scan(task) for task in tasks]
    assert not misread(results, {(t.node, t.file_index): t.size for t in tasks})
    return assemble_node(node, results, [t.block for t in tasks], end_of_input)


def ordered(node: ScannedNode, ranges: Sequence[tuple[int, int]] = ((LEAST, GREATEST),)) -> tuple[Row, ...]:
    """Return the rows of one node in global order, markers among them, of all ranges one after the other."""
    markers = {(tso, transaction) for piece in node.pieces for tso, transaction, _, _ in piece.markers}
    markers |= {(e.tso, e.transaction) for e in node.edges if e.flags & 2}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (low, high) in enumerate(ranges):
            task = OrderTask(
                number, low, high, ORIGIN, END, tuple(node.blocks), tuple(node.edges), Topology(), frozenset(markers),
                {}, f"{folder}/{number}.arrow",
            )  # fmt: skip
            order(task)
            columns = {name: values.tolist() for name, values in read_block(task.path).items()}
            key = zip(*(columns[n] for n in ("tso", "transaction", "seq", "node_seq")), strict=True)
            where = zip(*(columns[n] for n in ("file", "start", "end")), strict=True)
            rows += [(OrderKey(*k), *w) for k, w in zip(key, where, strict=True)]
    return tuple(rows)


def expected(config: Path, carrier: str | None = None) -> tuple[str, dict[str, Expected]]:
    """Return the carrier, by default that of the configuration, and what every node's log holds; with the clocks of
    nodes for a carrier, without the markers, which need a commit TSO.
    """
    cluster = load(config)
    inputs = [(node, *read_node(node)) for node in cluster.nodes]
    carrier = carrier or choose_carrier(cluster, [g for _, _, groups in inputs for g in groups])
    hidden = {cluster.marker_schema} if carrier == "gtid-time" else set()
    found = {n.source_id: _expected(order_node(cluster, n, version, g, carrier), hidden) for n, version, g in inputs}
    return carrier, found


def _expected(node: NodeOrder, hidden: set[str]) -> Expected:
    rows = sorted(
        (OrderKey(*b.key), b.rows.file_number, b.rows.start, b.rows.start + b.rows.size)
        for b in node.branches
        if (names := [name for name, _ in table_maps(b.rows)])
        and not any(schema in hidden and table.startswith("__cdc_ddl") for schema, table in names)
    )
    watermark = node.watermark()
    return Expected(
        tuple(rows),
        tuple(OrderKey(*b.key) for b in node.ddl),
        None if watermark is None else OrderKey(*watermark),
    )
