"""The tables of information_schema that are answered from definitions, with MySQL 9.7's columns and types.

What a log's definitions do not say is NULL: sizes, numbers of rows, times.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from binlog_merge.serve.definitions import Definitions
from binlog_merge.serve.empty import EMPTY
from binlog_merge.serve.relation import Relation, Row, columns

if TYPE_CHECKING:
    from snapshot_store import model
    from snapshot_store.mysql.column_type import ColumnType as ColumnSpec

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


def _tables(definitions: Definitions) -> Iterator[Row]:
    for name in sorted(RELATIONS):
        unknown: Row = (None,) * 11
        yield "def", "information_schema", name, "SYSTEM VIEW", None, 10, *unknown, None, None, "", ""
    for (schema, name), version in sorted(definitions.tables.items()):
        yield "def", schema, name, "BASE TABLE", *status_of(None if version.opaque else version.table)


def status_of(table: "model.Table | None") -> Row:
    """Return what both TABLES and SHOW TABLE STATUS have behind a table's name: the engine to the comment."""
    if table is None:
        return None, 10, *(None,) * 11, None, None, "", "its definition is not known"
    partitioned = "partitioned" if table.partitioning else ""
    return table.engine, 10, "Dynamic", *(None,) * 10, table.collation, None, partitioned, table.comment


def _columns(definitions: Definitions) -> Iterator[Row]:
    from snapshot_store.render_sql import type_sql

    for table in definitions.known():
        keys = keys_of(table)
        for ordinal, column in enumerate(table.columns, 1):
            type = column.type
            generation = "" if column.generated is None else column.generated.expression
            yield (
                *("def", table.schema, table.name, column.name, ordinal, default_of(column)),
                *("YES" if column.nullable else "NO", type.name, *_sizes(type), type.charset, type.collation),
                *(type_sql(type), keys.get(column.name, ""), extra_of(column), PRIVILEGES, column.comment),
                *(generation, type.srid),
            )


def _statistics(definitions: Definitions) -> Iterator[Row]:
    for table in definitions.known():
        for row in index_rows(table):
            name, unique, index, *rest = row
            yield "def", table.schema, name, unique, table.schema, index, *rest


def _key_column_usage(definitions: Definitions) -> Iterator[Row]:
    for table in definitions.known():
        for index in table.indexes:
            if not index.unique and index.name != "PRIMARY":
                continue
            for number, part in enumerate(index.parts, 1):
                head = ("def", table.schema, index.name, "def", table.schema, table.name)
                yield *head, part.column, number, None, None, None, None
        for key in table.foreign_keys:
            name, own, (schema, other), theirs = _foreign_key(key)
            for number, (column, referenced) in enumerate(zip(own, theirs, strict=False), 1):
                head = ("def", table.schema, name, "def", table.schema, table.name)
                yield *head, column, number, number, schema or table.schema, other, referenced


def _table_constraints(definitions: Definitions) -> Iterator[Row]:
    for table in definitions.known():
        for index in table.indexes:
            if index.unique or index.name == "PRIMARY":
                kind = "PRIMARY KEY" if index.name == "PRIMARY" else "UNIQUE"
                yield "def", table.schema, index.name, table.schema, table.name, kind, "YES"
        for key in table.foreign_keys:
            yield "def", table.schema, _foreign_key(key)[0], table.schema, table.name, "FOREIGN KEY", "YES"
        for name, _ in table.checks:
            enforced = "NO" if name in table.unenforced else "YES"
            yield "def", table.schema, name, table.schema, table.name, "CHECK", enforced


_NAME: Final = r"`((?:[^`]|``)*)`"
_FOREIGN: Final = re.compile(
    rf"CONSTRAINT {_NAME} FOREIGN KEY \(([^)]*)\) REFERENCES (?:{_NAME}\.)?{_NAME} \(([^)]*)\)", re.DOTALL
)


def _foreign_key(text: str) -> tuple[str, list[str], tuple[str, str], list[str]]:
    """Return name, columns, referenced table and its columns of a foreign key as SHOW CREATE TABLE writes it."""
    match = _FOREIGN.match(text)
    if match is None:
        return "", [], ("", ""), []
    name, own, schema, table, theirs = (part or "" for part in match.groups())
    return _plain(name), _names(own), (_plain(schema), _plain(table)), _names(theirs)


def _names(text: str) -> list[str]:
    return [_plain(name) for name in re.findall(_NAME, text)]


def _plain(name: str) -> str:
    return name.replace("``", "`")


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
    found: dict[str, str] = {}
    for index in table.indexes:
        first = index.parts[0].column if index.parts else None
        if first is not None:
            kind = "UNI" if index.unique and len(index.parts) == 1 else "MUL"
            found[first.lower()] = "UNI" if "UNI" in (kind, found.get(first.lower())) else kind
    for part in () if primary is None else primary.parts:
        found[(part.column or "").lower()] = "PRI"
    return {column.name: found[column.name.lower()] for column in table.columns if column.name.lower() in found}


def index_rows(table: "model.Table") -> Iterator[Row]:
    """Yield the rows of SHOW INDEX."""
    nullable = {column.name.lower(): column.nullable for column in table.columns}
    for index in table.indexes:
        ordered = index.kind in ("btree", "hash")
        for number, part in enumerate(index.parts, 1):
            null = part.column is None or nullable.get(part.column.lower(), True)
            order = ("D" if part.descending else "A") if ordered else None
            yield (
                *(table.name, int(not (index.unique or index.name == "PRIMARY")), index.name, number, part.column),
                *(order, None, part.length, None, "YES" if null else "", index.kind.upper(), "", ""),
                *("YES" if index.visible else "NO", part.expression),
            )


def default_of(column: "model.Column") -> str | None:
    """Return a column's default as information_schema shows it."""
    default = column.default
    if default is None or default.kind == "null":
        return None
    if default.kind == "now":
        return _now(column)
    if default.kind == "expression" or column.type.name not in ("binary", "varbinary"):
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


_DIGITS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19, "float": 12, "double": 22}
_LENGTHS: Final = {"tiny": 255, "": 65535, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}


def _sizes(type: "ColumnSpec") -> Row:
    """Return characters, bytes, numeric precision and scale, and digits of seconds; each None where it is not of this
    type.
    """
    from snapshot_store.mysql.text.charsets import max_bytes

    name, length = type.name, type.length
    if name in ("char", "varchar", "enum", "set"):
        if name == "enum":
            length = max(map(len, type.members), default=0)
        elif name == "set":
            length = sum(map(len, type.members)) + max(0, len(type.members) - 1)
        length = 1 if length is None else length
        return length, length * max_bytes(type.charset), None, None, None
    if name in ("binary", "varbinary"):
        return length, length, None, None, None
    if name == "vector":
        return (length or 0) * 4, (length or 0) * 4, None, None, None
    if name.endswith(("text", "blob")):
        most = _LENGTHS[name[:-4]]
        return most, most, None, None, None
    if name in ("datetime", "timestamp", "time"):
        return None, None, None, None, type.fsp
    if name == "bit":
        return None, None, length or 1, None, None
    if name == "decimal":
        return None, None, length, type.decimals or 0, None
    if name not in _DIGITS:
        return None, None, None, None, None
    if name in ("float", "double"):
        return None, None, length or _DIGITS[name], type.decimals, None
    return None, None, _DIGITS[name] + int(name == "bigint" and type.unsigned), 0, None


def _nothing(definitions: Definitions) -> Iterator[Row]:
    return iter(())


RELATIONS: Final[dict[str, Relation]] = {
    "SCHEMATA": Relation(
        columns(
            "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME SQL_PATH:null "
            "DEFAULT_ENCRYPTION:char"
        ),
        _schemata,
    ),
    "TABLES": Relation(
        columns(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE:char ENGINE VERSION:big ROW_FORMAT:char TABLE_ROWS:big "
            "AVG_ROW_LENGTH:big DATA_LENGTH:big MAX_DATA_LENGTH:big INDEX_LENGTH:big DATA_FREE:big AUTO_INCREMENT:big "
            "CREATE_TIME:stamp UPDATE_TIME:time CHECK_TIME:time TABLE_COLLATION CHECKSUM:big CREATE_OPTIONS "
            "TABLE_COMMENT:text"
        ),
        _tables,
    ),
    "COLUMNS": Relation(
        columns(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION:int COLUMN_DEFAULT:text IS_NULLABLE "
            "DATA_TYPE:text CHARACTER_MAXIMUM_LENGTH:big CHARACTER_OCTET_LENGTH:big NUMERIC_PRECISION:big "
            "NUMERIC_SCALE:big DATETIME_PRECISION:int CHARACTER_SET_NAME COLLATION_NAME COLUMN_TYPE:text "
            "COLUMN_KEY:char EXTRA PRIVILEGES COLUMN_COMMENT:text GENERATION_EXPRESSION:text SRS_ID:int"
        ),
        _columns,
    ),
    "STATISTICS": Relation(
        columns(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME NON_UNIQUE:int INDEX_SCHEMA INDEX_NAME SEQ_IN_INDEX:int COLUMN_NAME "
            "COLLATION CARDINALITY:big SUB_PART:big PACKED:null NULLABLE INDEX_TYPE COMMENT INDEX_COMMENT IS_VISIBLE "
            "EXPRESSION:text"
        ),
        _statistics,
    ),
    "KEY_COLUMN_USAGE": Relation(
        columns(
            "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME "
            "ORDINAL_POSITION:int POSITION_IN_UNIQUE_CONSTRAINT:int REFERENCED_TABLE_SCHEMA REFERENCED_TABLE_NAME "
            "REFERENCED_COLUMN_NAME"
        ),
        _key_column_usage,
    ),
    "TABLE_CONSTRAINTS": Relation(
        columns(
            "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME CONSTRAINT_TYPE ENFORCED"
        ),
        _table_constraints,
    ),
    **EMPTY,
}
