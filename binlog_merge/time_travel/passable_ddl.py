"""Which DDL leaves a table's rows as they are, so that rows written before it can be undone after it.

A statement is passed over if each of its actions only adds columns, changes indexes, constraints, defaults, comments or
visibility, or modifies a column so that it has each old value as it was (`wider`). A unique key must stay: by what was
one, rows that were written before may find others now. A row that is put back after a column was added gets that
column's default, as it did by the DDL itself.
"""

from collections.abc import Collection
from enum import Enum
from typing import Final

from binlog_merge.values.types import binlog_column
from snapshot_store.ddl import ParsedDdl, actions, apply_parsed
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import KEEPS_VALUES, change_of
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Column, Schema, Table
from snapshot_store.mysql.column_type import MEMBERS, ColumnType, Family

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


_MOST_VARCHAR: Final = 2
"""How many bytes count the bytes of a TEXT or BLOB that any VARCHAR or VARBINARY fits in."""


def has_values_of(new: Column, old: Column, keyed: bool) -> bool:
    """Return whether a column has each value of an older definition as it was; `keyed`: it is part of a unique key."""
    if new.generated or old.generated or new.auto_increment != old.auto_increment:
        return False
    if new.on_update_now and not old.on_update_now:
        return False  # what undoes an older UPDATE does not name the column, and the server would set it
    if old.nullable != new.nullable and (keyed or old.nullable):
        return False
    return new.type == old.type or _is_wider(new.type, old.type, keyed)


def _is_wider(new: ColumnType, old: ColumnType, keyed: bool) -> bool:
    if (new.charset, new.collation, new.zerofill) != (old.charset, old.collation, old.zerofill):
        return False
    if new.family is Family.INTEGER:
        return new.holds_numbers_of(old)
    if old.is_lob or new.is_lob:
        return _is_larger(new, old)
    if new.name != old.name:
        return False
    if new.family is Family.DECIMAL:
        return new.holds_numbers_of(old) and (new.decimals == old.decimals or not keyed)
    if new.family in MEMBERS:
        added = new.members[len(old.members) :]
        # An ENUM shows what is no member as an empty text, too.
        return new.members[: len(old.members)] == old.members and "" not in added
    if new.family in (Family.TIME, Family.MOMENT):
        return new.fsp >= old.fsp and not keyed
    return new.is_sized and new.name != "binary" and (new.length or 0) >= (old.length or 0)


def _is_larger(new: ColumnType, old: ColumnType) -> bool:
    """Return whether a TEXT or BLOB has room for each value of a type of texts, or of bytes."""
    if new.family is not old.family or not new.is_lob or old.name in ("char", "binary"):
        return False
    return new.facts.counter >= (old.facts.counter or _MOST_VARCHAR)
