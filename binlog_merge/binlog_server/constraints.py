"""Keys, foreign keys and checks as information_schema tells them, from definitions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.recorded import Row, escaped

if TYPE_CHECKING:
    from snapshot_store import model


def key_column_usage(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of KEY_COLUMN_USAGE."""
    for table in definitions.known():
        for index in _keys(table):
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
        for index in _keys(table):
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


def _keys(table: "model.Table") -> Iterator["model.Index"]:
    return (index for index in table.indexes if index.unique or index.name == "PRIMARY")


def _referenced_key(parent: "model.Table", key: "model.ForeignKey") -> str | None:
    """Return the unique key of the parent that has the referenced columns, None if only another index has them."""
    wanted = [column.lower() for column in key.referenced]
    for index in _keys(parent):
        if [(part.column or "").lower() for part in index.parts] == wanted:
            return index.name
    return None
