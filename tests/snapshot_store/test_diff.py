"""Column maps, differences, and the two kinds of same."""

from dataclasses import replace

import pytest
from hypothesis import given

from snapshot_store.ddl import parse_dump
from snapshot_store.diff import (
    ColumnAdded,
    ColumnChanged,
    ColumnDropped,
    ColumnMap,
    ColumnMoved,
    IndexAdded,
    IndexChanged,
    IndexDropped,
    MappedColumn,
    OptionChanged,
    column_map,
    diff_tables,
    equals,
    equivalent,
    same_type,
)
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import ColumnType
from tests.snapshot_store.strategies import UNHURRIED, tables


def t(body: str, name: str = "t", options: str = "") -> Table:
    return parse_dump(f"CREATE TABLE {name} ({body}) {options}", "d").tables["d", name]


def test_columns_are_mapped_by_name() -> None:
    physical = t("id INT, extra INT, B VARCHAR(3), c INT")
    logical = t("id INT, b VARCHAR(9), new INT, c INT UNSIGNED", name="u")
    assert column_map(physical, logical) == ColumnMap(
        (
            MappedColumn(0, 0, True),
            MappedColumn(1, 2, False),
            MappedColumn(2, None, False),
            MappedColumn(3, 3, False),
        ),
        trimmed=(1,),
        identity=False,
    )


def test_a_map_is_the_identity_only_when_rows_can_pass_as_they_are() -> None:
    assert column_map(t("a INT, b INT"), t("A INT, B INT COMMENT 'x'")).identity
    assert not column_map(t("a INT, b INT"), t("b INT, a INT")).identity
    assert not column_map(t("a INT, b INT"), t("a INT")).identity
    assert not column_map(t("a INT"), t("a INT, b INT")).identity
    assert not column_map(t("a INT"), t("a BIGINT")).identity


def test_a_renamed_column_is_one_trimmed_and_one_padded() -> None:
    found = column_map(t("a INT"), t("renamed INT"))
    assert (found.entries, found.trimmed) == ((MappedColumn(0, None, False),), (0,))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("INT(5) ZEROFILL", "INT(7) UNSIGNED", True),
        ("INT", "INT UNSIGNED", False),
        ("FLOAT(7,3)", "FLOAT", True),
        ("DECIMAL(5,2)", "DECIMAL(5,1)", False),
        ("CHAR(3) CHARSET latin1", "CHAR(3) CHARSET latin1 COLLATE latin1_bin", True),
        ("CHAR(3) CHARSET latin1", "CHAR(3) CHARSET gbk", False),
        ("CHAR(3)", "CHAR(4)", False),
        ("DATETIME", "DATETIME(1)", False),
        ("ENUM('a')", "ENUM('a','b')", False),
        ("POINT SRID 0", "POINT SRID 4326", False),
        ("TINYINT(1)", "BOOL", True),
    ],
)
def test_same_type_means_the_same_bytes(a: str, b: str, same: bool) -> None:
    assert same_type(t(f"a {a}").columns[0].type, t(f"a {b}").columns[0].type) is same


def test_a_difference_names_every_change() -> None:
    a = t("a INT, b INT, c INT, KEY i (a), KEY j (b), KEY k (c)")
    b = t("c BIGINT, a INT, d INT, KEY i (a, d), KEY k (c), KEY l (d)", name="u", options="COMMENT 'x'")
    changes = diff_tables(a, b)
    assert [type(change) for change in changes] == [
        OptionChanged,
        OptionChanged,
        ColumnDropped,
        ColumnChanged,
        ColumnMoved,
        ColumnMoved,
        ColumnAdded,
        IndexDropped,
        IndexChanged,
        IndexAdded,
    ]
    assert changes[0] == OptionChanged("name", "t", "u")
    assert changes[6] == ColumnAdded(b.columns[2], "a")
    moved = diff_tables(t("a INT, KEY i (a), KEY j (a)"), t("a INT, KEY j (a), KEY i (a)"))
    assert moved == (OptionChanged("index_order", ("i", "j"), ("j", "i")),)


@UNHURRIED
@given(tables(), tables(name="u"))
def test_no_difference_means_equal(a: Table, b: Table) -> None:
    assert diff_tables(a, a) == () and equals(a, a) and equivalent(a, a)
    assert bool(diff_tables(a, b)) is not equals(a, b)
    assert column_map(a, a).identity


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("a INT", "A INT COMMENT 'x'", True),
        ("a TINYINT(1)", "a TINYINT", True),
        ("a INT ZEROFILL", "a INT UNSIGNED", False),
        ("a INT, KEY i (a), KEY j (a)", "a INT, KEY J (a), KEY i (A)", True),
        ("a INT, KEY i (a)", "a INT, KEY j (a)", False),
        ("a INT, b INT AS (a + 1)", "a INT, b INT AS ((`a`+1))", True),
        ("a INT, b INT AS (concat(a, 'X y'))", "a INT, b INT AS (CONCAT(`a`,'X y'))", True),
        ("a INT, b INT AS (concat(a, 'X y'))", "a INT, b INT AS (concat(a, 'x y'))", False),
        ("a INT, CHECK (a > 1)", "a INT, CONSTRAINT c CHECK ((`a` > 1))", True),
        ("a INT, CHECK (a > 1)", "a INT, CHECK (a > 2)", False),
        ("a INT", "a BIGINT", False),
        ("a INT, b INT", "b INT, a INT", False),
        ("a INT DEFAULT 1", "a INT DEFAULT 2", False),
        ("a INT DEFAULT (1 + 1)", "a INT DEFAULT (1+1)", True),
        ("a DECIMAL(5,2) DEFAULT 1.5", "a DECIMAL(5,2) DEFAULT '1.50'", True),
        ("a VARCHAR(5) DEFAULT '1.5'", "a VARCHAR(5) DEFAULT '1.50'", False),
        ("a TEXT DEFAULT ('x')", "a TEXT DEFAULT (_utf8mb4'x')", True),
    ],
)
def test_equivalent_ignores_what_is_cosmetic(a: str, b: str, same: bool) -> None:
    assert equivalent(t(a), t(b, name="shard_7")) is same


def test_equal_and_equivalent_differ_only_by_a_comment() -> None:
    a = t("a INT")
    b = replace(a, comment="x")
    assert equivalent(a, b) and not equals(a, b)


def test_a_type_that_is_no_column_still_compares() -> None:
    assert same_type(ColumnType("json"), ColumnType("json"))
