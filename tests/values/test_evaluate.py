"""Expressions of generated columns and defaults: what is computed, and what is refused with its reason."""

import pytest

from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.evaluate.row import NotComputableError, Row, computed, value_for
from binlog_merge.values.value import ConversionError
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType
from tests.effort import keeping
from tests.mysql_server import MySqlServer

COLUMNS = {
    "i": Column("i", ColumnType("int")),
    "d": Column("d", ColumnType("decimal", 10, 2)),
    "t": Column("t", ColumnType("varchar", 20, charset="utf8mb4", collation="utf8mb4_0900_ai_ci")),
    "e": Column("e", ColumnType("enum", members=("a", "b"), charset="utf8mb4")),
    "at": Column("at", ColumnType("datetime")),
    "late": Column("late", ColumnType("datetime", fsp=3)),
}
BIG = Column("c", ColumnType("bigint"))
TEXT = Column("c", ColumnType("varchar", 30, charset="utf8mb4"))
LATE = Civil(2024, 1, 31, 23, 59, 59, 500_000)
ROW = Row({"i": -7, "t": "Ab", "d": None, "at": Civil(2024, 1, 31, 23, 0, 0), "late": LATE}, 1692863695_456789, 8 * 60)
OF_CHARACTERS = {
    **dict.fromkeys(("CHAR_LENGTH", "REVERSE", "UPPER", "LOWER"), ""),
    **dict.fromkeys(("LEFT", "RIGHT", "SUBSTR"), ", 1"),
    **dict.fromkeys(("LPAD", "RPAD"), ", 1, 'x'"),
}
"""Functions that do something else to bytes than to characters, with more arguments."""


@pytest.mark.parametrize(
    ("source", "column", "value"),
    [
        ("i * 2 + 1", BIG, -13),
        ("i DIV 2", BIG, -3),
        ("i % 4", BIG, -3),
        ("d + 1", BIG, None),
        ("IFNULL(d, 1.5)", Column("c", ColumnType("decimal", 10, 1)), 1.5),
        ("i IS NULL OR d > 1", BIG, None),
        ("i IS NOT NULL OR d > 1", BIG, 1),
        ("i <=> NULL", BIG, 0),
        ("i NOT IN (1, NULL)", BIG, None),
        ("i NOT BETWEEN -9 AND 0", BIG, 0),
        ("CASE i WHEN 1 THEN 'x' WHEN -7 THEN 'y' ELSE 'z' END", TEXT, "y"),
        ("CASE WHEN d THEN 'x' END", TEXT, None),
        ("NULLIF(i, -7)", BIG, None),
        ("CONCAT(t, '-', i)", TEXT, "Ab--7"),
        ("CONCAT(t, d)", TEXT, None),
        ("CONCAT_WS(',', t, d, i)", TEXT, "Ab,-7"),
        ("RPAD(REVERSE(LOWER(t)), 4, 'xy')", TEXT, "baxy"),
        ("SUBSTR(t, -1)", TEXT, "b"),
        ("SUBSTR(t, -3)", TEXT, ""),
        ("CAST(t AS CHAR)", TEXT, "Ab"),
        ("HEX(255)", TEXT, "FF"),
        ("at + INTERVAL 1 MONTH", Column("c", ColumnType("date")), Civil(2024, 2, 29)),
        ("CAST(at AS DATE) + INTERVAL 1 MONTH", Column("c", ColumnType("date")), Civil(2024, 2, 29)),
        ("late", Column("c", ColumnType("date")), Civil(2024, 2, 1)),
        ("CAST(late AS DATE)", Column("c", ColumnType("date")), Civil(2024, 1, 31)),
        ("CAST('2024-01-31 23:59:59.5' AS DATE)", Column("c", ColumnType("date")), Civil(2024, 1, 31)),
        ("at - INTERVAL 90 SECOND", Column("c", ColumnType("datetime")), Civil(2024, 1, 31, 22, 58, 30)),
        ("NOW(3)", Column("c", ColumnType("datetime", fsp=3)), Civil(2023, 8, 24, 15, 54, 55, 456000)),
        ("CURDATE()", Column("c", ColumnType("date")), Civil(2023, 8, 24)),
        ("UTC_TIMESTAMP()", Column("c", ColumnType("datetime")), Civil(2023, 8, 24, 7, 54, 55)),
        ("UNIX_TIMESTAMP()", BIG, 1692863695),
    ],
)
def test_value(source: str, column: Column, value: object) -> None:
    assert value_for(computed(source, COLUMNS), column, ROW) == value


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("UUID()", "another value each time"),
        ("RAND() * 10", "another value each time"),
        ("t = 'a'", "of a value of kind text"),
        ("d / 3", "/ of a value of kind decimal"),
        ("e", "column e is enum"),
        ("gone + 1", "column gone is not there"),
        ("0x41", "text or a number"),
        ("IF(i, 1, 'x')", "values of kinds int, text"),
        ("MD5(t)", "not among what is computed"),
        ("CONCAT(i, d, 1e0)", "concat() of a value of kind double"),
        ("CHAR_LENGTH(t, 1)", "."),
        ("i +", "."),
        ("_latin1'é'", "written in latin1"),
        *((f"{name}(CAST(t AS BINARY){more})", "of bytes") for name, more in OF_CHARACTERS.items()),
        ("UPPER(CONCAT(_binary'a', t))", "of bytes"),
    ],
)
def test_refused(source: str, reason: str) -> None:
    with pytest.raises(NotComputableError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        computed(source, COLUMNS)


@pytest.mark.parametrize(
    ("source", "column", "reason"),
    [
        ("i % 0", BIG, "division by zero"),
        ("i * 9223372036854775807", BIG, "out of the range"),
        ("i", Column("c", ColumnType("tinyint", unsigned=True)), "out of the range"),
        ("UPPER('é')", TEXT, "beyond ASCII"),
        ("REPEAT('x', 99999999)", TEXT, "too long"),
        ("CAST('x' AS SIGNED)", BIG, "not a number"),
        ("NOW()", TEXT, "a moment"),
        ("ROUND(IF(i, 1.5, d), 2)", TEXT, "rounded after a choice"),
        ("at + INTERVAL 9999 YEAR", Column("c", ColumnType("date")), "no date"),
    ],
)
def test_no_value(source: str, column: Column, reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        value_for(computed(source, COLUMNS), column, ROW)


@pytest.mark.mysql
@pytest.mark.parametrize("name", keeping(["LOWER"], ["LOWER", "UPPER"]))
def test_the_case_of_letters_beyond_ascii_is_that_of_every_collation(name: str, mysql_server: MySqlServer) -> None:
    """Those that are taken are left as they are by all of them; no text of any language that has no case is refused."""
    expression = computed(f"{name}(t)", COLUMNS)

    def taken(char: str) -> bool:
        try:
            return value_for(expression, TEXT, Row({"t": char}, 0, 0)) == char
        except ConversionError:
            return False

    chars = "".join(char for char in map(chr, range(128, 0x11000)) if char.encode("utf-8", "ignore") and taken(char))
    assert not set("日本語한국어עבריתالعربية") - set(chars)
    assert ("é" in chars) is (name == "LOWER") and ("É" in chars) is (name == "UPPER")
    chars += "".join(filter(taken, map(chr, range(0x1F300, 0x1F700))))
    assert "🙂" in chars
    mysql_server.execute("CREATE DATABASE c; CREATE TABLE c.t (t LONGTEXT CHARACTER SET utf8mb4)")
    mysql_server.execute(f"INSERT INTO c.t VALUES (CONVERT(0x{chars.encode().hex()} USING utf8mb4))")
    asked = (
        "SELECT collation_name, character_set_name FROM information_schema.collations WHERE collation_name <> 'binary'"
    )
    unlike = [
        collation
        for collation, charset in mysql_server.query(asked)
        if mysql_server.query(
            f"SELECT HEX({name}(CONVERT(t USING {charset}) COLLATE {collation})) = HEX(CONVERT(t USING {charset})) "
            "FROM c.t"
        )
        != [(1,)]
    ]
    assert unlike == []
