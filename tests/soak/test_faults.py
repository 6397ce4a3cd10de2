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

import pytest

from tests.node_capture.pairs import kill
from tests.soak.compare import as_one_merge, drained
from tests.soak.faulty import FaultyCluster, Watch, started
from tools.demo_live.bank import NODES
from tools.demo_live.load import Load
from tools.mysql_server import MySqlServer

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
            drained(cluster.bank, cluster.live.replica, check)
            for proxy in cluster.proxies:
                proxy.cutting = False
            _settled(cluster)
            check()
        cuts = sum((proxy.cuts for proxy in cluster.proxies), Counter[str]())
        print(f"\nseed {SEED}: {dict(sorted(faults.done.items()))}, cut {dict(cuts)}; {said}")
        print(f"{load.done} transfers, {load.given_up} given up or in doubt; {watch.snapshots} snapshots")
        assert watch.snapshots and process.returncode == 0 and "Traceback" not in cluster.log()
        print(as_one_merge(cluster.live))


def _check(cluster: FaultyCluster, process: "Popen[bytes]", watch: Watch, load: Load) -> None:
    """Raise what has gone wrong so far."""
    watch.check()
    assert load.error is None, repr(load.error)
    assert process.poll() is None, f"`run` has ended with {process.returncode}: {cluster.log()[-3000:]}"


def _settled(cluster: FaultyCluster) -> None:
    """Wait until nothing more is captured or merged."""
    same, before = 0, {}
    while same < 8:
        folders = (cluster.live.home / "captured", cluster.merged)
        sizes = {path: path.stat().st_size for folder in folders for path in folder.rglob("*binlog.0*")}
        same, before = (same + 1 if sizes == before else 0), sizes
        time.sleep(0.5)
