"""The fixture cases: what comes out, what `ddl locks` shows of the rest, and what becomes of each decision about it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from fixtures.expect import plain
from fixtures.shards import FIXTURES, case_names, mode_of, select, steps
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog

pytestmark = [pytest.mark.mysql]

Captured = pytest.CaptureFixture[str]
every_case = pytest.mark.parametrize("name", case_names())
AWAITED = {"shards-pessimistic": "dn-2/shop_2/orders_3", "shards-optimistic": "dn-1/shop_1/orders_2"}
HELD = {"shards-pessimistic": {"dn-1/shop_1/orders_1": 1, "dn-1/shop_1/orders_2": 1},
        "shards-optimistic": {"dn-1/shop_1/orders_1": 1, "dn-2/shop_2/orders_3": 1}}  # fmt: skip


def locks(capsys: Captured, out: Path) -> list[dict[str, Any]]:
    assert main.run(["ddl", "locks", "--out", str(out), "-o", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["locks"]
    return found


def resolve(capsys: Captured, out: Path, *arguments: str, code: int = 0) -> str:
    assert main.run(["ddl", "resolve", "shop.orders", *arguments, "--out", str(out)]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def carry_out(server: MySqlServer, out: Path) -> None:
    server.drop_databases()
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.apply(mysqlbinlog([out / file for file in written(out)]))


def rows(server: MySqlServer, columns: list[str]) -> list[list[str | None]]:
    found = [list(map(plain, row)) for row in server.query(select(columns, "shop.orders"))]
    return sorted(found, key=lambda row: [value or "" for value in row])


def columns_of(server: MySqlServer) -> list[str]:
    return [str(row[0]) for row in server.query("SHOW COLUMNS FROM shop.orders")]


@pytest.fixture
def played(mysql_server: MySqlServer) -> Callable[[str], tuple[list[list[str | None]], list[str]]]:
    """Play a case to its end on the server, and return the shards' rows by id, and their columns."""

    def play(name: str) -> tuple[list[list[str | None]], list[str]]:
        session = mysql_server.connect()
        with session.cursor() as cursor:
            for node, sql in steps(name):
                if node:
                    cursor.execute(sql)
        session.close()
        found: list[list[str | None]] = []
        for table in ("shop_1.orders_1", "shop_1.orders_2", "shop_2.orders_3"):
            columns = [str(row[0]) for row in mysql_server.query(f"SHOW COLUMNS FROM {table}")]
            found += [list(map(plain, row)) for row in mysql_server.query(select(columns, table))]
        columns = [str(row[0]) for row in mysql_server.query("SHOW COLUMNS FROM shop_1.orders_1")]
        return sorted(found, key=lambda row: [value or "" for value in row]), columns

    return play


@every_case
def test_what_all_shards_have_done_comes_out(mysql_server: MySqlServer, name: str, tmp_path: Path) -> None:
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    carry_out(mysql_server, tmp_path)
    ((expected),) = json.loads((FIXTURES / name / "expected" / "tables.json").read_text()).values()
    ((_, create),) = mysql_server.query("SHOW CREATE TABLE shop.orders")
    assert create == expected["create"]
    assert rows(mysql_server, expected["columns"]) == expected["rows"]


@every_case
def test_what_waits_is_shown(capsys: Captured, name: str, tmp_path: Path) -> None:
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    (lock,) = locks(capsys, tmp_path)
    assert (lock["table"], lock["mode"], lock["stage"]) == ("shop.orders", mode_of(name), "waiting")
    assert [one["shard"] for one in lock["awaited"]] == [AWAITED[name]]
    last = [sql for _, sql in steps(name) if sql.startswith("ALTER")][-2:]
    assert sorted(one["ran"]["sql"] for one in lock["done"]) == sorted(last)
    assert all(Path(one["ran"]["file"]).exists() and one["ran"]["position"] > 4 for one in lock["done"])
    assert {one["shard"]: one["transactions"] for one in lock["held"]} == HELD[name]
    assert all(one["bytes"] > 100 and one["since"]["time"].startswith("20") for one in lock["held"])


@every_case
def test_a_shard_that_counts_as_having_done_it(
    mysql_server: MySqlServer, played: Callable[[str], Any], capsys: Captured, name: str, tmp_path: Path
) -> None:
    expected, columns = played(name)
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    before = written(tmp_path)
    resolve(capsys, tmp_path, "--as-if-done", AWAITED[name])
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    assert_prefix(before, written(tmp_path))
    carry_out(mysql_server, tmp_path)
    assert columns_of(mysql_server) == columns
    assert rows(mysql_server, columns) == expected
    assert locks(capsys, tmp_path) == []
    said = resolve(capsys, tmp_path, "--skip", code=2)
    assert "no coordination that is open" in said


@every_case
def test_a_ddl_that_is_skipped(mysql_server: MySqlServer, capsys: Captured, name: str, tmp_path: Path) -> None:
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    resolve(capsys, tmp_path, "--skip")
    config = FIXTURES / name / "cluster.yaml"
    if name == "shards-optimistic":  # 'on request' is no price
        merge_with(config, tmp_path, "default")
    else:
        merge(config, tmp_path)
    carry_out(mysql_server, tmp_path)
    (expected,) = json.loads((FIXTURES / name / "expected" / "tables.json").read_text()).values()
    assert columns_of(mysql_server) == expected["columns"]
    assert len(rows(mysql_server, ["id"])) == len(expected["rows"]) + (1 if name == "shards-pessimistic" else 2)
    assert locks(capsys, tmp_path) == []


def merge_with(config: Path, out: Path, on_unconvertible: str) -> None:
    from binlog_merge.config.merge_config import MergeConfig

    loaded = MergeConfig.load(config)
    reshape = loaded.reshape.model_copy(update={"on_unconvertible": on_unconvertible})
    merge(loaded.model_copy(update={"reshape": reshape}), out)


@every_case
def test_a_statement_in_its_place(mysql_server: MySqlServer, capsys: Captured, name: str, tmp_path: Path) -> None:
    sql = {
        "shards-pessimistic": "ALTER TABLE orders RENAME COLUMN customer TO client, ADD COLUMN by_hand INT",
        "shards-optimistic": "ALTER TABLE shop.orders MODIFY price VARCHAR(30)",
    }[name]
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    resolve(capsys, tmp_path, "--emit", sql)
    merge(FIXTURES / name / "cluster.yaml", tmp_path)
    carry_out(mysql_server, tmp_path)
    ((_, create),) = mysql_server.query("SHOW CREATE TABLE shop.orders")
    assert ("`by_hand` int" in create) if name == "shards-pessimistic" else ("`price` varchar(30)" in create)
    assert locks(capsys, tmp_path) == []


@every_case
def test_the_same_decisions_anew_give_the_same_log(capsys: Captured, name: str, tmp_path: Path) -> None:
    """The store of a finished merge is the base of another, which decides the same at the same place."""
    config = FIXTURES / name / "cluster.yaml"
    merge(config, tmp_path / "one")
    resolve(capsys, tmp_path / "one", "--as-if-done", AWAITED[name])
    merge(config, tmp_path / "one")
    (tmp_path / "two").mkdir()
    shutil.copyfile(tmp_path / "one" / "schema.duckdb", tmp_path / "two" / "schema.duckdb")
    merge(config, tmp_path / "two")
    assert written(tmp_path / "two") == written(tmp_path / "one")


@every_case
def test_a_decision_taken_back_has_never_been(capsys: Captured, name: str, tmp_path: Path) -> None:
    config = FIXTURES / name / "cluster.yaml"
    merge(config, tmp_path)
    before = written(tmp_path)
    resolve(capsys, tmp_path, "--skip")
    resolve(capsys, tmp_path, "--withdraw")
    merge(config, tmp_path)
    assert written(tmp_path) == before
    assert len(locks(capsys, tmp_path)) == 1


def test_below_what_is_published_nothing_is_decided(capsys: Captured, tmp_path: Path) -> None:
    merge(FIXTURES / "shards-pessimistic" / "cluster.yaml", tmp_path)
    (lock,) = locks(capsys, tmp_path)
    key = lock["since"]["order_key"]
    said = resolve(capsys, tmp_path, "--skip", "--at-tso", "0" * 53 + "1", code=38)
    assert "comes too late" in said and key
    resolve(capsys, tmp_path, "--skip")
    merge(FIXTURES / "shards-pessimistic" / "cluster.yaml", tmp_path)
    said = resolve(capsys, tmp_path, "--withdraw", code=2)
    assert "no coordination" in said or "nothing is decided" in said
