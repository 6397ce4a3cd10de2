"""Windows: a few thousand branches in global order, and their bytes in one buffer.

The byte ranges of a window lie scattered over the nodes' files, in order within each file or nearly. Ranges that are
near each other are read as one; a range far from the others costs its own read and nothing else, however far TSO order
and file order diverge.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.stages.block import Column, read_block, view
from binlog_merge.stages.held import OWN
from binlog_merge.stages.ordered import KEY
from binlog_merge.stages.traces import Window, traced
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.stages.gather_state import Gather

WINDOW_ROWS = 4096
WINDOW_BYTES = 4 << 20
GAP = 64 << 10  # ranges closer than this are read as one


@dataclass(frozen=True)
class Rows:
    """The rows of one run, as columns. Rows of `stages.held` have a key of their own beside that of their place."""

    columns: Mapping[str, Column]
    first: Column
    start: Column
    end: Column
    node: Column
    file: Column
    flags: Column
    commit_us: Column
    before: Column

    @classmethod
    def load(cls, path: str, start: int, stop: int) -> "Rows":
        """Map rows[start:stop] of an order file."""
        columns = {name: values[start:stop] for name, values in read_block(path).items()}
        return cls(
            columns, *(columns[n] for n in ("first", "start", "end", "node", "file", "flags", "commit_us", "before"))
        )

    def __len__(self) -> int:
        return len(self.first)

    def key(self, row: int) -> OrderKey:
        """Return the order key of a row."""
        return OrderKey(*(int(self.columns[name][row]) for name in ("tso", "transaction", "seq", "node_seq")))

    def own_key(self, row: int) -> OrderKey:
        """Return the order key at which a row stands in its node's log."""
        if not self.may_move:
            return self.key(row)
        return OrderKey(*(int(self.columns[name][row]) for name in OWN))

    @cached_property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Tell of each row whether it comes out at another place than its own."""
        columns = self.columns
        return np.any([columns[name] != columns[own] for name, own in zip(KEY, OWN, strict=True)], axis=0)

    @property
    def may_move(self) -> bool:
        """Tell whether rows come out at places that are not their own."""
        return "ddl" in self.columns

    def is_moved(self, row: int) -> bool:
        """Tell whether a row comes out at another place than its own."""
        return self.may_move and bool(self.moved[row])

    def size(self, row: int) -> int:
        """Return the bytes of a row's branch."""
        return int(self.end[row] - self.start[row])

    def transaction_end(self, row: int) -> int:
        """Return the row behind the last one of the transaction that begins at `row`."""
        stop, step = row + 1, 64
        while stop < len(self):
            begins = np.flatnonzero(self.first[stop : stop + step])
            if len(begins):
                return stop + int(begins[0])
            stop += step
        return len(self)

    def edges(self, boundaries: Sequence[OrderKey]) -> list[int]:
        """Return the rows at which others of the boundaries lie behind than at the row before, or another place
        begins.

        What a moved row is decoded by are the boundaries behind its own key.
        """
        if not self.may_move:
            return list(self._behind(boundaries, KEY, 0, len(self)))
        new = np.ones(len(self), np.bool_)
        ddl = self.columns["ddl"] != 0
        new[1:] = (self.moved[1:] != self.moved[:-1]) | ddl[1:] | ddl[:-1]
        for name in KEY:
            new[1:] |= self.moved[1:] & (self.columns[name][1:] != self.columns[name][:-1])
        begins = [*np.flatnonzero(new).tolist(), len(self)]
        inside = (at for start, stop in pairwise(begins) for at in self._behind(boundaries, OWN, start, stop))
        return [*begins, *inside]

    def _behind(self, boundaries: Sequence[OrderKey], names: Sequence[str], start: int, stop: int) -> Iterator[int]:
        """Yield behind which of rows[start:stop], ascending by the columns `names`, boundaries lie among them."""
        columns = [self.columns[name] for name in names]
        key = lambda row: OrderKey(*(int(column[row]) for column in columns))  # noqa: E731
        if start < stop:
            for at in range(bisect_left(boundaries, key(start)), bisect_left(boundaries, key(stop - 1))):
                yield bisect_right(range(start, stop), boundaries[at], key=key) + start


def window_end(rows: Rows, start: int, stop: int) -> int:
    """Return where the window that begins at `start` ends: whole transactions, at least one."""
    end = min(start + WINDOW_ROWS, stop)
    wanted = int(np.searchsorted(rows.before[start:end], int(rows.before[start]) + WINDOW_BYTES)) + start
    end = max(start + 1, min(end, wanted))
    if end < stop and not rows.first[end]:
        begins = np.flatnonzero(rows.first[start + 1 : end])
        end = start + 1 + int(begins[-1]) if len(begins) else rows.transaction_end(start)
    # A window begins and ends with whole transactions even if its last one is large: then it is cut before that one.
    if end - start > 1 and rows.before[end - 1] + rows.size(end - 1) - rows.before[start] > 2 * WINDOW_BYTES:
        begins = np.flatnonzero(rows.first[start + 1 : end])
        if len(begins):
            return start + 1 + int(begins[-1])
    return end


def window(state: "Gather", rows: Rows, start: int, stop: int) -> Window:
    """Read the bytes of rows[start:stop] into the input buffer; returns what the kernel is to make of them."""
    n = stop - start
    segments = np.zeros((n, k.S_COLUMNS), np.int64)
    node, file, begin = rows.node[start:stop], rows.file[start:stop], rows.start[start:stop]
    length = rows.end[start:stop] - begin
    ddl = (rows.flags[start:stop] & ks.MARKER) != 0
    at, used = _read(state, node, file, begin, length, ddl)
    segments[:, k.S_POS], segments[:, k.S_END] = at, at + length
    segments[:, k.S_NODE] = node
    segments[:, k.S_DDL] = ddl
    first = rows.first[start:stop]
    segments[:, k.S_FIRST] = first
    segments[:-1, k.S_LAST] = first[1:]
    segments[-1, k.S_LAST] = 1
    begins = np.flatnonzero(first)
    segments[begins, k.S_BYTES] = np.add.reduceat(length, begins)
    pairs = {pair: 4 if state.task.files[pair].checksum else 0 for pair in _pairs(node, file)}
    if len(set(pairs.values())) == 1:
        segments[:, k.S_CRC] = next(iter(pairs.values()))
    else:
        segments[:, k.S_CRC] = [pairs[p] for p in zip(node.tolist(), file.tolist(), strict=True)]
    # The bytes of a DDL's markers are not read: its text is known.
    for i in np.flatnonzero(((rows.flags[start:stop] & ks.COMPRESSED) != 0) & ~ddl).tolist():
        used = _unpack(state, segments[i], used)
    keys = np.zeros((n, k.K_COLUMNS), np.int64)
    for column, name in ((k.K_TSO, "tso"), (k.K_TRANSACTION, "transaction"), (k.K_SEQ, "seq"), (k.K_NODE, "node_seq")):
        keys[:, column] = rows.columns[name][start:stop]
    keys[:, k.K_COMMIT_US] = rows.commit_us[start:stop]
    keys[:, k.K_ARCHIVE] = (rows.flags[start:stop] & ks.ARCHIVE) != 0
    place = np.arange(n)
    plain = Window(segments, keys, place, np.maximum.accumulate(np.where(first != 0, place, 0)))
    return traced(state.input, plain) if state.task.hints else plain


def _pairs(node: Column, file: Column) -> list[tuple[int, int]]:
    distinct = np.unique(node * (1 << 32) + file)
    return [(int(p >> 32), int(p & 0xFFFFFFFF)) for p in distinct]


def _read(
    state: "Gather", node: Column, file: Column, begin: Column, length: Column, skip: npt.NDArray[np.bool_]
) -> tuple[Column, int]:
    """Read byte ranges into the input buffer, near ones together; returns where each begins there, and the bytes
    used.
    """
    place = np.lexsort((begin, file, node))
    node, file, begin, length = node[place], file[place], begin[place], np.where(skip, 0, length)[place]
    new = np.ones(len(place), np.bool_)
    if len(place) > 1:
        far = begin[1:] > begin[:-1] + length[:-1] + GAP
        new[1:] = far | (node[1:] != node[:-1]) | (file[1:] != file[:-1])
    heads = np.flatnonzero(new)
    ends = np.maximum.reduceat(begin + length, heads)
    sizes = ends - begin[heads]
    offsets = np.cumsum(sizes) - sizes
    used = int(sizes.sum())
    state.input = _at_least(state.input, used)
    part = view(state.input)
    for head, size, offset in zip(heads.tolist(), sizes.tolist(), offsets.tolist(), strict=True):
        if size:
            source = state.source(int(node[head]), int(file[head]))
            source.read_into(part[offset : offset + size], int(begin[head]))
    run = np.cumsum(new) - 1
    at = np.empty(len(place), np.int64)
    at[place] = offsets[run] + begin - begin[heads][run]
    return at, used


def _unpack(state: "Gather", segment: npt.NDArray[np.int64], used: int) -> int:
    """Replace a compressed branch by the events inside, behind the `used` bytes of the input buffer."""
    data = b"".join(chunk for _, chunk in unpacked(state.input, segment))
    state.input = _at_least(state.input, used + len(data), keep=used)
    state.input[used : used + len(data)] = np.frombuffer(data, np.uint8)
    segment[k.S_POS], segment[k.S_END], segment[k.S_CRC] = used, used + len(data), 0
    return used + len(data)


def unpacked(buffer: npt.NDArray[np.uint8], segment: npt.NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, bytes) of the payloads in a branch; its other events (GTID, XA_PREPARE) carry no rows."""
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


def _at_least(buffer: npt.NDArray[np.uint8], size: int, keep: int = 0) -> npt.NDArray[np.uint8]:
    if size <= len(buffer):
        return buffer
    bigger = np.empty(size + (size >> 2), np.uint8)
    bigger[:keep] = buffer[:keep]
    return bigger
