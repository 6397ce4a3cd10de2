"""Binlogs of a single data node made by hand, group by group, and what the scan makes of them."""

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import yaml

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.polardbx.names import TRANSACTION_LOG
from snapshot_store.tso import OrderKey
from tests.pipeline.scan.scanning import cut, ordered, scanned, tasks_of
from tests.simulator import wire
from tests.simulator.wire import Event

GCN, SEQUENCE = 105, 80


def gcn(value: int, flags: int) -> Event:
    return Event(GCN, bytes([flags]) + (struct.pack("<Q", value) if flags & 1 else b""), 0x80)


def sequence(value: int, kind: int) -> Event:
    return Event(SEQUENCE, bytes([kind]) + struct.pack("<Q", value), 0x80)


def text(transaction: int, group: str = "D_GROUP", format_id: int = 1) -> str:
    return f"X'{f'drds-{transaction:x}@1'.encode().hex()}',X'{group.encode().hex()}',{format_id}"


def rows(table: str = "t", schema: str = "d") -> list[Event]:
    """Return a table map and an INSERT of one BIGINT."""
    name = bytes([len(schema)]) + schema.encode() + b"\0" + bytes([len(table)]) + table.encode() + b"\0"
    table_id = (sum(table.encode()) + 1).to_bytes(6, "little")
    image = b"\2\0\1\1\0" + struct.pack("<q", 1)
    return [
        Event(wire.TABLE_MAP, table_id + b"\1\0" + name + b"\1\x08\0\0"),
        Event(wire.WRITE, table_id + b"\1\0" + image),
    ]


def start(transaction: int, *, one_phase: bool = False, group: str = "D_GROUP", format_id: int = 1, table: str = "t",
          schema: str = "d") -> list[Event]:  # fmt: skip
    """Return a branch from XA START to its prepare."""
    xid = text(transaction, group, format_id)
    prepare = struct.pack("<BIII", one_phase, format_id, 1, 1) + b"xy"
    return [
        wire.query(f"XA START {xid}"), *rows(table, schema), wire.query(f"XA END {xid}"),
        Event(wire.XA_PREPARE, prepare),
    ]  # fmt: skip


def end(
    transaction: int, verb: str = "COMMIT", group: str = "D_GROUP", format_id: int = 1, status: bytes = b""
) -> Event:
    return wire.query(f"XA {verb} {text(transaction, group, format_id)}", status=wire.SESSION + status)


def local(table: str = "t") -> list[Event]:
    return [wire.query("BEGIN"), *rows(table), wire.xid(7)]


def logged(transaction: int, tso: int | None, shape: str) -> list[Event]:
    """Return the row of a transaction in the transaction log, as clusters of two ages have it."""
    columns = {"new": bytes([8, 17, 254, 8, 252]), "old": bytes([8, 17, 254, 252, 8])}[shape]
    metas = {"new": b"\0\xf7\1\2", "old": b"\0\xf7\1\2"}[shape]
    name = b"\1d\0" + bytes([len(TRANSACTION_LOG)]) + TRANSACTION_LOG.encode() + b"\0"
    table_map = (99).to_bytes(6, "little") + b"\1\0" + name + b"\5" + columns + bytes([len(metas)]) + metas + b"\x1f"
    place = 3 if shape == "new" else 4
    cells = [struct.pack("<q", transaction), b"\x66\0\0\0", b"\4", b"\2\0ab"]
    if tso is not None:
        cells.insert(place, struct.pack("<q", tso))
    nulls = 0 if tso is not None else 1 << place
    row = (99).to_bytes(6, "little") + b"\1\0\2\0\5\x1f" + bytes([nulls]) + b"".join(cells)
    return [Event(wire.TABLE_MAP, table_map), Event(wire.WRITE, row)]


class Log:
    """One file of one node, growing by groups; `ends` are the offsets behind each."""

    def __init__(self, gtids: bool = True, server: int = 1) -> None:
        self.server = server
        self.data = bytearray(wire.MAGIC)
        self.data += wire.frame(
            Event(wire.FORMAT_DESCRIPTION, wire.format_description("8.0.32", 0, True)), 9, server, 4, True
        )
        self.gno = 0
        self.gtids = gtids
        self.starts: list[int] = []

    def write(self, event: Event) -> None:
        self.data += wire.frame(event, 1_790_000_000, self.server, len(self.data), True)

    def group(self, *events: Event, before: Sequence[Event] = ()) -> int:
        """Write a group, `before` in front of its GTID event; returns where it begins."""
        at = len(self.data)
        self.starts.append(at)
        for event in before:
            self.write(event)
        if self.gtids:
            self.gno += 1
            self.write(
                wire.Gtid(wire.GTID, bytes([self.server]) * 16, self.gno, 1_790_000_000_000_000 + self.gno).event(
                    len(self.starts) - 1, len(self.starts), events
                )
            )
        for event in events:
            self.write(event)
        return at

    def save(self, folder: Path, **commit_tso: str) -> Path:
        """Write the file with a configuration; returns the configuration."""
        (folder / "dn-1").mkdir(parents=True, exist_ok=True)
        (folder / "dn-1" / "binlog.000001").write_bytes(self.data)
        values = {
            "version": 1, "name": "made", "nodes": [{"source-id": "dn-1", "files": "dn-1/binlog.*"}],
            "commit-tso": commit_tso,
        }  # fmt: skip
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        return folder / "cluster.yaml"


def keys(config: Path, folder: Path, seed: int | None = None, pieces: int = 6) -> list[tuple[OrderKey, int]]:
    """Return (order key, offset) of every branch in global order; the file is cut into pieces by a seed."""
    tasks = tasks_of(config, "polardbx", folder)["dn-1"]
    if seed is not None:
        tasks = cut(tasks, random.Random(seed), pieces)
    node = scanned(config, tasks)
    assert node.error is None, node.error
    return [(key, begin) for key, _, begin, _ in ordered(node)]


def flags(config: Path, folder: Path) -> list[int]:
    """Return the flags of all branches with a commit TSO, in order of it."""
    node = scanned(config, tasks_of(config, "polardbx", folder)["dn-1"])
    return [int(f) & k.ARCHIVE for b in node.blocks for f in b.timed()["flags"]]
