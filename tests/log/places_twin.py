"""Where places stand in a merged log, told plainly: by a look at every transaction, with the keys that the oracle says.

Nothing of the product is called: events are cut by hand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

Key = tuple[int, int, int, int]
_GTIDS: Final = (33, 34)
_ROTATE: Final = 4
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST: Final = ((1 << 63) - 1, 10**10 - 1, 10**6 - 1)


@dataclass(frozen=True)
class Known:
    """A transaction: its rank, file, and where it begins and ends; the places of its events; its commit time in µs."""

    rank: int
    file: str
    start: int
    end: int
    events: tuple[int, ...]
    commit_us: int
    key: Key
    rows: bool


@dataclass(frozen=True)
class Asked:
    """A place as a user writes it, the ranks of the last transaction before it and up to it, and its form."""

    form: str
    text: str
    before: int
    through: int


def number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def transactions(out: Path, keys: Sequence[str]) -> list[Known]:
    """Return the transactions of a log, whose order keys are given."""
    found: list[Known] = []
    for path in sorted(out.glob("binlog.0*")):
        data, at, begun, times = path.read_bytes(), 4, list[list[int]](), list[int]()
        rows: list[bool] = []
        while at < len(data):
            kind, size = data[at + 4], number(data, at + 9, 4)
            if kind in _GTIDS:
                begun.append([])
                times.append(number(data, at + 19 + 42, 7) & (1 << 55) - 1)
                rows.append(data[at + size + 4] == 2 and data[at + size :][: number(data, at + size + 9, 4)][:-4]
                            .endswith(b"BEGIN"))  # fmt: skip
            if begun and kind != _ROTATE:
                begun[-1].append(at)
            at += size
        end = len(data)
        if kind == _ROTATE:
            end -= size
        for i, events in enumerate(begun):
            stop = begun[i + 1][0] if i + 1 < len(begun) else end
            digits, rank = keys[len(found)], len(found) + 1
            key = (int(digits[:19]), int(digits[19:38]), int(digits[38:48]), int(digits[48:]))
            found.append(Known(rank, path.name, events[0], stop, tuple(events), times[i], key, rows[i]))
    assert len(found) == len(keys)
    return found


def digits(key: Key) -> str:
    return f"{key[0]:019d}{key[1]:019d}{key[2]:010d}{key[3]:06d}"


def beside(key: Key) -> Iterator[Key]:
    """Yield the key before one, itself, and the one behind."""
    tso, number, seq, node = key
    if node:
        yield tso, number, seq, node - 1
    elif seq:
        yield tso, number, seq - 1, _LARGEST[2]
    elif number:
        yield tso, number - 1, *_LARGEST[1:]
    yield key
    yield tso, number, seq, node + 1


def written(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat()


class Twin:
    """The places of a log."""

    def __init__(self, uuid: str, known: Sequence[Known]) -> None:
        self.uuid = uuid
        self.known = known
        self.timed = 10**12 <= known[-1].key[0] >> 22 < 4_294_967_296_000

    def around(self, one: Known) -> Iterator[Asked]:
        """Yield the places right before a transaction, at it, inside of it, and behind it."""
        yield Asked("gtid", f"{self.uuid}:{one.rank}", one.rank - 1, one.rank)
        yield Asked("gtid", f"{self.uuid.upper().replace('-', '')}:{one.rank}", one.rank - 1, one.rank)
        yield Asked(
            "gtids",
            f"{self.uuid}:1-{one.rank}" if one.rank % 2 else f" {self.uuid} : 1 - {one.rank} ",
            one.rank,
            one.rank,
        )
        for key in beside(one.key):
            yield Asked("key", digits(key), self.below(key), self.upto(key))
        for tso in (max(0, one.key[0] - 1), one.key[0], one.key[0] + 1):
            text = str(tso) if tso > 10**15 else f"{tso:019d}"
            yield Asked("tso", text, self.below((tso, 0, 0, 0)), self.below((tso + 1, 0, 0, 0)))
        base = (one.key[0] >> 22) * 1000 if self.timed else one.commit_us
        for micros in (base - 1000, base - 1, base, base + 1, base + 999, base + 1000):
            yield Asked("time", written(micros), self.earlier(micros), self.earlier((micros // 1000 + 1) * 1000))
        for at in {*one.events[:3], one.events[len(one.events) // 2], one.events[-1]}:
            yield Asked("position", f"{one.file}:{at}", one.rank - 1, one.rank - 1)
        yield Asked("position", f"somewhere/{one.file}:{one.end}", one.rank, one.rank)

    def below(self, key: Key) -> int:
        return sum(one.key < key for one in self.known)

    def upto(self, key: Key) -> int:
        return sum(one.key <= key for one in self.known)

    def earlier(self, micros: int) -> int:
        """Return the rank of the last transaction before the first at a time or later."""
        if self.timed:
            return sum((one.key[0] >> 22) * 1000 < micros for one in self.known)
        return next((one.rank for one in self.known if one.commit_us >= micros), len(self.known) + 1) - 1
