"""The real gh-ost, pt-online-schema-change and spirit on three shards under load: the log has one ALTER of each change.

Each change runs on one shard after the other; the first one is killed half way and begun again. The configuration is
the shortest that there is.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest
import yaml

from binlog_merge.cli import main as cli
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.changers import CHANGERS, DATABASE, OPERATOR, Changer
from tests.clients.served import served, until
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import columns_of, create_of, rows_of, tables
from tests.merge_e2e.test_shards import ddl
from tests.mysql_server import MySqlServer
from tests.tables.test_duckdb import differences, tables_at, tables_of
from tools.demo_live.cluster import free_ports

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
SHARDS: Final = 3
ROWS: Final = 1500
SCHEMA: Final = f"""
CREATE DATABASE {DATABASE}; USE {DATABASE};
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY, customer INT NOT NULL, state VARCHAR(20) NOT NULL DEFAULT 'new',
  total DECIMAL(10,2), placed DATETIME(3) NOT NULL, doc JSON, pic VARBINARY(40), KEY by_customer (customer)
);
CREATE TABLE payments (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, orders_id BIGINT UNSIGNED NOT NULL, amount INT);
"""
CHANGES: Final = (
    "MODIFY customer BIGINT NOT NULL",  # no server does this without a copy
    "ADD COLUMN note VARCHAR(40) NOT NULL DEFAULT 'none'",
    "ADD INDEX by_state (state, customer)",
)
MODES: Final = ("pessimistic", "optimistic")
_TRY_AGAIN: Final = (1205, 1213)


class Load:
    """What an application writes to one shard, in a session of its own, until it is to end."""

    def __init__(self, number: int, server: MySqlServer) -> None:
        self.done = 0
        self._number, self._server, self._rng = number, server, random.Random(number)
        self._ids: list[int] = []
        self._next = number
        self._end = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def fill(self) -> None:
        rows = ",".join(self._row() for _ in range(ROWS))
        self._server.execute(
            f"INSERT INTO {DATABASE}.orders (id, customer, state, total, placed, doc, pic) VALUES {rows}"
        )

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._end.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]

    def _work(self) -> None:
        try:
            session = self._server.connect(DATABASE)
            while not self._end.wait(0.005):
                self._transaction(session)
            session.close()
        except BaseException as error:  # a thread's exception would be printed and forgotten
            self._failed.append(error)

    def _transaction(self, session: "pymysql.Connection[Any]") -> None:
        with session.cursor() as cursor:
            try:
                cursor.execute("BEGIN")
                for sql in self._statements():
                    cursor.execute(sql)
                cursor.execute("COMMIT")
            except pymysql.err.OperationalError as error:
                if error.args[0] not in _TRY_AGAIN:
                    raise
                cursor.execute("ROLLBACK")
            self.done += 1

    def _statements(self) -> Iterator[str]:
        rng = self._rng
        for _ in range(rng.choice((1, 1, 1, 3))):
            one = rng.choice(self._ids)
            match rng.randrange(6):
                case 0 | 1:
                    yield f"INSERT INTO orders (id, customer, state, total, placed, doc, pic) VALUES {self._row()}"
                case 2:
                    yield f"DELETE FROM orders WHERE id = {one}"
                case 3:
                    number = self._new()
                    yield f"INSERT INTO payments VALUES ({number}, {one}, {rng.randrange(1000)})"
                case _:
                    yield f"UPDATE orders SET state = 'paid {rng.randrange(1000)}', total = total + 1 WHERE id = {one}"

    def _row(self) -> str:
        rng, number = self._rng, self._new()
        self._ids.append(number)
        doc = f"""'{{"n": {rng.randrange(1000)}, "tags": ["ü", null]}}'"""
        placed = f"'2026-11-{rng.randrange(1, 29):02} 12:34:56.{rng.randrange(1000):03}'"
        pic = f"X'{rng.randbytes(rng.randrange(1, 20)).hex()}00'"
        state = rng.choice(("new", "geprüft", "発送"))
        return f"({number}, {rng.randrange(10_000)}, '{state}', 10.5, {placed}, {doc}, {pic})"

    def _new(self) -> int:
        self._next += SHARDS
        return self._next


@contextmanager
def loaded(loads: list[Load]) -> Iterator[None]:
    """Let shards be written to."""
    for load in loads:
        load.start()
    try:
        yield
    finally:
        for load in loads:
            load.end()


@dataclass(frozen=True)
class Played:
    """A story that was played, and the shards that hold what came of it."""

    changer: Changer
    shards: list[MySqlServer]
    files: list[list[Path]]


@pytest.fixture(scope="module", params=CHANGERS, ids=lambda changer: str(changer.name))
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All changes on all shards, once for both modes."""
    folder = tmp_path_factory.mktemp(request.param.name)
    changer = request.param(folder)
    ports = free_ports(SHARDS)
    usual = ["--performance-schema=ON", "--max-connections=100"]
    shards = [MySqlServer(folder / f"shard-{n}", 100 + n, usual, port=port) for n, port in enumerate(ports, start=1)]
    try:
        for shard in shards:
            shard.start()
            shard.execute(SCHEMA)
            shard.execute(f"CREATE USER {OPERATOR}@'%' IDENTIFIED BY ''; GRANT ALL ON *.* TO {OPERATOR}@'%'")
        loads = [Load(number, shard) for number, shard in enumerate(shards)]
        for load in loads:
            load.fill()
        with loaded(loads):
            for number, alter in enumerate(CHANGES):
                for shard, load in zip(shards, loads, strict=True):
                    if number == 0:
                        changer.killed(shard, "orders", alter)
                    changer.change(shard, "orders", alter)
                    until(lambda load=load, done=load.done: load.done > done + 20)  # type: ignore[misc]
        for shard in shards:
            shard.execute("FLUSH BINARY LOGS")
        yield Played(changer, shards, [shard.binlog_files()[:-1] for shard in shards])
    finally:
        for shard in shards:
            shard.stop()


@pytest.fixture(scope="module", params=MODES)
def merged(played: Played, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The merged log, by the shortest configuration."""
    folder = tmp_path_factory.mktemp("merged")
    nodes = [
        {"source-id": f"shard-{n}", "files": [str(file.parent / "binlog.*") for file in files[:1]]}
        for n, files in enumerate(played.files, start=1)
    ]
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "name": "shop", "nodes": nodes, "shard-mode": request.param}))
    result = merge(path, folder / "out")
    assert (result.warnings, result.locks, result.waiting) == ((), (), 0)
    return folder / "out"


def test_each_change_is_one_alter(merged: Path) -> None:
    words = [sql.replace("/* gh-ost */", "").replace("`", "") for sql in ddl(merged)]  # spirit quotes all names
    altered = [sql for sql in words if "ALTER" in sql.upper()]
    assert len(altered) == len(CHANGES), words
    assert all(change.split()[-1] in sql for change, sql in zip(CHANGES, altered, strict=True)), altered


def test_a_replica_holds_what_the_shards_hold(played: Played, merged: Path, tmp_path: Path) -> None:
    with MySqlServer(tmp_path / "replica", 200) as replica, served(merged, tmp_path) as server:
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={server.port}, SOURCE_USER='{USER}', "
            f"SOURCE_PASSWORD='{PASSWORD}', GET_SOURCE_PUBLIC_KEY=1, SOURCE_AUTO_POSITION=1; START REPLICA"
        )
        (wanted,) = server.query("SELECT @@gtid_executed")[0]
        assert replica.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{wanted}', 300)") == [(0,)]
        own = {name for name in tables(played.shards[0]) if name[1] not in played.changer.left}
        assert set(tables(replica)) == own
        for name in sorted(own):
            assert {create_of(replica, name)} == {create_of(shard, name) for shard in played.shards}
            columns = list(columns_of(replica, name))
            rows = [row for shard in played.shards for row in rows_of(shard, name, columns)]
            assert sorted(rows_of(replica, name, columns), key=repr) == sorted(rows, key=repr)
        replica.execute("STOP REPLICA")
        copy = tmp_path / "copy.duckdb"
        assert cli.run(["replay", "--merged", str(merged), "--to", f"duckdb://{copy}"]) == 0
        expected, found = tables_at(replica), tables_of(copy)
        assert found.keys() == expected.keys()
        for name in found:
            assert differences(found[name], expected[name]) == [], f"{name} in DuckDB"
