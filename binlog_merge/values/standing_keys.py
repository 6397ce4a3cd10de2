"""Which keys of a table stand, of as many as bounded memory holds: an insert of one of them is a collision.

The keys that are looked at are those with the least hashes, as many as there is room for: which they are depends on the
keys alone, so that parts of a log may be looked through apart and put together. Two shards that both count from 1 have
most of their keys in common, so a sample shows it; of a small log it is all keys.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from binlog_merge.binlog.arrow import cell_value
from binlog_merge.binlog.columnar import ColumnFacts
from binlog_merge.binlog.errors import BinlogFormatError

EVERY_HASH: Final = 1 << 64
MOST_KEYS: Final = 1 << 12
"""The keys that are held, of about half a kilobyte each."""


class Taken(NamedTuple):
    """Who gave a row a key: `origin` wrote it, in the transaction at `place`.

    `cells` are bytes of the key that are the same for equal keys, `written` those that stand in the row.
    """

    origin: str
    place: str
    cells: tuple[bytes, ...]
    written: tuple[bytes, ...]


class Collision(NamedTuple):
    """Two origins that gave rows the same key, `second` while the row of `first` stood."""

    first: Taken
    second: Taken


@dataclass
class StandingKeys:
    """The keys of one index in a part of a log.

    `firsts` has for each key that changed before an interruption what came first: who took it, None if it was freed.
    `standing` are the keys that stand at the end. After an interruption (a statement, which may remove rows) nothing is
    known to stand. Only hashes below `limit` are looked at.
    """

    limit: int = EVERY_HASH
    firsts: dict[int, Taken | None] = field(default_factory=dict)
    standing: dict[int, Taken] = field(default_factory=dict)
    interrupted: bool = False

    def take(self, hashed: int, taken: Taken) -> Collision | None:
        """Note that a row got a key; return the collision if a row of another origin has it."""
        if hashed >= self.limit:
            return None
        if not self.interrupted:
            self.firsts.setdefault(hashed, taken)
        found = _collision(self.standing.get(hashed), taken)
        self.standing[hashed] = taken
        return found

    def free(self, hashed: int) -> None:
        """Note that the row of a key is gone, or has another key."""
        if hashed < self.limit:
            if not self.interrupted:
                self.firsts.setdefault(hashed, None)
            self.standing.pop(hashed, None)

    def interrupt(self) -> None:
        """Forget what stands."""
        self.interrupted = True
        self.standing.clear()

    def follow(self, later: "StandingKeys") -> Iterator[Collision]:
        """Put together with the part of the log that follows; yield the collisions between the two."""
        self.lower(later.limit)
        for hashed, first in later.firsts.items():
            if hashed >= self.limit:
                continue
            if first is not None and (found := _collision(self.standing.get(hashed), first)):
                yield found
            if not self.interrupted:
                self.firsts.setdefault(hashed, first)
            self.standing.pop(hashed, None)
        if later.interrupted:
            self.interrupt()
        self.standing.update((h, taken) for h, taken in later.standing.items() if h < self.limit)

    def __len__(self) -> int:
        return len(self.firsts) + len(self.standing)

    def copy(self) -> "StandingKeys":
        """Return the same, to go on with apart."""
        return StandingKeys(self.limit, dict(self.firsts), dict(self.standing), self.interrupted)

    def halve(self) -> None:
        """Look only at half as many keys from here on."""
        self.lower(self.limit // 2)

    def lower(self, limit: int) -> None:
        """Look only at keys whose hash is less than a limit from here on."""
        if limit < self.limit:
            self.limit = limit
            self.firsts = {h: first for h, first in self.firsts.items() if h < limit}
            self.standing = {h: taken for h, taken in self.standing.items() if h < limit}


def _collision(first: Taken | None, second: Taken) -> Collision | None:
    if first is None or first.origin == second.origin or first.cells != second.cells:
        return None
    return Collision(first, second)


def fit(keys: Collection[StandingKeys], most: int) -> None:
    """Look at fewer keys of the indexes that have most of them, until all together have at most so many."""
    while keys and sum(map(len, keys)) > most:
        max(keys, key=len).halve()


def key_text(facts: Sequence[ColumnFacts], cells: Sequence[bytes]) -> str:
    """Return a key as text for a message: `id=512`, `code='DE'`."""
    parts = []
    for fact, cell in zip(facts, cells, strict=True):
        try:
            value: Any = cell_value(
                cell, fact.code, fact.meta, fact.unsigned, fact.charset, fact.members, fact.kind, True
            )
        except (BinlogFormatError, ValueError):
            value = cell
        shown = f"0x{value.hex()}" if isinstance(value, bytes) else repr(value) if isinstance(value, str) else value
        parts.append(f"{fact.name}={shown}")
    return ", ".join(parts)
