"""What holding costs: a shard that changed its table writes millions of transactions until the other changes its own.

    python -m benchmarks.held [--transactions 10000000] [--out build/bench]

The same transactions are merged twice: with the other shard's ALTER TABLE behind them all, so that every one is held
and comes out at its place, and with it before them, so that none is. Holding may take memory for the index of what is
held, never for its rows.
"""

import argparse
import json
import shutil
import struct
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.generate import STATUS, source_id
from benchmarks.measure import MIB, Memory
from benchmarks.schedule import FIRST_MILLIS
from benchmarks.tables import table_map
from binlog_merge.binlog.constants import BINLOG_MAGIC, EventType
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.base.pieces import view
from snapshot_store.ddl import parse_dump

CREATE = "CREATE TABLE `orders` (`id` bigint NOT NULL, `name` varchar(40) NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;"
ALTER = "ALTER TABLE orders ADD COLUMN note varchar(20) DEFAULT NULL"
PER_FILE = 1_000_000
INDEX_BYTES = 40
"""What a held transaction may take: where it is and where it goes, while that is put in order."""


def _framed(kind: int, body: bytes, position: int, server_id: int) -> bytes:
    """Return an event without a checksum."""
    size = 19 + len(body)
    return struct.pack("<IBIIIH", FIRST_MILLIS // 1000, kind, server_id, size, position + size, 0) + body


def _head(server_id: int) -> bytes:
    """Return the beginning of a file whose events carry no checksums (a FORMAT_DESCRIPTION_EVENT always has one)."""
    from binlog_merge.binlog.control import FormatDescription
    from binlog_merge.binlog.header import pack_event

    head = BINLOG_MAGIC + pack_event(
        EventType.FORMAT_DESCRIPTION_EVENT, FormatDescription("9.7.4", checksum_alg=0).pack(),
        timestamp=FIRST_MILLIS // 1000, server_id=server_id, position=4,
    )  # fmt: skip
    return head + _framed(EventType.PREVIOUS_GTIDS_LOG_EVENT, bytes(8), len(head), server_id)


def _gtid(server_id: int, gno: int, micros: int, rest: int) -> bytes:
    """Return a GTID event's body, before `rest` bytes of other events: its length counts itself."""
    gtid = Gtid(0, uuid.UUID(int=server_id).bytes, gno, gno - 1, gno, micros, micros, 0, 90704, 90704)
    length = 19 + len(gtid.pack()) + rest
    return replace(gtid, transaction_length=length if length < 251 else length + 2).pack()


def _query(text: str, schema: str = "") -> bytes:
    name = schema.encode()
    return struct.pack("<IIBHH", 18, 0, len(name), 0, len(STATUS)) + STATUS + name + b"\0" + text.encode()


def _group(bodies: list[tuple[int, bytes]], server_id: int, gno: int, micros: int, position: int) -> bytes:
    rest = sum(19 + len(body) for _, body in bodies)
    data = b""
    for kind, body in ((int(EventType.GTID_LOG_EVENT), _gtid(server_id, gno, micros, rest)), *bodies):
        data += _framed(kind, body, position + len(data), server_id)
    return data


def _ddl(text: str, server_id: int, gno: int, micros: int, position: int) -> bytes:
    return _group([(EventType.QUERY_EVENT, _query(text, "shop_1"))], server_id, gno, micros, position)


def _rows(
    table: bytes, server_id: int, first: int, count: int, position: int, sequence: int
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield transactions of one row each, many at once: one is the pattern of all, but for numbers and positions.

    The first has the sequence number `sequence` in its file.
    """
    row = struct.pack("<IHHHBB", 100, 0, 1, 2, 3, 0xFF) + b"\0" + bytes(8) + b"\x14" + b"by somebody, someday"
    row += b"\x04note"
    bodies = [
        (int(EventType.QUERY_EVENT), _query("BEGIN")),
        (int(EventType.TABLE_MAP_EVENT), table),
        (int(EventType.WRITE_ROWS_EVENT), row),
        (int(EventType.XID_EVENT), bytes(8)),
    ]
    micros = FIRST_MILLIS * 1000
    one = _group(bodies, server_id, 1, micros, 0)
    gno_at, time_at = one.index(struct.pack("<Qb", 1, 2), 19), one.index(micros.to_bytes(7, "little"))
    id_at = one.index(b"by somebody") - 9
    ends, at = [], 0
    while at < len(one):
        ends.append(at)
        at += int.from_bytes(one[at + 9 : at + 13], "little")
    for start in range(0, count, 100_000):
        n = min(100_000, count - start)
        data = np.tile(np.frombuffer(one, np.uint8), (n, 1))
        number = first + start + np.arange(n, dtype=np.int64)
        _put(data, gno_at, number, 8)
        _put(data, gno_at + 9, sequence - 1 + start + np.arange(n, dtype=np.int64), 8)  # what it waits for, and
        _put(data, gno_at + 17, sequence + start + np.arange(n, dtype=np.int64), 8)  # its own sequence number
        _put(data, time_at, micros + number, 7)
        _put(data, id_at, number, 8)
        begins = position + (start + np.arange(n, dtype=np.int64)) * len(one)
        for event in ends:
            _put(data, event + 13, begins + event + int.from_bytes(one[event + 9 : event + 13], "little"), 4)
        yield data.reshape(-1)


def _put(data: np.ndarray[Any, Any], at: int, values: np.ndarray[Any, Any], width: int) -> None:
    data[:, at : at + width] = values.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]


def make(folder: Path, transactions: int, *, held: bool) -> str:
    """Write both shards; returns the path of cluster.yaml."""
    (folder / "base").mkdir(parents=True)
    dump = f"CREATE DATABASE `shop_1`;\nUSE `shop_1`;\n{CREATE}\n"
    names = [source_id(0), source_id(1)]
    for name in names:
        (folder / "base" / f"{name}.sql").write_text(dump)
        (folder / "nodes" / name).mkdir(parents=True)
    (folder / "base" / "logical.sql").write_text(dump.replace("shop_1", "shop"))
    changed = parse_dump(dump.replace("NOT NULL, PRIMARY", "NOT NULL, `note` varchar(20) DEFAULT NULL, PRIMARY"))
    table = table_map(changed.tables["shop_1", "orders"], 100).pack()
    gno = 1
    for number, start in enumerate(range(0, transactions, PER_FILE), 1):
        with (folder / "nodes" / names[0] / f"binlog.{number:06d}").open("wb") as file:
            file.write(_head(1))
            if start == 0:
                file.write(_ddl(ALTER, 1, 1, FIRST_MILLIS * 1000, file.tell()))
            for data in _rows(table, 1, gno + 1, min(PER_FILE, transactions - start), file.tell(), 1 if start else 2):
                file.write(view(data))
            gno += min(PER_FILE, transactions - start)
            if start + PER_FILE < transactions:
                following = struct.pack("<Q", 4) + f"binlog.{number + 1:06d}".encode()
                file.write(_framed(EventType.ROTATE_EVENT, following, file.tell(), 1))
    with (folder / "nodes" / names[1] / "binlog.000001").open("wb") as file:
        file.write(_head(2))
        moment = FIRST_MILLIS * 1000 + (transactions + 10 if held else 0)
        file.write(_ddl(ALTER, 2, 1, moment, file.tell()))
    document = {
        "version": 1, "name": "held", "nodes": [{"source-id": n, "files": [f"nodes/{n}/binlog.*"]} for n in names],
        "routes": [{"schema-pattern": "shop_*", "table-pattern": "orders", "target-schema": "shop",
                    "target-table": "orders"}],
        "shard-mode": "pessimistic", "commit-tso": {"carrier": "gtid-time"},
        "base": {"logical": "base/logical.sql", "physical": {n: f"base/{n}.sql" for n in names}},
    }  # fmt: skip
    config = folder / "cluster.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return str(config)


def run_one(spark: Any, folder: Path, transactions: int, *, held: bool) -> dict[str, Any]:
    """Merge one of the two; returns seconds and peaks."""
    from binlog_merge.spark.job import merge

    shutil.rmtree(folder, ignore_errors=True)
    try:
        config = MergeConfig.load(make(folder, transactions, held=held))
        begun = time.perf_counter()
        with Memory() as memory:
            result = merge(spark, config, folder / "merged", end_of_input=True)
        seconds = time.perf_counter() - begun
        if result.transactions != transactions + 1 or result.waiting:
            raise RuntimeError(f"{result.transactions} transactions came out, {result.waiting} branches wait")
        return {
            "input_mib": result.input_bytes // MIB, "seconds": round(seconds, 2), "stages": dict(result.stages),
            "mb_per_s": round(result.input_bytes / seconds / 1e6, 1), **memory.mib(),
        }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(spark: Any, out: Path, transactions: int) -> dict[str, Any]:
    """Measure both; `index_mib` is what holding may take beside."""
    run_one(spark, out / "held-none", 1000, held=True)  # loads kernels and wakes workers
    flowing = run_one(spark, out / "held-none", transactions, held=False)
    held = run_one(spark, out / "held-all", transactions, held=True)
    index = transactions * INDEX_BYTES // MIB
    return {
        "transactions": transactions, "not_held": flowing, "held": held, "index_mib": index,
        "met": held["python_pss_mib"] <= flowing["python_pss_mib"] + index,
    }  # fmt: skip


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transactions", type=int, default=10_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--out", default="build/bench")
    arguments = parser.parse_args()
    from binlog_merge.spark.session import create_session

    spark = create_session(arguments.master, {"spark.ui.showConsoleProgress": "false"})
    try:
        print(json.dumps(run(spark, Path(arguments.out), arguments.transactions), indent=1))
    finally:
        spark.stop()
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main()
