"""A running bank, captured and merged without end, and verbs that are killed beside it."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.bootstrap.published import unpublished
from binlog_merge.bootstrap.values import End
from binlog_merge.cli import main as cli
from binlog_merge.files.failpoint import VARIABLE
from binlog_merge.files.manifest import Manifest
from binlog_merge.log.log import Log
from tests.effort import effort
from tests.patience import Patience
from tests.soak.killing import Kept
from tests.soak.killing import _context as processes
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tools.demo_live.bank import NODES, configuration
from tools.mysql_server import MySqlServer

PAST: Final = effort(150, 300)
"""How many rows of each shard of the ledger are from before the log."""
_KILLED: Final = -9


@dataclass
class Running:
    """A folder with cluster.yaml, whose cluster is captured and merged into `merged`."""

    home: Path

    @property
    def config(self) -> Path:
        return self.home / "cluster.yaml"

    @property
    def merged(self) -> Path:
        return self.home / "merged"

    def bootstrap(
        self, to: str, failpoint: str | None = None, rows: int = 40, extra: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        """Run `bootstrap`; return its result, None if the failpoint has killed it."""
        process, out = self._started(to, rows, extra, failpoint), self._out
        patience = Patience(240)
        while process.is_alive() and patience.lasts():
            process.join(1)
        if process.is_alive():
            process.kill()
            process.join()
            raise AssertionError(f"it does not end:\n{self.said()}")
        if failpoint is not None and process.exitcode == _KILLED:
            return None
        assert process.exitcode == 0, f"exit code {process.exitcode}: {out.read_text()}\n{self.said()}"
        result: dict[str, Any] = json.loads(out.read_text())
        return result

    def killed_after(self, to: str, seconds: float) -> bool:
        """Run `bootstrap`, and kill it after a while; return whether it had not ended before."""
        process = self._started(to, 5, (), None)
        process.join(seconds)
        alive = process.is_alive()
        process.kill()
        process.join()
        assert alive or process.exitcode == 0, self.said()
        return alive

    def _started(self, to: str, rows: int, extra: Sequence[str], failpoint: str | None) -> Any:
        self._out.unlink(missing_ok=True)
        words = ["bootstrap", f"--config={self.config}", "--to", to, f"--chunk-rows={rows}", "--wait=120", *extra]
        log = self.home / "bootstrap.log"
        process = processes.Process(target=_become, args=([*words, "-o", "json"], self._out, log, failpoint))
        process.start()
        return process

    @property
    def _out(self) -> Path:
        return self.home / "bootstrap.json"

    def said(self) -> str:
        """Return the last lines that the verb has said."""
        return "\n".join((self.home / "bootstrap.log").read_text(errors="replace").splitlines()[-20:])


@dataclass
class RunningBank(Running):
    """The bank's servers, and the commands that capture and merge."""

    bank: SturdyBank
    kept: list[Kept]

    def check(self) -> None:
        """Raise what has gone wrong in the commands."""
        assert all(one.done for one in self.kept)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a logical table, as the nodes have them."""
        servers = enumerate(self.bank.servers)
        return sorted(row for i, server in servers for row in server.query(f"SELECT * FROM bank_{i}.{table}_{i}"))

    def drained(self) -> None:
        """Wait until all that the nodes have committed is merged."""
        ends = {}
        for name, server in zip(NODES, self.bank.servers, strict=True):
            file, position, *_ = server.query("SHOW BINARY LOG STATUS")[0]
            ends[name] = End(str(file), int(position))
        until(lambda: not unpublished(Log(self.merged).state, ends))

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Let the nodes show the time twice a second."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.5):
                self.bank.heartbeat()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _become(words: Sequence[str], out: Path, log: Path, failpoint: str | None) -> None:
    for path, number in ((out, 1), (log, 2)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    if failpoint is not None:
        os.environ[VARIABLE] = failpoint
    sys.argv = ["binlog-merge", *words]
    cli.main()


@contextmanager
def running(home: Path, past: int = PAST, tables: Sequence[str] = TABLES, settings: str = "") -> Iterator[RunningBank]:
    """Open the bank; capture and merge what it does from then on. `settings` are more lines of the configuration.

    With a `past` the log begins only when the bank is there, and so many rows of each shard's ledger; what its tables
    are is then in a base. Without, the log has everything.
    """
    with ExitStack() as stack:
        servers = {name: MySqlServer(home / name, 101 + i) for i, name in enumerate(NODES)}
        for server in servers.values():
            stack.enter_context(server)
        bank = SturdyBank(list(servers.values()))
        bank.open()
        text = configuration(servers, tables) + f"output: {{dir: merged, max-size: 400KB}}\n{settings}"
        if past:
            _give_a_past(bank, past)
            text += "base: {store: base.duckdb}\nmarkers: {missing: warn}\n"  # what markers there were is purged
        (home / "cluster.yaml").write_text(text)
        (home / "merged").mkdir()
        if past:
            config = f"--config={home / 'cluster.yaml'}"
            assert cli.run(["capture", config, "--until-now"]) == 0
            assert cli.run(["schema", "import", "--nodes", config, f"--store={home / 'base.duckdb'}"]) == 0
        kept = stack.enter_context(kept_beside(home))
        found = RunningBank(home, bank, kept)
        with found.beating():
            until(lambda: Manifest.load(found.merged).state.last is not None)
        yield found


def _give_a_past(bank: SturdyBank, past: int) -> None:
    """Fill the ledger, and purge the binlogs."""
    for i, server in enumerate(bank.servers):
        rows = ", ".join(f"({number}, {i * 100}, {number})" for number in range(-past, 0))
        server.execute(f"INSERT INTO bank_{i}.ledger_{i} VALUES {rows}; FLUSH BINARY LOGS")
        last = str(server.query("SHOW BINARY LOGS")[-1][0])
        server.execute(f"PURGE BINARY LOGS TO '{last}'")


@contextmanager
def kept_beside(home: Path) -> Iterator[list[Kept]]:
    """Let a cluster be captured and merged meanwhile."""
    with ExitStack() as stack:
        kept = [_kept(home, name) for name in ("capture", "merge")]
        for one in kept:
            one.start()
            stack.callback(one.end)
        yield kept


def _kept(home: Path, name: str) -> Kept:
    config, out = str(home / "cluster.yaml"), str(home / "merged")
    capture = ("capture", f"--config={config}", "--stop-never", "--together", "--retry-seconds", "inf")
    return Kept(name, [capture if name == "capture" else (config, out, "0.2")], lambda: 0, home / f"{name}.log", 0, 0)


def until(happens: Any, seconds: float = 120.0) -> None:
    """Wait until something happens."""
    patience = Patience(seconds)
    while not happens():
        assert patience.lasts(), f"{seconds:.0f} s in vain"
        time.sleep(0.1)
