"""Targets that are not what the log's rows are of: data right, or told; never taken for what they are not."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from binlog_merge.cli.verbs import application
from binlog_merge.errors import OutsideLog, ReplayStopped, TargetBusy
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import replay
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer
from tests.targets.server.workload import as_output

pytestmark = pytest.mark.mysql

BASE = """CREATE DATABASE s; USE s;
CREATE TABLE a (id INT PRIMARY KEY, n VARCHAR(20), v INT UNSIGNED, t TEXT CHARACTER SET utf8mb3);
CREATE TABLE b (id INT PRIMARY KEY, e ENUM('x','y','z'))"""
WORK = """USE s; INSERT INTO a VALUES (1, 'one', 4000000000, 'ä'); INSERT INTO b VALUES (1, 'y');
UPDATE a SET n = 'two'; CREATE TABLE made (v INT); INSERT INTO made VALUES (1), (2); ALTER TABLE a ADD more INT;
UPDATE a SET more = 7"""
TABLES = ("a", "b", "made")
LAST = 7

Merged = tuple[Log, list[Any]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, _shared_mysql_server: MySqlServer) -> Merged:
    """A log, and what its source came to."""
    server = _shared_mysql_server
    server.drop_databases()
    server.execute(BASE)
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(WORK)
    return as_output(server, tmp_path_factory.mktemp("log")), contents(server)


def contents(server: MySqlServer) -> list[Any]:
    return [server.query(f"SELECT * FROM s.{table}") for table in TABLES]


def run(server: MySqlServer, binlog: Log, **options: Any) -> ReplayResult:
    target = MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)
    return replay(binlog, target, ReplayOptions(**options))


@pytest.mark.parametrize(
    ("change", "told", "rank"),
    [
        ("ALTER TABLE b DROP e", "it has 1 columns, the rows 2", 2),
        ("ALTER TABLE b ADD first INT FIRST", "column 1, first: is named id", 2),
        ("ALTER TABLE a MODIFY v INT", "column 3, v: UNSIGNED against int", 1),
        ("ALTER TABLE b MODIFY e ENUM('y','x','z')", r"column 2, e: members .'x', 'y', 'z'. against", 2),
        ("ALTER TABLE a RENAME COLUMN n TO m", "column 2, m: is named n", 1),
        ("ALTER TABLE a MODIFY n VARCHAR(3)", "column 2, n: VARCHAR of 80 bytes against VARCHAR of 12 bytes", 1),
        ("ALTER TABLE a MODIFY t TEXT CHARACTER SET latin1", "character set utf8mb3 against latin1", 1),
        ("ALTER TABLE b ENGINE=MyISAM", "MyISAM undoes nothing", 2),
    ],
)
def test_a_table_that_is_another_one_is_told(
    change: str, told: str, rank: int, mysql_server: MySqlServer, log: Merged
) -> None:
    mysql_server.execute(BASE)
    mysql_server.execute(change, "s")
    for options in ({}, {"workers": 3, "batch": 1}):
        with pytest.raises(ReplayStopped, match=told) as caught:
            run(mysql_server, log[0], **options)
        assert caught.value.position and f"{log[0].cluster_uuid}:{rank}: " in caught.value.message
        assert mysql_server.query("SELECT COUNT(*) FROM s.b") == [(0,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE b ADD behind INT DEFAULT 5",
        "ALTER TABLE a MODIFY t TEXT CHARACTER SET utf8mb4",
        "CREATE TRIGGER tr BEFORE INSERT ON a FOR EACH ROW SET NEW.v = 5",
        "SET GLOBAL replica_type_conversions = 'ALL_NON_LOSSY'; ALTER TABLE b MODIFY id BIGINT",
        "SET GLOBAL sql_generate_invisible_primary_key = ON",
        "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
    ],
)
def test_what_does_no_harm_is_let_be(change: str, mysql_server: MySqlServer, log: Merged) -> None:
    mysql_server.execute(BASE)
    try:
        mysql_server.execute(change, "s")
        run(mysql_server, log[0])
        rows = contents(mysql_server)
        assert [rows[0], [row[:2] for row in rows[1]], rows[2]] == log[1]
    finally:
        defaults = ("replica_type_conversions", "sql_generate_invisible_primary_key", "sql_mode")
        mysql_server.execute(";".join(f"SET GLOBAL {name} = DEFAULT" for name in defaults))


def test_a_key_that_the_source_made_up_is_the_log_s_own(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("CREATE DATABASE s; RESET BINARY LOGS AND GTIDS")
    mysql_server.execute("SET sql_generate_invisible_primary_key = ON; CREATE TABLE s.t (v INT)")
    mysql_server.execute("INSERT INTO s.t VALUES (1), (2)")
    binlog = as_output(mysql_server, tmp_path)
    mysql_server.execute("DROP DATABASE s; CREATE DATABASE s")
    run(mysql_server, binlog)
    assert mysql_server.query("SELECT my_row_id, v FROM s.t") == [(1, 1), (2, 2)]


def test_a_server_that_takes_no_writes_is_told(mysql_server: MySqlServer, log: Merged) -> None:
    mysql_server.execute(f"{BASE}; SET GLOBAL super_read_only = ON")
    try:
        with pytest.raises(ReplayStopped, match="let the target take writes"):
            run(mysql_server, log[0])
    finally:
        mysql_server.execute("SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF")


@pytest.mark.parametrize(
    "damage",
    [
        "DROP DATABASE binlog_merge",
        "DELETE FROM binlog_merge.replay_worker",
        "TRUNCATE binlog_merge.replay_position",
    ],
)
def test_what_is_applied_is_not_applied_again_where_the_record_goes(
    damage: str, mysql_server: MySqlServer, log: Merged
) -> None:
    """A table without a key would take its rows twice."""
    mysql_server.execute(BASE)
    done: list[int] = []

    def applied(result: ReplayResult) -> None:
        if result.last_rank >= LAST - 2 and not done:
            done.append(result.last_rank)
            mysql_server.execute(damage)

    target = MysqlTarget(ServerAddress(socket=mysql_server.socket), log[0].cluster_uuid)
    # A session that is opened after that cannot tell an emptied record from one that another replay has taken over.
    with pytest.raises((ReplayStopped, TargetBusy)) as caught:
        replay(log[0], target, ReplayOptions(batch=1, rate=5.0), applied)  # what is said of one comes before the next
    assert done and mysql_server.query("SELECT COUNT(*) FROM s.made") == [(2,)]
    if not damage.startswith("DROP"):
        with pytest.raises(ReplayStopped, match="someone has emptied"):
            run(mysql_server, log[0])
    assert caught.value.remedy and mysql_server.query("SELECT COUNT(*) FROM s.made") == [(2,)]


def test_a_lock_that_stays_is_told(mysql_server: MySqlServer, log: Merged) -> None:
    mysql_server.execute(BASE)
    holder = mysql_server.connect("s")
    try:
        with holder.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT * FROM b FOR UPDATE")
        with pytest.raises(ReplayStopped, match="innodb_lock_waits"):
            run(mysql_server, log[0], workers=2, retry_seconds=0)
    finally:
        holder.close()
    run(mysql_server, log[0])
    assert contents(mysql_server) == log[1]


@pytest.mark.parametrize("option", ["--start-gtid", "--skip"])
def test_what_the_log_does_not_reach_is_no_position(
    option: str, mysql_server: MySqlServer, log: Merged, tmp_path: Path
) -> None:
    mysql_server.execute(BASE)
    server, parquet = f"mysql://root@localhost/?socket={mysql_server.socket}", f"parquet:{tmp_path}/p"
    for to in (server, parquet, f"duckdb:{tmp_path}/d.db"):
        arguments = ["replay", "--from", str(log[0].directory), "--to", to, option, "99"]
        result = CliRunner().invoke(application(), arguments)
        assert isinstance(result.exception, OutsideLog) and f"{option} 99" in str(result.exception)
    with pytest.raises(OutsideLog):
        run(mysql_server, log[0], first_rank=LAST + 2)
    assert run(mysql_server, log[0]).last_rank == LAST and contents(mysql_server) == log[1]


def test_a_start_that_is_still_to_be_merged_is_none(log: Merged) -> None:
    arguments = ["replay", "--from", str(log[0].directory), "--dry-run", "--start-tso", str(1 << 62)]
    result = CliRunner().invoke(application(), arguments)
    assert isinstance(result.exception, OutsideLog) and "whole up to" in str(result.exception)


def test_a_row_of_a_table_that_was_made_just_now_is_told(log: Merged, tmp_path: Path) -> None:
    """DuckDB: what was undone with the transaction cannot be looked at any more."""
    arguments = ["replay", "--from", str(log[0].directory), "--to", f"duckdb:{tmp_path}/d.db", "--skip", "1"]
    result = CliRunner().invoke(application(), arguments)
    assert isinstance(result.exception, ReplayStopped) and "there is no such row" in str(result.exception)
