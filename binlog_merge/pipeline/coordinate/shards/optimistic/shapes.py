"""The distinct tables of one run as small integers, and when conflicting changes of some shards are one change of all.

Thousands of shards have few distinct tables. A run of coordination makes one `Shapes`, which numbers them; comparisons
and joins are computed once per number.
"""

from collections.abc import Collection, Hashable, Iterable
from typing import NamedTuple, NewType

from binlog_merge.pipeline.coordinate.shards.optimistic.joined import join_all, order, whole
from snapshot_store.model import Table

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
