"""The optimistic lock: how far each shard of a logical table is, and what one more DDL of one of them means.

It is DM's lock (pingcap/tiflow `dm/pkg/shardddl/optimism/lock.go`) as a value. A DDL that makes a shard's table accept
more, or less, is *normal* and done at once. One that does both, such as RENAME COLUMN, is *conflicting*: the shard's
table before it stays in `normal`, the one after it goes to `waiting`, until all shards have made the same change
(`joined.settled`).

`Rules` names where this lock does better than DM's; `DM` has them off.

What many shards come to is told from a census of the few tables that they have, which goes along from event to event:
an event costs about the same, however many shards there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from binlog_merge.shard.census import Census, Standing
from binlog_merge.shard.joined import Change, alike, done_elsewhere, join_all, order, settled
from binlog_merge.shard.shapes import one
from binlog_merge.shard.values import Shard
from snapshot_store.model import Table


@dataclass(frozen=True, slots=True)
class Rules:
    """Where the lock departs from DM.

    `fill`: a column NOT NULL without DEFAULT may be missing elsewhere, as if it had its type's zero. `settle`: what
    waits is looked at after every accepted DDL, not only after normal ones; and nothing is accepted that leaves the
    shards without a join.
    """

    fill: bool = True
    settle: bool = True


DM = Rules(fill=False, settle=False)


class Stage(Enum):
    """What became of a DDL."""

    ACCEPTED = "accepted"
    WAITS = "waits"
    """Conflicting: it waits until all shards have made the same change (DM: ConflictSkipWaitRedirect)."""
    CONFLICT = "conflict"
    """It contradicts what another shard waits with, or has (DM: ConflictDetected)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a DDL. `changes`: DM would write it out; `released`: shards that no longer wait."""

    stage: Stage
    changes: bool = False
    released: tuple[Shard, ...] = ()


@dataclass(frozen=True, slots=True)
class Lock:
    """The shards' tables: `normal` as far as coordinated, `waiting` where a conflicting DDL leads to."""

    normal: Mapping[Shard, Table] = field(default_factory=dict)
    waiting: Mapping[Shard, Table] = field(default_factory=dict)
    rules: Rules = Rules()
    _counted: Census | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def census(self) -> Census:
        """Return how many shards stand where; counted when first asked for, and from there on as shards move."""
        if self._counted is None:
            object.__setattr__(self, "_counted", Census.of(self.standing(shard) for shard in self.normal))
        assert self._counted is not None
        return self._counted

    @property
    def final(self) -> dict[Shard, Table]:
        """Return every shard's table as it is."""
        return {**self.normal, **self.waiting}

    @property
    def joined(self) -> Table | None:
        """Return the table that takes the rows of all shards, those that wait as before; None if there is none."""
        return join_all(standing.normal for standing, _ in self.census)

    def ready(self) -> dict[Shard, bool]:
        """Tell for each shard whether its table is what all come to."""
        tables = [standing.final for standing, _ in self.census]
        joined = join_all(tables)
        ready = {id(table) for table in tables if joined is not None and alike(joined, table)}
        return {shard: id(table) in ready for shard, table in self.final.items()}

    @property
    def all_ready(self) -> bool:
        """Tell whether all shards have come to one table."""
        tables = [standing.final for standing, _ in self.census]
        joined = join_all(tables)
        return not tables or (joined is not None and all(alike(joined, table) for table in tables))

    @property
    def settled(self) -> bool:
        """Tell whether there are shards that wait, and no longer need to."""
        census = self.census
        changes = _changes(census)
        return bool(changes) and settled(changes, [standing.final for standing, _ in census], self.rules.fill)

    def with_table(self, shard: Shard, table: Table) -> "Lock":
        """Return the lock with a shard that stands at `table` and waits for nothing."""
        return self._with(shard, Standing(one(table)))

    def without(self, shard: Shard) -> "Lock":
        """Return the lock without a shard."""
        return self._with(shard, None)

    def moved(self, shard: Shard, to: Shard) -> "Lock":
        """Return the lock in which a shard has another name."""
        standing = self.standing(shard)
        return self._with(shard, None)._with(to, standing)

    def released(self) -> "Lock":
        """Return the lock in which every shard has what it waited with."""
        return replace(self, normal=self.final, waiting={})

    def step(self, shard: Shard, before: Table, after: Table) -> tuple["Lock", Verdict]:
        """Return the lock after one DDL, one clause, of a shard, and what became of it.

        A lock that returns WAITS has the shard among `waiting`; with CONFLICT it is as if the DDL had not come.
        """
        before, after, stored = one(before), one(after), self.normal.get(shard)
        # A DDL that comes again, after its effect: DM's workers send anew what they have not seen answered.
        again = stored is not None and not alike(before, stored) and alike(after, stored)
        lock = self.with_table(shard, before)
        if order(before, after, self.rules.fill) is not None:
            found = lock._normal_step(shard, before, after)
            if found is not None:
                return found
        accepted = lock.with_table(shard, after)
        others = [standing.normal for standing, _ in lock.census.moved(lock.standing(shard), None)]
        if (again or done_elsewhere(Change(before, after), others, self.rules.fill)) and (
            accepted.joined is not None or not self.rules.settle
        ):
            return accepted._settle(Verdict(Stage.ACCEPTED, True))
        return lock._conflicting_step(shard, after)

    def _normal_step(self, shard: Shard, before: Table, after: Table) -> tuple["Lock", Verdict] | None:
        """Take a DDL that makes the table larger or smaller; None if what it leads to cannot be joined."""
        old, lock = self.joined, self.with_table(shard, after)
        new = lock.joined
        if new is None:
            return None
        if lock.settled:
            return lock.released(), Verdict(Stage.ACCEPTED, True, tuple(lock.waiting))
        grows = order(before, after, self.rules.fill)
        changes = old is None or not alike(old, new) or alike(after, old) or (grows is not None and grows <= 0)
        return lock, Verdict(Stage.ACCEPTED, changes)

    def _conflicting_step(self, shard: Shard, after: Table) -> tuple["Lock", Verdict]:
        lock = self._with(shard, Standing(self.normal[shard], one(after)))
        changes = _changes(lock.census)
        if not settled(changes, [change.after for change in changes], self.rules.fill):
            return self, Verdict(Stage.CONFLICT)
        if lock.settled:
            return lock.released(), Verdict(Stage.ACCEPTED, True, tuple(s for s in lock.waiting if s != shard))
        return lock, Verdict(Stage.WAITS)

    def _settle(self, verdict: Verdict) -> tuple["Lock", Verdict]:
        if self.rules.settle and self.settled:
            return self.released(), replace(verdict, released=tuple(self.waiting))
        return self, verdict

    def standing(self, shard: Shard) -> Standing:
        """Return where a shard stands."""
        return Standing(self.normal[shard], self.waiting.get(shard))

    def _with(self, shard: Shard, new: Standing | None) -> "Lock":
        """Return the lock with a shard somewhere else, or gone."""
        old = self.standing(shard) if shard in self.normal else None
        if old is None and new is None:
            return self
        if old is not None and new is not None and old.normal is new.normal and old.waiting is new.waiting:
            return self
        lock = replace(
            self,
            normal=_put(self.normal, shard, None if new is None else new.normal),
            waiting=_put(self.waiting, shard, None if new is None else new.waiting),
        )
        object.__setattr__(lock, "_counted", self.census.moved(old, new))
        return lock


def _changes(census: Census) -> list[Change]:
    """Return what shards wait with, each change once."""
    return [Change(normal, waiting) for (normal, waiting), _ in census if waiting is not None]


def _put(tables: Mapping[Shard, Table], shard: Shard, table: Table | None) -> Mapping[Shard, Table]:
    """Return a copy in which a shard has a table, or None; the mapping itself if that is how it is."""
    if tables.get(shard) is table:
        return tables
    copy = dict(tables)
    if table is None:
        del copy[shard]
    else:
        copy[shard] = table
    return copy
