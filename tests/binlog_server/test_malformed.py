"""Statements that are no SQL, or nearly: an answer, or an error in MySQL's words, never in those of the engine."""

import contextlib
import random
import re
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.binlog_server.running import serving
from tests.binlog_server.test_selects import CONDITIONS, CONSTANTS, ENDS, ITEMS, LITERALS, ROWS, SOURCES, TABLE
from tests.binlog_server.test_tables import config_of
from tests.effort import effort, seed_of_search
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.values.random_expressions import CONSTANTS as VALUES

pytestmark = pytest.mark.mysql
ENGINES = re.compile(
    r"duckdb|std::|sqlglot|pyarrow|Traceback|INT128|HUGEINT|VARCHAR\)|Python|_LITERAL|list_transform|lambda|"
    r"(?:Binder|Catalog|Parser|Syntax|Conversion|Invalid Input|Out of Range|Invalid|Constraint|Internal|IO|"
    r"Not implemented|Out of Memory|Permission|TransactionContext|Dependency|Serialization|Sequence) Error",
    re.IGNORECASE,
)
DEFINITIONS = (
    *("schemata", "tables", "columns", "statistics", "key_column_usage", "table_constraints", "views", "routines"),
    *("referential_constraints", "collations", "engines", "nope", "processlist"),
)
_PIECES = r"""
    table_schema; table_name; column_name; ordinal_position; schema_name; nope; *; t.*; x.y; 1; 'a'; NULL; count(*);
    max(table_name); sum(table_name); group_concat(table_name); left(table_name, 2); `rowid`;
    locate('_', table_name); table_name + 1; -table_name; cast(table_name AS SIGNED); substring(table_name, 'a');
    if(table_name, 1, 'a'); coalesce(1, table_name); (SELECT table_name FROM information_schema.tables); 1/0;
    abs('x'); exists(SELECT 1 FROM information_schema.tables); table_name::int; table_name[1]; {'a': 1}; [1, 2];
    x -> x; round('a'); concat(table_name, ordinal_position); 9e999; 99999999999999999999999999999999999999999;
    DATE'2020-99-99'; x'ff'; lower(1); CASE WHEN table_name THEN 1 END; CASE table_name WHEN 1 THEN 2 ELSE 'a' END;
    avg(table_name); trim(LEADING 1 FROM 2)
"""
PIECES = [one.strip() for one in _PIECES.split(";")]
_WORDS = r"""
    SELECT FROM WHERE HAVING GROUP BY ORDER LIMIT AND OR NOT ( ) , . * = < ' ` ; @ @@ -- /* */ /*! ? : :: {{ [ ]
    JOIN ON USING UNION ALL DISTINCT AS IN BETWEEN LIKE IS NULL CASE END SHOW SET USE DESC QUALIFY PIVOT 1 'a' t
    shop information_schema.tables WITH VALUES ROW(1) é 😀
"""
WORDS = (*_WORDS.split(), '"', "\\", "\0", "SHOW TABLES", "SHOW COLUMNS FROM t", "WITH x AS")


def statements(rng: random.Random) -> str:
    """Return a statement: over tables, definitions or nothing, and often with a part that is lost, doubled or moved."""
    kind = rng.random()
    if kind < 0.35:
        sql = f"SELECT {', '.join(rng.choices(ITEMS, k=rng.randrange(1, 3)))} FROM {rng.choice(SOURCES)}"
        sql += rng.choice(("", f" WHERE {rng.choice((*CONDITIONS, *LITERALS))}"))
        sql += rng.choice(("", f" {rng.choice(ENDS)}"))
    elif kind < 0.7:
        some = ", ".join(rng.choices(PIECES, k=rng.randrange(1, 4)))
        named = rng.choice(("", "t", "AS x", "NATURAL JOIN y"))
        sql = f"SELECT {some} FROM information_schema.{rng.choice(DEFINITIONS)} {named}"
        piece, other = rng.choice(PIECES), rng.choice((*PIECES, *VALUES))
        for clause in ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT"):
            if rng.random() < 0.3:
                sql += f" {clause} {piece} {rng.choice(('', f'= {other}', f'IN ({other})', f'LIKE {other}'))}"
    elif kind < 0.85:
        sql = f"SELECT {rng.choice(CONSTANTS)} {rng.choice(('', '+', '=', 'LIKE'))} {rng.choice(VALUES)}"
    elif kind < 0.9:
        what = rng.choice(("TABLES", "DATABASES", "VARIABLES", "COLUMNS FROM t", "INDEX FROM t"))
        sql = f"SHOW {what} WHERE {rng.choice(PIECES)} = 1"
    else:
        sql = " ".join(rng.choices(WORDS, k=rng.randrange(1, 12)))
    return sql if rng.random() < 0.5 else spoilt(sql, rng)


def spoilt(sql: str, rng: random.Random) -> str:
    """Return a statement of which a word is lost, doubled, moved, or another one."""
    words = sql.split(" ")
    at, to = rng.randrange(len(words)), rng.randrange(len(words))
    change = rng.randrange(4)
    if change == 0:
        del words[at]
    elif change == 1:
        words.insert(to, words[at])
    elif change == 2:
        words[at], words[to] = words[to], words[at]
    else:
        words[at] = rng.choice(WORDS)
    return " ".join(words)


def test_no_answer_has_the_engines_words(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    mysql_server.execute(f"SET sql_mode = ''; {TABLE}; INSERT INTO t VALUES {ROWS}", "shop")
    merge(config_of(mysql_server, tmp_path), tmp_path / "out")
    rng = random.Random(seed_of_search())
    found: list[tuple[str, Any]] = []
    answered = 0
    with (
        serving(tmp_path / "out", tmp_path / "shop.db") as running,
        contextlib.closing(running.connect(database="shop", autocommit=True, charset="utf8mb4")) as connection,
    ):
        for _ in range(effort(600, 5000)):
            sql = statements(rng)
            try:
                with connection.cursor() as cursor:
                    cursor.execute(sql)
                    names = [name for name, *_ in cursor.description or ()]
                answered += 1
                found += [(sql, names)] if any("of " in name and "`of " in name for name in names) else []
            except pymysql.MySQLError as error:
                said = str(error)
                if ENGINES.search(said.replace(sql, "")) or error.args[0] in (1105, 2013) or "internal" in said:
                    found.append((sql, said))
        assert running.query("SELECT 1") == [(1,)]
    assert not found, "\n".join(map(str, found[:40]))
    assert answered > 50, answered
