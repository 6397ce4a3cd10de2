"""`schema diff` over renames: its statements, run on the table as it was, give the rows that the node has.

The comparison of two definitions cannot tell RENAME COLUMN from DROP and ADD; the store's statements can.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.cli import main
from snapshot_store.history import SchemaHistory
from snapshot_store.store.db import Store
from tests.effort import keeping
from tests.merge_e2e.test_ddl_session import merged, play
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

CREATE = "CREATE TABLE c (id INT PRIMARY KEY, phone VARCHAR(30), name VARCHAR(20), n INT, KEY k (name), KEY l (n))"
ROWS = "INSERT INTO c VALUES (1, '+49', 'ann', 7), (2, '+7', 'bob', 8)"
Captured = pytest.CaptureFixture[str]

STORIES = {
    "column": ["ALTER TABLE c RENAME COLUMN phone TO mobile, ADD x INT DEFAULT 5"],
    "change": ["ALTER TABLE c CHANGE phone mobile VARCHAR(40) NOT NULL FIRST"],
    "swap": ["ALTER TABLE c RENAME COLUMN phone TO name, RENAME COLUMN name TO phone"],
    "onto-another": ["ALTER TABLE c DROP COLUMN name, RENAME COLUMN phone TO name"],
    "onto-one-that-goes-first": ["ALTER TABLE c DROP COLUMN phone", "ALTER TABLE c RENAME COLUMN name TO phone"],
    "again-and-back": [
        "ALTER TABLE c RENAME COLUMN phone TO mobile", "ALTER TABLE c RENAME COLUMN mobile TO tel",
        "ALTER TABLE c RENAME COLUMN name TO mobile", "ALTER TABLE c RENAME COLUMN mobile TO name",
    ],
    "index": ["ALTER TABLE c RENAME INDEX k TO by_name, RENAME COLUMN name TO title"],
    "table": ["RENAME TABLE c TO e", "ALTER TABLE e RENAME COLUMN phone TO tel, ADD z INT"],
    "table-by-alter": ["ALTER TABLE c RENAME COLUMN phone TO tel, RENAME TO e, ADD z INT"],
    "table-and-a-new-one": ["RENAME TABLE c TO e", "CREATE TABLE c (a INT)"],
    "ansi": ["SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "c" RENAME COLUMN "phone" TO "a b"'],
    "drop": ["ALTER TABLE c DROP COLUMN phone, ADD mobile VARCHAR(30)"],
}  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with MySqlServer(tmp_path_factory.mktemp("node"), server_id=102) as server:
        yield server


def history_of(out: Path) -> SchemaHistory:
    with Store.open(out / "schema.duckdb", True) as store:
        return store.load_history()


def moments(out: Path) -> tuple[str, str]:
    """Return the keys of the statement that makes `c`, and of the last one."""
    versions = [v for v in history_of(out).versions if v.node is None]
    return min(v.key for v in versions if v.name == "c").text(), max(v.key for v in versions).text()


def diffs(out: Path, capsys: Captured, *tables: str, node: bool = False, form: str = "json") -> Any:
    begin, end = moments(out)
    capsys.readouterr()
    words = ["schema", "diff", *(tables or ("app.*",)), "--merged", str(out), "--from", begin, "--to", end]
    assert main.run([*words, *(("--node", "dn") if node else ()), "-o", form]) == 0
    told = capsys.readouterr().out
    return json.loads(told)["tables"] if form == "json" else told


def told(folder: Path, node: MySqlServer, *story: str) -> Path:
    """Play a story on one node and merge it; its database has one table of two rows before."""
    play(node, "; ".join(["DROP TABLE t", CREATE, ROWS, *story]), folder)
    merged(folder, "pessimistic", "warn")
    return folder / "out"


def carried_out(server: MySqlServer, sql: str) -> dict[str, Any]:
    """Run statements on the table as it was; returns all tables with their rows."""
    server.drop_databases()
    server.execute("CREATE DATABASE app CHARACTER SET latin1")
    server.execute(f"{CREATE}; {ROWS}; {sql}", "app")
    return rows_of(server)


def rows_of(server: MySqlServer) -> dict[str, Any]:
    found = {}
    for (table,) in server.query("SHOW TABLES FROM app WHERE Tables_in_app <> 'parent'"):
        columns = sorted(str(row[0]) for row in server.query(f"SHOW COLUMNS FROM app.`{table}`"))
        asked = ", ".join(f"`{column}`" for column in columns)
        found[str(table)] = (columns, sorted(server.query(f"SELECT {asked} FROM app.`{table}`"), key=repr))
    return found


# What stands for the others: two names of one column, of a table, a name that is taken again, and no rename at all.
KEPT = ("swap", "again-and-back")


@pytest.mark.parametrize("name", keeping(KEPT, STORIES))
def test_its_statements_keep_what_the_node_keeps(
    name: str, node: MySqlServer, mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    out = told(tmp_path / "s", node, *STORIES[name])
    for physical in (False, True):
        assert not any(diff["unsafe"] for diff in diffs(out, capsys, node=physical))
        assert carried_out(mysql_server, diffs(out, capsys, node=physical, form="sql")) == rows_of(node)


@pytest.mark.parametrize("asked", ["app.c", "app.e"])
def test_a_renamed_table_is_one_under_either_name(
    asked: str, node: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    out = told(tmp_path / "s", node, *STORIES["table"])
    (diff,) = diffs(out, capsys, asked)
    assert (diff["table"], diff["to"]["table"]) == ("c", "e")
    assert not any("DROP" in sql or "CREATE" in sql for sql in diff["alter"])
    assert "app.c -> app.e" in diffs(out, capsys, asked, form="text")


def test_what_no_statement_tells_is_unsafe(node: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    out = told(tmp_path / "s", node, "ALTER TABLE c RENAME COLUMN phone TO mobile", "ALTER TABLE c ADD x INT")
    with Store.open(out / "schema.duckdb") as store:
        store._connection.execute("UPDATE table_versions SET ddl = '' WHERE ddl LIKE '%RENAME COLUMN%'")
    (diff,) = diffs(out, capsys, "app.c")
    assert ["column phone" in text and "no statement tells" in text for text in diff["unsafe"]] == [True]
    assert "-- unsafe: column phone" in diffs(out, capsys, form="sql")
    assert "-- unsafe: column phone" in diffs(out, capsys, form="text")


def test_a_swap_of_tables_is_unsafe(node: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    out = told(tmp_path / "s", node, "CREATE TABLE d (id INT PRIMARY KEY)", "RENAME TABLE c TO q, d TO c, q TO d")
    assert any("these statements move no rows" in text for diff in diffs(out, capsys) for text in diff["unsafe"])


class _Teller:
    """Makes up ALTERs of one table: any rename, and columns that come with new names."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.columns = ["phone", "name", "n"]
        self.free = ["a", "b", "phone2"]
        self.table = "c"

    def statement(self) -> str:
        actions: list[str] = []
        left = list(self.columns)
        self.rng.shuffle(left)
        for _ in range(self.rng.randint(1, 3)):
            match self.rng.randint(0, 5):
                case 0 if len(left) > 1:
                    gone = left.pop()
                    self.columns.remove(gone)
                    self.free.append(gone)
                    actions.append(f"DROP COLUMN `{gone}`")
                case 1:
                    new = f"new{self.rng.randint(100, 999)}"
                    if new not in (*self.columns, *self.free):
                        self.columns.append(new)
                        actions.append(f"ADD COLUMN `{new}` INT DEFAULT {self.rng.randint(1, 9)}")
                case 2 if len(left) > 1:
                    one, other = left.pop(), left.pop()
                    actions += [f"RENAME COLUMN `{one}` TO `{other}`", f"RENAME COLUMN `{other}` TO `{one}`"]
                case 3 if self.table != "moved":
                    self.table, old = self.table + "_", self.table
                    return f"RENAME TABLE `{old}` TO `{self.table}`"
                case _ if left:
                    old = left.pop()
                    new = self.free.pop(self.rng.randrange(len(self.free)))
                    self.columns[self.columns.index(old)] = new
                    self.free.append(old)
                    actions.append(f"RENAME COLUMN `{old}` TO `{new}`")
                    if self.rng.random() < 0.3:
                        break
        return f"ALTER TABLE `{self.table}` " + ", ".join(actions) if actions else "DO 1"


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 60))])
def test_any_renames(seed: int, node: MySqlServer, mysql_server: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    """What a server takes of made-up statements; each is tried on another server first."""
    teller, story = _Teller(seed), list[str]()
    mysql_server.drop_databases()
    mysql_server.execute(f"CREATE DATABASE app; USE app; {CREATE}")
    for _ in range(8):
        kept = (list(teller.columns), list(teller.free), teller.table)
        sql = teller.statement()
        try:
            mysql_server.execute(sql, "app")
        except pymysql.err.MySQLError:
            teller.columns, teller.free, teller.table = kept
            continue
        story.append(sql)
    out = told(tmp_path / "s", node, *story)
    sql = diffs(out, capsys, form="sql")
    assert "unsafe" not in sql, story
    assert carried_out(mysql_server, sql) == rows_of(node), (story, sql)
