"""Several statements of one shard as one change: what they come to, and which columns are the same ones after it.

RENAME COLUMN a TO b; RENAME COLUMN b TO a      comes to nothing
RENAME COLUMN a TO b; RENAME COLUMN b TO c      comes to RENAME COLUMN a TO c
DROP COLUMN a; ADD COLUMN a INT                 leaves a column a, but another one
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binlog_merge.shard.shapes import by_identity
from binlog_merge.shard.values import ShardDdl, Step
from snapshot_store.model import Table


@dataclass(frozen=True, slots=True)
class Composed:
    """A change from `before` to `after`: the columns renamed on the whole, and those replaced by a namesake."""

    before: Table
    after: Table
    renames: tuple[tuple[str, str], ...]
    replaced: tuple[str, ...]

    def source(self, column: str) -> str | None:
        """Return the column of `before` whose values a column of `after` has; None if it is a new one."""
        name = column.lower()
        renamed = next((old for old, new in self.renames if new.lower() == name), None)
        if renamed is not None or name in (replaced.lower() for replaced in self.replaced):
            return renamed
        return column if self.before.index_of(column) is not None else None


def compose(ddls: Sequence[ShardDdl]) -> Composed:
    """Return what consecutive statements of one shard come to."""
    return _compose(*ddls)


@by_identity
def _compose(*ddls: ShardDdl) -> Composed:
    return composed(ddls[0].before, (step for ddl in ddls for step in ddl.steps))


def composed(before: Table, steps: Iterable[Step]) -> Composed:
    """Return what consecutive clauses come to."""
    after = before
    origin: dict[str, str | None] = {c.name.lower(): c.name for c in before.columns}
    for step in steps:
        after = step.after
        for name in step.drops:
            origin.pop(name.lower(), None)
        moved = [(new.lower(), origin.pop(old.lower(), None)) for old, new in step.renames]
        origin.update(moved)
        origin.update((name.lower(), None) for name in step.adds)
    had = {c.name.lower() for c in before.columns}
    renames, replaced = [], []
    for column in after.columns:
        source = origin.get(column.name.lower())
        if source is not None and source.lower() != column.name.lower():
            renames.append((source, column.name))
        if source is None and column.name.lower() in had:
            replaced.append(column.name)
    return Composed(before, after, tuple(renames), tuple(replaced))


def inverse(renames: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the renames that undo these."""
    return tuple((new, old) for old, new in reversed(renames))
