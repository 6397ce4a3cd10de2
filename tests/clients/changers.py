"""Programs of other makers that alter a table while it is written to: gh-ost, pt-online-schema-change and spirit.

Each runs on one shard, as its documentation says for a server without replicas, and can be killed half way.
"""

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pymysql

from tests.clients.conftest import client
from tests.clients.served import until
from tests.mysql_server import MySqlServer
from tests.patience import Patience

DATABASE, OPERATOR = "shop", "operator"


class Changer(ABC):
    """One of the programs; `left` are its tables that stay on the shard when it has ended."""

    name: ClassVar[str]
    left: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def change(self, server: MySqlServer, table: str, alter: str) -> None:
        """Alter a shard's table; fails with what the program says if it does not."""
        process, log = self._started(self._command(server, table, alter))
        patience = Patience(120)
        while process.poll() is None:
            if not patience.lasts():
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        assert process.returncode == 0, log.read_text(errors="replace")[-4000:]

    def killed(self, server: MySqlServer, table: str, alter: str) -> None:
        """Kill the program when it has copied some rows, and clear away what it has left, as its documentation says."""
        process, log = self._started([*self._command(server, table, alter), *self._slowly()])
        copy = f"{DATABASE}.{self._copy(table)}"
        until(lambda: _has_rows(server, copy) or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._clear(server, table)

    def _started(self, command: Sequence[str]) -> tuple["subprocess.Popen[bytes]", Path]:
        log = self._folder / "changer.log"
        with log.open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, cwd=self._folder, start_new_session=True), log

    def _clear(self, server: MySqlServer, table: str) -> None:
        """Clear away what a killed one has left; most do it themselves when they are started again."""
        return

    @abstractmethod
    def _command(self, server: MySqlServer, table: str, alter: str) -> list[str]: ...

    @abstractmethod
    def _slowly(self) -> list[str]:
        """Return options with which it takes its time."""

    @abstractmethod
    def _copy(self, table: str) -> str:
        """Return the name of the new table."""


class GhOst(Changer):
    name = "gh-ost"
    left = ("_orders_del",)

    def _command(self, server: MySqlServer, table: str, alter: str) -> list[str]:
        own = ["--host=127.0.0.1", f"--port={server.port}", f"--user={OPERATOR}", "--allow-on-master", "--execute"]
        again = ["--initially-drop-ghost-table", "--initially-drop-old-table", "--initially-drop-socket-file"]
        return [
            client("gh-ost", "gh-ost"),
            *own,
            *again,
            f"--database={DATABASE}",
            f"--table={table}",
            f"--alter={alter}",
        ]

    def _slowly(self) -> list[str]:
        return ["--chunk-size=50", "--nice-ratio=20"]

    def _copy(self, table: str) -> str:
        return f"_{table}_gho"


class PtOsc(Changer):
    name = "pt-online-schema-change"

    def _command(self, server: MySqlServer, table: str, alter: str) -> list[str]:
        place = f"h=127.0.0.1,P={server.port},u={OPERATOR},D={DATABASE},t={table}"
        program = client("percona-toolkit", "bin", "pt-online-schema-change")
        return [program, "--execute", "--no-version-check", "--recursion-method=none", f"--alter={alter}", place]

    def _slowly(self) -> list[str]:
        return ["--chunk-size=50", "--sleep=0.3"]

    def _copy(self, table: str) -> str:
        return f"_{table}_new"

    def _clear(self, server: MySqlServer, table: str) -> None:
        for what in ("del", "upd", "ins"):
            server.execute(f"DROP TRIGGER IF EXISTS {DATABASE}.pt_osc_{DATABASE}_{table}_{what}")
        server.execute(f"DROP TABLE IF EXISTS {DATABASE}.{self._copy(table)}")


class Spirit(Changer):
    """It alters by itself what MySQL alters at once, and copies for the rest."""

    name = "spirit"

    def _command(self, server: MySqlServer, table: str, alter: str) -> list[str]:
        place = [f"--host=127.0.0.1:{server.port}", f"--username={OPERATOR}", "--password=", f"--database={DATABASE}"]
        return [client("spirit", "spirit"), "migrate", *place, f"--statement=ALTER TABLE {table} {alter}"]

    def _slowly(self) -> list[str]:
        return ["--defer-cutover"]  # with all rows copied it waits for somebody

    def _copy(self, table: str) -> str:
        return f"_{table}_new"

    def _clear(self, server: MySqlServer, table: str) -> None:
        server.execute(f"DROP TABLE IF EXISTS {DATABASE}._spirit_sentinel")


CHANGERS: tuple[type[Changer], ...] = (GhOst, PtOsc, Spirit)


def _has_rows(server: MySqlServer, table: str) -> bool:
    try:
        return bool(server.query(f"SELECT 1 FROM {table} LIMIT 1"))
    except pymysql.err.ProgrammingError:  # it is not there yet
        return False
