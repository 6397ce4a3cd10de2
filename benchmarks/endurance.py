"""Whether what `run` holds stays as it is under load: memory, the local disk, the objects of the store, and the lag.

    python -m benchmarks.endurance [--minutes 60] [--rate 30] [--ddl-each 180] [--out build/bench]

Three MySQL nodes with distributed transactions and DDL, `run` with its merged log on an S3 server that is a process of
its own, and a MySQL replica of what it serves. Files are short, so that many are closed. Each ten seconds a line goes
to OUT/endurance.jsonl; at the end one JSON object is printed: each series with its medians in the middle and in the
last third of the time, and whether it is flat.

The server keeps all objects in memory: it is not measured. Objects of files that are closed are there to stay.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pymysql

from benchmarks.live import OPTIONS, Looks, looking
from benchmarks.measure import MIB, is_jvm
from benchmarks.ranges import Application, Ranges
from tests.object_store import KEY, SECRET, Store, object_store
from tools.demo_live.cluster import LiveCluster
from tools.demo_live.load import Load
from tools.demo_live.watch import percentile, replica_error

EACH = 10.0
LOOK = 0.1
PART = 600.0
"""Lags are told for each of so many seconds."""
FLAT = 1.1
"""A series is flat if the last third of its time has at most so many times what the middle third has."""
SETTINGS = "output: {max-size: 4MiB}\nretention: {captured: needed}\n"
NODES_TOO = ("--max-binlog-size=4M", "--innodb-buffer-pool-size=64M", "--performance-schema=OFF")
COUNTS = "/-/counts"
ROUNDS = ("manifest", "open", "schema", "lease", "other")
"""The kinds of objects that rounds write; a closed file is one that stays."""


def kind_of(name: str) -> str:
    """Return what an object of an output is: a folder of it, the lease, a file, or another."""
    folder, _, rest = name.partition("/")
    if rest:
        return folder
    return "file" if folder.startswith("binlog.0") else "lease" if folder.startswith("lease") else "other"


class Counting:
    """A WSGI application that counts requests by method and kind of object, and tells them at COUNTS."""

    def __init__(self, behind: Application) -> None:
        self._behind = behind
        self._counts: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        path = environ["PATH_INFO"]
        if path == COUNTS:
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self._counts).encode()]
        key = path.strip("/").split("/", 2)
        self._counts[f"{environ['REQUEST_METHOD']} {kind_of(key[2]) if len(key) > 2 else '-'}"] += 1
        return self._behind(environ, start_response)


def _serve(told: Connection, ended: Connection) -> None:
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it says each request
    with object_store(front=lambda application: Counting(Ranges(application))) as store:
        told.send(store)
        with contextlib.suppress(EOFError):
            ended.recv()


@contextlib.contextmanager
def store_process() -> Iterator[Store]:
    """Run an S3 server as a process of its own."""
    context = get_context("spawn")
    told, tells = context.Pipe(duplex=False)
    ended, ends = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(tells, ended), daemon=True)
    process.start()
    ended.close()  # so that the server sees the end of this process
    try:
        if not told.poll(60):
            raise RuntimeError("the S3 server does not start")
        yield told.recv()
    finally:
        ends.close()
        process.join(30)
        process.kill()


@dataclass
class Watch:
    """Takes the samples of a running system."""

    cluster: LiveCluster
    store: Store
    root: psutil.Process
    load: Load
    looks: Looks
    local: Sequence[Path]
    begun: float = field(default_factory=time.monotonic)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def sample(self) -> dict[str, Any]:
        """Return and keep what is seen just now; MiB but for counts."""
        status = self._page()
        log = status["log"]
        sample = {
            "at": round(time.monotonic() - self.begun, 1),
            "transactions": self.load.done,
            "rss": rss_by_command(self.root),
            "local": {path.name: round(disk_mib(path), 2) for path in self.local},
            "objects": objects_of(self.store, "merged/"),
            "puts_an_hour": log["puts_an_hour"],
            "requests": self._counts(),
            "file": log["end"]["file"],
            "healthy": not status["problems"],
            "problems": sorted(problem["code"] for problem in status["problems"]),
        }
        self.samples.append(sample)
        return sample

    def _page(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.cluster.page}/status.json", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _counts(self) -> dict[str, int]:
        with urllib.request.urlopen(self.store.address + COUNTS, timeout=60) as answer:
            found: dict[str, int] = json.load(answer)
            return found

    def lags(self) -> list[dict[str, float]]:
        """Return p50 and p99 of the lag, for each part of the time."""
        found, since = [], self.begun
        while since < time.monotonic():
            if lags := self.looks.lags(since, since + PART):
                p50, p99 = (round(percentile(lags, part), 2) for part in (0.5, 0.99))
                found.append({"minute": round((since - self.begun) / 60), "p50": p50, "p99": p99, "n": len(lags)})
            since += PART
        return found


def rss_by_command(root: psutil.Process) -> dict[str, float]:
    """Return the resident memory of `run` and of each of its processes, by what it does."""
    found: dict[str, float] = {}
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            name = "java" if is_jvm(process) else _command(process.cmdline())
            found[name] = round(found.get(name, 0.0) + process.memory_info().rss / MIB, 1)
    return found


def _command(words: Sequence[str]) -> str:
    verbs = ("capture", "merge", "serve", "run")
    return next((word for word in words[1:] if word in verbs), "python")


def disk_mib(folder: Path) -> float:
    """Return what the files below a folder take of a disk: holes take nothing."""
    blocks = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            blocks += path.lstat().st_blocks
    return blocks * 512 / MIB


def objects_of(store: Store, prefix: str) -> dict[str, list[float]]:
    """Return count and MiB of the objects below a prefix, by kind."""
    pages = store.client().get_paginator("list_objects_v2").paginate(Bucket=store.bucket, Prefix=prefix)
    found: dict[str, list[float]] = {}
    for each in (each for page in pages for each in page.get("Contents", ())):
        of_kind = found.setdefault(kind_of(each["Key"].removeprefix(prefix)), [0, 0.0])
        of_kind[0] += 1
        of_kind[1] += each["Size"] / MIB
    return {kind: [int(count), round(mib, 3)] for kind, (count, mib) in found.items()}


def series(samples: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return what is to stay as it is, each by its name: memory, local disk, and objects that rounds write."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        for name in {name for one in samples for name in one["rss"]}:
            found.setdefault(f"rss_mib {name}", []).append(sample["rss"].get(name, 0.0))
        for name, mib in sample["local"].items():
            found.setdefault(f"local_mib {name}", []).append(mib)
        rounds = [sample["objects"].get(kind, [0, 0.0]) for kind in ROUNDS]
        found.setdefault("objects of rounds", []).append(sum(count for count, _ in rounds))
        found.setdefault("objects_mib of rounds", []).append(sum(mib for _, mib in rounds))
    return found


def judged(values: Sequence[float]) -> dict[str, Any]:
    """Return the medians of the middle and the last third of a series, its greatest value, and whether it is flat."""
    third = len(values) // 3
    middle, last = statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])
    return {
        "middle": round(middle, 2),
        "last": round(last, 2),
        "most": round(max(values), 2),
        "flat": last <= middle * FLAT + 1,  # what is about nothing may double
    }


def puts_an_hour(samples: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many requests that write the server has had an hour, by kind of object."""
    first, last = samples[0], samples[-1]
    hours = (last["at"] - first["at"]) / 3600
    return {
        name.removeprefix("PUT "): round((count - first["requests"].get(name, 0)) / hours)
        for name, count in last["requests"].items()
        if name.startswith("PUT ")
    }


def _alter(cluster: LiveCluster, each: float, ended: threading.Event, done: list[float]) -> None:
    """Add a column, and remove it, in turns."""
    while not ended.wait(each):
        cluster.bank.alter("DROP COLUMN more" if len(done) % 2 else "ADD COLUMN more INT NOT NULL DEFAULT 7", 1.0)
        done.append(time.monotonic())


def run(out: Path, minutes: float, rate: float, ddl_each: float) -> dict[str, Any]:
    """Measure for some minutes, and return what is judged; raises RuntimeError if the load or the replica fails."""
    home = out / "endurance"
    shutil.rmtree(home, ignore_errors=True)
    temporary = home / "tmp"
    temporary.mkdir(parents=True)
    os.environ["TMPDIR"] = str(temporary)  # of `run`: its local form of the log, and what `serve` has fetched
    with (
        store_process() as store,
        LiveCluster.started(
            home,
            options=(*OPTIONS, *NODES_TOO),
            merged=store.uri("merged", f"access_key={KEY}", f"secret_key={SECRET}"),
        ) as cluster,
    ):
        with (home / "cluster.yaml").open("a") as config:
            config.write(SETTINGS)
        with cluster.running() as process:
            cluster.follow()
            load = Load(cluster.bank, rate)
            looks = Looks(cluster.replica, "bank.accounts", load)
            _until_there(cluster, process)
            watch = Watch(cluster, store, psutil.Process(process.pid), load, looks, (temporary, home / "captured"))
            ended, altered = threading.Event(), list[float]()
            altering = threading.Thread(target=_alter, args=(cluster, ddl_each, ended, altered), daemon=True)
            with looking([looks], LOOK), (out / "endurance.jsonl").open("w") as lines:
                load.start()
                altering.start()
                try:
                    _sampled(watch, process, minutes * 60, lines)
                finally:
                    ended.set()
                    altering.join()
                    load.stop()
                same = _same(cluster)
    return {**_summary(watch), "ddl": len(altered), "replica_equals_nodes": same}


def _sampled(watch: Watch, process: Any, seconds: float, lines: Any) -> None:
    due = watch.begun
    while (due := due + EACH) < watch.begun + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        print(json.dumps(watch.sample()), file=lines, flush=True)
        if watch.load.error is not None:
            raise RuntimeError("the load has failed") from watch.load.error
        if (error := replica_error(watch.cluster.replica)) is not None or process.poll() is not None:
            raise RuntimeError(f"the replica has stopped: {error}, or `run` has: see {watch.cluster.log}")


def _until_there(cluster: LiveCluster, process: Any) -> None:
    end = time.monotonic() + 300
    while True:
        cluster.bank.heartbeat()
        with contextlib.suppress(pymysql.err.MySQLError):  # before the table is there
            if cluster.replica.query("SELECT COUNT(*) FROM bank.accounts") != [(0,)]:
                return
        if time.monotonic() > end or process.poll() is not None:
            raise RuntimeError(f"the replica has nothing; see {cluster.log}")
        time.sleep(0.5)


def _same(cluster: LiveCluster) -> bool:
    """Return whether the replica has the nodes' rows, once it has had time to get them."""
    end, wanted = time.monotonic() + 180, sorted(cluster.bank.accounts())
    while time.monotonic() < end:
        cluster.bank.heartbeat()
        with contextlib.suppress(pymysql.err.MySQLError):
            if sorted(cluster.replica.query("SELECT * FROM bank.accounts")) == wanted:
                return True
        time.sleep(1)
    return False


def _summary(watch: Watch) -> dict[str, Any]:
    last = watch.samples[-1]
    return {
        "minutes": round(last["at"] / 60, 1),
        "transactions": last["transactions"],
        "files_closed": last["objects"].get("file", [0])[0],
        "objects": last["objects"],
        "series": {name: judged(values) for name, values in series(watch.samples).items()},
        "puts_an_hour": {"status": last["puts_an_hour"], "server": puts_an_hour(watch.samples)},
        "lag": watch.lags(),
        "problems": dict(Counter(code for sample in watch.samples for code in sample["problems"])),
    }


def main() -> None:
    """Run and print one JSON object."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=summary)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=30, help="transactions a second")
    parser.add_argument("--ddl-each", type=float, default=180, help="seconds between two changes of the table")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    found = run(arguments.out.resolve(), arguments.minutes, arguments.rate, arguments.ddl_each)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
