"""Invariant: real bytes parse and pack to the same bytes, on every level; damaged ones raise, and nothing else."""

import random
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import ColumnType, EventType
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import (
    GtidTagged,
    Opaque,
    PreviousGtids,
    Query,
    RowsEvent,
    StatusVar,
    TableMap,
    TransactionPayload,
    is_known,
    pack_event,
    parse_event,
    walk,
)
from binlog_merge.binlog.json_binary import decode_json, encode_json
from binlog_merge.binlog.json_diff import pack_diffs, parse_diffs
from binlog_merge.binlog.rows import ABSENT, PartialJson, iter_rows, join_rows, row_padding, split_rows
from binlog_merge.binlog.table_map import column_charsets
from tests.binlog.real_files import ROOT, name_of, parsed, real_files
from tests.binlog.record import ALL_TYPES

FILES = real_files()
some_in_quick = pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if i % 3 == 0 else pytest.mark.heavy) for i, path in enumerate(FILES)],
    ids=name_of,
)


@some_in_quick
def test_every_event_packs_to_what_it_was(path: Path) -> None:
    data = path.read_bytes()
    position = 4
    for event, value in parsed(data):
        assert value.pack() == event.body
        assert is_known(event.type_code)
        if isinstance(value, TableMap) and value.optional is not None:
            assert value.optional.pack() == value.optional_raw
            assert not value.optional.unknown
        if isinstance(value, PreviousGtids):
            assert value.gtids.pack() == value.raw
        if isinstance(value, Query):
            assert value.status_unknown == b""
        if event.offset == position:
            assert event.pack() == data[position : event.end]
            position = event.end
    assert position == len(data)


@some_in_quick
def test_pack_event_makes_the_server_s_bytes(path: Path) -> None:
    for event in walk(path.read_bytes()):
        header = event.header
        if header.log_pos != event.end:
            continue  # hand-made files may lie about it
        packed = pack_event(
            event.type_code,
            event.body,
            timestamp=header.timestamp,
            server_id=header.server_id,
            flags=header.flags,
            position=event.offset,
            checksum=event.checksum is not None,
        )
        assert packed == event.pack()


@some_in_quick
def test_rows_cells_and_values_go_there_and_back(path: Path) -> None:
    tables: dict[int, TableMap] = {}
    for _, value in parsed(path.read_bytes()):
        if isinstance(value, TableMap):
            tables[value.table_id] = value
        if isinstance(value, RowsEvent):
            table_map = tables[value.table_id]
            rows = split_rows(value, table_map)
            assert join_rows(value, rows, table_map, row_padding(value)) == value
            for row in rows:
                for image in row:
                    _check_cells(table_map, image or ())


def _check_cells(table_map: TableMap, image: tuple[object, ...]) -> None:
    charsets, unsigned = column_charsets(table_map), table_map.unsigned()
    for i, cell in enumerate(image):
        if cell is None or cell is ABSENT:
            continue
        if isinstance(cell, PartialJson):
            assert pack_diffs(parse_diffs(cell.cell[4:])) == cell.cell[4:]
            continue
        assert isinstance(cell, memoryview)
        kind, meta = table_map.types[i], table_map.metas[i]
        value = decode_cell(kind, meta, cell, unsigned[i], charsets[i])
        if kind == ColumnType.JSON:
            # The server leaves gaps where it updated in place, and keeps a decimal's declared precision.
            assert decode_json(encode_json(value)) == value
        else:
            assert encode_cell(kind, meta, value, unsigned[i], charsets[i]) == cell


def test_the_recorded_file_holds_every_kind_of_event() -> None:
    kinds: set[int] = set()
    column_types: set[int] = set()
    codes: set[int] = set()
    for file in ALL_TYPES.glob("binlog.0*"):
        for event, value in parsed(file.read_bytes()):
            kinds.add(event.type_code)
            assert not isinstance(value, Opaque)
            if isinstance(value, TableMap):
                column_types |= set(value.real_types())
            if isinstance(value, Query):
                codes |= set(value.status_vars)
    written_by_9_7 = {2, 3, 4, 5, 13, 14, 15, 16, 19, 29, 30, 31, 32, 33, 35, 38, 39, 40, 42}
    assert written_by_9_7 <= kinds
    T = ColumnType  # noqa: N806
    old = {
        T.DECIMAL,
        T.TIMESTAMP,
        T.TIME,
        T.DATETIME,
        T.NEWDATE,
        T.VAR_STRING,
        T.NULL,
        T.BOOL,
        T.INVALID,
        T.TYPED_ARRAY,
    }
    of_mariadb = {T.BLOB_COMPRESSED, T.VARCHAR_COMPRESSED}
    # All blobs are BLOB on disk, told apart by the length of their length.
    assert column_types >= set(ColumnType) - old - of_mariadb - {T.TINY_BLOB, T.MEDIUM_BLOB, T.LONG_BLOB}
    assert {StatusVar.Q_ENABLE_CASCADE_TRIGGERS, StatusVar.Q_INVOKER, StatusVar.Q_MICROSECONDS} <= codes


def test_a_tagged_gtid_and_set() -> None:
    values = [value for file in sorted(ALL_TYPES.glob("binlog.0*")) for _, value in parsed(file.read_bytes())]
    tagged = [value for value in values if isinstance(value, GtidTagged)]
    assert [value.tag for value in tagged] == ["tag_a"]
    sets = [value.gtids for value in values if isinstance(value, PreviousGtids)]
    assert (tagged[0].sid, "tag_a", 1) in sets[-1]
    assert sets[-1].contains_set(sets[1])


def test_a_recompressed_payload_has_the_same_events() -> None:
    payloads = [v for _, v in parsed((ALL_TYPES / "binlog.000001").read_bytes()) if isinstance(v, TransactionPayload)]
    assert payloads
    for payload in payloads:
        inner = b"".join(event.pack() for event in payload.events())
        assert len(inner) == payload.uncompressed_size
        again = TransactionPayload.parse(TransactionPayload.compress(inner).pack())
        assert [event.pack() for event in again.events()] == [event.pack() for event in payload.events()]


def _read_everything(data: bytes) -> None:
    tables: dict[int, TableMap] = {}
    for _, value in parsed(data):
        if isinstance(value, TableMap):
            tables[value.table_id] = value
            charsets = column_charsets(value)
        elif isinstance(value, RowsEvent) and (table_map := tables.get(value.table_id)):
            for row in iter_rows(value, table_map):
                for image in row:
                    for i, cell in enumerate(image or ()):
                        if isinstance(cell, memoryview):
                            decode_cell(table_map.types[i], table_map.metas[i], cell, charset=charsets[i])
                        elif isinstance(cell, PartialJson):
                            parse_diffs(cell.cell[4:])


def _damaged(data: bytes, dice: random.Random) -> bytes:
    """Return the bytes with one small wound."""
    wounded = bytearray(data)
    at = dice.randrange(len(wounded))
    match dice.randrange(5):
        case 0:
            wounded[at] ^= 1 << dice.randrange(8)
        case 1:
            wounded[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF))
        case 2:
            del wounded[at:]
        case 3:
            del wounded[at : at + dice.randrange(1, 9)]
        case _:
            wounded[at:at] = dice.randbytes(dice.randrange(1, 5))
    return bytes(wounded)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_raise_and_nothing_else(seed: int) -> None:
    """With the checksum on, almost all damage is caught before parsing; so bodies are damaged behind it, too."""
    dice = random.Random(seed)
    sources = [file.read_bytes() for file in ALL_TYPES.glob("binlog.0*")]
    for _ in range(15):
        try:
            _read_everything(_damaged(dice.choice(sources), dice))
        except BinlogFormatError as error:
            assert error.reason


@pytest.mark.parametrize("seed", range(6))
def test_damaged_bodies_raise_or_pack_to_what_they_are(seed: int) -> None:
    dice = random.Random(seed)
    events = [event for file in sorted(ALL_TYPES.glob("binlog.0*")) for event, _ in parsed(file.read_bytes())]
    table_maps = [parse_event(event) for event in events if event.type_code == EventType.TABLE_MAP_EVENT]
    for _ in range(400):
        event = dice.choice(events)
        if not len(event.body):
            continue
        body = _damaged(bytes(event.body), dice)
        wounded = type(event)(event.header, body, 4711)
        try:
            value = parse_event(wounded)
            assert value.pack() == body, event.type_code
            if isinstance(value, RowsEvent):
                for table_map in table_maps:
                    if len(table_map.types) == value.column_count:
                        split_rows(value, table_map)
            if isinstance(value, TransactionPayload):
                for inner in value.events():
                    parse_event(inner)
        except BinlogFormatError as error:
            assert error.reason


def test_a_damaged_checksum_byte_is_always_found() -> None:
    data = bytearray((ALL_TYPES / "binlog.000001").read_bytes())
    dice = random.Random(7)
    for _ in range(30):
        at = dice.randrange(4, len(data))
        data[at] ^= 0x10
        with pytest.raises(BinlogFormatError):
            list(walk(bytes(data)))
        data[at] ^= 0x10


def test_there_are_fixtures() -> None:
    assert any(ROOT / "fixtures" in file.parents for file in FILES) or not (ROOT / "fixtures").exists()
