"""Every rule of the order of tables, by example.

Rules are DM's (`pingcap/tidb` pkg/util/schemacmp) unless a case says otherwise.
"""

import pickle
from dataclasses import replace

import pytest

from snapshot_store import parse_table
from snapshot_store.ddl import parse_dump
from snapshot_store.diff import diff_tables
from snapshot_store.lattice.tables import Incomparable, compare, join
from snapshot_store.model import Column, Index, IndexPart, Table
from snapshot_store.model_json import table_from_json, table_to_json
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.render_sql import create_sql


def t(body: str, name: str = "t", options: str = "") -> Table:
    return parse_dump(f"CREATE TABLE {name} ({body}) {options}", "d").tables["d", name]


SMALLER = [
    # Integers: width of the type, then of its display.
    ("a TINYINT", "a SMALLINT"),
    ("a SMALLINT", "a MEDIUMINT"),
    ("a MEDIUMINT", "a INT"),
    ("a INT", "a BIGINT"),
    ("a INT UNSIGNED", "a BIGINT UNSIGNED"),
    ("a TINYINT(1)", "a TINYINT"),
    ("a BOOL", "a INT"),
    ("a INT(3) ZEROFILL", "a INT(5) ZEROFILL"),
    # Lengths.
    ("a VARCHAR(10)", "a VARCHAR(20)"),
    ("a CHAR(10)", "a CHAR(20)"),
    ("a BINARY(10)", "a BINARY(20)"),
    ("a VARBINARY(10)", "a VARBINARY(20)"),
    ("a BIT(1)", "a BIT(8)"),
    ("a VECTOR(3)", "a VECTOR(4)"),
    ("a FLOAT(7,3)", "a FLOAT(8,4)"),
    # Ours: FLOAT takes what FLOAT(M,D) takes.
    ("a FLOAT(7,4)", "a FLOAT"),
    ("a DOUBLE(7,4)", "a DOUBLE"),
    ("a TINYTEXT", "a TEXT"),
    ("a TEXT", "a LONGTEXT"),
    ("a TINYBLOB", "a MEDIUMBLOB"),
    ("a BLOB", "a LONGBLOB"),
    # Fractions of seconds.
    ("a DATETIME", "a DATETIME(3)"),
    ("a TIMESTAMP(3) NULL", "a TIMESTAMP(6) NULL"),
    ("a TIME", "a TIME(6)"),
    # Lists.
    ("a ENUM('x')", "a ENUM('x','y')"),
    ("a SET('x','y')", "a SET('x','y','z')"),
    # Character sets, with collations of one name or, which is ours, each the default.
    ("a CHAR(9) CHARSET utf8mb3 COLLATE utf8mb3_bin", "a CHAR(9) CHARSET utf8mb4 COLLATE utf8mb4_bin"),
    ("a CHAR(9) CHARSET latin1 COLLATE latin1_general_ci", "a CHAR(9) CHARSET utf8mb4 COLLATE utf8mb4_general_ci"),
    ("a CHAR(9) CHARSET utf8mb3", "a CHAR(9) CHARSET utf8mb4"),
    ("a CHAR(9) CHARSET latin1", "a CHAR(9) CHARSET utf8mb4"),
    ("a ENUM('x') CHARSET latin1", "a ENUM('x') CHARSET utf8mb4"),
    # NULL and defaults.
    ("a INT NOT NULL", "a INT"),
    ("a INT NOT NULL DEFAULT 1", "a INT DEFAULT 1"),
    ("a INT NOT NULL", "a INT NOT NULL DEFAULT 1"),
    ("a INT", "a INT DEFAULT 1"),
    ("a INT DEFAULT NULL", "a INT DEFAULT (1 + 1)"),
    ("a DATETIME", "a DATETIME DEFAULT CURRENT_TIMESTAMP"),
    ("a INT NOT NULL, KEY k(a)", "a INT AUTO_INCREMENT, KEY k(a)"),
    ("a TIMESTAMP NOT NULL", "a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"),
    # Columns there or not.
    ("a INT", "a INT, b INT"),
    ("a INT", "b INT NOT NULL DEFAULT 7, a INT"),
    ("a INT", "a INT, b TIMESTAMP NOT NULL"),
    ("a INT", "a INT, b INT AS (a + 1)"),
    # Ours: a generated column makes its own values, so it is never missed.
    ("a INT", "a INT, b INT AS (a + 1) STORED NOT NULL"),
    # Indexes there or not, and unique or not.
    ("a INT, KEY k(a)", "a INT"),
    ("a INT, UNIQUE k(a)", "a INT"),
    ("a INT, UNIQUE k(a)", "a INT, KEY k(a)"),
    ("a INT NOT NULL, PRIMARY KEY (a)", "a INT NOT NULL"),
    ("a INT PRIMARY KEY", "a INT"),
    ("a INT, b INT, UNIQUE k(a, b)", "a INT, b INT, KEY k(a, b)"),
    ("a TEXT, FULLTEXT k(a)", "a TEXT"),
    # Several at once.
    ("a INT, b VARCHAR(9) NOT NULL, KEY k(a)", "c INT, b VARCHAR(10), a BIGINT"),
    # Ours, for MySQL's own types.
    ("a POINT SRID 4326", "a POINT"),
]

EQUAL = [
    ("a INT, b INT", "b INT, a INT"),
    ("a INT", "A INT"),
    ("a INT, KEY k(a)", "a INT, KEY K(A)"),
    ("a INT, KEY k(a), KEY l(a)", "a INT, KEY l(a), KEY k(a)"),
    ("a INT", "a INT DEFAULT NULL"),
    ("a INT", "a INT COMMENT 'x' INVISIBLE, CHECK (a > 0)"),
    ("a INT, KEY k(a)", "a INT, KEY k(a DESC) INVISIBLE"),
    ("a INT DEFAULT 1", "a INT DEFAULT '1'"),
    ("a DECIMAL(9,2) DEFAULT 1", "a DECIMAL(9,2) DEFAULT 1.00"),
    ("a DATETIME(3) DEFAULT '2020-01-01 00:00:00'", "a DATETIME(3) DEFAULT '2020-01-01 00:00:00.000'"),
    ("a BINARY(3) DEFAULT 'x'", "a BINARY(3) DEFAULT 0x780000"),
    ("a BIT(4) DEFAULT 3", "a BIT(4) DEFAULT b'0011'"),
    ("a TEXT DEFAULT ('x')", "a TEXT DEFAULT (_utf8mb4'x')"),
    ("a INT, b INT AS (a+1)", "a INT, b INT GENERATED ALWAYS AS ((`a` + 1)) VIRTUAL"),
    ("a INT, KEY k((a + 1))", "a INT, KEY k((`a`+1))"),
    ("a CHAR(4) CHARSET utf8 COLLATE utf8_bin", "a CHAR(4) CHARSET UTF8MB3 COLLATE UTF8MB3_BIN"),
]

# What two tables cannot agree on: neither an order nor a join.
APART = [
    ("a INT", "a FLOAT", 'column "a": type: incompatible mysql type (int vs float)'),
    ("a FLOAT", "a DOUBLE", "incompatible mysql type"),
    ("a INT", "a DECIMAL(10,0)", "incompatible mysql type"),
    ("a INT", "a BIT(8)", "incompatible mysql type"),
    ("a CHAR(9)", "a VARCHAR(9)", "incompatible mysql type"),
    ("a VARCHAR(9)", "a TEXT", "incompatible mysql type"),
    ("a ENUM('x')", "a SET('x')", "incompatible mysql type"),
    ("a DATE", "a DATETIME", "incompatible mysql type"),
    ("a DATETIME", "a TIMESTAMP NULL", "incompatible mysql type"),
    ("a JSON", "a LONGTEXT", "incompatible mysql type"),
    ("a GEOMETRY", "a POINT", "incompatible mysql type"),
    ("a VARCHAR(9)", "a VARBINARY(9)", "distinct singletons (characters vs bytes)"),
    ("a TEXT", "a BLOB", "distinct singletons"),
    ("a INT", "a INT UNSIGNED", 'column "a": unsigned: distinct singletons (False vs True)'),
    ("a TINYINT", "a BIGINT UNSIGNED", "distinct singletons"),
    ("a INT(10) UNSIGNED", "a INT(10) ZEROFILL", "distinct singletons"),
    ("a DECIMAL(10,2)", "a DECIMAL(12,2)", "distinct singletons (10 vs 12)"),
    ("a DECIMAL(10,2)", "a DECIMAL(10,3)", "distinct singletons (2 vs 3)"),
    ("a POINT SRID 0", "a POINT SRID 4326", "distinct singletons (0 vs 4326)"),
    ("a ENUM('x','y')", "a ENUM('y','x')", "at string list index 0: distinct values ('x' vs 'y')"),
    ("a ENUM('x','y')", "a ENUM('x','m','y')", "at string list index 1"),
    ("a ENUM('x')", "a ENUM('X')", "distinct values"),
    ("a INT DEFAULT 0", "a INT DEFAULT -1", "column \"a\": default: distinct singletons ('0' vs '-1')"),
    ("a DATETIME DEFAULT CURRENT_TIMESTAMP", "a DATETIME DEFAULT '2020-01-01'", "distinct singletons"),
    ("a BINARY(3) DEFAULT 'x'", "a BINARY(3) DEFAULT 'xy'", "distinct singletons"),
    ("a INT", "a INT AUTO_INCREMENT, KEY k(a)", "distinct singletons"),
    ("a INT DEFAULT 1", "a INT AUTO_INCREMENT, KEY k(a)", "distinct singletons"),
    ("a DATETIME", "a DATETIME ON UPDATE CURRENT_TIMESTAMP", "on update: distinct singletons"),
    ("a INT, b INT AS (a + 1)", "a INT, b INT AS (a + 2)", "distinct singletons (a+1 VIRTUAL vs a+2 VIRTUAL)"),
    ("a INT, b INT AS (a + 1)", "a INT, b INT AS (a + 1) STORED", "distinct singletons"),
    ("a INT, b INT AS (a + 1)", "a INT, b INT", "distinct singletons"),
    ("a CHAR(9) CHARSET latin1", "a CHAR(9) CHARSET utf8mb3", "incompatible mysql charset (latin1 vs utf8mb3)"),
    ("a CHAR(9) CHARSET gbk", "a CHAR(9) CHARSET utf8mb4", "incompatible mysql charset (gbk vs utf8mb4)"),
    ("a CHAR(9) CHARSET ascii", "a CHAR(9) CHARSET latin1", "incompatible mysql charset"),
    ("a CHAR(9) COLLATE utf8mb4_general_ci", "a CHAR(9) COLLATE utf8mb4_0900_ai_ci", "incompatible mysql collation"),
    ("a CHAR(9) COLLATE utf8mb3_general_ci", "a CHAR(9) COLLATE utf8mb4_bin", "incompatible mysql collation"),
    ("a CHAR(9) COLLATE gbk_bin", "a CHAR(9) COLLATE gbk_chinese_ci", "incompatible mysql collation"),
]

# Neither is above the other, but there is a table above both.
ABOVE_BOTH = [
    ("a INT, b INT", "a INT, c INT", "a INT, b INT, c INT"),
    ("a INT NOT NULL DEFAULT 3", "a INT", "a INT DEFAULT 3"),
    ("a INT", "a BIGINT NOT NULL DEFAULT 0", "a BIGINT DEFAULT 0"),
    ("a SMALLINT, b BIGINT", "a INT, b INT", "a INT, b BIGINT"),
    ("a VARCHAR(9) CHARSET utf8mb4", "a VARCHAR(20) CHARSET latin1", "a VARCHAR(20) CHARSET utf8mb4"),
    ("a FLOAT(7,4)", "a FLOAT(8,2)", "a FLOAT(8,4)"),
    ("a INT, KEY k1(a)", "a INT, KEY k2(a)", "a INT"),
    ("a INT, b INT, KEY k(a)", "a INT, b INT, KEY k(b)", "a INT, b INT"),
    ("a INT, b INT, KEY k(a, b)", "a INT, b INT, KEY k(b, a)", "a INT, b INT"),
    ("a INT, b INT, KEY k(a, b), KEY l(b)", "a INT, b INT, KEY k(a), KEY l(b)", "a INT, b INT, KEY l(b)"),
    ("a TEXT, KEY k(a(14))", "a TEXT, KEY k(a(15))", "a TEXT"),
    ("a CHAR(9), KEY k(a)", "a CHAR(9), FULLTEXT k(a)", "a CHAR(9)"),
    ("a INT NOT NULL, PRIMARY KEY (a)", "a INT NOT NULL, UNIQUE u(a)", "a INT NOT NULL"),
    ("a INT PRIMARY KEY, b INT", "a INT, b INT PRIMARY KEY", "a INT, b INT"),
    ("a INT, KEY k(a)", "a INT, b INT, KEY k(a), KEY l(b)", "a INT, b INT, KEY k(a)"),
    ("a INT, b INT", "a INT, c INT DEFAULT 1, KEY k(a)", "a INT, b INT, c INT DEFAULT 1"),
    ("a INT NOT NULL, KEY k(a)", "a INT AUTO_INCREMENT, UNIQUE k(a)", "a INT AUTO_INCREMENT, KEY k(a)"),
    # TIMESTAMP NOT NULL counts as having a default; nullable, it needs one.
    ("a TIMESTAMP NOT NULL, KEY k(a)", "a TIMESTAMP NULL DEFAULT NULL, KEY l(a)", "a TIMESTAMP NULL"),
]

# A column that is missing and has no default gets one.
FILLED = [
    ("INT NOT NULL", "INT NOT NULL DEFAULT 0"),
    ("DECIMAL(9,2) NOT NULL", "DECIMAL(9,2) NOT NULL DEFAULT 0"),
    ("FLOAT NOT NULL", "FLOAT NOT NULL DEFAULT 0"),
    ("VARCHAR(20) NOT NULL", "VARCHAR(20) NOT NULL DEFAULT ''"),
    ("DATETIME(3) NOT NULL", "DATETIME(3) NOT NULL DEFAULT '0000-00-00 00:00:00'"),
    ("TIME NOT NULL", "TIME NOT NULL DEFAULT '00:00:00'"),
    ("DATE NOT NULL", "DATE NOT NULL DEFAULT '0000-00-00'"),
    ("YEAR NOT NULL", "YEAR NOT NULL DEFAULT '0000'"),
    ("ENUM('abc','def') NOT NULL", "ENUM('abc','def') NOT NULL DEFAULT 'abc'"),
    ("SET('abc','def') NOT NULL", "SET('abc','def') NOT NULL DEFAULT ''"),
    ("BINARY(50) NOT NULL", "BINARY(50) NOT NULL DEFAULT ''"),
    ("VARBINARY(50) NOT NULL", "VARBINARY(50) NOT NULL DEFAULT ''"),
    ("BIT(8) NOT NULL", "BIT(8) NOT NULL DEFAULT b'0'"),
    ("TEXT NOT NULL", "TEXT NOT NULL DEFAULT ('')"),
    ("BLOB NOT NULL", "BLOB NOT NULL DEFAULT ('')"),
    ("JSON NOT NULL", "JSON NOT NULL DEFAULT ('null')"),
    ("INT PRIMARY KEY", "INT NOT NULL DEFAULT 0"),
]


@pytest.mark.parametrize(("smaller", "larger"), SMALLER)
def test_smaller(smaller: str, larger: str) -> None:
    a, b = t(smaller), t(larger)
    assert (compare(a, b), compare(b, a)) == (-1, 1)
    assert compare(join(a, b), b) == 0
    assert join(a, b) == join(b, a)


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal(one: str, other: str) -> None:
    a, b = t(one), t(other)
    assert (compare(a, b), compare(b, a)) == (0, 0)
    assert compare(join(a, b), a) == 0
    assert join(a, b) == join(b, a)


@pytest.mark.parametrize(("one", "other", "why"), APART)
def test_apart(one: str, other: str, why: str) -> None:
    a, b = t(one), t(other)
    with pytest.raises(Incomparable) as raised:
        compare(a, b)
    assert why in str(raised.value)
    for function, pair in ((compare, (b, a)), (join, (a, b)), (join, (b, a))):
        with pytest.raises(Incomparable):
            function(*pair)


@pytest.mark.parametrize(("one", "other", "above"), ABOVE_BOTH)
def test_above_both(one: str, other: str, above: str) -> None:
    a, b = t(one), t(other)
    for pair in ((a, b), (b, a)):
        with pytest.raises(Incomparable, match=r"combining contradicting orders|distinct singletons"):
            compare(*pair)
    joined = join(a, b)
    assert compare(joined, t(above)) == 0
    assert (compare(joined, a), compare(joined, b)) == (1, 1)
    assert joined == join(b, a)


@pytest.mark.parametrize(("without", "with_default"), FILLED)
def test_a_column_without_a_default_cannot_be_missing_but_the_join_gives_it_one(
    without: str, with_default: str
) -> None:
    a, b = t(f"x INT, c {without}"), t("x INT")
    for pair in ((a, b), (b, a)):
        with pytest.raises(Incomparable, match='column "c": column with no default value cannot be missing'):
            compare(*pair)
    assert compare(join(a, b), t(f"x INT, c {with_default}")) == 0
    assert (compare(join(a, b), a), compare(join(a, b), b)) == (1, 1)


@pytest.mark.parametrize("kind", ["POINT", "MULTIPOLYGON", "GEOMETRY", "VECTOR(3)"])
def test_a_column_of_a_type_without_a_zero_cannot_be_missing_even_in_a_join(kind: str) -> None:
    with pytest.raises(Incomparable, match=r'column "c": .* has no zero'):
        join(t(f"x INT, c {kind} NOT NULL"), t("x INT"))


def test_a_column_whose_default_was_dropped_cannot_be_missing() -> None:
    dropped = t("x INT, c INT")
    dropped = replace(dropped, columns=(dropped.columns[0], replace(dropped.columns[1], default=None)))
    assert compare(dropped, t("x INT, c INT")) == -1
    with pytest.raises(Incomparable):
        compare(dropped, t("x INT"))
    assert compare(join(dropped, t("x INT")), t("x INT, c INT")) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a INT AUTO_INCREMENT, b INT, KEY i(a)", "a INT AUTO_INCREMENT, b INT, KEY i(a, b)"),
        ("a INT AUTO_INCREMENT UNIQUE, b INT", "b INT"),
        ("a INT AUTO_INCREMENT, KEY i(a)", "a INT NOT NULL"),
    ],
)
def test_auto_increment_needs_a_key_that_stays(one: str, other: str) -> None:
    with pytest.raises(Incomparable):
        compare(t(one), t(other))
    with pytest.raises(Incomparable, match='column "a": auto type but not defined as a key'):
        join(t(one), t(other))


def test_a_display_width_counts_as_it_was_written() -> None:
    def wide(type: str) -> Table:
        return parse_table(f"CREATE TABLE t (a {type})")

    def joined(a: str, b: str) -> ColumnType:
        (column,) = join(wide(a), wide(b)).columns
        return column.type

    assert compare(wide("INT"), wide("INT(11)")) == 0
    assert compare(wide("BIGINT UNSIGNED"), wide("BIGINT(20) UNSIGNED")) == 0
    assert compare(wide("INT UNSIGNED"), wide("INT(10) UNSIGNED")) == 0
    assert compare(wide("INT(22)"), wide("INT")) == 1
    assert compare(wide("INT(1)"), wide("INT")) == -1
    assert compare(wide("BOOL"), wide("TINYINT(1)")) == 0
    assert compare(wide("TINYINT(1)"), wide("TINYINT")) == -1
    with pytest.raises(Incomparable, match="contradicting"):
        compare(wide("TINYINT(30)"), wide("BIGINT(5)"))
    assert joined("TINYINT(30)", "BIGINT(5)") == ColumnType("bigint")
    assert joined("TINYINT(30)", "BIGINT(5)").display_width == 30
    assert joined("INT", "BIGINT(5)").display_width == 11
    assert joined("INT(11)", "BIGINT(20)").display_width == 20
    assert joined("TINYINT(1)", "TINYINT") == ColumnType("tinyint")
    assert joined("INT(3) ZEROFILL", "INT(7) ZEROFILL") == ColumnType("int", 7, unsigned=True, zerofill=True)


def test_a_display_width_is_no_difference_to_a_server() -> None:
    narrow, wide = (parse_table(f"CREATE TABLE t (a {type} NOT NULL)") for type in ("INT(5)", "INT"))
    assert narrow == wide
    assert create_sql(narrow) == create_sql(wide)
    assert diff_tables(narrow, wide) == ()
    kept = table_from_json(table_to_json(narrow))
    assert kept.columns[0].type.display_width == 5


def test_auto_increment_is_never_null() -> None:
    keys = (Index("k", (IndexPart("a"),)),)
    written, unwritten = (
        Table("d", "t", (Column("a", ColumnType("int"), nullable, auto_increment=True),), keys)
        for nullable in (False, True)
    )
    assert compare(written, unwritten) == 0


def test_the_tables_own_character_set_counts() -> None:
    a, b = t("a INT", options="CHARSET utf8mb3"), t("a INT", options="CHARSET utf8mb4")
    assert compare(a, b) == -1
    assert (join(a, b).charset, join(a, b).collation) == ("utf8mb4", "utf8mb4_0900_ai_ci")
    with pytest.raises(Incomparable, match=r"table: character set: incompatible mysql charset \(gbk vs utf8mb4\)"):
        compare(t("a INT", options="CHARSET gbk"), b)


def test_names_comments_engines_and_foreign_keys_do_not_count() -> None:
    a = t("a INT, KEY k(a)", options="COMMENT 'x' ENGINE MyISAM")
    b = t("a INT, CONSTRAINT k FOREIGN KEY (a) REFERENCES p (id)", name="u")
    assert compare(a, b) == 0
    assert join(a, b) == join(b, a)
    assert (join(a, b).name, join(a, b).foreign_keys) == ("t", ())


def test_a_join_keeps_the_checks_that_both_have() -> None:
    a = t("a INT, CONSTRAINT x CHECK (a > 0), CHECK (a < 9)")
    b = t("a INT, CONSTRAINT y CHECK ((`a`>0)), CHECK (a <> 5)")
    assert [expression for _, expression in join(a, b).checks] == ["(`a` > 0)"]


def test_a_join_hides_only_columns_that_both_hide() -> None:
    a, b = t("a INT INVISIBLE, b INT, c INT INVISIBLE"), t("a INT, b INT INVISIBLE, c INT INVISIBLE")
    assert [column.invisible for column in join(a, b).columns] == [False, False, True]


def test_keys_on_different_columns_are_told_of_the_columns() -> None:
    with pytest.raises(Incomparable) as raised:
        compare(t("a INT, b INT, KEY k(a)"), t("a INT, b INT, KEY k(b)"))
    assert str(raised.value) == (
        'column "b": combining contradicting orders (column "a" (key) accepts less, column "b" (key) more)'
    )


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [
        ("id INT, z INT", "id INT, z INT, a INT", "id z a"),
        ("id INT, z INT", "id INT, a INT, z INT", "id a z"),
        ("id INT, z INT, x INT", "id INT, y INT, x INT", "id y z x"),
        ("id INT, b INT, a INT", "id INT, a INT, b INT", "id a b"),
        ("b INT", "a INT", "a b"),
    ],
)
def test_columns_keep_their_order_where_both_tables_allow(one: str, other: str, order: str) -> None:
    for pair in ((t(one), t(other)), (t(other), t(one))):
        assert " ".join(column.name for column in join(*pair).columns) == order


def test_the_order_of_a_joins_indexes_does_not_depend_on_which_table_is_first() -> None:
    a = t("a INT PRIMARY KEY, KEY z(a), KEY y(a)")
    b = t("a INT PRIMARY KEY, KEY y(a), KEY x(a), KEY z(a)", name="u")
    assert [index.name for index in join(a, b).indexes] == ["PRIMARY", "y", "z"]
    assert join(a, b) == join(b, a)


def test_an_index_on_an_expression_makes_no_column_a_key() -> None:
    index = Index("k", (IndexPart(None, expression="a + 1"), IndexPart("a")), unique=True)
    a = replace(t("a INT AUTO_INCREMENT, KEY l(a)"), indexes=(index,))
    with pytest.raises(Incomparable, match="auto type but not defined as a key"):
        join(a, a)


def test_an_error_says_which_part_and_why() -> None:
    with pytest.raises(Incomparable) as raised:
        compare(t("a INT, b INT, KEY k(b)"), t("a BIGINT, b INT NOT NULL"))
    error = raised.value
    assert error.part == 'column "b"'
    assert str(error) == (
        'column "b": combining contradicting orders (column "a" (type) accepts less, column "b" (default) more)'
    )
    again = pickle.loads(pickle.dumps(error))
    assert (again.part, again.reason, str(again)) == (error.part, error.reason, str(error))
