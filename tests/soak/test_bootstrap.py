"""The bank under load and DDL into DuckDB and MySQL, killed at random moments: equal at the end, its total right.

Long: `BOOTSTRAP_KILLS=50 SOAK_SEED=n python -m pytest -s -m soak tests/soak/test_bootstrap.py`.
"""

import os
import random
import threading
from pathlib import Path

import pytest

from binlog_merge.log.log import Log
from binlog_merge.targets.server.mysql import MysqlTarget
from snapshot_store.server import ServerAddress
from tests.bootstrap.running import RunningBank, running
from tests.bootstrap.test_bank import file_is_right_at_positions, server_is_right_at_every_position, verify_judges
from tests.soak.sturdy_bank import TABLES
from tools.demo_live.load import Load
from tools.mysql_server import MySqlServer

pytestmark = [pytest.mark.soak, pytest.mark.mysql]

KILLS = int(os.environ.get("BOOTSTRAP_KILLS", "10"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
RATE = float(os.environ.get("LIVE_RATE", "40"))


def test_a_bootstrap_is_killed_and_goes_on(tmp_path: Path) -> None:
    rng, file = random.Random(SEED), tmp_path / "bank.db"
    with (
        running(tmp_path, past=3000) as bank,
        bank.beating(),
        MySqlServer(tmp_path / "target", 301, binlog=False) as server,
    ):
        url, load = f"mysql://root@localhost/?socket={server.socket}", Load(bank.bank, RATE)
        load.start()
        try:
            kills = {to: _killed(bank, to, rng) for to in (f"duckdb://{file}", url)}
            results = [bank.bootstrap(to) for to in kills]
        finally:
            load.stop()
        assert load.error is None, repr(load.error)
        wanted = {table: bank.rows(table) for table in TABLES}
        bank.drained()
        target = MysqlTarget(ServerAddress.parse(url), Log(bank.merged).cluster_uuid)
        file_is_right_at_positions(bank, file, _rank(results[0]), wanted)
        server_is_right_at_every_position(bank, server, target, _rank(results[1]), wanted)
        verify_judges(bank, target, file)
        bank.check()
        print(f"\nseed {SEED}: killed {list(kills.values())} times, {bank.bank.altered} DDL, {load.done} transfers")


def _rank(result: object) -> int:
    assert isinstance(result, dict)
    return int(result["rank"])


def _killed(bank: RunningBank, to: str, rng: random.Random) -> int:
    """Kill a bootstrap at random moments, while the accounts are altered; return how often it was killed."""
    stopped = threading.Event()

    def alter() -> None:
        while not stopped.wait(rng.uniform(1, 4)):
            bank.bank.alter(0.2)

    altering = threading.Thread(target=alter, daemon=True)
    altering.start()
    killed = 0
    try:
        for _ in range(KILLS):
            killed += bank.killed_after(to, rng.uniform(0.5, 3))
    finally:
        stopped.set()
        altering.join()
    return killed
