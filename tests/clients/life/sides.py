"""Where a life is played: shards that `run` merges, with two `serve`s in front; and a plain MySQL with its replica."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pymysql
import yaml

from binlog_merge.files.manifest import Manifest
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.life.story import SHARDS, Story
from tests.clients.older import as_older
from tests.clients.served import Served, until
from tests.mysql_server import MySqlServer
from tests.patience import completed, ended
from tools.demo_live.cluster import free_ports

PROGRAM = [sys.executable, "-m", "binlog_merge.cli.main"]


class Side(Protocol):
    """What readers read; `ports` are those of the server and of the one that takes over from it."""

    name: str
    story: Story
    ports: tuple[int, int]
    older: tuple[int, int]
    mariadb: tuple[int, int] | None
    same_positions: bool

    def restart(self) -> None:
        """Kill the server that readers read, and start it again."""

    def keep_from_here(self) -> None:
        """Note the file that is written now: what is read already is before it."""

    def purge(self) -> None:
        """Remove the files before the one that was noted."""


class Shards:
    """Three nodes, `run` on them, and two `serve`s of what it publishes."""

    name = "serve"
    same_positions = True

    def __init__(self, home: Path, servers: list[MySqlServer]) -> None:
        self._home = home
        self.merged = home / "merged"
        self.story = Story(servers)
        nodes = [
            {"source-id": f"shard-{n}", "server": f"mysql://root@localhost/?socket={server.socket}"}
            for n, server in enumerate(servers, start=1)
        ]
        config = {"version": 1, "name": "shop", "nodes": nodes, "shard-mode": "pessimistic"}
        config["output"] = {"max-size": "256KiB"}
        (home / "cluster.yaml").write_text(yaml.safe_dump(config))
        self._run: subprocess.Popen[bytes] | None = None
        first, second = free_ports(2)
        self.mariadb: tuple[int, int] | None = (first, second)
        tables = (home / "a.duckdb", home / "b.duckdb")
        folders = (home / "a", home / "b")
        for folder in folders:
            folder.mkdir()
        self._first, self._second = (
            Served(
                self.merged,
                folder,
                f"--tables={table}",
                "--stream",
                f"maria-{folder.name} dialect=mariadb port={port}",
            )
            for folder, table, port in zip(folders, tables, self.mariadb, strict=True)
        )

    @classmethod
    @contextlib.contextmanager
    def started(cls, home: Path) -> Iterator["Shards"]:
        """Play the life's beginning, and serve it."""
        with contextlib.ExitStack() as stack:
            servers = [
                stack.enter_context(MySqlServer(home / f"shard-{n}", server_id=101 + n, port=None))
                for n in range(SHARDS)
            ]
            side = cls(home, servers)
            stack.callback(side._stop)
            side.story.begin()
            side._merge()
            until(lambda: side._rank() > 0, side.said)
            for name in ("a", "b"):
                side._command(
                    "bootstrap", "--config", str(home / "cluster.yaml"), "--to", f"duckdb:///{home / name}.duckdb"
                )
            side._first.start()
            side._second.start()
            yield side

    @property
    def ports(self) -> tuple[int, int]:
        return self._first.port, self._second.port

    older = ports

    def restart(self) -> None:
        self._first.restart()

    def keep_from_here(self) -> None:
        self._kept = Manifest.load(self.merged).state.files[-1].name

    def purge(self) -> None:
        self._end_run()
        before = {path.name for path in self.merged.glob("binlog.0*")}
        self._command("purge", "--to", self._kept)
        assert {path.name for path in self.merged.glob("binlog.0*")} < before
        self._merge()

    def memory(self) -> int:
        """Return how many bytes of memory the server that readers read has resident."""
        return self._first.memory()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return what that server answers."""
        return self._first.query(sql)

    def said(self) -> str:
        """Return what `run` and both servers have said."""
        return (self._home / "run.log").read_text()[-5000:]

    def _rank(self) -> int:
        try:
            last = Manifest.load(self.merged).state.last
        except Exception:
            return 0
        return 0 if last is None else last.rank

    def _merge(self) -> None:
        command = [*PROGRAM, "run", "--config", str(self._home / "cluster.yaml"), "--merged", str(self.merged)]
        with (self._home / "run.log").open("ab") as log:
            self._run = subprocess.Popen([*command, "--no-serve"], stdout=log, stderr=log, start_new_session=True)

    def _end_run(self) -> None:
        if self._run is not None:
            self._run.terminate()
            ended(self._run, 120)
            assert self._run.returncode == 0, self.said()
            self._run = None

    def _command(self, verb: str, *options: str) -> None:
        done = completed([*PROGRAM, verb, "--merged", str(self.merged), *options], 120)
        assert done.returncode == 0, done.stdout + done.stderr

    def _stop(self) -> None:
        for server in (self._first, self._second):
            if server.running():
                server.stop()
        if self._run is not None:
            self._run.terminate()
            self._run.wait(120)


class Plain:
    """A MySQL to which all is written, and its replica, which takes over; readers that ask by position stay."""

    name = "mysql"
    same_positions = False
    mariadb = None

    def __init__(self, servers: tuple[MySqlServer, MySqlServer], older: tuple[int, int]) -> None:
        self._servers = servers
        self.story = Story(servers[:1])
        self.older = older

    @classmethod
    @contextlib.contextmanager
    def started(cls, home: Path) -> Iterator["Plain"]:
        """Play the life's beginning on both."""
        with contextlib.ExitStack() as stack:
            ports = free_ports(2)
            first, second = (
                stack.enter_context(MySqlServer(home / f"plain-{n}", server_id=301 + n, port=port))
                for n, port in enumerate(ports)
            )
            for server in (first, second):
                server.execute(
                    f"CREATE USER {USER}@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}';"
                    f"GRANT ALL ON *.* TO {USER}@'%'; RESET BINARY LOGS AND GTIDS"
                )
            second.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={ports[0]}, SOURCE_USER='{USER}', "
                f"SOURCE_PASSWORD='{PASSWORD}', SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, SOURCE_AUTO_POSITION=1, "
                "SOURCE_CONNECT_RETRY=1; START REPLICA"
            )
            for port in ports:  # from now on logins need no key: the server has seen the password
                pymysql.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD).close()
            older = tuple(stack.enter_context(as_older(port)) for port in ports)
            side = cls((first, second), older)  # type: ignore[arg-type]
            side.story.begin()
            yield side

    @property
    def ports(self) -> tuple[int, int]:
        return tuple(server.port for server in self._servers)  # type: ignore[return-value]

    def restart(self) -> None:
        """Cut its readers off; those who write stay."""
        first = self._servers[0]
        for identity, user, *_ in first.query("SHOW PROCESSLIST"):
            if user == USER:
                with contextlib.suppress(pymysql.MySQLError):  # it has just gone
                    first.execute(f"KILL {identity}")

    def keep_from_here(self) -> None:
        for server in self._servers:
            server.execute("FLUSH BINARY LOGS")
        self._kept = [str(server.query("SHOW BINARY LOG STATUS")[0][0]) for server in self._servers]

    def purge(self) -> None:
        for server, kept in zip(self._servers, self._kept, strict=True):
            server.execute(f"PURGE BINARY LOGS TO '{kept}'")

    def said(self) -> str:
        return ""
