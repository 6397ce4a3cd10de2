"""Reads the events of a file of a merged binlog, up to its published size."""

from collections.abc import Iterator
from typing import BinaryIO

from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import FormatDescription
from binlog_merge.binlog.header import EventHeader, RawEvent, check_magic, frame
from binlog_merge.errors import io_error
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile


def events_of(folder: LogFolder, file: OutputFile, position: int = len(BINLOG_MAGIC)) -> Iterator[RawEvent]:
    """Yield the published events of a file from a position on. Raises BinlogFormatError for damage, and MergeError."""
    name = folder.place(file.name)
    try:
        source = folder.opened(file, 1 << 20)
    except OSError as error:
        raise io_error(error, name) from error
    with source:
        yield from events_in(source, name, file.size, position)


def events_in(source: BinaryIO, name: str, size: int, position: int = len(BINLOG_MAGIC)) -> Iterator[RawEvent]:
    """Yield the events of the first `size` bytes of an open file from a position on, where an event begins.

    Raises BinlogFormatError for damage.
    """
    source.seek(0)
    check_magic(source.read(len(BINLOG_MAGIC)), name)
    # Behind the format description every event of a merged log has its checksum.
    checksum = position > len(BINLOG_MAGIC)
    source.seek(position)
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
