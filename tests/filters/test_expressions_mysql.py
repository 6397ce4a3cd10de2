"""Row expressions against a real server: it evaluates each on its table, we on the rows that its binlog holds."""

import random
import re
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.errors import ConfigError
from binlog_merge.filters import ExpressionFilter, ExpressionRule
from snapshot_store import Table, parse_table
from tests.effort import seed_of_search
from tests.mysql_server import MySqlServer
from tests.values.attack import rows_of_binlog
from tests.values.random_expressions import CREATE as RANDOM
from tests.values.random_expressions import Expressions

pytestmark = pytest.mark.mysql

FOLDER = Path(__file__).parent
LIST = (FOLDER / "expressions.txt").read_text().splitlines()
CREATE, INSERT = (FOLDER / "expressions_table.sql").read_text().split(";\n", 1)


@pytest.fixture(scope="module")
def table() -> Table:
    return parse_table(CREATE, schema="f")


def test_expressions_mean_what_the_server_says(mysql_server: MySqlServer, table: Table) -> None:
    mysql_server.execute("CREATE DATABASE f")
    mysql_server.execute(f"{CREATE}; SET sql_mode=''; {INSERT}", "f")
    images, table_map = rows_of_binlog(mysql_server)
    batch = rows_to_batch(images, table_map, temporal_text=True)
    connection = mysql_server.connect("f")
    different: list[Any] = []
    rules = [ExpressionRule([f"f.t{i}"], insert=text) for i, text in enumerate(LIST)]
    ours_all = ExpressionFilter(rules)
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for number, text in enumerate(LIST):
            cursor.execute(f"SELECT id FROM t WHERE ({text}) = 1 ORDER BY id")
            told = [row[0] for row in cursor.fetchall()]
            try:
                mask = ours_all.mask(table.renamed("f", f"t{number}"), "insert", after=batch)
                ours = [i for i, ignored in zip(batch["id"].to_pylist(), mask.to_pylist(), strict=True) if ignored]
            except Exception as error:  # collected, so that one run shows all
                ours = [str(error)]
            if ours != told:
                different.append((text, ours, told))
    connection.close()
    assert not different, "\n".join(map(str, different))


@pytest.mark.extended  # a list of them above; random ones: values/test_expressions
def test_random_conditions_mean_what_the_server_says(mysql_server: MySqlServer) -> None:
    """Whatever is not refused: of each, the rows that a server finds by it."""
    made = Expressions(random.Random(seed_of_search()))
    mysql_server.execute("CREATE DATABASE f")
    rows = ", ".join(made.row(number) for number in range(60))
    mysql_server.execute(f"{RANDOM}; SET sql_mode = '', time_zone = '+00:00'; INSERT INTO t VALUES {rows}", "f")
    images, table_map = rows_of_binlog(mysql_server)
    batch, table = rows_to_batch(images, table_map, temporal_text=True), parse_table(RANDOM, schema="f")
    connection, different, compared = mysql_server.connect("f"), list[Any](), 0
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        while compared < 80:
            text = made.condition()
            judge = ExpressionFilter([ExpressionRule(["f.t"], insert=f"({text}) IS TRUE")])
            try:
                judge.verify([table])
            except ConfigError:
                continue
            try:
                cursor.execute(f"SELECT ({text}) IS TRUE FROM t ORDER BY id")
            except pymysql.MySQLError:  # a number beyond 64 bits
                continue
            told = [bool(value) for (value,) in cursor.fetchall()]
            try:
                ours = judge.mask(table, "insert", after=batch).to_pylist()
            except ConfigError as error:  # refused for what a row has
                assert re.search("are not compared|is not known|are not known", error.message), error.message
                continue
            compared += 1
            different += [] if ours == told else [(text, ours, told)]
    assert not different, "\n".join(map(str, different))
