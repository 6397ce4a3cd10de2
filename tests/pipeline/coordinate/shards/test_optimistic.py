"""Optimistic coordination, a case for each rule. Shard tN stands on node nN; statements come in the order written."""

import pytest

from binlog_merge.pipeline.coordinate.shards.optimistic.doubts import depends_on_moment
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all, order
from binlog_merge.pipeline.coordinate.shards.values import Doubt, Fault, Outcome
from snapshot_store import parse_table
from tests.pipeline.coordinate.shards.scenario import Cluster, check_agreement, cluster, merged, placed, ran, written

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
LOGICAL = ("shop", "t")
ALTER = "ALTER TABLE `shop`.`t` "


def outcome_of(made: Cluster) -> Outcome:
    """Coordinate, and check that whatever comes out finds a logical table that takes it."""
    outcome = made.outcome("optimistic")
    merged(made.rows.get(LOGICAL, []), outcome, join_all(made.members.get(LOGICAL, {}).values()))
    return outcome


def order_of(made: Cluster) -> list[str]:
    outcome = made.outcome("optimistic")
    return merged(made.rows.get(LOGICAL, []), outcome, join_all(made.members[LOGICAL].values()))


def held(made: Cluster, outcome: Outcome) -> list[str]:
    return [row.shard.table for row, place in placed(made.rows[LOGICAL], outcome) if place is None]


GROWS_AT_ONCE = [
    "ADD COLUMN c INT",
    "ADD COLUMN c INT NOT NULL DEFAULT 7",
    "MODIFY a BIGINT",
    "ALTER a SET DEFAULT 5",
    "DROP INDEX k",
]
SHRINKS_LAST = [
    "DROP COLUMN a",
    "MODIFY a SMALLINT",
    "MODIFY a INT NOT NULL",
    "ADD INDEX l (a)",
    "ADD UNIQUE u (id, a)",
]
WAITS_FOR_ALL = [
    "RENAME COLUMN a TO b",
    "CHANGE a b BIGINT",
    "MODIFY a VARCHAR(20)",
    "MODIFY a INT UNSIGNED",
    "RENAME INDEX k TO l",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
]
KEYED = "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL DEFAULT 3, KEY k (a))"
LOOSE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY k (a))"


@pytest.mark.parametrize("clause", GROWS_AT_ONCE)
def test_what_takes_more_is_written_at_once_and_once(clause: str) -> None:
    made = ran(LOOSE, "t1 t2 t3", f"t2 {clause}", "t2 row", f"t1 {clause}", "t1 row", f"t3 {clause}")
    outcome = outcome_of(made)
    assert written(outcome) == [f"ALTER TABLE `shop`.`t` {clause}"]
    assert outcome.logical[0].place.key.commit_tso == 1
    assert outcome.logical[0].own
    assert not held(made, outcome)
    check_agreement(outcome)


@pytest.mark.parametrize("clause", SHRINKS_LAST)
def test_what_takes_less_is_written_when_the_last_shard_follows(clause: str) -> None:
    made = ran(TABLE, "t1 t2 t3", f"t2 {clause}", "t2 row", f"t1 {clause}", "t3 row", f"t3 {clause}", "t3 row")
    outcome = outcome_of(made)
    assert written(outcome) == [f"ALTER TABLE `shop`.`t` {clause}"]
    assert outcome.logical[0].place.key.commit_tso == 5
    assert not held(made, outcome)
    check_agreement(outcome)


@pytest.mark.parametrize("clause", WAITS_FOR_ALL)
def test_what_does_both_waits_until_all_shards_have_it(clause: str) -> None:
    made = ran(
        KEYED, "t1 t2 t3", "t1 row", f"t1 {clause}", "t1 row", "t2 row", f"t2 {clause}", "t3 row", "t2 row",
        f"t3 {clause}", "t3 row",
    )  # fmt: skip
    check_agreement(outcome_of(made))
    entries = order_of(made)
    if "PRIMARY" not in clause:
        assert entries == [
            "t1@1", "t2@4", "t3@6", f"ALTER TABLE `shop`.`t` {clause}", "t1@3", "t2@7", "t3@9",
        ]  # fmt: skip


def test_what_waits_is_shown_and_its_rows_are_held() -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b", "t1 row", "t2 row", "t2 RENAME COLUMN a TO b", "t1 row")
    outcome = outcome_of(made)
    assert held(made, outcome) == ["t1", "t1"]
    assert written(outcome) == []
    (waiting,) = outcome.open
    assert (waiting.stage, [s.table for s in waiting.done], [s.table for s in waiting.awaited]) == (
        "waiting",
        ["t1", "t2"],
        ["t3"],
    )
    assert [ddl.shard.table for ddl in waiting.ran] == ["t1", "t2"]


def test_what_is_done_by_all_that_wait_is_shown_once_by_one_that_can_be_decided() -> None:
    made = ran(
        TABLE, "t1 t2 t3", "t1 RENAME COLUMN id TO y", "t1 RENAME COLUMN a TO b", "t2 RENAME COLUMN id TO y",
        "t2 RENAME COLUMN a TO b", "t3 RENAME COLUMN id TO z",
    )  # fmt: skip
    shown = [(o.stage, [d.shard.table for d in o.ran]) for o in outcome_of(made).open]
    assert shown == [("waiting", ["t1", "t2"]), ("queued", ["t1", "t2"]), ("conflict", ["t3"])]


def test_a_column_without_default_has_one_while_shards_differ() -> None:
    made = ran(
        TABLE, "t1 t2 t3", "t1 ADD COLUMN c INT NOT NULL AFTER id", "t1 row", "t2 row",
        "t2 ADD COLUMN c INT NOT NULL AFTER id", "t3 ADD COLUMN c INT NOT NULL AFTER id",
    )  # fmt: skip
    outcome = outcome_of(made)
    assert written(outcome) == [
        "ALTER TABLE `shop`.`t` ADD COLUMN `c` int NOT NULL DEFAULT '0' AFTER `id`",
        "ALTER TABLE `shop`.`t` MODIFY COLUMN `c` int NOT NULL",
    ]
    assert [logical.own for logical in outcome.logical] == [False, False]
    assert not outcome.findings
    check_agreement(outcome)


@pytest.mark.parametrize(
    ("type", "default"),
    [("VARCHAR(9)", "''"), ("DATE", "'0000-00-00'"), ("ENUM('x','y')", "'x'"), ("TEXT", "('')"), ("JSON", "('null')")],
)
def test_the_default_while_shards_differ_is_the_types_zero(type: str, default: str) -> None:
    outcome = outcome_of(ran(TABLE, "t1 t2", f"t2 ADD COLUMN c {type} NOT NULL"))
    assert written(outcome)[0].endswith(f"NOT NULL DEFAULT {default} AFTER `a`")


def test_a_type_without_zero_waits_for_all() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c POINT NOT NULL", "t1 row", "t2 ADD COLUMN c POINT NOT NULL")
    outcome = outcome_of(made)
    assert written(outcome) == ["ALTER TABLE `shop`.`t` ADD COLUMN c POINT NOT NULL"]
    check_agreement(outcome)


@pytest.mark.parametrize("first", ["NOT NULL", "NOT NULL DEFAULT 0"])
def test_not_null_with_default_meets_not_null_without(first: str) -> None:
    second = "NOT NULL" if "DEFAULT" in first else "NOT NULL DEFAULT 0"
    made = ran(
        TABLE, "t1 t2 t3", f"t1 ADD COLUMN c INT {first}", "t1 row", f"t2 ADD COLUMN c INT {second}", "t3 row",
        f"t3 ADD COLUMN c INT {first}", "t1 row",
    )  # fmt: skip
    outcome = outcome_of(made)
    assert not held(made, outcome)
    assert not outcome.findings
    check_agreement(outcome)


def test_three_defaults_meet_in_any_order() -> None:
    clauses = ["ADD COLUMN c INT NOT NULL", "ADD COLUMN c INT NOT NULL DEFAULT 5"]
    made = ran(TABLE, "t1 t2 t3", f"t1 {clauses[1]}", f"t2 {clauses[0]}", "t3 row", f"t3 {clauses[0]}")
    outcome = outcome_of(made)
    check_agreement(outcome)
    # Existing rows of t2 and t3 have 0 there, and got 5 in the logical table.
    assert [(f.doubt, f.shard.table) for f in outcome.findings] == [(Doubt.FILL, "t2"), (Doubt.FILL, "t3")]


def test_a_shortcut_for_one_shard_releases_the_others() -> None:
    made = ran(
        TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b", "t1 row", "t2 ADD COLUMN b INT", "t2 DROP COLUMN a",
        "t3 RENAME COLUMN a TO b", "t3 row",
    )  # fmt: skip
    outcome = outcome_of(made)
    assert not held(made, outcome)
    check_agreement(outcome)
    assert {(f.doubt, f.shard.table) for f in outcome.findings} == {
        (Doubt.RENAME_BY_DROP, "t1"),
        (Doubt.RENAME_BY_DROP, "t3"),
    }


def test_a_rename_taken_back_comes_to_nothing() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 RENAME COLUMN a TO b", "t1 row", "t2 row", "t1 RENAME COLUMN b TO a", "t1 row"
    )  # fmt: skip
    outcome = outcome_of(made)
    assert order_of(made) == ["t2@3", "t1@2", "t1@5"]  # the row with b finds a: checked by order_of
    assert outcome.findings == ()
    check_agreement(outcome)


def test_a_rename_taken_back_lets_through_what_came_between() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 RENAME COLUMN a TO b", "t1 row", "t1 ADD COLUMN d INT", "t1 row", "t1 CHANGE b a INT",
        "t1 row", "t2 row",
    )  # fmt: skip
    assert order_of(made) == ["ALTER TABLE `shop`.`t` ADD COLUMN d INT", "t1@2", "t1@4", "t1@6", "t2@7"]
    check_agreement(outcome_of(made))


def test_several_conflicting_ddl_queue_on_one_shard() -> None:
    steps = ["RENAME COLUMN a TO b", "MODIFY b VARCHAR(9)", "RENAME COLUMN b TO c"]
    one = [f"t1 {text}" for clause in steps for text in (clause, "row")]
    two = [f"t2 {text}" for clause in steps for text in (clause, "row")]
    made = ran(TABLE, "t1 t2", *one, *two)
    outcome = outcome_of(made)
    assert written(outcome) == [f"ALTER TABLE `shop`.`t` {clause}" for clause in steps]
    assert order_of(made) == [
        f"ALTER TABLE `shop`.`t` {steps[0]}", "t1@2", "t2@8", f"ALTER TABLE `shop`.`t` {steps[1]}", "t1@4", "t2@10",
        f"ALTER TABLE `shop`.`t` {steps[2]}", "t1@6", "t2@12",
    ]  # fmt: skip
    check_agreement(outcome)


def test_shards_meet_that_come_to_one_table_by_different_ways() -> None:
    made = ran(
        TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b", "t1 row", "t2 RENAME COLUMN a TO c", "t2 row",
        "t3 RENAME COLUMN a TO c", "t1 RENAME COLUMN b TO c", "t1 row",
    )  # fmt: skip
    outcome = outcome_of(made)
    assert not held(made, outcome)
    assert written(outcome) == ["ALTER TABLE `shop`.`t` RENAME COLUMN a TO c"]
    assert not outcome.findings
    check_agreement(outcome)


def test_contradicting_ddl_waits_until_one_is_taken_back() -> None:
    texts = ["t1 ADD COLUMN c INT", "t2 ADD COLUMN c FLOAT", "t2 row", "t1 row"]
    made = ran(TABLE, "t1 t2", *texts)
    outcome = outcome_of(made)
    assert held(made, outcome) == ["t2"]
    assert [o.stage for o in outcome.open if o.ddl.shard.table == "t2"] == ["conflict"]
    made = ran(TABLE, "t1 t2", *texts, "t1 DROP COLUMN c")
    outcome = outcome_of(made)
    assert not held(made, outcome)
    assert [sql.split(" ", 3)[3] for sql in written(outcome)] == [
        "ADD COLUMN c INT", "DROP COLUMN c", "ADD COLUMN c FLOAT",
    ]  # fmt: skip


def test_columns_swapped_wait_for_all_although_the_tables_show_nothing() -> None:
    clause = "RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    two = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)"
    made = ran(two, "t1 t2", f"t1 {clause}", "t1 row", "t2 row", f"t2 {clause}")
    assert order_of(made) == ["t2@3", f"ALTER TABLE `shop`.`t` {clause}", "t1@2"]
    check_agreement(outcome_of(made))
    assert not outcome_of(made).findings


def test_clauses_are_taken_one_by_one() -> None:
    clause = "ADD COLUMN b INT, DROP COLUMN a"
    made = ran(TABLE, "t1 t2", f"t1 {clause}", "t1 row", "t2 row", f"t2 {clause}", "t2 row")
    outcome = outcome_of(made)
    assert written(outcome) == ["ALTER TABLE `shop`.`t` ADD COLUMN b INT", "ALTER TABLE `shop`.`t` DROP COLUMN a"]
    assert not held(made, outcome)
    check_agreement(outcome)


def test_a_column_keeps_its_place() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT FIRST, DROP COLUMN a", "t2 ADD COLUMN c INT AFTER a")
    table = outcome_of(made).table
    assert table is not None
    assert [c.name for c in table.columns] == ["c", "id", "a"]


def test_a_lengthened_column_is_the_longer_one() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c VARCHAR(4)", "t2 ADD COLUMN c VARCHAR(5)", "t2 row", "t1 row")
    outcome = outcome_of(made)
    assert written(outcome)[1] == "ALTER TABLE `shop`.`t` MODIFY COLUMN `c` varchar(5) DEFAULT NULL"
    assert not held(made, outcome)


@pytest.mark.parametrize(
    ("statements", "doubts"),
    [
        (["t1 DROP COLUMN a", "t1 ADD COLUMN a INT"], [(Doubt.READDED, "t1")]),
        (["t1 DROP COLUMN a, ADD COLUMN a INT"], [(Doubt.READDED, "t1")]),
        (["t1 DROP COLUMN a", "t2 DROP COLUMN a", "t1 ADD COLUMN a INT"], []),
        (["t1 ADD COLUMN c INT", "t2 ADD COLUMN c INT DEFAULT 5"], [(Doubt.FILL, "t2")]),
        (["t1 ADD COLUMN c INT", "t2 ADD COLUMN c BIGINT"], []),
        (["t1 ADD COLUMN c DATETIME DEFAULT now()", "t2 ADD COLUMN c DATETIME DEFAULT now()"], [(Doubt.MOMENT, "t2")]),
        (["t1 ADD COLUMN c VARCHAR(9) DEFAULT ('x')", "t2 ADD COLUMN c VARCHAR(9) DEFAULT 'x'"], []),
        (["t1 ADD COLUMN c VARCHAR(50) DEFAULT (uuid())"], []),
        (["t1 ADD COLUMN b INT", "t2 RENAME COLUMN a TO b", "t1 DROP COLUMN a"], [(Doubt.RENAME_BY_DROP, "t2")]),
        (["t1 RENAME COLUMN a TO b", "t2 ADD COLUMN b INT", "t2 DROP COLUMN a"], [(Doubt.RENAME_BY_DROP, "t1")]),
        (["t1 RENAME COLUMN a TO b", "t2 DROP COLUMN a", "t2 ADD COLUMN b INT"], [(Doubt.RENAME_BY_DROP, "t2")]),
        (["t1 RENAME COLUMN a TO b", "t2 DROP COLUMN a, ADD COLUMN b INT"], [(Doubt.RENAME_BY_DROP, "t1")]),
        (["t1 DROP COLUMN a, ADD COLUMN b INT", "t2 RENAME COLUMN a TO b"], [(Doubt.RENAME_BY_DROP, "t2")]),
        (["t1 MODIFY a VARCHAR(9)", "t2 DROP COLUMN a, ADD COLUMN a VARCHAR(9)"], [(Doubt.READDED, "t2")]),
        (["t1 RENAME COLUMN a TO b, ADD c INT DEFAULT 5", "t2 RENAME COLUMN a TO b, ADD c INT DEFAULT 5"], []),
    ],
)
def test_data_that_comes_to_differ_is_told(statements: list[str], doubts: list[tuple[Doubt, str]]) -> None:
    outcome = outcome_of(ran(TABLE, "t1 t2", *statements))
    assert [(f.doubt, f.shard.table) for f in outcome.findings] == doubts
    assert all(f.column in f.detail for f in outcome.findings)


@pytest.mark.parametrize("type", ["INT", "BIGINT"])
def test_a_column_that_a_shard_empties_keeps_the_values_of_the_others(type: str) -> None:
    clause = f"DROP COLUMN a, ADD COLUMN a {type}"
    assert not [sql for sql in written(outcome_of(ran(TABLE, "t1 t2", f"t1 {clause}"))) if "DROP" in sql]
    outcome = outcome_of(ran(TABLE, "t1", f"t1 {clause}"))
    assert written(outcome) == [f"ALTER TABLE `shop`.`t` {clause}"]
    assert outcome.findings == ()


def test_what_the_order_of_tables_does_not_know_is_written_once() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 COMMENT='x'", "t2 comment='x'", "t2 COMMENT='y'", "t1 COMMENT='y'", "t2 COMMENT='x'"
    )  # fmt: skip
    assert [sql.split(" ", 3)[3] for sql in written(outcome_of(made))] == ["COMMENT='x'", "COMMENT='y'", "COMMENT='x'"]


@pytest.mark.parametrize(
    ("statements", "wanted"),
    [
        (["t3 CREATE TABLE t3 (id INT PRIMARY KEY, a INT)"], []),
        (["t1 DROP COLUMN a", "t1 ADD COLUMN a INT"], []),
        (["t1 ADD COLUMN c INT(5)", "t2 ADD COLUMN c INT"], ["ADD COLUMN c INT(5)"]),
        (
            ["t1 MODIFY a INT", "t1 ADD COLUMN c INT(5)", "t2 ADD COLUMN c INT(20)"],
            ["MODIFY a INT", "ADD COLUMN c INT(5)"],
        ),
        (["t1 MODIFY a INT(7), ADD COLUMN c INT NOT NULL"], ["ADD COLUMN `c` int NOT NULL DEFAULT '0' AFTER `a`"]),
    ],
)
def test_a_display_width_needs_no_statement(statements: list[str], wanted: list[str]) -> None:
    outcome = outcome_of(ran("CREATE TABLE t (id INT PRIMARY KEY, a INT(5))", "t1 t2", *statements))
    assert written(outcome) == [f"ALTER TABLE `shop`.`t` {clause}" for clause in wanted]
    check_agreement(outcome)


def test_partitions_of_the_shards_alone_are_not_written() -> None:
    made = cluster(TABLE, "n1.t1")
    made.begin(
        "n2", "CREATE TABLE t2 (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"
    )
    made.run("n2", "ALTER TABLE t2 ADD PARTITION (PARTITION q VALUES LESS THAN (99))")
    outcome = outcome_of(made)
    assert (written(outcome), len(outcome.swallowed), outcome.stop) == ([], 1, None)


def test_the_first_shard_makes_the_table_the_others_join_it() -> None:
    made = ran(
        TABLE, "", "t1 CREATE TABLE t1 (id INT PRIMARY KEY)", "t1 row",
        "t2 CREATE TABLE t2 (id INT PRIMARY KEY, b INT)", "t2 row", "t1 ADD COLUMN b INT",
    )  # fmt: skip
    outcome = outcome_of(made)
    assert written(outcome) == [
        "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY)",
        "ALTER TABLE `shop`.`t` ADD COLUMN `b` int DEFAULT NULL AFTER `id`",
    ]  # fmt: skip
    check_agreement(outcome)


def stranger(*statements: str) -> Cluster:
    """Return two shards that can be joined, a third that cannot, and what they run then."""
    return ran(TABLE, "t1 t2", "t3 CREATE TABLE t3 (id INT PRIMARY KEY, a VARCHAR(4))", "t3 row", "t1 row", *statements)


def test_a_table_that_cannot_be_joined_waits() -> None:
    made = stranger()
    outcome = outcome_of(made)
    assert (outcome.stop, written(outcome)) == (None, [])
    assert [(effect.shard.table, effect.place) for effect in outcome.effects] == [("t3", None)]
    [lock] = outcome.open
    assert ([s.table for s in lock.done], [s.table for s in lock.awaited]) == (["t3"], ["t1", "t2"])
    assert "CREATE TABLE" in lock.ddl.sql and lock.stage in ("waiting", "conflict")


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["t3 MODIFY a INT", "t3 row"], []),
        (["t3 ADD COLUMN c INT", "t3 row", "t3 MODIFY a INT"], [f"{ALTER}ADD COLUMN"]),
        (["t3 DROP COLUMN a", "t3 ADD COLUMN a INT", "t3 row"], []),
        (["t1 MODIFY a VARCHAR(4)", "t1 row", "t2 MODIFY a VARCHAR(4)", "t2 row"], [f"{ALTER}MODIFY a VARCHAR(4)"]),
        (["t3 MODIFY a INT", "t1 ADD COLUMN d INT", "t2 row"], [f"{ALTER}ADD COLUMN d INT"]),
        (["t1 MODIFY a VARCHAR(4)", "t3 row", "t2 DROP TABLE t2"], [f"{ALTER}MODIFY a VARCHAR(4)"]),
    ],
)
def test_it_goes_on_when_all_agree(statements: list[str], expected: list[str]) -> None:
    made = stranger(*statements)
    outcome = outcome_of(made)
    check_agreement(outcome)
    assert len(written(outcome)) == len(expected)
    assert all(sql.startswith(begin) for sql, begin in zip(written(outcome), expected, strict=True))
    for until in range(len(made.events["shop", "t"])):
        early = made.outcome("optimistic", until=until)
        assert early.stop is None and written(early) == written(outcome)[: len(written(early))]


def test_a_stranger_that_is_dropped_holds_nothing() -> None:
    outcome = outcome_of(stranger("t3 DROP TABLE t3", "t1 row"))
    assert outcome.stop is None and outcome.open == ()
    assert all(effect.place is not None for effect in outcome.effects)


def test_what_a_stranger_waits_for_can_be_decided() -> None:
    made = stranger()
    made.decide("optimistic", "emit", "ALTER TABLE `shop`.`t` MODIFY a VARCHAR(20)")
    made.run("n3", "ALTER TABLE t3 ADD COLUMN c INT")
    outcome = outcome_of(made)
    assert outcome.stop is None
    assert written(outcome)[0] == f"{ALTER}MODIFY a VARCHAR(20)"
    assert all(effect.place is not None for effect in outcome.effects if effect.shard.table == "t3")
    made = stranger()
    made.decide("optimistic", "skip")
    outcome = outcome_of(made)
    assert (outcome.stop, written(outcome), outcome.open) == (None, [], ())
    made = stranger()
    made.decide("optimistic", "as-if-done", shard="t1")
    stop = outcome_of(made).stop
    assert stop is not None and stop.fault is Fault.DECISION


def test_a_dropped_shard_is_no_longer_waited_for() -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b", "t1 row", "t2 RENAME COLUMN a TO b", "t3 DROP TABLE t3")
    outcome = outcome_of(made)
    assert not held(made, outcome)
    check_agreement(outcome)


def test_a_shard_dropped_while_it_waits_gives_its_rows_back() -> None:
    made = ran(TABLE, "t1 t2", "t1 RENAME COLUMN a TO b", "t1 row", "t1 DROP TABLE t1", "t2 row")
    assert order_of(made) == ["t1@2", "t2@4"]
    outcome = outcome_of(made)
    assert written(outcome) == []
    check_agreement(outcome)


def test_the_column_of_a_dropped_shard_goes_with_it() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t1 row", "t1 DROP TABLE t1", "t2 row")
    assert written(outcome_of(made))[1] == "ALTER TABLE `shop`.`t` DROP COLUMN `c`"
    check_agreement(outcome_of(made))


def test_the_table_is_dropped_with_its_last_shard() -> None:
    made = ran(TABLE, "t1 t2", "t1 DROP TABLE t1", "t2 row", "t2 DROP TABLE t2", "t2 CREATE TABLE t2 (x INT)", "t2 row")
    assert written(outcome_of(made)) == ["DROP TABLE `shop`.`t`", "CREATE TABLE `shop`.`t` (x INT)"]


@pytest.mark.parametrize(
    ("shards", "statements", "logical"),
    [
        ("t1 t2", ["t1 TRUNCATE TABLE t1"], []),
        ("t1", ["t1 TRUNCATE TABLE t1"], ["TRUNCATE TABLE `shop`.`t`"]),
        ("t1 t2", ["t2 DROP TABLE t2", "t1 TRUNCATE TABLE t1"], ["TRUNCATE TABLE `shop`.`t`"]),  # t2's rows go, too
    ],
)
def test_a_truncated_shard_empties_the_table_with_the_last_one(
    shards: str, statements: list[str], logical: list[str]
) -> None:
    assert written(outcome_of(ran(TABLE, shards, *statements))) == logical


def test_a_renamed_shard_stays_one() -> None:
    made = ran(TABLE, "t1 t2", "t1 RENAME TABLE t1 TO t9", "t2 ADD COLUMN c INT")
    made.run("n1", "INSERT INTO t9 VALUES ()")
    made.run("n1", "ALTER TABLE t9 ADD COLUMN c INT")
    outcome = outcome_of(made)
    assert written(outcome) == ["ALTER TABLE `shop`.`t` ADD COLUMN c INT"]
    check_agreement(outcome)


@pytest.mark.parametrize("way", ["gh-ost", "pt-online-schema-change"])
def test_a_table_put_in_a_shards_place_is_a_change_of_the_shard(way: str) -> None:
    ghost, old = {"gh-ost": ("_t1_gho", "_t1_del"), "pt-online-schema-change": ("_t1_new", "_t1_old")}[way]
    made = cluster(TABLE, "n1.t1", "n2.t2")
    create = {"gh-ost": "CREATE /* gh-ost */ TABLE _t1_gho LIKE t1"}.get(way, TABLE.replace("TABLE t", "TABLE _t1_new"))
    trigger = "AFTER DELETE ON `shop`.`t1` FOR EACH ROW DELETE IGNORE FROM `shop`.`_t1_new` WHERE id <=> OLD.id"
    for sql in (
        create,
        f"ALTER TABLE {ghost} RENAME COLUMN a TO b, ADD COLUMN c INT",
        f"CREATE TRIGGER {'pt_osc' if way != 'gh-ost' else 'any'}_shop_t1_del {trigger}",
        "INSERT INTO t1 VALUES ()",
        f"RENAME TABLE t1 TO {old}, {ghost} TO t1",
        "INSERT INTO t1 VALUES ()",
    ):
        made.run("n1", sql)
    made.run("n2", "INSERT INTO t2 VALUES ()")
    made.run("n2", "ALTER TABLE t2 RENAME COLUMN a TO b, ADD COLUMN c INT")
    assert order_of(made) == [
        "t1@4", "t2@7", "ALTER TABLE `shop`.`t` RENAME COLUMN a TO b, ADD COLUMN c INT", "t1@6",
    ]  # fmt: skip
    check_agreement(outcome_of(made))


def test_a_node_may_hold_several_shards() -> None:
    made = cluster(TABLE, "n1.t1", "n1.t2", "n2.t3")
    for node, sql in (
        ("n1", "ALTER TABLE t1 RENAME COLUMN a TO b"),
        ("n1", "INSERT INTO t1 VALUES ()"),
        ("n1", "INSERT INTO t2 VALUES ()"),
        ("n1", "ALTER TABLE t2 RENAME COLUMN a TO b"),
        ("n2", "ALTER TABLE t3 RENAME COLUMN a TO b"),
    ):
        made.run(node, sql)
    assert order_of(made) == ["t2@3", "ALTER TABLE `shop`.`t` RENAME COLUMN a TO b", "t1@2"]


def test_an_event_of_an_unknown_shard_stops() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT")
    events = made.events[LOGICAL]
    made.members[LOGICAL] = {}
    outcome = made.outcome("optimistic")
    assert outcome.stop is not None
    assert (outcome.stop.fault, outcome.stop.key) == (Fault.UNKNOWN_SHARD, events[0].key)


def test_a_default_taken_away_while_a_shard_waits_is_taken_away_in_the_end() -> None:
    made = ran(
        TABLE, "t1 t2", "t1 ALTER a DROP DEFAULT", "t2 RENAME COLUMN id TO y", "t2 ALTER a DROP DEFAULT",
        "t2 ADD COLUMN c INT NOT NULL", "t2 RENAME COLUMN y TO id", "t1 ADD COLUMN c INT NOT NULL",
    )  # fmt: skip
    outcome = outcome_of(made)
    assert "ALTER TABLE `shop`.`t` ALTER COLUMN `a` DROP DEFAULT" in written(outcome)
    check_agreement(outcome)


def test_shards_that_begin_apart_meet() -> None:
    made = cluster("CREATE TABLE t (id INT PRIMARY KEY)", "n1.t1")
    made.begin("n2", "CREATE TABLE t2 (id INT PRIMARY KEY, b VARCHAR(10))")
    made.run("n1", "INSERT INTO t1 VALUES ()")
    made.run("n1", "ALTER TABLE t1 ADD COLUMN c TEXT")
    made.run("n2", "ALTER TABLE t2 DROP COLUMN b")
    made.run("n2", "ALTER TABLE t2 ADD COLUMN c TEXT")
    outcome = outcome_of(made)
    assert written(outcome) == ["ALTER TABLE `shop`.`t` ADD COLUMN c TEXT", "ALTER TABLE `shop`.`t` DROP COLUMN b"]
    check_agreement(outcome)


def test_the_logical_table_is_never_less_than_a_shards() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT", "t2 DROP COLUMN a", "t1 MODIFY a BIGINT", "t2 ADD INDEX k (id)")
    outcome = outcome_of(made)
    assert outcome.table is not None
    assert all((order(outcome.table, table) or 0) >= 0 for table in outcome.members.values())


@pytest.mark.parametrize(
    ("default", "depends"),
    [
        ("CURRENT_TIMESTAMP", True),
        ("(UTC_TIMESTAMP())", True),
        ("(CONNECTION_ID() + 1)", True),
        ("(DAYNAME('2026-01-01'))", True),
        ("(1 + 1)", False),
        ("(CONCAT('now()', \"rand()\"))", False),
        ("'now'", False),
        ("(a + `now`)", False),
    ],
)
def test_what_depends_on_the_moment(default: str, depends: bool) -> None:
    """A computed value that is the same everywhere is no doubt."""
    kind = "DATETIME" if default.startswith("CURRENT") else "VARCHAR(40)"
    table = parse_table(f"CREATE TABLE s.t (a INT, `now` INT, c {kind} DEFAULT {default})")
    assert depends_on_moment(table.columns[2]) is depends
