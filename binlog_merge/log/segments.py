"""Reads a merged binlog in large segments: rows events indexed by a kernel, thousands at a time; statements singly.

    Segment       rows events of many transactions, in one buffer; ends at a statement or at the end of a window
    StatementAt   a statement with its transaction

The content is that of `Log.items`, for targets that work in bulk. A transaction larger than a window
comes in several segments; `ended` is False in all but the last.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import RawIOBase
from typing import Any, Final, NoReturn, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import FormatDescription, Gtid, Query, RowsQuery, TableMap, parse_event
from binlog_merge.binlog.header import EventHeader, RawEvent, frame
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import ChecksumMismatch, ManifestError, UnsupportedInput, io_error
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.index import checksum_of, transactions_between, transactions_of
from binlog_merge.log.log import Log
from binlog_merge.log.reader import DAMAGED, Begin, check_kept, file_items, order_key
from binlog_merge.log.statement import Statement
from snapshot_store.tso import OrderKey

WINDOW: Final = 16 << 20
_MOST_TRANSACTIONS, _MOST_EVENTS, _MOST_MAPS = 1 << 16, 1 << 17, 1 << 12
_BEYOND_ALL = 1 << 62
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows events of some transactions; the columns of `transactions` and `events` are those of `kernels.log_walk`.

    `tables` are the table maps that events name by number. `carried` is the first transaction if it began in an
    earlier segment. `ended`: the last transaction is complete.
    """

    buffer: npt.NDArray[np.uint8]
    transactions: Numbers
    events: Numbers
    tables: tuple[TableMap, ...]
    file: str
    base: int
    checksum: bool
    carried: Begin | None
    carried_key: OrderKey | None
    ended: bool

    @property
    def last_rank(self) -> int:
        """Return the rank of the last transaction."""
        return int(self.transactions[-1, k.T_RANK])

    @property
    def ranks(self) -> list[int]:
        """Return the rank of each transaction."""
        return [int(rank) for rank in self.transactions[:, k.T_RANK].tolist()]

    def begin(self, number: int) -> Begin:
        """Return the beginning of the transaction with this number in the segment."""
        at = int(self.transactions[number, k.T_GTID])
        if at < 0 and self.carried is not None:
            return self.carried
        return _begin(self._event(at), int(self.transactions[number, k.T_RANK]), self.file)

    def key(self, number: int) -> OrderKey | None:
        """Return a transaction's order key, if the output has it as a rows-query event after BEGIN."""
        at = int(self.transactions[number, k.T_COMMENT])
        if at < 0:
            return self.carried_key if number == 0 and self.carried is not None else None
        value = parse_event(self._event(at))
        return order_key(value) if isinstance(value, RowsQuery) else None

    def position(self, event: int) -> int:
        """Return the offset of a rows event in its file."""
        return self.base + int(self.events[event, k.E_AT])

    def _event(self, at: int) -> RawEvent:
        return frame(memoryview(self.buffer.data), at, file=self.file, offset=self.base + at, checksum=self.checksum)


@dataclass(frozen=True, slots=True)
class StatementAt:
    """A statement and its transaction; `ended`: the transaction ends with it."""

    begin: Begin
    statement: Statement
    ended: bool


def segments(
    binlog: Log, first_rank: int = 1, last_rank: int | None = None, window: int = WINDOW
) -> Iterator[Segment | StatementAt]:
    """Yield transactions `first_rank` to `last_rank` in segments. Raises what `Log.items` does.

    Files without such transactions are not opened; what stands before the first one in its file is not looked through.
    """
    binlog.check_there(first_rank)
    for file in binlog.state.files:
        if file.last_rank < first_rank:
            continue
        if last_rank is not None and file.first_rank > last_rank:
            return
        yield from file_segments(binlog, file, first_rank, last_rank, window)


def file_segments(
    binlog: Log,
    file: OutputFile,
    first_rank: int,
    last_rank: int | None = None,
    window: int = WINDOW,
    position: int | None = None,
) -> Iterator[Segment | StatementAt]:
    """Yield the transactions `first_rank` to `last_rank` of a file; `position` is where the first one begins, if known.

    Raises what `Log.items` does.
    """
    check_kept(binlog.folder, file)
    path = binlog.folder.place(file.name)
    if position is None:
        position = _position_of(binlog, file, first_rank)
    try:
        yield from _FileWalk(binlog, file, first_rank, last_rank or _BEYOND_ALL, window, position).pieces()
    except OSError as error:
        raise io_error(error, path) from error
    except BinlogFormatError as error:  # the format description's own: the kernel takes no word of it
        place = error.offset if error.offset >= 0 else None
        raise ChecksumMismatch(error.reason, file=path, position=place, remedy=DAMAGED) from None


def _position_of(binlog: Log, file: OutputFile, rank: int) -> int:
    """Return where a transaction begins, the beginning of the file if it is the first one."""
    if rank > file.first_rank:
        for rows in transactions_between(binlog.folder, file, rank, rank):
            return int(rows[0, x.X_AT])
    return len(BINLOG_MAGIC)


@dataclass
class _FileWalk:
    """Reads and indexes a file, window by window."""

    binlog: Log
    file: OutputFile
    first_rank: int
    last_rank: int
    window: int
    position: int = len(BINLOG_MAGIC)
    reg: Numbers = field(init=False)
    buffer: npt.NDArray[np.uint8] = field(init=False)
    base: int = 0
    tables: dict[int, TableMap] = field(default_factory=dict)
    carried: Begin | None = None
    carried_key: OrderKey | None = None

    def __post_init__(self) -> None:
        self.path = self.binlog.folder.place(self.file.name)
        self.reg = np.zeros(k.REGISTERS, np.int64)
        self.reg[k.AT], self.reg[k.RANK] = len(BINLOG_MAGIC), self.file.first_rank - 1
        self.reg[k.LAST_RANK] = self.last_rank
        self.transactions = np.zeros((_MOST_TRANSACTIONS, 6), np.int64)
        self.events = np.zeros((_MOST_EVENTS, 6), np.int64)
        self.maps = np.zeros((_MOST_MAPS, 4), np.int64)
        self.slots = np.full(k.SLOTS, -1, np.int32)
        self._parsed: dict[bytes, TableMap] = {}

    def pieces(self) -> Iterator[Segment | StatementAt]:
        with cast(RawIOBase, self.binlog.folder.opened(self.file, 0)) as source:
            self.buffer = np.empty(0, np.uint8)
            if self.position > len(BINLOG_MAGIC):
                self._begin_at(source)
            self._read(source)
            while True:
                why = k.walk(
                    self.buffer, len(self.buffer), self.reg, self.transactions, self.events, self.maps, self.slots
                )
                if why == k.DAMAGED:
                    self._damaged()
                if why == k.MORE:
                    self._put_back()
                yield from self._flush()
                if why == k.BEYOND:
                    return
                if why == k.PYTHON:
                    yield from self._judge()
                    self._again()
                elif why == k.FULL:
                    self._again()
                elif not self._read(source):
                    break
        if self.reg[k.RANK] != self.file.last_rank or self.reg[k.OPEN] or self.reg[k.AT] != len(self.buffer):
            self._damaged()

    def _begin_at(self, source: RawIOBase) -> None:
        """Go to where the first transaction begins, with what the file's format description says."""
        self.base, self.reg[k.RANK] = self.position, self.first_rank - 1
        self.reg[k.CHECKSUM] = checksum_of(self.binlog.folder, self.file)
        source.seek(self.position)

    def _read(self, source: RawIOBase) -> bool:
        """Read the next window, which begins with the rest of the last; return whether it has new bytes."""
        at = int(self.reg[k.AT]) if len(self.buffer) else 0
        rest = self.buffer[at:]
        position = self.base + len(self.buffer)
        size = self.window
        if len(rest) >= 13:
            size = max(size, EventHeader.parse(memoryview(rest[:19].tobytes().ljust(19, b"\0"))).event_size - len(rest))
        size = min(size, self.file.size - position)
        if size <= 0:
            return False
        fresh = np.empty(len(rest) + size, np.uint8)
        fresh[: len(rest)] = rest
        view, done = memoryview(fresh.data), len(rest)
        while done < len(fresh):
            count = source.readinto(view[done:])
            if not count:
                raise ManifestError(f"{self.file.name} is shorter than published", file=self.path, remedy=DAMAGED)
            done += count
        first = self.base == 0 and len(self.buffer) == 0
        self.base, self.buffer = self.base + at, fresh
        self.reg[k.AT] = len(BINLOG_MAGIC) if first else 0
        if first and bytes(fresh[:4]) != BINLOG_MAGIC:
            self._damaged()
        self._again()
        return True

    def _put_back(self) -> None:
        """Leave a small transaction with which the window ends, but which goes on, to the next window."""
        last = int(self.reg[k.TRANSACTIONS]) - 1
        if not self.reg[k.OPEN] or last < 0:
            return
        begin = int(self.transactions[last, k.T_GTID])
        if begin >= 0 and len(self.buffer) - begin <= self.window // 8:
            self.reg[k.AT], self.reg[k.OPEN], self.reg[k.TRANSACTIONS] = begin, 0, last
            self.reg[k.EVENTS] = self.transactions[last, k.T_FIRST_EVENT]
            self.reg[k.RANK] -= 1

    def _flush(self) -> Iterator[Segment]:
        """Yield the wanted transactions that were indexed since the last flush as a segment."""
        count, events = int(self.reg[k.TRANSACTIONS]), int(self.reg[k.EVENTS])
        tables = self._tables()
        rows = self.transactions[:count].copy()
        opened = bool(self.reg[k.OPEN])
        segment = Segment(
            self.buffer, rows, self.events[:events], tables, self.path, self.base,
            bool(self.reg[k.CHECKSUM]), self.carried, self.carried_key, not opened,
        )  # fmt: skip
        if opened and count:
            self.carried_key, self.carried = segment.key(count - 1), segment.begin(count - 1)
        elif not opened:
            self.carried = self.carried_key = None
        # A transaction that has no rows event here yet comes in the next segment.
        if opened and count and rows[-1, k.T_EVENTS] == 0:
            count -= 1
        wanted = int(np.searchsorted(rows[:count, k.T_RANK], self.first_rank))
        if wanted >= count:
            return
        ended = bool(rows[count - 1, k.T_END] >= 0)
        first_event = int(rows[wanted, k.T_FIRST_EVENT])
        kept = segment.events[first_event:].copy()
        kept[:, k.E_TRANSACTION] -= wanted
        yield Segment(
            segment.buffer, rows[wanted:count], kept, tables, segment.file, self.base, segment.checksum,
            segment.carried, segment.carried_key, ended,
        )  # fmt: skip

    def _tables(self) -> tuple[TableMap, ...]:
        tables = []
        for number in range(int(self.reg[k.MAPS])):
            body, end = int(self.maps[number, k.M_BODY]), int(self.maps[number, k.M_END])
            if body >= 0:
                data = self.buffer[body:end].tobytes()
                if data not in self._parsed:
                    if len(self._parsed) > _MOST_MAPS:
                        self._parsed.clear()
                    self._parsed[data] = TableMap.parse(data)
                self.tables[number] = self._parsed[data]
            tables.append(self.tables[number])
        return tuple(tables)

    def _again(self) -> None:
        """Clear the index for the next window, except for what belongs to the open transaction.

        Of a table that has several maps, the last one counts. There is room for as many again: without it a transaction
        of many tables would never get on.
        """
        opened, rank = bool(self.reg[k.OPEN]), int(self.reg[k.RANK])
        count = int(self.reg[k.MAPS])
        current = [n for n in range(count) if self.maps[n, k.M_RANK] == rank] if opened else []
        kept = {int(self.maps[n, k.M_ID]): self.tables[n] for n in current}
        if 2 * len(kept) > len(self.maps):
            self.maps = np.zeros((2 * len(self.maps), 4), np.int64)
        self.slots[:] = -1
        self.tables = {}
        for number, (table_id, table) in enumerate(kept.items()):
            self.maps[number] = (table_id, -1, -1, rank)
            self.tables[number] = table
            self.slots[table_id & (k.SLOTS - 1)] = number
        self.reg[k.MAPS], self.reg[k.EVENTS], self.reg[k.TRANSACTIONS] = len(kept), 0, 0
        if opened:
            self.transactions[0] = (-1, -1, 0, 0, -1, rank)
            self.reg[k.TRANSACTIONS] = 1

    def _judge(self) -> Iterator[StatementAt]:
        """Handle an event on which the kernel stopped, and continue after it."""
        at = int(self.reg[k.AT])
        event = frame(
            memoryview(self.buffer.data),
            at,
            file=self.path,
            offset=self.base + at,
            checksum=bool(self.reg[k.CHECKSUM]),
        )
        value = parse_event(event)
        self.reg[k.AT] = at + event.header.event_size
        if isinstance(value, FormatDescription):
            self.reg[k.CHECKSUM] = value.checksum
            return
        if not isinstance(value, Query) or self.carried is None:
            if isinstance(value, Query):
                self._damaged()
            raise UnsupportedInput(
                f"event type {event.type_code} in a merged binlog", file=self.path, position=event.offset
            )
        ended = self.reg[k.OPEN] != k.IN_ROWS
        if self.carried.rank >= self.first_rank:
            yield StatementAt(self.carried, Statement.of(event, value, self.carried_key), ended)
        if ended:
            self.reg[k.OPEN] = 0

    def _damaged(self) -> NoReturn:
        """Raise the error that `reader.file_items` raises for this file."""
        for _ in file_items(self.binlog.folder, self.file, self.first_rank):
            pass
        raise ManifestError(f"{self.file.name} is not as it was published", file=self.path, remedy=DAMAGED)


def _begin(event: RawEvent, rank: int, file: str) -> Begin:
    value: Any = parse_event(event)
    assert isinstance(value, Gtid)
    return Begin(rank, value.text, value.immediate_commit_timestamp or 0, file, event.offset)


_WINDOW = 1 << 16
DDL_COLUMNS: Final = pa.schema(
    [
        ("gtid", pa.string()),
        ("commit_time", pa.timestamp("us", tz="UTC")),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("schema", pa.string()),
        ("statement", pa.string()),
    ]
)
"""The columns of a table of statements."""


def statements(binlog: Log, first: int = 1, last: int | None = None) -> Iterator[StatementAt]:
    """Yield the statements among transactions `first` to `last`, in order. Raises what reading the log does."""
    until = binlog.last_rank if last is None else last
    for file in binlog.state.files:
        if file.last_rank < first or file.first_rank > until:
            continue
        for rows in transactions_of(binlog.folder, file):
            chosen = rows[(rows[:, x.X_ROWS] != 1) & (rows[:, x.X_RANK] >= first) & (rows[:, x.X_RANK] <= until)]
            for rank, position in chosen[:, [x.X_RANK, x.X_AT]].tolist():
                pieces = file_segments(binlog, file, rank, rank, _WINDOW, position)
                yield from (piece for piece in pieces if isinstance(piece, StatementAt))


def statement_record(piece: StatementAt, text: str) -> dict[str, Any]:
    """Return a row of a table of statements: one that stands in the log, with the text to show of it."""
    begin = piece.begin
    return {
        "gtid": begin.gtid if ":" in begin.gtid else None,
        "commit_time": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=begin.commit_us),
        "file": begin.file.rpartition("/")[2],
        "position": begin.position,
        "schema": piece.statement.schema,
        "statement": text,
    }
