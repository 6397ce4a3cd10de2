"""The effects of DDL that rows of a shard wait for, and what happens to rows that come out after them.

A transaction that touches a waiting shard waits as a whole, on all its nodes. A later transaction that touches any
table of the waiting one comes out after it. All others keep their order. So the rows of one table of one shard never
change their order, and no transaction is torn (`hold_kernel`).

`Moving` has the schema that applies to a row which comes out later than its own key. A row that stays sees the DDL that
took effect before its own key. A moved row also sees those that took effect at its place.

Tables wait together in a component: a transaction that touches two of them, a rename, or a foreign key, makes one wait
for the other.

What an effect holds back never leaves the component of its table. So components are judged apart, and those without an
effect not at all (`order.held_rows`).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from binlog_merge.moved_keys import DdlPlace, place_of
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows
from binlog_merge.pipeline.coordinate.shards.values import Effect, Holds, Name, Shard
from binlog_merge.pipeline.order.ordered import KEY
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey


class Waits:
    """The effects on each shard, for looking up what happened to a row's table and columns before the row comes out."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._effects: dict[Shard, list[Effect]] = {}
        for effect in sorted(effects, key=lambda e: e.key):
            self._effects.setdefault(effect.shard, []).append(effect)
        self._keys = {shard: [e.key for e in effects] for shard, effects in self._effects.items()}

    def renames(self, shard: Shard, key: OrderKey, place: DdlPlace) -> tuple[tuple[str, str], ...]:
        """Return the column renames between a row's own key and the place at which it comes out."""
        return tuple(pair for effect in self._between(shard, key, place) for pair in effect.renames)

    def name(self, shard: Shard, key: OrderKey, place: DdlPlace) -> Name | None:
        """Return the logical table of a row where it comes out, None if it is the usual one of its shard."""
        names = [effect.name for effect in self._between(shard, key, place) if effect.name is not None]
        return names[-1] if names else None

    def gone(self, shard: Shard, key: OrderKey, place: DdlPlace) -> bool:
        """Return whether a row's table was dropped or truncated between its own key and the place at which it comes
        out.
        """
        return any(effect.gone for effect in self._between(shard, key, place))

    def _between(self, shard: Shard, key: OrderKey, place: DdlPlace) -> Iterator[Effect]:
        """Yield the effects up to a place on the table that a shard was at a key, following its renames."""
        goes: Shard | None = shard
        while goes is not None:
            later = self._effects.get(goes, [])[bisect_right(self._keys.get(goes, []), key) :]
            goes = None
            for effect in later:
                if effect.place is not None and effect.place <= place:
                    yield effect
                if effect.to is not None:
                    goes, key = effect.to, effect.key
                    break


def live(effects: Iterable[Effect], floor: OrderKey, limit: OrderKey) -> tuple[Effect, ...]:
    """Return the effects that still move rows: those below `limit`, except those that took effect below `floor`.

    An effect that takes effect at or above the limit has no place yet.
    """
    below = [
        replace(effect, place=None) if effect.place is not None and effect.place.key >= limit else effect
        for effect in effects
        if effect.key < limit
    ]
    waits = [effect.place is None or effect.place.key >= floor for effect in below]
    # If a table was renamed after the first of them, its rows still come after those that wait.
    since = min((effect.key for effect, kept in zip(below, waits, strict=True) if kept), default=limit)
    return tuple(
        effect
        for effect, kept in zip(below, waits, strict=True)
        if kept or (effect.to is not None and effect.key >= since)
    )


Renames = tuple[tuple[str, str], ...]


class Moving:
    """Looks up the schema that applies to rows at their places."""

    def __init__(self, holds: Holds, history: SchemaHistory) -> None:
        self._waits = Waits(holds.effects)
        self._history = history
        self._versions: dict[tuple[str, str], tuple[list[DdlPlace], list[TableVersion]]] = {}

    def logical(self, name: tuple[str, str], key: OrderKey, moved_to: OrderKey | None) -> TableVersion | None:
        """Return the logical table in force for a row at its own key, or at the key of the place it was moved to."""
        if name not in self._versions:
            versions = sorted(self._history.versions_for(*name), key=lambda v: place_of(v.key))
            self._versions[name] = [place_of(v.key) for v in versions], versions
        places, versions = self._versions[name]
        count = bisect_left(places, DdlPlace(key)) if moved_to is None else bisect_right(places, place_of(moved_to))
        return versions[count - 1] if count else self._history.at(*name, key)

    def renames(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> Renames:
        """Return the column renames of a shard between a row's own key and the place at which it comes out."""
        return self._waits.renames(shard, key, DdlPlace(key) if moved_to is None else place_of(moved_to))

    def gone(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> bool:
        """Return whether a row's table has been dropped or truncated before the row comes out."""
        return moved_to is not None and self._waits.gone(shard, key, place_of(moved_to))

    def name(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> tuple[str, str] | None:
        """Return the logical table of a row where it comes out, None if it is the usual one of its shard."""
        return self._waits.name(shard, key, DdlPlace(key) if moved_to is None else place_of(moved_to))


def renamed(table: Table, renames: Renames) -> Table:
    """Return a table with columns renamed, one rename after the other."""
    for old, new in renames:
        at = table.index_of(old)
        if at is not None:
            columns = (*table.columns[:at], replace(table.columns[at], name=new), *table.columns[at + 1 :])
            table = replace(table, columns=columns)
    return table


def linked_tables(tables: Sequence[frozenset[Shard]], history: SchemaHistory) -> tuple[frozenset[Shard], ...]:
    """Return, for each set of tables, the others that refer to them or that they refer to, whenever that was."""
    links = defaultdict[Shard, set[Shard]](set)
    for shard in frozenset[Shard]().union(*tables):
        versions = history.versions_for(shard.schema, shard.table, shard.node)
        keys = {key for version in versions if version.table is not None for key in version.table.foreign_keys}
        for name in (key.target(shard.schema) for key in keys):
            parent = Shard(shard.node, *name)
            links[shard].add(parent)
            links[parent].add(shard)
    return tuple(frozenset[Shard]().union(*(links[shard] for shard in found)) - found for found in tables)


def waiting_components(
    tables: Sequence[frozenset[Shard]],
    together: Iterable[tuple[int, int]],
    effects: Sequence[Effect],
    linked: Sequence[frozenset[Shard]] = (),
) -> list[frozenset[int]]:
    """Return the components in which effects hold rows, each as the numbers of its table sets.

    `tables` are the tables of each numbered set that come out, `together` pairs of sets that one transaction touches,
    `linked` the tables that foreign keys link to those of each set.
    """
    above: dict[Shard, Shard] = {}
    for touched in tables:
        _join(above, sorted(touched))
    for touched, others in zip(tables, linked, strict=False):
        if touched:
            _join(above, [min(touched), *sorted(others)])
    for a, b in together:
        _join(above, [min(tables[a]), min(tables[b])])
    for effect in effects:
        _join(above, [effect.shard] if effect.to is None else [effect.shard, effect.to])
    holding = {_top(above, effect.shard) for effect in effects}
    found: dict[Shard, set[int]] = {}
    for number, touched in enumerate(tables):
        if touched and (top := _top(above, min(touched))) in holding:
            found.setdefault(top, set()).add(number)
    return [frozenset(found[top]) for top in sorted(found)]


def shares(weights: Sequence[int], most: int) -> list[list[int]]:
    """Return the indexes of weights in at most `most` shares of about equal weight: the heaviest first, each into the
    lightest share.
    """
    found: list[list[int]] = [[] for _ in range(min(most, len(weights)))]
    filled = [0] * len(found)
    for index in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        lightest = filled.index(min(filled))
        found[lightest].append(index)
        filled[lightest] += weights[index]
    return found


def _join(above: dict[Shard, Shard], shards: Sequence[Shard]) -> None:
    for shard in shards:
        first, other = _top(above, shards[0]), _top(above, shard)
        above[other] = first


def _top(above: dict[Shard, Shard], shard: Shard) -> Shard:
    """Return the shard that stands for a component, and shorten the way to it."""
    top = shard
    while above.get(top, top) != top:
        top = above[top]
    while shard != top:
        above[shard], shard = top, above.get(shard, top)
    return top


def waiting(
    rows: Mapping[str, Column], tables: Sequence[frozenset[Shard]]
) -> tuple[tuple[HeldRows, ...], dict[int, int], int]:
    """Return the counts of rows, which are in order: per shard, the first file of each node, and how many they are.

    `tables` are the tables of each numbered set that come out.
    """
    count = len(rows["tso"])
    if not count:
        return (), {}, 0
    node, file = rows["node"], rows["file"]
    files = {number: int(file[node == number].min()) for number in np.unique(node).tolist()}
    key = np.stack([rows[name] for name in KEY])
    transaction = np.cumsum(np.concatenate([[0], np.any(key[:, 1:] != key[:, :-1], axis=0)]))
    sets, size = rows["set"], rows["end"] - rows["start"]
    touched: dict[Shard, list[int]] = {}
    for number in np.unique(sets).tolist():
        for shard in tables[number]:
            touched.setdefault(shard, []).append(number)
    held = []
    for shard, numbers in touched.items():
        mine = np.flatnonzero(np.isin(sets, numbers))
        since = OrderKey(*(int(part[mine[0]]) for part in key))
        held.append(HeldRows(shard, len(np.unique(transaction[mine])), int(size[mine].sum()), since))
    return tuple(held), files, count


def all_held(parts: Iterable[HeldRows]) -> tuple[HeldRows, ...]:
    """Return the sums of counts for each shard, in the order of shards. No transaction is in two parts."""
    found: dict[Shard, HeldRows] = {}
    for part in parts:
        before = found.get(part.shard, HeldRows(part.shard, 0, 0, part.since))
        found[part.shard] = HeldRows(
            part.shard,
            before.transactions + part.transactions,
            before.bytes + part.bytes,
            min(before.since, part.since),
        )
    return tuple(found[shard] for shard in sorted(found))


def first_files(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return each node's first file of all parts."""
    found: dict[int, int] = {}
    for part in parts:
        for node, file in part.items():
            found[node] = min(file, found.get(node, file))
    return found
