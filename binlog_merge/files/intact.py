"""Checks that published files are unchanged, mostly without reading them.

A note next to the manifest holds the size, mtime and inode that each file had when it was last known to be right. A
file that still has them is believed; of the open file the last bytes are compared, too. A file that was copied,
restored or written to is read whole: every event's checksum is verified, and the last bytes are compared with the
manifest. The note is only a cache: without it everything is read once.

Damage that changes neither time nor size, such as a disk's, is not seen here; `verify` reads everything.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import BINLOG_MAGIC, CHECKSUM_LEN, EVENT_HEADER_LEN
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels.crc32 import sound_to
from binlog_merge.errors import IoError, ManifestError, io_error
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.source import Source, open_source
from binlog_merge.whole_files import write_whole

NOTE_NAME: Final = ".intact.json"
TAIL: Final = 64 << 10
_CHUNK: Final = 8 << 20

PUT_BACK: Final = (
    "put it back from a copy, or merge again from the start into another directory; `binlog-merge verify` says what "
    "else is damaged"
)

Stamp = tuple[int, int, int]


def tail_of(path: Path, size: int) -> str:
    """Return the SHA-256 of the last bytes of a file's first `size` bytes."""
    with open_source(str(path)) as source, _whole(path):
        return _tail(source, size)


def stamp_of(path: Path | str) -> Stamp | None:
    """Return size, mtime and inode of a file; None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called so often that a Path would cost more than the call
    except FileNotFoundError:
        return None
    except OSError as error:
        raise io_error(error, str(path)) from error
    return status.st_size, status.st_mtime_ns, status.st_ino


def read_note(directory: Path) -> dict[str, Stamp]:
    """Return the note's stamps by file name; none if the note is missing or unreadable."""
    try:
        values = json.loads((directory / NOTE_NAME).read_bytes())
        return {str(name): (int(size), int(time), int(inode)) for name, (size, time, inode) in values.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}


def write_note(directory: Path, stamps: dict[str, Stamp]) -> None:
    """Write the stamps of files known to be right. If that fails, the next run reads the files, nothing worse."""
    with suppress(IoError):
        write_whole(directory / NOTE_NAME, json.dumps(stamps).encode())


def check_believed(path: Path, file: OutputFile) -> None:
    """Compare the last bytes of a file whose stamp is unchanged with the manifest's. Raises ManifestError."""
    if file.tail is not None and tail_of(path, file.size) != file.tail:
        raise changed(path, "its last bytes are not those that were published")


def check_whole(path: Path, file: OutputFile) -> None:
    """Read the published part of a file and check it. Raises ManifestError if it was changed."""
    with open_source(str(path)) as source, _whole(path):
        if file.sha256 is not None and _sha256(source, 0, file.size) != file.sha256:
            raise changed(path, "its bytes are not those that were published")
        if file.sha256 is None and (damaged_at := _first_damage(source, file.size)) is not None:
            raise changed(path, "an event is damaged", damaged_at)
        if file.tail is not None and _tail(source, file.size) != file.tail:
            raise changed(path, "its last bytes are not those that were published")


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except EOFError as error:
        raise changed(path, str(error)) from None


def changed(path: Path, what: str, position: int | None = None) -> ManifestError:
    """Return the error for a published file that was changed."""
    message = f"{path.name} was changed after it was published: {what}"
    return ManifestError(message, file=str(path), position=position, remedy=PUT_BACK)


def _tail(source: Source, size: int) -> str:
    return _sha256(source, max(0, size - TAIL), size)


def _sha256(source: Source, start: int, end: int) -> str:
    digest, buffer = hashlib.sha256(), memoryview(bytearray(1 << 20))
    while start < end:
        part = buffer[: min(len(buffer), end - start)]
        _fill(source, part, start)
        digest.update(part)
        start += len(part)
    return digest.hexdigest()


def _fill(source: Source, part: memoryview, offset: int) -> None:
    if (got := source.read_into(part, offset)) != len(part):
        raise EOFError(f"it ends at {offset + got}, while it is read")


def _first_damage(source: Source, size: int) -> int | None:
    """Return the offset of the first event within `size` that is cut or damaged; None if all are sound."""
    chunk = np.empty(min(_CHUNK, size), np.uint8)
    magic = bytearray(len(BINLOG_MAGIC))
    source.read_into(memoryview(magic), 0)
    if magic != BINLOG_MAGIC:
        return 0
    at = len(magic)
    while at < size:
        length = min(len(chunk), size - at)
        _fill(source, chunk.data[:length], at)
        sound = int(sound_to(chunk, length))
        if sound < 0:
            return at - 1 - sound
        if sound == 0:  # an event longer than the chunk
            event = EventHeader.parse(chunk[:EVENT_HEADER_LEN].tobytes()).event_size if length > EVENT_HEADER_LEN else 0
            if not length < event <= size - at or not _long_event_is_sound(source, chunk, at, event):
                return at
            sound = event
        at += sound
    return None


def _long_event_is_sound(source: Source, chunk: npt.NDArray[np.uint8], at: int, size: int) -> bool:
    end, check = at + size - CHECKSUM_LEN, 0
    while at < end:
        length = min(len(chunk), end - at)
        _fill(source, chunk.data[:length], at)
        check = zlib.crc32(chunk.data[:length], check)
        at += length
    _fill(source, chunk.data[:CHECKSUM_LEN], end)
    return check == int.from_bytes(chunk[:CHECKSUM_LEN].tobytes(), "little")
