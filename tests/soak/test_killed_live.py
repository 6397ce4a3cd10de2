"""A running cluster's processes are killed again and again; output and replica are as if they had not been.

Long: `LIVE_KILLS=200 SOAK_SEED=n python -m pytest -m soak tests/soak/test_killed_live.py`.
"""

import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pymysql
import pytest

from binlog_merge.cli.run_commands import RunOptions, components
from tests.merge_e2e.local import merge, state_of, written
from tools.demo_live.cluster import LiveCluster
from tools.demo_live.load import Load
from tools.demo_live.watch import replica_error, snapshot_of
from tools.mysql_server import mysqlbinlog

KILLS = int(os.environ.get("LIVE_KILLS", "5"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
RATE = 40.0
DRAINED_WITHIN = 240.0


@dataclass
class Kept:
    """A command that is started at once whenever it has been killed, and its kills: at random moments, seeded."""

    name: str
    command: Sequence[str]
    log: Path
    longest: float
    kills: int
    rng: random.Random
    killed: int = 0
    ended: list[str] = field(default_factory=list)
    process: "subprocess.Popen[bytes] | None" = None

    def work(self, stopped: threading.Event) -> None:
        """Start, kill, and so on; then leave it running."""
        while not stopped.is_set():
            process = self._start()
            if self.killed < self.kills:
                left = time.monotonic() + self.rng.uniform(0, self.longest)
                while time.monotonic() < left and process.poll() is None:
                    time.sleep(0.002)
                if process.poll() is None:
                    process.kill()
                    self.killed += 1
            while process.poll() is None and (self.killed < self.kills or not stopped.is_set()):
                time.sleep(0.02)
            if process.poll() not in (None, -9):
                self.ended.append(f"{self.name} has ended with {process.returncode}")
                time.sleep(1)

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.process

    def stop(self) -> None:
        """End it as SIGTERM does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)


@dataclass
class Watch:
    """Reads the replica in consistent snapshots; `wrong` is what cannot be."""

    cluster: LiveCluster
    snapshots: int = 0
    wrong: list[str] = field(default_factory=list)

    def work(self, stopped: threading.Event) -> None:
        """Read until stopped."""
        while not stopped.wait(0.1):
            snapshot = snapshot_of(self.cluster.replica, time.monotonic())
            if snapshot is not None and snapshot.accounts:
                self.snapshots += 1
                self.wrong += [] if snapshot.wrong is None else [snapshot.wrong]
            error = replica_error(self.cluster.replica)
            if error is not None:
                self.wrong.append(error)
                return


@contextmanager
def threads(works: Sequence["Kept | Watch"]) -> Iterator[threading.Event]:
    """Let all work, each in a thread, until the context ends."""
    stopped = threading.Event()
    running = [threading.Thread(target=one.work, args=(stopped,), daemon=True) for one in works]
    for thread in running:
        thread.start()
    try:
        yield stopped
    finally:
        stopped.set()
        for one in works:
            if isinstance(one, Kept):
                one.stop()
        for thread in running:
            thread.join()


def _drained(cluster: LiveCluster) -> bool:
    """Wait until the replica has what the nodes have; a commit on each lets out what is held."""
    until = time.monotonic() + DRAINED_WITHIN
    while time.monotonic() < until:
        cluster.bank.heartbeat()
        with suppress(pymysql.err.MySQLError):
            if list(cluster.replica.query("SELECT * FROM bank.accounts ORDER BY id")) == cluster.bank.accounts():
                return True
        time.sleep(0.5)
    return False


def _as_one_merge(cluster: LiveCluster, folder: Path) -> None:
    """Compare the output with one merge of the captured files, and read it with mysqlbinlog."""
    out = cluster.home / "merged"
    merge(cluster.home / "cluster.yaml", folder / "one", end_of_input=False)
    assert written(out) == written(folder / "one")
    files = [out / file.name for file in state_of(out).files]
    assert mysqlbinlog(files, "--verify-binlog-checksum").count(b"\tXid = ") > 0
    executed = str(cluster.replica.query("SELECT @@global.gtid_executed")[0][0]).replace("\n", "").split(",")
    ours = [text for text in executed if text.split(":")[0] != cluster.replica.query("SELECT @@server_uuid")[0][0]]
    assert len(ours) == 1 and ours[0].count(":") == 1 and ours[0].split(":")[1].startswith("1-"), executed


@pytest.mark.soak
@pytest.mark.mysql
def test_capture_merge_and_serve_are_killed(tmp_path: Path) -> None:
    """Each on its own, capture and serve within two seconds of every start, two at the same moment too."""
    with ExitStack() as stack:
        cluster = stack.enter_context(LiveCluster.started(tmp_path / "live"))
        (cluster.home / "merged").mkdir()  # as `run` does
        options = RunOptions(cluster.home / "cluster.yaml", cluster.home / "merged", port=cluster.port)
        longest = {"capture": 2.0, "serve": 2.0, "merge": 30.0}
        kills = {"capture": KILLS, "serve": KILLS, "merge": max(1, KILLS // 10)}
        rng = lambda name: random.Random(f"{SEED} {name}")  # noqa: E731
        kept = [
            Kept(c.name, c.command, cluster.home / f"{c.name}.log", longest[c.name], kills[c.name], rng(c.name))
            for c in components(options)
        ]  # fmt: skip
        watch, load = Watch(cluster), Load(cluster.bank, RATE, local=0.0)
        with threads([*kept, watch]):
            cluster.follow()
            load.start()
            time.sleep(5)
            cluster.bank.add_note(0.5)
            while any(one.killed < one.kills for one in kept) and not watch.wrong and load.error is None:
                time.sleep(0.5)
            load.stop()
            assert load.error is None and not watch.wrong, (load.error, watch.wrong)
            assert _drained(cluster)
        print({one.name: one.killed for one in kept}, load.done, "transfers", watch.snapshots, "snapshots")
        assert not watch.wrong
        assert [text for one in kept for text in one.ended if not text.endswith(" 0")] == []
        assert watch.snapshots and b"Traceback" not in b"".join(one.log.read_bytes() for one in kept)
        _as_one_merge(cluster, tmp_path)


@pytest.mark.soak
@pytest.mark.mysql
def test_run_is_killed(tmp_path: Path) -> None:
    """The supervisor: what it has started ends with it, and it can be started again at once."""
    rng, killed = random.Random(f"{SEED} run"), 0
    with ExitStack() as stack:
        cluster = stack.enter_context(LiveCluster.started(tmp_path / "live"))
        watch, load = Watch(cluster), Load(cluster.bank, RATE, local=0.0)
        log = cluster.home / "all.log"
        with threads([watch]):
            cluster.follow()
            load.start()
            while killed < KILLS and not watch.wrong and load.error is None:
                with cluster.running() as process:
                    time.sleep(rng.uniform(0, 2) if rng.random() < 0.9 else rng.uniform(10, 40))
                    children = psutil.Process(process.pid).children(recursive=True)
                    process.kill()
                    process.wait()
                    killed += 1
                    _, alive = psutil.wait_procs(children, 10)
                    assert not alive, [child.cmdline() for child in alive]
                with log.open("ab") as file:
                    file.write(cluster.log.read_bytes())
            load.stop()
            assert load.error is None and not watch.wrong, (load.error, watch.wrong)
            with cluster.running():
                assert _drained(cluster)
        print({"run": killed}, load.done, "transfers", watch.snapshots, "snapshots")
        assert not watch.wrong and watch.snapshots and b"Traceback" not in log.read_bytes()
        _as_one_merge(cluster, tmp_path)
