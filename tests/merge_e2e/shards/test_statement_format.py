"""Statements in statement format: those that write only what is left out are left out and named, all others stop."""

import re
import shutil
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.cli import main
from binlog_merge.errors import StatementDml
from binlog_merge.pipeline.values import MergeResult
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import Played, Stage

pytestmark = [pytest.mark.mysql]

SECTIONS: dict[str, Any] = {"ignore-schemas": ["idle", "percona"], "shard-doubts": "error"}
MADE = """
    CREATE DATABASE app
    CREATE DATABASE percona
    CREATE DATABASE idle
    CREATE TABLE app.orders (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), n INT)
    CREATE TABLE app.log (id INT)
    CREATE TABLE percona.checksums (db CHAR(64), tbl CHAR(64), chunk INT, cnt INT, crc CHAR(40), ts TIMESTAMP NULL,
        PRIMARY KEY (db, tbl, chunk))
    CREATE TABLE idle.beat (id INT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6), v DOUBLE)
    INSERT INTO app.orders (v, n) VALUES ('é', 1), ('b', 2)
    """
CHECKSUM = (
    "REPLACE INTO `percona`.`checksums` (db, tbl, chunk, cnt, crc) SELECT 'app', 'orders', '1', COUNT(*) AS cnt, "
    "COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, convert(`v` using utf8mb4), `n`, "
    "CONCAT(ISNULL(`v`), ISNULL(`n`)))) AS UNSIGNED)), 10, 16)), 0) AS crc FROM `app`.`orders` FORCE INDEX(`PRIMARY`) "
    "WHERE ((`id` >= '1')) AND ((`id` <= '9')) /*checksum chunk*/"
)
LEFT_OUT = {
    "checksum": [CHECKSUM, "UPDATE percona.checksums SET ts = NOW(), crc = UPPER(crc) WHERE db = 'app'"],
    "beat": ["REPLACE INTO idle.beat VALUES (1, NOW(6), 1)", "USE idle", "INSERT INTO beat VALUES (2, NOW(6), RAND())"],
    "counter": ["INSERT INTO idle.beat (v) VALUES (7)", "INSERT INTO idle.beat (v) SELECT LAST_INSERT_ID()"],
    "variables": ["SET @a = 5", "INSERT INTO idle.beat (v) VALUES (@a)", "DELETE FROM idle.beat WHERE v = @a"],
    "several": [
        "INSERT INTO idle.beat (v) VALUES (1), (2)",
        "USE idle",
        "UPDATE idle.beat a JOIN percona.checksums b ON a.id = b.cnt SET a.v = 4, b.cnt = 5",
        "DELETE a FROM idle.beat AS a LEFT JOIN idle.beat b ON b.id = a.id + 1 WHERE b.id IS NULL",
        "DELETE FROM a USING idle.beat a, percona.checksums c WHERE a.id = c.chunk",
    ],
    "function": [
        "USE idle",
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "CREATE FUNCTION idle.f() RETURNS INT DETERMINISTIC RETURN 7",
        "INSERT INTO idle.beat (v) VALUES (idle.f())",
    ],
    "mixed": [
        "BEGIN",
        "INSERT INTO idle.beat (v) VALUES (3)",
        "SAVEPOINT a",
        "INSERT INTO idle.beat (v) VALUES (4)",
        "ROLLBACK TO a",
        "INSERT INTO app.orders (v, n) SELECT LEFT(UUID(), 8), 4",  # unsafe: MIXED logs its rows
        "COMMIT",
    ],
    "load": ["LOAD DATA LOCAL INFILE '{file}' INTO TABLE idle.beat (v)"],
}
STOPS = {
    "written": ["UPDATE app.orders SET n = n + 1 WHERE id = 1"],
    "unqualified": ["USE app", "INSERT INTO orders (v) VALUES ('x')"],
    "joined": ["UPDATE idle.beat a JOIN app.orders b ON a.id = b.id SET b.n = 4"],
    "function": [
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "CREATE FUNCTION app.f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO app.log VALUES (1); RETURN 1; END",
        "INSERT INTO idle.beat (v) SELECT app.f() FROM app.orders LIMIT 1",
    ],
    "trigger": [
        "CREATE TRIGGER idle.t AFTER INSERT ON idle.beat FOR EACH ROW INSERT INTO app.orders (v) VALUES ('t')",
        "INSERT INTO idle.beat (v) VALUES (1)",
    ],
    "load": ["LOAD DATA LOCAL INFILE '{file}' INTO TABLE app.orders (v)"],
}


def play(stage: Stage, name: str, statements: list[str], file: Path, form: str = "STATEMENT") -> Played:
    stage.clear()
    with stage.scene(name, ()) as (sessions, played):
        session = sessions["n1"]
        for text in MADE.replace(",\n", ",").strip().splitlines():
            session.run(text.strip())
        for text in ("TRIGGER", "FUNCTION"):
            for sql in (s for s in statements if s.startswith(f"CREATE {text}")):
                session.run(sql)
        session.run("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
        session.run(f"SET SESSION binlog_format = '{form}'")
        session.run("SET GLOBAL local_infile = 1")
        for text in statements:
            if text.startswith("LOAD"):
                socket = stage.nodes["n1"].socket
                local = pymysql.connect(unix_socket=socket, user="root", local_infile=True, autocommit=True)
                with local, local.cursor() as cursor:
                    cursor.execute(f"SET SESSION binlog_format = '{form}'")
                    cursor.execute(text.replace("{file}", str(file)))
            elif not text.startswith(("CREATE TRIGGER", "CREATE FUNCTION")):
                session.run(text)
        session.run("SET SESSION binlog_format = 'ROW'")
        session.run("INSERT INTO app.orders (v, n) VALUES ('last', 9)")
    return played[0]


@pytest.fixture
def values(tmp_path: Path) -> Path:
    path = tmp_path / "values.txt"
    path.write_text("1\n2\n3\n")
    return path


def merged(stage: Stage, name: str, played: Played, mode: str = "pessimistic") -> tuple[MergeResult, Path]:
    path = stage.configuration(f"{name}-{mode}", [played], mode, sections=SECTIONS)
    return merge(path, path.parent / "out"), path.parent / "out"


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_writes_only_what_is_left_out_is_left_out(stage: Stage, name: str, values: Path) -> None:
    played = play(stage, name, LEFT_OUT[name], values, "MIXED" if name == "mixed" else "STATEMENT")
    result, out = merged(stage, name, played)
    named = [kind for kind in result.ignored["statements"] if kind["why"].startswith("in statement format")]
    writes = [s.split()[0] for s in LEFT_OUT[name] if s.split()[0] in ("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD")]
    assert sum(kind["count"] for kind in named) == (1 if name == "mixed" else len(writes))  # of it one is rolled back
    assert {kind["kind"].split()[0] for kind in named} == set(writes)
    assert all(first["node"] == "n1" and first["position"] > 4 for kind in named for first in kind["first"])
    stage.target.drop_databases()
    stage.carry_out(out)
    ours = stage.target.query("SELECT * FROM app.orders ORDER BY id")
    assert ours == stage.nodes["n1"].query("SELECT * FROM app.orders ORDER BY id") and len(ours) >= 3
    assert not stage.target.query("SHOW DATABASES LIKE 'idle'")


@pytest.mark.parametrize("name", STOPS)
def test_what_may_write_more_stops(stage: Stage, name: str, values: Path) -> None:
    played = play(stage, name, STOPS[name], values)
    with pytest.raises(StatementDml) as raised:
        merged(stage, f"stops-{name}", played)
    assert raised.value.exit_code == 17 and raised.value.position and raised.value.node == "n1"


def test_runs_and_partitions_come_to_the_same(stage: Stage, values: Path) -> None:
    played = play(stage, "parts", [*LEFT_OUT["checksum"], *LEFT_OUT["several"], *LEFT_OUT["variables"]] * 3, values)
    path = stage.configuration("parts", [played], "pessimistic", sections=SECTIONS)
    found = []
    for partitions in (1, 5):
        out = path.parent / f"out-{partitions}"
        result = merge(path, out, partitions=partitions)
        found.append((written(out), [(k["kind"], k["count"]) for k in result.ignored["statements"]]))
    assert found[0] == found[1]
    assert merge(path, out).ignored["statements"] == []  # nothing new


def stopping(stage: Stage, node: str) -> Played:
    """A transaction in statement format on a node, with rows before and behind it on both."""
    stage.clear()
    with stage.scene(f"stops {node}", ()) as (sessions, played):
        for number, session in enumerate(sessions.values(), 1):
            session.run("CREATE DATABASE app")
            session.run("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
            session.run(f"INSERT INTO app.t VALUES ({number}1, 1), ({number}2, 2)")
        for _ in range(2):
            session = sessions[node]
            session.run("SET SESSION transaction_isolation = 'REPEATABLE-READ', binlog_format = 'STATEMENT'")
            session.run("BEGIN")
            session.run("UPDATE app.t SET v = v + 5 WHERE id < 15")
            session.run("INSERT INTO app.t (id) SELECT MAX(id) + 5 FROM app.t AS o")
            session.run("COMMIT")
            session.run("SET SESSION binlog_format = 'ROW'")
            session.run(f"INSERT INTO app.t SELECT {node[1]} * 100 + COUNT(*), 9 FROM app.t AS o")
    return played[0]


def told(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str, code: int = 0) -> str:
    assert main.run(["ddl", "resolve", *arguments, "--merged", str(out)]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


@pytest.mark.parametrize("node", ["n1", "n2"])  # the second's transactions have no GTIDs
def test_a_transaction_is_left_out(stage: Stage, capsys: pytest.CaptureFixture[str], node: str) -> None:
    played = stopping(stage, node)
    path = stage.configuration(f"skipped-{node}", [played], "pessimistic", sections=SECTIONS)
    out, ids, first = path.parent / "out", list[str](), True
    while True:
        try:
            result = merge(path, out, partitions=1 + len(ids))
            break
        except StatementDml as error:
            (id,) = re.findall(r"ddl resolve (\S+) --skip", error.remedy or "")
            assert (id.count("-") == 4) == (node == "n1")
            assert "statement stands" in error.message and id not in ids
        if first:
            assert id in told(capsys, out, id, "--skip")
            assert "withdrawn" in told(capsys, out, id, "--withdraw")
            first = False
            continue
        told(capsys, out, id, "--skip", "-o", "json")
        ids.append(id)
    (named,) = (kind for kind in result.ignored["statements"] if kind["kind"] == "transaction")
    assert "ddl resolve --skip" in named["why"] and named["first"][0]["node"] == node
    assert result.warnings == () and len(ids) == 2
    stage.target.drop_databases()
    stage.carry_out(out)
    ours = stage.target.query("SELECT id, v FROM app.t ORDER BY id")
    rows = [row for server in stage.nodes.values() for row in server.query("SELECT id, v FROM app.t")]
    inserted = {row for row in rows if row[1] is None}
    assert len(inserted) == 2 and {row[0] for row in ours} == {row[0] for row in rows} - {row[0] for row in inserted}
    # Decided, a merge of everything comes to the same.
    anew = path.parent / "anew"
    anew.mkdir()
    shutil.copyfile(out / "schema.duckdb", anew / "schema.duckdb")
    again = merge(path, anew, partitions=3)
    assert written(anew) == written(out)
    (named,) = (kind for kind in again.ignored["statements"] if kind["kind"] == "transaction")
    assert named["count"] == 2
    assert "too late" in told(capsys, out, ids[0], "--withdraw", code=38)
    assert "--skip leaves it out" in told(capsys, out, ids[0], "--emit", "X", code=2)


def test_what_is_read_is_not_left_out_any_more(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.clear()
    with stage.scene("read", ()) as (sessions, played):
        for session in sessions.values():
            session.run("CREATE DATABASE app")
        sessions["n1"].run("CREATE TABLE app.t (id INT PRIMARY KEY)")
        sessions["n1"].run("INSERT INTO app.t VALUES (1)")
        ((gtids,),) = sessions["n1"].ask("SELECT @@gtid_executed")
    path = stage.configuration("read", played, "pessimistic", sections=SECTIONS)
    out = path.parent / "out"
    merge(path, out)
    source, _, last = str(gtids).partition(":")
    last = re.split(r"[-:]", last)[-1]
    assert "too late" in told(capsys, out, f"{source}:{last}", "--skip", code=38)
    file = played[0].files["n1"].name
    assert "too late" in told(capsys, out, f"n1/{file}:4", "--skip", code=38)
