"""Counts what is written instead of keeping it: the rows of each transaction, and the tables they are of.

An `Account` is the `Sink` of a renderer. So what it counts is what the merge writes, errors included. It looks through
each buffer of events with the kernel that indexes merged logs (`kernels.log_walk`).
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.cell_length import decimal_length
from binlog_merge.binlog.constants import ColumnType, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels.row_cells import count_rows
from binlog_merge.binlog.rows import RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.pipeline.gather import output_file

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
_MOST_TRANSACTIONS, _MOST_EVENTS, _MOST_MAPS = 1 << 14, 1 << 15, 1 << 12
_HEADER: Final = 19
_NOTHING: Final = np.zeros((2, 0, 0), np.int32)


@dataclass(frozen=True, slots=True)
class Counted:
    """What some transactions changed: `rows` of each, and pairs of (transaction, table), sorted.

    A table is a number of `names`, (schema, table).
    """

    rows: Numbers
    transaction: Numbers
    table: Numbers
    names: tuple[tuple[str, str], ...]


@dataclass
class _Maps:
    """The table maps that the kernel has numbered, and the numbers of their tables."""

    tables: dict[int, TableMap] = field(default_factory=dict)
    _parsed: dict[bytes, TableMap] = field(default_factory=dict)

    def parsed(self, data: bytes) -> TableMap:
        if data not in self._parsed:
            if len(self._parsed) > _MOST_MAPS:
                self._parsed.clear()
            self._parsed[data] = TableMap.parse(data)
        return self._parsed[data]


class Account:
    """Takes rendered events, from the transaction with the rank `rank` on."""

    def __init__(self, rank: int) -> None:
        self.position = 0
        self.buffer: Bytes = np.empty(output_file.OUT_BUFFER, np.uint8)
        self._reg = np.zeros(k.REGISTERS, np.int64)
        self._reg[k.RANK], self._reg[k.LAST_RANK], self._reg[k.CHECKSUM] = rank - 1, 1 << 62, 1
        self._transactions = np.zeros((_MOST_TRANSACTIONS, 6), np.int64)
        self._events = np.zeros((_MOST_EVENTS, 6), np.int64)
        self._index = np.zeros((_MOST_MAPS, 4), np.int64)
        self._slots = np.full(k.SLOTS, -1, np.int32)
        self._maps = _Maps()
        self._names: dict[tuple[str, str], int] = {}
        self._pending = bytearray()
        self._taken = rank
        self._found: list[tuple[int, int, int]] = []  # rank, table, rows

    def write(self, count: int) -> None:
        """Count the first `count` bytes of the buffer."""
        self.position += count
        if not self._pending:
            self._look(self.buffer, count)
            return
        self._pending += self.buffer[:count].tobytes()
        size = int.from_bytes(self._pending[9:13], "little")
        if len(self._pending) >= max(size, _HEADER):
            whole, self._pending = np.frombuffer(bytes(self._pending), np.uint8), bytearray()
            self._look(whole, len(whole))

    def append(self, data: bytes) -> None:
        """Count bytes."""
        self.buffer[: len(data)] = np.frombuffer(data, np.uint8)
        self.write(len(data))

    def truncate(self, position: int) -> None:
        """Go back to `position`, where the open transaction begins."""
        self.position = position
        self._pending = bytearray()
        if self._reg[k.OPEN]:
            rank = int(self._reg[k.RANK])
            self._found = [found for found in self._found if found[0] != rank]
            self._reg[k.RANK], self._reg[k.OPEN] = rank - 1, 0
            self._clear()

    def overwrite(self, position: int, data: bytes) -> None:
        """Do nothing: what is counted is not in a GTID event."""

    def read_back(self, position: int) -> bytes:
        """Return nothing: what is counted is not kept."""
        return b""

    def take(self) -> Counted:
        """Return what the transactions changed that were written since the last time."""
        begin, end = self._taken, int(self._reg[k.RANK]) + 1
        self._taken = end
        found = np.array(self._found, np.int64).reshape(-1, 3)
        self._found.clear()
        rows = np.zeros(end - begin, np.int64)
        np.add.at(rows, found[:, 0] - begin, found[:, 2])
        pairs = np.unique(found[:, :2], axis=0)
        return Counted(rows, pairs[:, 0] - begin, pairs[:, 1], tuple(self._names))

    def _look(self, buffer: Bytes, end: int) -> None:
        """Index whole events; keep the rest of the buffer, the beginning of an event, for later."""
        self._reg[k.AT] = 0
        while True:
            why = int(k.walk(buffer, end, self._reg, self._transactions, self._events, self._index, self._slots))
            if why == k.DAMAGED:
                raise AssertionError(f"the renderer wrote what is no binlog, at {int(self._reg[k.AT])}")
            self._count(buffer)
            if why == k.MORE:
                break
            if why == k.PYTHON:
                self._pass_statement(buffer)
        if int(self._reg[k.AT]) < end:
            self._pending += buffer[int(self._reg[k.AT]) : end].tobytes()

    def _pass_statement(self, buffer: Bytes) -> None:
        """Go on behind a statement, which ends its transaction if no BEGIN was before it."""
        at = int(self._reg[k.AT])
        self._reg[k.AT] = at + int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        if self._reg[k.OPEN] != k.IN_ROWS:
            self._reg[k.OPEN] = 0

    def _count(self, buffer: Bytes) -> None:
        """Count the rows of what is indexed, and clear the index."""
        reg = self._reg
        self._learn(buffer)
        events = self._events[: int(reg[k.EVENTS])]
        ranks = self._transactions[events[:, k.E_TRANSACTION], k.T_RANK]
        for number in np.unique(events[:, k.E_MAP]).tolist():
            chosen = events[:, k.E_MAP] == number
            self._add(buffer, self._maps.tables[number], events[chosen], ranks[chosen])
        self._clear()

    def _clear(self) -> None:
        """Clear the index, but for the open transaction's table maps."""
        reg = self._reg
        rank, count = int(reg[k.RANK]), int(reg[k.MAPS])
        current = [n for n in range(count) if self._index[n, k.M_RANK] == rank] if reg[k.OPEN] else []
        kept = [(int(self._index[n, k.M_ID]), self._maps.tables[n]) for n in current]
        if 2 * len(kept) > len(self._index):
            self._index = np.zeros((2 * len(self._index), 4), np.int64)
        self._slots[:] = -1
        self._maps.tables = {}
        for number, (table_id, table) in enumerate(kept):
            self._index[number] = (table_id, -1, -1, rank)
            self._maps.tables[number] = table
            self._slots[table_id & (k.SLOTS - 1)] = number
        reg[k.MAPS], reg[k.EVENTS], reg[k.TRANSACTIONS] = len(kept), 0, 0
        if reg[k.OPEN]:
            self._transactions[0] = (-1, -1, 0, 0, -1, rank)
            reg[k.TRANSACTIONS] = 1

    def _learn(self, buffer: Bytes) -> None:
        for number in range(int(self._reg[k.MAPS])):
            body, end = int(self._index[number, k.M_BODY]), int(self._index[number, k.M_END])
            if body >= 0:
                self._maps.tables[number] = self._maps.parsed(buffer[body:end].tobytes())

    def _add(self, buffer: Bytes, table: TableMap, events: Numbers, ranks: Numbers) -> None:
        number = self._names.setdefault((table.schema, table.table), len(self._names))
        counts = _rows_of(buffer, table, events)
        each, which = np.unique(ranks, return_inverse=True)
        sums = np.bincount(which, counts, len(each)).astype(np.int64)
        self._found += zip(each.tolist(), [number] * len(each), sums.tolist(), strict=True)


def _rows_of(buffer: Bytes, table: TableMap, events: Numbers) -> Numbers:
    """Return how many rows each event of a table has. Raises ChecksumMismatch if its rows do not fit the table map."""
    counts = np.zeros(len(events), np.int64)
    bodies = np.ascontiguousarray(events[:, [k.E_BODY, k.E_END, k.E_KIND]])
    partial = bodies[:, 2] == int(EventType.PARTIAL_UPDATE_ROWS_EVENT)
    try:
        for kind, meta in zip(table.types, table.metas, strict=True):
            if kind == ColumnType.NEWDECIMAL:
                decimal_length(meta & 0xFF, meta >> 8)  # the kernel takes its digits as an index
        for number in np.flatnonzero(partial).tolist():
            begin, end, kind = bodies[number].tolist()
            event = RowsEvent.parse(kind, buffer[begin:end].tobytes())
            counts[number] = sum(1 for _ in iter_rows(event, table))
        whole = bodies[~partial]
        found = np.zeros(len(whole), np.int64)
        types, metas = np.frombuffer(table.types, np.uint8).astype(np.int64), np.array(table.metas, np.int64)
        wrong = int(count_rows(buffer, whole, types, metas, _NOTHING, found))
    except BinlogFormatError as error:
        raise ChecksumMismatch(f"rows of {table.schema}.{table.table} cannot be counted: {error.reason}") from None
    if wrong >= 0:
        raise ChecksumMismatch(f"rows of {table.schema}.{table.table} do not fit their table map")
    counts[~partial] = found
    return counts
