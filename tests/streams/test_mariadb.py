"""A real MariaDB as the replica of a stream in its dialect, and its mariadb-binlog as a reader."""

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.serve.log import PublishedLog
from binlog_merge.streams.mariadb.ddl import mariadb_ddl
from binlog_merge.streams.spec import load_streams
from snapshot_store.ddl.dump import split_statements
from snapshot_store.mysql.sql.session import DdlSession
from tests.mariadb_server import PREFIX, MariaDbServer
from tests.merge_e2e.cases import case_named
from tests.serve.merged import merged
from tests.serve.running import PASSWORD, USER
from tests.streams.helpers import streaming, written

pytestmark = pytest.mark.mariadb
_CHARSET = ("--character-set-server=utf8mb4", "--collation-server=utf8mb4_uca1400_nopad_ai_ci", "--sql-mode=")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A MariaDB for all tests of the file."""
    with MariaDbServer(tmp_path_factory.mktemp("mariadb"), 77, _CHARSET) as started:
        yield started


def _begin_as(case: Path, server: MariaDbServer) -> None:
    """Give a server the case's tables as they are before the first transaction."""
    base = MergeConfig.load(case / "cluster.yaml").base.logical
    with contextlib.closing(server.connect()) as session, session.cursor() as cursor:
        for statement in [] if base is None else split_statements(Path(base).read_text(), DdlSession()):
            made = mariadb_ddl(statement)
            if made.sql is not None and made.sql.strip():
                cursor.execute(made.sql)


def _follow(server: MariaDbServer, folder: Path) -> None:
    """Wait until a replica has a whole stream; an error of its threads fails the test."""
    file, position = PublishedLog(folder).view().end
    for _ in range(600):
        status = server.row("SHOW SLAVE STATUS")
        assert "No" not in (status["Slave_SQL_Running"], status["Slave_IO_Running"]), (status, server.log[-2000:])
        if (status["Master_Log_File"], status["Exec_Master_Log_Pos"]) == (file, position):
            return
        time.sleep(0.1)
    raise AssertionError((status, server.log[-2000:]))


def _value(value: Any) -> Any:
    """Return a value as far as servers print it alike: MySQL prints the smallest double with a digit less."""
    double = isinstance(value, str) and re.fullmatch(r"-?[0-9.]+e-?[0-9]+", value)
    return f"{float(value):.14e}" if double else value


@pytest.mark.parametrize("case", ["all-types", "reshape-charsets", "three-nodes-online-ddl"])
def test_a_replica_has_what_the_nodes_hold(case: str, server: MariaDbServer, tmp_path: Path) -> None:
    """All types, with DDL on the way; it stops and goes on where it was."""
    out = merged(case)
    (spec,) = streams = load_streams(None, ["maria dialect=mariadb port=0"])
    written(out, tmp_path, spec)
    _begin_as(case_named(case), server)
    first = PublishedLog(tmp_path / "maria").view().there[0]
    with streaming(out, tmp_path, streams) as (_, ports):
        server.query(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={ports['maria']}, MASTER_USER='{USER}', "
            f"MASTER_PASSWORD='{PASSWORD}', MASTER_LOG_FILE='{first.name}', MASTER_LOG_POS=4, "
            "MASTER_USE_GTID=no, MASTER_SSL=0"
        )
        try:
            server.query("START SLAVE UNTIL MASTER_LOG_FILE='binlog.000002', MASTER_LOG_POS=4")
            for _ in range(600):
                if server.row("SHOW SLAVE STATUS")["Slave_SQL_Running"] == "No":
                    break
                time.sleep(0.1)
            server.query("STOP SLAVE")
            server.query("START SLAVE")
            _follow(server, tmp_path / "maria")
        finally:
            server.query("STOP SLAVE")
            server.query("RESET SLAVE ALL")
    tables = json.loads((case_named(case) / "expected" / "tables.json").read_text())
    assert tables
    for name, table in tables.items():
        held = sorted(([_value(v) for v in row] for row in server.query(table["select"])), key=repr)
        assert held == sorted(([_value(v) for v in row] for row in table["rows"]), key=repr), name


def test_mariadb_binlog_fetches_the_stream(tmp_path: Path) -> None:
    out = merged("all-types")
    (spec,) = streams = load_streams(None, ["maria dialect=mariadb port=0"])
    files = written(out, tmp_path, spec)
    with streaming(out, tmp_path, streams) as (_, ports):
        command = [str(PREFIX / "bin" / "mariadb-binlog"), "--no-defaults", "--skip-ssl", "-R", "--host=127.0.0.1"]
        command += [f"--port={ports['maria']}", f"--user={USER}", f"--password={PASSWORD}", "--to-last-log"]
        text = subprocess.run([*command, "--verify-binlog-checksum", "binlog.000001"], capture_output=True, check=True)
        assert text.stdout.count(b"Xid = ") == PublishedLog(tmp_path / "maria").view().state.rank
        raw = [*command, "--raw", f"--result-file={tmp_path}/raw-", "binlog.000001"]
        subprocess.run(raw, capture_output=True, check=True)
    assert {name: (tmp_path / f"raw-{name}").read_bytes() for name in files} == files


STATEMENTS = (
    "CREATE TABLE a (i INT, j JSON, c VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, "
    "d VARCHAR(9) COLLATE utf8mb4_ja_0900_as_cs)",
    "CREATE TABLE b (i INT, j JSON, g INT AS (j->>'$.n') STORED NOT NULL, h VARCHAR(9) AS (b.j->'$.m') VIRTUAL)",
    "CREATE TABLE c (v VECTOR(3) NOT NULL, vector INT, w VECTOR, g GEOMCOLLECTION SRID 4326, `srid` INT)",
    "CREATE TABLE d (i INT CHECK (i > 1) NOT ENFORCED, CHECK (i > 2) NOT ENFORCED, CONSTRAINT x CHECK (i > 3) "
    "/*!80016 NOT ENFORCED */, CONSTRAINT y CHECK (i > 0), KEY ((i + 1)), KEY k (i) INVISIBLE)",
    "CREATE TABLE e (i INT, h INT /*!80023 INVISIBLE */, offset INT, returning INT) TABLESPACE=innodb_file_per_table "
    "ENCRYPTION='N' COLLATE=utf8mb4_de_pb_0900_as_cs",
    "CREATE TABLE f (c VARCHAR(3) CHARACTER SET gb18030 COLLATE gb18030_chinese_ci COLUMN_FORMAT DYNAMIC)",
    "CREATE TABLE g (i INT) START TRANSACTION",
    "ALTER TABLE d DROP CHECK y, ALTER CHECK x ENFORCED, ADD KEY z ((i * 2)), ALTER INDEX k VISIBLE",
    "ALTER TABLE d ALTER CHECK x NOT ENFORCED",
    "ALTER TABLE a ADD v VECTOR(2) FIRST, MODIFY c VARCHAR(10) COLLATE utf8mb4_0900_bin, "
    "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_es_0900_as_cs",
    "CREATE DATABASE more DEFAULT ENCRYPTION='N' COLLATE utf8mb4_0900_as_cs",
    "ALTER DATABASE more COLLATE = utf8mb4_ru_0900_ai_ci",
    "ALTER DATABASE more READ ONLY = DEFAULT COLLATE utf8mb4_0900_ai_ci",
    "CREATE TABLE p (i INT) PARTITION BY HASH (i) PARTITIONS 2",
    "CREATE TABLE q (i INT)",
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE q WITHOUT VALIDATION",
    "ALTER TABLE q ADD j INT, TABLESPACE = innodb_file_per_table, WITHOUT VALIDATION",
    "ALTER TABLE q STATS_PERSISTENT DEFAULT ENCRYPTION 'N' KEY_BLOCK_SIZE 0",
    "CREATE VIEW w AS SELECT j->>'$.n' AS n FROM b WHERE i = 1 COLLATE utf8mb4_0900_ai_ci",
)


def test_statements_are_written_as_mariadb_takes_them(server: MariaDbServer) -> None:
    with contextlib.closing(server.connect()) as session, session.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE ddl")
        cursor.execute("USE ddl")
        for statement in STATEMENTS:
            made = mariadb_ddl(statement)
            assert made.sql is not None
            cursor.execute(made.sql)
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'e' AND extra = 'INVISIBLE'"
        )
        assert cursor.fetchall() == (("h",),)
        cursor.execute("INSERT INTO d VALUES (-7)")  # what was not enforced is not


def test_what_mariadb_cannot_do_is_named() -> None:
    assert mariadb_ddl("CREATE INDEX i ON t ((lower(a)))").sql is None
    for statement, named in (
        ("CREATE INDEX i ON t ((lower(a)))", "keys over expressions"),
        ("CREATE TABLE t (i INT, KEY ((i + 1)))", "KEY ((i + 1)): left out"),
        ("CREATE TABLE t (i INT, CHECK (i > 1) NOT ENFORCED)", "would enforce it"),
        ("CREATE TABLE t (i BINARY(16) DEFAULT (UUID_TO_BIN(UUID())))", "no function UUID_TO_BIN"),
        ("CREATE TABLE t (c TEXT CHARSET gb18030)", "gb18030 becomes utf8mb4"),
        ("ALTER TABLE t ALTER COLUMN c SET INVISIBLE", "whole definition"),
        ("CREATE TABLE t (c VARCHAR(3) DEFAULT 'x)", "passes unchanged"),
    ):
        assert any(named in note for note in mariadb_ddl(statement).notes), statement
    for statement in (
        "GRANT SELECT ON *.* TO a",
        "CREATE USER a IDENTIFIED BY 'x'",
        "ALTER DATABASE d READ ONLY = 1",
        "CREATE TABLESPACE x ADD DATAFILE 'x.ibd'",
        "ALTER DATABASE d ENCRYPTION = 'Y'",
    ):
        assert mariadb_ddl(statement).sql is None, statement
    for statement in ("DROP TABLE a, b", "TRUNCATE t", "RENAME TABLE a TO b", "CREATE TABLE t LIKE s", ""):
        made = mariadb_ddl(statement)
        assert (made.sql, made.notes) == (statement, ())
