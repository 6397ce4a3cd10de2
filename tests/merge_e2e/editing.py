"""Editing binlog files: events taken apart, changed, and put together again with right positions and checksums.

Shares no code with the product, so that a wrong notion of the format does not cancel itself out.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

MAGIC = b"\xfebin"
QUERY, STOP, ROTATE, FORMAT_DESCRIPTION, XID, TABLE_MAP, ROWS_QUERY = 2, 3, 4, 15, 16, 19, 29
WRITE_ROWS, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, XA_PREPARE, PAYLOAD, GTID_TAGGED = 30, 33, 34, 35, 38, 40, 42
ROWS = (23, 24, 25, 30, 31, 32, 39)
GTIDS = (GTID, ANONYMOUS_GTID, GTID_TAGGED)


@dataclass(frozen=True)
class Piece:
    """One event. `at` is where it stood; it stands elsewhere once something before it was changed."""

    timestamp: int
    type: int
    server_id: int
    flags: int
    body: bytes
    at: int = 0

    @property
    def text(self) -> str:
        """Return a QUERY event's statement; "" of a body that is too short for one."""
        if len(self.body) < 13:
            return ""
        status = int.from_bytes(self.body[11:13], "little")
        return self.body[13 + status + self.body[8] + 1 :].decode("utf-8", "replace")


@dataclass(frozen=True)
class Log:
    """A binlog file as its events; `checksum` tells whether they (but for the first) end with one."""

    events: tuple[Piece, ...]
    checksum: bool

    @classmethod
    def load(cls, data: bytes | Path) -> "Log":
        """Take a file apart; what is cut off at its end is left out."""
        if isinstance(data, Path):
            data = data.read_bytes()
        events, checksum, at = [], True, 4
        while at + 19 <= len(data):
            timestamp, kind, server, size, _, flags = struct.unpack_from("<IBIIIH", data, at)
            if size < 19 or at + size > len(data):
                break
            if kind == FORMAT_DESCRIPTION:
                checksum = data[at + size - 5] == 1
            trailer = 4 if checksum or kind == FORMAT_DESCRIPTION else 0
            events.append(Piece(timestamp, kind, server, flags, data[at + 19 : at + size - trailer], at))
            at += size
        return cls(tuple(events), checksum)

    @classmethod
    def of_events(cls, data: bytes) -> "Log":
        """Take apart what a compressed payload holds: events without magic, positions and checksums."""
        events, at = [], 0
        while at + 19 <= len(data):
            timestamp, kind, server, size, _, flags = struct.unpack_from("<IBIIIH", data, at)
            if size < 19 or at + size > len(data):
                break
            events.append(Piece(timestamp, kind, server, flags, data[at + 19 : at + size], at))
            at += size
        return cls(tuple(events), False)

    def pack_events(self) -> bytes:
        """Return what `of_events` takes apart."""
        heads = [(e.timestamp, e.type, e.server_id, 19 + len(e.body), 0, e.flags) for e in self.events]
        return b"".join(struct.pack("<IBIIIH", *head) + e.body for head, e in zip(heads, self.events, strict=True))

    def without_checksums(self) -> "Log":
        """Return the file as a server with `binlog_checksum=NONE` writes it."""
        if not self.checksum or not self.events or self.events[0].type != FORMAT_DESCRIPTION:
            return self
        first = replace(self.events[0], body=self.events[0].body[:-1] + b"\0")
        return Log((first, *self.events[1:]), False).with_transaction_lengths()

    def with_transaction_lengths(self) -> "Log":
        """Return the file with the length of each transaction made right in its GTID event; tagged ones stay."""
        events = list(self.events)
        for first, behind in self.groups():
            end = next((i + 1 for i in range(first, behind) if self._ends_group(i, first)), behind)
            events[first] = self._with_length(events[first], events[first + 1 : end])
        return self.with_events(events)

    def _ends_group(self, index: int, first: int) -> bool:
        event = self.events[index]
        if event.type in (XID, XA_PREPARE):
            return True
        if event.type == QUERY:
            text = event.text
            return index == first + 1 and text != "BEGIN" and not text.startswith("XA START ")
        inside = index + 1 < len(self.events) and self.events[index + 1].type == XA_PREPARE
        return event.type == PAYLOAD and not inside

    def _with_length(self, event: Piece, rest: Sequence[Piece]) -> Piece:
        body = event.body
        at = 56 if len(body) >= 49 and body[48] & 0x80 else 49
        if event.type == GTID_TAGGED or len(body) <= at:
            return event
        width = {252: 3, 253: 4, 254: 9}.get(body[at], 1)
        trailer = 4 if self.checksum else 0
        others = sum(19 + len(e.body) + trailer for e in rest) + 19 + len(body) - width + trailer
        lengths = (pack_length(others + new) for new in (1, 3, 4, 9) if len(pack_length(others + new)) == new)
        return replace(event, body=body[:at] + next(lengths) + body[at + width :])

    def pack(self) -> bytes:
        """Return the file's bytes."""
        data = bytearray(MAGIC)
        for event in self.events:
            data += pack(event, len(data), self.checksum)
        return bytes(data)

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_bytes(self.pack())

    def with_events(self, events: Sequence[Piece]) -> "Log":
        """Return a file of these events."""
        return replace(self, events=tuple(events))

    def changed(self, index: int, event: Piece) -> "Log":
        """Return the file with one event replaced."""
        return self.with_events([*self.events[:index], event, *self.events[index + 1 :]])

    def inserted(self, index: int, *events: Piece) -> "Log":
        """Return the file with events put before the one at `index`."""
        return self.with_events([*self.events[:index], *events, *self.events[index:]])

    def without(self, *indexes: int) -> "Log":
        """Return the file with events taken out."""
        return self.with_events([e for i, e in enumerate(self.events) if i not in indexes])

    def find(self, *types: int, text: str = "", after: int = -1) -> int:
        """Return the index of the first event behind `after` that has one of the types, and begins with `text`."""
        for index, event in enumerate(self.events):
            if index > after and event.type in types and (not text or event.text.startswith(text)):
                return index
        raise LookupError((types, text))

    def renumbered(self) -> "Log":
        """Return the file with sequence numbers that run on, as if a server had written just these groups.

        A group that is there twice gets a GTID of its own the second time.
        """
        events, number, met = [], 0, set[bytes]()
        for event in self.events:
            if event.type in (GTID, ANONYMOUS_GTID):
                number += 1
                gtid = event.body[1:25]
                if event.type == GTID and gtid in met:
                    gtid = gtid[:16] + (1_000_000 + number).to_bytes(8, "little")
                met.add(gtid)
                body = event.body[:1] + gtid + event.body[25:34] + number.to_bytes(8, "little") + event.body[42:]
                event = replace(event, body=body)
            events.append(event)
        return self.with_events(events)

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yield (first, behind the last) of each group that begins with a GTID event."""
        starts = [i for i, e in enumerate(self.events) if e.type in GTIDS]
        ends = [i for i, e in enumerate(self.events) if e.type in (ROTATE, STOP)] or [len(self.events)]
        yield from zip(starts, [*starts[1:], ends[-1]][-len(starts) :] if starts else (), strict=True)

    def boundaries(self) -> list[int]:
        """Return the offsets at which a group begins or the file ends: where it may be cut between groups."""
        starts = [self.events[first].at for first, _ in self.groups()]
        return [*starts, len(self.pack())]


def pack_length(value: int) -> bytes:
    """Return a length-encoded integer."""
    if value < 251:
        return bytes([value])
    first, width = next((f, w) for f, w in ((252, 2), (253, 3), (254, 8)) if value < 1 << 8 * w)
    return bytes([first]) + value.to_bytes(width, "little")


def pack(event: Piece, position: int, checksum: bool) -> bytes:
    """Return an event's bytes as they stand at `position`."""
    trailer = 4 if checksum or event.type == FORMAT_DESCRIPTION else 0
    size = 19 + len(event.body) + trailer
    head = (event.timestamp, event.type, event.server_id, size, (position + size) & 0xFFFFFFFF)
    data = struct.pack("<IBIIIH", *head, event.flags) + event.body
    if not trailer:
        return data
    # The sum of a format description is taken without the in-use flag.
    summed = struct.pack("<IBIIIH", *head, event.flags & ~1) + event.body if event.type == FORMAT_DESCRIPTION else data
    return data + zlib.crc32(summed).to_bytes(4, "little")


def in_use(data: bytes) -> bytes:
    """Return a file's bytes as they are while a server writes it: the format description says so."""
    return data[:21] + bytes([data[21] | 1]) + data[22:]


def query(like: Piece, text: str, schema: str = "") -> Piece:
    """Return a QUERY event without status variables."""
    body = struct.pack("<IIBHH", 1, 0, len(schema), 0, 0) + schema.encode() + b"\0" + text.encode()
    return replace(like, type=QUERY, flags=0, body=body)


def recheck(data: bytearray, at: int) -> None:
    """Give the event at `at` the checksum that its bytes now have."""
    size = int.from_bytes(data[at + 9 : at + 13], "little")
    data[at + size - 4 : at + size] = zlib.crc32(data[at : at + size - 4]).to_bytes(4, "little")


def transactions(files: dict[str, bytes]) -> list[list[tuple[int, bytes]]]:
    """Return the transactions of merged files, each as (type, body) of its events; raises where one is not whole."""
    found: list[list[tuple[int, bytes]]] = []
    for name, data in files.items():
        log = Log.load(data)
        if log.pack() != data:
            raise AssertionError(f"{name} is not a whole, consistent file")
        for first, end in log.groups():
            events = [(e.type, e.body) for e in log.events[first:end] if e.type not in (ROTATE, STOP)]
            ends_well = events[-1][0] == XID or (len(events) == 2 and events[-1][0] == QUERY)
            if not ends_well:
                raise AssertionError(f"{name}: a transaction is not whole")
            found.append(events)
    return found


def assert_prefix(files: dict[str, bytes], good: dict[str, bytes]) -> None:
    """Assert that files are what stood there at some moment while `good` grew: whole transactions, same bytes."""
    transactions(files)
    names = sorted(files)
    assert names == sorted(good)[: len(names)]
    for name in names[:-1]:
        assert files[name] == good[name], name
    if names:
        assert good[names[-1]].startswith(files[names[-1]]), f"{names[-1]} is no prefix"
