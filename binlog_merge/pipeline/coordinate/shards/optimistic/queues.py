"""The DDL that each waiting shard has run, in order, and its net change; and DDL that an operator marked as done on a
shard that has not run it yet.

A shard waits for the others to do the same, or is in conflict: it has run DDL that others contradict. Shards that
conflict with the same DDL, and shards with the same net change, are kept together, so that thousands of queues need not
be read when only few differ.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.net_change import inverse, net_change_of, same_ddl
from binlog_merge.pipeline.coordinate.shards.optimistic.lock import Info
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Change
from binlog_merge.pipeline.coordinate.shards.values import LAST, Effect, Shard, ShardDdl
from snapshot_store.tso import OrderKey


def change_of(queue: Sequence[Info]) -> Change:
    """Return the net change of consecutive DDL of one shard."""
    net = net_change_of([info.ddl for info in queue])
    return Change(queue[0].before, queue[-1].after, net.renames, net.replaced)


class Queues:
    """A queue for each waiting shard: first its head, the DDL it waits with, then what it has run since.

    `waiting`, in methods that change a queue: the shards of the lock that agree with their head DDL; others are in
    conflict.
    """

    def __init__(self) -> None:
        self._queues: dict[Shard, list[Info]] = {}
        self._changes: dict[Shard, Change] = {}
        self._by_change: dict[Change, set[Shard]] = {}
        self._conflicts: dict[Hashable, list[tuple[OrderKey, Shard]]] = {}
        self.in_conflict: set[Shard] = set()
        self.longer: set[Shard] = set()
        """The shards that have run more than the DDL they wait with."""

    def __len__(self) -> int:
        return len(self._queues)

    def __contains__(self, shard: Shard) -> bool:
        return shard in self._queues

    def __getitem__(self, shard: Shard) -> list[Info]:
        return self._queues[shard]

    def __iter__(self) -> Iterator[tuple[Shard, list[Info]]]:
        """Yield shards and queues, in the order in which they began to wait."""
        return iter(self._queues.items())

    @property
    def changes(self) -> Iterable[tuple[Change, Collection[Shard]]]:
        """Return each net change once, with the shards whose queue makes it."""
        return self._by_change.items()

    def change(self, shard: Shard) -> Change:
        """Return the net change of a shard's queue."""
        return self._changes[shard]

    def conflicts(self) -> list[Info]:
        """Return the heads in conflict, one for each distinct DDL, in the order in which they were run."""
        return [self._queues[shard][0] for _, shard in sorted(alike[0] for alike in self._conflicts.values())]

    def add(self, info: Info, waiting: Container[Shard]) -> None:
        """Append a DDL to its shard's queue, or start one."""
        self._set(info.shard, [*self._queues.get(info.shard, ()), info], waiting)

    def exchange(self, old: ShardDdl, new: Info, waiting: Container[Shard]) -> None:
        """Replace a DDL by another one of the same shard."""
        self._set(old.shard, [new if info.ddl == old else info for info in self._queues[old.shard]], waiting)

    def drop_heads(self, shards: Iterable[Shard], waiting: Container[Shard]) -> None:
        """Remove the heads of the queues of these shards."""
        for shard in shards:
            self._set(shard, self._queues[shard][1:], waiting)

    def rename(self, shard: Shard, to: Shard, waiting: Container[Shard]) -> None:
        """Move a shard's queue to its new name, keeping its position among the others."""
        if shard not in self._queues:
            return
        order = list(self._queues)
        self._set(to, [info.moved(to) if info.shard == shard else info for info in self.pop(shard)], waiting)
        self._queues = {name: self._queues[name] for name in (to if name == shard else name for name in order)}

    def pop(self, shard: Shard) -> list[Info]:
        """Remove and return a shard's queue; empty if it has none."""
        queue = self._queues.get(shard, [])
        self._set(shard, [], ())
        return queue

    def clear(self) -> None:
        """Remove all queues."""
        for shard in list(self._queues):
            self._set(shard, [], ())

    def agree(self, shard: Shard) -> None:
        """Record that a shard is no longer in conflict, but waits for others to do the same."""
        if shard not in self.in_conflict:
            return
        head = self._queues[shard][0]
        alike = self._conflicts[_effect_of(head)]
        del alike[bisect_left(alike, (head.ddl.key, shard))]
        if not alike:
            del self._conflicts[_effect_of(head)]
        self.in_conflict.remove(shard)

    def _set(self, shard: Shard, queue: list[Info], waiting: Container[Shard]) -> None:
        if shard in self._queues:
            self.agree(shard)
            change = self._changes.pop(shard)
            self._by_change[change].remove(shard)
            if not self._by_change[change]:
                del self._by_change[change]
            self.longer.discard(shard)
        if not queue:
            self._queues.pop(shard, None)
            return
        self._queues[shard] = queue
        change = self._changes[shard] = change_of(queue)
        self._by_change.setdefault(change, set()).add(shard)
        if len(queue) > 1:
            self.longer.add(shard)
        if shard not in waiting:
            self.in_conflict.add(shard)
            insort(self._conflicts.setdefault(_effect_of(queue[0]), []), (queue[0].ddl.key, shard))


def _effect_of(info: Info) -> Hashable:
    """Return a key that is equal for DDL of several shards with the same effect, however they are written."""
    steps = zip(info.ddl.steps, info.afters, strict=True)
    return info.before, tuple((after, step.adds, step.drops, step.renames) for step, after in steps)


@dataclass(eq=False)
class Debt:
    """A DDL that a shard has yet to run.

    `place` is where the logical table went through it, None before that; `written` is False if it was skipped.
    """

    ddl: ShardDdl
    place: DdlPlace | None = None
    written: bool = True

    def effects(self, real: ShardDdl) -> Iterator[Effect]:
        """Yield the effects of the shard having run it now."""
        if self.place is not None:
            yield Effect(real.shard, real.key, self.place, real.renames)
            if not self.written and real.renames:
                yield Effect(real.shard, LAST, self.place, inverse(real.renames))


@dataclass
class Debts:
    """The DDL that each shard has yet to run, in order."""

    _debts: dict[Shard, list[Debt]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self._debts.values())

    def owe(self, shard: Shard, ddl: ShardDdl) -> None:
        """Record that a shard counts as having run a DDL."""
        self._debts.setdefault(shard, []).append(Debt(ddl))

    def settle(self, ddl: ShardDdl, place: DdlPlace, written: bool) -> None:
        """Record the place at which the logical table went through a DDL."""
        for debt in (debt for debts in self._debts.values() for debt in debts):
            if debt.place is None and debt.ddl == ddl:
                debt.place, debt.written = place, written

    def paid(self, real: ShardDdl) -> Debt | None:
        """Return the debt that a statement of a shard pays, and remove it; None if it pays none."""
        debts = self._debts.get(real.shard, [])
        found = next((debt for debt in debts if same_ddl(debt.ddl, real)), None)
        if found is not None:
            debts.remove(found)
        return found

    def reached(self, shard: Shard) -> bool:
        """Return whether the logical table has gone through DDL that a shard has yet to run."""
        return any(debt.place is not None and debt.written for debt in self._debts.get(shard, ()))

    def forget(self, shard: Shard) -> None:
        """Remove a shard and its debts."""
        self._debts.pop(shard, None)

    def rename(self, shard: Shard, to: Shard) -> None:
        """Rename a shard in DDL that it counts as having run."""
        for debt in (debt for debts in self._debts.values() for debt in debts):
            if debt.place is None and debt.ddl.shard == shard:
                debt.ddl = replace(debt.ddl, shard=to)

    def move(self, shard: Shard, to: Shard) -> None:
        """Move a shard's debts to its new name."""
        if shard in self._debts:
            self._debts[to] = self._debts.pop(shard)

    def effects(self) -> Iterator[Effect]:
        """Yield the effects while debts are not paid: the shard's columns still have their old names."""
        for shard, debts in sorted(self._debts.items()):
            for debt in debts:
                if debt.place is not None and debt.written and debt.ddl.renames:
                    yield Effect(shard, LAST, debt.place, debt.ddl.renames)
