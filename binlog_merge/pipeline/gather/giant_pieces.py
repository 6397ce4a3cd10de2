"""Reads branches too big for a window in pieces of whole events, in bounded memory."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.files.source import Source
from binlog_merge.pipeline.base.columns import view
from binlog_merge.pipeline.gather.read import NO_PAYLOAD

PIECE = 8 << 20

Buffer = npt.NDArray[np.uint8]


def plain_pieces(source: Source, start: int, stop: int) -> Iterator[tuple[int, Buffer, int]]:
    """Yield (offset, buffer, end) of pieces of whole events; an event that is larger than a piece is one by itself."""
    offset, buffer = start, np.empty(PIECE, np.uint8)
    while offset < stop:
        got = source.read_into(view(buffer)[: min(len(buffer), stop - offset)], offset)
        whole = whole_events(buffer, got)
        if whole:
            yield offset, buffer, whole
            offset += whole
            continue
        if got < 19:
            raise ChecksumMismatch("the file became shorter while it was read", position=offset)
        buffer = np.empty(max(PIECE, EventHeader.parse(buffer[:19].tobytes()).event_size), np.uint8)
        if offset + len(buffer) > stop and got == stop - offset:
            raise ChecksumMismatch("an event is not whole", position=offset)


def unpacked_pieces(source: Source, start: int, stop: int, crc: int) -> Iterator[tuple[Buffer, int]]:
    """Yield the events inside a compressed branch in pieces of whole events."""
    offset, found = start, False
    while offset < stop:
        head = np.empty(19, np.uint8)
        source.read_into(view(head), offset)
        header = EventHeader.parse(head.tobytes())
        if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            found = True
            body = np.empty(header.event_size - 19 - crc, np.uint8)
            source.read_into(view(body), offset + 19)
            left = np.empty(0, np.uint8)
            for chunk in TransactionPayload.parse(body.tobytes()).chunks():
                left = np.concatenate([left, np.frombuffer(chunk, np.uint8)])
                whole = whole_events(left, len(left))
                if whole:
                    yield left, whole
                    left = left[whole:].copy()
            if len(left):
                raise ChecksumMismatch("a transaction payload ends inside an event", position=offset)
        offset += header.event_size
    if not found:
        raise ChecksumMismatch(NO_PAYLOAD, position=start)


def whole_events(buffer: Buffer, end: int) -> int:
    """Return the total length of the whole events at the beginning of a buffer."""
    at = 0
    while at + 19 <= end:
        size = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        if size < 19 or at + size > end:
            break
        at += size
    return at
