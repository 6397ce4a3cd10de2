"""`schema check` and `skew` refuse exactly the pads and conversions that a merge stops at, for every kind of column."""

from itertools import product

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.errors import MergeError
from binlog_merge.reshape.plan_of import make_plan, refusals, rewrite_rows
from binlog_merge.values.value import ConversionError
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table
from tests.reshape.test_reshape import int_cell, rows_body, table_map

TYPES = [
    *("TINYINT", "SMALLINT UNSIGNED", "INT", "BIGINT", "DECIMAL(10,3)", "FLOAT", "DOUBLE", "BIT(9)", "YEAR", "DATE"),
    *("TIME(3)", "DATETIME", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP(3)", "CHAR(5)", "VARCHAR(20)", "BINARY(4)"),
    *("VARBINARY(9)", "TINYTEXT", "TEXT", "BLOB", "ENUM('a','b')", "SET('x','y')", "JSON", "VECTOR(3)", "POINT"),
    *("GEOMETRY", "VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9) CHARACTER SET eucjpms"),
]
DEFAULTS = [
    *("", "NOT NULL", "NULL DEFAULT NULL", "DEFAULT 0", "DEFAULT '0'", "NOT NULL DEFAULT 'a'", "DEFAULT ''"),
    *("DEFAULT '2024-02-29'", "DEFAULT 0x41", "DEFAULT CURRENT_TIMESTAMP", "DEFAULT NOW() ON UPDATE NOW()"),
    *("DEFAULT CURRENT_TIMESTAMP(6)", "NOT NULL DEFAULT CURRENT_TIMESTAMP(3)", "DEFAULT (NOW())", "DEFAULT (NULL)"),
    *("NOT NULL DEFAULT (NULL)", "DEFAULT (UUID())", "DEFAULT (RAND())", "DEFAULT (id + 1)", "DEFAULT (JSON_ARRAY())"),
    *("DEFAULT (CURDATE())", "DEFAULT (UNIX_TIMESTAMP())", "DEFAULT ('x')", "DEFAULT (POINT(1,2))"),
    *("DEFAULT (CONCAT('a', id))", "GENERATED ALWAYS AS (id * 2) STORED", "AS (id * 2) VIRTUAL"),
    *("AS (NULLIF(id, id)) STORED NOT NULL", "AS (RAND()) STORED", "ON UPDATE CURRENT_TIMESTAMP", "DEFAULT '{}'"),
    *("DEFAULT ('{}')", "DEFAULT b'101'", "DEFAULT 1e400", "DEFAULT 'b,a'"),
]
COMMIT_US = 1_795_371_000_123_456


def _table(*columns: str) -> Table | None:
    try:
        catalog = parse_dump(f"CREATE TABLE d.t ({', '.join(columns)});")
    except Exception:
        return None
    return catalog.table("d", "t")


def _stops(physical: Table, logical: Table) -> str | None:
    """Merge an INSERT of one row; returns what stops it."""
    try:
        plan = make_plan(table_map(physical), physical, logical, 5)
        body = rows_body(physical, EventType.WRITE_ROWS_EVENT, [(None, (int_cell(7),))])
        rewrite_rows(plan, EventType.WRITE_ROWS_EVENT, body, COMMIT_US)
    except (MergeError, ConversionError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", TYPES)
def test_a_pad_is_refused_where_a_merge_stops_and_nowhere_else(kind: str) -> None:
    physical = _table("id INT NOT NULL")
    assert physical is not None
    tried = 0
    for default in DEFAULTS:
        logical = _table("id INT NOT NULL", f"c {kind} {default}")
        if logical is None:
            continue
        tried += 1
        stops = _stops(physical, logical)
        told = refusals(physical, logical)
        if "id" in default and not told:
            continue  # whether it stops depends on the row
        assert bool(told) == (stops is not None), (kind, default, told, stops)
    assert tried >= len(DEFAULTS) // 2


def test_a_timestamp_that_defaults_to_the_clock_is_a_right_pad() -> None:
    physical = _table("id INT NOT NULL")
    logical = _table("id INT NOT NULL", "c TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP")
    assert physical is not None
    assert logical is not None
    assert refusals(physical, logical) == ()
    assert _stops(physical, logical) is None


@pytest.mark.parametrize("before", TYPES)
def test_a_conversion_is_refused_where_a_merge_makes_no_plan(before: str) -> None:
    for after, null in product(TYPES, ("", " NOT NULL")):
        physical, logical = _table("id INT NOT NULL", f"c {before}"), _table("id INT NOT NULL", f"c {after}{null}")
        if physical is None or logical is None:
            continue
        try:
            make_plan(table_map(physical), physical, logical, 5)
        except MergeError as error:
            assert error.message in refusals(physical, logical), (before, after)
        else:
            assert refusals(physical, logical) == (), (before, after, null)
