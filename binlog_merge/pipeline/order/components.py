"""The tables that wait together: a transaction that touches two of them, a rename, or a foreign key, makes one wait for
the other.

What an effect holds back never leaves the component of its table. So components are judged apart, and those without an
effect not at all (`order.held_rows`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from snapshot_store.history import SchemaHistory


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
