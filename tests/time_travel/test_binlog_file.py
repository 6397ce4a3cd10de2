"""The binlog that undoes rows, or does them again, against a twin in plain Python that takes each row apart."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import BINLOG_MAGIC, EventFlag, EventType
from binlog_merge.binlog.control import Xid
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.rows import RowsEvent, join_rows, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.wire import pack_packed
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, Rows
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.log.versions import versions_between
from binlog_merge.time_travel.binlog_file import Binlog, binlog
from binlog_merge.time_travel.passable_ddl import Written
from binlog_merge.time_travel.selection import Reader, Selected
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge

SID = bytes(range(16))
INVERSE = {30: 32, 32: 30}


class InSmallPieces(Reader):
    """Reads in windows smaller than most transactions."""

    def pieces(self) -> Iterator[list[TableChanges]]:
        for piece in segments(self.binlog, self.selected.first, self.selected.last, window=700):
            if isinstance(piece, StatementAt):
                self.pass_over(piece)
            else:
                yield from self.chosen_in(piece)


@pytest.mark.parametrize(("case", "last"), [("two-nodes", None), ("row-image-minimal", 54)])  # then there is a DDL
@pytest.mark.parametrize("sid", [SID, None], ids=["gtids", "plain"])
def test_the_binlog_is_that_of_the_twin(case: str, last: int | None, sid: bytes | None, tmp_path: Path) -> None:
    merge(case_named(case) / "cluster.yaml", tmp_path / "merged")
    log = Log(tmp_path / "merged")
    last = last or log.last_rank
    transactions = [(begin, rows) for begin, rows in rows_by_transaction(log) if begin.rank <= last]
    names = sorted({(table.schema, table.table) for _, rows in transactions for table, _ in rows})
    tables = tuple(versions_between(log, *name, 1, last) for name in names)
    selected = Selected(tables, 1, last, across_ddl=True, written=Written.NAMED)
    description = log.format_description()
    assert description is not None and transactions
    for again in (True,) if case == "row-image-minimal" else (True, False):
        expected = twin(transactions, description, sid, not again)
        for reader in (Reader(log, selected), InSmallPieces(log, selected)):
            assert b"".join(binlog(reader, Binlog(description, sid), again)) == expected


def rows_by_transaction(log: Log) -> Iterator[tuple[Begin, list[tuple[TableMap, RowsEvent]]]]:
    begin: Begin | None = None
    rows: list[tuple[TableMap, RowsEvent]] = []
    for item in (*log.items(1), None):
        if item is None or isinstance(item, Begin):
            if begin is not None and rows:
                yield begin, rows
            begin, rows = item, []
        elif isinstance(item, Rows):
            rows.append((item.table, item.event))


def twin(
    transactions: list[tuple[Begin, list[tuple[TableMap, RowsEvent]]]],
    description: RawEvent,
    sid: bytes | None,
    undo: bool,
) -> bytes:
    out, header = bytearray(BINLOG_MAGIC), description.header

    def write(kind: int, body: bytes, micros: int, flags: int = 0) -> None:
        at, seconds = len(out), micros // 1_000_000
        out.extend(pack_event(kind, body, timestamp=seconds, server_id=header.server_id, flags=flags, position=at))

    write(EventType.FORMAT_DESCRIPTION_EVENT, bytes(description.body), 0)
    if sid is not None:
        now, flag = header.timestamp * 1_000_000, EventFlag.LOG_EVENT_IGNORABLE_F
        write(EventType.PREVIOUS_GTIDS_LOG_EVENT, GtidSet().pack(), now, flag)
    for number, (begin, rows) in enumerate(reversed(transactions) if undo else transactions, 1):
        bodies = [(EventType.QUERY_EVENT, Query(0, 0, 0, b"", b"BEGIN").pack(), EventFlag.LOG_EVENT_SUPPRESS_USE_F)]
        for table, event in reversed(rows) if undo else rows:
            made = turned(table, event) if undo else replace(event, flags=event.flags | 1)
            bodies.append((EventType.TABLE_MAP_EVENT, replace(table, flags=table.flags | 1).pack(), 0))
            bodies.append((EventType(made.type_code), made.pack(), 0))
        bodies.append((EventType.XID_EVENT, Xid(number).pack(), 0))
        if sid is not None:
            write(EventType.GTID_LOG_EVENT, gtid(sid, number, begin.commit_us, bodies), begin.commit_us)
        for kind, body, flags in bodies:
            write(kind, body, begin.commit_us, flags)
    return bytes(out)


def turned(table: TableMap, event: RowsEvent) -> RowsEvent:
    rows = [(after, before) for before, after in reversed(split_rows(event, table))]
    empty = replace(
        event,
        type_code=INVERSE.get(event.type_code, event.type_code),
        flags=event.flags | 1,
        present_before=event.present_after,
        present_after=event.present_before,
    )
    return join_rows(empty, rows, table)


def gtid(sid: bytes, number: int, micros: int, bodies: list[tuple[EventType, bytes, EventFlag | int]]) -> bytes:
    for width in (1, 3, 4, 9):
        value = Gtid(0, sid, number, number - 1, number, micros, micros, 0, 80_000, 80_000)
        size = sum(23 + len(body) for _, body, _ in bodies) + 23 + len(value.pack()) - 1 + width
        if len(pack_packed(size)) == width:
            return replace(value, transaction_length=size).pack()
    raise AssertionError
