"""`binlog-merge run` on real servers under load: whatever is killed, nothing is lost, and nothing is left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tools.demo_live.bank import NODES, Bank, configuration
from tools.demo_live.cluster import free_ports
from tools.demo_live.load import Load
from tools.demo_live.watch import replica_error, snapshot_of

pytestmark = [pytest.mark.mysql, pytest.mark.spark]

SECONDS = 240


class Run:
    """A `binlog-merge run` with its log as JSON."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder / f"run-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "binlog_merge.cli.main", "run", "--config", str(folder / "cluster.yaml")]
        command += ["--out", str(folder / "merged"), "--log-format", "json", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def lines(self) -> list[dict[str, Any]]:
        """Return the log; each complete line is an object."""
        whole, _, _ = self.log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def events(self, event: str, of: str) -> list[dict[str, Any]]:
        return [x["fields"] for x in self.lines() if x["event"] == event and x["fields"].get("of") == of]

    def pid(self, of: str) -> int:
        """Return the process of a component, once it runs."""
        until(lambda: len(self.events("started", of)) > len(self.events("ended", of)))
        return int(self.events("started", of)[-1]["pid"])

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process brings about."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextlib.contextmanager
def running(folder: Path, *options: str) -> Iterator[Run]:
    run = Run(folder, *options)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(MySqlServer(tmp_path / name, 101 + i)) for i, name in enumerate(NODES)}
        opened = Bank(list(servers.values()))
        opened.open()
        (tmp_path / "cluster.yaml").write_text(configuration(servers))
        yield opened


def follow(replica: MySqlServer, port: int) -> None:
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='rep', SOURCE_SSL=0, "
        "SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=100000; START REPLICA"
    )


def merged_once(folder: Path, out: str) -> dict[str, bytes]:
    """Merge what is captured, in one run, without Spark, and return the files."""
    merge(folder / "cluster.yaml", folder / out, end_of_input=False)
    return written(folder / out)


def served_port(run: Run) -> int:
    """Return the port of `serve`, which listens once a merge has begun."""
    found: list[int] = []

    def there() -> bool:
        words = [x["event"] for x in run.lines() if x["component"] == "serve" and " is served on " in x["event"]]
        found.extend(int(word.split(" is served on ")[1].split()[0].rpartition(":")[2]) for word in words[-1:])
        return bool(found)

    until(there)
    return found[-1]


def test_its_processes_are_killed_and_nothing_is_lost(bank: Bank, tmp_path: Path) -> None:
    """All at once, under load; every snapshot of a replica is right, and the files are those of one merge.

    Each on its own, many times: `tests.soak.test_killed_live`.
    """
    load, (port,) = Load(bank, 20), free_ports(1)
    with MySqlServer(tmp_path / "replica", 201) as replica, running(tmp_path, "--port", str(port)) as run:
        follow(replica, port)
        load.start()
        try:
            until(lambda: snapshot_of(replica, 0) is not None)
            names = ("capture", "merge", "serve")
            for name in names:
                os.kill(run.pid(name), signal.SIGKILL)
            until(lambda: all(len(run.events("started", name)) == 2 for name in names))
            done = load.done
            until(lambda: max((s.transfers if (s := _seen(replica)) else {0}), default=0) > done)
            load.stop()
            assert load.error is None
            until(lambda: _same(bank, replica))
            assert {e["code"] for name in names for e in run.events("ended", name)} == {-9}
            assert run.end() == 0
        finally:
            load.stop()
    assert merged_once(tmp_path, "merged") == merged_once(tmp_path, "at-once")


def _seen(replica: MySqlServer) -> Any:
    """Return a snapshot of the replica, which must be right."""
    assert replica_error(replica) is None
    seen = snapshot_of(replica, 0)
    assert seen is None or seen.wrong is None
    return seen


def _same(bank: Bank, replica: MySqlServer) -> bool:
    bank.heartbeat()
    return _seen(replica) is not None and replica.query("SELECT * FROM bank.accounts ORDER BY id") == bank.accounts()


# That what a supervisor started dies with it is test_supervisor's, and that the next goes on, the test above.
@pytest.mark.extended
def test_nothing_outlives_it_when_it_is_killed_and_the_next_goes_on(bank: Bank, tmp_path: Path) -> None:
    """Neither its processes nor Java, nor Spark's workers; a second `run` beside it is refused."""
    with running(tmp_path, "--port", "0", "--in-driver", "0") as run:
        served_port(run)
        until(lambda: any("java" in process.name() for process in _below(run)))
        everything = _below(run)
        second = Run(tmp_path)
        assert second.process.wait(SECONDS) == 25
        assert run.process.poll() is None
        run.process.kill()
        assert psutil.wait_procs(everything, SECONDS)[1] == []
    with running(tmp_path, "--port", "0") as again:
        served_port(again)
        assert again.end(signal.SIGINT) == 0


def _below(run: Run) -> list[psutil.Process]:
    return psutil.Process(run.process.pid).children(recursive=True)


@pytest.mark.extended  # that a code ends all: test_supervisor; that capture has it: tests/node_capture
def test_it_ends_with_the_code_that_no_restart_can_help(bank: Bank, tmp_path: Path) -> None:
    """Here capture's, of a server that is another than the configuration expects."""
    config = tmp_path / "cluster.yaml"
    other = "server-uuid: 00000000-0000-0000-0000-000000000001, source-id: dn-2"
    config.write_text(config.read_text().replace("source-id: dn-2", other))
    with running(tmp_path, "--no-serve") as run:
        assert run.process.wait(SECONDS) == 15
        (gave_up,) = run.events("gave up", "capture")
        assert gave_up["code"] == 15
        assert {x["component"] for x in run.lines()} >= {"run", "capture"}
