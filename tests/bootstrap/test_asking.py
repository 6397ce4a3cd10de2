"""The SQL of chunks, how many rows they have, and when a log has what was read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.bootstrap.nodes import difference, next_rows
from binlog_merge.bootstrap.plan import check_tables, chunk_sql
from binlog_merge.bootstrap.published import unpublished
from binlog_merge.bootstrap.values import Chunk, End, Reading, Shard
from binlog_merge.errors import UnsupportedInput
from binlog_merge.files.manifest import ManifestState, NodeState, Publish
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table

SHARD = Shard("dn-1", "s", "t")


def table(body: str) -> Table:
    return parse_dump(f"CREATE DATABASE s; USE s; CREATE TABLE t ({body});").table("s", "t")


def reading(body: str, key: tuple[int, ...] = (0,)) -> Reading:
    found = table(body)
    return Reading(found, found.columns, key)


def test_a_chunk_goes_on_behind_a_key() -> None:
    of = reading("a INT, b VARCHAR(9) CHARACTER SET latin1, c ENUM('x'), PRIMARY KEY (a, b, c)", (0, 1, 2))
    sql = chunk_sql(SHARD, of, ("7", "E4", "1"), 10, as_text=True)
    assert sql == (
        "SELECT CAST(`a` AS CHAR), CONVERT(`b` USING utf8mb4), CONVERT(`c` USING utf8mb4), CAST(`a` AS CHAR), "
        "HEX(`b`), CAST(`c` + 0 AS CHAR) FROM `s`.`t` "
        "WHERE `a` >= 7 AND ((`a` > 7) OR (`a` = 7 AND `b` > _latin1 x'E4') OR "
        "(`a` = 7 AND `b` = _latin1 x'E4' AND `c` + 0 > 1)) "
        "ORDER BY `a`, `b`, `c` + 0 LIMIT 10"
    )


@given(st.integers(1, 10_000), st.integers(1, 2_000_000))
def test_chunks_have_fewer_rows_where_these_are_long(rows: int, length: int) -> None:
    chunk = Chunk(SHARD, reading("a INT PRIMARY KEY"), [("x" * length, None)], None, False)
    found = next_rows(chunk, rows, 10_000)
    assert 1 <= found <= min(10_000, 8 * rows) and (found == 1 or found * length <= rows * (8 << 20))


@pytest.mark.parametrize(
    ("physical", "reason"),
    [
        ("a INT PRIMARY KEY, b INT, z INT", None),
        ("b INT, a INT PRIMARY KEY", None),
        ("a INT PRIMARY KEY", "it has no column b"),
        ("a INT PRIMARY KEY, b INT UNSIGNED", "its column b has another type"),
        ("a INT PRIMARY KEY, b INT NOT NULL", None),
    ],
)
def test_a_shard_is_read_only_as_what_the_logical_table_is(physical: str, reason: str | None) -> None:
    assert difference(reading("a INT PRIMARY KEY, b INT"), table(physical)) == reason


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("a INT PRIMARY KEY", ""),
        ("a INT NOT NULL UNIQUE", ""),
        ("a INT UNIQUE", "no primary key"),
        ("a INT", "no primary key"),
        ("a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES p (id) ON DELETE SET NULL", "foreign keys of s.t"),
        ("a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES p (id) ON DELETE RESTRICT", ""),
    ],
)
def test_tables_whose_rows_cannot_be_made_right_are_refused(body: str, refused: str) -> None:
    if not refused:
        check_tables([table(body)], logs_cascades=False)
        return
    with pytest.raises(UnsupportedInput, match=refused):
        check_tables([table(body)], logs_cascades=False)


@pytest.mark.parametrize(
    ("resume", "end", "there"),
    [
        ({"file": "b.000002", "position": 500}, End("b.000002", 500), True),
        ({"file": "b.000002", "position": 500}, End("b.000002", 501), False),
        ({"file": "b.000010"}, End("b.000009", 900), True),
        ({"file": "b.999999", "position": 4}, End("b.1000000", 4), False),
        ({"file": "other/b.000009", "position": 4}, End("b.000002", 4), False),
    ],
)
def test_a_log_has_what_stands_before_where_its_merge_goes_on(resume: dict[str, object], end: End, there: bool) -> None:
    node = NodeState("b.000010", 4, {"file": resume["file"], "resume": resume})
    state = ManifestState(last=Publish(1, (), None, None, 0, {}, {"dn-1": node}))
    assert (unpublished(state, {"dn-1": end}) == {}) is there
    assert set(unpublished(state, {"dn-2": end})) == {"dn-2"}
