"""A source that is a list of files, and the dump that a MySQL server sends of them.

As mysql-server's `sql/rpl_binlog_sender.cc` does it: an artificial rotation before each file, the format description
without its in-use flag, and, for a dump that begins further on, a copy of it with neither position nor creation time.
"""

import zlib
from collections.abc import Iterator, Mapping

from tests.files.binlogs import event, format_description

IN_USE = 21
ROTATE, STOP, FORMAT_DESCRIPTION, HEARTBEAT, HEARTBEAT_V2 = 4, 3, 15, 27, 41
ARTIFICIAL = 0x20


def name_of(number: int) -> str:
    return f"binlog.{number:06d}"


def file_of(bodies: list[bytes], *, number: int, alg: int, end: int | None, version: str = "9.7.4") -> bytes:
    """Return a file: a format description, an event for each body, and what ends it: ROTATE, STOP, or nothing."""
    data = b"\xfebin" + format_description(timestamp=1_795_000_000 + number, alg=alg, version=version)
    for body in bodies:
        data += event(30, body, at=len(data), crc=alg == 1)
    if end is not None:
        body = (4).to_bytes(8, "little") + name_of(number + 1).encode() if end == ROTATE else b""
        data += event(end, body, at=len(data), crc=alg == 1)
    return data


def events(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a file with their positions."""
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        yield at, data[at : at + size]
        at += size


def dump(files: Mapping[str, bytes], name: str, position: int, heartbeats: bool = False) -> Iterator[bytes]:
    """Yield what a server sends that is asked for a dump from a position of one of its files, which are in order."""
    crc = True
    names = list(files)
    for one in names[names.index(name) :]:
        at = position if one == name else 4
        rotate = event(ROTATE, at.to_bytes(8, "little") + one.encode(), at=0, timestamp=0, flags=ARTIFICIAL, crc=crc)
        yield _with(rotate, 13, bytes(4), crc)
        for begin, data in events(files[one]):
            if data[4] == FORMAT_DESCRIPTION:
                crc = data[-5] == 1
                data = data[:17] + bytes([data[17] & ~1]) + data[18:]
                if at > 4:
                    data = _with(_with(data, 13, bytes(4), crc), 19 + 52, bytes(4), crc)
                yield data
            elif begin >= at:
                yield data
            if heartbeats:
                yield _with(event(HEARTBEAT, one.encode(), at=0, timestamp=0, crc=crc), 13, bytes(4), crc)
                yield _with(event(HEARTBEAT_V2, b"\1\2\3", at=0, timestamp=0, crc=crc), 13, bytes(4), crc)


def _with(data: bytes, at: int, part: bytes, crc: bool) -> bytes:
    """Return an event with other bytes somewhere; its sum is made anew where there are sums."""
    changed = data[:at] + part + data[at + len(part) :]
    return changed[:-4] + zlib.crc32(changed[:-4]).to_bytes(4, "little") if crc else changed
