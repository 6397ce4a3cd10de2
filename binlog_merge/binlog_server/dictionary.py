"""The tables of information_schema that are answered from definitions, with MySQL 9.7's columns and types.

What a log's definitions do not say is NULL: sizes, numbers of rows, times.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.definitions import Definitions, Relation, Row
from binlog_merge.binlog_server.recorded import constant_rows, escaped, listed_tables, system_tables
from binlog_merge.binlog_server.table_facts import (
    check_constraints,
    key_column_usage,
    partitions,
    referential_constraints,
    status_of,
    table_constraints,
    text_of,
)
from snapshot_store.errors import UnsupportedType
from snapshot_store.mysql.column_type import ColumnType as ColumnSpec
from snapshot_store.mysql.column_type import Family

if TYPE_CHECKING:
    from snapshot_store import model

SYSTEM_SCHEMAS: Final = (
    ("information_schema", "utf8mb3", "utf8mb3_general_ci"),
    ("mysql", "utf8mb4", "utf8mb4_0900_ai_ci"),
    ("performance_schema", "utf8mb4", "utf8mb4_0900_ai_ci"),
    ("sys", "utf8mb4", "utf8mb4_0900_ai_ci"),
)
"""Schemas that every server has, with character set and collation; here they hold no tables of users."""
PRIVILEGES: Final = "select"


def _schemata(definitions: Definitions) -> Iterator[Row]:
    for name, charset, collation in SYSTEM_SCHEMAS:
        yield "def", name, charset, collation, None, "NO"
    for schema in (definitions.schemas[name] for name in sorted(definitions.schemas)):
        yield "def", schema.name, schema.charset, schema.collation, None, "NO"


def _schemata_extensions(definitions: Definitions) -> Iterator[Row]:
    for name in (*(system[0] for system in SYSTEM_SCHEMAS), *sorted(definitions.schemas)):
        yield "def", name, ""


def _tables(definitions: Definitions) -> Iterator[Row]:
    for system in listed_tables().values():
        kind, engine, version, row_format, collation, options, comment = system.head
        sizes: Row = (0, 0, 0, 0, 0, 0) if engine is None else (None,) * 6
        head = ("def", system.schema, system.name, kind, engine, version, row_format)
        yield *head, *sizes, *(None,) * 4, collation, None, options, comment
    for (schema, name), table in sorted(definitions.tables.items()):
        yield "def", schema, name, "BASE TABLE", *status_of(None if table.opaque else table.table)


def _tables_extensions(definitions: Definitions) -> Iterator[Row]:
    for schema, name in listed_tables():
        yield "def", schema, name, None, None
    for (of, table), version in sorted(definitions.tables.items()):
        yield "def", of, table, *engine_attributes(() if version.table is None else version.table.attributes)


def engine_attributes(attributes: "model.Attributes") -> Row:
    """Return ENGINE_ATTRIBUTE and SECONDARY_ENGINE_ATTRIBUTE as JSON, None where they are not written."""
    values = dict(attributes)
    written = (values.get(name) for name in ("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"))
    return tuple(None if text is None else text_of(text) for text in written)


def _columns(definitions: Definitions) -> Iterator[Row]:
    from snapshot_store.render_sql import type_sql

    for (schema, name), system in listed_tables().items():
        for row in system.described:
            yield "def", schema, name, *row[:15], PRIVILEGES, *row[16:]
    for table in definitions.known():
        keys = keys_of(table)
        for ordinal, column in enumerate(table.columns, 1):
            type = column.type
            generation = "" if column.generated is None else escaped(column.generated.expression)
            yield (
                *("def", table.schema, table.name, column.name, ordinal, default_of(column)),
                *("YES" if column.nullable else "NO", type.name, *_sizes(type), type.charset, type.collation),
                *(type_sql(type), keys.get(column.name, ""), extra_of(column), PRIVILEGES, column.comment),
                *(generation, type.srid),
            )


def _columns_extensions(definitions: Definitions) -> Iterator[Row]:
    for (schema, name), system in listed_tables().items():
        for row in system.described:
            yield "def", schema, name, row[0], None, None
    for table in definitions.known():
        for column in table.columns:
            yield "def", table.schema, table.name, column.name, *engine_attributes(column.attributes)


def _constraints_extensions(definitions: Definitions) -> Iterator[Row]:
    for table in definitions.known():
        for index in table.indexes:
            yield "def", table.schema, index.name, table.name, *engine_attributes(index.attributes)
        for name in _hidden_indexes(table):
            yield "def", table.schema, name, table.name, None, None


def _hidden_indexes(table: "model.Table") -> Iterator[str]:
    """Yield the indexes that InnoDB adds by itself, which no other table shows."""
    if table.engine == "InnoDB":
        if "PRI" not in keys_of(table).values():
            yield "PRIMARY"
        if any(index.kind == "fulltext" for index in table.indexes) and table.index_of("FTS_DOC_ID") is None:
            yield "FTS_DOC_ID_INDEX"


def _geometry_columns(definitions: Definitions) -> Iterator[Row]:
    for table in definitions.known():
        for column in table.columns:
            if column.type.family is Family.GEOMETRY:
                yield "def", table.schema, table.name, column.name, None, column.type.srid, column.type.name


def _statistics(definitions: Definitions) -> Iterator[Row]:
    for table in definitions.known():
        for row in index_rows(table):
            name, unique, index, *rest = row
            yield "def", table.schema, name, unique, table.schema, index, *rest


def keys_of(table: "model.Table") -> dict[str, str]:
    """Return the columns that are in keys: PRI, UNI or MUL, as SHOW COLUMNS says it.

    Without a primary key the first unique key whose columns cannot be NULL stands for it.
    """
    required = {column.name.lower() for column in table.columns if not column.nullable}
    primary = table.primary_key or next(
        (
            index
            for index in table.indexes
            if index.unique and all(part.column and part.column.lower() in required for part in index.parts)
        ),
        None,
    )
    keys: dict[str, str] = {}
    for index in table.indexes:
        first = index.parts[0].column if index.parts else None
        if first is not None:
            kind = "UNI" if index.unique and len(index.parts) == 1 else "MUL"
            keys[first.lower()] = "UNI" if "UNI" in (kind, keys.get(first.lower())) else kind
    for part in () if primary is None else primary.parts:
        keys[(part.column or "").lower()] = "PRI"
    return {column.name: keys[column.name.lower()] for column in table.columns if column.name.lower() in keys}


def index_rows(table: "model.Table") -> Iterator[Row]:
    """Yield the rows of SHOW INDEX."""
    nullable = {column.name.lower(): column.nullable for column in table.columns}
    for index in table.indexes:
        ordered = index.kind == "btree"
        comment = text_of(dict(index.attributes).get("COMMENT", ""))
        for number, part in enumerate(index.parts, 1):
            null = part.column is None or nullable.get(part.column.lower(), True)
            order = ("D" if part.descending else "A") if ordered else None
            yield (
                *(table.name, int(not (index.unique or index.name == "PRIMARY")), index.name, number, part.column),
                *(order, None, part.length, None, "YES" if null else "", index.kind.upper(), "", comment),
                *("YES" if index.visible else "NO", None if part.expression is None else escaped(part.expression)),
            )


def default_of(column: "model.Column") -> str | None:
    """Return a column's default as information_schema shows it."""
    default = column.default
    if default is None or default.kind == "null":
        return None
    if default.kind == "now":
        return _now(column)
    if default.kind == "expression":
        return escaped(default.text)
    if column.type.family is not Family.BYTES:
        return default.text
    if re.fullmatch("0x(?:[0-9a-f]{2})*", default.text):
        data = bytes.fromhex(default.text[2:])
    else:
        data = default.text.encode("utf-8", "surrogateescape")
    if column.type.name == "binary":
        data = data.rstrip(b"\0")  # SHOW CREATE TABLE, from which definitions come, pads it
    return f"0x{data.hex().upper()}" if data else ""


def extra_of(column: "model.Column") -> str:
    """Return a column's EXTRA."""
    parts = []
    if column.auto_increment:
        parts.append("auto_increment")
    if column.default is not None and column.default.kind in ("now", "expression"):
        parts.append("DEFAULT_GENERATED")
    if column.on_update_now:
        parts.append(f"on update {_now(column)}")
    if column.generated is not None:
        parts.append("STORED GENERATED" if column.generated.stored else "VIRTUAL GENERATED")
    if column.invisible:
        parts.append("INVISIBLE")
    return " ".join(parts)


def _now(column: "model.Column") -> str:
    return f"CURRENT_TIMESTAMP({column.type.fsp})" if column.type.fsp else "CURRENT_TIMESTAMP"


def _sizes(type: "ColumnSpec") -> Row:
    """Return characters, bytes, numeric precision and scale, and digits of seconds; each None where it is not of this
    type.
    """
    from snapshot_store.mysql.text.charsets import max_bytes

    length = type.length
    match type.family:
        case Family.TEXT | Family.BYTES | Family.VECTOR if not type.is_sized:
            most = type.facts.most_bytes if type.is_lob else (length or 0) * 4
            return most, most, None, None, None
        case Family.TEXT | Family.ENUM | Family.SET:
            length = 1 if length is None else length
            if type.family is Family.ENUM:
                length = max(map(len, type.members), default=0)
            elif type.family is Family.SET:
                length = sum(map(len, type.members)) + max(0, len(type.members) - 1)
            return length, length * max_bytes(type.charset), None, None, None
        case Family.BYTES:
            return length, length, None, None, None
        case Family.TIME | Family.MOMENT:
            return None, None, None, None, type.fsp
        case Family.BIT:
            return None, None, length or 1, None, None
        case Family.DECIMAL:
            return None, None, length, type.decimals or 0, None
        case Family.FLOAT:
            return None, None, length or type.facts.digits, type.decimals, None
        case Family.INTEGER:
            more = type.name == "bigint" and type.unsigned
            return None, None, type.facts.digits + more, 0, None
        case Family.DATE | Family.YEAR | Family.JSON | Family.GEOMETRY:
            return None, None, None, None, None
    raise UnsupportedType(type.name, "in information_schema")


def _constant(table: str) -> Callable[[Definitions], Iterable[Row]]:
    return lambda definitions: constant_rows(table)


_OF_DEFINITIONS: Final[dict[str, Callable[[Definitions], Iterable[Row]]]] = {
    "SCHEMATA": _schemata,
    "SCHEMATA_EXTENSIONS": _schemata_extensions,
    "TABLES": _tables,
    "TABLES_EXTENSIONS": _tables_extensions,
    "COLUMNS": _columns,
    "COLUMNS_EXTENSIONS": _columns_extensions,
    "STATISTICS": _statistics,
    "ST_GEOMETRY_COLUMNS": _geometry_columns,
    "KEY_COLUMN_USAGE": key_column_usage,
    "TABLE_CONSTRAINTS": table_constraints,
    "TABLE_CONSTRAINTS_EXTENSIONS": _constraints_extensions,
    "REFERENTIAL_CONSTRAINTS": referential_constraints,
    "CHECK_CONSTRAINTS": check_constraints,
    "PARTITIONS": partitions,
}


@cache
def relations() -> dict[str, Relation]:
    """Return the system tables: those of information_schema by name, the others as schema.name.

    They hold what definitions tell, and what is so on each server; of all else there are no rows.
    """
    relation_of = {}
    for (schema, name), table in system_tables().items():
        inner = schema == "information_schema"
        rows = (_OF_DEFINITIONS.get(name) or _constant(name)) if inner else _constant("")
        relation_of[name if inner else f"{schema}.{name}"] = Relation(table.columns, rows, table.cased, table.kept)
    return relation_of
