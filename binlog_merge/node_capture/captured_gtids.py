"""What is captured of a node: by GTID, and where its last whole transaction ends. Read when it fails over.

A server that dies may have sent half a transaction. Each group begins with its GTID event, which since 8.0.2 has the
group's length; of older servers' last group, its last event tells.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, GTID_TYPES, ChecksumAlg, EventType
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import EventHeader
from binlog_merge.files.captured import Hole
from binlog_merge.files.head import read_head
from binlog_merge.files.source import LocalSource

_WINDOW: Final = 4 << 20
_LONGEST_GTID: Final = 64 << 10
_FILES: Final = 2
_ENDS: Final = frozenset({EventType.XID_EVENT, EventType.XA_PREPARE_LOG_EVENT})
_BEHIND_A_GROUP: Final = GTID_TYPES | {
    EventType.ROTATE_EVENT,
    EventType.STOP_EVENT,
    EventType.GCN_EVENT,
}
_BEGINS: Final = ("BEGIN", "XA START", "XA END", "SAVEPOINT")


class Held(NamedTuple):
    """The GTIDs that a file has, and where its last whole group ends."""

    gtids: GtidSet
    end: int


def held(paths: list[Path], node: str, hole: Hole | None = None) -> tuple[GtidSet, tuple[str, int] | None]:
    """Return the GTIDs of a server's captured files and those before them, and where they end; `paths` are in order.

    PREVIOUS_GTIDS tell nearly all. They may lack what was committing when a file was begun, and if the server then
    died, those of all later files lack it, too (seen on 9.7). So the last files are read, and those beside each hole.
    A file without its first event counts for nothing. What is in a `hole` is not told. Raises what `read_head` raises.
    """
    files = [file for path in paths if (file := _opened(path, node, hole)) is not None]
    read = set(range(len(files))[-_FILES:])
    found = {index: _of_file(files[index]) for index in sorted(read)}
    previous = [file.previous for file in files]
    known = _union(*previous, *(one.gtids for one in found.values()))
    beside = _beside_holes(previous, known) - read
    gtids = _union(known, *(_of_file(files[index]).gtids for index in sorted(beside)))
    return gtids, (files[-1].path.name, found[len(files) - 1].end) if files else None


class _File(NamedTuple):
    path: Path
    previous: GtidSet
    crc: int
    whole_from: int = 0


def _opened(path: Path, node: str, hole: Hole | None) -> _File | None:
    with LocalSource(str(path)) as source:
        head = read_head(source, node, str(path))
    if head is None:
        return None
    previous = GtidSet() if head.previous_gtids is None else GtidSet.parse(head.previous_gtids)
    whole_from = hole.end if hole is not None and hole.file == path.name else 0
    return _File(path, previous, CHECKSUM_LEN if head.checksum_alg == ChecksumAlg.CRC32 else 0, whole_from)


def _union(*sets: GtidSet) -> GtidSet:
    return GtidSet.of(item for one in sets for item in one.items())


def _beside_holes(previous: list[GtidSet], known: GtidSet) -> set[int]:
    """Return the files in which a GTID may be that no file's PREVIOUS_GTIDS name.

    A number is given when its transaction is written. So a missing one was written near the numbers beside it: those
    on both sides of each interval that is known.
    """
    new = [index for index, (a, b) in enumerate(pairwise(previous)) if b.minus(a)] + [len(previous) - 1]
    found: set[int] = set()
    for sid, tag, start, end in known.items():
        for gno in {start, end - 1} if start > 1 else {end - 1}:  # nothing is below the first number
            at = sum((sid, tag, gno) not in one for one in previous) - 1
            found.update(_around(at, new))
    return {index for index in found if 0 <= index < len(previous)}


def _around(at: int, new: list[int]) -> range:
    """Return the files from the one before `at` of which the next file names something new to the one behind."""
    before = [index for index in new if index < at]
    behind = [index for index in new if index > at]
    return range(before[-1] if before else 0, (behind[0] if behind else at) + 1)


def _of_file(file: _File) -> Held:
    """Return the GTIDs of a file's own whole groups, and where the last of these ends."""
    found: list[tuple[bytes, str, int, int]] = []
    with LocalSource(str(file.path)) as source:
        end = max(file.whole_from, _first_event_end(source))
        for sid, tag, gno, behind in _groups(source, end, file.crc):
            end = behind
            if gno:
                found.append((sid, tag, gno, gno + 1))
    return Held(GtidSet.of(found), end)


def _first_event_end(source: LocalSource) -> int:
    data = bytearray(EVENT_HEADER_LEN)
    source.read_into(memoryview(data), 4)
    return 4 + EventHeader.parse(data).event_size


def _groups(source: LocalSource, at: int, crc: int) -> Iterator[tuple[bytes, str, int, int]]:
    """Yield (source, tag, number, end) of each whole group; number 0 for what is no transaction, or has no GTID."""
    events = _Events(source)
    group: tuple[bytes, str, int] | None = None
    begins, length = at, 0
    last: tuple[EventHeader, bytes] | None = None
    while (event := events.at(at)) is not None:
        last, (header, body) = event, event
        kind, behind = header.type_code, at + header.event_size
        if group is not None and kind in _BEHIND_A_GROUP:
            yield *group, at
            group = None
        if kind in GTID_TYPES:
            tagged = kind == EventType.GTID_TAGGED_LOG_EVENT
            gtid = (GtidTagged if tagged else Gtid).parse(body[: len(body) - crc])
            group, begins, length = (gtid.sid, gtid.tag, gtid.gno), at, gtid.transaction_length or 0
            behind = max(behind, _skipped(events, begins + length))
        elif group is None:
            yield b"", "", 0, behind
        at = behind
    whole = at - begins >= length if length else last is not None and _ends_group(*last, crc)
    if group is not None and whole:
        yield *group, at


def _skipped(events: "_Events", target: int) -> int:
    """Return the offset behind a group if an event begins there, else 0: what precedes a GTID event may count, too."""
    event = events.at(target)
    if event is None or event[0].log_pos != (target + event[0].event_size) & 0xFFFFFFFF:
        return 0
    return target


def _ends_group(header: EventHeader, body: bytes, crc: int) -> bool:
    """Return whether an event is the last of its group: XID, XA PREPARE, or a statement that begins nothing."""
    if header.type_code != EventType.QUERY_EVENT:
        return header.type_code in _ENDS
    status, schema = int.from_bytes(body[11:13], "little"), body[8]
    text = body[13 + status + schema + 1 : len(body) - crc].decode("utf-8", "replace").upper()
    return not text.startswith(_BEGINS)


class _Events:
    """The whole events of a file at given offsets, read through a window; only the beginning of a long body is."""

    def __init__(self, source: LocalSource) -> None:
        self._source = source
        self._window = memoryview(bytearray(min(source.size, _WINDOW)))
        self._base, self._length = 0, 0

    def at(self, offset: int) -> tuple[EventHeader, bytes] | None:
        """Return the header and body of the event at an offset, None at the end or before one that is not whole."""
        if offset + EVENT_HEADER_LEN > self._source.size:
            return None
        known = self._base <= offset and offset + _LONGEST_GTID <= self._base + self._length
        if not known and not (self._base <= offset and self._base + self._length >= self._source.size):
            self._base, self._length = offset, self._source.read_into(self._window, offset)
        begin = offset - self._base
        header = EventHeader.parse(self._window, begin)
        if header.event_size < EVENT_HEADER_LEN or offset + header.event_size > self._source.size:
            return None
        end = min(begin + header.event_size, self._length)
        return header, bytes(self._window[begin + EVENT_HEADER_LEN : end])
