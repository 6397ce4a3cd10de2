"""Reads windows: a few thousand branches in global order, with their bytes in one buffer."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.gather.input_reader import WINDOW_BYTES, InputReader
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.traces import Window, traced

WINDOW_ROWS = 4096
NO_PAYLOAD = "a transaction has no payload; it had one when the file was scanned"
"""Of a compressed transaction: its rows would be missing."""


def window_end(rows: Rows, start: int, stop: int) -> int:
    """Return the end of the window that begins at `start`: it holds whole transactions, at least one."""
    end = min(start + WINDOW_ROWS, stop)
    wanted = int(np.searchsorted(rows.before[start:end], int(rows.before[start]) + WINDOW_BYTES)) + start
    end = max(start + 1, min(end, wanted))
    if end < stop and not rows.first[end]:
        begins = np.flatnonzero(rows.first[start + 1 : end])
        end = start + 1 + int(begins[-1]) if len(begins) else rows.transaction_end(start)
    # If its last transaction is large, the window ends before that transaction.
    if end - start > 1 and rows.before[end - 1] + rows.size(end - 1) - rows.before[start] > 2 * WINDOW_BYTES:
        begins = np.flatnonzero(rows.first[start + 1 : end])
        if len(begins):
            return start + 1 + int(begins[-1])
    return end


def window(reader: InputReader, rows: Rows, start: int, stop: int, hints: bool) -> Window:
    """Read the bytes of rows[start:stop] into the reader's buffer; returns the segments that the kernel renders.

    With `hints`, statements have trace hints: see `pipeline.gather.traces`.
    """
    n = stop - start
    segments = np.zeros((n, k.S_COLUMNS), np.int64)
    node, file, begin = rows.node[start:stop], rows.file[start:stop], rows.start[start:stop]
    length = rows.end[start:stop] - begin
    ddl = (rows.flags[start:stop] & ks.MARKER) != 0
    instead = reader.instead(node, file, begin)
    unread = ddl.copy()
    unread[list(instead)] = True
    at, used = reader.read(node, file, begin, length, unread)
    segments[:, k.S_POS], segments[:, k.S_END] = at, at + length
    for i, group in instead.items():
        segments[i, k.S_POS], used = used, reader.append(group, used)
        segments[i, k.S_END] = used
    segments[:, k.S_NODE] = node
    segments[:, k.S_DDL] = ddl
    first = rows.first[start:stop]
    segments[:, k.S_FIRST] = first
    segments[:-1, k.S_LAST] = first[1:]
    segments[-1, k.S_LAST] = 1
    begins = np.flatnonzero(first)
    segments[begins, k.S_BYTES] = np.add.reduceat(length, begins)
    pairs = {pair: reader.crc(*pair) for pair in _pairs(node, file)}
    if len(set(pairs.values())) == 1:
        segments[:, k.S_CRC] = next(iter(pairs.values()))
    else:
        segments[:, k.S_CRC] = [pairs[p] for p in zip(node.tolist(), file.tolist(), strict=True)]
    # The bytes of a DDL's markers are not read: its text is known.
    for i in np.flatnonzero(((rows.flags[start:stop] & ks.COMPRESSED) != 0) & ~ddl).tolist():
        used = _unpack(reader, segments[i], used)
    keys = np.zeros((n, k.K_COLUMNS), np.int64)
    for column, name in ((k.K_TSO, "tso"), (k.K_TRANSACTION, "transaction"), (k.K_SEQ, "seq"), (k.K_NODE, "node_seq")):
        keys[:, column] = rows.columns[name][start:stop]
    keys[:, k.K_COMMIT_US] = rows.commit_us[start:stop]
    keys[:, k.K_ARCHIVE] = (rows.flags[start:stop] & ks.ARCHIVE) != 0
    row = np.arange(n)
    plain = Window(segments, keys, row, np.maximum.accumulate(np.where(first != 0, row, 0)))
    return traced(reader.buffer, plain) if hints else plain


def _pairs(node: Column, file: Column) -> list[tuple[int, int]]:
    distinct = np.unique(node * (1 << 32) + file)
    return [(int(p >> 32), int(p & 0xFFFFFFFF)) for p in distinct]


def _unpack(reader: InputReader, segment: npt.NDArray[np.int64], used: int) -> int:
    """Replace a compressed branch by its events, appended after the `used` bytes of the input buffer."""
    end = reader.append(b"".join(chunk for _, chunk in unpacked(reader.buffer, segment)), used)
    segment[k.S_POS], segment[k.S_END], segment[k.S_CRC] = used, end, 0
    return end


def unpacked(buffer: npt.NDArray[np.uint8], segment: npt.NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, bytes) of the payloads in a branch. Its other events (GTID, XA_PREPARE) carry no rows."""
    at, end, crc = int(segment[k.S_POS]), int(segment[k.S_END]), int(segment[k.S_CRC])
    number = 0
    while at < end:
        header = EventHeader.parse(buffer[at : at + 19].tobytes())
        if header.event_size < 19 + crc:
            raise ChecksumMismatch("an event's length is impossible; it was right when the file was scanned")
        if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            payload = TransactionPayload.parse(buffer[at + 19 : at + header.event_size - crc].tobytes())
            for chunk in payload.chunks():
                yield number, chunk
            number += 1
        at += header.event_size
    if not number:
        raise ChecksumMismatch(NO_PAYLOAD)
