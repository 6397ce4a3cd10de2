"""Reads the events of a file of a merged binlog, up to its published size."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import FormatDescription
from binlog_merge.binlog.header import EventHeader, RawEvent, check_magic, frame
from binlog_merge.files.source import io_error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=1 << 20)
    except OSError as error:
        raise io_error(error, str(path)) from error


def events_of(path: Path, size: int) -> Iterator[RawEvent]:
    """Yield the events of the first `size` bytes of a file. Raises BinlogFormatError for damage, IoError."""
    with _opened(path) as source:
        yield from _events(source, str(path), size)


def _events(source: BinaryIO, name: str, size: int) -> Iterator[RawEvent]:
    """Yield the events of the first `size` bytes of a file."""
    check_magic(source.read(len(BINLOG_MAGIC)), name)
    position, checksum = len(BINLOG_MAGIC), False
    while position < size:
        head = source.read(EVENT_HEADER_LEN)
        length = EventHeader.parse(head).event_size if len(head) == EVENT_HEADER_LEN else 0
        if not EVENT_HEADER_LEN <= length <= size - position:
            raise BinlogFormatError(f"event of {length} bytes, {size - position} are published", name, position)
        data = memoryview(head + source.read(length - EVENT_HEADER_LEN))
        event = frame(data, 0, file=name, offset=position, checksum=checksum)
        if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            checksum = FormatDescription.parse(event.body).checksum
        yield event
        position += length
