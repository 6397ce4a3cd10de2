"""What information_schema says of a table beside its columns: its options, its partitions, its constraints."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.recorded import Row, escaped, listed_tables

if TYPE_CHECKING:
    from snapshot_store import model
    from snapshot_store.mysql.column_type import ColumnType
    from snapshot_store.partitioning import Partitioning, Tuples


_FIXED: Final = ("MEMORY", "CSV", "BLACKHOLE", "MRG_MYISAM")
_OPTIONS: Final = (
    *("max_rows", "min_rows", "avg_row_length", "row_format", "stats_sample_pages", "stats_auto_recalc"),
    *("KEY_BLOCK_SIZE", "COMPRESSION", "stats_persistent", "pack_keys", "checksum", "delay_key_write"),
)
"""In the order in which a server lists them."""


def status_of(table: "model.Table | None") -> Row:
    """Return what both TABLES and SHOW TABLE STATUS have behind a table's name: the engine to the comment."""
    if table is None:
        return None, 10, *(None,) * 11, None, None, "", "its definition is not known"
    return table.engine, 10, _row_format(table), *(None,) * 10, table.collation, None, _options(table), table.comment


def text_of(literal: str) -> str:
    """Return the text of an attribute's value, a literal or a bare word."""
    from snapshot_store.mysql.sql.cursor import Cursor
    from snapshot_store.mysql.sql.session import STORED

    cursor = Cursor.of(literal, STORED)
    return cursor.literal_string() if cursor.peek().kind == "string" else literal


def _row_format(table: "model.Table") -> str:
    written = dict(table.attributes).get("ROW_FORMAT", "").capitalize()
    if table.engine in _FIXED:
        return "Fixed"
    if table.engine == "ARCHIVE":
        return "Compressed"
    if written and written != "Default":
        return written
    if table.engine == "MyISAM" and not any(_varies(column.type) for column in table.columns):
        return "Fixed"
    return "Dynamic"


def _varies(type: "ColumnType") -> bool:
    """Return whether MyISAM stores a value in as many bytes as it has: shapes too, which are BLOBs there."""
    return type.name in ("varchar", "varbinary") or not type.defaults_to_literal


def _options(table: "model.Table") -> str:
    written = {name: text_of(value) for name, value in table.attributes}
    options = [f"{name}={_value(name, written[name.upper()])}" for name in _OPTIONS if name.upper() in written]
    return " ".join([*options, "partitioned"] if table.partitioning else options)


def _value(name: str, text: str) -> str:
    if name == "COMPRESSION":
        return f'"{text}"'
    return text.upper() if name == "row_format" else text


_COMMENT: Final = re.compile(r"\bCOMMENT\s*=?\s*'((?:[^'\\]|\\.|'')*)'", re.IGNORECASE | re.DOTALL)


def partitions(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of PARTITIONS."""
    for schema, name in listed_tables():
        yield "def", schema, name, *(None,) * 10, *_TAIL
    for table in definitions.known():
        head = ("def", table.schema, table.name)
        if not table.partitioning:
            yield *head, *(None,) * 10, *_TAIL
            continue
        for row in _rows(table.partitioning):
            yield *head, *row


_TAIL: Final[Row] = (*(None,) * 10, "", "", None)


def _rows(how: "Partitioning") -> Iterator[Row]:
    method = f"{'LINEAR ' if how.linear else ''}{how.method}"
    first = len(how.columns) if not how.subs or how.sub else len(how.columns) - 1
    listed = ",".join(f"`{name}`" for name in how.columns[:first])
    by = (listed or None) if how.method.endswith(("COLUMNS", "KEY")) else how.expression
    for number, (name, _, values) in enumerate(how.parts, 1):
        told = _description(how.method, values)
        if not how.subs:
            yield name, None, number, None, "0", method, None, by, None, told, *_tail(how, name)
            continue
        sub = f"{'LINEAR ' if how.linear_sub else ''}{'HASH' if how.sub else 'KEY'}"
        for place in range(how.subs):
            at = (number - 1) * how.subs + place
            inner = how.subpartitions[at] if how.subpartitions else f"{name}sp{place}"
            expression = how.sub or ",".join(f"`{column}`" for column in how.columns[first:])
            yield name, inner, number, place + 1, "0", method, sub, by, expression, told, *_tail(how, inner)


def _tail(how: "Partitioning", name: str) -> Row:
    match = _COMMENT.search(dict(how.said).get(name, ""))
    comment = "" if match is None else match[1].replace("''", "'")
    return *(None,) * 10, comment, "default", None


def _description(method: str, values: "Tuples") -> str | None:
    if not values:
        return None
    if method.startswith("RANGE"):
        return ",".join(map(_plain, values[0]))
    many = len(values[0]) > 1
    return ",".join(f"({','.join(map(_plain, row))})" if many else _plain(row[0]) for row in values)


def _plain(value: str) -> str:
    """Return a value without the name of its character set."""
    return re.sub(r"^_\w+(?=')", "", value)


def key_column_usage(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of KEY_COLUMN_USAGE."""
    for table in definitions.known():
        for index in table.unique_keys:
            for number, part in enumerate(index.parts, 1):
                of = ("def", table.schema, table.name)
                yield "def", table.schema, index.name, *of, part.column, number, None, None, None, None
        for key in table.foreign_keys:
            schema, other = key.target(table.schema)
            for number, (column, referenced) in enumerate(zip(key.columns, key.referenced, strict=False), 1):
                head = ("def", table.schema, key.name, "def", table.schema, table.name)
                yield *head, column, number, number, schema, other, referenced


def table_constraints(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of TABLE_CONSTRAINTS."""
    for table in definitions.known():
        for index in table.unique_keys:
            kind = "PRIMARY KEY" if index.name == "PRIMARY" else "UNIQUE"
            yield "def", table.schema, index.name, table.schema, table.name, kind, "YES"
        for key in table.foreign_keys:
            yield "def", table.schema, key.name, table.schema, table.name, "FOREIGN KEY", "YES"
        for name, _ in table.checks:
            enforced = "NO" if name in table.unenforced else "YES"
            yield "def", table.schema, name, table.schema, table.name, "CHECK", enforced


def referential_constraints(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of REFERENTIAL_CONSTRAINTS."""
    for table in definitions.known():
        for key in table.foreign_keys:
            schema, other = key.target(table.schema)
            version = definitions.tables.get((schema, other))
            unique = None if version is None or version.table is None else _referenced_key(version.table, key)
            rules = (key.on_update or "NO ACTION", key.on_delete or "NO ACTION")
            yield "def", table.schema, key.name, "def", schema, unique, "NONE", *rules, table.name, other


def check_constraints(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of CHECK_CONSTRAINTS."""
    for table in definitions.known():
        for name, expression in table.checks:
            whole = expression if expression.startswith("(") else f"({expression})"
            yield "def", table.schema, name, escaped(whole)


def _referenced_key(parent: "model.Table", key: "model.ForeignKey") -> str | None:
    """Return the unique key of the parent that has the referenced columns, None if only another index has them."""
    wanted = [column.lower() for column in key.referenced]
    for index in parent.unique_keys:
        if [(part.column or "").lower() for part in index.parts] == wanted:
            return index.name
    return None
