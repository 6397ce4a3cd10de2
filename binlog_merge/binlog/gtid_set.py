"""GTID sets: intervals of transaction numbers by source and tag, as text and in both wire forms.

    plain    source count 8 | (sid 16 | interval count 8 | (start 8, end 8)*)*            end is not included
    tagged   1 | source count 6 | 1 | (sid 16 | tag length varlen, tag | interval count 8 | (start 8, end 8)*)*

Source: mysql-server `sql/rpl_gtid_set.cc` (encode, encode_nsids_format).
"""

import re
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Self

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Buffer, Reader, pack_uint, pack_varlen, read_varlen

MAX_GNO: Final = (1 << 63) - 1
"""GNO_END: one more than the greatest transaction number."""

_SPAN: Final = struct.Struct("<QQ")

TAG_PATTERN: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")


def format_sid(sid: bytes) -> str:
    """Return the 16 bytes of a server uuid as text."""
    return str(uuid.UUID(bytes=sid))


Intervals = tuple[tuple[int, int], ...]
"""Sorted, disjoint, not adjacent (start, end), end not included."""


@dataclass(frozen=True, slots=True)
class GtidSet:
    """A set of GTIDs: (uuid bytes, tag) -> intervals. An untagged source has the tag ""."""

    intervals: Mapping[tuple[bytes, str], Intervals] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Iterable[tuple[bytes, str, int, int]]) -> Self:
        """Return the set of (sid, tag, start, end) intervals; adjacent and overlapping ones are merged."""
        lists: dict[tuple[bytes, str], list[tuple[int, int]]] = {}
        for sid, tag, start, end in items:
            if not 0 < start < end <= MAX_GNO:
                raise BinlogFormatError(f"GTID set: {start}..{end} is no interval")
            lists.setdefault((sid, tag), []).append((start, end))
        return cls({source: _merge(lists[source]) for source in sorted(lists)})

    @classmethod
    def parse_text(cls, text: str) -> Self:
        """Read `uuid[:tag]:1-5:7[:tag2:1],uuid...`, as in gtid_executed; whitespace is ignored."""
        return cls.of(_text_items("".join(text.split())))

    @classmethod
    def parse(cls, data: Buffer) -> Self:
        """Read the bytes of PREVIOUS_GTIDS_LOG_EVENT or COM_BINLOG_DUMP_GTID, plain or tagged."""
        r = Reader(data, "GTID set")
        head = r.u64("number of sources")
        tagged = bool(head >> 56)
        if tagged and (head >> 56 != 1 or head & 0xFF != 1):
            raise r.fail(f"format {head >> 56} is not known")
        count = head >> 8 & (1 << 48) - 1 if tagged else head
        items: list[tuple[bytes, str, int, int]] = []
        for _ in range(min(count, r.end)):
            sid = bytes(r.take(16, "sid"))
            tag = bytes(r.take(read_varlen(r, "tag length"), "tag")).decode("latin-1").lower() if tagged else ""
            if tag and not TAG_PATTERN.fullmatch(tag):
                raise r.fail(f"tag {tag!r} cannot be")
            number = r.u64("number of intervals")
            if number > r.left() // 16:
                raise r.fail(f"{number} intervals in {r.left()} bytes")
            spans = _SPAN.iter_unpack(r.take(16 * number, "intervals"))
            items.extend((sid, tag, start, end) for start, end in spans)
        if count > r.end:
            raise r.fail(f"{count} sources in {r.end} bytes")
        r.done()
        return cls.of(items)

    def pack(self) -> bytes:
        """Return the bytes, in the tagged form only if there is a tag, as servers before 8.3 reject that form."""
        tagged = any(tag for _, tag in self.intervals)
        count = len(self.intervals)
        parts = [pack_uint(1 << 56 | count << 8 | 1 if tagged else count, 8)]
        for (sid, tag), intervals in sorted(self.intervals.items()):
            parts += (
                sid,
                pack_varlen(len(tag)) + tag.encode("latin-1") if tagged else b"",
                pack_uint(len(intervals), 8),
            )
            parts += (pack_uint(start, 8) + pack_uint(end, 8) for start, end in intervals)
        return b"".join(parts)

    def __str__(self) -> str:
        lines: dict[bytes, list[str]] = {}
        for (sid, tag), intervals in sorted(self.intervals.items()):
            ranges = (str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in intervals)
            lines.setdefault(sid, [format_sid(sid)]).extend((tag, *ranges) if tag else ranges)
        return ",".join(":".join(line) for line in lines.values())

    def __contains__(self, gtid: tuple[bytes, str, int]) -> bool:
        sid, tag, gno = gtid
        return any(start <= gno < end for start, end in self.intervals.get((sid, tag), ()))

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def items(self) -> Iterator[tuple[bytes, str, int, int]]:
        """Yield (sid, tag, start, end), end not included, in order."""
        for (sid, tag), intervals in sorted(self.intervals.items()):
            for start, end in intervals:
                yield sid, tag, start, end

    def union(self, other: "GtidSet") -> "GtidSet":
        """Return the GTIDs that are in either set."""
        return GtidSet.of((*self.items(), *other.items()))

    def add(self, sid: bytes, gno: int, tag: str = "") -> "GtidSet":
        """Return the set with another GTID."""
        return GtidSet.of((*self.items(), (sid, tag, gno, gno + 1)))

    @property
    def count(self) -> int:
        """Return the number of GTIDs."""
        return sum(end - start for spans in self.intervals.values() for start, end in spans)

    @property
    def spans(self) -> int:
        """Return the number of intervals."""
        return sum(map(len, self.intervals.values()))

    def intersection(self, other: "GtidSet") -> "GtidSet":
        """Return the GTIDs that are in both sets."""
        return self._each(other, _common)

    def minus(self, other: "GtidSet") -> "GtidSet":
        """Return the GTIDs that are in this set only."""
        return self._each(other, _without)

    def _each(self, other: "GtidSet", combine: Callable[[Intervals, Intervals], Intervals]) -> "GtidSet":
        found = {source: combine(mine, other.intervals.get(source, ())) for source, mine in self.intervals.items()}
        return GtidSet({source: spans for source, spans in found.items() if spans})

    def holes(self) -> "GtidSet":
        """Return the GTIDs missing between the least and the greatest number of each source and tag."""
        holes = {
            source: tuple((before[1], after[0]) for before, after in pairwise(spans))
            for source, spans in self.intervals.items()
            if len(spans) > 1
        }
        return GtidSet(holes)

    def contains_set(self, other: "GtidSet") -> bool:
        """Return whether every GTID of `other` is in this set."""
        return not other.minus(self)


def _common(a: Intervals, b: Intervals) -> Intervals:
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _without(a: Intervals, b: Intervals) -> Intervals:
    found, j = [], 0
    for start, end in a:
        while j < len(b) and b[j][1] <= start:
            j += 1
        near = j
        while near < len(b) and b[near][0] < end:
            if start < b[near][0]:
                found.append((start, b[near][0]))
            start = b[near][1]
            near += 1
        if start < end:
            found.append((start, end))
    return tuple(found)


def _merge(intervals: list[tuple[int, int]]) -> Intervals:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def _text_items(text: str) -> Iterator[tuple[bytes, str, int, int]]:
    for source in filter(None, text.split(",")):
        name, *parts = source.split(":")
        try:
            sid = uuid.UUID(name).bytes
        except ValueError:
            raise BinlogFormatError(f"GTID set: {name!r} is no uuid") from None
        if not parts:
            raise BinlogFormatError(f"GTID set: {source!r} has no interval")
        tag = ""
        for part in parts:
            if match := re.fullmatch(r"(\d{1,19})(?:-(\d{1,19}))?", part, re.ASCII):
                start = int(match[1])
                yield sid, tag, start, int(match[2] or start) + 1
            elif TAG_PATTERN.fullmatch(part.lower()):
                tag = part.lower()
            else:
                raise BinlogFormatError(f"GTID set: {part!r} is neither interval nor tag")
