"""A statement of several clauses against the lock, and columns that are on their way out.

DM calls this TrySync. Beside the lock it keeps which shards have dropped a column that others still have: adding it
again there cannot be told from never having dropped it, since the target still holds the old values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from binlog_merge.shard.lock import Lock, Stage
from binlog_merge.shard.values import Shard, Step
from snapshot_store.lattice_types import compare_types
from snapshot_store.model import Table


class Progress(Enum):
    """How far a shard's DROP COLUMN is: not written out, written out by another shard, or by this one."""

    NOT_DONE = "NotDone"
    PARTIALLY_DONE = "PartiallyDone"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class Dropping:
    """Columns that some shards have dropped, by lower-case name, with how far each of those shards is."""

    columns: Mapping[str, Mapping[Shard, Progress]] = field(default_factory=dict)

    def has(self, shard: Shard, column: str) -> bool:
        """Tell whether a shard has dropped a column that is not gone everywhere."""
        return shard in self.columns.get(column.lower(), {})

    def begun(self, shard: Shard, column: str) -> "Dropping":
        """Note that a shard has dropped a column."""
        name = column.lower()
        return Dropping({**self.columns, name: {**self.columns.get(name, {}), shard: Progress.NOT_DONE}})

    def done(self, shard: Shard, columns: Sequence[str], written: bool) -> "Dropping":
        """Note that a shard is through with dropping columns, and whether a DDL was written out for it.

        A column is forgotten when all shards that dropped it are through and one of them has had it written out.
        """
        known = dict(self.columns)
        for name in (column.lower() for column in columns):
            if name not in known:
                continue
            shards = {**known[name], shard: Progress.DONE if written else Progress.PARTIALLY_DONE}
            over = Progress.NOT_DONE not in shards.values() and Progress.DONE in shards.values()
            known = {n: s for n, s in known.items() if n != name} | ({} if over else {name: shards})
        return Dropping(known)

    def gone(self, columns: Sequence[str]) -> "Dropping":
        """Forget columns that the target no longer has."""
        names = {column.lower() for column in columns}
        return Dropping({n: s for n, s in self.columns.items() if n not in names})

    def moved(self, shard: Shard, to: Shard) -> "Dropping":
        """Let a shard get another name."""
        return Dropping(
            {n: {to if s == shard else s: p for s, p in shards.items()} for n, shards in self.columns.items()}
        )

    def without(self, shard: Shard) -> tuple["Dropping", tuple[str, ...]]:
        """Forget a shard; also return the columns that no shard is dropping any more."""
        left = {n: {s: p for s, p in shards.items() if s != shard} for n, shards in self.columns.items()}
        kept = {n: shards for n, shards in left.items() if shards or n not in self.columns}
        return Dropping(kept), tuple(n for n in left if n not in kept)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a statement: the steps that DM would write out, and the columns they drop.

    `refused` is why nothing was done although no shard is in the way.
    """

    stage: Stage
    written: tuple[Step, ...] = ()
    dropped: tuple[str, ...] = ()
    released: tuple[Shard, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """The lock, what is being dropped, and which shards have carried out what they were told."""

    lock: Lock
    dropping: Dropping = Dropping()
    done: frozenset[Shard] = frozenset()

    @property
    def resolved(self) -> bool:
        """Tell whether all shards have come to one table, and all have carried it out."""
        return self.lock.all_ready and self.done >= set(self.lock.normal)

    def mark_done(self, shard: Shard) -> "Round":
        """Note that a shard has carried out what it was told."""
        return replace(self, done=self.done | {shard})

    def without(self, shard: Shard) -> tuple["Round", tuple[str, ...]]:
        """Let a shard go; also return the columns that no shard is dropping any more."""
        dropping, columns = self.dropping.without(shard)
        return Round(self.lock.without(shard), dropping, self.done - {shard}), columns

    def moved(self, shard: Shard, to: Shard) -> "Round":
        """Let a shard get another name."""
        done = self.done if shard not in self.done else (self.done - {shard}) | {to}
        return Round(self.lock.moved(shard, to), self.dropping.moved(shard, to), done)

    def try_sync(self, shard: Shard, before: Table, steps: Sequence[Step]) -> tuple["Round", Answer]:
        """Return the round after a statement of a shard, clause by clause, and what became of it.

        A clause that waits ends it, with those before it done; one in conflict, or refused, undoes all.
        """
        now, written, dropped, released = self, list[Step](), list[str](), list[Shard]()
        table = before
        undone = replace(self, lock=self.lock.with_table(shard, before), done=self.done - {shard})
        for step in steps:
            earlier = now.lock
            lock, verdict = now.lock.step(shard, table, step.after)
            if verdict.stage is Stage.CONFLICT:
                return undone, Answer(Stage.CONFLICT)
            now = replace(now, lock=lock)
            if verdict.stage is Stage.WAITS:
                now = replace(now, done=now.done - {shard})
                return now, Answer(Stage.WAITS, tuple(written), tuple(dropped), tuple(released))
            refused = now._refusal(shard, step, dropped, earlier.with_table(shard, table))
            if refused:
                return undone, Answer(Stage.CONFLICT, refused=refused)
            for column in step.drops:
                now = replace(now, dropping=now.dropping.begun(shard, column))
                dropped.append(column)
            if verdict.changes:
                written.append(step)
            released += verdict.released
            table = step.after
        if written:
            now = replace(now, done=now.done - {shard})
        return now, Answer(Stage.ACCEPTED, tuple(written), tuple(dropped), tuple(released))

    def _refusal(self, shard: Shard, step: Step, dropped: Sequence[str], earlier: Lock) -> str:
        if self.lock.rules.settle:
            return ""
        for column in step.adds:
            if self.dropping.has(shard, column) or column in dropped:
                return f"add column {column} that wasn't fully dropped in downstream"
            if any(_longer(step.after, other, column) for other in (earlier.joined, self.lock.joined)):
                return f"add columns with different field lengths: {column}"
        return ""


def _longer(table: Table, other: Table | None, column: str) -> bool:
    """Tell whether a column is not as long as its namesake."""
    if other is None or other.index_of(column) is None or table.index_of(column) is None:
        return False
    types = [t.columns[t.index_of(column) or 0].type for t in (table, other)]
    return any(finding.aspect == "length" and finding.verdict != 0 for finding in compare_types(column, *types))
