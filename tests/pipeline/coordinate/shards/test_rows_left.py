"""Rows of one shard of several that go without a row event: the target keeps them, and it is told, shard by shard."""

from copy import deepcopy

import pytest

from binlog_merge.pipeline.coordinate.shards import pessimistic
from binlog_merge.pipeline.coordinate.shards.removals import short_lived
from binlog_merge.pipeline.coordinate.shards.values import Decided, Doubt, Fault, Outcome
from binlog_merge.pipeline.order.waits import Waits
from tests.pipeline.coordinate.shards.scenario import SESSION, Cluster, merged, placed, ran, written

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
PARTITIONED = (
    f"{TABLE} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN MAXVALUE)"
)
WAYS = ("pessimistic", "optimistic")


def told(outcome: Outcome) -> list[str]:
    """Return the shards whose rows stay; all that is told is about rows."""
    assert {finding.doubt for finding in outcome.findings} <= {Doubt.ROWS}
    assert all("shop.t keeps the rows" in f.detail and str(f.shard) in f.detail for f in outcome.findings)
    assert all("delete the rows of" in f.remedy for f in outcome.findings)
    return [finding.shard.table for finding in outcome.findings]


def waiting(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Return what waits: its first word, the shards that have run it, and those awaited."""
    return [
        (one.ddl.sql.split()[0], *(" ".join(s.table for s in found) for found in (one.done, one.awaited)))
        for one in outcome.open
    ]


AGAIN = "t2 CREATE TABLE t2 (id INT PRIMARY KEY, a INT)"
BEHIND = ["t2 DROP TABLE t2", AGAIN, "t2 ADD COLUMN c INT", "t1 DROP TABLE t1"]  # t1 has yet to do what t2 has


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("statements", "waits"),
    [
        (["t1 TRUNCATE TABLE t1"], [("TRUNCATE", "t1", "t2")]),
        (["t1 TRUNCATE TABLE t1", "t1 TRUNCATE TABLE t1"], [("TRUNCATE", "t1", "t2")] * 2),
        (["t2 DROP TABLE t2"], [("DROP", "t2", "t1")]),
        (["t2 DROP TABLE t2", AGAIN], [("DROP", "t2", "t1")]),
        (["t2 DROP TABLE t2", AGAIN, "t2 ADD COLUMN c INT", "t2 DROP TABLE t2", AGAIN], [("DROP", "t2", "t1")]),
        ([*BEHIND, "t2 DROP TABLE t2"], [("DROP", "t2", "t1")]),
        ([*BEHIND, "t2 TRUNCATE TABLE t2"], [("TRUNCATE", "t2", "t1")]),
        (["t1 ADD COLUMN c INT", "t1 TRUNCATE TABLE t1", "t2 ADD COLUMN c INT"], [("TRUNCATE", "t1", "t2")]),
    ],
)
def test_shards_of_several(way: str, statements: list[str], waits: list[tuple[str, str, str]]) -> None:
    outcome = ran(TABLE, "t1 t2", *statements).outcome(way)
    assert told(outcome) == [] and [one for one in waiting(outcome) if one[0] != "ALTER"] == waits
    removing = [sql for sql in written(outcome) if "TRUNCATE" in sql or "DROP TABLE" in sql]
    assert removing == [DROP] * (statements[: len(BEHIND)] == BEHIND)


DROP, TRUNCATE, CREATE = (f"{word} TABLE `shop`.`t`" for word in ("DROP", "TRUNCATE", "CREATE"))
LATER = AGAIN.replace("t2", "t1")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["t1 TRUNCATE TABLE t1", "t2 TRUNCATE TABLE t2"], [TRUNCATE]),
        (["t1 TRUNCATE TABLE t1", "t1 TRUNCATE TABLE t1", *["t2 TRUNCATE TABLE t2"] * 2], [TRUNCATE, TRUNCATE]),
        (["t2 DROP TABLE t2", "t1 TRUNCATE TABLE t1"], [TRUNCATE]),  # rows of t2 go, too
        (["t2 TRUNCATE TABLE t2", "t1 DROP TABLE t1"], [TRUNCATE]),
        (["t2 DROP TABLE t2", AGAIN, "t1 TRUNCATE TABLE t1"], [TRUNCATE]),
        (["t1 DROP TABLE t1", "t2 DROP TABLE t2"], [DROP]),
        (["t2 DROP TABLE t2", AGAIN, "t1 DROP TABLE t1"], [DROP, CREATE]),
        (["t2 DROP TABLE t2", AGAIN, "t1 DROP TABLE t1", LATER], [DROP, CREATE]),
        (
            ["t2 DROP TABLE t2", AGAIN, "t2 TRUNCATE TABLE t2", "t1 DROP TABLE t1", LATER, "t1 TRUNCATE TABLE t1"],
            [DROP, CREATE, TRUNCATE],
        ),
        (
            [
                *["t2 TRUNCATE TABLE t2"] * 2,
                *("t2 DROP TABLE t2", AGAIN, "t2 TRUNCATE TABLE t2"),
                *["t1 TRUNCATE TABLE t1"] * 2,
                *("t1 DROP TABLE t1", LATER, "t1 TRUNCATE TABLE t1"),
            ],
            [TRUNCATE, TRUNCATE, DROP, CREATE, TRUNCATE],
        ),
        (["t2 TRUNCATE TABLE t2", "t2 DROP TABLE t2", "t1 DROP TABLE t1"], [DROP]),
        (["t2 DROP TABLE t2", AGAIN] * 2 + ["t1 DROP TABLE t1", LATER] * 2, [DROP, CREATE] * 2),
        (["t2 DROP TABLE t2", AGAIN] * 3 + ["t1 DROP TABLE t1", LATER] * 3, [DROP, CREATE] * 3),
    ],
)
def test_what_all_shards_run_is_written_once(way: str, statements: list[str], expected: list[str]) -> None:
    outcome = ran(TABLE, "t1 t2", *statements).outcome(way)
    assert outcome.stop is None and told(outcome) == [] and waiting(outcome) == []
    assert [" ".join(sql.split()[:3]) for sql in written(outcome)] == expected
    assert outcome.quiet is not None and not outcome.quiet[1].rows_left


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("emptied", ["TRUNCATE TABLE t1", "TRUNCATE PARTITION p", "DROP PARTITION p"])
@pytest.mark.parametrize(("then", "gone"), [("DROP TABLE t2", True), ("", False)])
def test_rows_after_one_shard_has_emptied_its_table_wait_for_the_drop(
    way: str, emptied: str, then: str, gone: bool
) -> None:
    """Rows with the same keys are on the target until all drop or empty their tables, or it is decided otherwise."""
    assert is_gone(way, emptied, then) is gone


def test_rows_of_a_dropped_shard_go_with_those_that_the_others_truncate() -> None:
    assert is_gone("pessimistic", "TRUNCATE PARTITION p", "TRUNCATE TABLE t2")


def is_gone(way: str, emptied: str, then: str) -> bool:
    """Return whether a row that t1 has inserted between emptying and dropping its table never comes out."""
    made = ran(PARTITIONED, "t1 t2", f"t1 {emptied}", "t1 row", "t1 DROP TABLE t1")
    assert placed(made.rows["shop", "t"], made.outcome(way))[0][1] is None
    if then:
        made.run("n2", then)
    while any(one.stage == "waiting" for one in made.outcome(way).open):
        made.decide(way, "skip")
    outcome = made.outcome(way)
    ((row, place),) = placed(made.rows["shop", "t"], outcome)
    assert place is not None and place.key.commit_tso == made.moment and outcome.quiet is not None
    return Waits(outcome.effects).gone(row.shard, row.key, place)


def test_shards_that_do_something_else_do_not_follow() -> None:
    """Pessimistic: all shards run the same in the same order, so it is known then that the rows stay."""
    outcome = ran(TABLE, "t1 t2", "t1 DROP TABLE t1", "t2 ADD COLUMN c INT").outcome("pessimistic")
    assert told(outcome) == ["t1"] and waiting(outcome) == []
    assert outcome.findings[0].at is not None and "ddl resolve shop.t --skip" in outcome.findings[0].remedy
    assert "t2 runs" in outcome.findings[0].detail
    for ran_before in ("t1 ADD COLUMN c INT", "t1 TRUNCATE TABLE t1"):
        made = ran(TABLE, "t1 t2", ran_before, "t1 DROP TABLE t1", ran_before.replace("t1", "t2"), "t2 DROP TABLE t2")
        assert told(made.outcome("pessimistic")) == [] and written(made.outcome("pessimistic"))[-1] == DROP


@pytest.mark.parametrize("way", WAYS)
def test_decisions(way: str) -> None:
    skipped = ran(TABLE, "t1 t2", "t2 DROP TABLE t2", AGAIN)
    skipped.decide(way, "skip")
    assert (written(skipped.outcome(way)), waiting(skipped.outcome(way))) == ([], [])
    assert {shard.table for shard in skipped.outcome(way).members} == {"t1", "t2"}
    late = ran(TABLE, "t1 t2", "t2 DROP TABLE t2", AGAIN)
    late.decide(way, "as-if-done", shard="t1")
    assert [sql[:4] for sql in written(late.outcome(way))] == ["DROP", "CREA"]
    assert waiting(late.outcome(way)) == [] and late.outcome(way).quiet is None  # what t1 writes waits
    for text in ("ALTER TABLE t1 ADD COLUMN z INT", "DROP TABLE t1", "CREATE TABLE t1 (id INT PRIMARY KEY, a INT)"):
        late.run("n1", text)
    assert late.outcome(way).stop is None and len(written(late.outcome(way))) == 2
    assert late.outcome(way).quiet is not None
    for made, count in (
        (ran(TABLE, "t1 t2 t3", "t2 TRUNCATE TABLE t2"), 0),
        (ran(TABLE, "t1 t2", "t2 TRUNCATE TABLE t2"), 1),
    ):
        made.decide(way, "as-if-done", shard="t1")
        assert len(written(made.outcome(way))) == count
        made.run("n1", "TRUNCATE TABLE t1")
        assert len(written(made.outcome(way))) == count
        assert waiting(made.outcome(way)) == [("TRUNCATE", "t1 t2", "t3")][count:]
    made = ran(TABLE, "t1 t2", "t2 TRUNCATE TABLE t2", "t2 row")
    made.decide(way, "skip")
    assert written(made.outcome(way)) == [] and made.outcome(way).quiet is not None


def comes_out(made: Cluster, way: str) -> list[tuple[str, int | None, bool]]:
    """Return of each row its shard, the moment at which it comes out, and whether it is gone by then."""
    outcome = made.outcome(way)
    waits = Waits(outcome.effects)
    return [
        (row.shard.table, None, False)
        if place is None
        else (row.shard.table, place.key.commit_tso, waits.gone(row.shard, row.key, place))
        for row, place in placed(made.rows["shop", "t"], outcome)
    ]


EMPTYING = {"TRUNCATE TABLE {0}": TRUNCATE} | {
    f"ALTER TABLE {{0}} {what} PARTITION p": f"ALTER TABLE `shop`.`t` {what} PARTITION p"
    for what in ("TRUNCATE", "DROP")
}


def follows_late(way: str, statement: str, shards: str) -> Cluster:
    """Return a cluster in which t2 counts as having emptied its table as t1 has; it writes before and after it does."""
    made = ran(PARTITIONED, shards, "t1 row")
    made.run("n1", statement.format("t1"))
    made.run("n1", "INSERT INTO t1 VALUES ()")
    made.decide(way, "as-if-done", shard="t2")
    for text in ("INSERT INTO t2 VALUES ()", statement.format("t2"), "INSERT INTO t2 VALUES ()"):
        made.run("n2", text)
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("statement", EMPTYING)
def test_a_shard_pays_what_it_counts_as_having_run(way: str, statement: str) -> None:
    """It is written at the decision; rows that the shard writes until then go with it, in partitions they may stay."""
    made, partly = follows_late(way, statement, "t1 t2"), "PARTITION" in statement
    outcome = made.outcome(way)
    assert (written(outcome), waiting(outcome)) == ([EMPTYING[statement]], []) and outcome.quiet is not None
    late = ("t2", 5, False) if partly else ("t2", 6, True)
    assert comes_out(made, way) == [("t1", 1, False), ("t1", 4, False), late, ("t2", 7, False)]
    assert [(f.shard.table, f.key.commit_tso, f.if_rows) for f in outcome.findings] == [("t2", 6, True)] * partly
    assert all("since then" in f.detail and "delete the rows of" in f.remedy for f in outcome.findings)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("statement", EMPTYING)
@pytest.mark.parametrize("then", ["run", "skip", "drop"])
def test_a_shard_pays_before_all_others_have_run_it(way: str, statement: str, then: str) -> None:
    """What it writes after its own statement waits for the others, as all rows do that come after it."""
    made, partly = follows_late(way, statement, "t1 t2 t3"), "PARTITION" in statement
    late = ("t2", 5, False) if partly else ("t2", 6, True)
    assert comes_out(made, way) == [("t1", 1, False), ("t1", None, False), late, ("t2", None, False)]
    assert [one[1:] for one in waiting(made.outcome(way))] == [("t1 t2", "t3")]
    if then == "run":
        made.run("n3", statement.format("t3"))
    elif then == "skip":
        made.decide(way, "skip")
    else:
        made.run("n3", "DROP TABLE t3")
    outcome = made.outcome(way)
    assert written(outcome) == [EMPTYING[statement]] * (then != "skip")
    assert (waiting(outcome), outcome.findings) == ([("DROP", "t3", "t1 t2")] * (partly and then == "drop"), ())
    assert comes_out(made, way) == [("t1", 1, False), ("t1", 8, False), late, ("t2", 8, False)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("statement", EMPTYING)
def test_a_shard_counts_as_having_emptied_its_table_twice(way: str, statement: str) -> None:
    made, partly = ran(PARTITIONED, "t1 t2"), "PARTITION" in statement
    second = statement.replace("PARTITION p", "PARTITION q")
    for text in (statement, second):
        made.run("n1", text.format("t1"))
    for _ in range(2):
        made.decide(way, "as-if-done", shard="t2")
    assert len(written(made.outcome(way))) == 2 and waiting(made.outcome(way)) == []
    for text in (second, statement):
        made.run("n2", "INSERT INTO t2 VALUES ()")
        made.run("n2", text.format("t2"))
    made.run("n2", "INSERT INTO t2 VALUES ()")
    outcome = made.outcome(way)
    assert len(written(outcome)) == 2 and waiting(outcome) == [] and outcome.quiet is not None
    assert [gone for _, _, gone in comes_out(made, way)] == [not partly, not partly, False]
    assert len(outcome.findings) == 2 * partly


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("statement", EMPTYING)
def test_another_statement_pays_nothing(way: str, statement: str) -> None:
    """Of what a shard counts as having run: another one waits as new, or is run in another order."""
    made = ran(PARTITIONED, "t1 t2", "t1 row")
    made.run("n1", statement.format("t1"))
    made.decide(way, "as-if-done", shard="t2")
    other = "ALTER TABLE t2 TRUNCATE PARTITION q" if statement[-9:] == "TABLE {0}" else "TRUNCATE TABLE t2"
    made.run("n2", other)
    assert [one[1:] for one in waiting(made.outcome(way))] == [("t2", "t1")]
    made.run("n1", other.replace("t2", "t1"))
    assert waiting(made.outcome(way)) == [] and len(written(made.outcome(way))) == 2
    made.run("n2", statement.format("t2"))
    outcome = made.outcome(way)
    assert waiting(outcome) == [] and len(written(outcome)) == 2 and outcome.quiet is not None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("statement", EMPTYING)
@pytest.mark.parametrize("then", ["DROP TABLE t2", "RENAME TABLE t2 TO t9"])
def test_a_shard_that_owes_is_dropped_or_renamed(way: str, statement: str, then: str) -> None:
    made = ran(PARTITIONED, "t1 t2 t3")
    made.run("n1", statement.format("t1"))
    made.decide(way, "as-if-done", shard="t2")
    made.run("n2", then)
    if "RENAME" in then:
        made.run("n2", statement.format("t9"))
        made.run("n3", statement.format("t3"))
        assert waiting(made.outcome(way)) == [] and made.outcome(way).findings == ()
        assert written(made.outcome(way)) == [EMPTYING[statement]]
        return
    while any(one.stage == "waiting" for one in made.outcome(way).open):
        made.decide(way, "skip")
    made.run("n3", statement.format("t3"))
    if any(one.stage == "waiting" for one in made.outcome(way).open):  # it is awaited by none; what it waits for is new
        made.decide(way, "skip")
    assert made.outcome(way).stop is None and made.outcome(way).quiet is not None
    assert written(made.outcome(way)) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("then", ["skip", "run"])
def test_rows_before_a_truncate_that_wait_for_something_else(way: str, then: str) -> None:
    """They go with a TRUNCATE that comes out before them; if it is skipped, they stay."""
    made = ran(TABLE, "t1 t2", "t1 RENAME COLUMN a TO b", "t1 row", "t1 TRUNCATE TABLE t1")
    if then == "skip":
        (waits,) = (one for one in made.outcome(way).open if one.ddl.sql.startswith("TRUNCATE"))
        made.events["shop", "t"].append(Decided(made.key(), waits.id, "skip"))
    else:
        made.run("n2", "TRUNCATE TABLE t2")
    assert comes_out(made, way) == [("t1", None, False)]
    made.run("n2", "ALTER TABLE t2 RENAME COLUMN a TO b")
    assert comes_out(made, way) == [("t1", 5, then == "run")]


def test_shards_that_empty_different_partitions_wait_for_each_other() -> None:
    made = ran(PARTITIONED, "t1 t2", "t1 TRUNCATE PARTITION p", "t2 TRUNCATE PARTITION q", "t1 row", "t2 row")
    outcome = made.outcome("optimistic")
    assert written(outcome) == [] and [one[1:] for one in waiting(outcome)] == [("t1", "t2"), ("t2", "t1")]
    assert [moment for _, moment, _ in comes_out(made, "optimistic")] == [None, None]
    stop = made.outcome("pessimistic").stop
    assert stop is not None and stop.fault is Fault.DIFFERENT_DDL


@pytest.mark.parametrize("way", WAYS)
def test_a_shard_that_owes_is_alone_then(way: str) -> None:
    """What it empties is its own then: it is written."""
    made = ran(PARTITIONED, "t1 t2")
    made.run("n1", "ALTER TABLE t1 TRUNCATE PARTITION p")
    made.decide(way, "as-if-done", shard="t2")
    made.run("n1", "DROP TABLE t1")
    made.run("n2", "TRUNCATE TABLE t2")
    made.run("n2", "ALTER TABLE t2 TRUNCATE PARTITION p")
    outcome = made.outcome(way)
    partition = EMPTYING["ALTER TABLE {0} TRUNCATE PARTITION p"]
    assert written(outcome) == [partition, TRUNCATE, partition]
    assert outcome.findings == () and outcome.quiet is not None


@pytest.mark.parametrize("way", WAYS)
def test_what_is_skipped_is_owed_by_none(way: str) -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 TRUNCATE TABLE t1")
    made.decide(way, "as-if-done", shard="t2")
    made.run("n2", "INSERT INTO t2 VALUES ()")
    assert comes_out(made, way) == [("t2", None, False)]
    made.decide(way, "skip")
    assert comes_out(made, way) == [("t2", 4, False)] and made.outcome(way).quiet is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_truncate_is_skipped_for_each_shard_that_runs_it_later(way: str) -> None:
    """It waits anew, and is named, as nothing is taken away that an operator has kept; skipped too, it is over."""
    made = ran(TABLE, "t1 t2", "t1 TRUNCATE TABLE t1")
    made.decide(way, "skip")
    made.run("n2", "TRUNCATE TABLE t2")
    assert [one[1:] for one in waiting(made.outcome(way))] == [("t2", "t1")]
    made.decide(way, "skip")
    outcome = made.outcome(way)
    assert waiting(outcome) == [] and written(outcome) == [] and outcome.quiet is not None


def test_a_shard_pays_while_it_waits_with_something_else() -> None:
    """Optimistic: its rows that came meanwhile are named, and it owes nothing."""
    made = ran(PARTITIONED, "t1 t2", "t1 TRUNCATE PARTITION p")
    made.decide("optimistic", "as-if-done", shard="t2")
    for text in ("RENAME COLUMN a TO b", "TRUNCATE PARTITION p"):
        made.run("n2", f"ALTER TABLE t2 {text}")
    made.run("n1", "ALTER TABLE t1 RENAME COLUMN a TO b")
    outcome = made.outcome("optimistic")
    assert [finding.detail[:29] for finding in outcome.findings] == ["it has counted as having run "]
    assert len(written(outcome)) == 2 and waiting(outcome) == [] and outcome.quiet is not None


@pytest.mark.parametrize("way", WAYS)
def test_tables_that_wait_are_renamed(way: str) -> None:
    """One that is made again before the others are dropped, and one that counts as dropped."""
    made = ran(TABLE, "t1 t2", "t2 DROP TABLE t2", AGAIN)
    made.run("n2", "RENAME TABLE t2 TO t9")
    altered = deepcopy(made)
    altered.run("n2", "ALTER TABLE t9 ADD COLUMN c INT")
    assert written(altered.outcome(way)) == [] and altered.outcome(way).stop is None
    made.decide(way, "as-if-done", shard="t1")
    made.run("n2", "ALTER TABLE t9 ADD COLUMN c INT")
    for text in ("RENAME TABLE t1 TO t8", "ALTER TABLE t8 ADD COLUMN z INT", "DROP TABLE t8"):
        made.run("n1", text)
    outcome = made.outcome(way)
    assert [sql.split()[0] for sql in written(outcome)] == ["DROP", "CREATE", "ALTER"]
    assert outcome.stop is None and waiting(outcome) == [] and outcome.quiet is not None
    assert {shard.table for shard in outcome.members} == {"t9"}


@pytest.mark.parametrize("way", WAYS)
def test_tables_that_are_made_again_come_in_their_order(way: str) -> None:
    first = "t3 CREATE TABLE t3 (id INTEGER PRIMARY KEY, a INT)"
    made = ran(TABLE, "t1 t2 t3", "t2 DROP TABLE t2", "t3 DROP TABLE t3", first, AGAIN, "t1 DROP TABLE t1")
    assert [sql.split("(")[1][:10] for sql in written(made.outcome(way))[1:]] == ["id INTEGER"]


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_a_table_that_is_made_again_come_behind_its_creation(way: str) -> None:
    made = ran(TABLE, "t1 t2", "t2 DROP TABLE t2", AGAIN, "t2 row", "t1 row", "t1 DROP TABLE t1")
    start = next(iter(made.members["shop", "t"].values()))
    found = merged(made.rows["shop", "t"], made.outcome(way), start)
    assert [text.split(" ")[0] for text in found] == ["t1@4", "DROP", "CREATE", "t2@3"]


@pytest.mark.parametrize("way", WAYS)
def test_no_rows_are_left_once_a_shard_without_a_table_counts_as_dropped(way: str) -> None:
    made = ran(TABLE, "t1 t2", *BEHIND, "t2 DROP TABLE t2")
    made.decide(way, "as-if-done", shard="t1")
    made.run("n2", AGAIN.removeprefix("t2 "))
    outcome = made.outcome(way)
    assert [sql.split()[0] for sql in written(outcome) if "ALTER" not in sql] == ["DROP", "CREATE"] * 2
    assert outcome.quiet is not None and not outcome.quiet[1].rows_left and waiting(outcome) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_shard_that_is_alone(way: str) -> None:
    outcome = ran(TABLE, "t1", "t1 TRUNCATE TABLE t1", "t1 DROP TABLE t1").outcome(way)
    assert told(outcome) == [] and written(outcome) == ["TRUNCATE TABLE `shop`.`t`", "DROP TABLE `shop`.`t`"]


@pytest.mark.parametrize("way", WAYS)
def test_one_statement_that_drops_all_shards_is_no_doubt(way: str) -> None:
    made = ran(TABLE, "t1")
    made.run("n1", "CREATE TABLE t2 (id INT PRIMARY KEY, a INT)")
    made.run("n1", "DROP TABLE t1, t2")
    outcome = made.outcome(way)
    assert told(outcome) == [] and written(outcome) == ["DROP TABLE `shop`.`t`"]


@pytest.mark.parametrize("what", ["TRUNCATE PARTITION p", "DROP PARTITION p"])
def test_partitions(what: str) -> None:
    alone = ran(PARTITIONED, "t1", f"t1 {what}")
    both = ran(PARTITIONED, "t1 t2", f"t1 {what}", "t1 row", f"t2 {what}")
    for way in WAYS:
        assert told(alone.outcome(way)) == [] and len(written(alone.outcome(way))) == 1
        # Rows of the first wait for the second, and it is emptied once.
        assert told(both.outcome(way)) == [] and len(written(both.outcome(way))) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "statements",
    [
        ["t1 TRUNCATE PARTITION p", "t1 TRUNCATE PARTITION p"],
        ["t1 TRUNCATE PARTITION p", "t1 RENAME TABLE t1 TO t3", "t3 TRUNCATE PARTITION p"],
        [
            "t1 TRUNCATE PARTITION p",
            "t1 DROP TABLE t1",
            f"t2 {PARTITIONED.replace(' t ', ' t2 ')}",
            "t2 TRUNCATE PARTITION p",
        ],
    ],
)
def test_a_shard_alone_empties_as_often_as_it_says(way: str, statements: list[str]) -> None:
    made = ran(PARTITIONED, "t1")
    for text in statements:
        table, _, what = text.partition(" ")
        made.run("n1", what if " TABLE " in what else f"ALTER TABLE {table} {what}")
    outcome = made.outcome(way)
    assert told(outcome) == []
    assert len([sql for sql in written(outcome) if "TRUNCATE PARTITION" in sql]) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_changes_no_shape_is_written_once_for_all_shards_also_under_their_new_names(way: str) -> None:
    made = ran(TABLE, "t1")
    made.run("n1", "CREATE TABLE t2 (id INT PRIMARY KEY, a INT)")
    for comment, tables in (("x", ("t1", "t2")), ("y", ("t1", "t2"))):
        for table in tables:
            made.run("n1", f"ALTER TABLE {table} COMMENT '{comment}'")
    made.run("n1", "RENAME TABLE t1 TO t3, t2 TO t4")
    for table in ("t3", "t4"):
        made.run("n1", f"ALTER TABLE {table} COMMENT 'x'")
    assert [sql.split()[-1] for sql in written(made.outcome(way)) if "COMMENT" in sql] == ["'x'", "'y'", "'x'"]


OTHER = "CREATE TABLE {0} (id INT PRIMARY KEY, a VARCHAR(9), b INT)"


def late(*statements: str) -> Cluster:
    """Return a cluster whose first shard has made, dropped and made its table otherwise when the second one begins."""
    made = Cluster()
    for text in (TABLE.replace(" t ", " {0} "), "DROP TABLE {0}", OTHER):
        made.run("n1", text.format("t1"))
    for text in (TABLE.replace(" t ", " {0} "), "INSERT INTO {0} VALUES ()", *statements):
        made.run("n2", text.format("t2"))
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "between", [[], ["TRUNCATE TABLE {0}"], ["ALTER TABLE {0} ADD KEY (a)", "TRUNCATE TABLE {0}"]], ids=str
)
def test_a_table_that_fits_nowhere_is_dropped(way: str, between: list[str]) -> None:
    """None of its rows comes out, so its DROP waits for none, and neither does what is made after it."""
    made = late(*between, "INSERT INTO {0} VALUES ()", "DROP TABLE {0}", OTHER, "INSERT INTO {0} VALUES ()")
    outcome = made.outcome(way)
    assert (outcome.stop, waiting(outcome), outcome.findings) == (None, [], ())
    assert [sql.split()[0] for sql in written(outcome)] == ["CREATE", "DROP", "CREATE"]
    assert [gone for _, _, gone in comes_out(made, way)] == [True, True, False]
    assert outcome.quiet is not None and not outcome.quiet[1].rows_left
    assert comes_out(made, way)[-1][1] == made.moment


def test_a_table_that_will_be_dropped_holds_its_rows_until_then() -> None:
    """The DROP is known, but behind what is coordinated so far."""
    made = late("DROP TABLE {0}")
    events = made.events["shop", "t"]
    known = short_lived(event for event in events if not isinstance(event, Decided))
    outcome = pessimistic.coordinate({}, None, events[:-1], SESSION, brief=known)
    assert outcome.stop is None and outcome.quiet is not None and outcome.quiet[0] == events[-3].key
    assert [place for _, place in placed(made.rows["shop", "t"], outcome)] == [None]


@pytest.mark.parametrize("end", [["RENAME TABLE {0} TO t9"], [], ["ALTER TABLE {0} ADD b INT"]], ids=str)
def test_a_table_that_fits_nowhere_and_stays_stops(end: list[str]) -> None:
    """Pessimistic: also if it is dropped under another name, of which its rows may have come."""
    made = late(*end, *(["DROP TABLE t9"] if "RENAME" in str(end) else []))
    stop = made.outcome("pessimistic").stop
    assert stop is not None and stop.fault is Fault.STRANGE_TABLE
