"""What a marker says of the cluster's shape: META_INFO of a DDL record, and the contents of instructions, all JSON.

    logicDbMeta      {schema, charset, phySchemas: [{storageInstId, group, schema}]}
    logicTableMeta   {tableName, tableType, tableCollation, createSql, createSql4Phy,
                      phySchemas: [{storageInstId, group, schema, phyTables: […]}]}
    logicDbMetas     [logicDbMeta with logicTableMetas: […]]       CdcStart, MetaSnapshot: everything there is
    storageInstList  […]                                           StorageInstChange: the nodes from now on

(polardbx-sql `LogicMeta`, `StorageChangeEntity`). Names are lower-cased, as the cluster compares them; node names stay.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class TableType(IntEnum):
    """How a logical table is spread."""

    SINGLE = 0
    SHARDING = 1
    BROADCAST = 2
    GSI = 3


@dataclass(frozen=True, slots=True)
class Group:
    """One physical schema: the node (storage instance) it lies on, and its group."""

    storage: str
    group: str
    schema: str


@dataclass(frozen=True, slots=True)
class Placement:
    """The physical tables of a logical one in one group."""

    storage: str
    group: str
    schema: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableMeta:
    """A logical table and where it lies. The SQL is the cluster's; `create_sql_for_physical` where columns stand in
    another order in the physical tables.
    """

    name: str
    type: TableType
    placements: tuple[Placement, ...]
    collation: str | None = None
    create_sql: str | None = None
    create_sql_for_physical: str | None = None


@dataclass(frozen=True, slots=True)
class DatabaseMeta:
    """A logical schema, its groups, and, in a snapshot, its tables."""

    name: str
    charset: str | None
    groups: tuple[Group, ...]
    tables: tuple[TableMeta, ...] = ()


@dataclass(frozen=True, slots=True)
class MetaInfo:
    """META_INFO of a DDL record: a database, a table, or nothing."""

    database: DatabaseMeta | None = None
    table: TableMeta | None = None


class MetaError(ValueError):
    """JSON of a marker that is not what the cluster writes."""


def parse_meta_info(text: str | None) -> MetaInfo:
    """Read META_INFO; NULL and an empty text say nothing. Raises MetaError."""
    if text is None or not text.strip():
        return MetaInfo()
    values = _json(text)
    if values is None:
        return MetaInfo()
    values = _mapping(values, "META_INFO")
    database, table = values.get("logicDbMeta"), values.get("logicTableMeta")
    return MetaInfo(None if database is None else _database(database), None if table is None else _placed(table))


def parse_snapshot(text: str) -> tuple[DatabaseMeta, ...]:
    """Read the content of CdcStart or MetaSnapshot. Raises MetaError."""
    values = _mapping(_json(text), "the snapshot")
    return tuple(_database(one) for one in _sequence(values.get("logicDbMetas"), "logicDbMetas"))


def parse_storage_list(text: str) -> tuple[str, ...]:
    """Read the content of StorageInstChange: the nodes from there on, sorted. Raises MetaError."""
    values = _json(text)
    if isinstance(values, dict):
        found = next((values[name] for name in ("storageInstList", "storageInstIds") if name in values), None)
        values = found
    names = {_name(one, "a storage instance") for one in _sequence(values, "the list of storage instances")}
    if not names:
        raise MetaError("the list of storage instances is empty")
    return tuple(sorted(names))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MetaError(f"not JSON: {error}") from None


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MetaError(f"{what} is no JSON object")
    return value


def _sequence(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise MetaError(f"{what} is no JSON list")
    return value


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise MetaError(f"{what} has no name")
    return value


def _optional(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _database(value: Any) -> DatabaseMeta:
    values = _mapping(value, "logicDbMeta")
    groups = tuple(
        Group(
            _name(one.get("storageInstId"), "a storage instance"),
            _name(one.get("group"), "a group").lower(),
            _name(one.get("schema"), "a physical schema").lower(),
        )
        for one in (_mapping(g, "phySchemas") for g in _sequence(values.get("phySchemas") or [], "phySchemas"))
    )
    tables = tuple(_table(one) for one in _sequence(values.get("logicTableMetas") or [], "logicTableMetas"))
    return DatabaseMeta(
        _name(values.get("schema"), "a logical schema").lower(), _optional(values, "charset"), groups, tables
    )


def _table(value: Any) -> TableMeta:
    values = _mapping(value, "logicTableMeta")
    kind = values.get("tableType", TableType.SHARDING)
    if not isinstance(kind, int) or kind not in set(TableType):
        raise MetaError(f"{kind!r} is no type of a table: 0 single, 1 sharding, 2 broadcast, 3 GSI")
    placements = tuple(_placement(one) for one in _sequence(values.get("phySchemas") or [], "phySchemas"))
    return TableMeta(
        _name(values.get("tableName"), "a logical table").lower(),
        TableType(kind),
        placements,
        _optional(values, "tableCollation"),
        _optional(values, "createSql"),
        _optional(values, "createSql4Phy"),
    )


def _placed(value: Any) -> TableMeta:
    """Return a table that lies somewhere; all rows of one that does not would be lost in silence."""
    table = _table(value)
    if table.type != TableType.GSI and not any(placement.tables for placement in table.placements):
        raise MetaError(f"table {table.name} has no physical tables: phySchemas names none")
    return table


def _placement(value: Any) -> Placement:
    values = _mapping(value, "phySchemas")
    tables = _sequence(values.get("phyTables") or [], "phyTables")
    return Placement(
        _name(values.get("storageInstId"), "a storage instance"),
        _name(values.get("group"), "a group").lower(),
        _name(values.get("schema"), "a physical schema").lower(),
        tuple(_name(one, "a physical table").lower() for one in tables),
    )
