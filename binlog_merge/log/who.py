"""Who made a change, as far as a merged log says it: server, thread, and the statement that was sent.

The merge keeps none of the three of a node's transaction: then the server is the merge's own. A log of another maker
has the thread in its BEGIN and, with binlog_rows_query_log_events, the statement before its rows.
"""

from dataclasses import dataclass

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import Query, RowsQuery, parse_event
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.log.log import Log
from binlog_merge.log.reader import DAMAGED, events_of, order_key
from snapshot_store.surrogates import shown


@dataclass(frozen=True, slots=True)
class Who:
    """The server's id, the session's number (None if the log does not have it), and the statement's text."""

    server_id: int
    thread_id: int | None
    statement: str | None


def who_wrote(log: Log, name: str, position: int) -> Who:
    """Return who made the rows event at a position of a file. Raises what reading the log does."""
    file = next(file for file in log.state.files if file.name == name)
    transactions = log.in_file(file)
    begin = int(transactions.row(transactions.ended_by(position) + 1)[x.X_AT])
    thread, statement = None, None
    try:
        for event in events_of(log.folder, file, begin):
            if event.offset >= position:
                return Who(event.header.server_id, thread, statement)
            if event.type_code == EventType.QUERY_EVENT:
                query = parse_event(event)
                thread = query.thread_id or None if isinstance(query, Query) else None
            elif event.type_code == EventType.ROWS_QUERY_LOG_EVENT:
                text = parse_event(event)
                if isinstance(text, RowsQuery) and order_key(text) is None:
                    statement = shown(text.text)
    except BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=name, position=error.offset, remedy=DAMAGED) from None
    raise ChecksumMismatch("no event begins there", file=name, position=position, remedy=DAMAGED)
