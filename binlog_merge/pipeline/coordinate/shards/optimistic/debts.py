"""DDL that an operator marked as done on a shard that has not run it yet."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.net_change import inverse, same_ddl
from binlog_merge.pipeline.coordinate.shards.values import LAST, Effect, Shard, ShardDdl


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
