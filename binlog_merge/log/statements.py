"""The statements of a merged log, without what stands between them: an index of each file says where they are."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.log.index import transactions_of
from binlog_merge.log.log import Log
from binlog_merge.log.segments import StatementAt, file_segments

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
            found = rows[(rows[:, x.X_ROWS] != 1) & (rows[:, x.X_RANK] >= first) & (rows[:, x.X_RANK] <= until)]
            for rank, position in found[:, [x.X_RANK, x.X_AT]].tolist():
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
