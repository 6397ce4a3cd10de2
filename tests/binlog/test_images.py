"""Many events decoded in one pass have the values, the NULLs and the refusals of cells decoded column by column."""

import tracemalloc
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, column_facts, cut_rows, decode_column
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.events import RowsEvent, TableMap
from binlog_merge.binlog.images import ImageDecoder
from binlog_merge.binlog.kernels.row_cells import NONE
from binlog_merge.binlog.table_map import cell_size
from tests.binlog.test_table_map import table_map
from tests.effort import seed_of_search

COLUMNS = [
    *((kind, 0) for kind in (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.YEAR, T.DATE, T.DATETIME)),
    *((kind, fsp) for kind in (T.DATETIME2, T.TIMESTAMP2, T.TIME2) for fsp in (0, 3, 6)),
    *((T.NEWDECIMAL, p | s << 8) for p, s in ((5, 5), (10, 2), (18, 1), (18, 10), (30, 8))),
    *((T.VARCHAR, meta) for meta in (30, 1020, 1020, 1020)),
    *((T.BLOB, meta) for meta in (1, 2, 3)),
    (T.STRING, T.STRING << 8 | 40),
    (T.STRING, T.ENUM << 8 | 1),
    (T.STRING, T.SET << 8 | 2),
    (T.BIT, 3 | 1 << 8),
    (T.DOUBLE, 8),
    (T.JSON, 4),
]
KINDS = (EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT)
CHARSETS = ("utf8mb4", "utf8mb4", "latin1", "binary", "gbk")
ALPHABETS = ("abc xyz", "abc", "aé中😀", "aé")


class Source:
    """Makes tables, and events of their rows."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def table(self) -> tuple[TableMap, tuple[ColumnFacts, ...]]:
        columns = self.random.choices(COLUMNS, k=self.random.choice((1, 5, 8, 9, 20)))
        table = table_map(*columns)
        charsets = self.random.choices(CHARSETS, k=len(columns))
        return table, column_facts(table, charsets=charsets, temporal_text=self.random.random() < 0.2)

    def event(self, table: TableMap, rows: int, longest: int) -> tuple[int, bytes]:
        kind = self.random.choice(KINDS)
        update = kind == EventType.UPDATE_ROWS_EVENT
        whole = b"\xff" * ((len(table.types) + 7) // 8)
        data = b"".join(self.image(table, longest) for _ in range(rows * (1 + update)))
        return int(kind), RowsEvent(
            int(kind), 7, 1, b"", len(table.types), whole if update else None, whole, data
        ).pack()

    def image(self, table: TableMap, longest: int) -> bytes:
        share = self.random.choice((0.0, 0.0, 0.3, 1.0))
        gone = [self.random.random() < share for _ in table.types]
        bits = sum(1 << i for i, one in enumerate(gone) if one).to_bytes((len(gone) + 7) // 8, "little")
        columns = zip(gone, table.types, table.metas, strict=True)
        return bits + b"".join(self.cell(kind, meta, longest) for one, kind, meta in columns if not one)

    def cell(self, kind: int, meta: int, longest: int) -> bytes:
        size = cell_size(kind, meta)
        if not size.prefix:  # zeros are a value of most types
            return bytes(size.width) if self.random.random() < 0.8 else self.random.randbytes(size.width)
        text = b""
        if kind == T.JSON:
            text = b"\x0c\x02ab"
        elif self.random.random() < 0.7:
            letters = self.random.choices(self.random.choice(ALPHABETS), k=self.random.randint(0, longest))
            text = "".join(letters).encode()[: size.most]
            if self.random.random() < 0.01:
                text = self.random.randbytes(min(9, size.most))
        return len(text).to_bytes(size.prefix, "little") + text

    def buffer(self, table: TableMap, count: int, longest: int) -> tuple[Any, Any]:
        """Return a buffer with events, and what stands between them; and where the events are."""
        body, places = bytearray(self.random.randbytes(5)), []
        for _ in range(count):
            kind, packed = self.event(table, self.random.choice((1, 1, 3, 40)), longest)
            places.append((len(body), len(body) + len(packed), kind))
            body += packed + self.random.randbytes(self.random.randint(0, 3))
        return np.frombuffer(bytes(body), np.uint8).copy(), np.array(places)


def slowly(facts: ColumnFacts, cut: Any, side: int, column: int) -> Any:
    try:
        return decode_column(facts, cut.buffer, cut.starts[side, column], cut.sizes[side, column])
    except (CellValueError, BinlogFormatError):
        return None


def check(decoder: ImageDecoder, table: TableMap, facts: Any, buffer: Any, events: Any) -> tuple[int, list[Any]]:
    """Compare what is decoded in one pass; return how many columns it had, and what to look at again."""
    images = decoder.decode(buffer, events)
    if images is None:
        return 0, []
    cut = cut_rows(buffer, events, table)
    assert images.rows == len(cut)
    assert images.counts.tolist() == np.bincount(cut.events, minlength=len(events)).tolist()
    found, kept = 0, []
    for side in (BEFORE, AFTER):
        assert images.missing[side] == int((cut.sizes[side, 0] == NONE).sum())
        for column, one in enumerate(facts):
            slow = slowly(one, cut, side, column)
            try:
                fast = images.array(side, column)
            except (CellValueError, BinlogFormatError):
                assert slow is None
                continue
            if fast is None:
                continue
            fast.validate(full=True)
            found += 1
            assert slow is not None, one
            assert fast.type == slow.type and fast.null_count == slow.null_count
            if pa.types.is_floating(fast.type):  # bits, for NaN is not equal to itself
                fast, slow = fast.view(pa.int64()), slow.view(pa.int64())
            assert fast.equals(slow), one
            kept.append((fast, slow))
    return found, kept


def test_many_events_in_one_pass() -> None:
    """A decoder guesses from one part to the next; what it gave before stays as it is."""
    source, found = Source(seed_of_search()), 0
    for _ in range(8):
        table, facts = source.table()
        decoder, kept = ImageDecoder(facts, range(len(facts)), (BEFORE, AFTER)), []
        for count, longest in ((3, 10), (30, 10), (1, 20_000), (10, 300), (5, 0), (20, 140)):
            more, again = check(decoder, table, facts, *source.buffer(table, count, longest))
            found += more
            kept += again
        assert all(str(fast) == str(slow) for fast, slow in kept)
    assert found > 200


def test_rows_that_are_broken() -> None:
    """Rows that are cut off or altered are refused, or are what they say; nothing outside of them is read."""
    source, refused = Source(seed_of_search()), 0
    for _ in range(8):
        table, facts = source.table()
        decoder = ImageDecoder(facts, range(len(facts)), (BEFORE, AFTER))
        for number in range(40):
            buffer, events = source.buffer(table, 2, 30)
            if number % 3:
                for _ in range(source.random.choice((1, 1, 4))):
                    buffer[source.random.randrange(len(buffer))] ^= 1 << source.random.randrange(8)
            else:
                events[-1, 1] = source.random.randrange(events[-1, 0], events[-1, 1])
                buffer = buffer[: events[-1, 1]].copy()
            if decoder.decode(buffer, events) is None:
                refused += 1
                continue
            check(decoder, table, facts, buffer, events)
    assert refused > 50


def test_many_small_rows_ask_for_no_room_for_a_large_one() -> None:
    table = table_map(*[(T.LONGLONG, 0)] * 40, (T.BLOB, 4))
    facts = column_facts(table)
    decoder = ImageDecoder(facts, range(len(facts)), (BEFORE, AFTER))
    empty, large = b"\xff" * 6 * 10_000, bytes(6 + 320) + (20_000).to_bytes(4, "little") + bytes(20_000)
    source = Source(1)
    check(decoder, table, facts, *source.buffer(table, 1, 1))  # loads the kernels
    most = 0
    tracemalloc.start()
    try:
        for data, rows in ((empty[:60], 10), (large * 3, 3), (empty, 10_000), (large * 3, 3)):
            kind = int(EventType.WRITE_ROWS_EVENT)
            body = np.frombuffer(RowsEvent(kind, 7, 1, b"", 41, None, b"\xff" * 6, data).pack(), np.uint8).copy()
            tracemalloc.reset_peak()
            images = decoder.decode(body, np.array([[0, len(body), kind]]))
            assert images is not None and images.rows == rows
            needed = rows * 2 * 41 * 8 + len(data)
            assert len(images.out) < 2 * needed + (1 << 20)
            most = max(most, needed)
            assert tracemalloc.get_traced_memory()[1] < 3 * most + (1 << 20)
    finally:
        tracemalloc.stop()
