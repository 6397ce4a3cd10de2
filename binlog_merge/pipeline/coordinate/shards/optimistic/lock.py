"""The optimistic lock: the schema of each shard of a logical table, and the outcome of one more DDL of a shard.

It is DM's lock (pingcap/tiflow `dm/pkg/shardddl/optimism/lock.go`) as a value, in DM's terms: an `Info` is a shard's
DDL with the tables before and after it, an `Operation` is its outcome. A DDL that makes a shard's table accept more, or
less, is *normal* and done at once. One that does both, such as RENAME COLUMN, is *conflicting*: the shard's table
before it stays in `normal`, the one after it goes to `waiting`, until all shards have made the same change
(`shapes.settled`). `Rules` are the points in which this lock improves on DM's; `DM` turns them off.

The lock counts how many shards have each table and updates the counts as shards change, so the cost of an event does
not grow with the number of shards.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from binlog_merge.pipeline.coordinate.shards.optimistic.doubts import Dropping
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Change, Shape, Shapes, done_elsewhere, settled
from binlog_merge.pipeline.coordinate.shards.values import Shard, ShardDdl, Step
from snapshot_store.lattice.columns import compare_types
from snapshot_store.model import Table


@dataclass(frozen=True, slots=True)
class Rules:
    """The points in which the lock differs from DM's.

    `fill`: a NOT NULL column without DEFAULT may be missing elsewhere, as if it had its type's zero. `settle`: waiting
    DDL is examined after every accepted DDL, not only after normal ones, and nothing is accepted that leaves the shards
    without a join.
    """

    fill: bool = True
    settle: bool = True


DM = Rules(fill=False, settle=False)


@dataclass(frozen=True, slots=True)
class Info:
    """A shard's DDL with the shapes of its table: `before` it, and after each of its steps (DM: `Info`)."""

    ddl: ShardDdl
    before: Shape
    afters: tuple[Shape, ...]

    @staticmethod
    def of(ddl: ShardDdl, shapes: Shapes) -> "Info":
        """Return a DDL with its tables numbered."""
        return Info(ddl, shapes.of(ddl.before), tuple(shapes.of(step.after) for step in ddl.steps))

    @property
    def shard(self) -> Shard:
        """Return the shard that ran it."""
        return self.ddl.shard

    @property
    def after(self) -> Shape:
        """Return the shape after the last step."""
        return self.afters[-1]

    def moved(self, to: Shard) -> "Info":
        """Return the same DDL for the shard under another name."""
        return replace(self, ddl=replace(self.ddl, shard=to))


class Stage(Enum):
    """The outcome of a DDL (DM: `ConflictStage`)."""

    ACCEPTED = "accepted"
    WAITS = "waits"
    """Conflicting: it waits until all shards have made the same change (DM: ConflictSkipWaitRedirect)."""
    CONFLICT = "conflict"
    """It contradicts a DDL that another shard waits with or has run (DM: ConflictDetected)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The outcome of a statement: the steps that DM would write out, and the columns they drop (DM: `Operation`).

    `released` are shards that no longer wait; `refused` is the reason if nothing was done although no shard conflicts.
    """

    stage: Stage
    written: tuple[Step, ...] = ()
    dropped: tuple[str, ...] = ()
    released: tuple[Shard, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one clause. `changes`: DM would write it out; `released`: shards that no longer wait."""

    stage: Stage
    changes: bool = False
    released: tuple[Shard, ...] = ()


class Standing(NamedTuple):
    """A shard's table as far as coordinated, and the table it waits with, if it does."""

    normal: Shape
    waiting: Shape | None = None

    @property
    def final(self) -> Shape:
        """Return the shard's actual table."""
        return self.normal if self.waiting is None else self.waiting


@dataclass(frozen=True, slots=True)
class Lock:
    """The shards' tables: `normal` as far as coordinated, `waiting` after a conflicting DDL.

    `counts` is how many shards have each pair of these, `dropping` the columns that not all shards have dropped yet.
    Use `Lock.of` to make one.
    """

    shapes: Shapes
    normal: Mapping[Shard, Shape]
    waiting: Mapping[Shard, Shape]
    counts: Mapping[Standing, int]
    rules: Rules
    dropping: Dropping

    @staticmethod
    def of(shapes: Shapes, tables: Mapping[Shard, Table], rules: Rules = Rules()) -> "Lock":
        """Return the lock of shards none of which waits."""
        return Lock(shapes, {}, {}, {}, rules, Dropping()).at({s: shapes.of(table) for s, table in tables.items()})

    def at(self, normal: Mapping[Shard, Shape]) -> "Lock":
        """Return the lock with all shards at these tables, none of them waiting."""
        return replace(self, normal=normal, waiting={}, counts=Counter(map(Standing, normal.values())))

    @property
    def final(self) -> dict[Shard, Shape]:
        """Return every shard's actual table."""
        return {**self.normal, **self.waiting}

    @property
    def joined(self) -> Shape | None:
        """Return the table that accepts the rows of all shards, without DDL that waits; None if there is none."""
        return self.shapes.join(standing.normal for standing in self.counts)

    def ready(self) -> dict[Shard, bool]:
        """Return for each shard whether its table accepts what the join of all shards' tables accepts."""
        tables = self._finals()
        joined = self.shapes.join(tables)
        ready = {table for table in tables if joined is not None and self.shapes.alike(joined, table)}
        return {shard: table in ready for shard, table in self.final.items()}

    @property
    def all_ready(self) -> bool:
        """Return whether the tables of all shards accept the same rows."""
        tables = self._finals()
        joined = self.shapes.join(tables)
        return not tables or (joined is not None and all(self.shapes.alike(joined, table) for table in tables))

    @property
    def settled(self) -> bool:
        """Return whether there are waiting shards that no longer need to wait."""
        changes = self._changes()
        return bool(changes) and settled(self.shapes, changes, self._finals(), self.rules.fill)

    def _finals(self) -> set[Shape]:
        return {standing.final for standing in self.counts}

    def _changes(self) -> list[Change]:
        """Return the distinct changes that shards wait with."""
        return [Change(normal, waiting) for normal, waiting in self.counts if waiting is not None]

    def with_table(self, shard: Shard, table: Shape) -> "Lock":
        """Return the lock with a shard that has `table` and does not wait."""
        return self._with(shard, Standing(table))

    def without(self, shard: Shard) -> tuple["Lock", tuple[str, ...]]:
        """Return the lock without a shard, and the columns that no shard is dropping any more."""
        dropping, columns = self.dropping.without(shard)
        return replace(self._with(shard, None), dropping=dropping), columns

    def moved(self, shard: Shard, to: Shard) -> "Lock":
        """Return the lock with a shard renamed."""
        lock = self._with(shard, None)._with(to, self._standing(shard))
        return replace(lock, dropping=self.dropping.moved(shard, to))

    def released(self) -> "Lock":
        """Return the lock in which every waiting shard has the table it waited with."""
        return self.at(self.final)

    def try_sync(self, info: Info) -> tuple["Lock", Operation]:
        """Return the lock after a statement of a shard, clause by clause, and the outcome (DM: `TrySync`).

        A clause that waits ends it, with the clauses before it done. A clause in conflict, or refused, undoes all.
        """
        now, written, dropped, released = self, list[Step](), list[str](), list[Shard]()
        shard, table = info.shard, info.before
        undone = self.with_table(shard, table)
        for step, after in zip(info.ddl.steps, info.afters, strict=True):
            earlier = now
            now, verdict = now.step(shard, table, after)
            if verdict.stage is Stage.CONFLICT:
                return undone, Operation(Stage.CONFLICT)
            if verdict.stage is Stage.WAITS:
                return now, Operation(Stage.WAITS, tuple(written), tuple(dropped), tuple(released))
            refused = now._refusal(shard, step, dropped, earlier.with_table(shard, table))
            if refused:
                return undone, Operation(Stage.CONFLICT, refused=refused)
            for column in step.drops:
                now = replace(now, dropping=now.dropping.begun(shard, column))
                dropped.append(column)
            if verdict.changes:
                written.append(step)
            released += verdict.released
            table = after
        return now, Operation(Stage.ACCEPTED, tuple(written), tuple(dropped), tuple(released))

    def _refusal(self, shard: Shard, step: Step, dropped: Sequence[str], earlier: "Lock") -> str:
        if self.rules.settle:
            return ""
        for column in step.adds:
            if self.dropping.has(shard, column) or column in dropped:
                return f"add column {column} that wasn't fully dropped in downstream"
            joins = [self.shapes[joined] for joined in (earlier.joined, self.joined) if joined is not None]
            if any(_longer(step.after, other, column) for other in joins):
                return f"add columns with different field lengths: {column}"
        return ""

    def step(self, shard: Shard, before: Shape, after: Shape) -> tuple["Lock", Verdict]:
        """Return the lock after a single clause of a shard, and the outcome.

        With WAITS the shard is among `waiting` of the lock; with CONFLICT the lock is as if the DDL had not come.
        """
        shapes, fill, stored = self.shapes, self.rules.fill, self.normal.get(shard)
        # A DDL that is repeated after its effect: DM's workers resend DDL that was not acknowledged.
        again = stored is not None and not shapes.alike(before, stored) and shapes.alike(after, stored)
        lock = self.with_table(shard, before)
        if shapes.order(before, after, fill) is not None:
            found = lock._normal_step(shard, before, after)
            if found is not None:
                return found
        accepted = lock.with_table(shard, after)
        others = [standing.normal for standing in _recounted(lock.counts, lock._standing(shard), None)]
        if (again or done_elsewhere(shapes, Change(before, after), others, fill)) and (
            accepted.joined is not None or not self.rules.settle
        ):
            return accepted._settle(Verdict(Stage.ACCEPTED, True))
        return lock._conflicting_step(shard, after)

    def _normal_step(self, shard: Shard, before: Shape, after: Shape) -> tuple["Lock", Verdict] | None:
        """Apply a DDL that makes the table larger or smaller; None if the result cannot be joined."""
        old, lock, alike = self.joined, self.with_table(shard, after), self.shapes.alike
        new = lock.joined
        if new is None:
            return None
        if lock.settled:
            return lock.released(), Verdict(Stage.ACCEPTED, True, tuple(lock.waiting))
        grows = self.shapes.order(before, after, self.rules.fill)
        changes = old is None or not alike(old, new) or alike(after, old) or (grows is not None and grows <= 0)
        return lock, Verdict(Stage.ACCEPTED, changes)

    def _conflicting_step(self, shard: Shard, after: Shape) -> tuple["Lock", Verdict]:
        lock = self._with(shard, Standing(self.normal[shard], after))
        changes = lock._changes()
        if not settled(self.shapes, changes, [change.after for change in changes], self.rules.fill):
            return self, Verdict(Stage.CONFLICT)
        if lock.settled:
            return lock.released(), Verdict(Stage.ACCEPTED, True, tuple(s for s in lock.waiting if s != shard))
        return lock, Verdict(Stage.WAITS)

    def _settle(self, verdict: Verdict) -> tuple["Lock", Verdict]:
        if self.rules.settle and self.settled:
            return self.released(), replace(verdict, released=tuple(self.waiting))
        return self, verdict

    def _standing(self, shard: Shard) -> Standing:
        return Standing(self.normal[shard], self.waiting.get(shard))

    def _with(self, shard: Shard, new: Standing | None) -> "Lock":
        """Return the lock with a shard changed, or removed if `new` is None."""
        old = self._standing(shard) if shard in self.normal else None
        if old == new:
            return self
        return replace(
            self,
            normal=_put(self.normal, shard, None if new is None else new.normal),
            waiting=_put(self.waiting, shard, None if new is None else new.waiting),
            counts=_recounted(self.counts, old, new),
        )


def _recounted(counts: Mapping[Standing, int], old: Standing | None, new: Standing | None) -> Mapping[Standing, int]:
    """Return the counts after a shard has joined (`old` None), left (`new` None) or changed."""
    found = dict(counts)
    if old is not None:
        found[old] -= 1
        if not found[old]:
            del found[old]
    if new is not None:
        found[new] = found.get(new, 0) + 1
    return found


def _put(tables: Mapping[Shard, Shape], shard: Shard, table: Shape | None) -> Mapping[Shard, Shape]:
    """Return a copy in which a shard has a table, or none if it is None; the mapping itself if nothing changes."""
    if tables.get(shard) == table:
        return tables
    copy = dict(tables)
    if table is None:
        del copy[shard]
    else:
        copy[shard] = table
    return copy


def _longer(table: Table, other: Table, column: str) -> bool:
    """Return whether a column differs in length from the one of the same name."""
    if other.index_of(column) is None or table.index_of(column) is None:
        return False
    types = [t.columns[t.index_of(column) or 0].type for t in (table, other)]
    return any(finding.aspect == "length" and finding.verdict != 0 for finding in compare_types(column, *types))
