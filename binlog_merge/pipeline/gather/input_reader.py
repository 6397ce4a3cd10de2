"""Reads byte ranges of the nodes' files into one buffer: windows of a few thousand branches in global order.

The ranges of a window are scattered over the files, mostly in order within each file. Ranges close to each other are
read as one. A range far from the others costs one more read and nothing else, however far TSO order and file order
diverge.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.config.uri import local_path
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.files.node_file import KnownSource, open_known
from binlog_merge.files.source import MOST_HELD, Bytes, Source, block_size
from binlog_merge.pipeline.base.pieces import Column, view
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.traces import Window, traced
from binlog_merge.pipeline.gather.values import InputFile

WINDOW_BYTES = 4 << 20
GAP = 64 << 10  # ranges closer than this are read as one


class InputReader:
    """Reads the input files of one gather task; `buffer` holds the bytes read last."""

    def __init__(self, nodes: Mapping[int, str], files: Mapping[tuple[int, int], InputFile]) -> None:
        self._nodes, self._files = nodes, files
        self._sources: dict[tuple[int, int], KnownSource] = {}
        self._instead = {
            (*place, each.start): each.group for place, file in files.items() for each in file.known.instead
        }
        self._remote = any(local_path(file.path) is None for file in files.values())
        self._ends: dict[tuple[int, int], int] = {}
        checksums = {file.checksum for file in files.values()}
        self.one_crc = 4 * checksums.pop() if len(checksums) == 1 else None  # of all files, None if they differ
        self.buffer = np.empty(WINDOW_BYTES * 2, np.uint8)

    def close(self) -> None:
        """Close all open files."""
        for source in self._sources.values():
            source.close()

    def expect(self, rows: Rows) -> None:
        """Say that these rows are read next: of remote files they are read ahead."""
        if not self._remote:
            return
        place = (rows.node << np.int64(32)) | rows.file
        files, which = np.unique(place, return_inverse=True)
        ends = np.zeros(len(files), np.int64)
        np.maximum.at(ends, which, rows.end)
        self._ends = {(int(at >> 32), int(at & 0xFFFFFFFF)): int(end) for at, end in zip(files, ends, strict=True)}
        for known in self._sources.keys() & self._ends.keys():
            self._sources[known].expect(self._ends[known])
        if sum(source.held for source in self._sources.values()) > MOST_HELD:
            for known in self._sources.keys() - self._ends.keys():
                self._sources[known].release()

    def source(self, node: int, file: int) -> Source:
        """Return the open source of a file."""
        if (node, file) not in self._sources:
            opened = open_known(self._files[node, file].known, block_size(len(self._ends)))
            opened.expect(self._ends.get((node, file), 0))
            self._sources[node, file] = opened
        return self._sources[node, file]

    def instead(self, node: Column, file: Column, begin: Column) -> dict[int, bytes]:
        """Return, by row, the groups that are read in place of those that begin there."""
        if not self._instead:
            return {}
        places = zip(node.tolist(), file.tolist(), begin.tolist(), strict=True)
        return {i: self._instead[place] for i, place in enumerate(places) if place in self._instead}

    def group(self, node: int, file: int, start: int, stop: int) -> tuple[Source, int, int]:
        """Return where the group at [start, stop) of a file is read: a source, and its place there."""
        group = self._instead.get((node, file, start))
        return (self.source(node, file), start, stop) if group is None else (Bytes(group), 0, len(group))

    def crc(self, node: int, file: int) -> int:
        """Return the length of the checksum in a file's events: 4 or 0."""
        return 4 if self._files[node, file].checksum else 0

    def place(self, rows: Rows, row: int) -> dict[str, Any]:
        """Return the location of a row's branch, as the arguments of an error."""
        node, file = int(rows.node[row]), int(rows.file[row])
        return {
            "node": self._nodes[node],
            "file": self._files[node, file].path,
            "position": int(rows.start[row]),
            "order_key": rows.key(row),
        }

    def read(
        self, node: Column, file: Column, begin: Column, length: Column, skip: npt.NDArray[np.bool_]
    ) -> tuple[Column, int]:
        """Read byte ranges into the buffer, except those to skip. Returns the offset of each in the buffer, and the
        bytes used.
        """
        order = np.lexsort((begin, file, node))
        node, file, begin, length = node[order], file[order], begin[order], np.where(skip, 0, length)[order]
        new = np.ones(len(order), np.bool_)
        if len(order) > 1:
            far = begin[1:] > begin[:-1] + length[:-1] + GAP
            new[1:] = far | (node[1:] != node[:-1]) | (file[1:] != file[:-1])
        heads = np.flatnonzero(new)
        ends = np.maximum.reduceat(begin + length, heads)
        sizes = ends - begin[heads]
        offsets = np.cumsum(sizes) - sizes
        used = int(sizes.sum())
        self._make_room(used)
        part = view(self.buffer)
        for head, size, offset in zip(heads.tolist(), sizes.tolist(), offsets.tolist(), strict=True):
            if size:
                source = self.source(int(node[head]), int(file[head]))
                source.read_into(part[offset : offset + size], int(begin[head]))
        run = np.cumsum(new) - 1
        at = np.empty(len(order), np.int64)
        at[order] = offsets[run] + begin - begin[heads][run]
        return at, used

    def append(self, data: bytes, used: int) -> int:
        """Append bytes after the `used` bytes of the buffer. Returns the new number of used bytes."""
        self._make_room(used + len(data), keep=used)
        self.buffer[used : used + len(data)] = np.frombuffer(data, np.uint8)
        return used + len(data)

    def _make_room(self, size: int, keep: int = 0) -> None:
        if size > len(self.buffer):
            bigger = np.empty(size + (size >> 2), np.uint8)
            bigger[:keep] = self.buffer[:keep]
            self.buffer = bigger


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
    if reader.one_crc is not None:
        segments[:, k.S_CRC] = reader.one_crc
    else:
        segments[:, k.S_CRC] = [reader.crc(*place) for place in zip(node.tolist(), file.tolist(), strict=True)]
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
