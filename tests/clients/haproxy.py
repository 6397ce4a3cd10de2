"""HAProxy as deploy/haproxy.cfg has it, before servers of this machine; what it thinks of them, and what it is told."""

import csv
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tests.clients.conftest import client
from tests.clients.served import until
from tests.mysql_server import ROOT
from tests.patience import ended
from tools.demo_live.cluster import free_ports

CONFIG: Final = ROOT / "deploy" / "haproxy.cfg"
NAMES: Final = ("a", "b")
PAGE: Final = "option httpchk GET /health"
SERVE: Final = "option mysql-check"
"""Checks: of the page of `run` and `status`, and of `serve` itself."""


class Behind(Protocol):
    """A server that HAProxy sends clients to."""

    @property
    def port(self) -> int: ...


@dataclass(frozen=True)
class Proxy:
    """A HAProxy that runs, and the port at which clients find it."""

    port: int
    _folder: Path

    def state(self, name: str) -> str:
        """Return what it thinks of a server: UP, DOWN, DRAIN …"""
        return self._row(name)["status"]

    def check(self, name: str) -> str:
        """Return what came of its last look at a server, in its own words, which begin with a star during the next."""
        row = self._row(name)
        return f"{row['check_status'].removeprefix('* ')} {row['last_chk']}"

    def is_up(self, name: str, up: bool = True) -> None:
        """Wait until it takes a server for one that is there, or for one that is not."""
        until(lambda: self.state(name) == ("UP" if up else "DOWN"), lambda: (self.state(name), self.check(name)))

    def tell(self, command: str) -> str:
        """Say something at its admin socket; return the answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self._folder / "admin"))
            connection.sendall(command.encode() + b"\n")
            answer = b""
            while part := connection.recv(1 << 16):
                answer += part
        return answer.decode()

    def drain(self, name: str) -> None:
        """Send nobody to a server any more, and end the connections that it has."""
        self.tell(f"set server readers/{name} state drain")
        self.tell(f"shutdown sessions server readers/{name}")

    def said(self) -> str:
        """Return what it has logged."""
        return (self._folder / "haproxy.log").read_text()

    def _row(self, name: str) -> Mapping[str, str]:
        rows = csv.DictReader(self.tell("show stat").lstrip("# ").splitlines())
        (row,) = (row for row in rows if row["svname"] == name)
        return row


@contextmanager
def balanced(
    folder: Path,
    servers: Sequence[Behind],
    check: str = SERVE,
    pages: Sequence[int] = (),
    changed: Mapping[str, str] | None = None,
) -> Iterator[Proxy]:
    """Run HAProxy with the deployed configuration before one or two servers, for as long as the context lasts.

    `pages` are the ports of the servers' pages, if these are looked at; `changed` are other words in the configuration.
    """
    (port,) = free_ports(1)
    words = {
        "bind :3307": f"bind 127.0.0.1:{port}",
        PAGE: check,
        "default-server port 9464": "default-server",
        **(changed or {}),
    }
    for number, name in enumerate(NAMES):
        line = f"server {name} host-{name}.example:3307 check"
        if number < len(servers):
            page = f" port {pages[number]}" if pages else ""
            words[line] = f"server {name} 127.0.0.1:{servers[number].port} check{page}"
        else:
            words[f"    {line}\n"] = ""
    text = CONFIG.read_text()
    for old, new in words.items():
        assert old in text, f"{CONFIG} has no {old!r}"
        text = text.replace(old, new)
    (folder / "haproxy.cfg").write_text(f"global\n    stats socket unix@admin level admin\n{text}")
    (folder / "admin").unlink(missing_ok=True)
    with (folder / "haproxy.log").open("ab") as log:
        command = [client("haproxy", "bin", "haproxy"), "-db", "-f", "haproxy.cfg"]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    proxy = Proxy(port, folder)
    try:
        until(lambda: (folder / "admin").exists() or process.poll() is not None, proxy.said)
        assert process.poll() is None, proxy.said()
        yield proxy
        assert process.poll() is None, proxy.said()
    finally:
        process.terminate()
        ended(process, 60)
