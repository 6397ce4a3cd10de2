"""Statements of many shapes over tables: a server's rows, or an error."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from tests.binlog_server.running import Running, serving
from tests.binlog_server.test_tables import config_of, prepared
from tests.effort import THOROUGH, effort, seed_of_search
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql
TABLE = """CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, u BIGINT UNSIGNED, s VARCHAR(20), c CHAR(5), l VARCHAR(9)
    CHARACTER SET latin1, d DATETIME NULL, ts TIMESTAMP NULL, z INT(5) ZEROFILL, `distinct` INT, `order` VARCHAR(5),
    j VARCHAR(9) CHARACTER SET sjis)"""
ROWS = """(1, 3, 1, 0, 'äpfel', 'x', 'é', '2026-01-02', '2026-01-02', 7, 5, 'q', '日本'),
    (2, 1, 2, 18446744073709551615, 'Apfel', 'x ', 'E', '0000-00-00', '0000-00-00', 123, 6, 'r', 'abc'),
    (3, 2, 3, 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, 2, 3, 5, 'ß', '', 'ß', '2026-05-06', NULL, 0, 5, 's', 'ABC')"""
ITEMS = (
    *(
        "*",
        "id",
        "a",
        "a AS b",
        "b AS a",
        "t.a",
        "x.a",
        "`distinct`",
        "distinct",
        "DISTINCT a",
        "DISTINCT s",
        "ALL a",
        "c",
    ),
    *(
        "a a",
        "a order",
        "`order`",
        "a AS `order`",
        "COUNT(*)",
        "COUNT(DISTINCT a)",
        "COUNT(a)",
        "MAX(a)",
        "MIN(s)",
        "z",
    ),
    *("SQL_CALC_FOUND_ROWS id", "DISTINCTROW a", "a + 1", "UPPER(s)", "a = 1", "id, *", "s AS id", "MAX(a) AS a", "1"),
)
SOURCES = (
    *("t", "shop.t", "t AS x", "t x", "(SELECT a, b FROM t) y", "(SELECT a AS b, b AS a FROM t) y", "t, t AS y"),
    *(
        "(SELECT a FROM t ORDER BY b LIMIT 2) y",
        "(SELECT a, a FROM t) y",
        "t JOIN t y ON t.id = y.id",
        "t USE INDEX ()",
    ),
)
CONDITIONS = (
    *("a > 1", "LOCATE('a', s) > 0", "u - 1 > 5", "u + 1 > 5", "d >= '0000-00-00'", "ts >= '0000-00-00'", "l = '日'"),
    *(
        "LENGTH(c) = 5",
        "c LIKE 'x '",
        "d IS NOT NULL AND DATE(d) IS NULL",
        "s = 'APFEL'",
        "a BETWEEN 1 AND 2",
        "NOT a > 1",
    ),
    *(
        "a || b",
        '"a" = a',
        "a - u < 0",
        "c = 'x'",
        "s IN ('ss', 'apfel')",
        "CONCAT(z, '') = '00007'",
        "x.a = 1",
        "a > ALL(b)",
    ),
)
ENDS = (
    *(
        "GROUP BY a",
        "HAVING a > 1",
        "ORDER BY a",
        "ORDER BY b DESC, id",
        "ORDER BY t.a, id",
        "ORDER BY 1",
        "ORDER BY s, id",
    ),
    *("ORDER BY a + 1", "ORDER BY COUNT(*)", "LIMIT 2", "LIMIT 1, 2", "LIMIT 1 OFFSET 2", "LIMIT 0", "UNION SELECT 1"),
    *("INTO @x", "FOR SHARE", "LOCK IN SHARE MODE", "GROUP BY a WITH ROLLUP", "WINDOW w AS ()", "PROCEDURE ANALYSE()"),
)
MODES = (
    *("", "ANSI", "ANSI_QUOTES", "PIPES_AS_CONCAT", "HIGH_NOT_PRECEDENCE", "PAD_CHAR_TO_FULL_LENGTH", "TRADITIONAL"),
    *("NO_UNSIGNED_SUBTRACTION", "NO_ZERO_DATE,NO_ZERO_IN_DATE", "STRICT_ALL_TABLES", "NO_BACKSLASH_ESCAPES"),
)


SPOKEN = (
    *("binary", "latin1", "sjis", "utf8mb3", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb4 COLLATE utf8mb4_general_ci"),
    *("utf8mb4", "utf8mb4 COLLATE utf8mb4_0900_as_cs", "binary"),
)
LITERALS = (
    *("j <> '日本'", "j = '日本'", "j < '日本'", "j = 'abc'", "j IN ('abc', 'x')", "j LIKE 'a%'", "l = 'é'", "l = 'e'"),
    *("l > 'd'", "l <> 'é'", "s = 'APFEL'", "s = 'äpfel'", "s LIKE '%PF%'", "s BETWEEN 'a' AND 'b'", "'a' = 'A'"),
    *("LOWER('A') = 'a'", "CONCAT('a', 'B') = 'AB'", "IF(a, 'a', 'b') = 'A'", "CAST(s AS CHAR) = 'APFEL'"),
    *("HEX(a) = '3'", "HEX(s) = 'e1'", "CONCAT(a, 'X') = '3x'"),
    *("LEFT('ABC', 1) = 'a'", "COALESCE(NULL, 'ß') = 'ss'", "'ß' = 's'"),
    *("CAST(a AS CHAR) = '3'", "a = '3'", "a IN ('3', '2')", "d = '2026-01-02'", "'é' = l", "s = _utf8mb4'apfel'"),
    *("s = CONCAT('APF', 'EL')", "LOCATE('B', 'abc') = 2", "REPLACE('aBc', 'b', 'x') = 'axc'", "s REGEXP 'pf'"),
    *("LENGTH('é') = 2", "CHAR_LENGTH('é') = 1", "j = _binary'abc'", "l = _binary'é'", "'ABC' IN (j, s)", "c = 'X'"),
    *("STRCMP('a', 'A') = 0", "STRCMP(s, 'APFEL') = 0", "CASE 'a' WHEN 'A' THEN 1 END", "UPPER(l) = 'É'"),
    *("FIND_IN_SET('APFEL', s)", "CAST(l AS CHAR) = 'é'", "x'C3A9' = l", "0x82a0 < j", "GREATEST(a, 2) = '3'"),
)  # fmt: skip
"""Conditions with literals, which are texts in a session's character set and collation."""


_CONSTANTS = r"""
    1+1; 1; -1; - 1; 1 + 1 AS two; 1.5 * 2; 7 / 2; 7 DIV 2; 1 = 1; 1 IS NULL; NOT 1; 'abc'; 'a' 'b'; NULL; NULL + 1;
    1e0 / 3; 1e20 * 1; TRUE; TRUE AND FALSE; 'a' = 'A'; 'ß' = 'ss'; CONCAT('a', 1); UPPER('é'); LOWER('ABC') x;
    IF(1 > 2, 'a', 'b'); CASE 1 WHEN 1 THEN 'x' END; 9223372036854775807 + 1; x'41'; 0x41 + 0;
    CONCAT('a', 1); CONCAT('a', 1.50, NULL); IFNULL(@@sql_mode, ''); CONCAT('from', 1), 2; UPPER('abc');
    @@net_write_timeout > 1; @@net_write_timeout + 1; @@net_write_timeout - 100; -@@session.net_write_timeout;
    @@long_query_time + 1; @@autocommit + 1; @@global.read_buffer_size DIV 1024;
    IF(@@autocommit, 'on', 'off'); @@nonesuch + 1;
    @@gtid_mode = 'ON ', 5; @@sql_mode LIKE '%STRICT%'; LOCATE('strict', @@sql_mode) > 0; COALESCE(@nope, 'x');
    TIME_TO_SEC(TIMEDIFF(NOW(), UTC_TIMESTAMP())); TIMEDIFF(NOW(), UTC_TIMESTAMP()); DATE'2026-01-02';
    TIMESTAMP'2026-01-02 03:04:05'; TIME'03:04:05'; YEAR('2026-01-02'); 1 IN (1, 2); 2 BETWEEN 1 AND 3; 5 % 3; ~0;
    1 << 3; '7' + 1; COALESCE(NULL, 3); GREATEST(1, 2); LENGTH('é'); LEFT('abc', 2);
    DATE'2026-01-31' + INTERVAL 1 MONTH; 1, 2, 'x' AS `a b`; 1+1 FROM DUAL; 1+1 LIMIT 1; nope; 1 +; 1 +* 2;
    DATABASE() = 'shop'; @@version = 1; (SELECT 1); EXISTS(SELECT 1); EXISTS(SELECT 1 FROM t);
    EXISTS(SELECT * FROM t WHERE id > 99) AS there; EXISTS(SELECT id FROM t LIMIT 0);
    EXISTS(SELECT 1 FROM t) LIMIT 1; 1 FROM t LIMIT 1; 1 AS one FROM t WHERE id = 2; 1, id FROM t WHERE id = 2;
    007 FROM t LIMIT 1; 1 FROM nope; 99999999999999999999 FROM t LIMIT 1; MAX(a), 1 FROM t; COUNT(*), 1 FROM t;
    1 FROM (SELECT a FROM t) y; 'a😀b' = 'a'; '😀'; CURDATE(); NOW() > 0; CURRENT_TIMESTAMP > '2020-01-01'
"""
CONSTANTS = [one.strip() for one in _CONSTANTS.split(";")]
"""What is asked of no table, or only whether there are rows: pings of pools and tools among them."""
ZONES = ("+00:00", "-03:30", "+14:00")


FIRST = "SELECT id FROM t"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MySqlServer, Running]]:
    tmp_path = tmp_path_factory.mktemp("selects")
    with MySqlServer(tmp_path / "server", 1, ["--default-time-zone=+00:00"]) as server:
        server.execute("RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
        server.execute(f"SET sql_mode = ''; {TABLE}; INSERT INTO t VALUES {ROWS}", "shop")
        merge(config_of(server, tmp_path), tmp_path / "out")
        with serving(tmp_path / "out", tmp_path / "shop.db") as running:
            yield server, running


def statements(rng: random.Random) -> Iterator[str]:
    """Yield each part of a statement beside others that are drawn."""
    for items in ITEMS:
        yield f"SELECT {items} FROM t ORDER BY id"
        yield f"SELECT {items} FROM {rng.choice(SOURCES)}"
    yield from (f"SELECT MAX(a) FROM {source}" for source in SOURCES)
    yield from (f"SELECT id FROM t WHERE {condition} ORDER BY id" for condition in CONDITIONS)
    yield from (f"SELECT {item} FROM t {end}" for end in ENDS for item in ("id", "a AS b"))
    for _ in range(effort(40, 2000)):
        where = rng.choice(("", f" WHERE {rng.choice(CONDITIONS)}"))
        yield f"SELECT {', '.join(rng.choices(ITEMS, k=2))} FROM {rng.choice(SOURCES)}{where} {rng.choice(ENDS)}"


def test_rows_are_a_servers_or_there_is_an_error(served: tuple[MySqlServer, Running]) -> None:
    server, running = served
    rng = random.Random(seed_of_search())
    asked = list(statements(rng))
    different: list[tuple[str, str, Any, Any]] = []
    with (
        contextlib.closing(server.connect("shop")) as theirs,
        contextlib.closing(running.connect(database="shop", autocommit=True)) as mine,
    ):
        for mode in MODES:
            for connection in (theirs, mine):
                with connection.cursor() as cursor:
                    cursor.execute(f"SET sql_mode = '{mode}'")
            conditions = [f"SELECT id FROM t WHERE {condition} ORDER BY id" for condition in CONDITIONS]
            for sql in asked if not mode else [*conditions, "SELECT c, id FROM t ORDER BY id"]:
                ours, told = rows_of(mine, sql), rows_of(theirs, sql)
                if isinstance(ours, list) and not alike(sql, ours, told):
                    different.append((mode, sql, ours, told))
        assert "1690" in rows_of(mine, f"{FIRST} WHERE id * 9223372036854775807 > 5")
        assert "1235" in rows_of(mine, f"{FIRST} WHERE LOCATE('a', s COLLATE utf8mb4_0900_as_cs) > 0")
        mine.autocommit(False)
        assert "1690" in rows_of(mine, f"{FIRST} WHERE id * 9223372036854775807 > 5")
        assert "ROLLBACK" in rows_of(mine, FIRST)  # another view would be of another moment
        mine.rollback()
        assert rows_of(mine, FIRST)
    assert not different, "\n".join(map(str, different))


def test_constants_are_a_servers_or_there_is_an_error(served: tuple[MySqlServer, Running]) -> None:
    server, running = served
    different: list[tuple[str, str, Any, Any]] = []
    answered: list[str] = []
    with (
        contextlib.closing(server.connect("shop")) as theirs,
        contextlib.closing(running.connect(database="shop", autocommit=True, charset="utf8mb4")) as mine,
    ):
        for zone in ZONES:
            for connection in (theirs, mine):
                rows_of(connection, f"SET time_zone = '{zone}'")
            for items in CONSTANTS:
                ours, told = named_rows_of(mine, f"SELECT {items}"), named_rows_of(theirs, f"SELECT {items}")
                answered += [items] if isinstance(ours, list) else []
                if isinstance(ours, list) and ours != told:
                    different.append((zone, items, ours, told))
    assert not different, "\n".join(map(str, different))
    assert len(answered) > len(ZONES) * len(CONSTANTS) * 0.7, sorted(set(CONSTANTS) - set(answered))


@pytest.mark.parametrize(
    "item",
    [
        *("1e0 / 3", "NULL + 1e0", "1.5 * 2", "x'41ff'", "DATE'2026-01-02'", "TIME'-03:04:05'", "1 + 1"),
        *("TIMESTAMP'2026-01-02 03:04:05'", "CONCAT('a', 1 + 1)", "-9223372036854775807 - 1"),
        *(
            "TRIM(BOTH 'x' FROM 'xax')",
            "TRIM(LEADING 'ab' FROM 'ababcab')",
            "TRIM('.' FROM '..é..')",
            "TRIM('' FROM 'a')",
        ),
    ],
)
def test_prepared_constants_are_a_servers(served: tuple[MySqlServer, Running], item: str) -> None:
    server, running = served
    with contextlib.closing(server.connect()) as theirs, contextlib.closing(running.connect()) as mine:
        assert prepared(mine, f"SELECT {item}")[-1] == prepared(theirs, f"SELECT {item}")[-1]


def named_rows_of(connection: Any, sql: str) -> list[Any] | str:
    """Return the names of a result's columns, and its rows; or the error."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return [[name for name, *_ in cursor.description], *cursor.fetchall()]
    except pymysql.MySQLError as error:
        return str(error)


def test_literals_are_those_of_the_session(served: tuple[MySqlServer, Running]) -> None:
    """SET NAMES binary, as mydumper says: the bytes of a literal are read as the column's, and have no case."""
    server, running = served
    different: list[tuple[str, str, Any, Any]] = []
    refused: dict[str, int] = {}
    with (
        contextlib.closing(server.connect("shop")) as theirs,
        contextlib.closing(running.connect(database="shop", autocommit=True, charset="utf8mb4")) as mine,
    ):
        for spoken in SPOKEN if THOROUGH else SPOKEN[::2]:
            for connection in (theirs, mine):
                rows_of(connection, f"SET NAMES {spoken}")
            for condition in LITERALS:
                sql = f"SELECT id FROM t WHERE {condition} ORDER BY id"
                ours, told = rows_of(mine, sql), rows_of(theirs, sql)
                if isinstance(ours, list) and ours != told:
                    different.append((spoken, condition, ours, told))
                refused[spoken] = refused.get(spoken, 0) + isinstance(ours, str)
    assert not different, "\n".join(map(str, different))
    assert max(refused.values()) < len(LITERALS) // 2, refused


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]] | str:
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    except pymysql.MySQLError as error:
        return str(error)


def alike(sql: str, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]] | str) -> bool:
    """Return whether two results are the same; without ORDER BY in any order, and of LIMIT then as many."""
    if isinstance(theirs, str):
        return False
    if "ORDER BY" not in sql:
        return len(ours) == len(theirs) if "LIMIT" in sql else sorted(map(repr, ours)) == sorted(map(repr, theirs))
    by_key = "BY id" in sql or ", id" in sql
    return ours == theirs if by_key else sorted(map(repr, ours)) == sorted(map(repr, theirs)) or "LIMIT" in sql
