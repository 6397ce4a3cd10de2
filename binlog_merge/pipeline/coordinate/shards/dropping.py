"""Columns that some shards have dropped and others still have (DM: `Lock.columns`).

If a shard adds such a column again, the target still holds the old values, as if the column had never been dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from binlog_merge.pipeline.coordinate.shards.values import Shard


class Progress(Enum):
    """How far a shard's DROP COLUMN is: not written out, written out by another shard, or by this one."""

    NOT_DONE = "NotDone"
    PARTIALLY_DONE = "PartiallyDone"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class Dropping:
    """Columns that some shards have dropped, by lower-case name, with the progress of each of those shards."""

    columns: Mapping[str, Mapping[Shard, Progress]] = field(default_factory=dict)

    def has(self, shard: Shard, column: str) -> bool:
        """Return whether a shard has dropped a column that not all shards have dropped."""
        return shard in self.columns.get(column.lower(), {})

    def begun(self, shard: Shard, column: str) -> "Dropping":
        """Return this after a shard has dropped a column."""
        name = column.lower()
        return Dropping({**self.columns, name: {**self.columns.get(name, {}), shard: Progress.NOT_DONE}})

    def done(self, shard: Shard, columns: Sequence[str], written: bool) -> "Dropping":
        """Return this after a shard has finished dropping columns; `written`: a DDL was written out for it.

        A column is forgotten once all shards that dropped it have finished and a DDL was written out for one of them.
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
        """Return this without columns that the target no longer has."""
        names = {column.lower() for column in columns}
        return Dropping({n: s for n, s in self.columns.items() if n not in names})

    def moved(self, shard: Shard, to: Shard) -> "Dropping":
        """Return this with a shard renamed."""
        return Dropping(
            {n: {to if s == shard else s: p for s, p in shards.items()} for n, shards in self.columns.items()}
        )

    def without(self, shard: Shard) -> tuple["Dropping", tuple[str, ...]]:
        """Return this without a shard, and the columns that no shard is dropping any more."""
        remaining = {n: {s: p for s, p in shards.items() if s != shard} for n, shards in self.columns.items()}
        kept = {n: shards for n, shards in remaining.items() if shards or n not in self.columns}
        return Dropping(kept), tuple(n for n in remaining if n not in kept)
