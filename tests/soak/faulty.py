"""A running system that is to be broken: nodes, one with a replica, all behind proxies that cut connections."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pymysql

from binlog_merge.files.servers import read_servers
from tests.node_capture.pairs import SEMI_SYNC, free_port, kill, promote, until
from tests.soak.cutting import Proxy
from tests.soak.sturdy_bank import TABLES, SturdyBank
from tools.demo_live.bank import COMMIT_TABLE, NODES
from tools.demo_live.cluster import LiveCluster, follow, free_ports
from tools.demo_live.watch import replica_error, snapshot_of
from tools.mysql_server import MySqlServer, mysqlbinlog

# What a server has answered must be in its files: a kill is to take nothing from it that its binlog still has.
_SAFE: Final = ("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=1", "--innodb-doublewrite=ON")
_REPLICA: Final = ("--relay-log-recovery=ON", "--replica-net-timeout=10")
_SOURCE: Final = ("--loose-rpl-semi-sync-source-enabled=1",)
_USERS: Final = (
    "SET sql_log_bin=0; CREATE USER repl@'%' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'; "
    "CREATE USER capture@'%' IDENTIFIED BY 'c'; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capture@'%'"
)


@dataclass
class FaultyCluster:
    """The system, the server that may be promoted, and the proxies before the nodes' servers and before `serve`."""

    live: LiveCluster
    bank: SturdyBank
    second: MySqlServer
    proxies: list[Proxy]

    @property
    def config(self) -> Path:
        return self.live.home / "cluster.yaml"

    @property
    def merged(self) -> Path:
        return self.live.home / "merged"

    def log(self) -> str:
        """Return what `run` has said."""
        return self.live.log.read_text(errors="replace")

    def captured(self, node: int) -> str:
        """Return the name of the file in which the capture of a node is."""
        folder = self.live.home / "captured" / NODES[node]
        for server in read_servers(folder)[-1:]:
            folder /= server.folder
        return max((path.name for path in folder.glob("binlog.[0-9]*") if path.suffix[1:].isdigit()), default="")

    def purge(self, node: int) -> bool:
        """Remove the files of a node's server that the capture, and its replica, have passed; False if none is."""
        server, to = self.bank.servers[node], self.captured(node)
        if node == 0 and server is not self.second:
            to = min(to, str(_replica_status(self.second)["Relay_Source_Log_File"]))
        if not to or to <= server.binlog_files()[0].name:
            return False
        server.execute(f"PURGE BINARY LOGS TO '{to}'")
        return server.binlog_files()[0].name == to

    def fail_over(self) -> str:
        """Kill the first node's server for good, and let its replica take its place. Returns what `run` says of it."""
        first = self.bank.servers[0]
        until(lambda: first.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_status'")[0][1] == "ON")
        until(lambda: first.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'")[0][1] == "1")
        before = len(self.log())
        kill(first)
        promote(self.second)
        # A coordinator that asks only now finds every branch that was prepared, whoever was told of it.
        brought = ""
        for _ in range(600):
            said = self.log()[before:]
            if taken := re.search(r"\S+ takes over from .*", said):
                self.bank.servers[0] = self.second
                return brought + taken[0]
            lacking = re.search(r"lacks what was captured, (\S+): ", said)
            if lacking is not None and not brought:
                files = sorted((self.live.home / "captured" / NODES[0]).glob("binlog.[0-9]*"))
                self.second.apply(mysqlbinlog(files, f"--include-gtids={lacking[1]}"))
                brought = f"brought {lacking[1]}; "
            time.sleep(0.1)
        raise AssertionError(f"nobody takes over from {NODES[0]}: {self.log()[before:][-2000:]}")


@contextlib.contextmanager
def started(home: Path, seed: int) -> Iterator[FaultyCluster]:
    """Start all servers and proxies, open the bank, write cluster.yaml."""
    with contextlib.ExitStack() as stack:
        options = ((*SEMI_SYNC, *_SOURCE), (), ())
        servers = [_server(stack, home / name, 101 + i, options[i]) for i, name in enumerate(NODES)]
        second = _server(stack, home / f"{NODES[0]}b", 111, (*SEMI_SYNC, *_REPLICA))
        replica = _server(stack, home / "replica", 201, _REPLICA)
        for server in (*servers, second):
            server.execute(_USERS)
        _replicate(second, servers[0])
        bank = SturdyBank(servers)
        bank.open()
        live = LiveCluster(home, bank, replica, *free_ports(2), str(home / "merged"))
        targets = (*(server.port or 0 for server in (*servers, second)), live.port)
        proxies = [stack.enter_context(Proxy(target, f"{seed} {i}")) for i, target in enumerate(targets)]
        cluster = FaultyCluster(live, bank, second, proxies)
        cluster.config.write_text(_configuration([proxy.port for proxy in proxies]))
        follow(replica, proxies[-1].port, "rep")
        yield cluster


def _server(stack: contextlib.ExitStack, path: Path, number: int, options: tuple[str, ...]) -> MySqlServer:
    server = MySqlServer(path, number, (*_SAFE, *options), port=free_port())
    server.start()
    stack.callback(_end, server)
    return server


def _end(server: MySqlServer) -> None:
    """Kill it: a shutdown would wait for replicas."""
    if server.running:
        kill(server)
    server.stop()


def _replicate(second: MySqlServer, first: MySqlServer) -> None:
    second.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={first.port}, SOURCE_USER='repl', "
        "SOURCE_PASSWORD='r', GET_SOURCE_PUBLIC_KEY=1, SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, "
        "SOURCE_RETRY_COUNT=100000; START REPLICA; SET GLOBAL super_read_only=1"
    )
    until(lambda: first.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'")[0][1] == "1")


def _replica_status(server: MySqlServer) -> dict[str, Any]:
    with server.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        return dict(cursor.fetchone() or {})


def _configuration(ports: list[int]) -> str:
    first, two, three, second = (f'"mysql://capture:c@127.0.0.1:{port}"' for port in ports[:4])
    servers = (f"[{first}, {second}]", two, three)
    nodes = "\n".join(f"  - {{source-id: {name}, server: {servers[i]}}}" for i, name in enumerate(NODES))
    routes = "\n".join(
        f"  - {{schema-pattern: 'bank_*', table-pattern: '{table}_*', target-schema: bank, target-table: {table}}}"
        for table in TABLES
    )
    return (
        f"version: 1\nname: bank\nnodes:\n{nodes}\nroutes:\n{routes}\n"
        f"commit-tso: {{carrier: commit-table, commit-table: {COMMIT_TABLE}}}\n"
        "capture: {lost-after: 3s}\noutput: {max-size: 400KB}\n"
    )


@dataclass
class Watch:
    """Takes snapshots of the replica in a thread, and judges each; `error` is the first that is wrong."""

    replica: MySqlServer
    snapshots: int = 0
    error: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def check(self) -> None:
        """Raise what was wrong."""
        if self.error is not None:
            raise self.error

    def _look(self) -> None:
        try:
            wrong = replica_error(self.replica)
            snapshot = snapshot_of(self.replica, time.monotonic())
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError, RuntimeError, OSError):
            return  # it is being restarted
        if wrong is not None:
            raise AssertionError(f"the replica has stopped: {wrong}")
        if snapshot is None or (not snapshot.accounts and not self.snapshots):
            return
        if snapshot.wrong is not None or not snapshot.accounts:
            raise AssertionError(f"snapshot {self.snapshots + 1} of the replica: {snapshot.wrong or 'no accounts'}")
        self.snapshots += 1

    def _work(self) -> None:
        while not self._stop.wait(0.25):
            try:
                self._look()
            except BaseException as error:
                self.error = error
                return
