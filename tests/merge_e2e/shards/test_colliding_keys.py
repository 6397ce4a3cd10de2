"""Keys that shards gave out independently, each remedy to its end: the target and DuckDB hold what the shards do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.cli import main as cli
from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.values import MergeResult
from tests.effort import keeping
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.shards.stage import Name, Route, Stage, create_of, databases, quoted
from tests.mysql_server import mysqlbinlog

pytestmark = [pytest.mark.mysql]

MODES = ("pessimistic", "optimistic")


@dataclass(frozen=True)
class Case:
    """Statements in turn, each for a node ("*": for all, one after the other), and the routes of its tables."""

    name: str
    story: Sequence[tuple[str, str]]
    routes: tuple[Route, ...]
    sections: Mapping[str, Any] = field(default_factory=dict)


def play(stage: Stage, case: Case, mode: str) -> tuple[MergeResult, Path]:
    """Play a case on the nodes, merge it and carry it out on the target and in DuckDB; returns result and output."""
    stage.clear()
    with stage.scene(case.name, case.routes) as (nodes, played):
        for node, sql in case.story:
            for name in nodes if node == "*" else [node]:
                for statement in filter(None, map(str.strip, sql.split(";"))):
                    nodes[name].run(statement)
    path = stage.configuration(f"{case.name}-{mode}", played, mode, sections={"shard-doubts": "error", **case.sections})
    out = path.parent / "out"
    result = merge(path, out)
    merge(path, again := path.parent / "again", runner=None, partitions=3)
    assert written(again) == written(out)
    stage.carry_out(out)
    assert cli.run(["replay", "--merged", str(out), "--to", f"duckdb://{out.parent}/copy.db"]) == 0
    return result, out


def in_duckdb(out: Path, name: Name) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(out.parent / "copy.db"), read_only=True) as file:
        return sorted(file.execute(f'SELECT * FROM "{name[0]}"."{name[1]}"').fetchall())


def on_target(stage: Stage, name: Name) -> list[tuple[Any, ...]]:
    return sorted(stage.target.query(f"SELECT * FROM {quoted(name)}"))


@pytest.mark.parametrize("mode", keeping(["pessimistic"], MODES))  # names are given before any mode sees them
def test_equal_names_become_tables_of_their_own(mode: str, stage: Stage) -> None:
    create = (
        "CREATE DATABASE k; CREATE TABLE k.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(9) UNIQUE); "
        "INSERT INTO k.t (v) VALUES ('a'), ('b')"
    )
    story = [
        ("*", create),
        ("n2", "ALTER TABLE k.t ADD COLUMN w INT NOT NULL DEFAULT 7"),  # n1's is another table: nothing waits
        ("n2", "INSERT INTO k.t (v, w) VALUES ('c', 8); UPDATE k.t SET v = 'B' WHERE id = 2"),
        ("n1", "DELETE FROM k.t WHERE id = 1; INSERT INTO k.t (v) VALUES ('c')"),
    ]
    case = Case("apart", story, (Route("k", "t", ("k", "t_2"), source="n2"),))
    _, out = play(stage, case, mode)
    for node, table in (("n1", "t"), ("n2", "t_2")):
        rows = sorted(stage.nodes[node].query("SELECT * FROM k.t"))
        assert on_target(stage, ("k", table)) == in_duckdb(out, ("k", table)) == rows
        assert create_of(stage.target, ("k", table)) == create_of(stage.nodes[node], ("k", "t"))
    assert databases(stage.target) == ["k"]


SHARD_IN_KEY = {"extract-source": {"source-regexp": "(.*)", "target-column": "c_shard", "key": True}}

CREATED = (
    "CREATE DATABASE k; CREATE TABLE k.t (id INT AUTO_INCREMENT PRIMARY KEY, mail VARCHAR(30), v INT, code INT, "
    "UNIQUE KEY mail (mail), KEY v (v)) DEFAULT CHARSET utf8mb4; "
    "INSERT INTO k.t (mail, v) VALUES ('a', 1), ('b', 2), (NULL, 3)"
)

ALTERED = (
    "ALTER TABLE k.t ADD COLUMN w INT UNIQUE AFTER id, ADD UNIQUE KEY vm (v, mail(5) DESC), ALGORITHM=INPLACE",
    "ALTER TABLE k.t DROP COLUMN mail",
    "CREATE UNIQUE INDEX code ON k.t (code)",
    "ALTER TABLE k.t DROP PRIMARY KEY, ADD PRIMARY KEY USING BTREE (id, v), RENAME COLUMN code TO kode",
    "ALTER TABLE k.t MODIFY COLUMN id BIGINT AUTO_INCREMENT, ADD n INT NOT NULL DEFAULT 4 COMMENT 'UNIQUE, (x'",
    "ALTER TABLE k.t RENAME INDEX vm TO v_m, DROP COLUMN w, ADD CONSTRAINT UNIQUE (n, kode)",
)


@pytest.mark.parametrize(
    ("image", "mode"),
    keeping([("MINIMAL", MODES[1])], [(image, mode) for image in ("FULL", "MINIMAL") for mode in MODES]),
)
def test_the_shard_becomes_part_of_every_key(mode: str, image: str, stage: Stage) -> None:
    write = (
        f"SET binlog_row_image = {image}; UPDATE k.t SET v = v + 10 WHERE id = 1; DELETE FROM k.t WHERE id = 2; "
        "INSERT INTO k.t (id, v) VALUES (2, 22); UPDATE k.t SET id = id + 40 WHERE id = 3; "
        "UPDATE k.t SET id = id - 40 WHERE id = 43"
    )
    story = [("*", CREATED), ("n1", write), ("n2", write)]
    story += [step for sql in ALTERED for step in (("*", sql), ("n1", write), ("n2", write))]
    case = Case(f"keyed-{image.lower()}", story, (Route("k", "t", ("k", "t"), SHARD_IN_KEY),))
    _, out = play(stage, case, mode)
    columns = "id, v, kode, n"
    wanted = sorted((*row, node) for node, server in stage.nodes.items() for row in server.query(
        f"SELECT {columns} FROM k.t"
    ))  # fmt: skip
    asked = f"SELECT {columns}, c_shard FROM k.t"
    assert len(wanted) == 6 and sorted(stage.target.query(asked)) == wanted
    with duckdb.connect(str(out.parent / "copy.db"), read_only=True) as file:
        assert sorted(file.execute(asked).fetchall()) == wanted
    keys = {line.strip(" ,") for line in create_of(stage.target, ("k", "t")).splitlines() if "KEY" in line}
    assert keys == {
        "PRIMARY KEY (`id`,`v`,`c_shard`) USING BTREE",
        "UNIQUE KEY `v_m` (`v`,`c_shard`)",
        "UNIQUE KEY `code` (`kode`,`c_shard`)",
        "UNIQUE KEY `n` (`n`,`kode`,`c_shard`)",
        "KEY `v` (`v`)",
    }


@pytest.mark.parametrize("mode", keeping(["optimistic"], MODES))
def test_foreign_keys_refer_to_rows_of_their_shard(mode: str, stage: Stage) -> None:
    create = (
        "CREATE DATABASE k; CREATE TABLE k.t (id INT AUTO_INCREMENT PRIMARY KEY, code INT UNIQUE, up INT, "
        "FOREIGN KEY (up) REFERENCES t (id)); "
        "CREATE TABLE k.line (id INT PRIMARY KEY, t_id INT, code INT, "
        "CONSTRAINT its_t FOREIGN KEY (t_id) REFERENCES t (id) ON DELETE CASCADE); "
        "CREATE TABLE k.note (id CHAR(36) PRIMARY KEY, t_id INT NOT NULL)"
    )
    write = (
        "INSERT INTO k.t (code) VALUES (10), (11); UPDATE k.t SET up = 1 WHERE id = 2; "
        "INSERT INTO k.line VALUES (1, 1, 10), (2, 2, 11); INSERT INTO k.note VALUES (CONCAT(UUID()), 2)"
    )
    later = (
        "ALTER TABLE k.line ADD CONSTRAINT its_code FOREIGN KEY (code) REFERENCES k.t (code) ON UPDATE CASCADE",
        "ALTER TABLE k.line ADD note INT",
        "ALTER TABLE k.note ADD FOREIGN KEY fk (t_id) REFERENCES k.t (id)",
    )
    story = [("*", create), ("*", write), *(("*", sql) for sql in later)]
    story += [("n2", "DELETE FROM k.line WHERE id = 1; UPDATE k.t SET code = 99 WHERE id = 2")]
    unkeyed = {"extract-source": {**SHARD_IN_KEY["extract-source"], "key": False}}
    routes = (
        Route("k", "t", ("k", "t"), SHARD_IN_KEY),
        Route("k", "line", ("k", "line"), SHARD_IN_KEY),
        Route("k", "note", ("k", "note"), unkeyed),  # its ids differ: it needs the column, but not in its key
    )
    play(stage, Case("foreign", story, routes), mode)
    for table, columns in (("t", "id, code, up"), ("line", "id, t_id, code, note"), ("note", "id, t_id")):
        wanted = {(*row, n) for n, s in stage.nodes.items() for row in s.query(f"SELECT {columns} FROM k.{table}")}
        assert wanted and set(stage.target.query(f"SELECT {columns}, c_shard FROM k.{table}")) == wanted
    keys = {line.strip(" ,") for t in ("line", "note") for line in create_of(stage.target, ("k", t)).splitlines()}
    assert {
        "CONSTRAINT `its_t` FOREIGN KEY (`t_id`, `c_shard`) REFERENCES `t` (`id`, `c_shard`) ON DELETE CASCADE",
        "CONSTRAINT `its_code` FOREIGN KEY (`code`, `c_shard`) REFERENCES `t` (`code`, `c_shard`) ON UPDATE CASCADE",
        "CONSTRAINT `note_ibfk_1` FOREIGN KEY (`t_id`, `c_shard`) REFERENCES `t` (`id`, `c_shard`)",
        "PRIMARY KEY (`id`)",
    } <= keys


@pytest.mark.parametrize(
    ("action", "route", "said"),
    [
        ("RESTRICT", {}, "refers to k.t, whose keys have c_shard, which k.line lacks"),
        ("SET NULL", SHARD_IN_KEY, "SET NULL would empty them"),
    ],
)
def test_a_foreign_key_that_cannot_have_the_shard(action: str, route: Any, said: str, stage: Stage) -> None:
    create = (
        "CREATE DATABASE k; CREATE TABLE k.t (id INT PRIMARY KEY); CREATE TABLE k.line (id INT PRIMARY KEY, t_id INT, "
        f"FOREIGN KEY (t_id) REFERENCES t (id) ON DELETE {action})"
    )
    routes = (Route("k", "t", ("k", "t"), SHARD_IN_KEY), Route("k", "line", ("k", "line"), route))
    with pytest.raises(ConfigError, match=said):
        play(stage, Case(f"unkeyed-{action[:3]}", [("*", create)], routes), "pessimistic")


def test_a_base_whose_keys_lack_the_column_is_refused(stage: Stage) -> None:
    path = stage.folder / "logical.sql"
    path.write_text("CREATE DATABASE k; USE k; CREATE TABLE t (id INT PRIMARY KEY, c_shard VARCHAR(9) NOT NULL);")
    one = "CREATE DATABASE k; USE k; CREATE TABLE t (id INT PRIMARY KEY);"
    physical = {}
    for node in stage.nodes:
        (stage.folder / f"{node}.sql").write_text(one)
        physical[node] = str(stage.folder / f"{node}.sql")
    case = Case(
        "base", [], (Route("k", "t", ("k", "t"), SHARD_IN_KEY),), {"base": {"logical": str(path), "physical": physical}}
    )
    with pytest.raises(ConfigError, match=r"the base has k.t with the key PRIMARY that lacks c_shard"):
        play(stage, case, "pessimistic")


@pytest.mark.parametrize(
    ("key", "value"),
    keeping([("CHAR(2)", "'DE'")], [("CHAR(2)", "'DE'"), ("INT", "512"), ("BINARY(2)", "x'4445'")]),
)
def test_a_replay_that_stops_names_the_key_and_the_ways_out(
    key: str, value: str, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    create = f"CREATE DATABASE k; CREATE TABLE k.t (code {key} PRIMARY KEY, v INT); INSERT INTO k.t VALUES ({value}, 1)"
    shown = "code=0x4445" if "x" in value else f"code={value}"
    case = Case(f"stops-{key[:3]}", [("*", create)], ())
    stage.clear()
    with stage.scene(case.name, ()) as (nodes, played):
        for node in nodes.values():
            for statement in create.split("; "):
                node.run(statement)
    path = stage.configuration(case.name, played, "pessimistic", sections={"key-doubts": "warn"})
    out = path.parent / "out"
    assert any("keys collide" in warning and shown in warning for warning in merge(path, out).warnings)
    # In one replay, and with the first of the two rows from an earlier one.
    for name, stops in (("one", []), ("two", ["--stop-gtid"])):
        replay = ["replay", "--merged", str(out), "--to", f"duckdb://{path.parent}/{name}.db"]
        for stop in stops:
            assert cli.run([*replay, stop, f"{state_of(out).header.cluster_uuid}:3"]) == 0
        capsys.readouterr()
        assert cli.run(replay) == 50
        said = " ".join(capsys.readouterr().err.split())
        assert f"insert of k.t: the row is there already, {shown}" in said
        for remedy in ("`copies`", "`key: true`", "`source-pattern`", "`binlog-merge verify`"):
            assert remedy in said


def test_a_shard_whose_route_lacks_the_column_is_refused(stage: Stage) -> None:
    """Its rows would all have '' in the key, and collide among such shards."""
    create = "CREATE DATABASE k; CREATE TABLE k.t (id INT PRIMARY KEY)"
    routes = (Route("k", "t", ("k", "t"), SHARD_IN_KEY, source="n1"),)
    with pytest.raises(ConfigError, match=r"n2/k/t is a shard of k\.t, whose keys have c_shard by another route"):
        play(stage, Case("some", [("*", create)], routes), "optimistic")


BASE = (
    "CREATE DATABASE k; USE k; CREATE TABLE t (id INT AUTO_INCREMENT, mail VARCHAR(30), v INT, {more}) CHARSET latin1;"
)


def test_a_log_that_begins_with_a_base_is_asked_and_undone_by_keys_with_the_shard(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables are from before the log, and get another character set, the column that the route fills in, too."""
    alone = BASE.format(more="PRIMARY KEY (id), UNIQUE KEY mail (mail)")
    keyed = BASE.format(
        more="c_shard VARCHAR(64) NOT NULL DEFAULT '', PRIMARY KEY (id, c_shard), UNIQUE KEY mail (mail, c_shard)"
    )
    stage.clear()
    for server in stage.nodes.values():
        server.execute(alone)
    with stage.scene("base", ()) as (nodes, played):
        for node in nodes.values():
            node.run("INSERT INTO k.t (mail, v) VALUES ('zoé', 1), ('b', 2), (NULL, 3)")
            node.run("ALTER TABLE k.t CONVERT TO CHARACTER SET utf8mb4")
        for node in nodes.values():
            node.run("UPDATE k.t SET v = v + 10 WHERE id < 3")
            node.run("DELETE FROM k.t WHERE id = 2")
            node.run("INSERT INTO k.t (id, mail, v) VALUES (2, 'ß日本', 4)")
            node.run("UPDATE k.t SET id = 7 WHERE id = 1")
    (stage.folder / "keyed.sql").write_text(keyed)
    (stage.folder / "alone.sql").write_text(alone)
    physical = {node: str(stage.folder / "alone.sql") for node in stage.nodes}
    base = {"logical": str(stage.folder / "keyed.sql"), "physical": physical}
    routed = [replace(played[0], routes=(Route("k", "t", ("k", "t"), SHARD_IN_KEY),))]
    path = stage.configuration("keyed-base", routed, "pessimistic", sections={"base": base})
    out = path.parent / "out"
    result = merge(path, out)
    assert not result.warnings and not result.waiting
    stage.target.execute(keyed.replace("CREATE DATABASE k; ", "CREATE DATABASE k; SET sql_log_bin = 0; "))
    stage.target.execute("RESET BINARY LOGS AND GTIDS")
    stage.target.apply(mysqlbinlog([out / name for name in written(out)]))
    wanted = sorted((*row, n) for n, server in stage.nodes.items() for row in server.query("SELECT * FROM k.t"))
    assert on_target(stage, ("k", "t")) == wanted and len(wanted) == 6
    shown = create_of(stage.target, ("k", "t"))
    assert "`c_shard` varchar(64) NOT NULL DEFAULT ''" in shown and "DEFAULT CHARSET=utf8mb4" in shown
    assert "latin1" not in shown

    address = f"mysql://root@localhost/?socket={stage.target.socket}"
    against = ["verify", "--merged", str(out), "--against", address, "--base", "empty"]
    assert cli.run(against) == 0
    stage.target.execute("SET sql_log_bin = 0; UPDATE k.t SET v = 99 WHERE id = 2 AND c_shard = 'n2'")
    capsys.readouterr()
    assert cli.run(against) == 1
    said = capsys.readouterr().out
    assert "n2" in said and "n1" not in said
    stage.target.execute("SET sql_log_bin = 0; UPDATE k.t SET v = 4 WHERE id = 2 AND c_shard = 'n2'")

    asked = ["changes", "--merged", str(out), "--table", "k.t", "--where", "id = 2 AND c_shard = 'n2'", "-o", "jsonl"]
    assert cli.run(asked) == 0
    changes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [change["op"] for change in changes] == ["insert", "update", "delete", "insert"]
    assert {(change["after"] or change["before"])["c_shard"] for change in changes} == {"n2"}

    uuid, first = state_of(out).header.cluster_uuid, 4  # behind the two inserts and the ALTER
    between = ["--start", f"{uuid}:{first}", "--stop", f"{uuid}:{state_of(out).rank}"]
    only_n1 = ["flashback", "--merged", str(out), "--table", "k.t", *between, "--where", "c_shard = 'n1'"]
    assert cli.run(only_n1) == 0
    stage.target.apply(capsys.readouterr().out.encode())
    undone = {row for row in on_target(stage, ("k", "t")) if row[3] == "n1"}
    assert undone == {(1, "zoé", 1, "n1"), (2, "b", 2, "n1"), (3, None, 3, "n1")}
    assert {row for row in on_target(stage, ("k", "t")) if row[3] == "n2"} == {r for r in wanted if r[3] == "n2"}
