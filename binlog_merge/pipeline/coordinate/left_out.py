"""Statements that name tables of databases that are left out, beside tables that come out: cut to what concerns us.

    DROP TABLE a.x, idle.z                        drops a.x
    RENAME TABLE a.x TO a.y, idle.z TO idle.w     renames a.x to a.y
    RENAME TABLE idle.z TO a.z                    stays, since a table comes into the output

A table of such a database is known if it came there by a statement that was applied (RENAME TABLE a.x TO idle.x). It is
then followed like any other, so that its name can be taken again and it can come back.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from snapshot_store.ddl.effects import Effects, Name
from snapshot_store.ddl.statements import DropTables, DropViews, RenameTables, Statement

Item = TypeVar("Item")


def without_left_out(statement: Statement, effects: Effects, left_out: Callable[[Name], bool]) -> Statement:
    """Return a DROP or RENAME without the tables that are left out and unknown; any other statement as it is.

    `left_out` tells of a name before the statement.
    """
    match statement:
        case DropTables(tables=tables):
            return replace(statement, tables=_kept(tables, (i for i, e in enumerate(effects.all) if left_out(e.table))))
        case DropViews(views=views):
            return replace(statement, views=_kept(views, (i for i, e in enumerate(effects.all) if left_out(e.table))))
        case RenameTables(pairs=pairs):
            return replace(statement, pairs=_kept(pairs, _renamed_elsewhere(effects, left_out)))
    return statement


def _renamed_elsewhere(effects: Effects, left_out: Callable[[Name], bool]) -> Iterable[int]:
    """Return which renames are of tables that have none but left out names, from the first to the last."""
    renames: dict[Name, list[int]] = {}  # by current name
    names: dict[Name, list[Name]] = {}
    for i, (old, new) in enumerate(effects.moves):
        renames[new] = [*renames.pop(old, []), i]
        names[new] = [*names.pop(old, [old]), new]
    return [i for now, found in renames.items() if all(map(left_out, names[now])) for i in found]


def _kept(items: tuple[Item, ...], cut: Iterable[int]) -> tuple[Item, ...]:
    gone = frozenset(cut)
    return tuple(item for i, item in enumerate(items) if i not in gone)
