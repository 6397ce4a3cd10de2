"""TRUNCATE, DROP TABLE and the like on all shards, on real servers: they come out once, and the target has what the
nodes have; what some shards have not run yet is named, and can be decided.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.errors import ShardDdlStopped
from tests.effort import effort, keeping
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.removals import NODES, PARTS, Removing, logical, play
from tests.merge_e2e.shards.stage import Played, Route, Stage, quoted, tables
from tests.merge_e2e.shards.test_renames import grown
from tests.mysql_server import MySqlServer, mysqlbinlog

pytestmark = [pytest.mark.mysql]

MODES = ("pessimistic", "optimistic")
STRICT = {"shard-doubts": "error"}
Captured = pytest.CaptureFixture[str]
Held = dict[tuple[str, str], list[Any]]


def union(stage: Stage, story: Removing) -> Held:
    """Return the rows that the nodes have together, by logical table."""
    found: Held = {}
    for server in stage.nodes.values():
        for name in tables(server):
            found.setdefault(logical(story, name), []).extend(rows(server, name))
    return {name: sorted(held, key=repr) for name, held in found.items()}


def rows(server: MySqlServer, name: tuple[str, str]) -> list[Any]:
    return list(server.query(f"SELECT * FROM {quoted(name)}"))


def target(stage: Stage, out: Path) -> Held:
    """Apply a merged log to the empty target, and return what it then has."""
    stage.target.drop_databases()
    stage.carry_out(out)
    return {name: sorted(rows(stage.target, name), key=repr) for name in tables(stage.target)}


def attack(stage: Stage, seed: int, modes: tuple[str, ...] = MODES) -> None:
    """Every shard runs the same program at its own time: the target has what the nodes have, and nothing waits."""
    story, played = play(stage, seed)
    expected = union(stage, story)
    for mode in modes:
        path = stage.configuration(f"removing-{seed}-{mode}", [played], mode, sections=STRICT)
        result = merge(path, path.parent / "out")
        where = f"seed {seed}, {mode}, {path}\n" + "\n".join(story.steps)
        assert (result.warnings, result.locks, result.waiting_shards) == ((), (), ()), where
        assert target(stage, path.parent / "out") == expected, where


@pytest.mark.extended  # random ones; test_siblings has each kind
@pytest.mark.parametrize(
    "seeds",
    keeping([range(4)], [range(first, first + 4) for first in range(0, effort(8, 80), 4)]),
    ids=str,
)
def test_all_shards_at_their_own_time(stage: Stage, seeds: range) -> None:
    for seed in seeds:
        attack(stage, seed)


def unfinished(stage: Stage, seed: int) -> None:
    """Shards have come to different places: what waits is named, and who counts as having run it holds nobody up."""
    story, played = play(stage, seed, unfinished=True)
    for mode in MODES:
        path = stage.configuration(f"unfinished-{seed}-{mode}", [played], mode, sections=STRICT)
        out = path.parent / "out"
        where = f"seed {seed}, {mode}, {path}\n" + "\n".join(story.steps)
        for _ in range(8):
            result = merge(path, out)
            target(stage, out)
            locks = [lock for lock in result.locks if lock["stage"] == "waiting"]
            assert bool(locks) >= bool(result.waiting_shards), where
            if not locks:
                break
            assert main.run(["ddl", "resolve", str(locks[0]["id"]), "--skip", "--out", str(out)]) == 0, where
        assert [lock for lock in result.locks if lock["stage"] != "spreading"] == [], where
        assert result.waiting_shards == (), where


@pytest.mark.extended  # random ones; the next ones have each kind
@pytest.mark.parametrize("seeds", [range(first, first + 2) for first in range(0, effort(2, 40), 2)], ids=str)
def test_shards_that_do_not_follow(stage: Stage, capsys: Captured, seeds: range) -> None:
    for seed in seeds:
        unfinished(stage, seed)


@pytest.mark.extended  # test_renames cuts, too
@pytest.mark.parametrize("mode", keeping(["pessimistic"], MODES))  # the other one is cut by test_renames
def test_merges_cut_into_runs_come_to_the_same(stage: Stage, mode: str) -> None:
    plays = [play(stage, seed) for seed in (1, 2, 3)]
    rng = random.Random(1)
    for story, played in plays:
        whole = stage.configuration(f"whole-{story.seed}-{mode}", [played], mode, sections=STRICT)
        merge(whole, whole.parent / "out", partitions=3)
        cut = stage.configuration(f"cut-{story.seed}-{mode}", [played], mode, sections=STRICT)
        assert grown(cut, written(whole.parent / "out"), rng, 5) == written(whole.parent / "out")


def two(stage: Stage, name: str, script: str) -> Played:
    """Play a script on both nodes, in a database of its own."""
    stage.clear()
    with stage.scene(name, ()) as (sessions, played):
        for session in sessions.values():
            session.run("CREATE DATABASE s")
            session.run("USE s")
        for line in filter(None, map(str.strip, script.splitlines())):
            node, _, sql = line.partition(" ")
            for one in NODES if node == "all" else (node,):
                sessions[one].run(sql.replace("{n}", one[1]))
    return played[0]


MADE = """
    all CREATE TABLE t (id INT PRIMARY KEY, v INT)
    all INSERT INTO t VALUES ({n}1, 1), ({n}2, 2)
    """
DROPPED = f"""{MADE}
    n1 DROP TABLE t
    n2 INSERT INTO t VALUES (23, 3)
    n2 ALTER TABLE t ADD COLUMN w INT
    n2 INSERT INTO t VALUES (24, 4, 4)
    """


def resolve(out: Path, *arguments: str) -> None:
    assert main.run(["ddl", "resolve", *arguments, "--out", str(out)]) == 0


def test_a_shard_is_dropped_and_the_others_go_on(stage: Stage, capsys: Captured) -> None:
    """Pessimistic: they do something else, so the merge stops there; what it says to do lets it go on."""
    played = two(stage, "dropped", DROPPED)
    path = stage.configuration("dropped", [played], "pessimistic", sections=STRICT)
    out = path.parent / "out"
    for _ in range(2):
        with pytest.raises(ShardDdlStopped) as raised:
            merge(path, out)
        error = raised.value
        assert error.node == "n1" and "n2/s/t runs 'ALTER TABLE" in error.message and "DROP TABLE" in error.message
        assert "ddl resolve s.t --skip" in (error.remedy or "")
    assert target(stage, out)["s", "t"] == [(11, 1), (12, 2), (21, 1), (22, 2), (23, 3)]
    resolve(out, "s.t", "--skip")
    result = merge(path, out)
    assert result.locks == () and len(target(stage, out)["s", "t"]) == 6
    anew = stage.configuration("dropped-warn", [played], "pessimistic", sections={"shard-doubts": "warn"})
    (warning,) = merge(anew, anew.parent / "out").warnings
    assert "keeps the rows that n1/s/t had" in warning
    assert target(stage, anew.parent / "out") == target(stage, out)


def test_optimistic_goes_on_and_names_the_drop(stage: Stage, capsys: Captured) -> None:
    played = two(stage, "dropped", DROPPED)
    path = stage.configuration("dropped-optimistic", [played], "optimistic", sections=STRICT)
    result = merge(path, path.parent / "out")
    (lock,) = (lock for lock in result.locks if lock["stage"] == "waiting")
    assert (lock["sql"], lock["done"], lock["awaited"]) == ("DROP TABLE `s`.`t`", ["n1/s/t"], ["n2/s/t"])
    assert main.run(["ddl", "locks", "--out", str(path.parent / "out")]) == 0
    shown = capsys.readouterr().out
    assert "--as-if-done n2/s/t" in shown and "--skip" in shown and "--emit" not in shown
    assert main.run(["ddl", "resolve", "s.t", "--emit", "DROP TABLE t", "--out", str(path.parent / "out")]) == 2
    assert "have to be dropped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "mode"),
    keeping(
        [("TRUNCATE TABLE t", MODES[0]), ("DROP TABLE t", MODES[1])],
        [(statement, mode) for statement in ("TRUNCATE TABLE t", "DROP TABLE t") for mode in MODES],
    ),
)
def test_a_shard_that_follows_late(stage: Stage, capsys: Captured, mode: str, statement: str) -> None:
    """It counts as having run it: what it writes until it really does is held, and goes with it."""
    name = f"late-{mode}-{statement[:4]}"
    again = "n1 DO 1" if statement[0] == "T" else "n1 CREATE TABLE t (id INT PRIMARY KEY, v INT)"
    first = two(stage, name, f"{MADE}\nn1 {statement}\n{again}\nn1 INSERT INTO t VALUES (11, 9)")
    path = stage.configuration(name, [first], mode, sections=STRICT)
    out = path.parent / "out"
    assert len(merge(path, out).locks) == 1
    assert len(target(stage, out)["s", "t"]) == 4
    resolve(out, "s.t", "--as-if-done", "n2/s/t")
    assert merge(path, out).locks == ()
    assert target(stage, out)["s", "t"] == [(11, 9)]
    with stage.scene(name, ()) as (sessions, played):
        sessions["n2"].run("INSERT INTO s.t VALUES (25, 5)")
        sessions["n2"].run(statement.replace(" t", " s.t"))
        sessions["n1"].run("INSERT INTO s.t VALUES (15, 5)")
    stage.configuration(name, [first, *played], mode, sections=STRICT)
    result = merge(path, out)
    assert (result.locks, result.waiting_shards) == ((), ())
    assert target(stage, out)["s", "t"] == [(11, 9), (15, 5)]


LATE_PARTITIONS = f"""
    all CREATE TABLE t (id INT PRIMARY KEY, v INT) {PARTS.replace("10000", "1000")}
    all INSERT INTO t VALUES ({{n}}1, 1), ({{n}}001, 1)
    n1 STATEMENT
    n1 INSERT INTO t VALUES (12, 2), (1002, 2)
    """


@pytest.mark.parametrize(
    ("what", "mode"),
    keeping(
        [("TRUNCATE PARTITION p", MODES[0]), ("DROP PARTITION p", MODES[1])],
        [(what, mode) for what in ("TRUNCATE PARTITION p", "DROP PARTITION p") for mode in MODES],
    ),
)
def test_a_shard_that_empties_a_partition_late(stage: Stage, capsys: Captured, mode: str, what: str) -> None:
    """It counts as having done so: its own statement waits for none, and the rows it wrote there meanwhile are named.

    Without such rows nothing is to be said, which is known of a table without any rows.
    """
    name, statement = f"partition-{mode}-{what[:4]}", f"ALTER TABLE s.t {what}"
    first = two(stage, name, LATE_PARTITIONS.replace("STATEMENT", statement))
    path = stage.configuration(name, [first], mode, sections=STRICT)
    out = path.parent / "out"
    assert len(merge(path, out).locks) == 1
    resolve(out, "s.t", "--as-if-done", "n2/s/t")
    assert merge(path, out).locks == ()
    assert sorted(target(stage, out)["s", "t"]) == [(12, 2), (1001, 1), (1002, 2), (2001, 1)]
    with stage.scene(name, ()) as (sessions, played):
        sessions["n2"].run("INSERT INTO s.t VALUES (25, 5), (2005, 5)")
        sessions["n2"].run(statement)
        sessions["n2"].run("INSERT INTO s.t VALUES (26, 6), (2006, 6)")
        sessions["n1"].run("INSERT INTO s.t VALUES (15, 5)")
    stage.configuration(name, [first, *played], mode, sections=STRICT)
    for _ in range(2):
        with pytest.raises(ShardDdlStopped) as raised:
            merge(path, out)
    assert "it has counted as having run this" in raised.value.message
    remedy = raised.value.remedy or ""
    assert "delete the rows of n2/s/t in these partitions from s.t" in remedy and "`shard-doubts: warn`" in remedy
    target(stage, out)
    stage.target.execute("DELETE FROM s.t WHERE id BETWEEN 20 AND 999")
    stage.configuration(name, [first, *played], mode, sections={"shard-doubts": "warn"})
    result = merge(path, out)
    assert (len(result.warnings), result.locks, result.waiting_shards) == (1, (), ())
    stage.target.apply(mysqlbinlog([out / file for file in written(out)]))
    held = [rows(server, ("s", "t")) for server in stage.nodes.values()]
    assert sorted(rows(stage.target, ("s", "t"))) == sorted(row for one in held for row in one)


THREE = """
    n1 CREATE TABLE s.t1 (id INT PRIMARY KEY, v INT)
    n2 CREATE TABLE s.t1 (id INT PRIMARY KEY, v INT)
    n2 CREATE TABLE s.t2 (id INT PRIMARY KEY, v INT)
    n1 INSERT INTO s.t1 VALUES (11, 1)
    n2 INSERT INTO s.t1 VALUES (21, 1)
    n2 INSERT INTO s.t2 VALUES (31, 1)
    n1 TRUNCATE TABLE s.t1
    n1 INSERT INTO s.t1 VALUES (11, 2)
    """


@pytest.mark.parametrize("mode", keeping(MODES[:1], MODES))
def test_a_shard_that_counted_as_emptied_follows_before_the_last(stage: Stage, capsys: Captured, mode: str) -> None:
    """What it writes from there on waits with the others: the TRUNCATE that comes out at the last keeps it."""
    name = f"before-the-last-{mode}"
    stage.clear()
    routes = (Route("s", "t?", ("s", "t")),)
    plays = []
    with stage.scene(name, routes) as (sessions, played):
        for session in sessions.values():
            session.run("CREATE DATABASE s")
        for line in filter(None, map(str.strip, THREE.splitlines())):
            node, _, sql = line.partition(" ")
            sessions[node].run(sql)
    plays += played
    path = stage.configuration(name, plays, mode, sections=STRICT)
    out = path.parent / "out"
    merge(path, out)
    resolve(out, "s.t", "--as-if-done", "n2/s/t1")
    merge(path, out)
    for node, sql in (("n2", "INSERT INTO s.t1 VALUES (22, 2)"), ("n2", "TRUNCATE TABLE s.t1"),
                      ("n2", "INSERT INTO s.t1 VALUES (21, 3)"), ("n2", "INSERT INTO s.t2 VALUES (32, 3)"),
                      ("n1", "INSERT INTO s.t1 VALUES (12, 3)"), ("n2", "TRUNCATE TABLE s.t2"),
                      ("n2", "INSERT INTO s.t2 VALUES (31, 4)")):  # fmt: skip
        with stage.scene(name, routes) as (sessions, played):
            sessions[node].run(sql)
        plays += played
        stage.configuration(name, plays, mode, plays[:1], sections=STRICT)
        result = merge(path, out)
        assert result.warnings == ()
    assert (result.locks, result.waiting_shards) == ((), ())
    assert target(stage, out)["s", "t"] == [(11, 2), (12, 3), (21, 3), (31, 4)]


EXCHANGED = """
    all CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1000))
    all ALTER TABLE t ADD PARTITION (PARTITION q VALUES LESS THAN MAXVALUE)
    all CREATE TABLE u (id INT PRIMARY KEY, v INT)
    all INSERT INTO t VALUES ({n}1, 1), ({n}001, 1)
    all INSERT INTO u VALUES ({n}2, 2)
    n1 ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u
    n1 INSERT INTO t VALUES (1002, 3)
    n2 ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u
    """


@pytest.mark.parametrize("mode", keeping(["optimistic"], MODES))  # the other stops and goes on by the same lines
def test_all_shards_exchange_a_partition(stage: Stage, mode: str) -> None:
    """The merge stops; what it says to do gives the target the shards' rows, also of what comes later."""
    first = two(stage, f"exchange-{mode}", EXCHANGED)
    path = stage.configuration(f"exchange-{mode}", [first], mode, sections=STRICT)
    out = path.parent / "out"
    with pytest.raises(ShardDdlStopped) as raised:
        merge(path, out)
    for words in ("let all shards run it", "set `shard-doubts: warn`", "run it on the target by hand"):
        assert words in (raised.value.remedy or "")
    stage.configuration(f"exchange-{mode}", [first], mode, sections={"shard-doubts": "warn"})
    assert len(merge(path, out).warnings) == 2
    target(stage, out)
    stage.target.execute("ALTER TABLE s.t EXCHANGE PARTITION p WITH TABLE s.u")
    with stage.scene(f"exchange-{mode}", ()) as (sessions, played):
        for session in sessions.values():
            session.run("UPDATE s.t SET v = v + 10")
            session.run("INSERT INTO s.t VALUES (@@server_id, 4)")
            session.run("TRUNCATE TABLE s.u")
    stage.configuration(f"exchange-{mode}", [first, *played], mode, sections={"shard-doubts": "warn"})
    merge(path, out)
    stage.target.apply(mysqlbinlog([out / name for name in written(out)]))
    held = [sorted(rows(server, ("s", "t"))) for server in stage.nodes.values()]
    assert sorted(rows(stage.target, ("s", "t"))) == sorted(row for one in held for row in one)
    assert rows(stage.target, ("s", "u")) == []


SIBLINGS = {
    "several": f"{MADE}\nall CREATE TABLE u (id INT PRIMARY KEY)\nn1 DROP TABLE u, t\nn2 DROP TABLE t, u",
    "if exists": f"{MADE}\nn1 DROP TABLE t\nn1 DROP TABLE IF EXISTS t, nothing\nn2 DROP TABLE IF EXISTS nothing, t",
    "empty": "all CREATE TABLE t (id INT PRIMARY KEY)\nn1 DROP TABLE t\nn2 DROP TABLE t",
    "only one": "n1 CREATE TABLE t (id INT PRIMARY KEY)\nn1 INSERT INTO t VALUES (1)\nn1 TRUNCATE t\nn1 DROP TABLE t",
    "database": f"{MADE}\nn1 DROP DATABASE s\nn2 INSERT INTO t VALUES (29, 9)\nn2 DROP DATABASE s",
    "database with a foreign key": """
        all CREATE TABLE a (id INT PRIMARY KEY)
        all CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id))
        all INSERT INTO a VALUES ({n})
        all INSERT INTO b VALUES ({n}, {n})
        n1 DROP DATABASE s
        n2 DROP DATABASE s""",
    "database again": f"""{MADE}
        n1 DROP DATABASE s
        n1 CREATE DATABASE s
        n1 CREATE TABLE s.t (id INT PRIMARY KEY, v INT)
        n1 INSERT INTO s.t VALUES (11, 7)
        n2 INSERT INTO s.t VALUES (29, 9)
        n2 DROP DATABASE s
        n2 CREATE DATABASE s
        n2 CREATE TABLE s.t (id INT PRIMARY KEY, v INT)
        n2 INSERT INTO s.t VALUES (29, 7)""",
    "database anew, one by one": f"""{MADE}
        n1 DROP DATABASE s
        n2 DROP DATABASE s
        all CREATE DATABASE s
        all CREATE TABLE s.t (id INT PRIMARY KEY)
        all INSERT INTO s.t VALUES ({{n}})""",
    "view": f"{MADE}\nall CREATE VIEW w AS SELECT * FROM t\nn1 DROP VIEW w\nn2 DROP VIEW w\n"
    "n1 DROP TABLE t\nn2 DROP TABLE t",
    "index": f"{MADE}\nall ALTER TABLE t ADD KEY k (v)\nn1 DROP INDEX k ON t\nn1 TRUNCATE t\n"
    "n2 DROP INDEX k ON t\nn2 TRUNCATE t",
    "renamed": f"{MADE}\nn1 RENAME TABLE t TO u\nn1 DROP TABLE u\nn2 RENAME TABLE t TO u\nn2 DROP TABLE u",
    "renamed before": f"{MADE}\nn1 TRUNCATE t\nn1 RENAME TABLE t TO u\nn1 INSERT INTO u VALUES (11, 3)\n"
    "n2 TRUNCATE t\nn2 RENAME TABLE t TO u\nn2 INSERT INTO u VALUES (21, 3)",
    "emptied by one": """
        all CREATE TABLE t (id INT PRIMARY KEY)
        all CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1000))
        all INSERT INTO t VALUES ({n})
        all INSERT INTO p VALUES ({n})
        n1 TRUNCATE t
        n1 ALTER TABLE p TRUNCATE PARTITION p
        n1 INSERT INTO t VALUES (1)
        n1 INSERT INTO p VALUES (1)
        n1 DROP TABLE t, p
        n1 CREATE TABLE t (id INT PRIMARY KEY)
        n1 INSERT INTO t VALUES (1)
        n2 DROP TABLE t, p
        n2 CREATE TABLE t (id INT PRIMARY KEY)""",
    "in a transaction": f"""{MADE}
        all CREATE TABLE o (id INT PRIMARY KEY)
        n1 TRUNCATE t
        n1 BEGIN
        n1 INSERT INTO t VALUES (11, 4)
        n1 INSERT INTO o VALUES (1)
        n1 COMMIT
        n1 INSERT INTO o VALUES (2)
        n2 INSERT INTO o VALUES (3)
        n2 TRUNCATE t
        n1 TRUNCATE o
        n2 TRUNCATE o
        n1 INSERT INTO o VALUES (1)""",
    "a parent and its child": """
        all CREATE TABLE a (id INT PRIMARY KEY)
        all CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id))
        all INSERT INTO a VALUES ({n})
        all INSERT INTO b VALUES ({n}, {n})
        n1 DROP TABLE b, a
        n2 DROP TABLE b
        n2 DROP TABLE a""",
}


@pytest.mark.parametrize("modes", keeping([0], range(2)))  # each in one mode, by turns; then in the other
@pytest.mark.parametrize("name", keeping([*SIBLINGS][::2], SIBLINGS))
def test_siblings(stage: Stage, name: str, modes: int) -> None:
    played = two(stage, name, SIBLINGS[name])
    expected = {}
    for server in stage.nodes.values():
        for table in tables(server):
            expected.setdefault(table, []).extend(rows(server, table))
    for mode in [MODES[(list(SIBLINGS).index(name) // 2 + modes) % 2]]:
        path = stage.configuration(f"{name}-{mode}".replace(" ", "-").replace(",", ""), [played], mode, sections=STRICT)
        result = merge(path, path.parent / "out")
        assert (result.warnings, result.locks, result.waiting_shards) == ((), (), ())
        assert target(stage, path.parent / "out") == {t: sorted(held, key=repr) for t, held in expected.items()}
