"""The transactions of a merged log's file by their ranks: file, offsets, GTID, order key, and the text of a DDL.

Where they stand is in the index (`index`); what stands in one is read when it is asked for, so that whoever looks for
a key reads about log2(n) of them. A key is in the transaction's CTS text; a DDL's key is in its PolarDB-X comment
lines, else in the schema store, else it is only known to be between its neighbours' keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from binlog_merge.binlog.constants import EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import RowsQuery
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.query import Query
from binlog_merge.errors import ChecksumMismatch, io_error
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.index import Numbers, chunks_of, key_of, transactions_between
from binlog_merge.log.reader import DAMAGED, events_in, order_key
from binlog_merge.polardbx.ddl.comments import split_comment
from snapshot_store.tso import OrderKey

# ROWS_QUERY with CTS:: and 54 digits, with or without ::ARCHIVE after them: header, length byte, text, checksum.
_CTS_SIZE: Final = EVENT_HEADER_LEN + 1 + len("CTS::") + 54 + 4
_CTS_SIZES: Final = (_CTS_SIZE, _CTS_SIZE + len("::ARCHIVE"))
_BUFFERING: Final = 1 << 13
_MOST_CHUNKS: Final = 64


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the log, from its GTID event to its end; `ddl` is its statement if it is a DDL.

    `key` is None for a DDL whose key is not known. `commit_us` is its commit time in µs since 1970.
    """

    file: str
    start: int
    end: int
    gtid: str
    key: OrderKey | None
    ddl: str | None
    commit_us: int = 0
    rank: int = 0


class FileTransactions:
    """The transactions of a file; only those chunks are gone through in which something is asked for.

    Raises MergeError for a damaged file, and what is wrong with a store.
    """

    def __init__(self, folder: LogFolder, file: OutputFile) -> None:
        self.folder = folder
        self.file = file
        self._chunks = chunks_of(folder, file)
        self._rows: dict[int, Numbers] = {}

    def row(self, rank: int) -> Any:
        """Return a transaction's row of the index; the columns are X_* of `kernels.log_index`."""
        rows = self._chunk(self._chunks.of_rank(rank))
        return rows[rank - rows[0, x.X_RANK]]

    def ended_by(self, position: int) -> int:
        """Return the rank of the last transaction that ends at a position or before; the one before the file's first if
        none does.
        """
        rows = self._chunk(self._chunks.of_position(position))
        ends = rows[:, x.X_AT] + rows[:, x.X_LENGTH]
        return int(rows[0, x.X_RANK]) - 1 + int(np.searchsorted(ends, position, "right"))

    def end(self, rank: int) -> int:
        """Return where a transaction ends."""
        row = self.row(rank)
        return int(row[x.X_AT] + row[x.X_LENGTH])

    def commit_us(self, rank: int) -> int:
        """Return a transaction's commit time in µs since 1970."""
        return int(self.row(rank)[x.X_COMMIT_US])

    def transaction(self, rank: int) -> Transaction:
        """Return a transaction; its key is None if it is a DDL whose text does not have it."""
        row, place = self.row(rank), self.folder.place(self.file.name)
        start, end = int(row[x.X_AT]), self.end(rank)
        try:
            with self.folder.opened(self.file, _BUFFERING) as source:
                events = events_in(source, place, self.file.size, start)
                gtid, head = Gtid.parse(next(events).body), next(events)
                query = Query.parse(head.body)
                key = key_of(row) or self._key_at_end(source, place, head.offset, end)
        except BinlogFormatError as error:
            raise ChecksumMismatch(error.reason, file=place, position=error.offset, remedy=DAMAGED) from None
        except OSError as error:
            raise io_error(error, place) from error
        ddl = None
        if query.query != b"BEGIN":
            comment, ddl = _comment(query.text, place, head.offset)
            key = key or comment
        return Transaction(self.file.name, start, end, gtid.text, key, ddl, int(row[x.X_COMMIT_US]), rank)

    def _chunk(self, number: int) -> Numbers:
        """Return the transactions of a chunk."""
        if number not in self._rows:
            if len(self._rows) >= _MOST_CHUNKS:
                self._rows.pop(next(iter(self._rows)))
            ranks = self._chunks.rank(number), self._chunks.rank(number + 1) - 1
            self._rows[number] = np.concatenate([*transactions_between(self.folder, self.file, *ranks)])
        return self._rows[number]

    def _key_at_end(self, source: BinaryIO, place: str, first: int, end: int) -> OrderKey | None:
        """Return the key in the CTS text at the end of a transaction, None if there is none."""
        for size in _CTS_SIZES:
            source.seek(max(first, end - size))
            header = EventHeader.parse(source.read(EVENT_HEADER_LEN))
            if (
                end - size > first
                and header.type_code == EventType.ROWS_QUERY_LOG_EVENT
                and header.event_size == size
                and header.log_pos == end & 0xFFFFFFFF
            ):
                event = next(events_in(source, place, self.file.size, end - size))
                return order_key(RowsQuery.parse(event.body))
        return None


def _comment(text: str, place: str, position: int) -> tuple[OrderKey | None, str]:
    try:
        comment, statement = split_comment(text)
    except ValueError as error:
        raise ChecksumMismatch(str(error), file=place, position=position) from None
    return (comment.key if comment is not None else None), statement


def event_offsets(folder: LogFolder, file: OutputFile, start: int, end: int) -> Iterator[int]:
    """Yield where the events between two offsets of a file begin; the events themselves are not read."""
    place = folder.place(file.name)
    try:
        with folder.opened(file, _BUFFERING) as source:
            while start < end:
                yield start
                source.seek(start)
                size = EventHeader.parse(source.read(EVENT_HEADER_LEN)).event_size
                if size < EVENT_HEADER_LEN:
                    raise BinlogFormatError(f"event of {size} bytes", place, start)
                start += size
    except BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=place, position=start, remedy=DAMAGED) from None
    except OSError as error:
        raise io_error(error, place) from error
