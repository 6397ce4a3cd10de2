"""The distinct tables of one run as small integers; comparing two, and the least table that accepts the rows of all;
and when conflicting changes of some shards are one change of all.

Thousands of shards have few distinct tables. A run of coordination makes one `Shapes`, which numbers them; comparisons
and joins are computed once per number.

A NOT NULL column without DEFAULT cannot be missing in another table (DM's rule), so adding one is a conflict. With
`fill` it is treated as having its type's zero as DEFAULT wherever a table lacks it, which is the value that rows of
that table are padded with; then it is like any other column (DM's optimistic mode calls this resolvable, but its lock
does not resolve it).
"""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from functools import reduce
from typing import NamedTuple, NewType

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


Shape = NewType("Shape", int)


class Shapes:
    """The tables of one run by number; two tables have the same number only if they are equal in every attribute."""

    def __init__(self) -> None:
        self._tables: list[Table] = []
        self._numbers: dict[Hashable, Shape] = {}
        self._orders: dict[tuple[Shape, Shape, bool], int | None] = {}
        self._joins: dict[frozenset[Shape], Shape | None] = {}

    def __getitem__(self, shape: Shape) -> Table:
        return self._tables[shape]

    def of(self, table: Table) -> Shape:
        """Return a table's number. This hashes the whole table, so keep the number."""
        number = self._numbers.setdefault(whole(table), Shape(len(self._tables)))
        if number == len(self._tables):
            self._tables.append(table)
        return number

    def order(self, a: Shape, b: Shape, fill: bool = False) -> int | None:
        """Return how `a` compares with `b`, None if neither accepts all rows of the other."""
        key = (a, b, fill)
        if key not in self._orders:
            self._orders[key] = order(self[a], self[b], fill)
        return self._orders[key]

    def alike(self, a: Shape, b: Shape) -> bool:
        """Return whether two tables accept the same rows."""
        return self.order(a, b) == 0

    def join(self, shapes: Iterable[Shape]) -> Shape | None:
        """Return the least table that accepts the rows of all, None if there is none."""
        key = frozenset(shapes)
        if key not in self._joins:
            joined = join_all(self[shape] for shape in key)
            self._joins[key] = None if joined is None else self.of(joined)
        return self._joins[key]


class Change(NamedTuple):
    """A net change of a table: the column renames, and the columns replaced by a new one of the same name."""

    before: Shape
    after: Shape
    renames: tuple[tuple[str, str], ...] = ()
    replaced: tuple[str, ...] = ()


def all_smaller(shapes: Shapes, changes: Iterable[Change], tables: Iterable[Shape], fill: bool = False) -> bool:
    """Return whether no table still has what the changes remove: the join is not comparable with any table before."""
    joined = shapes.join(tables)
    return joined is not None and all(
        shapes.order(joined, before, fill) is None for before in {change.before for change in changes}
    )


def all_larger(shapes: Shapes, changes: Iterable[Change], tables: Iterable[Shape], fill: bool = False) -> bool:
    """Return whether every table has what the changes add."""
    ends = {change[:2]: change for change in changes}.values()
    return all(_has(shapes, table, change, fill) for table in set(tables) for change in ends)


def _has(shapes: Shapes, table: Shape, change: Change, fill: bool) -> bool:
    joined = shapes.join((change.before, table))
    sign = shapes.order(table if joined is None else joined, change.after, fill)
    return sign is not None and sign >= 0


def settled(shapes: Shapes, changes: Collection[Change], tables: Collection[Shape], fill: bool = False) -> bool:
    """Return whether conflicting changes are one change that all tables have made: the three termination conditions.

    With the changes -a,+b: the tables can be joined, none has a, and all have b. Source: DM's proposal "Optimist Shard
    Mode Support Conflict DDL", Termination.
    """
    return all_smaller(shapes, changes, tables, fill) and all_larger(shapes, changes, tables, fill)


def done_elsewhere(shapes: Shapes, change: Change, others: Iterable[Shape], fill: bool = False) -> bool:
    """Return whether another table already has the result of the change."""
    for table in set(others):
        joined = shapes.join((change.after, table))
        if (
            joined is not None
            and shapes.order(joined, change.before, fill) is None
            and _has(shapes, table, change, fill)
        ):
            return True
    return False
