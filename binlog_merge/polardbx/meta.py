"""The JSON in markers that describes the cluster's schemas: META_INFO of a DDL record, and the content of instructions.

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
    """How a logical table is distributed."""

    SINGLE = 0
    SHARDING = 1
    BROADCAST = 2
    GSI = 3


@dataclass(frozen=True, slots=True)
class Group:
    """One physical schema: its node (storage instance) and its group."""

    storage: str
    group: str
    schema: str


@dataclass(frozen=True, slots=True)
class Placement:
    """The physical tables of a logical table in one group."""

    storage: str
    group: str
    schema: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableMeta:
    """A logical table and the placement of its physical tables.

    The SQL is the cluster's own. `create_sql_for_physical` is set if the physical tables have their columns in another
    order.
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
    """META_INFO of a DDL record: a database, a table, or neither."""

    database: DatabaseMeta | None = None
    table: TableMeta | None = None


class MetaError(ValueError):
    """JSON of a marker that does not have the cluster's format."""


def parse_meta_info(text: str | None) -> MetaInfo:
    """Parse META_INFO; NULL and empty text give an empty MetaInfo. Raises MetaError."""
    if text is None or not text.strip():
        return MetaInfo()
    values = _json(text)
    if values is None:
        return MetaInfo()
    values = _mapping(values, "META_INFO")
    database, table = values.get("logicDbMeta"), values.get("logicTableMeta")
    return MetaInfo(None if database is None else _database(database), None if table is None else _placed(table))


def parse_snapshot(text: str) -> tuple[DatabaseMeta, ...]:
    """Parse the content of CdcStart or MetaSnapshot. Raises MetaError."""
    values = _mapping(_json(text), "the snapshot")
    return tuple(_database(meta) for meta in _sequence(values.get("logicDbMetas"), "logicDbMetas"))


def parse_storage_list(text: str) -> tuple[str, ...]:
    """Parse the content of StorageInstChange: the cluster's storage instances from then on, sorted.

    Raises MetaError.
    """
    values = _json(text)
    if isinstance(values, dict):
        values = next((values[name] for name in ("storageInstList", "storageInstIds") if name in values), None)
    names = {_name(storage, "a storage instance") for storage in _sequence(values, "the list of storage instances")}
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
            _name(group.get("storageInstId"), "a storage instance"),
            _name(group.get("group"), "a group").lower(),
            _name(group.get("schema"), "a physical schema").lower(),
        )
        for group in (_mapping(g, "phySchemas") for g in _sequence(values.get("phySchemas") or [], "phySchemas"))
    )
    tables = tuple(_table(meta) for meta in _sequence(values.get("logicTableMetas") or [], "logicTableMetas"))
    return DatabaseMeta(
        _name(values.get("schema"), "a logical schema").lower(), _optional(values, "charset"), groups, tables
    )


def _table(value: Any) -> TableMeta:
    values = _mapping(value, "logicTableMeta")
    kind = values.get("tableType", TableType.SHARDING)
    if not isinstance(kind, int) or kind not in set(TableType):
        raise MetaError(f"{kind!r} is no type of a table: 0 single, 1 sharding, 2 broadcast, 3 GSI")
    placements = tuple(_placement(schema) for schema in _sequence(values.get("phySchemas") or [], "phySchemas"))
    return TableMeta(
        _name(values.get("tableName"), "a logical table").lower(),
        TableType(kind),
        placements,
        _optional(values, "tableCollation"),
        _optional(values, "createSql"),
        _optional(values, "createSql4Phy"),
    )


def _placed(value: Any) -> TableMeta:
    """Return the table of a DDL record. Raises MetaError if it has no physical tables: its rows would be lost."""
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
        tuple(_name(table, "a physical table").lower() for table in tables),
    )
