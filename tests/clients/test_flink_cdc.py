"""Flink CDC's MySQL source in a Flink of its own: what it reads from `serve --tables` is what the nodes hold, and what
it reads from a MySQL of the same rows.

It reads rows in chunks, and then the log; it and `serve` are killed, and it goes on from its newest checkpoint.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.binlog_server.one_node import known_to, merged_from
from tests.clients.conftest import client
from tests.clients.older import as_older
from tests.clients.rows import held_rows
from tests.clients.served import served, until
from tests.clients.test_debezium_snapshots import BEFORE_DDL, CONFIG, Growing, alike, growing, table_of
from tests.mysql_server import MySqlServer
from tools.demo_live.cluster import free_ports

__all__ = ["growing"]

JOB = Path(__file__).with_name("flink_job.py")
COUNT = 35
"""Rows that are there before; a chunk has ten."""
pytestmark = [pytest.mark.clients, pytest.mark.mysql]


class FlinkCdc:
    """What a job that runs, or has run, in a folder has read and said."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self._folder = folder
        self._process = process

    def changes(self) -> list[dict[str, Any]]:
        """Return its records up to its newest checkpoint."""
        files = [path for path in (self._folder / "records").glob("part-*") if path.is_file()]
        return [
            json.loads(line)
            for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)
            for line in path.read_text().splitlines()
        ]

    def records(self) -> tuple[list[Any], list[Any]]:
        """Return the rows that were read in chunks, in an order of ours, and the changes in theirs."""
        found = [(record["op"], record["before"], record["after"]) for record in self.changes()]
        return sorted((each for each in found if each[0] == "r"), key=repr), [each for each in found if each[0] != "r"]

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """Return the rows that its records make, without the columns that DDL takes and gives; each change must fit."""
        made: dict[int, tuple[Any, ...]] = {}
        for record in self.changes():
            before, after = (row and (row["id"], row["c"], row["d"]) for row in (record["before"], record["after"]))
            if before is not None:
                assert made.pop(before[0]) == before, "a change does not follow what came before it"
            if after is not None:
                assert after[0] not in made, "a row comes twice"
                made[after[0]] = after
        return made

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; fail with what it has logged if it ends before that, or never does."""
        until(lambda: self._process.poll() is not None or holds(), self._said)
        assert self._process.poll() is None, self._said()

    def _said(self) -> str:
        return (self._folder / "log").read_text()[-5000:]


@contextlib.contextmanager
def flink_cdc(port: int, folder: Path, table: str, startup: str = "initial") -> Iterator[FlinkCdc]:
    """Run a job until it is killed, as by a crash; it goes on from the checkpoints in `folder`."""
    folder.mkdir(exist_ok=True)
    command = [client("python", "bin", "python"), str(JOB.resolve()), client("flink"), str(folder), str(port)]
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen([*command, startup, table], stdin=subprocess.PIPE, stdout=log, stderr=log) as process,
    ):
        try:
            yield FlinkCdc(folder, process)
        finally:
            process.kill()


def test_a_snapshot_of_a_cluster_and_all_that_follows(growing: Growing, tmp_path: Path) -> None:
    """DDL is under way on the nodes meanwhile."""

    def reads(found: FlinkCdc) -> int:
        found.until(lambda: table_of(found)[0] == growing.rows())
        return table_of(found)[1]

    with flink_cdc(growing.running.port, tmp_path / "f", "shop.orders") as found:
        rows = reads(found)
        assert rows == len(growing.rows()) > 20
        growing.publish(BEFORE_DDL)
        reads(found)
    growing.publish()
    with flink_cdc(growing.running.port, tmp_path / "f", "shop.orders") as found:
        assert reads(found) == rows, "it goes on from its checkpoint, without another snapshot"
    held = {int(key): row for key, row in held_rows(CONFIG.parent).items()}
    made = table_of(found)[0]
    assert {key: {name: str(value) for name, value in alike(row).items()} for key, row in made.items()} == {
        key: alike(row) for key, row in held.items()
    }


TABLE = """
RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop; USE shop; CREATE TABLE t (
  id INT PRIMARY KEY AUTO_INCREMENT, n INT, c VARCHAR(20), d DECIMAL(9, 2), made DATETIME(3) DEFAULT NOW(3), j JSON);
"""
CHANGES = (
    "INSERT INTO t (n, c, d) VALUES (1000, 'new', 12.5), (1001, NULL, NULL)",
    "UPDATE t SET n = n + 1 WHERE id % 3 = 0",
    "BEGIN; DELETE FROM t WHERE id % 7 = 0; UPDATE t SET c = CONCAT(c, 'é') WHERE id < 5; COMMIT",
    "UPDATE t SET id = id + 1000 WHERE id IN (3, 4)",
)
WHILE_KILLED = (
    "UPDATE t SET d = d * 2 WHERE id > 20",
    "ALTER TABLE t ADD COLUMN more VARCHAR(9) DEFAULT 'x', DROP COLUMN n",
    "INSERT INTO t (c, more) VALUES ('a', 'b')",
)
AFTER = ("UPDATE t SET more = id WHERE id > 5", "DELETE FROM t WHERE id > 1000")


@pytest.mark.parametrize("startup", ["initial", "earliest"])
def test_the_same_as_from_a_server(startup: str, tmp_path: Path) -> None:
    """With a snapshot, and from the log's beginning on: every record."""
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(MySqlServer(tmp_path / "server", server_id=7, port=port))
        stack.enter_context(known_to(server))
        server.execute(TABLE + "".join(f"INSERT INTO t (n, c, d) VALUES ({n}, 'c{n}', {n}.5);" for n in range(COUNT)))
        tables = f"--tables={tmp_path / 'tables.db'}"
        ours = stack.enter_context(served(merged_from(server, tmp_path), tmp_path, tables))
        ports = {"serve": ours.port, "mysql": stack.enter_context(as_older(port))}

        def change(*statements: str) -> None:
            for sql in statements:
                server.execute(sql, "shop")
            merged_from(server, tmp_path)

        def both(until_killed: contextlib.ExitStack) -> list[FlinkCdc]:
            run = until_killed.enter_context
            return [run(flink_cdc(to, tmp_path / name, "shop.t", startup)) for name, to in ports.items()]

        def have_all(found: list[FlinkCdc]) -> None:
            rows = {row[0]: row for row in server.query("SELECT id, c, d FROM shop.t")}
            for each in found:
                each.until(lambda each=each: each.rows() == rows)  # type: ignore[misc]

        with contextlib.ExitStack() as until_killed:
            found = both(until_killed)
            have_all(found)
            change(*CHANGES)
            ours.restart()
            have_all(found)
        change(*WHILE_KILLED)
        with contextlib.ExitStack() as until_killed:
            found = both(until_killed)
            have_all(found)
            ours.restart()
            change(*AFTER)
            have_all(found)
    (our_rows, our_changes), (their_rows, their_changes) = (each.records() for each in found)
    assert our_rows == their_rows and len(our_rows) == (COUNT if startup == "initial" else 0)
    assert our_changes == their_changes and len(our_changes) > 60
