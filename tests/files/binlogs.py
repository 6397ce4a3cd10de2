"""Binlog files made by hand, just enough of them: a format description, previous GTIDs, and opaque events."""

import struct
import zlib
from pathlib import Path


def event(
    type_code: int,
    body: bytes,
    *,
    at: int,
    timestamp: int = 1_795_000_000,
    server_id: int = 1,
    flags: int = 0,
    crc: bool = True,
) -> bytes:
    size = 19 + len(body) + 4 * crc
    data = struct.pack("<IBIIIH", timestamp, type_code, server_id, size, at + size, flags) + body
    if not crc:
        return data
    # The in-use flag does not take part in the checksum of a format description.
    summed = data[:17] + struct.pack("<H", flags & ~1) + data[19:] if type_code == 15 else data
    return data + struct.pack("<I", zlib.crc32(summed))


def format_description(
    *, version: str = "9.7.4", timestamp: int = 1_795_000_000, server_id: int = 1, in_use: bool = False, alg: int = 1
) -> bytes:
    body = struct.pack("<H50sIB", 4, version.encode(), timestamp, 19) + bytes(42) + bytes([alg])
    return event(15, body, at=4, timestamp=timestamp, server_id=server_id, flags=int(in_use))


def binlog(
    *events: bytes,
    version: str = "9.7.4",
    timestamp: int = 1_795_000_000,
    server_id: int = 1,
    in_use: bool = False,
    alg: int = 1,
    previous: bytes | None = bytes(8),
) -> bytes:
    """Return a file's bytes; `events` are bodies of ignorable events, so that files differ where they should."""
    data = b"\xfebin" + format_description(
        version=version, timestamp=timestamp, server_id=server_id, in_use=in_use, alg=alg
    )
    if previous is not None:
        data += event(35, previous, at=len(data), timestamp=timestamp, server_id=server_id, flags=0x80, crc=alg == 1)
    for body in events:
        data += event(28, body, at=len(data), timestamp=timestamp, server_id=server_id, flags=0x80, crc=alg == 1)
    return data


def series(folder: Path, *numbers: int, server_id: int = 1, name: str = "mysql-bin") -> list[Path]:
    """Write files with these numbers, each with contents of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{number:06d}" for number in numbers]
    for number, path in zip(numbers, paths, strict=True):
        path.write_bytes(binlog(b"%d" % number, server_id=server_id, timestamp=1_795_000_000 + number))
    return paths
