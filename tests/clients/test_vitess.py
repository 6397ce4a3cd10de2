"""A real Vitess under load: online DDL, tables that move to a sharded keyspace, a shard that is split; one log of it.

Every change of the application comes out once, and each online DDL as the ALTER that it is. The programs are those of
`tools/get-vitess.sh`.
"""

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest
import yaml

from tests.clients.served import until
from tests.clients.vitess_cluster import HOME, SETTINGS, Vitess, available
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import rows_of
from tests.merge_e2e.test_shards import ddl
from tests.mysql_server import MySqlServer, mysqlbinlog
from tools.demo_live.cluster import free_ports

pytestmark = [
    pytest.mark.clients,
    pytest.mark.mysql,
    pytest.mark.skipif(not available(), reason=f"no Vitess under {HOME}: tools/get-vitess.sh builds it"),
]

ROWS: Final = 300
ORDERS: Final = """
CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, customer BIGINT NOT NULL, state VARCHAR(20) NOT NULL, n INT,
  KEY by_customer (customer))
"""
CUSTOMERS: Final = "CREATE TABLE customers (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40), n INT)"
COLUMNS: Final = {"orders": ["id", "customer", "state", "n"], "customers": ["id", "name", "n", "note"]}
SHARDED: Final = {"sharded": True, "vindexes": {"hash": {"type": "xxhash"}}}
BY_ID: Final = {"column_vindexes": [{"column": "id", "name": "hash"}]}
LEGACY, LOW, HIGH, FIRST, SECOND = "legacy", "shop-low", "shop-high", "shop-first", "shop-second"


class Load:
    """What an application writes through vtgate until it is to end; what fails meanwhile it tries again."""

    def __init__(self, vitess: Vitess) -> None:
        self.done = 0
        self._vitess, self._rng, self._next = vitess, random.Random(1), 0
        self._ids: dict[str, list[int]] = {"orders": [], "customers": []}
        self._end = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def fill(self) -> None:
        with self._vitess.session() as cursor:
            for _ in range(ROWS):
                cursor.execute(self._insert("orders"))
                cursor.execute(self._insert("customers"))

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._end.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]

    def more(self) -> None:
        """Wait until some more was written."""
        done = self.done
        until(lambda: self.done > done + 20 or bool(self._failed), lambda: self._failed)

    def _work(self) -> None:
        try:
            while not self._end.is_set():
                try:
                    with self._vitess.session() as cursor:
                        while not self._end.wait(0.01):
                            cursor.execute(self._statement())
                            self.done += 1
                except pymysql.err.Error as error:
                    if error.args[0] == 1062:  # it was written all the same
                        continue
                    self._end.wait(0.2)
        except BaseException as error:  # a thread's exception would be printed and forgotten
            self._failed.append(error)

    def _insert(self, table: str) -> str:
        self._next += 1
        self._ids[table].append(self._next)
        if table == "orders":
            return f"INSERT INTO orders (id, customer, state, n) VALUES ({self._next}, {self._next % 97}, 'neü', 0)"
        return f"INSERT INTO customers (id, name, n) VALUES ({self._next}, 'customer {self._next}', 0)"

    def _statement(self) -> str:
        table = self._rng.choice(("orders", "customers"))
        one = self._rng.choice(self._ids[table])
        match self._rng.randrange(4):
            case 0:
                return self._insert(table)
            case 1:
                return f"DELETE FROM {table} WHERE id = {one}"
            case _:
                return f"UPDATE {table} SET n = n + 1 WHERE id = {one}"


@dataclass(frozen=True)
class Played:
    """What was played: each server's binlogs, and what the application sees at the end."""

    files: dict[str, list[Path]]
    rows: dict[str, list[tuple[str | None, ...]]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("vitess")
    names = (LEGACY, LOW, HIGH, FIRST, SECOND)
    ports = free_ports(len(names))
    servers = {
        name: MySqlServer(folder / name, 300 + n, SETTINGS, port=port)
        for n, (name, port) in enumerate(zip(names, ports, strict=True))
    }
    for server in servers.values():
        server.start()
    vitess = Vitess(folder)
    try:
        _play(vitess, servers)
        with vitess.session() as cursor:
            rows = {name: _told(cursor, name) for name in COLUMNS}
        for server in servers.values():
            server.execute("FLUSH BINARY LOGS")
        yield Played({name: server.binlog_files()[:-1] for name, server in servers.items()}, rows)
    finally:
        vitess.stop()
        for server in servers.values():
            server.stop()


def _play(vitess: Vitess, servers: dict[str, MySqlServer]) -> None:
    vitess.keyspace("legacy", {"tables": {"orders": {}}})
    vitess.keyspace("shop", {**SHARDED, "tables": {"customers": BY_ID}})
    vitess.shard("legacy", "0", servers[LEGACY])
    vitess.shard("shop", "-80", servers[LOW])
    vitess.shard("shop", "80-", servers[HIGH])
    vitess.serve()
    with vitess.session("legacy") as cursor:
        cursor.execute(ORDERS)
    with vitess.session("shop") as cursor:
        cursor.execute(CUSTOMERS)
    load = Load(vitess)
    load.fill()
    load.start()
    try:
        vitess.online_ddl("shop", "ALTER TABLE customers MODIFY name VARCHAR(80)")
        load.more()
        vitess.online_ddl(
            "shop", "ALTER TABLE customers ADD note VARCHAR(20) DEFAULT 'none'", "vitess --prefer-instant-ddl"
        )
        load.more()
        _move_tables(vitess, load)
        _reshard(vitess, servers, load)
    finally:
        load.end()


def _move_tables(vitess: Vitess, load: Load) -> None:
    vitess.vschema("shop", {**SHARDED, "tables": {"customers": BY_ID, "orders": BY_ID}})
    named = ("MoveTables", "--workflow=move", "--target-keyspace=shop")
    vitess.ctl(*named, "create", "--source-keyspace=legacy", "--tables=orders", "--defer-secondary-keys=false")
    vitess.wait_for_copy("MoveTables", "move", "shop")
    for switch in ("SwitchTraffic", "ReverseTraffic", "SwitchTraffic"):
        load.more()
        vitess.ctl(*named, switch, "--max-replication-lag-allowed=60s")
    load.more()
    vitess.ctl(*named, "complete")
    load.more()


def _reshard(vitess: Vitess, servers: dict[str, MySqlServer], load: Load) -> None:
    vitess.shard("shop", "-40", servers[FIRST])
    vitess.shard("shop", "40-80", servers[SECOND])
    named = ("Reshard", "--workflow=split", "--target-keyspace=shop")
    shards = ("--source-shards=-80", "--target-shards=-40,40-80")
    vitess.ctl(*named, "create", *shards, "--defer-secondary-keys=false")
    vitess.wait_for_copy("Reshard", "split", "shop")
    load.more()
    vitess.ctl(*named, "SwitchTraffic", "--max-replication-lag-allowed=60s")
    load.more()
    vitess.ctl(*named, "complete")
    load.more()


def _told(cursor: Any, table: str) -> list[tuple[str | None, ...]]:
    cursor.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table} LIMIT 100000")
    return sorted(tuple(None if value is None else str(value) for value in row) for row in cursor.fetchall())


def _configuration(played: Played, folder: Path, mode: str) -> Path:
    nodes = [
        {"source-id": name, "files": [str(file.parent / "binlog.*") for file in files[:1]]}
        for name, files in played.files.items()
    ]
    routes = [{"schema-pattern": name, "target-schema": "shop"} for name in ("vt_legacy", "vt_shop")]
    document = {
        "version": 1, "name": "shop", "nodes": nodes, "routes": routes, "shard-mode": mode, "ignore-schemas": ["_vt"],
        "ignore-transactions": ["_vt.vreplication", "_vt.copy_state"],
    }  # fmt: skip
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_a_target_holds_what_the_application_sees(played: Played, mode: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = merge(_configuration(played, tmp_path, mode), out)
    assert result.warnings == ()
    assert result.ignored["transactions"] > 0
    assert {one["tool"] for one in result.hidden} == {"Vitess"}
    altered = [sql for sql in ddl(out) if "ALTER" in sql.upper()]
    assert len(altered) == 2 and "varchar(80)" in altered[0].lower() and "note" in altered[1].lower(), altered
    with MySqlServer(tmp_path / "target", 400) as target:
        target.apply(mysqlbinlog([out / name for name in written(out)]))
        for name, rows in played.rows.items():
            assert sorted(rows_of(target, ("shop", name), COLUMNS[name])) == rows, name
