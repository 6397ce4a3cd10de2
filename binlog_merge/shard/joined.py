"""The lattice for many tables: their join, and when conflicting changes of some of them have become one change of all.

A column NOT NULL without DEFAULT cannot be missing in another table (DM's rule), so to add one is a conflict. With
`fill` it counts as having its type's zero as DEFAULT wherever a table lacks it, which is what rows of that table are
padded with; then it is like any other column (seed: DM's optimistic mode names it as resolvable, its lock does not
resolve it).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce

from binlog_merge.shard.shapes import by_identity, distinct, one
from snapshot_store.lattice import Incomparable, compare, join
from snapshot_store.lattice_columns import filled, join_columns
from snapshot_store.model import Column, Table


@dataclass(frozen=True, slots=True)
class Change:
    """What a conflicting DDL makes of a table."""

    before: Table
    after: Table


def order(a: Table, b: Table, fill: bool = False) -> int | None:
    """Return how `a` compares with `b`, None where neither accepts all rows of the other."""
    return _order(one(a), one(b), fill)


@by_identity
def _order(a: Table, b: Table, fill: bool) -> int | None:
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
    return _join(*sorted(distinct(map(one, tables)), key=id))


@by_identity
def _join(*tables: Table) -> Table | None:
    ordered = sorted(tables, key=repr)
    try:
        return one(reduce(join, _completed(ordered))) if ordered else None
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


def all_smaller(changes: Collection[Change], tables: Collection[Table], fill: bool = False) -> bool:
    """Tell whether no table has any more what the changes take away: the join is not comparable with any before."""
    joined = join_all(tables)
    return joined is not None and all(
        order(joined, change.before, fill) is None for change in _distinct_changes(changes)
    )


def all_larger(changes: Collection[Change], tables: Collection[Table], fill: bool = False) -> bool:
    """Tell whether every table has what the changes bring."""
    return all(_has(table, change, fill) for change in _distinct_changes(changes) for table in distinct(tables))


def _distinct_changes(changes: Iterable[Change]) -> list[Change]:
    return list({(id(c.before), id(c.after)): c for c in changes}.values())


def _has(table: Table, change: Change, fill: bool) -> bool:
    sign = order(join_all((change.before, table)) or table, change.after, fill)
    return sign is not None and sign >= 0


def settled(changes: Collection[Change], tables: Collection[Table], fill: bool = False) -> bool:
    """Tell whether conflicting changes are one change that all tables have made: the three termination conditions.

    With the changes -a,+b: the tables can be joined, none has a, and all have b. Source: DM's proposal "Optimist Shard
    Mode Support Conflict DDL", Termination.
    """
    return all_smaller(changes, tables, fill) and all_larger(changes, tables, fill)


def done_elsewhere(change: Change, others: Collection[Table], fill: bool = False) -> bool:
    """Tell whether another table is already where the change leads to."""
    for table in distinct(others):
        joined = join_all((change.after, table))
        if joined is not None and order(joined, change.before, fill) is None and _has(table, change, fill):
            return True
    return False
