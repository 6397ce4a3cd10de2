"""The running system: the bank's nodes, `binlog-merge run` on them, and a real replica of what it serves."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tools.demo_live.bank import NODES, Bank, configuration
from tools.mysql_server import MySqlServer

ENDS_WITHIN: Final = 120.0
"""Seconds that `run` has to end in."""


@dataclass(frozen=True)
class LiveCluster:
    """Servers, the bank on them, the folder of all its files, and the ports on which `run` serves and shows itself."""

    home: Path
    bank: Bank
    replica: MySqlServer
    port: int
    page: int
    merged: str

    @classmethod
    @contextlib.contextmanager
    def started(
        cls,
        home: Path,
        tables: Sequence[str] = ("accounts",),
        options: Sequence[str] = (),
        ports: Mapping[str, int] = MappingProxyType({}),
        merged: str | None = None,
    ) -> "Iterator[LiveCluster]":
        """Start the nodes' servers and the replica's, open the bank, and write cluster.yaml.

        `ports` are those of nodes that listen on TCP. `merged` is where the merged log is to be, by default a folder.
        """
        with contextlib.ExitStack() as stack:
            servers = {
                name: MySqlServer(home / name, 101 + i, options, port=ports.get(name)) for i, name in enumerate(NODES)
            }
            replica = MySqlServer(home / "replica", 201, options)
            for server in (*servers.values(), replica):
                stack.enter_context(server)
            bank = Bank(list(servers.values()))
            bank.open()
            (home / "cluster.yaml").write_text(configuration(servers, tables))
            yield cls(home, bank, replica, *free_ports(2), merged or str(home / "merged"))

    @property
    def log(self) -> Path:
        """Return the file with all that `run` says."""
        return self.home / "run.log"

    @contextlib.contextmanager
    def running(self) -> "Iterator[subprocess.Popen[bytes]]":
        """Run `binlog-merge run`; it is ended at the latest when the context ends."""
        command = [str(Path(sys.executable).with_name("binlog-merge")), "run"]
        command += ["--config", str(self.home / "cluster.yaml"), "--merged", self.merged]
        command += ["--port", str(self.port), "--listen", str(self.page)]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def follow(self) -> None:
        """Let the replica follow what `run` serves."""
        follow(self.replica, self.port, "rep")


def follow(replica: MySqlServer, port: int, user: str, channel: str = "") -> None:
    """Make a server the replica of what listens on a port of this machine, beside its other channels."""
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', "
        "SOURCE_SSL=0, SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=100000 "
        f"FOR CHANNEL '{channel}'; START REPLICA FOR CHANNEL '{channel}'"
    )


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]
