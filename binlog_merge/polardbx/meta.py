"""The JSON in markers: META_INFO of a DDL record and the content of instructions, which describe the cluster's schemas;
and EXT, which the cluster adds to a statement (polardbx-sql `DDLExtInfo`).

    logicDbMeta      {schema, charset, phySchemas: [{storageInstId, group, schema}]}
    logicTableMeta   {tableName, tableType, tableCollation, createSql, createSql4Phy,
                      phySchemas: [{storageInstId, group, schema, phyTables: […]}]}
    logicDbMetas     [logicDbMeta with logicTableMetas: […]]       CdcStart, MetaSnapshot: everything there is
    storageInstList  […]                                           StorageInstChange: the nodes from now on

(polardbx-sql `LogicMeta`, `StorageChangeEntity`). Names are lower-cased, as the cluster compares them; node names stay.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Extension:
    """EXT as typed values. Fields that it lacks are None or False; `values` has everything, also unknown fields."""

    task_id: int | None = None
    task_sub_seq: int | None = None
    create_sql_for_physical: str | None = None
    server_id: int | None = None
    sql_mode: str | None = None
    use_omc: bool = False
    group_name: str | None = None
    is_gsi: bool = False
    is_cci: bool = False
    original_ddl: str | None = None
    ddl_scope: int | None = None
    manually_created_table_group: bool = False
    enable_implicit_table_group: bool = False
    foreign_keys_ddl: bool = False
    flags2: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> "Extension":
        """Parse the column; NULL and empty text give an empty Extension. Raises ValueError if the text is not a JSON
        object.
        """
        values = _object(text)
        variables = values.get("polarxVariables")
        return cls(
            task_id=_number(values, "taskId"),
            task_sub_seq=_number(values, "taskSubSeq"),
            create_sql_for_physical=_text(values, "createSql4PhyTable"),
            server_id=_number(values, "serverId"),
            sql_mode=_text(values, "sqlMode"),
            use_omc=_flag(values, "useOMC"),
            group_name=_text(values, "groupName"),
            is_gsi=_flag(values, "isGsi") or _flag(values, "gsi"),
            is_cci=_flag(values, "isCci") or _flag(values, "cci"),
            # `orginalDdl`: a misspelling of older clusters.
            original_ddl=_text(values, "originalDdl") or _text(values, "orginalDdl"),
            ddl_scope=_number(values, "ddlScope"),
            manually_created_table_group=_flag(values, "manuallyCreatedTableGroup"),
            enable_implicit_table_group=_flag(values, "enableImplicitTableGroup"),
            foreign_keys_ddl=_flag(values, "foreignKeysDdl"),
            flags2=_number(values, "flags2"),
            variables=variables if isinstance(variables, dict) else {},
            values=values,
        )


def _object(text: str | None) -> Mapping[str, Any]:
    if text is None or not text.strip():
        return {}
    value = json.loads(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {text[:100]!r}")
    return value


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,30}\s*", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return None if value is None or value == "" else str(value)


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name)
    return value is True or (isinstance(value, str) and value.lower() == "true")
