"""Conversions of cells. The vectors are what MySQL 9.7.4 wrote into its binlog before and after
ALTER TABLE t MODIFY c <new> in strict mode; None where it refused.
"""

import math
import pickle
import struct
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.errors import UnsupportedInput
from binlog_merge.values.convert.cells import ConversionError, Converter, ReshapeOptions, make_converter
from binlog_merge.values.types import binlog_column
from binlog_merge.values.value import decode_cell, encode_cell
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.diff import same_type
from snapshot_store.model import Catalog, Column, Schema
from tests.binlog.written_rows import rows_of
from tests.effort import effort
from tests.mysql_server import MySqlServer


@cache
def column(definition: str) -> Column:
    catalog = apply_ddl(Catalog({"d": Schema("d")}), f"CREATE TABLE t (c {definition})", "d").catalog
    return catalog.tables["d", "t"].columns[0]


def converted(old: str, new: str, cell: bytes) -> bytes:
    if same_type(column(old).type, column(new).type):
        return cell
    converter = make_converter(column(old), column(new), binlog_column(column(old)))
    return cell if converter is None else converter(cell)


VECTORS = [
    ("tinyint", "tinyint unsigned", "-1", "ff", None),
    ("tinyint", "bigint", "-128", "80", "80ffffffffffffff"),
    ("int unsigned", "int", "4294967295", "ffffffff", None),
    ("bigint", "int", "-9223372036854775808", "0000000000000080", None),
    ("bigint unsigned", "bigint", "18446744073709551615", "ffffffffffffffff", None),
    ("int unsigned", "decimal(10,3)", "4294967295", "ffffffff", None),
    ("int(6) unsigned zerofill", "char(25)", "12", "0c000000", "06303030303132"),
    ("int unsigned", "date", "20200102", "a63a3401", "22c80f"),
    ("int unsigned", "date", "100", "64000000", None),
    ("tinyint", "enum('12','b','Ü','a')", "5", "05", None),
    ("bigint", "datetime(3)", "20200102030405", "45ece7335f120000", "99a54431050000"),
    ("bigint", "time", "123456", "40e2010000000000", "80c8b8"),
    ("decimal(10,3)", "int", "-1.5", "7ffffffefe0b", "feffffff"),
    ("decimal(10,3)", "tinyint", "2.5", "8000000201f4", "03"),
    ("decimal(10,3)", "decimal(5,1)", "12.999", "8000000c03e7", "800d00"),
    ("decimal(10,3)", "decimal(5,1)", "1234567.891", "8012d687037b", None),
    ("decimal(10,3)", "decimal(6,2) unsigned", "-1.5", "7ffffffefe0b", None),
    ("decimal(10,3)", "double", "0.001", "800000000001", "fca9f1d24d62503f"),
    ("decimal(10,3)", "varchar(30)", "-1.5", "7ffffffefe0b", "062d312e353030"),
    ("float", "double", "0.1", "cdcccc3d", "000000a09999b93f"),
    ("float", "decimal(40,12)", "0.1", "cdcccc3d", "8000000000000000000000000005f5e10101ea"),
    ("float", "varchar(30)", "123456.789", "6520f147", "06313233343537"),
    ("float", "varchar(30)", "1e14", "21e6b556", "0431653134"),
    ("float", "int", "-2.5", "000020c0", "feffffff"),
    ("double", "int", "2.5", "0000000000000440", "02000000"),
    ("double", "int", "3.5", "0000000000000c40", "04000000"),
    ("double", "float", "1e300", "9c7500883ce4377e", None),
    ("double", "float(7,2)", "123456.789", "c976be9f0c24fe40", None),
    ("double", "varchar(30)", "123456789012345678", "350f63bab4697b43", "15312e32333435363738393031323334353638653137"),
    ("double", "varchar(30)", "1e-16", "bc89d897b2d29c3c", "0531652d3136"),
    ("double", "double(8,1)", "123456.789", "c976be9f0c24fe40", "c976be9f0c24fe40"),
    ("bit(10)", "int", "65", "0041", "41000000"),
    ("bit(10)", "varchar(30)", "65", "0041", "023635"),
    ("bit(10)", "blob", "65", "0041", "02000041"),
    ("bit(10)", "tinyint unsigned", "1023", "03ff", None),
    ("year", "varchar(30)", "2024", "7c", "0432303234"),
    ("year", "int", "1999", "63", "cf070000"),
    ("date", "datetime(3)", "'2020-01-02'", "22c80f", "99a54400000000"),
    ("date", "int", "'2020-01-02'", "22c80f", "a63a3401"),
    ("date", "timestamp", "'2020-00-00'", "00c80f", None),
    ("date", "timestamp", "'0000-00-00'", "000000", "00000000"),
    ("datetime", "timestamp", "'1950-01-01 00:00:01'", "98c1c20001", None),
    ("datetime", "timestamp(2)", "'2040-01-01 00:00:00'", "99e6420000", None),
    ("datetime(6)", "datetime(3)", "'2020-01-02 03:04:05.999999'", "99a54431050f423f", "99a54431060000"),
    ("datetime(6)", "timestamp(2)", "'2020-01-02 03:04:05.004999'", "99a5443105001387", "5e0d5da500"),
    ("datetime(6)", "date", "'2020-01-02 23:59:59.500000'", "99a5457efb07a120", "23c80f"),
    ("datetime(6)", "bigint", "'2020-01-02 23:59:59.500000'", "99a5457efb07a120", "c0b7f6335f120000"),
    ("datetime(6)", "time(3)", "'2020-01-02 03:04:05.999999'", "99a54431050f423f", "8031060000"),
    ("timestamp(3)", "datetime", "'2020-12-31 23:59:59.999'", "5fee65ff2706", "99a8820000"),
    (
        "timestamp(3)",
        "varchar(30)",
        "'2020-01-02 03:04:05.678'",
        "5e0d5da51a7c",
        "17323032302d30312d30322030333a30343a30352e363738",
    ),
    ("time(2)", "time", "'-1:02:03.55'", "7fef7cc9", "7fef7c"),
    ("time(2)", "double(8,1)", "'-1:02:03.55'", "7fef7cc9", "00000000c0edc3c0"),
    ("time(2)", "int", "'23:59:59.99'", "817efb63", "80a90300"),
    ("time(2)", "varchar(30)", "'838:59:59'", "b46efb00", "0c3833383a35393a35392e3030"),
    ("char(12)", "varchar(5) character set latin1", "'é'", "02c3a9", "01e9"),
    ("char(12)", "varbinary(30)", "'é'", "02c3a9", "02c3a9"),
    ("char(12)", "decimal(5,1)", "'1.5'", "03312e35", "800105"),
    ("char(12)", "int", "'abc'", "03616263", None),
    ("char(12)", "date", "'2020-01-02'", "0a323032302d30312d3032", "22c80f"),
    ("char(12)", "enum('12','b','Ü','a')", "'A'", "0141", "04"),
    ("char(12)", "set('b','12','a')", "'a,b'", "03612c62", "05"),
    ("varchar(40)", "set('b','12','a')", "'a,b  '", "05612c622020", "05"),
    ("varchar(40)", "set('b','12','a')", "'a ,b'", "0461202c62", None),
    ("char(12)", "year", "'99'", "023939", "63"),
    ("char(12) character set latin1", "varchar(30)", "'€'", "0180", "03e282ac"),
    ("char(12) character set latin1", "binary(12)", "'b'", "0162", "0c622020202020202020202020"),
    ("char(4) character set utf16", "varchar(30)", "'é b '", "0600e900200062", "04c3a92062"),
    ("varchar(40)", "varchar(30) character set utf16", "'日本'", "06e697a5e69cac", "0465e5672c"),
    ("varchar(40)", "varchar(6) character set gbk", "'日本'", "06e697a5e69cac", "04c8d5b1be"),
    ("varchar(40)", "text character set latin1", "'日本'", "06e697a5e69cac", None),
    ("varchar(40)", "varchar(30) character set utf16", "'😀'", "04f09f9880", "04d83dde00"),
    ("varchar(40)", "char(3)", "'ab   '", "056162202020", "026162"),
    ("varchar(40)", "varchar(5) character set latin1", "'12abc'", "053132616263", "053132616263"),
    ("varchar(40)", "char(3)", "'12abc'", "053132616263", None),
    ("varchar(40)", "binary(12)", "'12abc'", "053132616263", "053132616263"),
    ("varchar(40)", "timestamp", "'20200102030405'", "0e3230323030313032303330343035", "5e0d5da5"),
    (
        "varchar(40)",
        "datetime(3)",
        "'2020-01-02 03:04:05.6789'",
        "18323032302d30312d30322030333a30343a30352e36373839",
        "99a54431051a86",
    ),
    ("varchar(40)", "date", "'2020-02-30'", "0a323032302d30322d3330", None),
    ("varchar(40)", "time(3)", "'1 2:3:4'", "073120323a333a34", "81a0c40000"),
    ("varchar(40)", "time", "'1.5e3'", "05312e356533", "800000"),
    ("varchar(40)", "time", "'-1:2E+3'", "072d313a32452b33", "800000"),
    ("varchar(40)", "time", "'5e'", "023565", None),
    ("varchar(40)", "time", "'5000000000'", "0a35303030303030303030", "800000"),
    ("varbinary(10)", "varchar(30)", "x'00ff'", "0200ff", None),
    ("varbinary(10)", "binary(4)", "x'61620000'", "0461620000", "026162"),
    ("varbinary(10)", "varbinary(3)", "'ab  '", "0461622020", None),
    ("binary(4)", "varbinary(30)", "'ab'", "026162", "0461620000"),
    ("text", "tinytext", "'abc'", "0300616263", "03616263"),
    ("blob", "text character set latin1", "x'e9'", "0100e9", "0100e9"),
    ("blob", "varchar(30) character set utf16", "'abc'", "0300616263", "0400616263"),
    ("enum('a','b','12','Ü')", "enum('12','b','Ü','a')", "'Ü'", "04", "03"),
    ("enum('a','b','12','Ü')", "int", "'12'", "03", "03000000"),
    ("enum('a','b','12','Ü')", "varchar(30)", "'zz'", "00", "00"),
    ("enum('a','b','12','Ü')", "varchar(5) character set latin1", "'Ü'", "04", "01dc"),
    ("enum('a','b','12','Ü')", "enum('a','b','12','B')", "'Ü'", "04", None),
    ("set('a','b','12')", "set('b','12','a')", "'a,b,12'", "07", "07"),
    ("set('a','b','12')", "varchar(30)", "'a,b'", "03", "03612c62"),
]

# In strict mode MySQL refuses these, without it it stores the nearest value; so do we, by the policy `clamp`.
CLAMPED = [
    ("tinyint", "tinyint unsigned", "ff", "00"),
    ("int unsigned", "int", "ffffffff", "ffffff7f"),
    ("bigint", "int", "0000000000000080", "00000080"),
    ("bigint unsigned", "bigint", "ffffffffffffffff", "ffffffffffffff7f"),
    ("bit(10)", "tinyint unsigned", "03ff", "ff"),
    ("decimal(10,3)", "tinyint", "8012d687037b", "7f"),
    ("double", "int unsigned", "9c7500883ce4377e", "ffffffff"),
    ("decimal(10,3)", "decimal(5,1)", "8012d687037b", "a70f09"),
    ("varchar(40)", "char(3)", "053132616263", "03313261"),
    ("varchar(40)", "text character set latin1", "06e697a5e69cac", "02003f3f"),
    ("varchar(40)", "int", "053132616263", "0c000000"),
    ("varchar(40)", "date", "0a323032302d30322d3330", "000000"),
    ("time", "time", None, "800000"),
]


@pytest.mark.parametrize(("old", "new", "literal", "cell", "expected"), VECTORS)
def test_as_mysql_modifies(old: str, new: str, literal: str, cell: str, expected: str | None) -> None:
    if expected is not None:
        assert converted(old, new, bytes.fromhex(cell)).hex() == expected
    else:
        with pytest.raises(ConversionError, match=f"column c, {column(old).type.name} to {column(new).type.name}"):
            converted(old, new, bytes.fromhex(cell))


@pytest.mark.parametrize(("old", "new", "cell", "expected"), CLAMPED)
def test_the_policy_decides(old: str, new: str, cell: str | None, expected: str) -> None:
    value = None if cell is None else bytes.fromhex(cell)
    logical = replace(column(new), nullable=cell is not None)
    for policy, outcome in (("clamp", bytes.fromhex(expected)), ("default", b"pad")):
        converter = make_converter(
            column(old), logical, binlog_column(column(old)), ReshapeOptions(policy, 0), default=b"pad"
        )
        assert converter is not None and converter(value) == outcome
    strict = make_converter(column(old), logical, binlog_column(column(old)))
    assert strict is not None
    with pytest.raises(ConversionError, match="column c, "):
        strict(value)


def test_what_has_no_nearest_value_is_an_error_or_the_default() -> None:
    text, json = column("varchar(20)"), column("json")
    for policy in ("error", "clamp"):
        with pytest.raises(ConversionError, match="no JSON document"):
            Converter(text, json, ReshapeOptions(policy))(b"\x03abc")
    assert Converter(text, json, ReshapeOptions("default"), default=None)(b"\x03abc") is None


@pytest.mark.parametrize(
    ("old", "new", "cell", "expected"),
    [
        ("timestamp", "datetime", "5e0d5da5", "99a544b105"),  # 03:04:05 in London, 11:04:05 in Shanghai
        ("datetime", "timestamp", "99a544b105", "5e0d5da5"),
        ("timestamp", "varchar(30)", "5e0d5da5", "13323032302d30312d30322031313a30343a3035"),
        ("timestamp", "timestamp(2)", "5e0d5da5", "5e0d5da500"),
        ("timestamp", "datetime", "00000000", "8000000000"),
        ("datetime", "timestamp", "8000000000", "00000000"),
    ],
)
def test_the_time_zone_of_the_session(old: str, new: str, cell: str, expected: str) -> None:
    converter = Converter(column(old), column(new), ReshapeOptions(offset=8 * 60))
    assert (converter(bytes.fromhex(cell)) or b"").hex() == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("varchar(10)", "varchar(20)"),
        ("varchar(10) character set utf8mb3", "varchar(10) character set utf8mb4"),
        ("char(3)", "char(9)"),
        ("binary(3)", "binary(9)"),
        ("enum('a','b')", "enum('a','b','c')"),
        ("set('a','b')", "set('a','b','c')"),
        ("geometry", "point"),
        ("point", "point srid 4326"),
        ("vector(3)", "vector(4)"),
    ],
)
def test_what_only_grows_passes_unconverted(old: str, new: str) -> None:
    assert not same_type(column(old).type, column(new).type)
    assert make_converter(column(old), column(new), binlog_column(column(old))) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("varchar(10)", "varchar(100)"),  # another length prefix
        ("varchar(20)", "varchar(10)"),
        ("varchar(10) character set latin1", "varchar(10)"),
        ("enum('a','b')", "enum('b','a')"),
        ("set('a','b','c','d','e','f','g','h')", "set('a','b','c','d','e','f','g','h','i')"),
    ],
)
def test_what_looks_alike_is_converted(old: str, new: str) -> None:
    assert make_converter(column(old), column(new), binlog_column(column(old))) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("geometry", "blob"),
        ("text", "geometry"),
        ("blob", "json"),
        ("bit(8)", "json"),
        ("vector(3)", "text"),
        ("int", "vector(3)"),
        ("time", "datetime"),
    ],
)
def test_refused_when_the_plan_is_made(old: str, new: str) -> None:
    with pytest.raises(UnsupportedInput) as caught:
        make_converter(column(old), column(new), binlog_column(column(old)))
    assert "column c" in caught.value.message and caught.value.remedy


def test_refused_where_the_table_map_has_an_older_format() -> None:
    with pytest.raises(UnsupportedInput, match="older format"):
        make_converter(column("datetime"), column("date"), (12, 0))


def test_a_converter_travels() -> None:
    made = Converter(column("int"), column("varchar(3)"))
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(ConversionError) as caught:
        made(b"\x10\x27\x00\x00")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


TYPES = sorted({definition for old, new, *_ in VECTORS for definition in (old, new) if "'B'" not in definition})


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.binary(max_size=12))
@settings(max_examples=effort(200, 400))
def test_any_bytes_end_in_a_cell_or_a_conversion_error(old: str, new: str, cell: bytes) -> None:
    converter = Converter(column(old), column(new))
    try:
        out = converter(cell)
    except ConversionError:
        return
    assert out is not None
    # what comes out is a value of the new type, and stays what it is
    assert encode_cell(column(new).type, decode_cell(column(new).type, out)) == out


@pytest.mark.parametrize("old", ["float", "double"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_no_server_stores_is_no_value(old: str, value: float) -> None:
    cell = struct.pack("<f" if old == "float" else "<d", value)
    for new in TYPES:
        if new not in ("float", "double"):
            convert = Converter(column(old), column(new))
            with pytest.raises(ConversionError, match="is no number"):
                convert(cell)
                pytest.fail(f"{new} takes it")


@pytest.mark.mysql
def test_against_a_server(mysql_server: MySqlServer) -> None:
    """Each vector again, live: what the server does now is what the vectors say."""
    mysql_server.execute("CREATE DATABASE d")
    connection = mysql_server.connect("d")
    refused: dict[int, bool] = {}
    with connection.cursor() as cursor:
        for i, (old, new, literal, *_) in enumerate(VECTORS):
            cursor.execute("SET sql_mode=''")
            cursor.execute(f"CREATE TABLE t{i} (k int primary key, c {old}); INSERT INTO t{i} VALUES (1, {literal})")
            while cursor.nextset():
                pass
            cursor.execute("SET sql_mode='STRICT_TRANS_TABLES'")
            try:
                cursor.execute(f"ALTER TABLE t{i} MODIFY c {new}")
                refused[i] = False
            except Exception:
                refused[i] = True
            cursor.execute(f"DELETE FROM t{i}")
    connection.close()
    rows = rows_of(mysql_server.binlog_files()[-1])
    for i, (old, new, literal, cell, expected) in enumerate(VECTORS):
        written, deleted = rows[f"t{i}"]
        assert written[1].hex() == cell, (old, literal)
        assert refused[i] == (expected is None), (old, new, literal)
        if expected is not None:
            assert deleted[1].hex() == expected, (old, new, literal)
