"""Statements in statement format: those that write only what is left out are left out and named, all others stop."""

from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.errors import StatementDml
from binlog_merge.pipeline.result import MergeResult
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
