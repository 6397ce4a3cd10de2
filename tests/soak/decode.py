"""A merged binlog read back as transactions: keys, statements and logical row changes; its frame is checked on the way.

Uses the oracle's readers of events, never its merge.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.oracle import binlog
from tests.oracle.binlog import Event
from tests.oracle.cells import cell_length
from tests.oracle.reshape import TableMap, parse_table_map
from tests.simulator.rows import ABSENT, Cell, Image
from tests.simulator.simulate import LogicalRow, Truth

WORDS = {30: "insert", 31: "update", 32: "delete", 23: "insert", 24: "update", 25: "delete"}


def transactions(files: Mapping[str, bytes], scratch: Path) -> list[Truth]:
    """Return what the files say, in order. A DDL's key is not in the file; it is ""."""
    found: list[Truth] = []
    names = sorted(files)
    for name in names:
        path = scratch / "read-back"
        path.write_bytes(files[name])
        _, events = binlog.read_file(path)
        check_frame(files[name], events, len(found))
        body = events[2:]
        if name != names[-1]:
            assert body.pop().type == binlog.ROTATE
        found += _transactions(body)
    return found


def check_frame(data: bytes, events: list[Event], before: int) -> None:
    """Check positions, sequence numbers, ranks and lengths."""
    assert events[0].type == binlog.FORMAT_DESCRIPTION and events[1].type == binlog.PREVIOUS_GTIDS
    starts = [e for e in events if e.type in (binlog.GTID, binlog.ANONYMOUS_GTID)]
    for sequence, event in enumerate(starts, 1):
        last_committed, number = struct.unpack_from("<QQ", event.body, 26)
        assert last_committed < number == sequence
        gno = int.from_bytes(event.body[17:25], "little")
        assert gno == (before + sequence if event.type == binlog.GTID else 0)
        length, _ = binlog.packed(event.body, 49)
        ends = [e.end for e in events if e.end == event.start + length]
        assert len(ends) == 1
    for event in events:
        assert int.from_bytes(data[event.start + 13 : event.start + 17], "little") == event.end


def _transactions(events: list[Event]) -> Iterator[Truth]:
    at = 0
    while at < len(events):
        assert events[at].type in (binlog.GTID, binlog.ANONYMOUS_GTID)
        text = binlog.parse_query(events[at + 1]).text
        at += 2
        if text != "BEGIN":
            yield Truth("", text)
            continue
        cts = events[at].body[1:].decode()
        assert events[at].type == binlog.ROWS_QUERY and cts.startswith("# CTS::")
        end = next(i for i in range(at, len(events)) if events[i].type == binlog.XID)
        yield Truth(cts.removeprefix("# CTS::"), None, tuple(rows_of(events[at + 1 : end])))
        at = end + 1


def rows_of(events: list[Event]) -> Iterator[LogicalRow]:
    maps: dict[int, TableMap] = {}
    for event in events:
        if event.type == binlog.TABLE_MAP:
            table = parse_table_map(event)
            maps[table.table_id] = table
        else:
            yield from _changes(event, maps[int.from_bytes(event.body[:6], "little")])


def _changes(event: Event, table: TableMap) -> Iterator[LogicalRow]:
    body, word, count = event.body, WORDS[event.type], len(table.columns)
    at = 8 if event.type < 30 else 8 + int.from_bytes(body[8:10], "little")
    columns, at = binlog.packed(body, at)
    assert columns == count
    width, present = (count + 7) // 8, list[list[int]]()
    for _ in range(2 if word == "update" else 1):
        present.append([i for i in range(count) if body[at + i // 8] >> i % 8 & 1])
        at += width
    name = f"{table.schema}.{table.table}"
    while at < len(body):
        images: list[Image] = []
        for columns_here in present:
            nulls, at = body[at : at + (len(columns_here) + 7) // 8], at + (len(columns_here) + 7) // 8
            cells: list[Cell] = [ABSENT] * count
            for bit, i in enumerate(columns_here):
                cells[i] = None
                if not nulls[bit // 8] >> bit % 8 & 1:
                    length = cell_length(table.columns[i].type, table.columns[i].meta, body, at)
                    cells[i], at = body[at : at + length], at + length
            images.append(tuple(cells))
        before, after = {"insert": ((), images[0]), "delete": (images[0], ())}.get(word, (images[0], images[-1]))
        yield name, word, before, after
    assert at == len(body)
