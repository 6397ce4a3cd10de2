"""Tables as shapes: thousands of shards have few different ones, and each of these is one object here.

Hashing a table means looking at each of its columns. `one` does so once; whatever is found out about tables after that
is remembered by which objects they are (`by_identity`).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from snapshot_store.model import Table

P = ParamSpec("P")
R = TypeVar("R")

LIMIT = 4096
"""How many are remembered; what is forgotten is found out again."""

_KNOWN: dict[int, Table] = {}


def one(table: Table) -> Table:
    """Return the same object for equal tables, as a rule."""
    if _KNOWN.get(id(table)) is table:
        return table
    found = _first(table, _beside(table))
    if len(_KNOWN) >= LIMIT:
        _KNOWN.clear()
    _KNOWN[id(found)] = found
    return found


@lru_cache(LIMIT)
def _first(table: Table, beside: object) -> Table:
    return table


def _beside(table: Table) -> object:
    """Return what does not count where tables are compared with ==: the lattice looks at it, or DDL that follows."""
    widths = tuple(column.type.display_width for column in table.columns)
    return widths, tuple(index.implicit for index in table.indexes), table.partitioning


def distinct(tables: Iterable[Table]) -> list[Table]:
    """Return each object once; those that went through `one` are different tables then."""
    return list({id(table): table for table in tables}.values())


def by_identity(function: Callable[P, R]) -> Callable[P, R]:
    """Remember what a function returns, by which objects it is given; all of them by position."""
    known: dict[tuple[int, ...], tuple[object, R]] = {}

    @wraps(function)
    def remembered(*given: P.args, **named: P.kwargs) -> R:
        assert not named
        key = tuple(map(id, given))
        found = known.get(key)
        if found is None:
            if len(known) >= LIMIT:
                known.clear()
            # Objects that are kept keep their ids.
            found = known[key] = (given, function(*given, **named))
        return found[1]

    return remembered
