"""Which DDL leaves a table's rows as they are, so that rows written before it can be undone behind it.

A statement is passed over if each of its actions only adds columns, or changes indexes, constraints, defaults, comments
or visibility. A unique key must stay: by what was one, rows that were written before may find others now. A row that is
put back behind an added column gets that column's default, as it did by the DDL itself.
"""

from collections.abc import Collection
from typing import Final

from snapshot_store.ddl import DdlSession, actions
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.errors import DdlNotUnderstood

_HARMLESS = (
    actions.AddColumn,
    actions.SetDefault,
    actions.SetVisible,
    actions.AddConstraint,
    actions.RenameIndex,
    actions.SetEnforced,
)
_ABOUT_NO_ROW: Final = (*_HARMLESS[1:], actions.DropConstraint)


def leaves_rows(sql: str, session: DdlSession, columns_may_move: bool, unique: Collection[str] = ()) -> bool:
    """Return whether a statement leaves rows as they are, and finds them by the same keys.

    Unless `columns_may_move`, added columns must come last. `unique` are the names of unique keys, in lower case.
    """
    try:
        statement = parse_statement(sql, session)
    except DdlNotUnderstood:
        return False
    if not isinstance(statement, st.AlterTable):
        return False
    return all(_is_harmless(action, columns_may_move, unique) for action in statement.actions)


_LOSE: Final = frozenset({"DROP", "TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT"})


def keeps_rows(sql: str, session: DdlSession) -> bool:
    """Return whether all rows that there are are still there behind a statement, whatever it does to their values."""
    try:
        statement = parse_statement(sql, session)
    except DdlNotUnderstood:
        return False
    if isinstance(statement, st.CreateTable):
        return statement.query is None
    return isinstance(statement, st.AlterTable) and not any(map(_may_lose_rows, statement.actions))


def keeps_values(sql: str, session: DdlSession) -> bool:
    """Return whether no value of any row that there is changes by a statement, nor a column that holds one."""
    try:
        statement = parse_statement(sql, session)
    except DdlNotUnderstood:
        return False
    if isinstance(statement, st.CreateTable):
        return statement.query is None
    if not isinstance(statement, st.AlterTable):
        return False
    return all(isinstance(a, _ABOUT_NO_ROW) for a in statement.actions)


def _may_lose_rows(action: actions.Action) -> bool:
    if isinstance(action, actions.PartitionWork):
        return action.kind in _LOSE
    return isinstance(action, actions.RenameTo | actions.TableFile)


def _is_harmless(action: actions.Action, columns_may_move: bool, unique: Collection[str]) -> bool:
    if isinstance(action, actions.AddColumn):
        return columns_may_move or action.position is None
    if isinstance(action, actions.DropConstraint):
        return action.kind != "any" and action.name.lower() not in ("primary", *unique)
    return isinstance(action, _HARMLESS)
