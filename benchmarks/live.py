"""How late a replica of the global binlog is, and what that takes, beside a replica of the nodes themselves.

    python -m benchmarks.live [--seconds 60] [--rate 200] [--volume 10] [--rest 30] [--out build/bench]

In the phase of volume, documents fill the log, and `VOLUME_RATE` distributed transactions a second show how late it is.

Real servers (three nodes, a replica of what `run` serves, and beside it one that replicates from the nodes, a channel
each, so that it takes the same rows), the load and all of ours share this machine. The lag of a transaction is the
time from the end of its COMMIT to the first read of the replica that shows it; the replicas are read in turn, so each
lag is up to one look too great, and `look_ms` says how much.

Where the time goes is taken from Little's law: the mean of what lies between two places, divided by what passes them
in a second, is the mean time that it takes from one to the other.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pymysql

from benchmarks.measure import MIB, is_jvm
from tools.demo_live.bank import NODES, Bank
from tools.demo_live.bank import run as run_sql
from tools.demo_live.cluster import LiveCluster, follow, free_ports
from tools.demo_live.load import Load
from tools.demo_live.watch import percentile, replica_error
from tools.mysql_server import MySqlServer

TARGETS = {"steady_p50": 0.3, "steady_p99": 0.8, "ddl_p99": 1.5, "volume_p99": 1.5, "rest_cores": 0.01}
LOOK = 0.02
SAMPLE = 0.25
VOLUME_RATE = 20
DOCUMENT = 100_000
DOCUMENTS = "(id BIGINT PRIMARY KEY, body LONGBLOB NOT NULL)"
OPTIONS = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--binlog-expire-logs-seconds=0")


@dataclass
class Looks:
    """Reads a replica's accounts again and again; remembers when each transfer was first seen there."""

    server: MySqlServer
    table: str
    load: Load
    seen: dict[int, float] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)
    error: BaseException | None = None

    def look(self, session: "pymysql.Connection[Any]") -> None:
        """Read once. The moment that counts is the one before the read."""
        begun = time.monotonic()
        with session.cursor() as cursor:
            cursor.execute(f"SELECT DISTINCT transfer FROM {self.table}")
            for (number,) in cursor.fetchall():
                self.seen.setdefault(int(number), begun)
        self.looks.append(time.monotonic() - begun)

    def lags(self, since: float, until: float) -> list[float]:
        """Return the lags of the transfers that were committed in a span of time and seen."""
        found = []
        for number, seen in list(self.seen.items()):
            committed = self.load.committed_at(number)
            if committed is not None and since <= committed < until:
                found.append(max(0.0, seen - committed))
        return found


@contextlib.contextmanager
def looking(many: Sequence[Looks], each: float = LOOK) -> "Iterator[None]":
    """Read all replicas in turn, after so many seconds each time, while the context lasts."""
    ended = threading.Event()

    def work() -> None:
        sessions = [looks.server.connect() for looks in many]
        while not ended.wait(each):
            for looks, session in zip(many, sessions, strict=True):
                with contextlib.suppress(pymysql.err.OperationalError):  # a definition that has just changed
                    looks.look(session)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True)
class Sample:
    """Bytes so far: written by the nodes, captured; published, and applied by the replica. `unread` are captured, and
    not read by the merge.
    """

    written: int
    captured: int
    unread: int
    published: int
    applied: int


class Places:
    """Samples how far everything is."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self.samples: list[Sample] = []

    def sample(self) -> None:
        """Take one sample."""
        applied = _replica_position(self._cluster.replica)
        status = _status(self._cluster.page)  # its look at the files is up to a second old
        written = sum(_position(s.query("SHOW BINARY LOG STATUS")[0]) for s in self._cluster.bank.servers)
        unread = sum(node["unread_bytes"] for node in status["nodes"].values())
        end = status["log"]["end"]
        published = _position((end["file"], end["position"]))
        self.samples.append(Sample(written, self._captured(), unread, published, applied))

    def _captured(self) -> int:
        found = 0
        for folder in (self._cluster.home / "captured").iterdir():
            last = max(folder.glob("binlog.0*"))
            found += _position((last.name, last.stat().st_size))
        return found

    def seconds(self, begun: Sample, seconds: float) -> dict[str, float]:
        """Return the mean time between places, of what was written in a span of `seconds` that began at a sample."""
        later = self.samples[self.samples.index(begun) + 1 :]
        into = max(1.0, (later[-1].written - begun.written) / seconds)
        out = max(1.0, (later[-1].published - begun.published) / seconds)
        return {
            "capture": round(statistics.mean(s.written - s.captured for s in later) / into, 3),
            "merge": round(statistics.mean(s.unread for s in later) / into, 3),
            "serve_and_apply": round(statistics.mean(s.published - s.applied for s in later) / out, 3),
        }


def _position(row: Sequence[Any]) -> int:
    """Return a position in a log as one number; files are 1 GB at most here."""
    name, offset = str(row[0]), int(row[1])
    return int(name.rsplit(".", 1)[1]) * (1 << 30) + offset


def _replica_position(server: MySqlServer) -> int:
    session = server.connect()
    try:
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            row = cursor.fetchone() or {}
        return _position((row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"]))
    finally:
        session.close()


def _status(page: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{page}/status.json", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


class Processes:
    """The processes of `run`: their CPU seconds and what they hold."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def cpu(self) -> float:
        """Return the CPU seconds so far, of those that have ended too."""
        total = 0.0
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def rss_mib(self) -> dict[str, int]:
        """Return the resident memory of the JVM and of all Python processes."""
        found = {"jvm": 0, "python": 0}
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                found["jvm" if is_jvm(process) else "python"] += process.memory_info().rss
        return {name: size // MIB for name, size in found.items()}

    def _all(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]


@dataclass
class Live:
    """The running system while it is measured."""

    cluster: LiveCluster
    processes: Processes
    load: Load
    ours: Looks
    plain: Looks
    memory: list[dict[str, int]] = field(default_factory=list)

    def phase(self, seconds: float) -> dict[str, Any]:
        """Let the load run on for some seconds; return the lags of what was committed in them."""
        places = Places(self.cluster)
        begun, cpu, done = time.monotonic(), self.processes.cpu(), self.load.done
        places.sample()
        while time.monotonic() < begun + seconds:
            time.sleep(SAMPLE)
            places.sample()
            self._check()
        ended = time.monotonic()
        found = {
            "transactions_per_s": round((self.load.done - done) / (ended - begun), 1),
            "mb_per_s": round((places.samples[-1].written - places.samples[0].written) / (ended - begun) / 1e6, 2),
            "cores": round((self.processes.cpu() - cpu) / (ended - begun), 2),
            "rss_mib": self.processes.rss_mib(),
            "seconds_in": places.seconds(places.samples[0], ended - begun),
        }
        self._arrive()
        return {
            **found,
            "ours": _lags(self.ours, begun, ended),
            "ours_halves": [_lags(self.ours, a, b)["p50"] for a, b in _halves(begun, ended)],
            "plain": _lags(self.plain, begun, ended),
        }

    def _arrive(self) -> None:
        """Wait until what has been committed is in the replica."""
        last, end = self.load.done, time.monotonic() + 120
        while max(self.ours.seen, default=0) < last and time.monotonic() < end:
            time.sleep(LOOK)

    def _check(self) -> None:
        if self.load.error is not None:
            raise RuntimeError("the load has failed") from self.load.error
        if (error := replica_error(self.cluster.replica)) is not None:
            raise RuntimeError(f"the replica has stopped: {error}")


def _lags(looks: Looks, since: float, until: float) -> dict[str, Any]:
    lags = looks.lags(since, until)
    if not lags:
        return {"p50": None, "p99": None, "n": 0}
    return {
        "p50": round(percentile(lags, 0.5), 3),
        "p99": round(percentile(lags, 0.99), 3),
        "max": round(max(lags), 3),
        "n": len(lags),
        "look_ms": round(statistics.median(looks.looks) * 1000 + LOOK * 1000, 1),
    }


def _halves(begun: float, ended: float) -> list[tuple[float, float]]:
    middle = (begun + ended) / 2
    return [(begun, middle), (middle, ended)]


@contextlib.contextmanager
def documents(bank: Bank, megabytes: float) -> "Iterator[None]":
    """Insert documents of 100 kB on all nodes, so many megabytes a second, while the context lasts."""
    ended = threading.Event()
    pause = DOCUMENT / (megabytes * 1e6)

    def work() -> None:
        with bank.sessions() as sessions:
            due, number = time.monotonic(), 0
            while not ended.wait(max(0.0, due - time.monotonic())):
                due, number = due + pause, number + 1
                node = number % len(sessions)
                body = f"REPEAT(CHAR({97 + number % 26}), {DOCUMENT})"
                run_sql(sessions[node], f"INSERT INTO bank_{node}.documents_{node} VALUES ({number}, {body})")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def started(home: Path, rate: float, merged: str | None) -> "Iterator[Live]":
    """Start everything, and wait until the replica has the accounts."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        cluster = stack.enter_context(LiveCluster.started(home, ("accounts", "documents"), OPTIONS, ports, merged))
        cluster.bank.create("documents", DOCUMENTS)
        plain = stack.enter_context(MySqlServer(home / "plain", 202, OPTIONS))
        for server, (node, port) in zip(cluster.bank.servers, ports.items(), strict=True):
            server.execute(
                "SET sql_log_bin = 0; CREATE USER plain IDENTIFIED WITH caching_sha2_password BY ''; "
                "GRANT REPLICATION SLAVE ON *.* TO plain"
            )
            follow(plain, port, "plain", node)
        process = stack.enter_context(cluster.running())
        cluster.follow()
        load = Load(cluster.bank, rate, local=0.0)
        ours, beside = Looks(cluster.replica, "bank.accounts", load), Looks(plain, "bank_0.accounts_0", load)
        live = Live(cluster, Processes(process.pid), load, ours, beside)
        _until_there(live, process)
        yield live


def _until_there(live: Live, process: Any) -> None:
    end = time.monotonic() + 300
    while True:
        live.cluster.bank.heartbeat()
        with contextlib.suppress(pymysql.err.MySQLError):  # before the table is there
            if live.cluster.replica.query("SELECT COUNT(*) FROM bank.accounts") != [(0,)]:
                return
        if time.monotonic() > end or process.poll() is not None:
            raise RuntimeError(f"the replica has nothing; see {live.cluster.log}")
        time.sleep(0.5)


def run(
    out: Path,
    seconds: float = 60,
    rate: float = 200,
    volume: float = 10,
    rest: float = 30,
    volume_seconds: float | None = None,
    merged: str | None = None,
) -> dict[str, Any]:
    """Measure, with the merged log in a folder or at a URI.

    Returns lags in seconds, CPU in cores of all processes of `run`, and whether the targets are met.
    """
    found: dict[str, Any] = {}
    with started(out, rate, merged) as live:
        time.sleep(10)  # what is started is warm then
        cpu, begun = live.processes.cpu(), time.monotonic()
        time.sleep(rest)
        found["rest"] = {"cores": round((live.processes.cpu() - cpu) / (time.monotonic() - begun), 4)}
        with looking([live.ours, live.plain]):
            live.load.start()
            try:
                live.phase(max(10.0, seconds / 4))
                found["steady"] = live.phase(seconds)
                altering = threading.Thread(target=live.cluster.bank.add_note, args=(1.0,), daemon=True)
                altering.start()
                found["ddl"] = live.phase(max(10.0, seconds / 4))
                altering.join()
                if volume:
                    live.load.rate = VOLUME_RATE
                    with documents(live.cluster.bank, volume):
                        found["volume"] = live.phase(volume_seconds or seconds)
            finally:
                live.load.stop()
        found["memory"] = live.processes.rss_mib()
        found["puts_an_hour"] = _status(live.cluster.page)["log"]["puts_an_hour"]
    shutil.rmtree(out, ignore_errors=True)
    return {**found, "targets": verdicts(found)}


def verdicts(found: dict[str, Any]) -> dict[str, Any]:
    """Return each target with what was measured."""
    values = {"rest_cores": found["rest"]["cores"]}
    for phase in ("steady", "ddl", "volume"):
        for part in ("p50", "p99"):
            if f"{phase}_{part}" in TARGETS and phase in found:
                values[f"{phase}_{part}"] = found[phase]["ours"][part]
    return {
        name: {"wanted": TARGETS[name], "found": value, "met": value is not None and value <= TARGETS[name]}
        for name, value in values.items()
    }


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="of each phase")
    parser.add_argument("--rate", type=float, default=200, help="distributed transactions a second")
    parser.add_argument("--volume", type=float, default=10, help="MB/s of the last phase; 0: left out")
    parser.add_argument("--volume-seconds", type=float, help="of the last phase, if not as long as the others")
    parser.add_argument("--rest", type=float, default=30, help="seconds without load")
    parser.add_argument("--store", action="store_true", help="once more with the merged log on S3, a server of its own")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    out = arguments.out.resolve() / "live"
    phases = arguments.seconds, arguments.rate, arguments.volume, arguments.rest, arguments.volume_seconds
    found = run(out, *phases)
    if arguments.store:
        from tests.object_store import KEY, SECRET, object_store

        with object_store() as store:
            place = store.uri("merged", f"access_key={KEY}", f"secret_key={SECRET}")
            found = {"folder": found, "store": run(out, *phases, merged=place)}
            found["store"]["objects"] = len(store.objects("merged/"))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
