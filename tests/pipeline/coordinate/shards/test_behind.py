"""Shards made as their logical table was earlier, in mode pessimistic: what they owe, and when rows wait for it."""

from binlog_merge.pipeline.coordinate.shards.values import Doubt, Outcome
from tests.pipeline.coordinate.shards.scenario import Cluster, check_agreement, merged, placed, ran, written

MADE = "(id INT PRIMARY KEY, a INT, b INT)"
ALTER = "ALTER TABLE `shop`.`t` "
LOGICAL = ("shop", "t")


def made(*statements: str) -> Cluster:
    return ran("", "", f"t1 CREATE TABLE t1 {MADE}", *statements)


def outcome_of(cluster: Cluster) -> Outcome:
    outcome = cluster.outcome("pessimistic")
    merged(cluster.rows.get(LOGICAL, []), outcome, None, cluster.events[LOGICAL])
    return outcome


def held(cluster: Cluster) -> list[str]:
    outcome = cluster.outcome("pessimistic")
    return [f"{row.shard.table}@{row.key.commit_tso}" for row, at in placed(cluster.rows[LOGICAL], outcome) if not at]


def stages(outcome: Outcome) -> list[tuple[str, list[str]]]:
    return [(one.stage, [shard.table for shard in one.awaited]) for one in outcome.open]


def test_rows_that_the_logical_table_takes_do_not_wait() -> None:
    cluster = made("t1 ADD COLUMN c INT DEFAULT 3", f"t2 CREATE TABLE t2 {MADE}", "t2 row")
    outcome = outcome_of(cluster)
    assert (held(cluster), stages(outcome)) == ([], [("spreading", ["t2"])])
    cluster = made("t1 ADD COLUMN c INT", f"t2 CREATE TABLE t2 {MADE}", "t2 row", "t2 ADD COLUMN c INT", "t2 row")
    outcome = outcome_of(cluster)
    assert written(outcome)[1:] == [f"{ALTER}ADD COLUMN c INT"] and not outcome.open
    check_agreement(outcome)


def test_rows_wait_while_they_have_what_is_not_there_any_more() -> None:
    late = (f"t2 CREATE TABLE t2 {MADE}", "t2 row", "t2 ADD COLUMN c INT", "t2 row")
    cluster = made("t1 ADD COLUMN c INT", "t1 DROP COLUMN b", "t1 COMMENT='x'", *late)
    outcome = outcome_of(cluster)
    assert held(cluster) == ["t2@6", "t2@8"]
    assert stages(outcome) == [("behind", ["t2"]), ("queued", ["t2"])]
    cluster.run("n2", "ALTER TABLE t2 DROP COLUMN b")
    outcome = outcome_of(cluster)
    assert (held(cluster), stages(outcome)) == ([], [("spreading", ["t2"])])
    assert not outcome.findings


def test_several_are_paid_by_one_that_comes_to_the_same() -> None:
    cluster = made(
        "t1 RENAME COLUMN a TO c", "t1 ADD INDEX k (c)", f"t2 CREATE TABLE t2 {MADE}", "t2 row",
        "t2 RENAME COLUMN a TO c, ADD INDEX k (c)", "t2 row",
    )  # fmt: skip
    check_agreement(outcome_of(cluster))
    assert not held(cluster)


def test_a_new_ddl_waits_for_a_shard_that_is_behind() -> None:
    cluster = made("t1 ADD COLUMN c INT", f"t2 CREATE TABLE t2 {MADE}", "t1 ADD COLUMN d INT", "t1 row")
    assert held(cluster) == ["t1@5"]
    for name in ("c", "d"):
        cluster.run("n2", f"ALTER TABLE t2 ADD COLUMN {name} INT")
    outcome = outcome_of(cluster)
    assert written(outcome)[1:] == [f"{ALTER}ADD COLUMN c INT", f"{ALTER}ADD COLUMN d INT"]
    check_agreement(outcome)


def test_what_is_done_and_undone_may_be_done_again_or_anew() -> None:
    """A table made again as it was at first may owe both, or may not: its rows wait while that cannot be known."""
    undone = ("t1 ADD COLUMN c INT", "t1 DROP COLUMN c", f"t2 CREATE TABLE t2 {MADE}", "t2 row")
    cluster = made(*undone)
    assert (held(cluster), stages(outcome_of(cluster))) == ([], [])
    cluster = made(*undone, "t2 ADD COLUMN c INT", "t2 row")
    assert (held(cluster), stages(outcome_of(cluster))) == (["t2@7"], [("behind", ["t2"])])
    cluster.run("n2", "ALTER TABLE t2 DROP COLUMN c")  # it was the rest of the program
    assert (held(cluster), stages(outcome_of(cluster))) == ([], [])
    cluster = made(*undone, "t2 ADD COLUMN c INT", "t2 row", "t1 ADD COLUMN c INT", "t1 row")  # it was a new one
    assert (held(cluster), stages(outcome_of(cluster))) == ([], [])
    assert written(outcome_of(cluster))[-1] == f"{ALTER}ADD COLUMN c INT"


def test_a_shard_that_never_follows_can_count_as_if_it_had() -> None:
    cluster = made("t1 RENAME COLUMN a TO c", f"t2 CREATE TABLE t2 {MADE}", "t2 row")
    assert held(cluster) == ["t2@4"]
    cluster.decide("pessimistic", "as-if-done", shard="t2")
    cluster.run("n2", "INSERT INTO t2 VALUES ()")
    assert (held(cluster), outcome_of(cluster).open) == ([], ())
    cluster.run("n2", "ALTER TABLE t2 RENAME COLUMN a TO c")
    cluster.run("n2", "INSERT INTO t2 VALUES ()")
    check_agreement(outcome_of(cluster))


def test_one_that_is_dropped_instead_lets_its_rows_go() -> None:
    cluster = made("t1 RENAME COLUMN a TO c", f"t2 CREATE TABLE t2 {MADE}", "t2 row", "t2 DROP TABLE t2", "t1 row")
    outcome_of(cluster)
    assert held(cluster) == []


def test_a_value_of_the_moment_is_in_doubt() -> None:
    clause = "ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP"
    cluster = made(f"t1 {clause}", f"t2 CREATE TABLE t2 {MADE}", "t2 row", f"t2 {clause}")
    assert [(f.doubt, f.shard.table) for f in outcome_of(cluster).findings] == [(Doubt.MOMENT, "t2")]
    clauses = ("DROP COLUMN b", "ADD COLUMN b INT")
    steps = [f"{t} {clause}" for t in ("t1", "t2") for clause in clauses]
    cluster = made(*steps[:2], f"t2 CREATE TABLE t2 {MADE}", "t2 row", *steps[2:])
    assert [f.doubt for f in outcome_of(cluster).findings] == [Doubt.READDED]
