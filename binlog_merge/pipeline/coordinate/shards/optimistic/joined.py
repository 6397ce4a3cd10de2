"""The lattice for many tables: comparing two, and the least table that accepts the rows of all.

A NOT NULL column without DEFAULT cannot be missing in another table (DM's rule), so adding one is a conflict. With
`fill` it is treated as having its type's zero as DEFAULT wherever a table lacks it, which is the value that rows of
that table are padded with; then it is like any other column (DM's optimistic mode calls this resolvable, but its lock
does not resolve it).
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import reduce

from snapshot_store.lattice.columns import filled, join_columns
from snapshot_store.lattice.tables import Incomparable, compare, join
from snapshot_store.model import Column, Table


def whole(table: Table) -> Hashable:
    """Return a key of everything in a table.

    It includes attributes that == on tables ignores but the lattice or later DDL depends on.
    """
    widths = tuple(column.type.display_width for column in table.columns)
    return table.whole, widths


def order(a: Table, b: Table, fill: bool = False) -> int | None:
    """Return how `a` compares with `b`, None if neither accepts all rows of the other."""
    try:
        return compare(_filled_for(a, b), _filled_for(b, a)) if fill else compare(a, b)
    except Incomparable:
        return None


def alike(a: Table, b: Table) -> bool:
    """Return whether two tables accept the same rows."""
    return order(a, b) == 0


def _filled_for(table: Table, other: Table) -> Table:
    columns = tuple(c if other.index_of(c.name) is not None else filled(c) for c in table.columns)
    return replace(table, columns=columns)


def join_all(tables: Iterable[Table]) -> Table | None:
    """Return the least table that accepts the rows of all, None if there is none. The order of the tables does not
    matter.
    """
    ordered = sorted({whole(table): table for table in tables}.values(), key=repr)
    try:
        return reduce(join, _completed(ordered)) if ordered else None
    except Incomparable:
        return None


def _completed(tables: list[Table]) -> list[Table]:
    """Add to each table the columns that it lacks, defined as in the join of the tables that have them.

    `join` of two tables fills in zeros at once. With three tables, one with DEFAULT 5, one NOT NULL without DEFAULT and
    one without the column, the order would decide whether 0 and 5 meet.
    """
    names = list(dict.fromkeys(c.name.lower() for table in tables for c in table.columns))
    having: dict[str, list[Column]] = {}
    for name in names:
        found = [column for column in (_column(table, name) for table in tables) if column is not None]
        if len(found) < len(tables):
            having[name] = found
    added = {name: filled(reduce(join_columns, found)) for name, found in having.items()}
    return [
        replace(table, columns=table.columns + tuple(c for n, c in added.items() if table.index_of(n) is None))
        for table in tables
    ]


def _column(table: Table, name: str) -> Column | None:
    i = table.index_of(name)
    return None if i is None else table.columns[i]
