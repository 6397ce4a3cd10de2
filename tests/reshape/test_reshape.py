"""Reshape: trim, pad, reorder. Bytes are written out where a rule decides them, and made up by Hypothesis elsewhere."""

import pickle
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.optional_metadata import DefaultCharset, OptionalMetadata
from binlog_merge.binlog.rows import ABSENT, PartialJson, RowsEvent, join_rows, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import UnsupportedInput
from binlog_merge.reshape.metadata import from_definition, logical_metadata
from binlog_merge.reshape.pads import compute_pad, pad_cell, pads_now
from binlog_merge.reshape.plan_of import ReshapePlan, encode_now, make_plan, rewrite_rows
from binlog_merge.values.convert.cells import Policy, ReshapeOptions
from binlog_merge.values.evaluate.row import Computed, Row
from binlog_merge.values.value import ConversionError, decode_cell
from snapshot_store.model import Column, Default, Generated, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType
from tests.effort import effort

INT = ColumnType("int")
VARCHAR = ColumnType("varchar", 10, charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
JSON = ColumnType("json")
TEXT = ColumnType("text", charset="latin1", collation="latin1_swedish_ci")

ID = Column("id", INT, nullable=False)
NAME = Column("name", VARCHAR)
NOTE = Column("note", TEXT)
DOC = Column("doc", JSON)
LEVEL = Column("level", ColumnType("tinyint", unsigned=True), nullable=False, default=Default("literal", "7"))

WRITE, UPDATE, DELETE = EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT
PARTIAL = EventType.PARTIAL_UPDATE_ROWS_EVENT

_ALL_FIELDS = (1, 2, 7, 13, 4, 10, 5, 6, 8, 12)


def table(*columns: Column, schema: str = "p", name: str = "t_0") -> Table:
    return Table(schema, name, columns)


def table_map(of: Table, key: tuple[int, ...] = (), full: bool = True) -> TableMap:
    """Return the table map MySQL would write."""
    columns = [from_definition(column) for column in of.columns]
    plain = TableMap(
        77,
        1,
        of.schema,
        of.name,
        bytes(c.type for c in columns),
        tuple(c.meta for c in columns),
        sum(1 << i for i, c in enumerate(columns) if c.nullable).to_bytes((len(columns) + 7) // 8, "little"),
    )
    if not full:
        return plain
    seed = OptionalMetadata(order=_ALL_FIELDS, simple_primary_key=key)
    return plain.with_optional(logical_metadata(seed, columns, range(len(columns))))


def plan(physical: Table, *logical: Column, key: tuple[int, ...] = ()) -> ReshapePlan:
    return make_plan(table_map(physical, key), physical, table(*logical, schema="d", name="t"), 5)


def rows_body(of: Table, type_code: int, rows: list, present: tuple[bytes | None, bytes | None] | None = None) -> bytes:
    full = ((1 << len(of.columns)) - 1).to_bytes((len(of.columns) + 7) // 8, "little")
    before, after = present or (full, full)
    event = RowsEvent(
        type_code,
        77,
        1,
        b"",
        len(of.columns),
        None if type_code == WRITE else before,
        None if type_code == DELETE else after,
        b"",
    )
    return join_rows(event, rows, table_map(of)).pack()


def reshaped(made: ReshapePlan, type_code: int, body: bytes, commit_us: int = 0) -> list:
    out = rewrite_rows(made, type_code, body, commit_us)
    event = RowsEvent.parse(type_code, out)
    assert event.table_id == 5
    cells = split_rows(event, TableMap.parse(made.out_table_map_body))
    return [tuple(_plain(image) for image in row) for row in cells]


def _plain(image):
    if image is None:
        return None
    return tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in image)


def int_cell(value: int) -> bytes:
    return value.to_bytes(4, "little")


def text_cell(value: str, size: int = 1) -> bytes:
    return len(value).to_bytes(size, "little") + value.encode()


class TestIdentity:
    def test_only_id_and_names_change(self) -> None:
        physical = table(ID, NAME)
        source = table_map(physical, key=(0,))
        made = make_plan(source, physical, table(ID, NAME, schema="d", name="t"), 5)
        assert made.identity and not made.needs_slow_path
        out = TableMap.parse(made.out_table_map_body)
        assert out == replace(source, table_id=5, schema="d", table="t")

    def test_a_column_that_a_shard_has_renamed_has_its_logical_name(self) -> None:
        """Rows of a rename that is taken back: `physical` has the names that the table had before."""
        now = table_map(table(ID, replace(NAME, name="renamed")), key=(0,))
        made = make_plan(now, table(ID, NAME), table(ID, NAME, schema="d", name="t"), 5)
        out = TableMap.parse(made.out_table_map_body)
        assert made.identity and out.types == now.types and out.metas == now.metas
        assert out.optional is not None and out.optional.column_names == ("id", "name")
        assert out.optional.simple_primary_key == (0,)

    def test_rows_pass_but_for_the_table_id(self) -> None:
        physical = table(ID, NAME)
        made = make_plan(table_map(physical), physical, table(ID, NAME), 0x0102030405)
        body = rows_body(physical, WRITE, [(None, (int_cell(1), None))])
        # the unused bits of the bitmaps stay set, as servers write them
        body = body.replace(b"\x02\x03", b"\x02\xff", 1)
        assert rewrite_rows(made, WRITE, body, 0) == bytes.fromhex("050403020100") + body[6:]

    def test_collation_and_display_width_do_not_matter(self) -> None:
        other = Column("NAME", replace(VARCHAR, collation="utf8mb4_bin"))
        physical = table(Column("id", replace(INT, length=11)), NAME)
        made = make_plan(table_map(physical), physical, table(Column("ID", INT), other), 5)
        assert made.identity
        assert TableMap.parse(made.out_table_map_body).optional_raw == table_map(physical).optional_raw


class TestColumns:
    def test_trim(self) -> None:
        made = plan(table(ID, LEVEL, NAME), ID, NAME)
        assert made.source == (0, 2)
        body = rows_body(table(ID, LEVEL, NAME), WRITE, [(None, (int_cell(1), b"\x09", text_cell("a")))])
        assert reshaped(made, WRITE, body) == [(None, (int_cell(1), text_cell("a")))]

    def test_pad_in_both_images(self) -> None:
        made = plan(table(ID, NAME), ID, LEVEL, NAME)
        assert (made.source, made.pads, made.needs_slow_path) == ((0, -1, 1), (None, b"\x07", None), False)
        body = rows_body(table(ID, NAME), UPDATE, [((int_cell(1), None), (int_cell(2), text_cell("b")))])
        assert reshaped(made, UPDATE, body) == [((int_cell(1), b"\x07", None), (int_cell(2), b"\x07", text_cell("b")))]

    def test_reorder_by_name_whatever_its_case(self) -> None:
        made = plan(table(ID, NAME), Column("Name", VARCHAR), Column("ID", INT, nullable=False))
        assert made.source == (1, 0)
        body = rows_body(table(ID, NAME), DELETE, [((int_cell(1), text_cell("a")), None)])
        assert reshaped(made, DELETE, body) == [((text_cell("a"), int_cell(1)), None)]

    def test_bytes_of_a_reshaped_event(self) -> None:
        made = plan(table(ID, NAME), NAME, LEVEL, ID)
        body = rows_body(table(ID, NAME), WRITE, [(None, (int_cell(1), None))])
        # V1 keeps its shorter header; flags, extra and type stay, unused bits are 0
        assert rewrite_rows(made, WRITE, body, 0).hex() == "050000000000010002000307010701000000"
        v1 = EventType.WRITE_ROWS_EVENT_V1
        assert rewrite_rows(made, v1, body[:8] + body[10:], 0).hex() == "05000000000001000307010701000000"

    def test_extra_data_is_kept(self) -> None:
        made = plan(table(ID, NAME), NAME, ID)
        body = rows_body(table(ID, NAME), WRITE, [(None, (int_cell(1), None))])
        body = body[:8] + b"\x05\x00" + b"abc" + body[10:]
        assert rewrite_rows(made, WRITE, body, 0)[8:13] == b"\x05\x00abc"

    def test_a_plan_travels(self) -> None:
        made = plan(table(ID, NAME), Column("name", replace(VARCHAR, length=3)), LEVEL)
        assert pickle.loads(pickle.dumps(made)) == made


class TestPartialImages:
    physical = table(ID, NAME, LEVEL)

    def test_absent_stays_absent_and_no_pad_comes_in(self) -> None:
        made = plan(self.physical, NAME, NOTE, ID)
        row = ((int_cell(1), ABSENT, ABSENT), (ABSENT, text_cell("x"), b"\x01"))
        body = rows_body(self.physical, UPDATE, [row], present=(b"\x01", b"\x06"))
        assert reshaped(made, UPDATE, body) == [((ABSENT, ABSENT, int_cell(1)), (text_cell("x"), ABSENT, ABSENT))]

    def test_pad_where_the_image_holds_every_physical_column(self) -> None:
        made = plan(self.physical, ID, NOTE)
        row = ((int_cell(1), None, b"\x01"), (ABSENT, None, ABSENT))
        body = rows_body(self.physical, UPDATE, [row], present=(b"\x07", b"\x02"))
        assert reshaped(made, UPDATE, body) == [((int_cell(1), None), (ABSENT, ABSENT))]

    def test_every_before_image_has_the_padded_columns_of_the_key(self) -> None:
        """Else a row is told by the rest of the key alone, which rows of other shards have too."""
        part = replace(LEVEL, name="part", nullable=False)
        key = Index("PRIMARY", (IndexPart("id"), IndexPart("part")), unique=True)
        logical = replace(table(part, ID, NAME, NOTE, schema="d", name="t"), indexes=(key,))
        made = make_plan(table_map(self.physical, (0,)), self.physical, logical, 5)
        row = ((int_cell(1), ABSENT, ABSENT), (ABSENT, None, ABSENT))
        body = rows_body(self.physical, UPDATE, [row], present=(b"\x01", b"\x02"))
        wanted = [((b"\x07", int_cell(1), ABSENT, ABSENT), (ABSENT, ABSENT, None, ABSENT))]
        assert reshaped(made, UPDATE, body) == wanted
        body = rows_body(self.physical, DELETE, [((int_cell(1), ABSENT, ABSENT), None)], present=(b"\x01", None))
        assert reshaped(made, DELETE, body) == [(wanted[0][0], None)]
        optional = TableMap.parse(made.out_table_map_body).optional
        assert optional is not None and optional.simple_primary_key == (1, 0)
        trimmed = replace(table(part, NAME, schema="d", name="t"), indexes=(replace(key, parts=key.parts[1:]),))
        made = make_plan(table_map(self.physical), self.physical, trimmed, 5)
        with pytest.raises(ConversionError, match="binlog_row_image=FULL"):  # any row of the shard has that part
            rewrite_rows(made, DELETE, body, 0)

    def test_an_insert_is_always_padded(self) -> None:
        made = plan(self.physical, ID, LEVEL, replace(LEVEL, name="other"))
        body = rows_body(self.physical, WRITE, [(None, (int_cell(1), ABSENT, ABSENT))], present=(None, b"\x01"))
        assert reshaped(made, WRITE, body) == [(None, (int_cell(1), ABSENT, b"\x07"))]

    @pytest.mark.parametrize("type_code", [UPDATE, DELETE])
    def test_a_row_told_by_trimmed_columns_alone_is_refused(self, type_code: int) -> None:
        made = plan(self.physical, NAME)
        row = ((int_cell(1), ABSENT, ABSENT), (ABSENT, None, ABSENT) if type_code == UPDATE else None)
        body = rows_body(self.physical, type_code, [row], present=(b"\x01", b"\x02"))
        with pytest.raises(ConversionError, match="binlog_row_image=FULL"):
            rewrite_rows(made, type_code, body, 0)


class TestPartialJson:
    physical = table(ID, DOC, replace(DOC, name="extra"))
    diff = b"\x03\x00\x00\x00abc"

    def test_differences_stay_and_their_bits_move(self) -> None:
        made = plan(self.physical, self.physical.columns[2], NAME, ID, DOC)
        before = (int_cell(1), b"\2\0\0\0\4\0", b"\2\0\0\0\4\1")
        after = (int_cell(1), b"\2\0\0\0\4\1", PartialJson(self.diff))
        body = rows_body(self.physical, PARTIAL, [(before, after)])
        ((_, out),) = reshaped(made, PARTIAL, body)
        assert isinstance(out[0], PartialJson) and bytes(out[0].cell) == self.diff
        assert out[1:] == (None, int_cell(1), b"\2\0\0\0\4\1")

    def test_trimming_the_only_difference_leaves_a_plain_image(self) -> None:
        made = plan(self.physical, ID, DOC)
        before = (int_cell(1), None, b"\2\0\0\0\4\1")
        body = rows_body(self.physical, PARTIAL, [(before, (int_cell(2), None, PartialJson(self.diff)))])
        assert rewrite_rows(made, PARTIAL, body, 0)[-6:] == b"\x00\x02" + int_cell(2)


class TestPads:
    @pytest.mark.parametrize(
        ("column", "cell"),
        [
            (Column("c", INT), None),
            (Column("c", INT, default=Default("null")), None),
            (Column("c", INT, nullable=False), int_cell(0)),
            (Column("c", INT, default=Default("literal", "-5")), b"\xfb\xff\xff\xff"),
            (Column("c", VARCHAR, default=Default("literal", "né")), b"\x03n\xc3\xa9"),
            (Column("c", VARCHAR, nullable=False), b"\x00"),
            (Column("c", replace(VARCHAR, name="char"), default=Default("literal", "ab ")), b"\x02ab"),
            (Column("c", TEXT, nullable=False), b"\x00\x00"),
            (Column("c", ColumnType("binary", 3), default=Default("literal", "a")), b"\x01a"),
            (Column("c", ColumnType("varbinary", 3), default=Default("literal", "0x6100")), b"\x02a\x00"),
            (Column("c", ColumnType("bit", 9), default=Default("literal", "b'100000001'")), b"\x01\x01"),
            (Column("c", INT, default=Default("literal", "b'11'")), int_cell(3)),
            (Column("c", ColumnType("decimal", 5, 2), default=Default("literal", "1.5")), b"\x80\x01\x32"),
            (Column("c", ColumnType("decimal", 5, 2), nullable=False), b"\x80\x00\x00"),
            (Column("c", ColumnType("double"), default=Default("literal", "1e3")), bytes.fromhex("0000000000408f40")),
            (Column("c", ColumnType("date"), nullable=False), b"\x00\x00\x00"),
            (Column("c", ColumnType("date"), default=Default("literal", "2023-08-24")), b"\x18\xcf\x0f"),
            (
                Column("c", ColumnType("datetime", fsp=3), default=Default("literal", "2023-08-24 07:54:55.456")),
                bytes.fromhex("99b0f07db711d0"),
            ),
            (Column("c", ColumnType("datetime", fsp=3), nullable=False), b"\x80" + bytes(6)),
            (Column("c", ColumnType("timestamp", fsp=2), nullable=False), bytes(5)),
            (Column("c", ColumnType("time", fsp=1), nullable=False), b"\x80\x00\x00\x00"),
            (Column("c", ColumnType("year"), default=Default("literal", "2024")), b"\x7c"),
            (Column("c", ColumnType("year"), nullable=False), b"\x00"),
            (Column("c", ColumnType("enum", members=("x", "y")), nullable=False), b"\x01"),
            (Column("c", ColumnType("enum", members=("x", "y")), default=Default("literal", "y")), b"\x02"),
            (Column("c", ColumnType("set", members=("x", "y")), nullable=False), b"\x00"),
            (Column("c", ColumnType("set", members=("x", "y")), default=Default("literal", "x,y")), b"\x03"),
            (Column("c", JSON, nullable=False), b"\2\0\0\0\4\0"),
            (Column("c", JSON, default=Default("expression", "json_array()")), b"\5\0\0\0\2\0\0\4\0"),
            (Column("c", VARCHAR, default=Default("expression", "(_utf8mb4'it\\'s')")), b"\x04it's"),
            (Column("c", INT, default=Default("expression", "(42)")), int_cell(42)),
            (Column("c", INT, default=Default("expression", "(1 + 2 * 3)")), int_cell(7)),
            (Column("c", VARCHAR, default=Default("expression", "concat(_utf8mb4'a',_latin1'b',1)")), b"\x03ab1"),
        ],
    )
    def test_pad(self, column: Column, cell: bytes | None) -> None:
        assert plan(table(ID), ID, column).pads == (None, cell)

    @pytest.mark.parametrize(
        "column",
        [
            Column("c", ColumnType("point"), nullable=False),
            Column("c", VARCHAR, default=Default("expression", "uuid()")),
            Column("c", INT, default=Default("literal", "abc")),
        ],
    )
    def test_no_value_can_be_known(self, column: Column) -> None:
        with pytest.raises(UnsupportedInput) as caught:
            plan(table(ID), ID, column)
        assert "column c" in caught.value.message and caught.value.remedy

    @pytest.mark.parametrize("default", [Default("now"), Default("expression", "(now(3))")])
    def test_current_timestamp_is_the_commit_time(self, default: Default) -> None:
        at = Column("at", ColumnType("datetime", fsp=3), default=default)
        made = plan(table(ID), ID, at)
        assert (made.pad_now, made.needs_slow_path) == ((1,), True)
        body = rows_body(table(ID), WRITE, [(None, (int_cell(1),))])
        ((_, out),) = reshaped(made, WRITE, body, 1692863695456999)
        assert out == (int_cell(1), bytes.fromhex("99b0f07db711d0"))

    @pytest.mark.parametrize(
        ("type_name", "function", "wanted"),
        [
            ("datetime", "now", "2023-11-15 06:13:20"),
            ("datetime", "utc_timestamp", "2023-11-14 22:13:20"),
            ("timestamp", "utc_timestamp", "2023-11-14 14:13:20"),  # UTC's clock, stored as one of +08:00
        ],
    )
    def test_the_clock_of_utc_and_that_of_the_session(self, type_name: str, function: str, wanted: str) -> None:
        column = Column("c", ColumnType(type_name), default=Default("expression", f"{function}()"))
        moment, offset = 1_700_000_000_000_000, 480
        if pads_now(column):
            cell = encode_now(column, moment, offset)
        else:
            pad = pad_cell(column, (ID, column))
            assert isinstance(pad, Computed)
            cell = compute_pad(column, pad, Row({}, moment, offset)) or b""
        assert str(decode_cell(column.type, cell).text(0)) == wanted

    def test_encode_now_by_type(self) -> None:
        at = 1692863695_500000
        assert encode_now(Column("c", ColumnType("timestamp")), at).hex() == "64e70ccf"
        assert encode_now(Column("c", ColumnType("timestamp", fsp=1)), at).hex() == "64e70ccf32"
        assert encode_now(Column("c", ColumnType("date")), at).hex() == "18cf0f"


class TestNotNull:
    """A column that is NULL here and NOT NULL there: its bytes pass, NULL does not."""

    physical = table(ID, NAME, DOC)
    logical = (ID, replace(NAME, nullable=False), replace(DOC, nullable=False))

    def test_values_pass_and_null_stops(self) -> None:
        made = plan(self.physical, *self.logical)
        assert not made.identity and made.needs_slow_path
        assert not any(TableMap.parse(made.out_table_map_body).nullable(i) for i in range(3))
        row = (int_cell(1), text_cell("x"), b"\2\0\0\0\4\1")
        assert reshaped(made, WRITE, rows_body(self.physical, WRITE, [(None, row)])) == [(None, row)]
        for image in ((int_cell(1), None, row[2]), (int_cell(1), row[1], None)):
            with pytest.raises(ConversionError, match=r"p.t_0: column (name|doc), .*: NULL"):
                rewrite_rows(made, WRITE, rows_body(self.physical, WRITE, [(None, image)]), 0)

    @pytest.mark.parametrize(("policy", "name"), [("clamp", b"\0"), ("default", b"\1-")])
    def test_the_policy_says_what_null_becomes(self, policy: Policy, name: bytes) -> None:
        logical = (ID, replace(NAME, nullable=False, default=Default("literal", "-")), self.logical[2])
        target = table(*logical, schema="d", name="t")
        made = make_plan(table_map(self.physical), self.physical, target, 5, ReshapeOptions(policy))
        body = rows_body(self.physical, WRITE, [(None, (int_cell(1), None, None))])
        assert reshaped(made, WRITE, body) == [(None, (int_cell(1), name, b"\2\0\0\0\4\0"))]

    def test_a_partial_json_update_passes(self) -> None:
        made = plan(self.physical, *self.logical)
        before = (int_cell(1), text_cell("x"), b"\2\0\0\0\4\1")
        body = rows_body(self.physical, PARTIAL, [(before, (*before[:2], PartialJson(b"\3\0\0\0abc")))])
        ((_, out),) = reshaped(made, PARTIAL, body)
        assert isinstance(out[2], PartialJson)

    def test_the_other_way_nothing_changes(self) -> None:
        assert plan(table(*self.logical), ID, NAME, DOC).identity


class TestComputed:
    physical = table(ID, NAME)
    double = Column("double", INT, generated=Generated("id * 2", True))

    def test_row_by_row_in_both_images(self) -> None:
        made = plan(self.physical, self.double, ID, NAME)
        assert made.needs_slow_path
        body = rows_body(self.physical, UPDATE, [((int_cell(1), None), (int_cell(4), None))])
        before, after = (int_cell(2), int_cell(1), None), (int_cell(8), int_cell(4), None)
        assert reshaped(made, UPDATE, body) == [(before, after)]

    def test_what_it_is_computed_from_must_be_there(self) -> None:
        body = rows_body(self.physical, WRITE, [(None, (ABSENT, None))], present=(None, b"\2"))
        with pytest.raises(ConversionError, match="computed from id, which the row image lacks; set binlog_row_image"):
            rewrite_rows(plan(self.physical, ID, NAME, self.double), WRITE, body, 0)

    def test_null_in_a_not_null_column(self) -> None:
        made = plan(
            self.physical, ID, NAME, Column("c", VARCHAR, False, generated=Generated("concat(name, 'x')", True))
        )
        with pytest.raises(ConversionError, match=r"NOT NULL, and .* is NULL"):
            rewrite_rows(made, WRITE, rows_body(self.physical, WRITE, [(None, (int_cell(1), None))]), 0)

    def test_the_time_zone_of_the_session(self) -> None:
        today = Column("today", ColumnType("date"), default=Default("expression", "(curdate())"))
        target = table(ID, today, schema="d", name="t")
        made = make_plan(table_map(table(ID)), table(ID), target, 5, ReshapeOptions(offset=9 * 60))
        ((_, out),) = reshaped(made, WRITE, rows_body(table(ID), WRITE, [(None, (int_cell(1),))]), 1692892800_000000)
        assert out[1].hex() == "19cf0f"  # 16:00 UTC, the next day in Tokyo


class TestMetadata:
    def test_fields_follow_their_columns(self) -> None:
        physical = table(ID, NAME, LEVEL, NOTE, Column("e", ColumnType("enum", members=("x",), charset="latin1")))
        made = plan(physical, NOTE, Column("new", INT), LEVEL, NAME, ID, key=(0,))
        optional = TableMap.parse(made.out_table_map_body).optional
        assert optional is not None
        assert optional.signedness == (False, True, False)
        assert optional.default_charset == DefaultCharset(255, ((0, 8),)) or optional.default_charset == DefaultCharset(
            8, ((1, 255),)
        )
        assert optional.column_names == ("note", "new", "level", "name", "id")
        assert optional.simple_primary_key == (4,)
        assert optional.enum_values is None and optional.enum_and_set_default_charset is None
        assert optional.visibility == (True,) * 5

    def test_a_key_that_lost_a_column_is_gone(self) -> None:
        made = plan(table(ID, NAME, LEVEL), NAME, LEVEL, key=(0, 2))
        optional = TableMap.parse(made.out_table_map_body).optional
        assert optional is not None and optional.simple_primary_key is None

    def test_a_kind_of_column_that_is_new_gets_its_fields(self) -> None:
        made = plan(table(NAME), NAME, LEVEL, Column("e", ColumnType("enum", members=("x", "y"), charset="latin1")))
        optional = TableMap.parse(made.out_table_map_body).optional
        assert optional is not None
        assert (optional.signedness, optional.enum_values) == ((True,), ((b"x", b"y"),))
        assert optional.enum_and_set_default_charset == DefaultCharset(8)

    def test_no_metadata_stays_none(self) -> None:
        physical = table(ID, NAME)
        made = make_plan(table_map(physical, full=False), physical, table(NAME, ID), 5)
        out = TableMap.parse(made.out_table_map_body)
        assert (out.optional, out.types, out.metas, out.null_bitmap) == (None, b"\x0f\x03", (40, 0), b"\x01")

    def test_unknown_metadata_is_refused(self) -> None:
        physical = table(ID, NAME)
        source = table_map(physical, full=False)
        source = source.with_optional(OptionalMetadata(unknown=((99, b"x"),), order=(99,)))
        with pytest.raises(UnsupportedInput, match="99"):
            make_plan(source, physical, table(NAME, ID), 5)

    def test_flags_stay(self) -> None:
        # 4: the first column is a generated invisible key; a server applies the rows alike with and without the flag
        key = Column("my_row_id", ColumnType("bigint", unsigned=True), nullable=False, invisible=True)
        physical = table(key, ID)
        made = make_plan(replace(table_map(physical), flags=5), physical, table(ID), 5)
        assert TableMap.parse(made.out_table_map_body).flags == 5


_COLUMNS = (ID, NAME, LEVEL, NOTE, DOC, *(Column(f"c{i}", INT) for i in range(5)))


@st.composite
def _cells(draw: st.DrawFn, columns: tuple[Column, ...]) -> tuple[bytes | None, ...]:
    sizes = {"int": 4, "tinyint": 1}
    made: list[bytes | None] = []
    for column in columns:
        if draw(st.booleans()):
            made.append(None)
        elif column.type.name in sizes:
            made.append(draw(st.binary(min_size=sizes[column.type.name], max_size=sizes[column.type.name])))
        else:
            width = {"varchar": 1, "text": 2, "json": 4}[column.type.name]
            data = draw(st.binary(max_size=5))
            made.append(len(data).to_bytes(width, "little") + data)
    return tuple(made)


@given(st.data(), st.permutations(_COLUMNS), st.integers(1, len(_COLUMNS)))
@settings(max_examples=60)
def test_reorder_is_a_permutation(data: st.DataObject, logical: list[Column], count: int) -> None:
    physical = table(*_COLUMNS)
    rows = [(data.draw(_cells(_COLUMNS)), data.draw(_cells(_COLUMNS))) for _ in range(2)]
    made = plan(physical, *logical[:count])
    out = reshaped(made, UPDATE, rows_body(physical, UPDATE, rows))
    places = [_COLUMNS.index(column) for column in logical[:count]]
    assert out == [tuple(tuple(image[p] for p in places) for image in row) for row in rows]


@given(st.data(), st.lists(st.sampled_from(_COLUMNS), min_size=1, unique=True))
@settings(max_examples=60)
def test_trim_undoes_pad(data: st.DataObject, columns: list[Column]) -> None:
    narrow, wide = table(*columns), table(*_COLUMNS)
    rows = [(None, data.draw(_cells(tuple(columns))))]
    body = rows_body(narrow, WRITE, rows)
    there = make_plan(table_map(narrow), narrow, wide, 9)
    back = make_plan(TableMap.parse(there.out_table_map_body), wide, narrow, 77)
    assert rewrite_rows(back, WRITE, rewrite_rows(there, WRITE, body, 0), 0) == body


@given(st.data())
@settings(max_examples=30)
def test_identity_is_the_same_bytes(data: st.DataObject) -> None:
    physical = table(*_COLUMNS)
    body = rows_body(physical, UPDATE, [(data.draw(_cells(_COLUMNS)), data.draw(_cells(_COLUMNS)))])
    made = make_plan(table_map(physical), physical, physical, 3)
    assert rewrite_rows(made, UPDATE, body, 0) == b"\x03\0\0\0\0\0" + body[6:]


@given(st.binary(max_size=60), st.sampled_from([WRITE, UPDATE, DELETE, PARTIAL, EventType.WRITE_ROWS_EVENT_V1]))
@settings(max_examples=effort(150, 300))
def test_any_bytes_end_in_a_value_or_a_known_error(tail: bytes, type_code: int) -> None:
    made = plan(table(ID, NAME, DOC), Column("name", replace(VARCHAR, length=3)), DOC, LEVEL)
    head = bytes(8) + (b"" if type_code == EventType.WRITE_ROWS_EVENT_V1 else b"\x02\x00") + b"\x03"
    for body in (tail, head + tail):
        with suppress(BinlogFormatError, ConversionError):
            assert isinstance(rewrite_rows(made, type_code, body, 0), bytes)
