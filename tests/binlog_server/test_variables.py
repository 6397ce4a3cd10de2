"""System variables and status as a real server has them: each name, scope, type, value and error; each SET."""

from importlib import import_module
from typing import Any
from unittest import mock

import pytest

from binlog_merge.binlog.events import parse_event
from binlog_merge.binlog_server.answers import answer
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.recorded import known_variables
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.variables import SETTINGS, Facts, traits_of
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.protocol.packets import Ok
from snapshot_store.ddl import parse_dump
from tests.binlog_server.merged import merged
from tests.binlog_server.test_definitions import Server, _ours, _theirs
from tests.mysql_server import MySqlServer

OURS = {
    *SETTINGS,
    *("version", "version_comment", "version_with_update", "innodb_version", "hostname", "port", "report_port"),
    *("server_id", "server_uuid", "log_bin_basename", "log_bin_index", "binlog_row_image", "binlog_row_metadata"),
    *("binlog_row_value_options", "gtid_mode", "enforce_gtid_consistency", "gtid_executed", "gtid_purged"),
}
"""What says something of the server itself."""
OF_MACHINES = {
    *("back_log", "basedir", "bind_address", "character_sets_dir", "datadir", "general_log_file", "host_cache_size"),
    *("innodb_buffer_pool_instances", "innodb_io_capacity_max", "innodb_log_writer_threads", "innodb_open_files"),
    *("innodb_page_cleaners", "innodb_parallel_read_threads", "innodb_purge_threads", "lc_messages_dir", "log_error"),
    *("open_files_limit", "pid_file", "plugin_dir", "pseudo_thread_id", "rand_seed1", "rand_seed2", "relay_log"),
    *("relay_log_basename", "relay_log_index", "replica_parallel_workers", "skip_networking", "slave_parallel_workers"),
    *("slow_query_log_file", "table_definition_cache", "table_open_cache", "thread_cache_size"),
    *("error_count", "innodb_buffer_pool_chunk_size", "statement_id", "timestamp", "warning_count"),
}
"""What depends on the machine, its paths, or the moment."""
SCOPES = ("", "global.", "session.")


def world_of(version: str = "") -> Any:
    """Return a world that serves a log; with a version, one that announces it."""
    view = PublishedLog(LogFolder(merged("three-nodes-online-ddl"))).view()

    class World(Server):
        def facts(self) -> Facts:
            return At(view, traits_of(view), 3306, tls=True)

    class At(Facts):
        @property
        def version(self) -> str:
            return version or super().version

    return World(parse_dump("CREATE DATABASE shop CHARACTER SET latin1"))


def _plain(answered: Any) -> Any:
    """Return an answer with floats as the texts that they were."""
    if isinstance(answered, int):
        return answered
    head, rows = answered
    return head, [tuple(f"{v:.15g}" if isinstance(v, float) else v for v in row) for row in rows]


@pytest.mark.mysql
def test_each_variable_is_as_on_a_server(mysql_server: MySqlServer) -> None:
    world, settings = world_of("9.7.4"), Settings("rep", 1)
    different = {}
    with mysql_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VARIABLE_NAME, VARIABLE_SOURCE FROM performance_schema.variables_info")
        sources = dict(cursor.fetchall())
        given = {name for name, source in sources.items() if source != "COMPILED"}
        assert set(known_variables()) == set(sources)
        for name in known_variables():
            for scope in SCOPES:
                sql = f"SELECT @@{scope}{name}"
                ours, theirs = _ours(answer(sql, settings, world)), _plain(_theirs(cursor, sql))
                if name in OURS | OF_MACHINES | given:
                    ours, theirs = (one if isinstance(one, int) else one[0] for one in (ours, theirs))
                if ours != theirs:
                    different[sql] = ours, theirs
    for sql, pair in different.items():
        print(sql, *pair, sep="\n   ")
    assert not different


@pytest.mark.mysql
@pytest.mark.parametrize("what", ["GLOBAL VARIABLES", "SESSION VARIABLES", "VARIABLES", "GLOBAL STATUS", "STATUS"])
def test_all_are_shown_as_on_a_server(what: str, mysql_server: MySqlServer) -> None:
    world, settings = world_of("9.7.4"), Settings("rep", 1)
    with mysql_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT VARIABLE_NAME FROM performance_schema.variables_info WHERE VARIABLE_SOURCE <> 'COMPILED'"
        )
        given = {name for (name,) in cursor.fetchall()}
        (head, ours), (heads, theirs) = _ours(answer(f"SHOW {what}", settings, world)), _theirs(cursor, f"SHOW {what}")
    assert head == heads
    extra = {"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"}
    assert [name for name, _ in ours if name not in extra] == [name for name, _ in theirs]
    same = {name for name, _ in ours} - OURS - OF_MACHINES - given if "VARIABLES" in what else {"Innodb_page_size"}
    found = dict(ours)
    assert {name: found[name] for name, _ in theirs if name in same} == {n: v for n, v in theirs if n in same}


SESSIONS = [
    "SELECT @@sql_mode, @@collation_server, @@character_set_server, @@collation_connection, @@collation_database",
    "SET sql_mode = 'ansi'; SELECT @@sql_mode, @@global.sql_mode",
    "SET sql_mode = 'NO_ZERO_DATE,strict_trans_tables'; SELECT @@session.sql_mode; SHOW VARIABLES LIKE 'sql_mode'",
    "SET sql_mode = ''; SELECT @@sql_mode; SET sql_mode = DEFAULT; SELECT @@sql_mode",
    "SET sql_mode = 'nope'",
    "SET @@session.net_write_timeout = 7200, wait_timeout = 10; SELECT @@net_write_timeout, @@global.wait_timeout",
    "SET net_write_timeout = 'x'",
    "SET foreign_key_checks = OFF, unique_checks = 0; SELECT @@foreign_key_checks, @@unique_checks",
    "SET foreign_key_checks = 3",
    "SHOW VARIABLES LIKE 'foreign_key_checks'",
    "SHOW VARIABLES WHERE Variable_name LIKE 'innodb\\_api%' AND Value = '5'",
    "SHOW VARIABLES WHERE Value > 3 AND Variable_name LIKE 'net%'",
    "SHOW VARIABLES WHERE 30 <= Value AND Value <> '60' AND Value != 0 AND Variable_name LIKE 'net%'",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('autocommit', 'nope') OR Value = 'READ-COMMITTED'",
    "SHOW STATUS WHERE Variable_name = 'com_select' AND 1 = 2",
    "SET NAMES latin1; SELECT @@character_set_client, @@character_set_connection, @@character_set_results, "
    "@@collation_connection",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin; SELECT @@collation_connection, @@character_set_results",
    "SET collation_connection = 'utf8mb4_de_pb_0900_as_cs'; SELECT @@collation_connection",
    "SET character_set_results = NULL; SELECT @@character_set_results; SHOW VARIABLES LIKE 'character_set_results'",
    "SET character_set_client = nope",
    "SET collation_connection = nope",
    "USE shop; SELECT @@collation_database, @@character_set_database; USE mysql; SELECT @@collation_database",
    "SET transaction_isolation = 'read-committed'; SELECT @@transaction_isolation",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT @@session.transaction_isolation",
    "SET autocommit = 0; SELECT @@autocommit; SET autocommit = ON; SELECT @@autocommit",
    "SET nope = 1",
    "SET @x = @@nope",
    "SET max_allowed_packet = 1",
    "SET innodb_page_size = 1",
    "SET SESSION last_insert_id = 7; SELECT @@last_insert_id",
    "SELECT @@global.timestamp",
    "SELECT @@session.port",
    "SELECT @@nope.x",
    "SELECT @@LOCAL.wait_timeout AS w",
    "SELECT * FROM performance_schema.session_variables WHERE variable_name = 'sql_mode'",
    "SELECT variable_value FROM performance_schema.global_variables WHERE variable_name IN ('sql_mode', 'autocommit') "
    "ORDER BY variable_value",
    "SET wait_timeout = 7; SELECT variable_value FROM performance_schema.session_variables WHERE variable_name = "
    "'wait_timeout'",
    "SELECT COUNT(*) FROM performance_schema.threads",
    "SELECT * FROM performance_schema.nope",
    "SHOW COLLATION LIKE 'utf8mb4%'",
    "SHOW COLLATION WHERE Charset = 'latin1' AND `Default` = 'Yes'",
    "SHOW CHARACTER SET",
    "SHOW CHARSET LIKE 'utf%'",
    "SHOW ENGINES",
    "SHOW STORAGE ENGINES",
    "SHOW PLUGINS",
    "SHOW PRIVILEGES",
    "SHOW PROFILES",
    "SHOW OPEN TABLES WHERE 1 = 2",
    "SHOW LIBRARY STATUS",
    "SHOW COUNT(*) ERRORS",
    "SHOW CREATE VIEW shop.v",
    "SHOW CREATE TRIGGER shop.v",
    "SHOW CREATE PROCEDURE shop.v",
    "SHOW CREATE FUNCTION shop.v",
    "SHOW CREATE EVENT shop.v",
    "SHOW TABLES FROM performance_schema LIKE 'session%'",
    "SHOW FULL TABLES FROM information_schema LIKE 'COL%'",
    "SHOW FULL COLUMNS FROM information_schema.collations",
    "DESCRIBE performance_schema.threads",
]
"""Statements with `;` between them, of one session each."""


@pytest.mark.mysql
def test_what_a_session_sets_is_what_it_sees(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE shop CHARACTER SET latin1")
    different = {}
    for session in SESSIONS:
        world, settings = world_of("9.7.4"), Settings("rep", 1)
        with mysql_server.connect() as connection, connection.cursor() as cursor:
            for sql in session.split("; "):
                answered = answer(sql, settings, world)
                ours = ([], []) if isinstance(answered, Ok) else _ours(answered)
                theirs = _theirs(cursor, sql)
                if ours != theirs:
                    different[sql] = ours, theirs
    for sql, pair in different.items():
        print(sql, *pair, sep="\n   ")
    assert not different


@pytest.mark.parametrize(
    ("version", "sql", "values"),
    [
        ("5.7.44-log", "SELECT @@tx_isolation, @@character_set_server", ("REPEATABLE-READ", "latin1")),
        ("5.7.44-log", "SELECT @@collation_server, @@query_cache_size", ("latin1_swedish_ci", 1048576)),
        ("8.0.36", "SELECT @@collation_server, @@have_ssl", ("utf8mb4_0900_ai_ci", "YES")),
        ("8.0.36", "SELECT @@tx_isolation", 1193),
        ("8.4.3", "SELECT @@have_ssl", 1193),
        ("9.7.4", "SELECT @@socket, @@max_allowed_packet, @@wait_timeout", ("", 1 << 30, 28800)),
    ],
)
def test_variables_are_those_of_the_version_that_the_log_announces(version: str, sql: str, values: Any) -> None:
    settings = Settings("rep", 1)
    found = _ours(answer(sql, settings, world_of(version)))
    assert found == values if isinstance(values, int) else list(found[1]) == [values]


def test_few_rows_tell_the_format_of_all_for_a_client_waits_meanwhile() -> None:
    view = PublishedLog(LogFolder(merged("three-nodes-online-ddl"))).view()
    whole = traits_of(view)
    variables = import_module("binlog_merge.binlog_server.variables")
    with (
        mock.patch.object(variables, "_MOST_ROWS", 3),
        mock.patch.object(variables, "parse_event", wraps=parse_event) as parsed,
    ):
        assert traits_of(view) == whole
        assert 3 < parsed.call_count <= 9
