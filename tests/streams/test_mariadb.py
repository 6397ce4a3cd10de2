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

from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.readers import channels, judged
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.streams.mariadb.ddl import mariadb_ddl
from binlog_merge.streams.spec import load_streams
from snapshot_store.ddl.dump import split_statements
from snapshot_store.mysql.sql.session import DdlSession
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, USER
from tests.mariadb_server import PREFIX, MariaDbServer
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.growth import GrowingNode
from tests.merge_e2e.local import merge
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
            made = mariadb_ddl(statement, DdlSession())
            if made.sql is not None and made.sql.strip():
                cursor.execute(made.sql)


@contextlib.contextmanager
def _replica(server: MariaDbServer, port: int, password: str = PASSWORD) -> Iterator[None]:
    """Make a server the replica of a stream from its beginning, and free of it again."""
    server.query(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{USER}', "
        f"MASTER_PASSWORD='{password}', MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4, MASTER_USE_GTID=no, "
        "MASTER_SSL=0, MASTER_CONNECT_RETRY=1"
    )
    try:
        server.query("START SLAVE")
        yield
    finally:
        server.query("STOP SLAVE")
        server.query("RESET SLAVE ALL")


def _follow(server: MariaDbServer, folder: Path) -> None:
    """Wait until a replica has a whole stream; an error of its threads fails the test."""
    for _ in range(600):
        status = server.row("SHOW SLAVE STATUS")
        assert "No" not in (status["Slave_SQL_Running"], status["Slave_IO_Running"]), (status, server.log[-2000:])
        if (status["Master_Log_File"], status["Exec_Master_Log_Pos"]) == PublishedLog(folder).view().end:
            return
        time.sleep(0.1)
    raise AssertionError((status, server.log[-2000:]))


def _has_what_the_nodes_hold(server: MariaDbServer, case: Path) -> None:
    tables = json.loads((case / "expected" / "tables.json").read_text())
    assert tables
    for name, table in tables.items():
        held = sorted(([_value(v) for v in row] for row in server.query(table["select"])), key=repr)
        assert held == sorted(([_value(v) for v in row] for row in table["rows"]), key=repr), name


def _value(value: Any) -> Any:
    """Return a value as far as servers print it alike: MySQL prints the smallest double with a digit less."""
    double = isinstance(value, str) and re.fullmatch(r"-?[0-9.]+e-?[0-9]+", value)
    return f"{float(value):.14e}" if double else value


@pytest.mark.parametrize("name", ["all-types", "reshape-charsets", "ddl-by-markers"])
def test_a_replica_has_what_the_nodes_hold(name: str, server: MariaDbServer, tmp_path: Path) -> None:
    """All types, and DDL on the way."""
    case, out = case_named(name), merged(name)
    (spec,) = streams = load_streams(None, ["maria dialect=mariadb port=0"])
    written(out, tmp_path, spec)
    _begin_as(case, server)
    with streaming(out, tmp_path, streams) as (_, ports), _replica(server, ports["maria"]):
        _follow(server, tmp_path / "maria")
        for sql, applies in (("SELECT 1", True), ("STOP SLAVE SQL_THREAD", False)):
            server.query(sql)
            assert _asked(server, PublishedLog(tmp_path / "maria").view().server_id) is applies
    _has_what_the_nodes_hold(server, case)


def _asked(server: MariaDbServer, server_id: int) -> bool | None:
    with contextlib.closing(server.connect()) as session:
        return judged("maria", channels(session), frozenset(), frozenset({server_id})).applies


def test_a_replica_follows_a_log_that_grows(tmp_path: Path) -> None:
    """Without a password, which MariaDB asks for by another plugin; it is stopped on the way and goes on."""
    case = case_named("three-nodes-online-ddl")
    config = copy_case(case, tmp_path / "case", max_size(60_000))
    nodes = [GrowingNode.of(folder) for folder in sorted((tmp_path / "case" / "nodes").iterdir())]
    out = tmp_path / "out"
    (spec,) = streams = load_streams(None, ["maria dialect=mariadb port=0"])
    folder = out / ".streams" / spec.name

    def publish(part: float) -> None:
        for node in nodes:
            places = node.places(anywhere=False)
            node.grow(places[int((len(places) - 1) * part)], anywhere=False)
        merge(config, out, end_of_input=part == 1)

    def caught_up() -> None:
        file = LogFolder(out).state().files[-1]
        for _ in range(600):
            last = LogFolder(folder).state().last
            if last is not None and (last.files[-1].name, last.state["read"]) == (file.name, file.size):
                break
            time.sleep(0.05)
        _follow(server, folder)

    publish(0.4)
    with MariaDbServer(tmp_path / "mariadb", 78, _CHARSET) as server:
        _begin_as(case, server)
        with streaming(out, out / ".streams", streams, "") as (_, ports), _replica(server, ports["maria"], ""):
            caught_up()
            publish(0.7)
            caught_up()
            server.stop()
            publish(1)
            server.start()
            caught_up()
        _has_what_the_nodes_hold(server, case)


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
            made = mariadb_ddl(statement, DdlSession())
            assert made.sql is not None
            cursor.execute(made.sql)
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'e' AND extra = 'INVISIBLE'"
        )
        assert cursor.fetchall() == (("h",),)
        cursor.execute("INSERT INTO d VALUES (-7)")  # what was not enforced is not


@pytest.mark.parametrize(
    ("statement", "made"),
    [
        ("ALTER TABLE t ADD KEY a ((x + 1)), ADD KEY b ((y + 1)), ADD c INT", "ALTER TABLE t ADD c INT"),
        ("ALTER TABLE t ADD KEY a ((x + 1)), ADD KEY b ((y + 1))", "ALTER TABLE t"),
        ("ALTER TABLE t ADD c INT, ADD KEY a ((x + 1)), ADD KEY b ((y + 1))", "ALTER TABLE t ADD c INT"),
        ("CREATE TABLE t (KEY ((x + 1)), KEY ((y + 1)), x INT, y INT)", "CREATE TABLE t ( x INT, y INT)"),
        (
            "CREATE TABLE t (KEY ((x + 1)), x INT, KEY ((x + 2)), y INT, KEY ((y + 1)))",
            "CREATE TABLE t ( x INT, y INT)",
        ),
        ("ALTER TABLE t ENCRYPTION='N', ADD KEY ((x + 1)), ADD c INT", "ALTER TABLE t ADD c INT"),
    ],
)
def test_items_that_are_left_out_take_their_commas_along(statement: str, made: str) -> None:
    written = mariadb_ddl(statement, DdlSession()).sql
    assert written is not None
    assert " ".join(written.split()) == made


def test_what_mariadb_cannot_do_is_named() -> None:
    assert mariadb_ddl("CREATE INDEX i ON t ((lower(a)))", DdlSession()).sql is None
    for statement, named in (
        ("CREATE INDEX i ON t ((lower(a)))", "keys over expressions"),
        ("CREATE TABLE t (i INT, KEY ((i + 1)))", "KEY ((i + 1)): left out"),
        ("CREATE TABLE t (i INT, CHECK (i > 1) NOT ENFORCED)", "would enforce it"),
        ("CREATE TABLE t (i BINARY(16) DEFAULT (UUID_TO_BIN(UUID())))", "no function UUID_TO_BIN"),
        ("CREATE TABLE t (c TEXT CHARSET gb18030)", "gb18030 becomes utf8mb4"),
        ("ALTER TABLE t ALTER COLUMN c SET INVISIBLE", "whole definition"),
        ("CREATE TABLE t (c VARCHAR(3) DEFAULT 'x)", "passes unchanged"),
    ):
        assert any(named in note for note in mariadb_ddl(statement, DdlSession()).notes), statement
    for statement in (
        "GRANT SELECT ON *.* TO a",
        "CREATE USER a IDENTIFIED BY 'x'",
        "ALTER DATABASE d READ ONLY = 1",
        "CREATE TABLESPACE x ADD DATAFILE 'x.ibd'",
        "ALTER DATABASE d ENCRYPTION = 'Y'",
    ):
        assert mariadb_ddl(statement, DdlSession()).sql is None, statement
    for statement in ("DROP TABLE a, b", "TRUNCATE t", "RENAME TABLE a TO b", "CREATE TABLE t LIKE s", ""):
        made = mariadb_ddl(statement, DdlSession())
        assert (made.sql, made.notes) == (statement, ())
