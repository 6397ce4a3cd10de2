"""Partitioning as text: back exactly, and what versions before the second line wrote."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot_store import parse_table
from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.model import Catalog, Schema
from snapshot_store.partitioning import Partitioning
from snapshot_store.render_sql import create_sql
from tests.mysql_server import MySqlServer
from tests.snapshot_store.mysql_compare import connect, query

NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=8)
TUPLES = st.lists(st.lists(st.text(max_size=6), min_size=1).map(tuple), max_size=3).map(tuple)
PARTS = st.lists(st.tuples(NAMES, st.sampled_from(("", "10", "-3", "MAXVALUE")), TUPLES), min_size=1, max_size=4)


@given(st.sampled_from(("RANGE", "LIST COLUMNS", "HASH", "KEY")), st.lists(NAMES), PARTS, st.text(), st.integers(0, 9))
def test_text_and_back(method: str, columns: list[str], parts: list[tuple[str, str, object]], by: str, n: int) -> None:
    names, bounds, values = (tuple(part[i] for part in parts) for i in range(3))
    found = Partitioning(method, tuple(columns), names, bounds, (), values, by, n > 3, by, n, n > 5)  # type: ignore[arg-type]
    assert Partitioning.of(found.text()) == found


def test_texts_without_values() -> None:
    text = "RANGE (`at`) (`p0`<10,`p1`<MAXVALUE) (`a`)"
    found = Partitioning.of(text)
    assert found.text() == text
    assert (found.names, found.bounds, found.subpartitions, found.values) == (
        ("p0", "p1"),
        ("10", "MAXVALUE"),
        ("a",),
        (),
    )
    assert [part[2] for part in found.parts] == [(), ()]


def test_moments_in_bounds_are_the_sessions() -> None:
    sql = "CREATE TABLE t (at TIMESTAMP) PARTITION BY RANGE (UNIX_TIMESTAMP(at)) (PARTITION p VALUES LESS THAN (%s))"
    catalog, sql = Catalog().with_schema(Schema("s")), sql % "UNIX_TIMESTAMP('2020-01-01') - 1"
    for zone, bound in (
        ("+08:00", "1577808000"),
        ("Asia/Shanghai", "1577808000"),
        ("", "unix_timestamp(_utf8mb4'2020-01-01')"),
    ):
        after = apply_ddl(catalog, sql, "s", DdlSession(time_zone=zone)).catalog
        assert after.table("s", "t").partitioning.values == (((f"({bound} - 1)",),),)


CLAUSES = [
    "PARTITION BY HASH (a)",
    "PARTITION BY HASH (a) PARTITIONS 4",
    "PARTITION BY LINEAR HASH (a + 1) PARTITIONS 3",
    "PARTITION BY HASH (a) (PARTITION x, PARTITION `y``z`)",
    "PARTITION BY KEY () PARTITIONS 3",
    "PARTITION BY LINEAR KEY (a, b) PARTITIONS 3",
    "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (-5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2024-01-01')), "
    "PARTITION p1 VALUES LESS THAN (MAXVALUE))",
    "PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2024-01-01'), "
    "PARTITION p1 VALUES LESS THAN (MAXVALUE))",
    "PARTITION BY RANGE COLUMNS (a, s) (PARTITION p0 VALUES LESS THAN (1, 'm'), "
    "PARTITION p1 VALUES LESS THAN (MAXVALUE, MAXVALUE))",
    "PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1, 2, NULL), PARTITION p1 VALUES IN (3))",
    "PARTITION BY LIST COLUMNS (s) (PARTITION p0 VALUES IN ('it''s', 'b'), PARTITION p1 VALUES IN ('c'))",
    "PARTITION BY LIST COLUMNS (a, s) (PARTITION p0 VALUES IN ((1, 'a'), (NULL, 'b')), "
    "PARTITION p1 VALUES IN ((3, 'x')))",
    "PARTITION BY RANGE (a) SUBPARTITION BY HASH (b) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (5), "
    "PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "PARTITION BY RANGE COLUMNS (a, b) SUBPARTITION BY LINEAR KEY (b, s) SUBPARTITIONS 2 "
    "(PARTITION p0 VALUES LESS THAN (5, 1), PARTITION p1 VALUES LESS THAN (9, MAXVALUE))",
    "PARTITION BY RANGE (a) SUBPARTITION BY KEY (a, b) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (5))",
    "PARTITION BY RANGE (a + b) SUBPARTITION BY KEY (b) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (5))",
    "PARTITION BY LIST (a) SUBPARTITION BY KEY (b) (PARTITION p0 VALUES IN (5) (SUBPARTITION x, SUBPARTITION y), "
    "PARTITION p1 VALUES IN (6) (SUBPARTITION v, SUBPARTITION w))",
]
COLUMNS = "a INT, b INT, d DATE NOT NULL, s VARCHAR(9)"


@pytest.mark.mysql
def test_a_table_made_anew_has_the_partitions_it_had(mysql_server: MySqlServer) -> None:
    told = (  # KEY () is by the primary key
        "SELECT partition_name, subpartition_name, partition_method, subpartition_method, "
        "IF(partition_method = 'KEY', IFNULL(partition_expression, '`a`,`b`'), partition_expression), "
        "subpartition_expression, partition_description FROM information_schema.partitions "
        "WHERE table_schema = 'anew' AND table_name = 't' ORDER BY partition_ordinal_position, "
        "subpartition_ordinal_position"
    )
    with connect(mysql_server) as session:
        for clause in CLAUSES:
            key = ", PRIMARY KEY (a, b)" if "KEY ()" in clause else ""
            sql = f"CREATE TABLE anew.t ({COLUMNS}{key}) {clause}"
            query(session, "DROP DATABASE IF EXISTS anew")
            query(session, "CREATE DATABASE anew")
            query(session, sql)
            there = query(session, told)
            table = parse_table(sql)
            query(session, "DROP TABLE anew.t")
            query(session, create_sql(table, qualified=True))
            assert query(session, told) == there, clause
        query(session, "DROP DATABASE anew")


def test_partitions_of_which_not_all_is_known_are_not_guessed() -> None:
    known = parse_table(f"CREATE TABLE t ({COLUMNS}) {CLAUSES[6]}").partitioning
    assert known.sql() is not None
    assert replace(known, expression="").sql() is None  # as an older version wrote it
    assert replace(known, values=((), ())).sql() is None
