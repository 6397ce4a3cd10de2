"""Pessimistic coordination, a case for each rule. Shard tN stands on node nN; statements come in the order written."""

import json
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.pipeline.coordinate.shards.values import Doubt, Fault, Outcome
from tests.pipeline.coordinate.shards.scenario import Cluster, check_agreement, cluster, merged, placed, ran, written

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
LOGICAL = ("shop", "t")
ALTER = "ALTER TABLE `shop`.`t` "
VECTORS = Path(__file__).parents[5] / "shared/vectors/pessimistic.json"
ORDERS: list[dict[str, Any]] = [
    case for case in (json.loads(VECTORS.read_text()) if VECTORS.exists() else []) if case["kind"] == "merged_order"
]


def outcome_of(made: Cluster) -> Outcome:
    outcome = made.outcome("pessimistic")
    order_of(made)
    return outcome


def order_of(made: Cluster) -> list[str]:
    start = next(iter(made.members.get(LOGICAL, {}).values()), None)
    return merged(made.rows.get(LOGICAL, []), made.outcome("pessimistic"), start)


def held(made: Cluster, outcome: Outcome) -> list[str]:
    return [
        f"{row.shard.table}@{row.key.commit_tso}" for row, place in placed(made.rows[LOGICAL], outcome) if place is None
    ]


@pytest.mark.skipif(not ORDERS, reason="no pessimistic.json beside the repository")
@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in ORDERS])
def test_events_come_out_as_dm_puts_them(case: dict[str, Any]) -> None:
    made = cluster(TABLE, *{f"n.{e['table']}": None for e in case["stream"]})
    ddls = {e["event"] for e in case["stream"] if e["kind"] == "ddl"}
    names = {}
    for event in case["stream"]:
        clause = f"ALTER TABLE {event['table']} ADD COLUMN {event['event']} INT"
        made.run("n", clause if event["kind"] == "ddl" else f"INSERT INTO {event['table']} VALUES ()")
        names[f"{event['table']}@{made.moment}"] = event["event"]
    names |= {f"{ALTER}ADD COLUMN {ddl} INT": ddl for ddl in ddls}
    assert [names[entry] for entry in order_of(made)] == case["expect"]["downstream_order"]


def test_a_ddl_stands_where_the_last_shard_runs_it() -> None:
    made = ran(
        TABLE, "t1 t2 t3", "t1 row", "t1 ADD COLUMN c INT", "t1 row", "t2 row", "t3 ADD COLUMN c INT", "t3 row",
        "t2 row", "t2 ADD COLUMN c INT", "t2 row",
    )  # fmt: skip
    assert order_of(made) == ["t1@1", "t2@4", "t2@7", f"{ALTER}ADD COLUMN c INT", "t1@3", "t3@6", "t2@9"]
    check_agreement(outcome_of(made))


def test_several_ddl_may_be_under_way() -> None:
    steps = ["ADD COLUMN c INT", "DROP COLUMN a", "RENAME COLUMN c TO d"]
    one = [text for step in steps for text in (f"t1 {step}", "t1 row")]
    two = [text for step in steps for text in (f"t2 {step}", "t2 row")]
    made = ran(TABLE, "t1 t2", *one, *two)
    assert order_of(made) == [
        f"{ALTER}{steps[0]}", "t1@2", "t2@8", f"{ALTER}{steps[1]}", "t1@4", "t2@10",
        f"{ALTER}{steps[2]}", "t1@6", "t2@12",
    ]  # fmt: skip
    check_agreement(outcome_of(made))


def test_rows_behind_a_ddl_that_the_last_shard_never_runs_are_held_and_named() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t1 row", "t1 ADD COLUMN d INT", "t2 row", "t1 row")
    outcome = outcome_of(made)
    assert held(made, outcome) == ["t1@2", "t1@5"]
    assert written(outcome) == []
    first, second = outcome.open
    assert (first.stage, second.stage) == ("waiting", "queued")
    assert [s.table for s in first.done] == ["t1"]
    assert [s.table for s in first.awaited] == ["t2"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("ADD COLUMN c INT", "add  column C INT"),
        ("ADD COLUMN c INT", "ADD c int DEFAULT NULL"),
        ("ADD COLUMN c INT, DROP COLUMN a", "DROP COLUMN a, ADD COLUMN c INT"),
        ("CHANGE a b INT", "RENAME COLUMN a TO b"),
        ("ADD INDEX k (a)", "ADD KEY k (a)"),
        ("ENGINE=InnoDB", "engine=innodb"),
    ],
)
def test_two_statements_that_do_the_same_are_one(one: str, two: str) -> None:
    outcome = outcome_of(ran(TABLE, "t1 t2", f"t1 {one}", f"t2 {two}"))
    assert outcome.stop is None
    assert written(outcome) == [ALTER + " ".join(two.split())]
    check_agreement(outcome)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("ADD COLUMN c INT", "ADD COLUMN c FLOAT"),
        ("ADD COLUMN c INT", "ADD COLUMN c INT DEFAULT 1"),
        ("ADD COLUMN c INT FIRST", "ADD COLUMN c INT AFTER a"),
        ("CHANGE a b INT", "DROP COLUMN a, ADD COLUMN b INT"),
        ("ADD COLUMN c INT", "ADD COLUMN d INT"),
        ("COMMENT='x'", "COMMENT='y'"),
    ],
)
def test_two_that_do_not_stop_before_the_second(one: str, two: str) -> None:
    made = ran(TABLE, "t1 t2", f"t1 {one}", "t2 row", f"t2 {two}", "t2 row")
    outcome = outcome_of(made)
    assert outcome.stop is not None
    assert (outcome.stop.fault, outcome.stop.key.commit_tso) == (Fault.DIFFERENT_DDL, 3)
    assert two in outcome.stop.detail
    assert one in outcome.stop.detail
    assert order_of(made) == ["t2@2"]


def test_a_new_shard_that_has_the_change_already_is_not_waited_for() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t3 CREATE TABLE t3 (id INT PRIMARY KEY, a INT, c INT)", "t3 row",
        "t2 ADD COLUMN c INT", "t3 row",
    )  # fmt: skip
    assert order_of(made) == [f"{ALTER}ADD COLUMN c INT", "t3@3", "t3@5"]  # but its rows wait with the others'
    check_agreement(outcome_of(made))


def test_a_new_shard_that_has_not_is_waited_for() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t3 CREATE TABLE t3 (id INT PRIMARY KEY, a INT)",
        "t2 ADD COLUMN c INT", "t3 row", "t3 ADD COLUMN c INT",
    )  # fmt: skip
    assert order_of(made) == ["t3@4", f"{ALTER}ADD COLUMN c INT"]
    check_agreement(outcome_of(made))


def test_a_new_shard_of_a_strange_schema_stops() -> None:
    outcome = outcome_of(ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t3 CREATE TABLE t3 (id INT PRIMARY KEY)"))
    assert outcome.stop is not None
    assert outcome.stop.fault is Fault.STRANGE_TABLE


def test_the_first_shard_makes_the_table() -> None:
    create = "(id INT PRIMARY KEY)"
    made = ran(TABLE, "", f"t1 CREATE TABLE t1 {create}", "t1 row", f"t2 CREATE TABLE t2 {create}", "t2 row")
    assert order_of(made) == [f"CREATE TABLE `shop`.`t` {create}", "t1@2", "t2@4"]


def test_a_dropped_shard_is_no_longer_waited_for() -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 ADD COLUMN c INT", "t1 row", "t2 ADD COLUMN c INT", "t3 DROP TABLE t3", "t2 row")
    assert order_of(made) == [f"{ALTER}ADD COLUMN c INT", "t1@2", "t2@5"]
    check_agreement(outcome_of(made))


def test_what_a_dropped_shard_alone_has_run_is_not_expected_of_the_others() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 RENAME COLUMN a TO b", "t1 row", "t1 DROP TABLE t1", "t2 ADD COLUMN c INT", "t2 row"
    )  # fmt: skip
    assert order_of(made) == ["t1@2", f"{ALTER}ADD COLUMN c INT", "t2@5"]
    check_agreement(outcome_of(made))


def test_what_others_have_run_too_is_still_waited_for_by_a_dropped_shards_rows() -> None:
    made = ran(
        TABLE, "t1 t2 t3", "t1 ADD COLUMN c INT", "t1 row", "t2 ADD COLUMN c INT", "t1 DROP TABLE t1", "t3 row",
        "t3 ADD COLUMN c INT",
    )  # fmt: skip
    assert order_of(made) == ["t3@5", f"{ALTER}ADD COLUMN c INT", "t1@2"]
    check_agreement(outcome_of(made))


def test_the_table_is_dropped_with_its_last_shard() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t1 DROP TABLE t1", "t2 row", "t2 DROP TABLE t2")
    assert order_of(made) == ["t2@3", "DROP TABLE `shop`.`t`"]


def test_a_truncated_shard_empties_the_table_with_the_last_one() -> None:
    made = ran(TABLE, "t1 t2", "t1 TRUNCATE TABLE t1", "t1 row", "t2 row")
    assert order_of(made) == ["t2@3"]
    made.run("n2", "TRUNCATE TABLE t2")
    assert order_of(made) == ["t2@3", "TRUNCATE TABLE `shop`.`t`", "t1@2"]
    assert written(outcome_of(ran(TABLE, "t1", "t1 TRUNCATE TABLE t1"))) == ["TRUNCATE TABLE `shop`.`t`"]


def test_a_renamed_shard_stays_one_and_waits_under_its_new_name() -> None:
    made = ran(TABLE, "t1 t2", "t1 RENAME TABLE t1 TO t9", "t2 ADD COLUMN c INT")
    made.run("n1", "ALTER TABLE t9 ADD COLUMN c INT")
    check_agreement(outcome_of(made))
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t1 RENAME TABLE t1 TO t9")
    (waiting,) = made.outcome("pessimistic").open
    assert [shard.table for shard in waiting.done] == ["t9"]
    made.run("n2", "ALTER TABLE t2 ADD COLUMN c INT")
    check_agreement(outcome_of(made))


def test_a_moment_as_default_is_told() -> None:
    clause = "ADD COLUMN c DATETIME DEFAULT now()"
    outcome = outcome_of(ran(TABLE, "t1 t2", f"t1 {clause}", f"t2 {clause}"))
    assert [(f.doubt, f.shard.table) for f in outcome.findings] == [(Doubt.MOMENT, "t1")]
    assert outcome_of(ran(TABLE, "t1 t2", "t1 ADD c INT DEFAULT 1", "t2 ADD c INT DEFAULT 1")).findings == ()


@pytest.mark.parametrize("default", ["", " DEFAULT 77"])
def test_a_column_dropped_and_added_by_all_is_no_doubt(default: str) -> None:
    clause = f"DROP COLUMN a, ADD COLUMN a INT{default}"
    assert outcome_of(ran(TABLE, "t1 t2", f"t1 {clause}", f"t2 {clause}")).findings == ()


def test_a_column_that_one_shard_empties_and_another_does_not_is_told() -> None:
    outcome = outcome_of(ran(TABLE, "t1 t2", "t1 DROP COLUMN a, ADD COLUMN a BIGINT", "t2 MODIFY a BIGINT"))
    assert [(f.doubt, f.shard.table) for f in outcome.findings] == [(Doubt.READDED, "t1")]


def test_one_shard_alone_waits_for_nobody() -> None:
    made = ran(TABLE, "t1", "t1 ADD COLUMN c INT", "t1 row", "t1 RENAME COLUMN a TO b", "t1 row")
    assert order_of(made) == [f"{ALTER}ADD COLUMN c INT", "t1@2", f"{ALTER}RENAME COLUMN a TO b", "t1@4"]
