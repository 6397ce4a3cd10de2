"""`make demo-live`: it shows what it promises, and it fails where a replica shows what cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mysql_server import ROOT, MySqlServer
from tools.demo_live.bank import ACCOUNTS, BALANCE, NODES, TOTAL
from tools.demo_live.watch import Snapshot, percentile, snapshot_of

COLUMNS = ("id", "balance", "transfer")


def _snapshot(accounts: int, total: int, transfers: frozenset[int] = frozenset(), at: float = 10) -> Snapshot:
    return Snapshot(at, accounts, total, COLUMNS, transfers)


def test_only_the_whole_bank_with_all_its_money_is_right() -> None:
    every = ACCOUNTS * len(NODES)
    assert _snapshot(every, TOTAL).wrong is None
    assert _snapshot(0, 0).wrong is None  # before the accounts have come
    assert "the total is 300,001, should be 300,000" in str(_snapshot(every, TOTAL + 1).wrong)
    assert "299 accounts" in str(_snapshot(every - 1, TOTAL).wrong)


def test_the_lag_is_the_age_of_the_newest_transfer() -> None:
    committed = {1: 4.0, 2: 9.5, 3: 7.0}
    assert _snapshot(1, 1, frozenset({1, 3})).lag(committed.get) == 3
    assert _snapshot(1, 1, frozenset({1, 2, 99})).lag(committed.get) == 0.5
    assert _snapshot(1, 1, frozenset({99})).lag(committed.get) is None
    assert _snapshot(1, 1, frozenset({2}), at=9).lag(committed.get) == 0


def test_percentiles() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([3.0], 0.99)) == (51, 100, 3)


@pytest.mark.mysql
def test_a_snapshot_of_a_server(mysql_server: MySqlServer) -> None:
    assert snapshot_of(mysql_server, 1) is None
    mysql_server.execute(
        "CREATE DATABASE bank; CREATE TABLE bank.accounts (id INT PRIMARY KEY, balance BIGINT, note TEXT, transfer INT)"
    )
    rows = ", ".join(f"({i}, {BALANCE}, NULL, {i % 3})" for i in range(ACCOUNTS * len(NODES)))
    mysql_server.execute(f"INSERT INTO bank.accounts VALUES {rows}")
    seen = snapshot_of(mysql_server, 1)
    assert seen == Snapshot(1, ACCOUNTS * len(NODES), TOTAL, ("id", "balance", "note", "transfer"), frozenset({1, 2}))
    mysql_server.execute("UPDATE bank.accounts SET balance = balance - 1 WHERE id = 7")
    seen = snapshot_of(mysql_server, 1)
    assert seen is not None and "299,999" in str(seen.wrong)


# The bank under load, a replica whose totals are right, and `run` are cli/test_run_live's.
@pytest.mark.extended
@pytest.mark.mysql
@pytest.mark.spark
def test_the_demo(tmp_path: Path) -> None:
    """A short one; its exit code says that all totals and, in the end, all accounts are right."""
    environment = {**os.environ, "DEMO_DIR": str(tmp_path), "DEMO_SECONDS": "6", "DEMO_RATE": "20"}
    command = [sys.executable, "-m", "tools.demo_live"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ("status   http://127.0.0.1:", "total 300,000", "ALTER TABLE", "has the new column", "median"):
        assert shown in done.stdout, done.stdout
