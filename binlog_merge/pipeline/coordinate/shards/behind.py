"""Shards that are made as their logical table was earlier: they have yet to run DDL that is written already.

    n1  CREATE t   ALTER t ADD b                                    n1 is the only shard: both are written at once
    n2                            CREATE t   a   ALTER t ADD b      n2 owes the ALTER: `a` comes out with b's default

Rows of such a shard only wait while the logical table does not take them as they are: while the shard still has a
column that is dropped or renamed there, a wider type, or not yet a key.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.net_change import NetChange, net_change_of, same_ddl
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import order, whole
from binlog_merge.pipeline.coordinate.shards.values import (
    Effect,
    Joins,
    Open,
    OpenStage,
    Owing,
    Shard,
    ShardDdl,
    Start,
    open_id,
)
from snapshot_store.diff import equivalent
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

KEPT = 256
"""How many of the last DDL of a logical table a shard that is made later may owe."""


@dataclass(frozen=True, slots=True)
class Included:
    """What a new shard's table includes: `count` DDL of the sequence; `owed` are those that are written but that it
    has yet to run.

    `again`: its table is also as the logical one is now, so that it may as well run none of them, or run them anew.
    """

    count: int
    owed: tuple[ShardDdl, ...] = ()
    again: bool = False


def included(
    table: Table, logical: Table, written: Sequence[ShardDdl], pending: Sequence[tuple[int, Table]], replays: bool
) -> Included | None:
    """Return what a new shard's table includes; None if the logical table neither was like it nor is about to be.

    `pending` has the tables after DDL that waits, each with the count of DDL then; the first is the logical table as it
    is. The most that fits counts, and a table that is the same in everything before one that is only equivalent.
    `replays`: the shard is made by the statement that made the logical table, so it is as that was at first.
    """
    active = pending[0][0]
    if replays and written and _identical(table, written[0].before):
        return Included(active, tuple(written), _identical(table, logical))
    found = [(Included(count), after) for count, after in reversed(pending)]
    found += [(Included(active), written[-1].after)] if written else []
    found += [(Included(active, tuple(written[i:])), written[i].before) for i in reversed(range(len(written)))]
    for alike in (_identical, equivalent):
        for answer, there in found:
            if alike(table, there):
                return answer
    return None


def _identical(a: Table, b: Table) -> bool:
    return whole(a) == whole(b)


@dataclass(frozen=True, slots=True)
class Behind:
    """A shard that is behind: what it owes, and what it has run of it.

    `since` is the shard's name and the key from which its rows wait, None if they do not.
    """

    table: Table
    owed: tuple[ShardDdl, ...]
    again: bool
    ran: tuple[ShardDdl, ...] = ()
    since: tuple[Shard, OrderKey] | None = None

    def paid_by(self, ddl: ShardDdl) -> int:
        """Return how many of the DDL that it owes a statement does: the first one, or all up to the table it makes."""
        if not self.owed or same_ddl(self.owed[0], ddl):
            return len(self.owed[:1])
        alike: list[Callable[[Table, Table], bool]] = [_identical]
        alike += [] if equivalent(ddl.before, ddl.after) else [equivalent]
        for like in alike:
            for count, owed in enumerate(self.owed, 1):
                if like(ddl.after, owed.after):
                    return count
        return 0

    def fits(self, logical: Table) -> bool:
        """Return whether the logical table takes the shard's rows as they are."""
        if not self.owed:
            return True
        moved = any(ddl.renames for ddl in self.owed) or net_change_of((*self.ran, *self.owed)).replaced
        return not moved and order(logical, self.table, fill=True) in (0, 1)

    def change(self, logical: Table) -> NetChange:
        """Return what becomes of its rows in the logical table: values go by names, as these are in the end."""
        net = net_change_of(self.ran)
        return NetChange(net.before, logical, net.renames, ())

    def released(self, place: DdlPlace) -> Iterator[Effect]:
        """Yield the effects of its rows coming out from a place on."""
        if self.since is not None:
            yield Effect(*self.since, place)
        yield from (Effect(ddl.shard, ddl.key, place, ddl.renames) for ddl in self.ran)


class Latecomers:
    """The shards that are behind."""

    def __init__(self, start: Start) -> None:
        self._behind = {shard: Behind(start.members[shard], *owing) for shard, owing in start.behind.items()}

    @property
    def wait(self) -> bool:
        """Return whether rows wait."""
        return any(behind.since is not None for behind in self._behind.values())

    def start(self) -> dict[Shard, Owing]:
        """Return what shards owe whose rows do not wait."""
        return {shard: Owing(behind.owed, behind.again) for shard, behind in self._behind.items()}

    def admit(self, event: Joins, found: Included, logical: Table) -> None:
        """Add a new shard that owes DDL."""
        if found.owed:
            one = Behind(event.table, found.owed, found.again)
            self._behind[event.shard] = _waiting_or_not(one, logical, event.shard, event.key)

    def pay(self, ddl: ShardDdl, logical: Table) -> Behind | None:
        """Take a statement that a shard owes, and return how it stands after it; None for any other."""
        behind = self._behind.get(ddl.shard)
        count = 0 if behind is None else behind.paid_by(ddl)
        if behind is None or not count:
            return None
        after = replace(behind, table=ddl.after, owed=behind.owed[count:], ran=(*behind.ran, ddl))
        return self._keep(ddl.shard, _waiting_or_not(after, logical, ddl.shard, ddl.key), logical)

    def _keep(self, shard: Shard, after: Behind, logical: Table) -> Behind:
        """Record how a shard stands, and return it; one whose rows go on has no `since` from here on."""
        if after.owed:
            goes_on = replace(after, since=None, ran=(), again=False)
            self._behind[shard] = goes_on if after.fits(logical) else after
        else:
            del self._behind[shard]
        return after

    def count_as_done(self, shard: Shard, logical: Table) -> tuple[ShardDdl, Behind]:
        """Let a shard count as having run what it owes first; return that, and how it stands then."""
        behind = self._behind[shard]
        after = replace(behind, owed=behind.owed[1:])
        return behind.owed[0], self._keep(shard, after, logical)

    def decided(self, id: str) -> set[Shard]:
        """Return the shards whose rows wait until they have run the DDL with this id."""
        return {s for s, b in self._behind.items() if b.since is not None and open_id(b.owed[0]) == id}

    def anew(self, ddl: ShardDdl, ready: Collection[Shard]) -> tuple[Shard, tuple[ShardDdl, ...]] | None:
        """Return a shard, and remove it, that did not owe what it has run, as another runs that now, too: with what it
        has run. Only those of `ready` are looked at.
        """
        for shard, behind in self._behind.items():
            if shard not in ready:
                continue
            first = behind.ran[0] if behind.again and behind.ran else None
            if first is not None and behind.since == (first.shard, first.key) and same_ddl(first, ddl):
                del self._behind[shard]
                return shard, behind.ran
        return None

    def leave(self, shard: Shard, key: OrderKey, place: DdlPlace) -> Iterator[Effect]:
        """Remove a shard; its rows go where the columns have the names that it never gave them."""
        behind = self._behind.pop(shard, None)
        if behind is not None:
            yield from behind.released(place)
            renames = net_change_of(behind.owed).renames
            if renames:
                yield Effect(shard, key, place, renames)

    def move(self, shard: Shard, to: Shard) -> None:
        """Record that a shard has another name."""
        if shard in self._behind:
            self._behind[to] = self._behind.pop(shard)

    def held(self) -> Iterator[Effect]:
        """Yield the effects on rows that wait."""
        for behind in self._behind.values():
            if behind.since is not None:
                yield Effect(*behind.since, None)
                yield from (Effect(ddl.shard, ddl.key, None, ddl.renames) for ddl in behind.ran)

    def open(self, shards: Collection[Shard]) -> Iterator[Open]:
        """Yield the DDL that shards owe, each with those that do; not that of which nothing shows that they do."""
        owing: dict[str, tuple[ShardDdl, set[Shard]]] = {}
        for shard, behind in self._behind.items():
            for ddl in () if behind.again and not behind.ran else behind.owed:
                owing.setdefault(open_id(ddl), (ddl, set()))[1].add(shard)
        for id, (ddl, awaited) in sorted(owing.items(), key=lambda pair: pair[1][0].key):
            done = tuple(sorted(set(shards) - awaited))
            held = any(self._behind[shard].since is not None for shard in awaited)
            stage: OpenStage = "behind" if self.decided(id) else "queued" if held else "spreading"
            yield Open(id, ddl, stage, done, tuple(sorted(awaited)), (ddl,))


def _waiting_or_not(behind: Behind, logical: Table, shard: Shard, key: OrderKey) -> Behind:
    """Return a shard whose rows wait from a key on, unless they do already or the logical table takes them."""
    return behind if behind.since is not None or behind.fits(logical) else replace(behind, since=(shard, key))
