"""Two processes stand by for one output; they are killed, stopped, cut from the store, asked to hand over, and more.

Long: `STANDBY_FAULTS=200 SOAK_SEED=n python -m pytest -s -m soak tests/soak/test_standing_by.py`. It prints for how
long nothing new was published after each fault: of those that kill or stop the leader, p50 and p99.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from binlog_merge.errors import MergeError
from binlog_merge.files.lease_keeper import lease_objects
from binlog_merge.files.lease_seen import LeaseWatch, hand_over
from tests.merge_e2e.standing_by import Writing
from tests.object_store import Store
from tests.store_proxy import Mode, StoreProxy

pytestmark = [pytest.mark.soak, pytest.mark.heavy]

FAULTS = int(os.environ.get("STANDBY_FAULTS", "10"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
SECONDS = float(os.environ.get("STANDBY_LEASE", "3"))
ROOT = Path(__file__).resolve().parents[2]
OF_STORE = ("cut", "500", "503", "slow", "lost", "all cut")
KINDS = ("kill", "stop", "long stop", *OF_STORE, "cache", "hand over", "remove", "both")


class Process:
    """A host: a process that merges when it leads, and the store as it sees it."""

    def __init__(self, writing: Writing, name: str) -> None:
        self.writing, self.name = writing, name
        self.proxy = StoreProxy(writing.s3).__enter__()
        self.work = writing.folder / f"work-{name}"
        self.log = writing.folder / f"log-{name}"
        self.start()

    def start(self) -> None:
        place = self.writing.uri(self.proxy.address)
        command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "-c", str(self.writing.config)]
        command += ["--merged", place, "--stop-never", "--work", str(self.work), "--longest-pause", "1"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=subprocess.DEVNULL)
        self.holder = f"-{self.process.pid}-"

    def keep_running(self) -> None:
        """Start it again if it has ended, as `run` does; 25 is no reason to stay away."""
        code = self.process.poll()
        assert code in (None, 25, 49, 70, -signal.SIGKILL), self.log.read_text()[-3000:]
        if code is not None:
            self.start()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.proxy.__exit__()


def test_faults_leave_one_writer_and_the_bytes_of_one_merge(s3: Store, tmp_path: Path) -> None:
    rng, stalls = random.Random(SEED), list[tuple[str, float]]()
    story = 0
    while len(stalls) < FAULTS:
        story += 1
        folder = tmp_path / f"story-{story}"
        folder.mkdir()
        writing = Writing(s3, folder, SECONDS)
        writing.config.write_text(f"{writing.config.read_text()}\nha: {{lease: {SECONDS:g}s}}\n")
        hosts = [Process(writing, "a"), Process(writing, "b")]
        try:
            _story(writing, hosts, rng, stalls)
        finally:
            for host in hosts:
                host.end()
    _print(stalls)


def _story(writing: Writing, hosts: list[Process], rng: random.Random, stalls: list[tuple[str, float]]) -> None:
    def keep_running() -> None:
        for host in hosts:
            host.keep_running()

    watch = LeaseWatch(lease_objects(writing.uri(writing.s3.address), 10.0))
    writing.progress(meanwhile=keep_running)
    while writing.at < 330 and len(stalls) < FAULTS:
        until_both(watch, writing, keep_running)
        seen = watch.look()
        assert seen is not None
        leader = next((host for host in hosts if host.holder in seen.lease.holder), hosts[0])
        kind = rng.choice(KINDS)
        undo = _fault(kind, leader, hosts, writing, rng)
        print(f"{kind:10} of {leader.name}", end="", flush=True)
        try:
            took = writing.progress(meanwhile=partial(_meanwhile, undo, keep_running))
        finally:
            undo(True)
        print(f" {took:5.1f} s, at {writing.at}", flush=True)
        stalls.append((kind, took))
    end = time.monotonic() + 120
    writing.grow(400)
    while writing.published() != writing.good:
        keep_running()
        assert time.monotonic() < end
        time.sleep(0.2)


def _meanwhile(undo: Callable[[bool], None], keep_running: Callable[[], None]) -> None:
    undo(False)
    keep_running()


def until_both(watch: LeaseWatch, writing: Writing, keep_running: Callable[[], None]) -> None:
    """Wait until one leads and the other waits."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        keep_running()
        seen = watch.look()
        if seen is not None and seen.held and seen.standbys:
            return
        time.sleep(0.2)
    raise AssertionError(f"nobody waits: {watch.look()}")


def _fault(
    kind: str, leader: Process, hosts: list[Process], writing: Writing, rng: random.Random
) -> Callable[[bool], None]:
    """Do something, and return what ends it: when its time has come, or now."""
    begun, lasts = time.monotonic(), rng.choice((0.3, 1.0, 2.0)) * SECONDS
    of = hosts if kind in ("all cut", "both") else [leader]
    match kind:
        case "kill":
            leader.process.kill()
        case "stop" | "long stop":
            lasts = rng.uniform(1.5, 4) * SECONDS if kind == "long stop" else 0.5 * SECONDS
            leader.process.send_signal(signal.SIGSTOP)
        case "cache":
            shutil.rmtree(leader.work, ignore_errors=True)
        case "remove":
            lease_objects(leader.writing.uri(writing.s3.address), 10.0).delete(["lease.json"])
        case "hand over":
            try:
                hand_over(lease_objects(writing.uri(writing.s3.address), 10.0), None, 60)
            except MergeError as error:
                assert error.exit_code == 25, error
        case _ if kind == "both" or kind in OF_STORE:
            for host in of:
                host.proxy.mode = Mode(kind) if kind in list(Mode) else Mode.CUT
            if kind == "both":
                leader.process.kill()

    def undo(now: bool) -> None:
        if now or time.monotonic() - begun > lasts:
            leader.process.send_signal(signal.SIGCONT) if leader.process.poll() is None else None
            for host in of:
                host.proxy.mode = Mode.PASS

    return undo


def _print(stalls: list[tuple[str, float]]) -> None:
    def line(name: str, found: list[float]) -> str:
        at = sorted(found)
        return f"{name:12} {len(at):4}  p50 {at[len(at) // 2]:5.1f} s  p99 {at[int(len(at) * 0.99)]:5.1f} s"

    for kind in KINDS:
        if found := [took for each, took in stalls if each == kind]:
            print(line(kind, found))
    if dead := [took for each, took in stalls if each in ("kill", "long stop", "cut")]:
        print(line("deaths", dead))
    print(line("all", [took for _, took in stalls]))
