"""What each shard that waits has run, in order, and what that comes to on the whole.

A shard waits for the others to do the same, or is in conflict: it has run what others contradict. Shards that are in
conflict with the same DDL, and those whose lines come to the same change, are found together, so that nobody has to
look at thousands of lines to see how few differ.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Container, Iterable, Iterator

from binlog_merge.shard.composed import Composed, compose
from binlog_merge.shard.values import Shard, ShardDdl
from snapshot_store.tso import OrderKey


class Lines:
    """A line for each shard that waits: the DDL it waits with, its head, and what it has run since.

    Where a line changes, `waiting` are the shards that wait for the others to do the same.
    """

    def __init__(self) -> None:
        self._lines: dict[Shard, list[ShardDdl]] = {}
        self._changes: dict[Shard, Composed] = {}
        self._together: dict[object, tuple[Composed, set[Shard]]] = {}
        self._conflicts: dict[object, list[tuple[OrderKey, Shard]]] = {}
        self.in_conflict: set[Shard] = set()
        self.longer: set[Shard] = set()
        """The shards that have run more than what they wait with."""

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, shard: Shard) -> bool:
        return shard in self._lines

    def __getitem__(self, shard: Shard) -> list[ShardDdl]:
        return self._lines[shard]

    def __iter__(self) -> Iterator[tuple[Shard, list[ShardDdl]]]:
        """Yield shards and lines, in the order in which they began to wait."""
        return iter(self._lines.items())

    @property
    def changes(self) -> Iterable[tuple[Composed, Collection[Shard]]]:
        """Return what the lines come to: each change once, with the shards whose line comes to it."""
        return self._together.values()

    def change(self, shard: Shard) -> Composed:
        """Return what a shard's line comes to."""
        return self._changes[shard]

    def conflicts(self) -> list[ShardDdl]:
        """Return the heads in conflict, each of several alike once, in the order they were run."""
        return [self._lines[shard][0] for _, shard in sorted(alike[0] for alike in self._conflicts.values())]

    def add(self, ddl: ShardDdl, waiting: Container[Shard]) -> None:
        """Put a DDL at the end of its shard's line, or begin one."""
        self._set(ddl.shard, [*self._lines.get(ddl.shard, ()), ddl], waiting)

    def exchange(self, old: ShardDdl, new: ShardDdl, waiting: Container[Shard]) -> None:
        """Put a DDL in the place of another one of the same shard."""
        self._set(old.shard, [new if ddl is old else ddl for ddl in self._lines[old.shard]], waiting)

    def drop_heads(self, shards: Iterable[Shard], waiting: Container[Shard]) -> None:
        """Take the first out of the lines of these shards."""
        for shard in shards:
            self._set(shard, self._lines[shard][1:], waiting)

    def rename(self, shard: Shard, to: Shard, line: list[ShardDdl], waiting: Container[Shard]) -> None:
        """Give a shard's line to the name it has from now on, in its place among the others."""
        order = list(self._lines)
        self._set(shard, [], ())
        self._set(to, line, waiting)
        self._lines = {one: self._lines[one] for one in (to if one == shard else one for one in order)}

    def pop(self, shard: Shard) -> list[ShardDdl]:
        """Take a shard's line away, and return it; it may have none."""
        line = self._lines.get(shard, [])
        self._set(shard, [], ())
        return line

    def clear(self) -> None:
        """Take all lines away."""
        for shard in list(self._lines):
            self._set(shard, [], ())

    def agree(self, shard: Shard) -> None:
        """Note that a shard is no longer in conflict, but waits for others to do the same."""
        if shard not in self.in_conflict:
            return
        head = self._lines[shard][0]
        alike = self._conflicts[_effect_of(head)]
        del alike[bisect_left(alike, (head.key, shard))]
        if not alike:
            del self._conflicts[_effect_of(head)]
        self.in_conflict.remove(shard)

    def _set(self, shard: Shard, line: list[ShardDdl], waiting: Container[Shard]) -> None:
        if shard in self._lines:
            self.agree(shard)
            change, same = self._together[_key(self._changes.pop(shard))]
            same.remove(shard)
            if not same:
                del self._together[_key(change)]
            self.longer.discard(shard)
        if not line:
            self._lines.pop(shard, None)
            return
        self._lines[shard] = line
        change = self._changes[shard] = compose(line)
        self._together.setdefault(_key(change), (change, set()))[1].add(shard)
        if len(line) > 1:
            self.longer.add(shard)
        if shard not in waiting:
            self.in_conflict.add(shard)
            insort(self._conflicts.setdefault(_effect_of(line[0]), []), (line[0].key, shard))


def _key(change: Composed) -> object:
    """Return what tells changes apart: hashing their tables would take longer than anything done with them."""
    return id(change.before), id(change.after), change.renames, change.replaced


def _effect_of(ddl: ShardDdl) -> object:
    """Return what tells DDL of several shards apart, however they are written."""
    return id(ddl.before), tuple((id(step.after), step.adds, step.drops, step.renames) for step in ddl.steps)
