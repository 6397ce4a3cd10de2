"""The log in large pieces says what it says event by event, whatever the windows; damage is told alike."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, OrderedBy, Rows
from binlog_merge.log.segments import Segment, segments
from binlog_merge.log.statement import Statement
from tests.targets.server.test_replay import merged

CASES = ("three-nodes-online-ddl", "create-table-select", "all-types", "gtid-off", "rotation", "statements")


def by_items(binlog: Log, first: int, last: int) -> list[Any]:
    found: list[Any] = []
    begin: Any = None
    key: Any = None
    for item in binlog.items():
        if isinstance(item, Begin):
            begin, key = item, None
        elif isinstance(item, OrderedBy):
            key = item.key
        elif first <= begin.rank <= last and isinstance(item, Rows):
            found.append((begin, key, item.table, item.raw.offset, item.event.type_code, bytes(item.event.rows)))
        elif first <= begin.rank <= last and isinstance(item, Statement):
            found.append((begin, key, item.query.query))
    return found


def by_segments(binlog: Log, first: int, last: int, window: int) -> list[Any]:
    from binlog_merge.binlog.rows import RowsEvent

    found: list[Any] = []
    for piece in segments(binlog, first, last, window):
        if not isinstance(piece, Segment):
            found.append((piece.begin, piece.statement.key, piece.statement.query.query))
            continue
        for number, event in enumerate(piece.events):
            body, end, kind = (int(event[c]) for c in (k.E_BODY, k.E_END, k.E_KIND))
            transaction = int(event[k.E_TRANSACTION])
            rows = bytes(RowsEvent.parse(kind, piece.buffer[body:end].tobytes()).rows)
            table = piece.tables[int(event[k.E_MAP])]
            begin = piece.begin(transaction)
            found.append((begin, piece.key(transaction), table, piece.position(number), kind, rows))
    return found


@pytest.mark.parametrize("name", CASES)
def test_pieces_are_what_events_are(name: str, tmp_path: Path) -> None:
    binlog = merged(name, tmp_path)
    last = binlog.last_rank
    for first, stop in ((1, last), (2, last - 1), (last, last)):
        expected = by_items(binlog, first, stop)
        for window in (1 << 24, 5000, 300, 40):
            assert by_segments(binlog, first, stop, window) == expected


@pytest.mark.parametrize("most", [1, 2])
def test_a_transaction_with_more_tables_than_there_is_room_for(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables stay known until it ends, so that room for none but these would be found full for ever."""
    monkeypatch.setattr("binlog_merge.log.segments._MOST_MAPS", most)
    binlog = merged("strange-names", tmp_path)
    expected = by_items(binlog, 1, binlog.last_rank)
    tables = Counter(rank for rank, _ in {(piece[0].rank, str(piece[2])) for piece in expected if len(piece) > 3})
    assert max(tables.values()) > 2
    for window in (1 << 24, 300):
        assert by_segments(binlog, 1, binlog.last_rank, window) == expected


def test_what_is_damaged_is_told_as_the_reader_tells_it(tmp_path: Path) -> None:
    merged("three-nodes-online-ddl", tmp_path)
    path = tmp_path / "binlog.000001"
    good = path.read_bytes()
    for at in (7, 30, 60, 100, *range(200, len(good), len(good) // 40)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x11]) + good[at + 1 :])
        binlog = Log(tmp_path)
        with pytest.raises(MergeError) as plain:
            list(binlog.items())
        with pytest.raises(MergeError) as bulk:
            list(segments(binlog))
        assert (bulk.value.code, bulk.value.position) == (plain.value.code, plain.value.position)
    path.write_bytes(good[:-10])
    with pytest.raises(MergeError):
        list(segments(Log(tmp_path)))
