"""The ALTERs of a diff, on a real server: random tables with every attribute become others, by SHOW CREATE TABLE."""

import os
import re
from typing import Any

import pytest

from snapshot_store.ask.alter import change_sql
from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.diff import diff_tables
from snapshot_store.model import Catalog, Table
from snapshot_store.render_sql import make_sql
from tests.effort import effort
from tests.mysql_server import MySqlServer
from tests.snapshot_store.ddl.test_ddl_mysql import refusal
from tests.snapshot_store.ddl.test_like_mysql import Zoo, shown
from tests.snapshot_store.mysql_compare import connect, query

pytestmark = pytest.mark.mysql


_KEY = re.compile("  (PRIMARY |UNIQUE |FULLTEXT )?KEY ")


def lines(session: Any, name: str) -> list[str]:
    """Return the lines of a table, those of its keys in any order: that is the server's choice.

    A column does not mention what is the table's character set anyhow.
    """
    text = re.sub(r" AUTO_INCREMENT=\d+", "", shown(session, name))
    charset = re.findall(r"^\) .* DEFAULT CHARSET=(\w+)", text, re.MULTILINE)[0]
    text = re.sub(rf"(?m)^(  `.*) CHARACTER SET {charset}(?: COLLATE \w+)?", r"\1", text)
    found = [line.rstrip(",") for line in text.split("\n")]
    keys = sorted(line for line in found if _KEY.match(line))
    told = [re.sub(r" KEY_BLOCK_SIZE=\d+", "", line) for line in keys]  # which no ALTER gives a key
    return [line for line in found if line not in keys] + told


def made(session: Any, seed: int) -> Table:
    """Return a random table that the server has taken, altered a few times."""
    zoo, catalog, known = Zoo(seed), Catalog(), DdlSession(sql_mode=0, time_zone="+00:00")
    for name in ("DROP DATABASE IF EXISTS d", "CREATE DATABASE d"):
        query(session, name)
    catalog = apply_ddl(catalog, "CREATE DATABASE d", None, known).catalog
    create = next(sql for sql in iter(zoo.create, "") if not refusal(session, sql))
    for sql in (create, *(zoo.alter() for _ in range(zoo.random.randint(0, 4)))):
        if sql == create or not refusal(session, sql):
            catalog = apply_ddl(catalog, sql, None, known).catalog
    return catalog.table("d", "src")


def check(server: MySqlServer, seeds: range) -> int:
    """Alter one table to another for each seed; return how often a server refuses the alteration."""
    session, refused = connect(server), 0
    query(session, "SET sql_mode = '', innodb_strict_mode = 0")
    for seed in seeds:
        b, a = made(session, 2 * seed + 1), made(session, 2 * seed)
        for sql in ("DROP DATABASE IF EXISTS e", "CREATE DATABASE e", *make_sql(b.renamed("e", "src"))):
            query(session, sql)
        statements = change_sql(a, b)
        failed = [reason for sql in statements if (reason := refusal(session, sql))]
        refused += bool(failed)
        if not failed:
            assert lines(session, "d.src") == lines(session, "e.src"), (seed, statements)
            assert not statements or diff_tables(a, b, whole=True), seed
        assert change_sql(b, b) == ()
    session.close()
    return refused


def test_tables_become_others(mysql_server: MySqlServer) -> None:
    assert check(mysql_server, range(effort(8, 40))) <= 2


@pytest.mark.soak
def test_many_tables_become_others(mysql_server: MySqlServer) -> None:
    first = int(os.environ.get("SOAK_SEED", "0"))
    print(check(mysql_server, range(first, first + 150)), "refused")
