"""Conditions on the rows of partitions: whatever a row holds, it is in one partition."""

from datetime import datetime
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.errors import ReplayStopped
from binlog_merge.tables.partitions import KeyPlaces, PartitionRows
from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.model import Catalog, Schema, Table

RANGE = (
    "(PARTITION a VALUES LESS THAN ({0}), PARTITION b VALUES LESS THAN ({1}), PARTITION c VALUES LESS THAN MAXVALUE)"
)
CLAUSES = (
    f"RANGE (id) {RANGE.format(-3, 40)}",
    f"RANGE (TO_DAYS(at)) {RANGE.format('730000', '738000 + 5')}",
    "RANGE COLUMNS (id, v) (PARTITION a VALUES LESS THAN (3, 'k'), PARTITION b VALUES LESS THAN (3, MAXVALUE), "
    "PARTITION c VALUES LESS THAN (MAXVALUE, MAXVALUE))",
    "HASH (id * 3) PARTITIONS 5",
    "LINEAR HASH (id) PARTITIONS 7",
    "HASH (YEAR(at) + DAYOFYEAR(at)) PARTITIONS 3",
)
ROWS = st.tuples(
    st.none() | st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-5, 50),
    st.none() | st.text(st.sampled_from("aKkz "), max_size=3),
    st.none() | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
)


def table_by(clause: str) -> Table:
    sql = f"CREATE TABLE t (id INT, v VARCHAR(9), at DATETIME(6)) PARTITION BY {clause}"
    return apply_ddl(Catalog().with_schema(Schema("s")), sql, "s", DdlSession()).catalog.table("s", "t")


def rows_of(clause: str, *here: str) -> PartitionRows:
    return PartitionRows(table_by(clause), frozenset(here))


@settings(max_examples=25)
@given(st.sampled_from(CLAUSES), st.lists(ROWS, min_size=1, max_size=20))
def test_every_row_is_in_one_partition(clause: str, rows: list[Any]) -> None:
    table = table_by(clause)
    conditions = PartitionRows(table, frozenset({"id", "v", "at"}))
    with duckdb.connect(config={"threads": 1}) as connection:
        by_key = KeyPlaces(connection, "t", table, conditions.here)
        names = table.partitioning.names
        sums = " + ".join(f"({conditions.of([name], by_key)})::INT" for name in names)
        connection.execute('CREATE TABLE t (id INTEGER, v VARCHAR, "at" TIMESTAMP)')
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        assert connection.execute(f"SELECT DISTINCT {sums} FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        ("KEY ALGORITHM = 1 (id) PARTITIONS 2", "only a server knows the hash"),
        ("KEY (at) PARTITIONS 2", "does not have the columns of its KEY"),
        ("HASH (gone) PARTITIONS 2", "unknown column gone"),
        ("HASH (SOUNDEX(id)) PARTITIONS 2", r"soundex\(\) is not known"),
        ("RANGE COLUMNS (at) (PARTITION p0 VALUES LESS THAN ('2020-01-01'))", "does not have its column at"),
    ],
)
def test_what_is_not_known_stops_it(clause: str, reason: str) -> None:
    with pytest.raises(ReplayStopped, match=reason):
        rows_of(clause, "id", "v").of(["p0"], KeyPlaces(None, "t", table_by(clause), frozenset({"id", "v"})))
    assert rows_of(clause).of(["ALL"], KeyPlaces(None, "t", table_by(clause), frozenset())) == "TRUE"
