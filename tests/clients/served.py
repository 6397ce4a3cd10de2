"""`binlog-merge serve` as a process of its own, which can be killed, and comes again at the same port."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql

from tests.binlog_server.running import PASSWORD, USER
from tests.mysql_server import ROOT
from tests.patience import Patience, ended


class Served:
    """A server of an output directory; `kill` and `start` may be called while clients read."""

    def __init__(self, out: Path, folder: Path, *options: str) -> None:
        self.port = 0
        self._out = out
        self._options = options
        self._log = folder / "served.log"
        self._password = folder / "password"
        self._password.write_text(PASSWORD)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Serve, at the port of the time before if there was one."""
        command = [sys.executable, "-m", "binlog_merge.cli.main", "serve", str(self._out), f"--port={self.port}"]
        if not any(option.startswith("--users") for option in self._options):
            command.append(f"--password-file={self._password}")
        command += self._options
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r" is served on 127\.0\.0\.1:(\d+) ", line)
        assert found is not None, (line, self.said())
        self.port = int(found[1])

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._end()

    def restart(self) -> None:
        """Kill it, and serve again."""
        self.kill()
        self.start()

    def stop(self) -> int:
        """End it by SIGTERM; return the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._end()

    def said(self) -> str:
        """Return what it has told its operator."""
        return self._log.read_text()

    def memory(self) -> int:
        """Return how many bytes of memory it has resident."""
        return self._status("VmRSS") << 10

    def threads(self) -> int:
        """Return how many threads it has."""
        return self._status("Threads")

    def descriptors(self) -> int:
        """Return how many files and sockets it has open."""
        assert self._process is not None
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def connect(self, **options: Any) -> "pymysql.Connection[Any]":
        """Return a session of its user; the caller closes it."""
        settings = {"user": USER, "password": PASSWORD, "ssl_disabled": True, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, **settings)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement in a session of its own."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def _status(self, name: str) -> int:
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(text.split(f"\n{name}:")[1].split()[0])

    def _end(self) -> int:
        assert self._process is not None
        ended(self._process, 60)
        return self._process.returncode


@contextlib.contextmanager
def served(out: Path, folder: Path, *options: str) -> Iterator[Served]:
    """Serve an output directory for as long as the context lasts, and then look that it was well to its end."""
    server = Served(out, folder, *options)
    server.start()
    try:
        yield server
        assert server.running(), server.said()
        assert server.stop() == 128 + signal.SIGTERM
    finally:
        if server.running():
            server.kill()
    assert "internal error" not in server.said() and "Traceback" not in server.said(), server.said()


def until(holds: Callable[[], bool], what: Callable[[], object] = lambda: "", seconds: float = 120) -> None:
    """Wait until something holds; fail with `what` there is instead if it never does."""
    patience = Patience(seconds)
    while not holds():
        assert patience.lasts(), what()
        time.sleep(0.1)
