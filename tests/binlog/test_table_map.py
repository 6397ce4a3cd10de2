"""Table maps and their optional metadata."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.optional_metadata import DefaultCharset, OptionalMetadata
from binlog_merge.binlog.table_map import TableMap
from tests.binlog.real_files import parsed
from tests.binlog.record import ALL_TYPES
from tests.effort import effort


def table_map(*columns: tuple[int, int], optional: OptionalMetadata | None = None) -> TableMap:
    """Return a table map of (type, metadata) columns."""
    types = bytes(kind for kind, _ in columns)
    bitmap = bytes((len(types) + 7) // 8)
    return TableMap(7, 1, "d", "t", types, tuple(meta for _, meta in columns), bitmap).with_optional(optional)


def test_a_table_map_of_5_7() -> None:
    """create table test.t (id int not null, v varchar(20) null, e enum('a')); no optional metadata."""
    body = bytes.fromhex("6c0000000000 0100 0474657374 00 0174 00 03 030ffe 04 5000 f701 06".replace(" ", ""))
    parsed_map = TableMap.parse(body)
    assert parsed_map.pack() == body
    assert (parsed_map.table_id, parsed_map.schema, parsed_map.table) == (0x6C, "test", "t")
    assert parsed_map.metas == (0, 80, 0x01F7)
    assert parsed_map.real_types() == (T.LONG, T.VARCHAR, T.ENUM)
    assert [parsed_map.nullable(i) for i in range(3)] == [False, True, True]
    assert parsed_map.optional is None
    assert parsed_map.unsigned() == (False,) * 3
    assert parsed_map.collations() == parsed_map.members() == (None,) * 3


def test_what_the_metadata_counts() -> None:
    """MySQL 9.7.4: (vector(2), varchar(3), json, geometry, text, enum('a'), bit(3), year, date, int unsigned).

    YEAR has a signedness bit, BIT has none; VECTOR counts as a character column (collation 63); JSON and GEOMETRY
    do not.
    """
    columns = [
        (T.VECTOR, 4),
        (T.VARCHAR, 12),
        (T.JSON, 4),
        (T.GEOMETRY, 4),
        (T.BLOB, 2),
        (T.STRING, 0x01F7),
        (T.BIT, 3),
    ]
    columns += [(T.YEAR, 0), (T.DATE, 0), (T.LONG, 0)]
    types, metas = bytes(kind for kind, _ in columns), tuple(meta for _, meta in columns)
    raw = bytes.fromhex("0101c0" + "0205fcff00003f")
    metadata = OptionalMetadata.parse(raw, types, metas)
    assert metadata.pack() == raw
    assert metadata.signedness == (True, True)
    assert metadata.default_charset == DefaultCharset(255, ((0, 63),))
    assert metadata.unsigned(types) == (False,) * 7 + (True, False, True)
    assert metadata.collations(types, metas) == (63, 255, None, None, 255, None, None, None, None, None)


def test_real_metadata_names_everything() -> None:
    events = [value for _, value in parsed((ALL_TYPES / "binlog.000001").read_bytes()) if isinstance(value, TableMap)]
    others = next(value for value in events if value.table == "others")
    assert others.optional is not None
    assert others.optional.column_names == ("id", "e", "s", "s33", "el", "j", "g", "pt", "ve")
    members = others.members()
    assert members[1] == (b"a", b"b", b"x,y", "é".encode())
    assert members[2] == (b"p", b"q", b"r")
    assert members[4] == (b"k", b"l")
    assert others.collations()[1] == 255
    assert others.collations()[4] == 8
    assert others.optional.geometry_types == (0, 1)
    assert others.optional.vector_dimensions == (3,)
    assert others.optional.primary_key() == (0,)
    numbers = next(value for value in events if value.table == "numbers")
    assert numbers.unsigned()[:12] == (False, False, True) + (False, True) * 4 + (False,)
    hidden = next(value for value in events if value.table == "gipk")
    assert hidden.optional is not None
    assert hidden.optional.visibility == (False, True)


EVERYTHING = OptionalMetadata(
    signedness=(True,),
    column_charset=(255, 63),
    column_names=("a", "b", "c", "d", "e", "f", "g"),
    set_values=((b"x", b"y"),),
    enum_values=((b"m" * 300,),),
    geometry_types=(1,),
    primary_key_with_prefix=((1, 10), (0, 0)),
    enum_and_set_default_charset=DefaultCharset(45),
    visibility=(True,) * 6 + (False,),
    vector_dimensions=(),
)
COLUMNS = (
    (T.LONG, 0),
    (T.VARCHAR, 400),
    (T.BLOB, 2),
    (T.STRING, 0x01F8),
    (T.STRING, 0x01F7),
    (T.GEOMETRY, 4),
    (T.DATE, 0),
)


def test_all_fields_go_there_and_back() -> None:
    whole = table_map(*COLUMNS, optional=EVERYTHING)
    again = TableMap.parse(whole.pack())
    assert again.pack() == whole.pack()
    assert again.optional is not None
    assert replace(again.optional, order=()) == EVERYTHING
    assert again.optional.primary_key() == (1, 0)


def test_the_order_of_fields_is_kept_and_new_ones_come_last() -> None:
    raw = b"\x04\x02\x01a" + b"\x01\x01\x80" + b"\x63\x02??"
    metadata = OptionalMetadata.parse(raw, bytes([T.LONG]), (0,))
    assert metadata.pack() == raw
    assert metadata.order == (4, 1, 0x63)
    assert metadata.unknown == ((0x63, b"??"),)
    assert replace(metadata, visibility=(True,)).pack() == raw + b"\x0c\x01\x80"
    assert replace(metadata, signedness=None).pack() == b"\x04\x02\x01a\x63\x02??"


@pytest.mark.parametrize(
    "raw",
    [
        "01",
        "0100",
        "010180" + "010180",
        "0101c0",
        "01028000",
        "0402016102",
        "04040161016 2".replace(" ", ""),
        "0403026161ff",
        "030145",
        "0700fe",
        "0801ff",
        "080101",
        "0903010001",
        "0c020000",
        "050101",
        "06020501",
    ],
)
def test_metadata_that_contradicts_the_columns(raw: str) -> None:
    with pytest.raises(BinlogFormatError):
        OptionalMetadata.parse(bytes.fromhex(raw), bytes([T.LONG]), (0,))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(T.TYPED_ARRAY, "multi-valued index"), (142, "type 142"), (T.INVALID, "INVALID")],
)
def test_types_that_cannot_be_read(kind: int, reason: str) -> None:
    body = table_map((T.LONG, 0)).pack().replace(bytes([1, T.LONG]), bytes([1, kind]))
    with pytest.raises(BinlogFormatError, match=reason):
        TableMap.parse(body)


def test_names_of_any_alphabet() -> None:
    named = replace(table_map((T.LONG, 0)), schema="订单" * 30, table="`t` 'x'\n\x1b[31m")
    assert TableMap.parse(named.pack()) == named
    with pytest.raises(BinlogFormatError, match="not utf8"):
        TableMap.parse(table_map((T.LONG, 0)).pack().replace(b"\x01d\0", b"\x01\xff\0"))


@given(st.binary(max_size=60))
@settings(max_examples=effort(100, 200))
def test_any_bytes_are_metadata_or_an_error(raw: bytes) -> None:
    types, metas = bytes(kind for kind, _ in COLUMNS), tuple(meta for _, meta in COLUMNS)
    try:
        metadata = OptionalMetadata.parse(raw, types, metas)
    except BinlogFormatError:
        return
    assert metadata.pack() == raw
    metadata.unsigned(types)
    metadata.collations(types, metas)
    metadata.members(types, metas)
