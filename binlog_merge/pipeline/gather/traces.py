"""Interleaves the branches of a transaction statement by statement, by PolarDB-X's trace ids (`kernels.trace`).

Statements with equal traces, and those without one, keep the order of the branches: by node, then by offset.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import ROWS_TYPES, EventType, RowsFlag
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import trace as t
from binlog_merge.errors import ChecksumMismatch, UnsupportedInput
from binlog_merge.files.source import Source
from binlog_merge.pipeline.base.pieces import Column, view


@dataclass(frozen=True)
class Window:
    """The input of the render kernel for rows[start:stop]: segments in order, and a key for each.

    `row` is the row of each segment and `begins` the first row of its transaction, both relative to the window's first
    row. A branch may be split into several segments.
    """

    segments: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    row: Column
    begins: Column

    def segment_of(self, row: int) -> int:
        """Return the first segment of the transaction that begins at a row, or the number of segments if there
        is none.
        """
        return int(np.searchsorted(self.begins, row))


def traced(buffer: npt.NDArray[np.uint8], whole: Window) -> Window:
    """Return the window with the branches of each transaction interleaved by trace, and with their server ids.

    Raises UnsupportedInput if a branch's traces go back.
    """
    segments = whole.segments
    pieces = np.zeros((2 * len(segments) + 64, t.P_COLUMNS), np.int64)
    found = np.zeros(4, np.int64)
    while True:
        count = int(t.trace_window(buffer, segments, pieces, found))
        if count == -2:
            raise ChecksumMismatch("an event's length is impossible; it was right when the file was scanned")
        if count >= 0:
            break
        pieces = np.zeros((4 * len(pieces), t.P_COLUMNS), np.int64)
    pieces = pieces[:count]
    of = pieces[:, t.P_SEGMENT]
    begins = whole.begins[of]
    if pieces[:, (t.P_SEQ, t.P_SUB)].any():
        back = (of[1:] == of[:-1]) & _less(pieces[1:], pieces[:-1])
        if back.any():
            raise _goes_back(pieces[1:][back][0])
        order = np.lexsort((np.arange(count), pieces[:, t.P_SUB], pieces[:, t.P_SEQ], begins))
        pieces, of = pieces[order], of[order]
        begins = whole.begins[of]
    cut = segments[of]
    cut[:, k.S_POS], cut[:, k.S_END] = pieces[:, t.P_POS], pieces[:, t.P_END]
    cut[:, k.S_HINTED] = pieces[:, t.P_HINTED]
    first = np.ones(count, np.int64)
    first[1:] = begins[1:] != begins[:-1]
    cut[:, k.S_FIRST] = first
    cut[:-1, k.S_LAST], cut[-1, k.S_LAST] = first[1:], 1
    cut[:, k.S_BYTES] = np.where(first != 0, segments[begins, k.S_BYTES], 0)
    keys = whole.keys[begins]
    keys[:, k.K_SERVER] = _servers(pieces, first)
    return Window(cut, keys, whole.row[of], begins)


def _less(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    less: npt.NDArray[np.bool_] = (a[:, t.P_SEQ] < b[:, t.P_SEQ]) | (
        (a[:, t.P_SEQ] == b[:, t.P_SEQ]) & (a[:, t.P_SUB] < b[:, t.P_SUB])
    )
    return less


def _servers(pieces: npt.NDArray[np.int64], first: Column) -> Column:
    """Return for each piece the first server id in its transaction's hints, 0 if there is none."""
    transaction = np.cumsum(first) - 1
    hinted = np.flatnonzero(pieces[:, t.P_SERVER])
    servers = np.zeros(int(transaction[-1]) + 1, np.int64)
    servers[transaction[hinted[::-1]]] = pieces[hinted[::-1], t.P_SERVER]
    return servers[transaction]


def _goes_back(piece: Sequence[int] | npt.NDArray[np.int64]) -> UnsupportedInput:
    return UnsupportedInput(
        f"the trace ids of a branch go back to {int(piece[t.P_SEQ])}/{int(piece[t.P_SUB])}: "
        "the order of its transaction's statements is not known",
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A statement in a branch too big for a window: its row, its byte range in the file, and its trace.

    `unpacked` is the file in which the range is, if it is not the branch's own: it holds the events of a compressed
    branch, without checksums.
    """

    row: int
    start: int
    stop: int
    trace: tuple[int, int] = (0, 0)
    unpacked: Source | None = None


_HEAD = 64


def branch_parts(source: Source, row: int, start: int, stop: int, crc: int) -> tuple[list[Part], int, bool]:
    """Return a branch's parts as `kernels.trace.cut_pieces` cuts them, its server id, and whether it has a hint.

    Reads only the beginnings of events. Raises UnsupportedInput if the traces go back.
    """
    parts: list[Part] = []
    begun, ends, has_rows, trace, server, hinted = -1, True, False, (0, 0), 0, False
    found = np.zeros(4, np.int64)
    for at, header, head in _events(source, start, stop):
        kind = header.type_code
        if kind in (EventType.ROWS_QUERY_LOG_EVENT, EventType.TABLE_MAP_EVENT):
            if ends and has_rows:
                parts.append(Part(row, begun, at, trace))
                begun, has_rows = -1, False
            text = min(len(head), header.event_size - crc) if kind == EventType.ROWS_QUERY_LOG_EVENT else 0
            if not has_rows and t.read_hint(head, 20, text, found):
                now = (int(found[0]), int(found[1]))
                if parts and now < parts[-1].trace:
                    raise _goes_back([0, 0, 0, *now])
                trace, hinted, server = now, True, server or int(found[2])
            begun = at if begun < 0 else begun
        elif kind in ROWS_TYPES:
            begun = at if begun < 0 else begun
            has_rows, ends = True, bool(head[25] & RowsFlag.STMT_END_F)
    parts.append(Part(row, begun if begun >= 0 else start, stop, trace))
    return parts, server, hinted


def _events(source: Source, start: int, stop: int) -> Iterator[tuple[int, EventHeader, npt.NDArray[np.uint8]]]:
    """Yield offset, header and first bytes of every event; for a ROWS_QUERY event as many as a hint may take."""
    block, at, base, got = np.empty(1 << 20, np.uint8), start, start, 0
    while at < stop:
        if at + 4096 > base + got or at < base:
            base, got = at, source.read_into(view(block)[: min(len(block), stop - at)], at)
            if got < 19:
                raise ChecksumMismatch("the file became shorter while it was read", position=at)
        start_in_block = at - base
        header = EventHeader.parse(block[start_in_block : start_in_block + 19].tobytes())
        if header.event_size < 19:
            raise ChecksumMismatch("an event's length is impossible; it was right when the file was scanned")
        size = 4096 if header.type_code == EventType.ROWS_QUERY_LOG_EVENT else _HEAD
        yield at, header, block[start_in_block : min(start_in_block + size, got)].copy()
        at += header.event_size
