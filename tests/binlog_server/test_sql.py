"""The little SQL: what clients send is understood as they mean it; whatever else is sent has an answer too."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog_merge.binlog_server.sql import parse_statement
from binlog_merge.binlog_server.statements import (
    Call,
    Constants,
    Empty,
    EndTransaction,
    Kill,
    Literal,
    Lock,
    Names,
    Nothing,
    Question,
    Select,
    SetIsolation,
    SetNames,
    SetVariables,
    Show,
    ShowDefinitions,
    ShowEvents,
    StartTransaction,
    Statement,
    SystemVariable,
    Unlock,
    Unsupported,
    Use,
    UserVariable,
    exactly,
)

# Who sends it: 9.7's and MariaDB's replicas, mysqlbinlog, the mysql client, Connector/J, Debezium, canal, go-mysql.
CASES: list[tuple[str, Statement]] = [
    ("SELECT UNIX_TIMESTAMP()", Select((("UNIX_TIMESTAMP()", Call("unix_timestamp")),))),
    ("SELECT @@GLOBAL.SERVER_ID", Select((("@@GLOBAL.SERVER_ID", SystemVariable("server_id", "global")),))),
    ("select @source_binlog_checksum", Select((("@source_binlog_checksum", UserVariable("source_binlog_checksum")),))),
    (
        "SET @master_heartbeat_period = 30000001024, @source_heartbeat_period = 30000001024",
        SetVariables(
            (("@master_heartbeat_period", Literal(30000001024)), ("@source_heartbeat_period", Literal(30000001024)))
        ),
    ),
    (
        "SET @master_binlog_checksum= @@global.binlog_checksum",
        SetVariables((("@master_binlog_checksum", SystemVariable("binlog_checksum", "global")),)),
    ),
    (
        "SET @slave_uuid = 'a-b', @replica_uuid=uuid()",
        SetVariables((("@slave_uuid", Literal("a-b")), ("@replica_uuid", Call("uuid")))),
    ),
    ("SHOW VARIABLES LIKE 'SERVER_ID'", Show("variables", Names(("SERVER_ID",)))),
    (
        "SELECT binlog_gtid_pos('f',4)",
        Select((("binlog_gtid_pos('f',4)", Call("binlog_gtid_pos", (Literal("f"), Literal(4)))),)),
    ),
    ("select @@version_comment limit 1", Select((("@@version_comment", SystemVariable("version_comment")),))),
    ("select USER(), DATABASE ( );", Select((("USER()", Call("user")), ("DATABASE ( )", Call("database"))))),
    (
        "/* mysql-connector-j */SELECT  @@session.auto_increment_increment AS a, @@`sql_mode` `b c`",
        Select((("a", SystemVariable("auto_increment_increment", "session")), ("b c", SystemVariable("sql_mode")))),
    ),
    ("SET character_set_results = NULL", SetVariables((("character_set_results", Literal(None)),))),
    ("SET SESSION net_write_timeout=7200", SetVariables((("net_write_timeout", Literal(7200)),))),
    ("set names 'binary'", SetNames("binary")),
    ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", SetNames("utf8mb4", "utf8mb4_bin")),
    ("SET SESSION TRANSACTION READ ONLY", SetIsolation("")),
    ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", SetIsolation("read-committed")),
    ("START TRANSACTION", StartTransaction()),
    ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", StartTransaction(snapshot=True)),
    ("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */", StartTransaction(snapshot=True)),
    ("begin work", StartTransaction()),
    ("rollback", EndTransaction()),
    ("COMMIT AND NO CHAIN RELEASE", EndTransaction()),
    ("FLUSH /*!40101 LOCAL */ TABLES", EndTransaction()),
    ("FLUSH TABLES `shop`.`comp`,`hr`.`people` WITH READ LOCK", Lock()),
    ("LOCK TABLES `t` READ /*!32311 LOCAL */", Lock()),
    ("UNLOCK TABLES /* FTWRL */", Unlock()),
    ("SAVEPOINT sp", Nothing()),
    ("ROLLBACK TO SAVEPOINT sp", Nothing()),
    ("/*!40100 SET @@SQL_MODE='' */", SetVariables((("sql_mode", Literal("")),))),
    ("/*!99999 SET @@SQL_MODE='' */", Empty()),
    ("/*M!100100 SET WAIT_TIMEOUT=DEFAULT */ ;", Empty()),
    ("SELECT 1, CURRENT_TIMESTAMP", Select((("1", Literal(1)), ("CURRENT_TIMESTAMP", Call("current_timestamp"))))),
    ("SELECT CURRENT_TIMESTAMP", Constants("SELECT CURRENT_TIMESTAMP")),
    (
        "SHOW FULL TABLES IN `db` where Table_Type = 'BASE TABLE'",
        ShowDefinitions("tables", "db", full=True, where="Table_Type = 'BASE TABLE'"),
    ),
    ("SHOW TABLES", ShowDefinitions("tables")),
    ("SHOW TABLE STATUS LIKE 't';", ShowDefinitions("table status", like="t")),
    ("SHOW CREATE TABLE `db`.`t`", ShowDefinitions("create table", "db", "t")),
    ("SHOW CREATE DATABASE IF NOT EXISTS `db`", ShowDefinitions("create database", "db", optional=True)),
    ("show full columns from t from db like 'a%'", ShowDefinitions("columns", "db", "t", full=True, like="a%")),
    ("DESC `db`.t `c`", ShowDefinitions("columns", "db", "t", like="c")),
    *((sql, Question(sql)) for sql in ("SELECT * FROM shop.orders", "/* app */ (select a+1 from t where b <= 3)")),
    ("-- of pgloader\n  # and\n select a from t", Question("-- of pgloader\n  # and\n select a from t")),
    *((sql, Constants(sql)) for sql in ("SELECT CONCAT('a', 1)", "select concat('from', 1)", "SELECT @@port + 1")),
    (
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('a_b','c') OR Variable_name = 'd' or variable_name LIKE 'x%'",
        Show("variables", Names((r"a\_b", "c", "d", "x%"))),
    ),
    ("SHOW GLOBAL VARIABLES LIKE 'binlog\\_%'", Show("variables", Names((r"binlog\_%",)), everywhere=True)),
    ("SHOW SESSION STATUS LIKE 'Ssl_version'", Show("status", Names(("Ssl_version",)))),
    ("SHOW MASTER STATUS", Show("binary log status")),
    ("SHOW BINARY LOG STATUS", Show("binary log status")),
    ("show master logs", Show("binary logs")),
    ("SHOW GRANTS FOR CURRENT_USER()", Show("grants")),
    ("SHOW WARNINGS LIMIT 3", Show("warnings")),
    ("show binlog events limit 1", ShowEvents(limit=1)),
    ("SHOW BINLOG EVENTS IN 'b.1' FROM 158 LIMIT 5, 10", ShowEvents("b.1", 158, 5, 10)),
    ("SHOW BINLOG EVENTS LIMIT 10 OFFSET 5", ShowEvents("", 4, 5, 10)),
    ("KILL 7", Kill(7)),
    ("KILL CONNECTION 7", Kill(7)),
    ("USE `my``sql`", Use("my`sql")),
    ("SELECT 'it''s \\'a\\' b' -- comment", Select((("it's 'a' b", Literal("it's 'a' b")),))),
    *((sql, Constants(sql)) for sql in ("SELECT 1; SELECT 2", "SELECT 'open", "SELECT f(g(1))", "SELECT 1 + 1")),
    ("", Empty()),
    ("  /* nothing */ ;", Empty()),
    *(
        (sql, Unsupported())
        for sql in (
            "SET GLOBAL read_only = OFF",
            "SET @@global.read_only = OFF",
            "INSERT INTO t VALUES (1)",
            "PURGE BINARY LOGS TO 'binlog.000002'",
            "RESET BINARY LOGS AND GTIDS",
            "SHOW CREATE USER u",
            "LOCK INSTANCE",
            "KILL 99999999999999999999999",
        )
    ),
]


@pytest.mark.parametrize(("sql", "statement"), CASES, ids=[sql for sql, _ in CASES])
def test_what_clients_send_is_understood(sql: str, statement: Statement) -> None:
    assert parse_statement(sql) == statement


PIECES = r"""select set show kill use , ( ) @@a.b @c = := 'x' `z` 12 -3.5 like where variable_name in or limit ; /* */
/*! . < create table with -- ' \ binlog events from global variables null @ # : names transaction"""
pieces = st.sampled_from(PIECES.split())


@given(st.one_of(st.text(max_size=60), st.lists(pieces, max_size=15).map(" ".join)))
@example("select " + "f(" * 500)
@example("select " + "'" * 4001)
@example("select " + "1," * 5000)
def test_any_text_has_an_answer(sql: str) -> None:
    assert isinstance(parse_statement(sql), Statement)


MANY = 100_000


@pytest.mark.parametrize(
    "sql",
    [
        " " * MANY + "x",
        " " * MANY + "select (1",
        "/* */" * MANY + "select (1",
        "x'" + r"\'" * MANY,
        'select "' + r"\"" * MANY,
        "select from" + " " * MANY + "dua",
    ],
    ids=["blanks", "blanks of a select", "comments", "a string", "a string of a select", "from"],
)
def test_a_long_statement_is_looked_at_once(sql: str) -> None:
    """However long blanks, comments and strings without an end are; else nobody else is served for minutes."""
    assert isinstance(parse_statement(sql), Unsupported | Constants | Question)


patterns = st.text("ab%_\\", max_size=8)


@given(patterns, st.text("ab%_\\AB", max_size=8))
@example("%a" * 40, "a" * 39 + "b")
def test_like_is_that_of_a_slow_and_simple_one(pattern: str, name: str) -> None:
    assert Names((pattern,)).match(name) == _like(pattern.lower(), name.lower())


def _like(pattern: str, name: str) -> bool:
    """The definition: % is any text, _ any character, a backslash takes what follows for itself."""
    parts = re.findall(r"\\.|.", pattern)
    reached = {0}
    for part in parts:
        if part == "%":
            reached = set(range(min(reached, default=len(name) + 1), len(name) + 1))
        else:
            reached = {i + 1 for i in reached if i < len(name) and (part == "_" or name[i] == part[-1])}
    return len(name) in reached


@given(st.text("ab%_\\", max_size=8), st.text("ab%_\\", max_size=8))
def test_an_exact_name_lets_itself_through_and_nothing_else(name: str, other: str) -> None:
    assert Names((exactly(name),)).match(other) == (name == other)
