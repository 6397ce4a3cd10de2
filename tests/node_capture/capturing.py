"""Captures of real servers: in this process, and in a fork of it that can be killed."""

import gc
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

from binlog_merge.cli import main, signals
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.failpoint import VARIABLE
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import CaptureResult, capture
from tests.mysql_server import MySqlServer

ALONE = {"commit-tso": {"carrier": "gtid-time"}, "shard-mode": "pessimistic"}
"""A server that nothing coordinates: its clock orders, its own DDL is the logical one."""


def url_of(server: MySqlServer, user: str = "root") -> str:
    return f"mysql://{user}@localhost/?socket={server.socket}"


def cluster(folder: Path, servers: Mapping[str, str | list[str]], **more: Any) -> Path:
    """Write a configuration whose nodes have these servers; it captures into `folder`/captured."""
    nodes = [{"source-id": name, "server": url} for name, url in servers.items()]
    values = {"version": 1, "name": "live", "nodes": nodes, **ALONE, **more}
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def capture_now(config: Path, **options: Any) -> CaptureResult:
    """Capture to the end of what the servers have."""
    loaded = MergeConfig.load(config)
    only = {key: options.pop(key) for key in ("nodes", "start_files", "switch", "merged", "report") if key in options}
    return capture(loaded, Path(loaded.capture.dir), CaptureOptions(**options), **only)


def captured_files(config: Path, node: str = "dn-1") -> dict[str, bytes]:
    directory = Path(MergeConfig.load(config).capture.dir) / node
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.[0-9]*"))}


def server_files(server: MySqlServer) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in server.binlog_files()}


class Child:
    """A fork of this process, which has everything loaded: it starts at once, and is there to be killed."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            gc.freeze()  # objects of the parent may belong to native threads that are not here: collecting them crashes
            status = 1
            try:
                status = work() or 0
            finally:
                os._exit(status)

    def signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def exit_code(self) -> int:
        """Wait for its end, and return its exit code, or the negative number of the signal that killed it."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def command(arguments: Sequence[str], printed: Path) -> Child:
    """Start the command line; what it prints goes into the files `printed`.out and .err."""

    def work() -> int:
        signal.signal(signal.SIGTERM, signals.stop)
        out, err = printed.with_suffix(".out"), printed.with_suffix(".err")
        with out.open("w") as stdout, err.open("w") as stderr, redirect_stdout(stdout), redirect_stderr(stderr):
            return main.run(arguments)

    return Child(work)


def killed_at(failpoint: str, config: Path, **options: Any) -> bool:
    """Capture to the end of what the servers have, or to a failpoint; tell whether that came first."""

    def work() -> None:
        os.environ[VARIABLE] = f"{failpoint}:kill"
        capture_now(config, **options)

    return Child(work).exit_code() == -signal.SIGKILL
