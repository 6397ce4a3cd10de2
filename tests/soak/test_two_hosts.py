"""Two hosts of one configuration, on machines of a network of their own: they die, stand still, are cut off, fill up.

Long: `TWO_HOSTS_FAULTS=100 TWO_HOSTS_LEASE=10 SOAK_SEED=n python -m pytest -s -m soak tests/soak/test_two_hosts.py`;
with VERSITYGW=PROGRAM the store is that one, else moto's; TWO_HOSTS_KINDS=kill,power for these alone, and no fault
begins after TWO_HOSTS_SECONDS. It prints for how long nothing new was published after each fault, and nothing new was
in the replica.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from binlog_merge.errors import MergeError
from binlog_merge.files.lease_keeper import lease_objects
from binlog_merge.files.lease_seen import hand_over
from binlog_merge.files.remote_log import opened_log
from tests.soak.compare import drained, gtids, sums
from tests.soak.faulty import Watch
from tests.soak.host_pair import Changing, Host, Pair, follow, pair
from tests.soak.network import lacking, network
from tests.store_proxy import Mode
from tools.demo_live.load import Load

SECONDS = float(os.environ.get("TWO_HOSTS_SECONDS", "inf"))
FAULTS = int(os.environ.get("TWO_HOSTS_FAULTS", "12"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
LEASE = float(os.environ.get("TWO_HOSTS_LEASE", "3"))
RATE = float(os.environ.get("TWO_HOSTS_RATE", "12"))
PATIENCE = 240.0
WAITED = 5.0
"""For so long a host has waited before it is to take over as planned."""

DEATHS = ("kill", "power")
OF_STORE = {"500": Mode.E500, "503": Mode.E503, "slow": Mode.SLOW, "lost": Mode.LOST}
ONE = (
    *DEATHS,
    "merge dies",
    "stop",
    "long stop",
    "store cut",
    "half open",
    "nodes cut",
    "disk full",
    "cache",
    *OF_STORE,
)
GIVEN_UP = {"nodes gone": "nodes cut", "disk gone": "disk full"}
"""Faults that last until the leader has given up by itself, and what they are."""
KINDS = (*ONE, *GIVEN_UP, "all 503", "all store cut", "standby dies", "both die", "two at once", "hand over")
CHOSEN = tuple(filter(None, os.environ.get("TWO_HOSTS_KINDS", "").split(","))) or KINDS

Undo = Callable[[], None]


@pytest.mark.soak
@pytest.mark.mysql
@pytest.mark.spark
def test_two_hosts(tmp_path: Path) -> None:
    if why := lacking():
        pytest.skip(why)
    with network() as net, pair(net, tmp_path, LEASE) as found, found.progress:
        Story(found).tell()


class Story:
    """Faults that befall a pair, one after the other, and what must hold after each."""

    def __init__(self, found: Pair) -> None:
        self.pair = found
        self.rng = random.Random(SEED)
        self.snapshots = Watch(found.replica)
        self.load, self.changing = Load(found.bank, RATE), Changing(found.bank, 2.0)
        self.stalls: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def tell(self) -> None:
        found = self.pair
        first, second = found.hosts
        first.start()
        follow(found.replica, "192.0.2.100")
        with self.snapshots.watching():
            self._until(lambda: found.progress.rank > 0 and self.snapshots.snapshots, "a snapshot of the replica")
            second.start(standby=True)
            self.load.start()
            self.changing.start()
            try:
                self._until(self._settled, "one that leads and one that waits")
                self._faults()
            finally:
                self._print()
            self.changing.stop()
            self.load.stop()
            drained(found.bank, found.replica, self._check)
        print(
            f"{self.load.done} transfers, {self.load.given_up} given up; {self.snapshots.snapshots} snapshots; ", end=""
        )
        print(f"{found.bank.altered} columns, {found.bank.renamed} tables; epochs to {found.progress.epochs[-1]}")
        assert self.snapshots.snapshots
        print(self._as_one_merge())
        self._check()
        assert [host.end() for host in found.hosts[::-1]] == [0, 0]

    def _faults(self) -> None:
        done, kinds, end = 0, list[str](), time.monotonic() + SECONDS
        while done < FAULTS and time.monotonic() < end:
            kinds = kinds or self.rng.sample(CHOSEN, len(CHOSEN))
            kind = kinds.pop()
            leader = self.pair.leader()
            if leader is None:
                self._until(self._settled, "one that leads and one that waits")
                continue
            self._fault(kind, leader)
            done += 1

    def _fault(self, kind: str, leader: Host) -> None:
        found = self.pair
        if kind == "hand over":
            time.sleep(WAITED)
        begun = time.monotonic()
        print(f"{done_at()} {kind:13} {leader.name}, epoch {found.progress.epochs[-1]:3}", end="", flush=True)
        seconds = self._seconds(kind)
        undo = self._befall(kind, leader)
        try:
            while time.monotonic() - begun < seconds:
                self._check()
                time.sleep(0.1)
        finally:
            undo()
        undone, rank = time.monotonic(), found.progress.rank
        for host in found.hosts:
            if host.ended == -signal.SIGKILL:
                host.start()
        self._until(lambda: found.progress.rank > rank and self._settled(), f"the end of {kind}")
        log = found.progress.gap(begun, found.progress.published)
        readers = found.progress.gap(begun, found.progress.applied)
        self.stalls[kind].append((log, readers))
        whole = time.monotonic() - undone
        print(f"  {seconds:4.1f} s  log {log:5.1f} s  replica {readers:5.1f} s  whole again {whole:5.1f} s", flush=True)

    def _seconds(self, kind: str) -> float:
        """Return for how long a fault lasts."""
        match kind:
            case "kill" | "power" | "standby dies" | "both die":
                return self.rng.uniform(0.0, 2.0) * LEASE if kind != "both die" else 0.5
            case "long stop":
                return max(5.0, min(60.0, self.rng.uniform(1.5, 6.0) * LEASE))
            case "stop":
                return self.rng.uniform(0.2, 0.7) * LEASE
            case "hand over" | "merge dies" | "cache" | "nodes gone" | "disk gone":
                return 0.0
        return self.rng.choice((0.3, 1.0, 2.0, 3.0)) * LEASE

    def _befall(self, kind: str, leader: Host) -> Undo:
        found = self.pair
        other = next(host for host in found.hosts if host is not leader)
        match kind:
            case "kill":
                leader.kill()
                return lambda: None
            case "power":
                leader.machine.unplug()
                leader.kill()
                leader.lose_disk(all_of_it=self.rng.random() < 0.5)
                return leader.machine.connect
            case "standby dies":
                return self._befall(self.rng.choice(DEATHS), other)
            case "both die":
                return _all(self._befall("kill", leader), self._befall("kill", other))
            case "merge dies":
                for pid in leader.children("merge"):
                    os.kill(pid, signal.SIGKILL)
                return lambda: None
            case "stop" | "long stop":
                leader.machine.signal(signal.SIGSTOP)
                return lambda: leader.machine.signal(signal.SIGCONT)
            case "store cut" | "half open":
                leader.machine.cut_from(found.store_address, answers_only=kind == "half open")
                return leader.machine.connect
            case "nodes cut":
                leader.machine.cut_from(*found.node_addresses)
                return leader.machine.connect
            case "disk full":
                leader.fill()
                return leader.free
            case "nodes gone" | "disk gone":
                undo = self._befall(GIVEN_UP[kind], leader)
                self._until(lambda: found.leader() is other, f"another leader where {kind}")
                return undo
            case "cache":
                leader.lose_disk(all_of_it=False)
                return lambda: None
            case "all 503":
                return _all(*(self._mode(host, Mode.E503) for host in found.hosts))
            case "all store cut":
                return _all(*(self._mode(host, Mode.CUT) for host in found.hosts))
            case "two at once":
                kinds = self.rng.sample([each for each in ONE if each not in DEATHS], 2)
                print(f" ({', '.join(kinds)})", end="", flush=True)
                return _all(self._befall(kinds[0], leader), self._befall(kinds[1], self.rng.choice(found.hosts)))
            case "hand over":
                with suppress(MergeError):
                    took = hand_over(lease_objects(found.uri, 10.0), None, 60)
                    print(f" ({took.seconds:.1f} s)", end="", flush=True)
                return lambda: None
        return self._mode(leader, OF_STORE[kind])

    def _mode(self, host: Host, mode: Mode) -> Undo:
        self.pair.set_mode(host, mode)
        return lambda: self.pair.set_mode(host, Mode.PASS)

    def _settled(self) -> bool:
        seen = self.pair.look()
        return seen is not None and seen.held and bool(seen.standbys)

    def _until(self, reached: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not reached():
            self._check()
            if time.monotonic() > end:
                logs = "\n".join(f"{host.name}: {host.log.read_text()[-4000:]}" for host in self.pair.hosts)
                raise AssertionError(f"{PATIENCE:.0f} s without {what}: {self.pair.look()}\n{logs}")
            time.sleep(0.1)

    def _check(self) -> None:
        """Raise what has gone wrong so far."""
        self.snapshots.check()
        for part in (self.load, self.changing, self.pair.progress):
            if part.error is not None:
                raise AssertionError(f"{type(part).__name__}: {part.error!r}") from part.error
        self.pair.audit.check()
        self.pair.keep_running()

    def _as_one_merge(self) -> str:
        """Compare the log with what one merge makes of the nodes' own files."""
        config, folder = self.pair.hosts[0].home / "cluster.yaml", self.pair.folder
        own = folder / "once.yaml"
        own.write_text(config.read_text().partition("output:")[0] + "output: {max-size: 400KB}\n")
        for words in (
            ("capture", "--config", str(own), "--whole", "--out", str(folder / "captured")),
            ("merge", "--config", str(own), "--out", str(folder / "once")),
        ):
            command = [sys.executable, "-m", "binlog_merge.cli.main", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
            assert done.returncode == 0, done.stderr
        once, end = sums(folder / "once"), time.monotonic() + PATIENCE
        while (published := self._published()) != once:
            self._check()
            assert time.monotonic() < end, f"{published} is not {once}"
            time.sleep(0.5)
        numbers = [number for _, number in gtids(folder / "once")]
        assert numbers == list(range(1, len(numbers) + 1))
        return f"{len(once)} files, {len(numbers)} transactions, the bytes of one merge"

    def _published(self) -> dict[str, str]:
        fetched = self.pair.folder / "fetched"
        fetched.mkdir(exist_ok=True)
        with opened_log(self.pair.uri, awaited=True) as log:
            log.refresh()
            for file in log.state().files:
                (fetched / file.name).write_bytes(log.path(file).read_bytes())
        return sums(fetched)

    def _print(self) -> None:
        print()
        deaths = [stall for kind in ("kill", "power", "long stop", "store cut") for stall in self.stalls[kind]]
        for kind, found in (*self.stalls.items(), ("deaths", deaths)):
            if found:
                log, readers = (sorted(values) for values in zip(*found, strict=True))
                of = lambda values, part: values[min(len(values) - 1, int(part * len(values)))]  # noqa: E731
                print(
                    f"{kind:13} {len(found):4}  log p50 {of(log, 0.5):5.1f} p99 {of(log, 0.99):5.1f} s"
                    f"  replica p50 {of(readers, 0.5):5.1f} p99 {of(readers, 0.99):5.1f} s"
                )


def done_at() -> str:
    return time.strftime("%H:%M:%S")


def _all(*undo: Undo) -> Undo:
    def every() -> None:
        for each in undo:
            each()

    return every
