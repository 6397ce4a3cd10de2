"""The lattice for many tables: how two compare, and the least table that takes the rows of all.

A column NOT NULL without DEFAULT cannot be missing in another table (DM's rule), so to add one is a conflict. With
`fill` it counts as having its type's zero as DEFAULT wherever a table lacks it, which is what rows of that table are
padded with; then it is like any other column (seed: DM's optimistic mode names it as resolvable, its lock does not
resolve it).
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import reduce

from snapshot_store.lattice.columns import filled, join_columns
from snapshot_store.lattice.tables import Incomparable, compare, join
from snapshot_store.model import Column, Table


def whole(table: Table) -> Hashable:
    """Return a key of everything in a table.

    It includes what == on tables leaves out: the lattice, or DDL that follows, looks at that too.
    """
    widths = tuple(column.type.display_width for column in table.columns)
    return table, widths, tuple(index.implicit for index in table.indexes), table.partitioning


def order(a: Table, b: Table, fill: bool = False) -> int | None:
    """Return how `a` compares with `b`, None where neither accepts all rows of the other."""
    try:
        return compare(_filled_beside(a, b), _filled_beside(b, a)) if fill else compare(a, b)
    except Incomparable:
        return None


def alike(a: Table, b: Table) -> bool:
    """Tell whether two tables accept the same rows."""
    return order(a, b) == 0


def _filled_beside(table: Table, other: Table) -> Table:
    columns = tuple(c if other.index_of(c.name) is not None else filled(c) for c in table.columns)
    return replace(table, columns=columns)


def join_all(tables: Iterable[Table]) -> Table | None:
    """Return the least table that accepts the rows of all, or None; the order of the tables makes no difference."""
    ordered = sorted({whole(table): table for table in tables}.values(), key=repr)
    try:
        return reduce(join, _completed(ordered)) if ordered else None
    except Incomparable:
        return None


def _completed(tables: list[Table]) -> list[Table]:
    """Give each table the columns that others have and it lacks, as the others' join has them.

    `join` of two fills in zeros at once; with three tables, of which one has DEFAULT 5, one NOT NULL without DEFAULT
    and one lacks the column, it would depend on the order whether 0 and 5 meet.
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
    place = table.index_of(name)
    return None if place is None else table.columns[place]
