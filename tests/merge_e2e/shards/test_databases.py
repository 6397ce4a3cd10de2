"""The database that a DDL's session uses, where routes rename it or leave it out, on real servers."""

from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.query import Query
from binlog_merge.cli import main
from binlog_merge.errors import DdlNotUnderstoodError, ShardsInDoubt
from binlog_merge.pipeline.coordinate.stores import STORE_NAME
from snapshot_store.store.db import Store
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import Played, Route, Stage, create_of, rows_of
from tests.merge_e2e.test_ddl_session import statements

pytestmark = [pytest.mark.mysql]

ROUTES = (Route("t_n?", "", ("t", "")), Route("u_n?", "", ("u", "")))
BEGIN = (
    "CREATE DATABASE t_{n} CHARACTER SET latin1",
    "CREATE DATABASE u_{n} CHARACTER SET koi8r",
    "CREATE DATABASE idle CHARACTER SET greek",
    "CREATE TABLE t_{n}.a{n} (id INT PRIMARY KEY, v VARCHAR(20))",
)


def played(stage: Stage, name: str, *statements: str) -> Played:
    """Run statements on the first node, in one session."""
    stage.clear()
    with stage.scene(name, ROUTES) as (sessions, found):
        for sql in (*BEGIN, *statements):
            sessions["n1"].run(sql.format(n="n1"))
    return found[0]


def configured(stage: Stage, one: Played, mode: str = "pessimistic", **sections: Any) -> Path:
    document = {"ignore-schemas": ["idle"], "shard-doubts": "error", **sections}
    document["routes"] = [
        {"schema-pattern": route.schema_pattern, "target-schema": route.target[0]} for route in one.routes
    ]
    return stage.configuration(f"{one.name}-{mode}", [one], mode, sections=document)


def events(out: Path) -> list[Query]:
    return [query for name in written(out) for query, _, _ in statements(out / name)]


def carried_out(stage: Stage, out: Path) -> None:
    stage.target.drop_databases()
    stage.carry_out(out)
    assert create_of(stage.target, ("t", "an1")) == create_of(stage.nodes["n1"], ("t_n1", "an1"))
    assert rows_of(stage.target, ("t", "an1"), ["id", "v"]) == rows_of(stage.nodes["n1"], ("t_n1", "an1"), ["id", "v"])


USED = {
    "its-own": (("USE t_{n}",), "t", "latin1", "é"),
    "another": (("USE u_{n}",), "u", "koi8r", "я"),
    "none": ((), "", "utf8mb4", "漢"),
    "left-out": (("USE idle",), "t", "greek", "ω"),
    "dropped-and-made": (
        ("USE u_{n}", "DROP DATABASE u_{n}", "CREATE DATABASE u_{n}", "USE u_{n}"),
        "u",
        "utf8mb4",
        "漢",
    ),
}


@pytest.mark.parametrize(("number", "name"), list(enumerate(USED)))
def test_it_goes_through_the_routes(stage: Stage, number: int, name: str) -> None:
    use, database, charset, text = USED[name]
    convert = "ALTER TABLE t_{n}.a{n} CONVERT TO CHARSET DEFAULT, ADD w INT"
    one = played(stage, f"used-{name}", *use, convert, f"INSERT INTO t_{{n}}.a{{n}} VALUES (1, '{text}', 2)")
    path = configured(stage, one, ("pessimistic", "optimistic")[number % 2])
    merge(path, path.parent / "out")
    query = events(path.parent / "out")[-1]
    assert (query.schema_text, f"CHARSET {charset}" in query.text) == (database, True)
    carried_out(stage, path.parent / "out")


def test_what_is_only_done_if_need_be_is_so_on_the_target(stage: Stage) -> None:
    """A target that has the database already goes on."""
    stage.clear()
    with stage.scene("need", ROUTES) as (sessions, found):
        for maybe_not, maybe, name in (("IF NOT EXISTS ", "IF EXISTS ", "t"), ("", "", "u")):
            for node, session in sessions.items():
                session.run(f"CREATE DATABASE {maybe_not}{name}_{node}")
            for node, session in sessions.items():
                session.run(f"DROP DATABASE {maybe}{name}_{node}")
    path = configured(stage, found[0])
    merge(path, path.parent / "out")
    assert [query.text.partition(" CHARACTER")[0] for query in events(path.parent / "out")] == [
        "CREATE DATABASE IF NOT EXISTS `t`",
        "DROP DATABASE IF EXISTS `t`",
        "CREATE DATABASE `u`",
        "DROP DATABASE `u`",
    ]
    stage.target.execute("CREATE DATABASE t")
    stage.carry_out(path.parent / "out")


def test_a_database_that_an_earlier_run_has_seen(stage: Stage) -> None:
    """Of a run, the store gives what its statements name; the session's database is one of these."""
    convert = "ALTER TABLE t_{n}.a{n} CONVERT TO CHARACTER SET DEFAULT"
    one = played(stage, "two-runs", "USE u_{n}", "FLUSH BINARY LOGS", convert, "INSERT INTO t_{n}.a{n} VALUES (1, 'я')")
    path = configured(stage, one)
    merge(path, path.parent / "out")
    later = stage.nodes["n1"].binlog_files()[-1]
    (path.parent / "n1" / later.name).write_bytes(later.read_bytes())
    merge(path, path.parent / "out")
    assert events(path.parent / "out")[-1].schema_text == "u"
    carried_out(stage, path.parent / "out")


def test_a_database_that_a_run_drops_and_another_makes_anew(stage: Stage) -> None:
    """Its table goes with it, though the run that drops it has nothing else of the table."""
    table = "CREATE TABLE t_{n}.a{n} (id INT PRIMARY KEY, v VARCHAR(20), w INT)"
    anew = (BEGIN[0], table, "INSERT INTO t_{n}.a{n} VALUES (1, 'x', 2)")
    one = played(stage, "dropped", "FLUSH BINARY LOGS", "DROP DATABASE t_{n}", "FLUSH BINARY LOGS", *anew)
    path = configured(stage, one)
    out = path.parent / "out"
    merge(path, out)
    for later, is_gone in zip(stage.nodes["n1"].binlog_files()[-2:], (True, False), strict=True):
        (path.parent / "n1" / later.name).write_bytes(later.read_bytes())
        merge(path, out)
        with Store.open(out / STORE_NAME, True) as store:
            found = store.lookup([("t", "an1", store.last_key()._replace(node_seq=999_999), None)])[0]
        assert found is not None and (found.table is None) == is_gone
    carried_out(stage, out)


def test_a_database_whose_character_set_nobody_knows(stage: Stage, tmp_path: Path) -> None:
    """It was there before the log begins: what DEFAULT means is said by who knows it."""
    stage.clear()
    with stage.scene("unknown", ROUTES) as (sessions, found):
        session = sessions["n1"]
        for sql in ("SET sql_log_bin = 0", "CREATE DATABASE u_n1 CHARACTER SET koi8r", "SET sql_log_bin = 1"):
            session.run(sql)
        for sql in (BEGIN[0], BEGIN[3], "USE u_n1", "ALTER TABLE t_{n}.a{n} ADD w INT"):
            session.run(sql.format(n="n1"))
        session.run("ALTER TABLE t_n1.an1 CONVERT TO CHARACTER SET DEFAULT")
    path = configured(stage, found[0])
    out = path.parent / "out"
    with pytest.raises(DdlNotUnderstoodError, match="character set of database u_n1") as caught:
        merge(path, out)
    # Of a database that is not known, nobody knows whether the target has it, either.
    assert [query.schema_text for query in events(out)] == ["t", "", "t"]
    file = tmp_path / "a.sql"
    file.write_text("CREATE TABLE an1 (id INT PRIMARY KEY, v VARCHAR(20), w INT) CHARSET koi8r")
    words = str(caught.value.remedy).partition("binlog-merge ")[2].partition("`")[0].split()
    assert main.run([{"FILE": str(file), "DIR": str(out)}.get(word, word) for word in words]) == 0
    merge(path, out)
    stage.target.drop_databases()
    stage.carry_out(out)
    assert "CHARSET=koi8r" in create_of(stage.target, ("t", "an1"))


@pytest.mark.parametrize(("mode", "use"), [("pessimistic", "USE t_{n}"), ("optimistic", "USE idle")])
def test_the_name_of_a_database_that_has_another_name_there_is_a_doubt(stage: Stage, mode: str, use: str) -> None:
    add = "ALTER TABLE t_{n}.a{n} ADD w VARCHAR(64) DEFAULT (DATABASE())"
    one = played(stage, "name", use, "INSERT INTO t_{n}.a{n} VALUES (1, 'x')", add)
    path = configured(stage, one, mode)
    with pytest.raises(ShardsInDoubt, match="the name of the session's database in w"):
        merge(path, path.parent / "out")


def test_an_operator_says_which_character_set(stage: Stage) -> None:
    """DEFAULT means that of a session's database, and nobody's session runs what an operator says."""
    stage.clear()
    routes = (Route("t_n?", "a?", ("t", "a")),)
    with stage.scene("emitted", routes) as (sessions, found):
        for node, session in sessions.items():
            session.run(f"CREATE DATABASE t_{node}")
            session.run(f"CREATE TABLE t_{node}.a1 (id INT PRIMARY KEY, v VARCHAR(9) CHARSET latin1)")
        sessions["n1"].run("ALTER TABLE t_n1.a1 ADD w INT")
    path = stage.configuration("emitted", found, "pessimistic")
    out = path.parent / "out"
    merge(path, out)
    emit = ["ddl", "resolve", "t.a", "--emit", "ALTER TABLE a CONVERT TO CHARACTER SET DEFAULT", "--out", str(out)]
    assert main.run(emit) == 2


def test_a_literal_with_an_offset_is_in_the_sessions_zone(stage: Stage) -> None:
    """Rows that come before their shard's ALTER are filled with the DEFAULT as the server has converted it."""
    stage.clear()
    add = "ALTER TABLE t_{n}.a1 ADD w DATETIME NOT NULL DEFAULT '2020-01-02 03:04:05+05:30', "
    add += "ADD x TIMESTAMP NULL DEFAULT '2020-01-02 03:04:05+05:30', "
    add += "ADD y DATETIME(1) DEFAULT '2020-01-01 00:30:00.25+02:00'"
    with stage.scene("offset", (Route("t_n?", "a?", ("t", "a")),)) as (sessions, found):
        for node, session in sessions.items():
            session.run("SET time_zone = '+03:00'")
            session.run(f"CREATE DATABASE t_{node}")
            session.run(f"CREATE TABLE t_{node}.a1 (id INT PRIMARY KEY)")
        sessions["n1"].run(add.format(n="n1"))
        sessions["n2"].run("INSERT INTO t_n2.a1 VALUES (1)")
        sessions["n2"].run(add.format(n="n2"))
        sessions["n2"].run("INSERT INTO t_n2.a1 (id) VALUES (2)")
    result, _ = stage.perform("offset", found, "optimistic")
    assert not result.warnings
    columns = ["id", "w", "x", "y"]
    assert sorted(rows_of(stage.target, ("t", "a"), columns)) == sorted(
        rows_of(stage.nodes["n2"], ("t_n2", "a1"), columns)
    )
