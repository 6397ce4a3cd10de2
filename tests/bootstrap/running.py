"""A running bank with a past: rows from before its log, captured and merged without end, and a verb that is killed."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.killing import Kept
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tools.demo_live.bank import NODES, configuration
from tools.mysql_server import MySqlServer

PAST = 300
"""The transfers of which the log knows nothing."""


@dataclass
class RunningBank:
    """The bank's servers, and the commands that capture and merge."""

    home: Path
    bank: SturdyBank
    kept: list[Kept]
    _number: int = field(default=PAST)

    @property
    def config(self) -> Path:
        return self.home / "cluster.yaml"

    @property
    def merged(self) -> Path:
        return self.home / "merged"

    def check(self) -> None:
        """Raise what has gone wrong in the commands."""
        for one in self.kept:
            assert one.done

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a logical table, as the nodes have them."""
        return sorted(
            row
            for i, server in enumerate(self.bank.servers)
            for row in server.query(f"SELECT * FROM bank_{i}.{table}_{i}")
        )


@contextmanager
def running(home: Path, options: Sequence[str] = (), past: int = PAST) -> Iterator[RunningBank]:
    """Open the bank, let it do `past` transfers, purge its binlogs; then capture and merge what comes."""
    with ExitStack() as stack:
        servers = {name: MySqlServer(home / name, 101 + i, options) for i, name in enumerate(NODES)}
        for server in servers.values():
            stack.enter_context(server)
        bank = SturdyBank(list(servers.values()))
        bank.open()
        for i, server in enumerate(bank.servers):
            rows = ", ".join(f"({number}, {i * 100}, {number})" for number in range(-past, 0))
            server.execute(f"INSERT INTO bank_{i}.ledger_{i} VALUES {rows}")
        base = "CREATE DATABASE bank;\nUSE bank;\n"
        for table in TABLES:
            ((_, text),) = bank.servers[0].query(f"SHOW CREATE TABLE bank_0.{table}_0")
            base += f"{text};\n".replace(f"`{table}_0`", f"`{table}`")
        (home / "base.sql").write_text(base)
        for server in bank.servers:
            server.execute("FLUSH BINARY LOGS")
            last = str(server.query("SHOW BINARY LOGS")[-1][0])
            server.execute(f"PURGE BINARY LOGS TO '{last}'")
        text = configuration(servers, TABLES) + "base: {logical: base.sql}\noutput: {dir: merged, max-size: 400KB}\n"
        (home / "cluster.yaml").write_text(text)
        (home / "merged").mkdir()
        kept = [_kept(home, name) for name in ("capture", "merge")]
        for one in kept:
            one.start()
            stack.callback(one.end)
        yield RunningBank(home, bank, kept)


def _kept(home: Path, name: str) -> Kept:
    config, out = str(home / "cluster.yaml"), str(home / "merged")
    command = (
        ("capture", f"--config={config}", "--stop-never", "--together", "--retry-seconds", "inf")
        if name == "capture"
        else (config, out, "0.2")
    )
    return Kept(name, [command], lambda: 0, home / f"{name}.log", 0, 0)
