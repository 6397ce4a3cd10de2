"""Turns the events of a dump into actions on files. No socket and no file here: events in, actions out.

    ROTATE, artificial           the following events are of this file, from this position on
    FORMAT_DESCRIPTION           the file's own or, if a dump begins later in the file, a copy with log_pos 0
    any other                    log_pos is the position after it in the file, mod 2^32
    HEARTBEAT                    nothing new

A dump that resumes a file begins with an event that is on disk, the last one if possible. The server must send the same
bytes as are on disk: a new file under the same name would differ. A source clears the in-use flag of the format
description that it sends (mysql-server, `sql/rpl_binlog_sender.cc`). Its file has the flag until it is closed, so the
flag is set here when a file begins, and cleared when it ends.
"""

import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from binlog_merge.binlog.constants import BINLOG_MAGIC, CHECKSUM_LEN, EVENT_HEADER_LEN, EventFlag, EventType
from binlog_merge.binlog.control import FormatDescription, Rotate
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.errors import ChecksumMismatch, Purged, ServerRefused, WrongNode
from binlog_merge.files.head import format_description
from binlog_merge.node_capture.server_kind import MYSQL, ServerKind

FIRST_POSITION: Final = len(BINLOG_MAGIC)
POSITION_LIMIT = 1 << 32
"""The first position that COM_BINLOG_DUMP cannot express, as it has four bytes for it."""
FLAGS_POSITION: Final = FIRST_POSITION + 17
"""The offset of the byte in a file that has the in-use flag."""

FILE_ENDS: Final = frozenset({EventType.ROTATE_EVENT, EventType.STOP_EVENT})
"""The events with which a server ends a file, unless it crashes."""

_NAME: Final = re.compile(r"([A-Za-z0-9_][^/\\\x00-\x1f]*)\.(\d{6,18})")
_HEADER: Final = struct.Struct("<IBIIIH")
_SOUND: Final = 0x2144DF1C  # the CRC32 of anything that ends with its own CRC32
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2})


@dataclass(frozen=True, slots=True)
class CapturedEnd:
    """The position up to which a file is on disk: `end`, where an event ends; 0: nothing yet.

    `last` is where the last event begins that is certainly on disk as the server sent it.
    """

    name: str
    last: int = 0
    end: int = 0

    @property
    def dump_from(self) -> int:
        """Return the position to request a dump from; the file's beginning if the command cannot express `last`."""
        return self.last if FIRST_POSITION < self.last < POSITION_LIMIT else FIRST_POSITION


class Begin(NamedTuple):
    """Create an empty file of this name, for the following Append actions."""

    name: str


class Append(NamedTuple):
    """Append these bytes to the file."""

    data: bytes | memoryview


class Expect(NamedTuple):
    """Check that the file has these bytes at `position`."""

    position: int
    data: memoryview


class Finish(NamedTuple):
    """The file is complete: clear its in-use flag."""


Action = Begin | Append | Expect | Finish


def sound(event: memoryview) -> bool:
    """Return whether an event ends with the CRC32 of its bytes."""
    return zlib.crc32(event) == _SOUND


def file_number(name: str) -> int:
    """Return the number in a binlog file's name. Raises ServerRefused if it is not such a name."""
    return _parts(name)[1]


def successor(name: str) -> str:
    """Return the name of the file after `name`: the next number, with at least six digits."""
    series, number = _parts(name)
    return f"{series}.{number + 1:06d}"


def _parts(name: str) -> tuple[str, int]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise ServerRefused(f"{name!r} is no name of a binlog file", remedy="a source names them like binlog.000001")
    return match[1], int(match[2])


class Stream:
    """The state of a dump, which determines the actions of its events.

    `place` is the position from which the dump was requested.
    """

    def __init__(self, node: str, place: CapturedEnd, kind: ServerKind = MYSQL) -> None:
        self._node, self._kind = node, kind
        self._place = place
        self.name = ""
        self.at = 0
        self._number = -1
        self._end = 0
        self._checksum: bool | None = None
        self._copied = False
        self._finished = False

    @property
    def known(self) -> bool:
        """Return whether the server has sent an event after the requested position, so that it has the same file."""
        return self.at > self._place.dump_from

    def reached(self, number: int, position: int) -> bool:
        """Return whether everything before a position of the file with this number has been received."""
        return (self._number, self.at) >= (number, position)

    def feed(self, event: memoryview) -> Sequence[Action]:
        """Return the actions of an event, in order. Raises a MergeError for an event that does not fit."""
        if len(event) < EVENT_HEADER_LEN:
            raise self._damaged(f"an event of {len(event)} bytes has no room for its header")
        timestamp, kind, _, size, log_pos, flags = _HEADER.unpack_from(event)
        if size != len(event):
            raise self._damaged(f"an event of {size} bytes came as {len(event)}")
        if kind in _HEARTBEATS:
            return ()
        # Sources before 5.5 set no flag.
        if kind == EventType.ROTATE_EVENT and (flags & EventFlag.LOG_EVENT_ARTIFICIAL_F or not (timestamp or log_pos)):
            return self._enter(event)
        if not self.name:
            raise self._damaged("the dump does not begin with the name of its file")
        if kind == EventType.FORMAT_DESCRIPTION_EVENT:
            return self._describe(event, log_pos)
        copied, self._copied = self._copied, False
        if copied and kind in self._kind.sent_again:
            return ()
        return self._event(event, kind, log_pos)

    def _enter(self, event: memoryview) -> Sequence[Action]:
        """Handle an artificial ROTATE: the next events' file and position."""
        body = event[EVENT_HEADER_LEN:]
        # Whether it has a checksum depends on the file before, so only its bytes can tell.
        if sound(event):
            body = body[:-CHECKSUM_LEN]
        try:
            rotate = Rotate.parse(body)
            name = rotate.next_file.decode()
        except (BinlogFormatError, UnicodeDecodeError) as error:
            raise self._damaged(f"the rotation cannot be read: {error}") from None
        if not self.name:
            return self._begin(name, rotate.position)
        if name == self.name and rotate.position == self.at:
            return ()
        return self._next(name, rotate.position)

    def _begin(self, name: str, position: int) -> Sequence[Action]:
        place = self._place
        self._number = file_number(name)
        if (name, position) != (place.name, place.dump_from):
            raise ServerRefused(f"the server sends {name}:{position}, and was asked for {place.name}:{place.dump_from}")
        self.name, self.at, self._end = name, position, place.end
        return ()

    def _next(self, name: str, position: int) -> Sequence[Action]:
        if self.at < self._end:
            raise self._other(f"the server's file ends at {self.at}, what is captured of it at {self._end}")
        if name != successor(self.name) or position != FIRST_POSITION:
            raise Purged(
                f"the server goes on with {name}:{position}, not with {successor(self.name)}",
                node=self._node,
                file=self.name,
                position=self.at,
                remedy="the server began its binlogs anew, or lost one: capture into a new directory",
            )
        actions = () if self._finished else (Finish(),)
        self.name, self.at, self._end = name, FIRST_POSITION, 0
        self._number += 1
        self._checksum, self._finished = None, False
        return actions

    def _describe(self, event: memoryview, log_pos: int) -> Sequence[Action]:
        if self.at != FIRST_POSITION:
            if log_pos:
                return self._event(event, EventType.FORMAT_DESCRIPTION_EVENT, log_pos)
            # A copy. With checksums off its sum is not recomputed, although `created` is cleared in it.
            try:
                self._checksum = FormatDescription.parse(event[EVENT_HEADER_LEN:-CHECKSUM_LEN]).checksum
            except BinlogFormatError as error:
                raise self._damaged(str(error)) from None
            self._copied = True
            return ()
        self._checksum = format_description(bytes(event), self._node, self.name, self._kind.is_translated).checksum
        self._advance(event, log_pos)
        if self.at <= self._end:
            # The flag may differ, and the sum at the end covers the rest of the header.
            return (Expect(FIRST_POSITION + EVENT_HEADER_LEN, event[EVENT_HEADER_LEN:]),)
        head = bytearray(BINLOG_MAGIC)
        head += event
        head[FLAGS_POSITION] |= EventFlag.LOG_EVENT_BINLOG_IN_USE_F
        return Begin(self.name), Append(bytes(head))

    def _event(self, event: memoryview, kind: int, log_pos: int) -> Sequence[Action]:
        if self._checksum is None or self.at <= FIRST_POSITION:
            raise self._damaged(f"an event of type {kind} comes before the format description")
        if self._checksum and not sound(event):
            raise self._damaged("the event's checksum is not that of its bytes")
        at = self.at
        self._advance(event, log_pos)
        if at >= self._end:
            done: Action = Append(event)
        elif self.at <= self._end:
            done = Expect(at, event)
        else:
            raise self._other(f"the event at {at} ends at {self.at}, what is captured at {self._end}")
        if kind not in FILE_ENDS:
            return (done,)
        self._finished = True
        return done, Finish()

    def _advance(self, event: memoryview, log_pos: int) -> None:
        end = self.at + len(event)
        if not self._kind.ends_at(log_pos, end):
            raise self._damaged(f"the event says that it ends at {log_pos}; by its length that is {end}")
        self.at = end

    def _damaged(self, what: str) -> ChecksumMismatch:
        return ChecksumMismatch(
            what,
            node=self._node,
            file=self.name or None,
            position=self.at if self.name else None,
            remedy="run it again; if it stays so, look at the server's own file with `mysqlbinlog "
            "--verify-binlog-checksum`",
        )

    def _other(self, what: str) -> WrongNode:
        return other_file(what, self._node, self.name, self.at)


def other_file(what: str, node: str, name: str, position: int) -> WrongNode:
    """Return the error for a server's file that differs from the captured file of the same name."""
    return WrongNode(
        f"the server's {name} is not the file that was captured: {what}",
        node=node,
        file=name,
        position=position,
        remedy="if this machine crashed, remove the captured file, which then comes again. Else the server began its "
        "binlogs anew (RESET BINARY LOGS), or lost their end in a crash: capture into a new directory, and begin a new "
        "output with it",
    )
