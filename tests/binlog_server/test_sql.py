"""The little SQL: what clients send is understood as they mean it; whatever else is sent has an answer too."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog_merge.binlog_server.prepared import _taken_apart
from binlog_merge.binlog_server.sql import parse_statement
from binlog_merge.binlog_server.statements import (
    Empty,
    EndTransaction,
    Kill,
    Lock,
    Names,
    Nothing,
    Select,
    SetIsolation,
    SetNames,
    SetVariables,
    Show,
    ShowDefinitions,
    ShowEvents,
    StartTransaction,
    Statement,
    Unlock,
    Unsupported,
    Use,
    exactly,
)
from snapshot_store.mysql.expr.nodes import Node, literal
from snapshot_store.mysql.expr.reader import VARIABLE
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, DdlSession


def _select(table: tuple[str, str] | None = None) -> Select:
    return Select(table, Cursor.of("", SESSION))


def _text(value: str) -> Node:
    return Node("string", value, (literal("utf8mb4"),))


def _variable(name: str) -> Node:
    return Node("forbidden", VARIABLE, (literal(name),))


SESSION = DdlSession()
# Who sends it: 9.7's and MariaDB's replicas, mysqlbinlog, the mysql client, Connector/J, Debezium, canal, go-mysql.
CASES: list[tuple[str, Statement]] = [
    *(
        (sql, _select())
        for sql in (
            "SELECT UNIX_TIMESTAMP()",
            "SELECT @@GLOBAL.SERVER_ID",
            "SELECT binlog_gtid_pos('f',4)",
            "select @@version_comment limit 1",
            "select USER(), DATABASE ( );",
            "/* mysql-connector-j */SELECT  @@session.auto_increment_increment AS a, @@`sql_mode` `b c`",
            "SELECT 1, CURRENT_TIMESTAMP FROM DUAL",
            "SELECT EXTRACT(YEAR FROM CURRENT_DATE), TRIM(BOTH 'x' FROM 'xax'), SUBSTRING('abc' FROM 2)",
            "select concat('from', 1), 'select a from t', `from`",
            "SELECT 1; SELECT 2",
            "((SELECT 1))",
        )
    ),
    *(
        (sql, _select(("shop", "orders")))
        for sql in (
            "SELECT * FROM shop.orders",
            "/* app */ (select a+1 from shop.orders where b <= 3)",
            "-- of pgloader\n  # and\n select a from `shop` . `orders`",
            "SELECT COUNT(*) FROM (SELECT * FROM shop.orders) AS t",
            "SELECT EXTRACT(YEAR FROM d), t.from FROM (shop.orders)",
            "SELECT EXISTS(SELECT 1 FROM shop.orders)",
            "SELECT * FROM (WITH x AS (SELECT 1 FROM shop.orders) SELECT * FROM x) t",
            "SELECT (SELECT 1 FROM DUAL), a FROM shop.orders, information_schema.tables",
            "SELECT /*!40001 SQL_NO_CACHE */ * FROM /*!shop.*/orders",
        )
    ),
    ("SELECT a FROM orders", _select(("", "orders"))),
    (
        "SET @master_heartbeat_period = 30000001024, @source_heartbeat_period = 30000001024",
        SetVariables(
            (("@master_heartbeat_period", literal("30000001024")), ("@source_heartbeat_period", literal("30000001024")))
        ),
    ),
    (
        "SET @master_binlog_checksum= @@global.binlog_checksum",
        SetVariables((("@master_binlog_checksum", _variable("@@global.binlog_checksum")),)),
    ),
    (
        "SET @slave_uuid = 'a-b', @replica_uuid=uuid()",
        SetVariables((("@slave_uuid", _text("a-b")), ("@replica_uuid", Node("call", "uuid")))),
    ),
    (
        "SET autocommit = ON, @@session.tx_x := DEFAULT",
        SetVariables((("autocommit", Node("string", "ON")), ("tx_x", None))),
    ),
    ("SET character_set_results = binary", SetVariables((("character_set_results", Node("string", "binary")),))),
    ("SHOW VARIABLES LIKE 'SERVER_ID'", Show("variables", Names(("SERVER_ID",)))),
    ("SET character_set_results = NULL", SetVariables((("character_set_results", literal("NULL")),))),
    ("SET SESSION net_write_timeout=7200", SetVariables((("net_write_timeout", literal("7200")),))),
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
    ("/*!40100 SET @@SQL_MODE='' */", SetVariables((("sql_mode", _text("")),))),
    ("/*!99999 SET @@SQL_MODE='' */", Empty()),
    ("/*M!100100 SET WAIT_TIMEOUT=DEFAULT */ ;", Empty()),
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
    ("", Empty()),
    ("  /* nothing */ ;", Empty()),
    *(
        (sql, Unsupported())
        for sql in (
            "SELECT 'open",
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
    assert parse_statement(sql, SESSION) == statement


PIECES = r"""select set show kill use , ( ) @@a.b @c = := 'x' `z` 12 -3.5 like where variable_name in or limit ; /* */
/*! . < create table with -- ' \ binlog events from global variables null @ # : names transaction"""
pieces = st.sampled_from(PIECES.split())


@pytest.mark.parametrize(
    ("sql", "mode", "statement"),
    [
        ('SET @a = "x"', 0, SetVariables((("@a", _text("x")),))),
        ('SET a = "x"', ANSI_QUOTES, SetVariables((("a", Node("string", "x")),))),
        ('SELECT a FROM "d"."t"', ANSI_QUOTES, _select(("d", "t"))),
        (r"SHOW TABLES LIKE 'a\\'", NO_BACKSLASH_ESCAPES, ShowDefinitions("tables", like=r"a\\")),
    ],
)
def test_it_is_read_as_sql_mode_says(sql: str, mode: int, statement: Statement) -> None:
    assert parse_statement(sql, DdlSession(mode)) == statement


def test_a_table_without_a_schema_is_of_the_sessions() -> None:
    assert parse_statement("SELECT a FROM t", SESSION, "d") == _select(("d", "t"))


def test_a_prepared_statement_is_taken_apart_at_its_parameters() -> None:
    sql = "/* a ? */ (SELECT '?', ? AS `?` FROM t WHERE limits = ? LIMIT ?, ?)"
    parts = ("/* a ? */ (SELECT '?', ", " AS `?` FROM t WHERE limits = ", " LIMIT ", ", ", ")")
    assert _taken_apart(sql, SESSION) == (parts, ["NULL", "NULL", "1", "1"], "SELECT")
    assert _taken_apart("SELECT '?", SESSION) == (("SELECT '?",), [], "")


@given(st.one_of(st.text(max_size=60), st.lists(pieces, max_size=15).map(" ".join)))
@example("select " + "f(" * 500)
@example("select " + "'" * 4001)
@example("select " + "1," * 5000)
def test_any_text_has_an_answer(sql: str) -> None:
    assert isinstance(parse_statement(sql, SESSION), Statement)


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
    assert isinstance(parse_statement(sql, SESSION), Unsupported | Select)


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
