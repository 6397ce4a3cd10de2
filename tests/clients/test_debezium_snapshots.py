"""Debezium takes snapshots from `serve --tables`, and goes on from there with nothing lost or doubled."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import DictCursor

from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, OrderedBy
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from tests.binlog_server.running import Running, serving
from tests.clients.test_debezium import Debezium, debezium
from tests.clients.test_debezium import pytestmark as pytestmark
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.mysql_server import ROOT
from tests.patience import Patience

CONFIG = case_named("three-nodes-online-ddl") / "cluster.yaml"
BEGUN, BEFORE_DDL = 40, 85
ALIKE = ("id", "customer", "quantity", "state")
"""Columns that the table always has, whose values look alike in records and in rows."""
PUBLISH = """
import sys, pathlib
from tests.merge_e2e.local import merge
config, out, *until = sys.argv[1:]
merge(pathlib.Path(config), pathlib.Path(out), end_of_input=not until, stop_tso=int(until[0]) if until else None)
"""
Rows = dict[int, dict[str, Any]]


@dataclass(frozen=True)
class Growing:
    """A log that grows on demand, served with its tables."""

    running: Running
    out: Path
    tsos: dict[int, int]

    def publish(self, rank: int | None = None) -> None:
        """Publish up to a transaction, or all; in a process of its own, as DuckDB wants for the schema store."""
        until = [] if rank is None else [str(self.tsos[rank + 1])]
        subprocess.run([sys.executable, "-c", PUBLISH, str(CONFIG), str(self.out), *until], check=True, cwd=ROOT)

    def rows(self) -> Rows:
        """Return the table's rows as the server has them."""
        connection = self.running.connect(cursorclass=DictCursor)
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute("SELECT * FROM shop.orders")
            return {row["id"]: alike(row) for row in cursor.fetchall()}


def alike(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ALIKE if name in row}


def tsos_of(out: Path) -> dict[int, int]:
    """Return the commit TSO of each transaction."""
    found, rank = {}, 0
    for item in Log(out).items():
        if isinstance(item, Begin):
            rank = item.rank
        elif isinstance(item, OrderedBy):
            found[rank] = item.key.commit_tso
    return found


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    """A log of which the first transactions are published."""
    out = tmp_path / "out"
    merge(CONFIG, tmp_path / "whole")
    tsos = tsos_of(tmp_path / "whole")
    merge(CONFIG, out, end_of_input=False, stop_tso=tsos[BEGUN + 1])
    binlog = Log(out)
    with DuckdbTarget(tmp_path / "shop.db", binlog.cluster_uuid, True) as target:
        load(binlog, target, history_of(out), ReplayOptions(last_rank=1))  # its tables were empty when it began
    with serving(out, tmp_path / "shop.db") as running:
        yield Growing(running, out, tsos)


def table_of(found: Debezium) -> tuple[Rows, int]:
    """Return the rows that whoever applies the records has, and how many came by a snapshot; each change must fit."""
    rows: Rows = {}
    read = 0
    for record in found.changes():
        op, before, after = record["op"], *(alike(record[image] or {}) for image in ("before", "after"))
        if op in ("u", "d"):
            assert rows.pop(before["id"]) == before, "a change does not follow what came before it"
        if op in ("c", "u", "r"):
            assert op == "r" or after["id"] not in rows, "a row comes twice"
            rows[after["id"]] = after
        read += op == "r"
    return rows, read


def until(found: Debezium, wanted: Rows) -> int:
    """Wait until the records make these rows; return how many came by a snapshot."""
    patience = Patience(120)
    while (made := table_of(found))[0] != wanted and patience.lasts():
        time.sleep(0.5)
    assert made[0] == wanted
    return made[1]


@pytest.mark.parametrize("mode", ["initial", "when_needed driver.useCursorFetch=true snapshot.fetch.size=10"])
def test_a_snapshot_and_all_that_follows(mode: str, growing: Growing, tmp_path: Path) -> None:
    mode, *more = mode.split()
    with debezium(growing.running, tmp_path / "d", mode, *more) as found:
        assert until(found, rows := growing.rows()) == len(rows) > 20
        growing.publish(BEFORE_DDL)
        until(found, growing.rows())
    growing.publish()
    with debezium(growing.running, tmp_path / "d", mode) as found:
        assert until(found, growing.rows()) == len(rows), "it goes on from its offsets, without another snapshot"
