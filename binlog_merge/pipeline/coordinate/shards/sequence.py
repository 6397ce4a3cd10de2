"""The single sequence of DDL that all shards of a table run, and how far each shard is (pessimistic coordination).

    order    DDL1   DDL2   DDL3
    t1        x      x
    t2        x
    t3        x      x      x          active: DDL2, for which t2 is awaited

Source: pingcap/tiflow `dm/syncer/sharding-meta`, `dm/syncer/sharding_group.go`.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from binlog_merge.pipeline.coordinate.shards.values import Shard

Ddl = TypeVar("Ddl")
Key = TypeVar("Key")


class OutOfSequence(Exception):  # noqa: N818 (the name says what happened)
    """A shard runs another DDL than the others at the same position in the sequence; `expected` is theirs."""

    def __init__(self, expected: object) -> None:
        super().__init__("detect inconsistent DDL sequence")
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Item(Generic[Key, Ddl]):
    """A DDL that a shard ran at `key`.

    `key` is None if the shard only counts as having run it. For a shard that was created with its effect it is the key
    at which the shard was created.
    """

    shard: Shard
    key: Key | None
    ddl: Ddl


@dataclass(frozen=True, slots=True)
class Sequence(Generic[Key, Ddl]):
    """The DDL that the shards have run.

    `order` has for each position the first that ran it; `active` is the first position at which some shard is awaited.
    """

    shards: Mapping[Shard, tuple[Item[Key, Ddl], ...]] = field(default_factory=dict)
    order: tuple[Item[Key, Ddl], ...] = ()
    active: int = 0

    @property
    def under_way(self) -> bool:
        """Return whether some shards have run DDL that others have not."""
        return self.active < len(self.order)

    @property
    def done(self) -> frozenset[Shard]:
        """Return the shards that have run the active DDL."""
        return frozenset(shard for shard, items in self.shards.items() if len(items) > self.active)

    @property
    def awaited(self) -> frozenset[Shard]:
        """Return the shards that have yet to run the active DDL."""
        return frozenset(self.shards) - self.done

    @property
    def complete(self) -> bool:
        """Return whether all shards have run the active DDL."""
        return self.under_way and not self.awaited

    def add(self, item: Item[Key, Ddl], same: Callable[[Ddl, Ddl], bool] = operator.eq) -> "Sequence[Key, Ddl]":
        """Return the sequence after a shard has run one more DDL. Raises OutOfSequence.

        A DDL that the shard has run already, at the same key, changes nothing.
        """
        items = self.shards.get(item.shard, ())
        if any(i.key == item.key for i in items):
            return self
        if len(items) < len(self.order):
            expected = self.order[len(items)]
            if not same(expected.ddl, item.ddl):
                raise OutOfSequence(expected.ddl)
            return self._with(item.shard, (*items, item))
        return replace(self._with(item.shard, (*items, item)), order=(*self.order, item))

    def run_after_all(self, item: Item[Key, Ddl]) -> "Sequence[Key, Ddl]":
        """Return the sequence after a shard has really run a DDL that it counted as having run."""
        items = self.shards[item.shard]
        i = next(i for i, known in enumerate(items) if known.key is None)
        return self._with(item.shard, (*items[:i], item, *items[i + 1 :]))

    def resolve(self) -> "Sequence[Key, Ddl]":
        """Return the sequence after the active DDL is resolved; an empty one once all are."""
        if self.active + 1 < len(self.order):
            return replace(self, active=self.active + 1)
        return Sequence(dict.fromkeys(self.shards, ()))

    def joined(self, shard: Shard, count: int, key: Key | None = None) -> "Sequence[Key, Ddl]":
        """Return the sequence with a new shard that counts as having run the first `count` DDL."""
        return self._with(shard, tuple(Item(shard, key, i.ddl) for i in self.order[:count]))

    def as_if_done(self, shards: Iterable[Shard]) -> "Sequence[Key, Ddl]":
        """Return the sequence in which these shards count as having run the active DDL."""
        found = self
        for shard in sorted(set(shards) & self.awaited):
            found = found._with(shard, (*self.shards[shard], Item(shard, None, self.order[self.active].ddl)))
        return found

    def without(self, shard: Shard) -> "Sequence[Key, Ddl]":
        """Return the sequence without a shard; DDL that only this shard has run is no longer expected of the others."""
        shards = {s: items for s, items in self.shards.items() if s != shard}
        longest = max([self.active, *(len(items) for items in shards.values())])
        remaining = replace(self, shards=shards, order=self.order[:longest])
        return remaining if remaining.under_way else Sequence(dict.fromkeys(shards, ()))

    def _with(self, shard: Shard, items: tuple[Item[Key, Ddl], ...]) -> "Sequence[Key, Ddl]":
        return replace(self, shards={**self.shards, shard: items})
