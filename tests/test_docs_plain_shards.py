"""The page on three running shards, followed to the letter on real servers: only names, ports and passwords differ."""

import contextlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from binlog_merge.files.manifest import Manifest
from tests.mysql_server import MySqlServer
from tools import docs
from tools.demo_live.cluster import free_ports

PAGE = (docs.ROOT / "docs" / "how-to" / "plain-shards-from-servers.md").read_text()
SQL = re.findall(r"```sql\n(.*?)```", PAGE, re.S)
SHELL = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    for line in block.replace("\\\n", "").splitlines()
    if line.startswith("binlog-merge")
]
PROGRAM = str(Path(sys.executable).with_name("binlog-merge"))
LONG = 120.0


@dataclass(frozen=True)
class Shop:
    """Three shards that have been in use, an empty server, and the folder in which somebody follows the page."""

    home: Path
    shards: list[MySqlServer]
    replica: MySqlServer
    ports: tuple[int, int]

    def here(self, text: str) -> str:
        """Return a command or a statement of the page with the names that hold here."""
        text = text.replace("@10.0.0.20", f"@127.0.0.1:{self.replica.port}").replace("10.0.0.9", "127.0.0.1")
        for number, shard in enumerate(self.shards, start=1):
            text = text.replace(f"@10.0.0.{number}", f"@127.0.0.1:{shard.port}")
            (file,) = {row[0] for row in shard.query("SHOW BINARY LOG STATUS")}
            text = re.sub(rf"shard-{number}=binlog\.\d+", f"shard-{number}={file}", text)
        text = text.replace("/srv/shop", str(self.home)).replace("SOURCE_PORT=3307", f"SOURCE_PORT={self.ports[0]}")
        return text.replace("9464", f"{self.ports[1]} --port {self.ports[0]}").replace("'…'", "'think of one'")

    def command(self, number: int, verb: str) -> list[str]:
        """Return a command of the page; the verb says which one is meant."""
        words = shlex.split(self.here(SHELL[number]), comments=True)
        assert words[1] == verb, SHELL[number]
        return [PROGRAM, *words[1:]]

    def run(self, number: int, verb: str) -> str:
        """Run a command of the page, which must succeed, and return what it prints."""
        done = subprocess.run(
            self.command(number, verb), cwd=self.home, capture_output=True, text=True, timeout=LONG, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextlib.contextmanager
    def running(self, number: int, verb: str) -> Iterator[None]:
        """Let a command of the page run, until Ctrl-C."""
        with (self.home / f"{verb}.log").open("w") as log:
            process = subprocess.Popen(
                self.command(number, verb), cwd=self.home, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(LONG)

    def write(self, first: int, note: str = "") -> None:
        """Write ten orders to each shard."""
        for number, shard in enumerate(self.shards):
            for i in range(first + number, first + 30 + number, 3):
                column, value = (", note", f", '{note}'") if note else ("", "")
                shard.execute(f"INSERT INTO shop.orders (id, total{column}) VALUES ({i}, {i}.5{value})")


def until(what: Callable[[], bool], said: Path) -> None:
    """Wait for something."""
    deadline = time.monotonic() + LONG
    while not what():
        assert time.monotonic() < deadline, said.read_text()
        time.sleep(0.3)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    *ports, serve, listen = free_ports(6)
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(
                MySqlServer(tmp_path / f"server-{n}", 101 + n, ["--binlog-row-metadata=MINIMAL"], port=port)
            )
            for n, port in enumerate(ports)
        ]
        shop = Shop(tmp_path, servers[:3], servers[3], (serve, listen))
        for shard in shop.shards:
            shard.execute(
                "CREATE DATABASE shop; CREATE TABLE shop.customers (id BIGINT PRIMARY KEY, name VARCHAR(40));"
                "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, total DECIMAL(12,2))"
            )
        shop.write(0)
        for shard in shop.shards:  # a year later their first files are gone
            shard.execute("FLUSH BINARY LOGS")
            last = shard.query("SHOW BINARY LOG STATUS")[0][0]
            shard.execute(f"PURGE BINARY LOGS TO '{last}'")
        yield shop


# The same story runs in tests/bootstrap/test_three_shards; that the page's commands are commands, test_docs holds.
@pytest.mark.extended
@pytest.mark.mysql
@pytest.mark.spark
def test_the_page_from_top_to_bottom(shop: Shop) -> None:
    for name, password in (("nodes", "secret"), ("readers", "think of one"), ("replica", "secret2")):
        (shop.home / f"{name}.pw").write_text(f"{password}\n")
    config = re.search(r"```yaml\n(version: .*?)```", PAGE, re.S)
    assert config is not None
    (shop.home / "cluster.yaml").write_text(shop.here(config[1]))
    checked, user, flush, applier, follow, _ = SQL
    for shard in shop.shards:
        for statement in (checked, shop.here(user), flush):
            shard.execute(statement)

    with shop.running(0, "capture"):
        captured = [shop.home / "captured" / f"shard-{n}" for n in (1, 2, 3)]
        until(lambda: all(any(folder.glob("binlog.*")) for folder in captured), shop.home / "capture.log")
        assert "shop.customers, shop.orders" in shop.run(1, "schema")

    with shop.running(2, "run"):
        shop.write(100)
        until(lambda: Manifest.load(shop.home / "merged").state.last is not None, shop.home / "run.log")
        until(lambda: "merged     0 " not in shop.run(3, "status"), shop.home / "run.log")
        assert "is exactly the cluster at transaction" in shop.run(4, "bootstrap")
        shop.replica.execute(shop.here(applier))
        filled = re.search(r"GTID ([0-9a-f-]{36}):(\d+)", shop.run(6, "bootstrap"))
        assert filled is not None
        begins = re.sub(r"\+[0-9a-f-]{36}:1-\d+", f"+{filled[1]}:1-{filled[2]}", shop.here(follow))
        shop.replica.execute(begins)

        ddl = "ALTER TABLE shop.orders ADD COLUMN note VARCHAR(40) NOT NULL DEFAULT '-'"
        for shard in shop.shards[:2]:
            shard.execute(ddl)
        until(lambda: "awaited  shard-3/shop/orders" in shop.run(9, "ddl"), shop.home / "run.log")
        shop.shards[2].execute(ddl)
        shop.write(200, "late")
        rows = sorted(row for shard in shop.shards for row in shard.query("SELECT * FROM shop.orders"))
        assert len(rows) == 90

        def has_all() -> bool:
            return sorted(shop.replica.query("SELECT * FROM shop.orders")) == rows

        until(has_all, shop.home / "run.log")
        assert "is whole and in order" in shop.run(7, "verify")
        shop.replica.execute("STOP REPLICA")
        assert "holds what it should" in shop.run(8, "verify")
