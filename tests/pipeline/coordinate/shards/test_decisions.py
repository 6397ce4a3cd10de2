"""What an operator decides about DDL that waits."""

import pytest

from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all
from binlog_merge.pipeline.coordinate.shards.values import Decided, Fault, Outcome
from tests.pipeline.coordinate.shards.scenario import Cluster, merged, ran, written

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
LOGICAL = ("shop", "t")
RENAME = "RENAME COLUMN a TO b"
DONE = f"ALTER TABLE `shop`.`t` {RENAME}"
WAYS = pytest.mark.parametrize("way", ["optimistic", "pessimistic"])


def order_of(made: Cluster, way: str) -> list[str]:
    """Return the merged order; every row must find its columns in the logical table."""
    return merged(made.rows.get(LOGICAL, []), made.outcome(way), join_all(made.members[LOGICAL].values()))


def waits(outcome: Outcome) -> bool:
    return any(effect.place is None for effect in outcome.effects)


@WAYS
def test_a_shard_counts_as_having_run_it(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 row", "t2 row")
    made.decide(way, "as-if-done", shard="t2")
    made.run("n2", "INSERT INTO t2 VALUES ()")  # still with a, which is b by now
    assert order_of(made, way) == ["t2@3", DONE, "t1@2", "t2@5"]
    assert not waits(made.outcome(way))


@WAYS
def test_a_shard_that_runs_it_after_all_has_then_run_it(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 row")
    made.decide(way, "as-if-done", shard="t2")
    for sql in ("INSERT INTO t2 VALUES ()", f"ALTER TABLE t2 {RENAME}", "INSERT INTO t2 VALUES ()"):
        made.run("n2", sql)
    for node, table in (("n1", "t1"), ("n2", "t2")):
        made.run(node, f"ALTER TABLE {table} ADD COLUMN c INT")
    assert order_of(made, way) == [DONE, "t1@2", "t2@4", "t2@6", "ALTER TABLE `shop`.`t` ADD COLUMN c INT"]
    assert not waits(made.outcome(way))
    assert not made.outcome(way).open


@WAYS
def test_others_are_still_awaited(way: str) -> None:
    made = ran(TABLE, "t1 t2 t3", f"t1 {RENAME}", "t1 row")
    made.decide(way, "as-if-done", shard="t2")
    made.run("n2", "INSERT INTO t2 VALUES ()")
    assert waits(made.outcome(way))
    made.run("n2", f"ALTER TABLE t2 {RENAME}")
    made.run("n2", "INSERT INTO t2 VALUES ()")
    made.run("n3", f"ALTER TABLE t3 {RENAME}")
    assert order_of(made, way) == ["t2@4", DONE, "t1@2", "t2@6"]
    assert not waits(made.outcome(way))


@WAYS
def test_other_statements_are_written_in_its_place(way: str) -> None:
    made = ran(TABLE, "t1 t2", "t1 MODIFY a VARCHAR(9)", "t1 row", "t2 row")
    made.decide(way, "emit", "ALTER TABLE shop.t MODIFY a VARCHAR(30)")
    assert order_of(made, way) == ["t2@3", "ALTER TABLE shop.t MODIFY a VARCHAR(30)", "t1@2"]
    assert not waits(made.outcome(way))


def test_behind_what_was_written_all_stand_where_it_leads() -> None:
    made = ran(TABLE, "t1 t2", "t1 MODIFY a FLOAT", "t1 row")
    made.decide("optimistic", "emit", "ALTER TABLE shop.t MODIFY a FLOAT")
    for sql in ("ALTER TABLE t1 ADD COLUMN c INT", "INSERT INTO t1 VALUES ()"):
        made.run("n1", sql)
    added = "ALTER TABLE `shop`.`t` ADD COLUMN c INT"
    assert order_of(made, "optimistic") == ["ALTER TABLE shop.t MODIFY a FLOAT", "t1@2", added, "t1@5"]
    assert not waits(made.outcome("optimistic"))


@pytest.mark.parametrize("clause", [RENAME, "MODIFY a FLOAT"])
@pytest.mark.parametrize("first", [True, False])
def test_what_a_shard_runs_before_what_was_written_stands_behind_it(clause: str, first: bool) -> None:
    made = ran(TABLE, "t1 t2 t3", f"t1 {clause}", "t1 row")
    made.decide("optimistic", "emit", f"ALTER TABLE shop.t {clause}")
    own = [f"ALTER TABLE t2 {text}" for text in ("ADD COLUMN c INT", clause)]
    for sql in (*(own if first else own[::-1]), "INSERT INTO t2 VALUES ()"):
        made.run("n2", sql)
    for node in ("n1", "n3"):
        made.run(node, f"ALTER TABLE t{node[1]} ADD COLUMN c INT")
    added = "ALTER TABLE `shop`.`t` ADD COLUMN c INT"
    wanted = [f"ALTER TABLE shop.t {clause}", "t1@2", added, "t2@6"]
    assert order_of(made, "optimistic") == wanted
    assert not waits(made.outcome("optimistic"))


@WAYS
def test_a_skipped_ddl_leaves_the_logical_table_and_its_names(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 row", "t2 row")
    made.decide(way, "skip")
    made.run("n1", "INSERT INTO t1 VALUES ()")
    assert order_of(made, way) == ["t2@3", "t1@2", "t1@5"]
    assert written(made.outcome(way)) == []


def test_names_that_are_skipped_are_not_written_for_what_stands_behind() -> None:
    again = "RENAME COLUMN b TO c"
    made = ran(TABLE, "t1 t2 t3", f"t1 {RENAME}", f"t2 {RENAME}", f"t1 {again}", f"t2 {again}")
    made.run("n4", "CREATE TABLE t4 (id INT PRIMARY KEY, c INT)")
    before = written(made.outcome("optimistic"))
    made.decide("optimistic", "skip")
    outcome = made.outcome("optimistic")
    assert written(outcome) == before
    assert not waits(outcome)


@WAYS
def test_a_skipped_ddl_of_a_shard_that_runs_it_later(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 row")
    made.decide(way, "skip")
    for sql in ("INSERT INTO t2 VALUES ()", f"ALTER TABLE t2 {RENAME}", "INSERT INTO t2 VALUES ()"):
        made.run("n2", sql)
    assert order_of(made, way) == ["t1@2", "t2@4", "t2@6"]


@WAYS
def test_what_is_decided_about_another_ddl_is_swallowed(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 row")
    made.decide(way, "skip")
    made.events[LOGICAL].append(made.events[LOGICAL][-1])
    outcome = made.outcome(way)
    assert outcome.stop is None
    assert len(outcome.swallowed) == 1
    assert isinstance(outcome.swallowed[0], Decided)


@WAYS
def test_statements_that_fail_stop(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}")
    made.decide(way, "emit", "ALTER TABLE shop.t DROP COLUMN nothing")
    check_stop(made.outcome(way))


def test_a_shard_that_could_not_have_run_it_stops() -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t2 DROP COLUMN a")
    made.decide("optimistic", "as-if-done", shard="t2")
    check_stop(made.outcome("optimistic"))


def check_stop(outcome: Outcome) -> None:
    assert outcome.stop is not None
    assert outcome.stop.fault is Fault.DECISION


@WAYS
def test_what_is_written_in_its_place_holds_for_all(way: str) -> None:
    made = ran(TABLE, "t1 t2 t3", f"t1 {RENAME}", f"t2 {RENAME}", "t1 row", "t2 row")
    made.decide(way, "emit", "ALTER TABLE shop.t CHANGE a b BIGINT")
    made.run("n3", "INSERT INTO t3 VALUES ()")
    made.run("n3", f"ALTER TABLE t3 {RENAME}")
    made.run("n1", "ALTER TABLE t1 MODIFY b BIGINT")
    for node in ("n2", "n3"):
        made.run(node, f"ALTER TABLE t{node[1]} MODIFY b BIGINT")
    assert order_of(made, way)[:4] == ["ALTER TABLE shop.t CHANGE a b BIGINT", "t1@3", "t2@4", "t3@6"]
    assert not waits(made.outcome(way))


def test_several_queue_up_and_are_decided_one_by_one() -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 RENAME COLUMN b TO c", "t1 row")
    for _ in range(2):
        made.decide("pessimistic", "as-if-done", shard="t2")
    made.run("n2", "INSERT INTO t2 VALUES ()")
    assert order_of(made, "pessimistic") == [DONE, "ALTER TABLE `shop`.`t` RENAME COLUMN b TO c", "t1@3", "t2@6"]


@WAYS
def test_a_dropped_shard_owes_nothing(way: str) -> None:
    made = ran(TABLE, "t1 t2 t3", f"t1 {RENAME}", "t1 row")
    made.decide(way, "as-if-done", shard="t2")
    made.run("n2", "DROP TABLE t2")
    made.run("n2", "CREATE TABLE t2 (id INT PRIMARY KEY, a INT)")
    for node in ("n2", "n3"):
        made.run(node, f"ALTER TABLE t{node[1]} {RENAME}")
    outcome = made.outcome(way)
    assert outcome.stop is None
    assert written(outcome) == [DONE]
    assert [one.ddl.sql for one in outcome.open] == ["DROP TABLE `shop`.`t`"]  # the others keep theirs
    made.decide(way, "skip")
    assert not waits(made.outcome(way)) and written(made.outcome(way))[0] == DONE


@WAYS
def test_a_renamed_shard_owes_what_it_owed(way: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {RENAME}", "t1 row")
    made.decide(way, "as-if-done", shard="t2")
    made.run("n2", "RENAME TABLE t2 TO t9")
    made.run("n2", "INSERT INTO t9 VALUES ()")
    made.run("n2", f"ALTER TABLE t9 {RENAME}")
    assert order_of(made, way) == [DONE, "t1@2", "t9@5"]
    assert not made.outcome(way).open
