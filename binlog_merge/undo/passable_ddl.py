"""Which DDL leaves a table's rows as they are, so that rows written before it can be undone after it.

A statement is passed over if each of its actions only adds columns, changes indexes, constraints, defaults, comments or
visibility, or modifies a column so that it has each old value as it was (`wider`). A unique key must stay: by what was
one, rows that were written before may find others now. A row that is put back after a column was added gets that
column's default, as it did by the DDL itself.
"""

from collections.abc import Collection
from enum import Enum

from binlog_merge.undo.wider import has_values_of
from binlog_merge.values.types import binlog_column
from snapshot_store.ddl import ParsedDdl, actions, apply_parsed
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import KEEPS_VALUES, change_of
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Column, Schema, Table

Definitions = frozenset[Table | None]
"""What a table may be; None: that is not known."""


class Written(Enum):
    """How undone rows are written, on which it depends what a DDL may have done to their columns.

    NAMED: by the names of columns, as statements. PLACED: as row images, cell by cell. KEPT: into a table whose columns
    are defined as when the rows were written.
    """

    NAMED = "named"
    PLACED = "placed"
    KEPT = "kept"


def after_ddl(
    ddl: ParsedDdl, before: Definitions, written: Written, unique: Collection[str] = ()
) -> Definitions | None:
    """Return what a table is after a statement that leaves rows as they are and finds them by the same keys.

    None if it is another statement. `unique` are the names of unique keys, in lower case.
    """
    statement = ddl.result
    if not isinstance(statement, st.AlterTable):
        return None
    if not all(_is_harmless(action, written, unique) for action in statement.actions):
        return None
    pairs = [(table, _altered(table, ddl)) for table in before]
    modified = [action.old.lower() for action in statement.actions if isinstance(action, actions.ChangeColumn)]
    if modified and not (pairs and all(_has_values(old, new, modified, written) for old, new in pairs)):
        return None
    return frozenset(new for _, new in pairs)


def _altered(table: Table | None, ddl: ParsedDdl) -> Table | None:
    if table is None:
        return None
    catalog = Catalog({table.schema: Schema(table.schema)}, {(table.schema, table.name): table})
    try:
        return apply_parsed(catalog, ddl, table.schema).catalog.get(table.schema, table.name)
    except SnapshotStoreError:
        return None


def _has_values(old: Table | None, new: Table | None, modified: Collection[str], written: Written) -> bool:
    if old is None or new is None:
        return False
    keyed = {part.column.lower() for index in old.indexes if index.unique for part in index.parts if part.column}
    columns = {column.name.lower(): column for column in new.columns}
    return all(
        (now := columns.get(name)) is not None
        and has_values_of(now, column, name in keyed)
        and _is_written(now, column, written)
        for column in old.columns
        if (name := column.name.lower()) in modified
    )


def _is_written(new: Column, old: Column, written: Written) -> bool:
    if written is Written.PLACED:
        return binlog_column(new) == binlog_column(old)
    return written is Written.NAMED or (new.type, new.nullable) == (old.type, old.nullable)


def _is_harmless(action: actions.Action, written: Written, unique: Collection[str]) -> bool:
    moves = isinstance(action, actions.AddColumn | actions.ChangeColumn) and action.position is not None
    if moves and written is Written.PLACED:
        return False
    if isinstance(action, actions.AddColumn) and action.column.on_update_now and written is Written.NAMED:
        return False  # what undoes an older UPDATE does not name the column, and the server would set it
    if isinstance(action, actions.ChangeColumn):  # what it may change is asked of the definitions
        return action.old.lower() == action.column.name.lower()
    if isinstance(action, actions.DropConstraint):
        return action.kind != "any" and action.name.lower() not in ("primary", *unique)
    return isinstance(action, actions.AddColumn) or change_of(action) in KEEPS_VALUES
