"""Processes that are killed at random moments and started again: each command by itself, and all of `run`."""

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from binlog_merge.cli import main as cli
from tests.soak import merging
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tools.demo_live.bank import NODES, configuration
from tools.demo_live.cluster import LiveCluster, free_ports
from tools.mysql_server import MySqlServer

_VERB: Final = (sys.executable, "-m", "binlog_merge.cli.main")
_MARK: Final = "BINLOG_MERGE_SOAK"
_GONE_WITHIN: Final = 60.0
KINDS: Final = ("run", "capture", "merge", "jvm", "worker", "serve")


@dataclass
class Kept:
    """A command that is killed `wanted` times, and started again at once each time; from then on it goes on.

    Half of the kills come 0 to 2 seconds after its start, half of them that long after `progress` has shown that it
    works. It is forked from a process that has everything loaded, so it starts at once.
    """

    name: str
    commands: Sequence[Sequence[str]]
    """One of them each time."""
    progress: Callable[[], int]
    log: Path
    wanted: int
    seed: int
    kills: int = 0
    error: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = _threaded(self._work)

    def end(self) -> None:
        """End the command in an orderly way."""
        self._stop.set()
        self._thread.join()

    @property
    def done(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.kills >= self.wanted

    def _work(self) -> None:
        rng = random.Random(self.seed)
        try:
            while not self._stop.is_set():
                process = _context.Process(target=_become, args=(self.name, rng.choice(self.commands), self.log))
                process.start()
                try:
                    self._one(process, rng)
                finally:
                    process.kill()
                    process.join()
        except BaseException as error:
            self.error = error

    def _one(self, process: Any, rng: random.Random) -> None:
        if self.kills >= self.wanted:
            while not self._stop.wait(0.2):
                assert process.is_alive(), self._ended(process.exitcode)
            process.terminate()
            process.join(60)
            return
        if rng.random() < 0.5:
            before, end = self.progress(), time.monotonic() + 20
            while self.progress() == before and time.monotonic() < end and process.is_alive():
                time.sleep(0.02)
        process.join(rng.uniform(0, 2))
        assert process.is_alive(), self._ended(process.exitcode)
        process.kill()
        self.kills += 1

    def _ended(self, code: int) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-12:]
        return "\n".join([f"{self.name} has ended by itself with exit code {code}:", *tail])


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.merge_e2e.preloaded", "tests.soak.merging", "binlog_merge.cli.capture"])


def _become(name: str, words: Sequence[str], log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if name == "merge":
        merging.main(*words)
    else:
        sys.argv = ["binlog-merge", *words]
        cli.main()


@contextmanager
def started(home: Path) -> Iterator[tuple[LiveCluster, SturdyBank]]:
    """Start all servers, open the bank, write cluster.yaml: small files, so that they often end."""
    with ExitStack() as stack:
        servers = {name: MySqlServer(home / name, 101 + i, ("--max-binlog-size=256K",)) for i, name in enumerate(NODES)}
        replica = MySqlServer(home / "replica", 201)
        for server in (*servers.values(), replica):
            stack.enter_context(server)
        bank = SturdyBank(list(servers.values()))
        bank.open()
        (home / "cluster.yaml").write_text(configuration(servers, TABLES) + "output: {max-size: 400KB}\n")
        (home / "merged").mkdir()  # as `run` does
        yield LiveCluster(home, bank, replica, *free_ports(2), str(home / "merged")), bank


def kept_apart(live: LiveCluster, kills: int, seed: int) -> list[Kept]:
    """Return the three commands that `run` starts, the merge without Spark; each merge with rounds of another size."""
    config, out = str(live.home / "cluster.yaml"), str(live.home / "merged")
    capture = ("capture", f"--config={config}", "--stop-never", "--together", "--retry-seconds", "inf")
    merges = [(config, out, pause) for pause in ("0", "0.3", "1")]
    serve = ("serve", f"--port={live.port}", "--", out)
    every: dict[str, tuple[Sequence[Sequence[str]], Callable[[], int]]] = {
        "capture": ([capture], lambda: size_of(live.home / "captured", "*/binlog.0*")),
        "merge": (merges, lambda: size_of(live.home / "merged", "binlog.0*")),
        "serve": ([serve], lambda: size_of(live.home, "serve.log")),  # it tells of its readers there
    }
    return [
        Kept(name, commands, progress, live.home / f"{name}.log", kills, seed + number)
        for number, (name, (commands, progress)) in enumerate(every.items())
    ]


def size_of(folder: Path, pattern: str) -> int:
    """Return how many bytes files have; one may be removed meanwhile."""
    total = 0
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


class KilledRun:
    """`binlog-merge run`, of which any process may be killed; when it is killed itself, it is started again."""

    def __init__(self, live: LiveCluster, seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._watches: list[threading.Thread] = []
        self._live = live
        self._random = random.Random(seed)
        self.start()

    def start(self) -> None:
        """Start it, with rounds of a size of its own."""
        self._mark = str(uuid.uuid4())
        rng = self._random
        sizes = (f"--min-interval={rng.choice(['0', '0.5', '2'])}", f"--in-driver={rng.choice(['0', '64KB', '16MB'])}")
        command = [*_VERB, "run", "--config", str(self._live.home / "cluster.yaml")]
        command += ["--master", "local[*]"]  # so that there is a Java to kill
        command += ["--out", str(self._live.home / "merged"), "--port", str(self._live.port), *sizes]
        self.log = self._live.log
        with self.log.open("ab") as log:
            log.write(f"\n# {time.strftime('%H:%M:%S')} {' '.join(command[3:])}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, _MARK: self._mark}
            )

    def check(self) -> None:
        """Raise what has gone wrong."""
        if self.error is not None:
            raise self.error
        if (code := self.process.poll()) is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-30:]
            raise AssertionError("\n".join([f"`run` has ended by itself with exit code {code}:", *tail]))

    def kill(self, kind: str) -> bool:
        """Kill a process of a kind, one of KINDS. Returns whether there was one."""
        self.check()
        if kind == "run":
            mark = self._mark
            self.process.kill()
            self.process.wait()
            self._watches.append(_threaded(lambda: self._watch_gone(mark)))
            self.start()
        else:
            found = self._processes(kind)
            if not found:
                return False
            with suppress(psutil.NoSuchProcess):
                self._random.choice(found).kill()
        self.kills[kind] += 1
        return True

    def end(self) -> int:
        """End it in an orderly way, when nothing is left of the runs that were killed; return the exit code."""
        for watch in self._watches:
            watch.join()
        self.check()
        self.process.terminate()
        return self.process.wait(120)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        for process in _marked(self._mark):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _processes(self, kind: str) -> list[psutil.Process]:
        with suppress(psutil.Error):
            verbs = {_verb(child): child for child in psutil.Process(self.process.pid).children()}
            if kind in ("capture", "merge", "serve"):
                return [verbs[kind]] if kind in verbs else []
            below = verbs["merge"].children(recursive=True) if "merge" in verbs else []
            of = "org.apache.spark.deploy.SparkSubmit" if kind == "jvm" else "binlog_merge.spark.daemon"
            return [process for process in below if of in process.cmdline()]
        return []

    def _watch_gone(self, mark: str) -> None:
        """Its processes must end with it."""
        end = time.monotonic() + _GONE_WITHIN
        while left := _marked(mark):
            if time.monotonic() > end:
                self.error = AssertionError(f"`run` is dead, and this is left: {[p.cmdline()[:6] for p in left]}")
                return
            time.sleep(0.5)


def _threaded(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _verb(process: psutil.Process) -> str:
    words = process.cmdline()
    place = words.index("binlog_merge.cli.main") + 1 if "binlog_merge.cli.main" in words else 0
    return words[place] if place else ""


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_all_kinds(
    run: KilledRun, wanted: int, seconds: float, seed: int, progress: Callable[[], int], check: Callable[[], None]
) -> None:
    """Kill each kind `wanted` times, or until `seconds` are over.

    Half of the kills come 0 to 2 seconds after the one before, so that starts are hit; half of them that long after
    `progress` has shown that something was published, so that rounds are.
    """
    rng, end = random.Random(seed), time.monotonic() + seconds
    while (left := [kind for kind in KINDS if run.kills[kind] < wanted]) and time.monotonic() < end:
        if rng.random() < 0.5:
            _await_progress(progress, rng.choice((20.0, 60.0)), run, check)
        time.sleep(rng.uniform(0, 2))
        check()
        for kind in rng.sample(left, len(left)):
            if run.kill(kind):
                break


def _await_progress(progress: Callable[[], int], seconds: float, run: KilledRun, check: Callable[[], None]) -> None:
    before, end = progress(), time.monotonic() + seconds
    while progress() == before and time.monotonic() < end:
        run.check()
        check()
        time.sleep(0.05)
