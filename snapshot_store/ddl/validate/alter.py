"""Checks for ALTER TABLE against the table as it is: what a server refuses.

Sources: `prepare_fields_and_keys`, `prepare_key_...` and `check_...dependency` of mysql-server `sql/sql_table.cc`. Each
rule is compared with a real server by the statements of fixtures/ddl.
"""

from collections.abc import Iterator, Sequence

from snapshot_store.ddl.actions import (
    Action,
    AddColumn,
    AddConstraint,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    RenameColumn,
    RenameIndex,
    SetDefault,
    SetVisible,
)
from snapshot_store.ddl.resolve import Context
from snapshot_store.ddl.specs import ForeignKeySpec
from snapshot_store.ddl.validate.columns import expression_of
from snapshot_store.ddl.validate.keys import row_key
from snapshot_store.model import Column, Default, Table
from snapshot_store.mysql.sql.functions import function


def check_actions(context: Context, table: Table, actions: Sequence[Action]) -> None:
    """Raise DdlRejected for actions that conflict with each other, or with other parts of the table."""
    touched = [name.lower() for name in _touched_columns(actions)]
    for name in touched:
        context.limit(touched.count(name) == 1, f"column {name} is changed twice")
    _check_index_actions(context, actions)
    key = row_key(table)
    for action in actions:
        if isinstance(action, SetVisible) and action.what == "index":
            seen = key is None or key.name.lower() != action.name.lower()
            context.limit(seen, f"index {action.name} is the primary key, or serves as one")
    _check_partition_columns(context, table, actions)
    _check_new_defaults(context, actions)
    _check_foreign_keys(context, actions)
    gone = {a.name.lower() for a in actions if isinstance(a, DropColumn)}
    changed = {a.old.lower(): a for a in actions if isinstance(a, ChangeColumn)}
    renamed = {a.old.lower() for a in actions if isinstance(a, RenameColumn)}
    renamed |= {old for old, a in changed.items() if a.old.lower() != a.column.name.lower()}
    for column in table.columns:
        if change := changed.get(column.name.lower()):
            _check_stored(context, column, change)
    for what, name, columns in _dependents(context, table, actions, gone, set(changed)):
        kept = not columns & renamed and not (columns & gone)
        if what == "check":
            same = {a.old.lower() for a in actions if isinstance(a, RenameColumn) and a.old == a.new}
            alone = len(columns) == 1 and columns <= gone
            kept = alone or not columns & ((renamed - same) | gone)
        context.limit(kept, f"{what} {name} depends on a column that is dropped or renamed")


def _touched_columns(actions: Sequence[Action]) -> Iterator[str]:
    for action in actions:
        if isinstance(action, ChangeColumn | RenameColumn):
            yield action.old
        elif isinstance(action, DropColumn | SetDefault) or (
            isinstance(action, SetVisible) and action.what == "column"
        ):
            yield action.name


def _check_index_actions(context: Context, actions: Sequence[Action]) -> None:
    dropped = [a.name.lower() for a in actions if isinstance(a, DropConstraint) and a.kind == "index"]
    context.limit(len(set(dropped)) == len(dropped), "an index is dropped twice")
    renamed = [a.old.lower() for a in actions if isinstance(a, RenameIndex)]
    context.limit(len(set(renamed)) == len(renamed), "an index is renamed twice")
    context.limit(not set(renamed) & set(dropped), "an index is renamed and dropped")
    for action in actions:
        if isinstance(action, RenameIndex):
            context.limit("PRIMARY" not in (action.old.upper(), action.new.upper()), "PRIMARY is no name to rename")
        if isinstance(action, SetVisible) and action.what == "index":
            context.limit(action.name.lower() not in dropped, f"index {action.name} is altered and dropped")


def _check_partition_columns(context: Context, table: Table, actions: Sequence[Action]) -> None:
    apart = table.partitioning.columns if table.partitioning else ()
    for action in actions:
        if isinstance(action, RenameColumn):
            known = action.old.lower() in (name.lower() for name in apart)
            context.limit(not known, f"column {action.old} tells partitions apart: it keeps its name")


def _check_new_defaults(context: Context, actions: Sequence[Action]) -> None:
    """Refuse unsafe functions in the default of a new column: existing rows must get the same value on a replica."""
    for action in actions:
        default = action.column.default if isinstance(action, AddColumn) else None
        if isinstance(action, AddColumn) and isinstance(default, Default) and default.kind == "expression":
            unsafe = sorted(name for name in expression_of(context, default.text).functions if function(name).unsafe)
            context.limit(not unsafe, f"the default of the new column {action.column.name} calls {unsafe}")


def _check_foreign_keys(context: Context, actions: Sequence[Action]) -> None:
    """Refuse reusing the name of a dropped foreign key: it is free only after the statement."""
    dropped = {a.name.lower() for a in actions if isinstance(a, DropConstraint) and a.kind in ("foreign key", "any")}
    for action in actions:
        if isinstance(action, AddConstraint) and isinstance(action.constraint, ForeignKeySpec):
            name = action.constraint.name or ""
            context.limit(name.lower() not in dropped, f"foreign key {name} is dropped and added")


def _check_stored(context: Context, column: Column, change: ChangeColumn) -> None:
    """Refuse a change to or from a virtual column, since rows do not store its values."""
    old, new = column.generated, change.column.generated
    was, becomes = old is not None and not old.stored, new is not None and not new.stored
    context.limit(was == becomes, f"column {column.name} cannot turn between virtual and stored")


def _dependents(
    context: Context, table: Table, actions: Sequence[Action], gone: set[str], changed: set[str]
) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield (kind, name, columns) for each remaining part of the table whose expression refers to columns."""
    drops = {(a.kind, a.name.lower()) for a in actions if isinstance(a, DropConstraint)}
    for column in table.columns:
        if column.name.lower() in gone | changed:
            continue
        if column.generated is not None:
            yield "the generated column", column.name, expression_of(context, column.generated.expression).columns
        elif column.default is not None and column.default.kind == "expression":
            yield "the default of column", column.name, expression_of(context, column.default.text).columns
    for name, text in table.checks:
        if not drops & {("check", name.lower()), ("any", name.lower())}:
            yield "check", name, expression_of(context, text).columns
    for index in table.indexes:
        for part in index.parts:
            if part.expression is not None and ("index", index.name.lower()) not in drops:
                yield "the functional key", index.name, expression_of(context, part.expression).columns
