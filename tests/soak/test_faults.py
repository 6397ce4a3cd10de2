"""Servers are restarted, killed, rotated and purged, connections cut, a replica promoted: no row is lost or doubled.

Long: `FAULTS_SECONDS=1200 SOAK_SEED=n python -m pytest -s -m soak tests/soak/test_faults.py`.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pymysql
import pytest

from tests.capture.pairs import kill
from tests.merge_e2e.local import merge, state_of, written
from tests.soak.faulty import FaultyCluster, Watch, started
from tests.soak.sturdy_bank import TABLES
from tools.demo_live.bank import NODES
from tools.demo_live.load import Load
from tools.mysql_server import MySqlServer, mysqlbinlog

SECONDS = float(os.environ.get("FAULTS_SECONDS", "120"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
RATE = 40.0
DRAINED_WITHIN = 240.0


class Faults:
    """What befalls a system, and how often it has."""

    def __init__(self, cluster: FaultyCluster, rng: random.Random) -> None:
        self._cluster, self._rng = cluster, rng
        self.done: Counter[str] = Counter()
        self._every: list[tuple[str, Callable[[], object]]] = [
            *((f"restart {name}", lambda i=i: self._server(i).restart()) for i, name in enumerate((*NODES, "replica"))),
            *((f"kill {name}", lambda i=i: self._kill(i)) for i, name in enumerate((*NODES, "replica"))),
            *((f"flush {name}", lambda i=i: self._flush(i)) for i, name in enumerate(NODES)),
            *((f"flush and purge {name}", lambda i=i: self._purge(i)) for i, name in enumerate(NODES)),
            ("cut all", lambda: sum(proxy.cut_all() for proxy in cluster.proxies)),
            ("cut all", lambda: sum(proxy.cut_all() for proxy in cluster.proxies)),
            ("DDL twice", lambda: cluster.bank.alter(0.5)),
        ]

    def some(self, seconds: float, check: Callable[[], None]) -> None:
        """Let all kinds of faults befall it, in a new order each time, as long as there is time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for kind, befall in self._rng.sample(self._every, len(self._every)):
                time.sleep(self._rng.uniform(0, 2))
                if befall() is not False:
                    self.done[kind] += 1
                check()
                if time.monotonic() > end:
                    return

    def _server(self, index: int) -> MySqlServer:
        return [*self._cluster.bank.servers, self._cluster.live.replica][index]

    def _kill(self, index: int) -> None:
        kill(self._server(index))
        time.sleep(self._rng.uniform(0, 1))
        self._server(index).restart()

    def _flush(self, node: int) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self._server(node).execute("FLUSH BINARY LOGS")

    def _purge(self, node: int) -> bool:
        """Remove what the capture has passed, waiting some seconds for it to pass anything."""
        self._flush(node)
        for _ in range(50):
            if self._cluster.purge(node):
                return True
            time.sleep(0.1)
        return False


@pytest.mark.soak
@pytest.mark.mysql
@pytest.mark.spark
def test_faults(tmp_path: Path) -> None:
    with started(tmp_path, SEED) as cluster:
        watch, load = Watch(cluster.live.replica), Load(cluster.bank, RATE)
        faults = Faults(cluster, random.Random(f"{SEED} faults"))
        with cluster.live.running() as process, watch.watching():
            check = lambda: _check(cluster, process, watch, load)  # noqa: E731
            load.start()
            while not watch.snapshots:  # a merge that starts for the first time compiles
                check()
                time.sleep(0.5)
            faults.some(SECONDS * 0.75, check)
            said = cluster.fail_over()
            faults.some(SECONDS * 0.25, check)
            load.stop()
            _drained(cluster, check, load)
            for proxy in cluster.proxies:
                proxy.cutting = False
            _settled(cluster)
            check()
        cuts = sum((proxy.cuts for proxy in cluster.proxies), Counter[str]())
        print(f"\nseed {SEED}: {dict(sorted(faults.done.items()))}, cut {dict(cuts)}; {said}")
        print(f"{load.done} transfers, {load.given_up} given up or in doubt; {watch.snapshots} snapshots")
        assert watch.snapshots and process.returncode == 0 and "Traceback" not in cluster.log()
        _as_one_merge(cluster, tmp_path)


def _check(cluster: FaultyCluster, process: "Popen[bytes]", watch: Watch, load: Load) -> None:
    """Raise what has gone wrong so far."""
    watch.check()
    assert load.error is None, repr(load.error)
    assert process.poll() is None, f"`run` has ended with {process.returncode}: {cluster.log()[-3000:]}"


def _drained(cluster: FaultyCluster, check: Callable[[], None], load: Load) -> None:
    """Wait until the replica has every row that the nodes have, and no other."""
    bank, end = cluster.bank, time.monotonic() + DRAINED_WITHIN
    assert [server.prepared_branches() for server in bank.servers] == [[], [], []]
    wanted = {table: _rows_of(bank.servers, table) for table in TABLES}
    lost = bank.committed - {int(row[0]) for row in wanted["ledger"]}
    assert not lost, f"the servers themselves have lost {sorted(lost)[:9]}"
    while True:
        bank.heartbeat()
        check()
        found = {table: _rows_there(cluster.live.replica, table) for table in wanted}
        if found == wanted:
            return
        differ = {table: len(set(found[table]) ^ set(wanted[table])) for table in wanted}
        assert time.monotonic() < end, f"rows that differ, {DRAINED_WITHIN:.0f} s after the load: {differ}"
        time.sleep(0.5)


def _rows_of(servers: list[MySqlServer], table: str) -> list[tuple[Any, ...]]:
    return sorted(
        row for i, server in enumerate(servers) for row in server.query(f"SELECT * FROM bank_{i}.{table}_{i}")
    )


def _rows_there(replica: MySqlServer, table: str) -> list[tuple[Any, ...]]:
    try:
        return sorted(replica.query(f"SELECT * FROM bank.{table}"))
    except pymysql.err.MySQLError as error:
        assert error.args[0] in (1049, 1146), error
        return []


def _settled(cluster: FaultyCluster) -> None:
    """Wait until nothing more is captured or merged."""
    same, before = 0, {}
    while same < 8:
        folders = (cluster.live.home / "captured", cluster.merged)
        sizes = {path: path.stat().st_size for folder in folders for path in folder.rglob("*binlog.0*")}
        same, before = (same + 1 if sizes == before else 0), sizes
        time.sleep(0.5)


def _as_one_merge(cluster: FaultyCluster, folder: Path) -> None:
    """Compare the output with one merge of the captured files, and read it with mysqlbinlog."""
    one = merge(cluster.config, folder / "one", end_of_input=False)
    assert written(cluster.merged) == written(folder / "one")
    files = [cluster.merged / file.name for file in state_of(cluster.merged).files]
    assert mysqlbinlog(files, "--verify-binlog-checksum").count(b"\tXid = ") > 0
    replica = cluster.live.replica
    executed = str(replica.query("SELECT @@global.gtid_executed")[0][0]).replace("\n", "").split(",")
    ours = [text for text in executed if text.split(":")[0] != replica.query("SELECT @@server_uuid")[0][0]]
    assert len(ours) == 1 and ours[0].count(":") == 1 and ours[0].split(":")[1].startswith("1-"), executed
    print(f"{len(files)} files, {one.transactions} transactions")
