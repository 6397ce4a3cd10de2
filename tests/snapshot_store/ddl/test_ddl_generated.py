"""Random statements into a real MySQL and into `apply_ddl`: one shape, and nothing refused that the server takes.

What the server refuses we refuse too, but for what its reasons are not in the text: the types of expressions, the rows
that are there, what an engine can do online.
"""

import os
import random
import re
import time
from dataclasses import dataclass, field
from functools import partial

import pytest

from snapshot_store.ddl import apply_ddl
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog
from tests.effort import keeping
from tests.mysql_server import MySqlServer
from tests.snapshot_store.ddl.ddl_corpus import DEFAULTS
from tests.snapshot_store.ddl.ddl_generator import Generator
from tests.snapshot_store.ddl.test_ddl_mysql import differences, refusal
from tests.snapshot_store.mysql_compare import connect, our_shape, query, server_shape

pytestmark = pytest.mark.mysql

STATEMENTS = 60
SEEDS = range(4)
# Errors of the server that ask for more than a schema.
BEYOND = {
    1071: "the longest key of another engine than InnoDB",
    1210: "the type of an expression",
    1221: "the order of a key that became spatial",
    1292: "a constant compared with a moment",
    1364: "a generated column in CREATE TABLE … SELECT",
    1478: "what an engine can do",
    1525: "a constant compared with a moment",
    1659: "the type of a partition's expression after a MODIFY",
    1660: "the total length of what partitions are told apart by",
    1846: "what can be done online",
    3064: "the type of an expression",
    3105: "a generated column in CREATE TABLE … SELECT",
    3106: "a virtual column in a key of its prefix",
    3751: "the length of an expression's text",
    3757: "the type of an expression",
}


@dataclass(slots=True)
class Duel:
    """A server and a catalog that are told the same statements."""

    server: MySqlServer
    catalog: Catalog = field(default_factory=Catalog)

    def run(self, seed: int) -> None:
        """Tell both the statements of one seed, and compare after each."""
        session, watcher = connect(self.server), connect(self.server)
        for sql in ("DROP DATABASE IF EXISTS g", "CREATE DATABASE g", "USE g"):
            query(session, sql)
        self.catalog = apply_ddl(Catalog(), "CREATE DATABASE g", None, DEFAULTS).catalog
        generator = Generator(seed)
        taken = 0
        for number in range(STATEMENTS):
            sql = self._chosen(generator)
            refused = refusal(session, sql)
            after, why = self._told(sql)
            place = f"seed {seed}, statement {number}: {sql}\n"
            if refused:
                code = int(re.findall(r"\d+", refused)[0])
                assert why or code in BEYOND, f"{place}the server refuses it, we do not: {refused}"
                continue
            assert not why, f"{place}the server takes it, we do not: {why}"
            found = differences(server_shape(partial(query, watcher), "g"), our_shape(after, "g"))
            assert not found, place + found
            self.catalog = after
            taken += 1
        assert taken > STATEMENTS // 3
        session.close()
        watcher.close()

    def _chosen(self, generator: Generator) -> str:
        """Return a statement that, mostly, we take: left to themselves, three of four are refused."""
        sql = generator.statement(self.catalog, "g")
        for _ in range(12 if generator.chance(0.75) else 0):
            if not self._told(sql)[1]:
                break
            sql = generator.statement(self.catalog, "g")
        return sql

    def _told(self, sql: str) -> tuple[Catalog, str]:
        try:
            return apply_ddl(self.catalog, sql, "g", DEFAULTS).catalog, ""
        except SnapshotStoreError as error:
            return self.catalog, str(error)


@pytest.mark.parametrize("seed", keeping(SEEDS[:2], SEEDS))
def test_random_statements_make_the_same_tables(mysql_server: MySqlServer, seed: int) -> None:
    Duel(mysql_server).run(seed)


@pytest.mark.soak
def test_random_statements_make_the_same_tables_for_long(mysql_server: MySqlServer) -> None:
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600")) / 4
    while time.monotonic() < end:
        Duel(mysql_server).run(random.randrange(1 << 32))
