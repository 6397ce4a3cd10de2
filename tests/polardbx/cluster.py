"""Logical tables of a simulated PolarDB-X cluster, the physical ones that make them, and what their topology says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.polardbx.columns import keyed
from tests.simulator.columns import Column, Table, Value

Key = tuple[int, int, int, int]
SINGLE, SHARDED, BROADCAST = 0, 1, 2
FOREVER: Key = (2**63, 0, 0, 0)

DDL_RECORD = Table(
    (
        Column("ID", "bigint", nullable=False),
        Column("JOB_ID", "bigint"),
        Column("SQL_KIND", "varchar", 50, nullable=False),
        Column("SCHEMA_NAME", "varchar", 200, nullable=False),
        Column("TABLE_NAME", "varchar", 200),
        Column("GMT_CREATED", "datetime", nullable=False),
        Column("DDL_SQL", "mediumtext", nullable=False),
        Column("META_INFO", "mediumtext"),
        Column("VISIBILITY", "bigint", nullable=False),
        Column("EXT", "text"),
    )
)
INSTRUCTION = Table(
    (
        Column("ID", "bigint", nullable=False),
        Column("INSTRUCTION_TYPE", "varchar", 50, nullable=False),
        Column("INSTRUCTION_CONTENT", "mediumtext", nullable=False),
        Column("GMT_CREATED", "datetime", nullable=False),
        Column("INSTRUCTION_ID", "varchar", 50, nullable=False),
    )
)
HEARTBEAT = Table(
    (
        Column("id", "bigint", nullable=False),
        Column("sname", "varchar", 10),
        Column("gmt_modified", "datetime", 0, 3, nullable=False),
    )
)
SYNC_POINT = Table((Column("ID", "bigint", nullable=False), Column("GMT_CREATED", "datetime", 0, 3, nullable=False)))
OWN = {"__cdc_ddl_record__": DDL_RECORD, "__cdc_instruction__": INSTRUCTION, "__cdc_heartbeat__": HEARTBEAT}
TRANSACTION_LOG = Table(
    (
        Column("TXID", "bigint", nullable=False),
        Column("START_TIME", "datetime", nullable=False),
        Column("TYPE", "enum", members=("TCC", "XA", "BED", "TSO", "HLC"), nullable=False),
        Column("STATE", "enum", members=("PREPARE", "COMMIT", "ROLLBACK", "SUCCEED", "ABORTED"), nullable=False),
        Column("RETRIES", "int", nullable=False),
        Column("COMMIT_TS", "bigint"),
        Column("PARTICIPANTS", "blob"),
        Column("SERVER_ADDR", "varchar", 21, nullable=False),
        Column("CONTEXT", "text", nullable=False),
    )
)
"""The oldest clusters' table of commit TSOs, in every physical schema."""
REDO_LOG = Table((Column("TXID", "bigint", nullable=False), Column("INFO", "text")))
MACHINERY = {"__drds_global_tx_log": TRANSACTION_LOG, "__drds_redo_log": REDO_LOG, "polarx_global_trx_log": REDO_LOG}
"""Tables of the transaction machinery, whose rows never come out."""


@dataclass(frozen=True)
class Group:
    """A physical schema on a node, under the name that transactions and the topology have for it."""

    name: str
    node: str
    schema: str

    def branch(self, view: int | None = None) -> bytes:
        """Return what a branch of the group is called: a long name is hashed, so that all of it has 64 bytes."""
        name = self.name.encode()
        if len(name) > 59:
            name = b"%x" % fnv1a(name)
        return name if view is None else b"%s@%04d" % (name, view)


def fnv1a(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


@dataclass(eq=False)
class Shard:
    """A physical table with its rows. It belongs to `member` between the keys that stand with it."""

    group: Group
    name: str
    table: Table
    rows: dict[int, dict[str, Value]] = field(default_factory=dict)
    member: list[tuple["Logical", Key, Key]] = field(default_factory=list)
    held: int = 0  # branches under way that have written it

    @property
    def node(self) -> str:
        return self.group.node

    def joins(self, logical: "Logical", key: Key) -> None:
        self.member.append((logical, key, FOREVER))

    def leaves(self, key: Key) -> None:
        logical, since, _ = self.member[-1]
        self.member[-1] = (logical, since, key)

    def logical_at(self, key: Key) -> "Logical | None":
        """Return the logical table a row of this key belongs to; None if it never comes out."""
        return next((logical for logical, since, until in self.member if since < key < until), None)


@dataclass(eq=False)
class Logical:
    """A logical table. What a row is written to is `shards`, and `mirror` while tables are moved or made anew."""

    schema: str
    name: str
    kind: int
    table: Table
    shards: list[Shard]
    mirror: list[Shard] | None = None
    copies: list[Shard] = field(default_factory=list)  # of a broadcast table, on the other groups
    index: list[Shard] = field(default_factory=list)  # a global secondary index
    open: bool = True
    bank: bool = False
    listed: bool = False  # of a broadcast table, the copies are in its topology too
    locked: set[int] = field(default_factory=set)
    next_row: int = 1
    serial: int = 0
    versions: list[tuple[Key, str, Table]] = field(default_factory=list)  # since when it has this name and shape

    def at(self, key: Key) -> tuple[str, Table]:
        """Return its full name and its shape as a row of this key sees them."""
        _, name, table = max((v for v in self.versions if v[0] < key), key=lambda v: v[0])
        return f"{self.schema}.{name}", table

    @property
    def all_shards(self) -> list[Shard]:
        return list(dict.fromkeys([*self.shards, *(self.mirror or ()), *self.copies, *self.index]))

    def homes(self, row: int) -> list[Shard]:
        """Return the physical tables that hold a row, each once."""
        found = [part[row % len(part)] for part in (self.shards, self.mirror or [], self.index) if part]
        return list(dict.fromkeys([*found, *self.copies]))

    def create_sql(self, name: str | None = None) -> str:
        """Return what the user wrote."""
        return self.table.create(f"`{name or self.name}`")

    def stored_sql(self, name: str | None = None) -> str:
        """Return what the cluster keeps: with the key that it has given the table."""
        return keyed(self.table).create(f"`{name or self.name}`")

    @property
    def told(self) -> list[Shard]:
        """Return the physical tables that a topology names."""
        return [*self.shards, *self.copies] if self.listed else self.shards


def settled(table: Table) -> Table:
    """Return the table once a MODIFY is over: every column takes all its values."""
    return replace(table, columns=tuple(replace(c, safe=None) for c in table.columns))


# What markers and instructions say


def table_meta(logical: Logical, shards: Sequence[Shard] | None = None, name: str | None = None) -> dict[str, Any]:
    """Return logicTableMeta of META_INFO."""
    places: dict[Group, list[str]] = {}
    for shard in logical.told if shards is None else shards:
        places.setdefault(shard.group, []).append(shard.name)
    return {
        "tableName": name or logical.name,
        "tableCollation": "utf8mb4_0900_ai_ci",
        "tableType": logical.kind,
        "createSql": logical.stored_sql(name),
        "phySchemas": [{**_group(group), "phyTables": tables} for group, tables in places.items()],
    }


def db_meta(schema: str, groups: Sequence[Group]) -> dict[str, Any]:
    """Return logicDbMeta of META_INFO."""
    return {"schema": schema, "charset": "utf8mb4", "phySchemas": [_group(group) for group in groups]}


def snapshot(schemas: dict[str, list[Group]], tables: Sequence[Logical]) -> str:
    """Return the content of CdcStart and MetaSnapshot: everything there is."""
    metas = [
        db_meta(schema, groups) | {"logicTableMetas": [table_meta(t) for t in tables if t.schema == schema]}
        for schema, groups in schemas.items()
    ]
    return json.dumps({"logicDbMetas": metas})


def _group(group: Group) -> dict[str, str]:
    return {"storageInstId": group.node, "group": group.name, "schema": group.schema}
