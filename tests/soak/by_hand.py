"""Small histories written by hand with the simulator's packer: what a random one has shown, and nothing else."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.simulator import wire
from tests.simulator.columns import Column, Table, table_map
from tests.simulator.nodes import Manner, Node
from tests.simulator.rows import pack_image
from tests.simulator.transactions import COMMIT_ROWS, MARKER
from tests.simulator.wire import Event, xa_prepare, xa_text

TABLE = Table((Column("id", "bigint", nullable=False), Column("name", "varchar", 20)))


class Written:
    """Nodes dn-1, dn-2, … that insert into shop_0.t_0 (logical shop.t), and tell commit TSOs by the commit table."""

    def __init__(self, nodes: int = 1, **manner: Any) -> None:
        plain: dict[str, Any] = {
            "version": "9.7.0", "checksum": True, "gtids": "on", "image": "FULL", "full_metadata": True,
            "compression": 0.0, "rows_query": False,
        }  # fmt: skip
        self.rng = random.Random(0)
        self.rng.random = lambda: 0.9  # type: ignore[method-assign]  # nothing is left to chance
        self.nodes = [
            Node(Manner(f"dn-{i}", i, 100 + i, bytes([i] * 16), **(plain | manner)), self.rng, 1_790_000_000)
            for i in range(1, nodes + 1)
        ]
        for node in self.nodes:
            node.begin_file()

    def insert(self, node: Node, number: int, table: Table = TABLE, name: str = "t_0") -> list[Event]:
        """Return the events that insert one row into a shard."""
        values = {c.name: number if c.type == "bigint" else f"row {number}" for c in table.columns}
        head = (7).to_bytes(6, "little") + b"\1\0\2\0" + wire.lenenc(len(table.columns))
        row = wire.to_bits([True] * len(table.columns)) + pack_image(table.columns, values)
        mapped = table_map(table, "shop_0", name, 7, node.manner.full_metadata, self.rng)
        return [mapped, Event(wire.WRITE, head + row)]

    def local(self, node: Node, *numbers: int) -> None:
        rows = [event for n in numbers for event in self.insert(node, n)]
        node.group([wire.query("BEGIN"), *rows, wire.xid(1)], compressible=True)

    def prepare(self, node: Node, gtrid: bytes, rows: Sequence[Event]) -> None:
        start, end = (wire.query(xa_text(verb, gtrid, b"b")) for verb in ("START", "END"))
        node.group([start, *rows, end, xa_prepare(gtrid, b"b", False)], compressible=True)

    def tell(self, node: Node, gtrid: bytes, tso: int) -> None:
        body = (
            (8).to_bytes(6, "little") + b"\1\0\2\0\2\3" + pack_image(COMMIT_ROWS.columns, {"gtrid": gtrid, "tso": tso})
        )
        mapped = table_map(COMMIT_ROWS, "__cdc__", "__commit_ts__", 8, True, self.rng)
        node.group([wire.query("BEGIN"), mapped, Event(wire.WRITE, body), wire.xid(2)])

    def commit(self, node: Node, gtrid: bytes, original_us: int | None = None) -> None:
        node.group([wire.query(xa_text("COMMIT", gtrid, b"b"))], original_us=original_us)

    def distributed(self, tso: int, number: int) -> None:
        """Write a whole XA transaction on every node."""
        gtrid = b"drds-%x@%016x" % (tso, tso)
        for node in self.nodes:
            self.prepare(node, gtrid, self.insert(node, number + node.manner.number))
            self.tell(node, gtrid, tso)
            self.commit(node, gtrid)

    def marker(self, tso: int, sql: str, meta: str | None = None) -> None:
        """Write a DDL marker on every node."""
        values = dict.fromkeys((c.name for c in MARKER.columns), None) | {
            "ID": tso, "SQL_KIND": "DDL", "SCHEMA_NAME": "shop", "DDL_SQL": sql, "META_INFO": meta, "VISIBILITY": 1,
            "GMT_CREATED": (2026, 9, 21, 1, 2, 3, 0),
        }  # fmt: skip
        gtrid = b"drds-%x@%016x" % (tso, tso)
        for node in self.nodes:
            mapped = table_map(MARKER, "__cdc__", "__cdc_ddl_record__", 9, True, self.rng)
            head = (9).to_bytes(6, "little") + b"\1\0\2\0" + b"\x0a\xff\x03"
            self.prepare(node, gtrid, [mapped, Event(wire.WRITE, head + pack_image(MARKER.columns, values))])
            self.tell(node, gtrid, tso)
            self.commit(node, gtrid)

    def save(self, folder: Path, carrier: str = "commit-table", **output: Any) -> Path:
        """Write the case; returns its configuration."""
        (folder / "base").mkdir(parents=True, exist_ok=True)
        (folder / "base" / "logical.sql").write_text(f"CREATE DATABASE shop; USE shop; {TABLE.create('t')};")
        for node in self.nodes:
            (folder / "nodes" / node.source_id).mkdir(parents=True, exist_ok=True)
            for i, data in enumerate(node.files):
                (folder / "nodes" / node.source_id / node.name(i)).write_bytes(data)
        route = {"schema-pattern": "shop_*", "table-pattern": "t_*", "target-schema": "shop", "target-table": "t"}
        values = {
            "version": 1, "name": "by-hand", "routes": [route], "base": {"logical": "base/logical.sql"},
            "nodes": [{"source-id": n.source_id, "files": f"nodes/{n.source_id}/binlog.*"} for n in self.nodes],
            "commit-tso": {"carrier": carrier}, "output": {"dependencies": "commit-order", **output},
        }  # fmt: skip
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        return folder / "cluster.yaml"
