"""Pairs of real servers that replicate: a primary, and a replica that can be promoted."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pymysql

from tests.mysql_server import MySqlServer

SEMI_SYNC = (
    "--plugin-load-add=semisync_source.so;semisync_replica.so",
    "--loose-rpl-semi-sync-replica-enabled=1",
    "--loose-rpl-semi-sync-source-timeout=20000",
)

GROUP = (
    "--plugin-load-add=group_replication.so",
    "--loose-group-replication-group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
    "--loose-group-replication-recovery-get-public-key=ON",
    "--loose-group-replication-communication-stack=XCOM",
    "--loose-group-replication-member-expel-timeout=0",
    "--report-host=127.0.0.1",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], object]) -> None:
    """Wait for what servers and other threads bring about."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def executed(server: MySqlServer) -> str:
    return str(server.query("SELECT @@global.gtid_executed")[0][0])


def replicate(replica: MySqlServer, source: MySqlServer) -> None:
    """Make a server a replica of another, by GTID, read-only."""
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port}, SOURCE_USER='repl', "
        "SOURCE_PASSWORD='r', GET_SOURCE_PUBLIC_KEY=1, SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1; START REPLICA; "
        "SET GLOBAL super_read_only=1"
    )


def promote(replica: MySqlServer) -> None:
    """Make a replica the primary, once it has applied all that it has received."""
    replica.execute("STOP REPLICA IO_THREAD")

    def applied() -> bool:
        with replica.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            status = cursor.fetchone()
        have = executed(replica).replace("\n", "")
        asked = f"SELECT GTID_SUBSET('{status['Retrieved_Gtid_Set']}', '{have}')".replace("\n", "")
        return bool(replica.query(asked)[0][0])

    until(applied)
    replica.execute("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only=0; SET GLOBAL read_only=0")


def kill(server: MySqlServer) -> None:
    """Kill a server as a power cut does."""
    os.kill(int((server.path / "pid").read_text()), signal.SIGKILL)
    until(lambda: not server.running)


@contextmanager
def servers(folder: Path, count: int, *options: str) -> Iterator[list[MySqlServer]]:
    """Start servers that may replicate from each other; none does yet. They are killed at the end."""
    with ExitStack() as started:
        found = []
        for number in range(count):
            server = MySqlServer(folder / f"server-{number}", 11 + number, options, port=free_port())
            found.append(started.enter_context(server))
        try:
            yield found
        finally:  # a shutdown would wait for replicas and for the group
            for server in found:
                if server.running:
                    kill(server)


@contextmanager
def semi_sync_pair(folder: Path) -> Iterator[tuple[MySqlServer, MySqlServer]]:
    """Start a primary and its replica: what a client was told is committed, both have."""
    with servers(folder, 2, *SEMI_SYNC) as (primary, replica):
        primary.execute(
            "SET GLOBAL rpl_semi_sync_source_enabled=1; SET sql_log_bin=0; "
            "CREATE USER repl@'%' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'"
        )
        replicate(replica, primary)
        until(lambda: primary.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'")[0][1] == "1")
        yield primary, replica


@contextmanager
def replication_group(folder: Path, count: int = 2) -> Iterator[list[MySqlServer]]:
    """Start a replication group, the first server its primary; the others are read-only."""
    with servers(folder, count, *GROUP) as members:
        ports = [free_port() for _ in members]
        seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
        for member, port in zip(members, ports, strict=True):
            member.execute(
                f"SET GLOBAL group_replication_local_address='127.0.0.1:{port}'; "
                f"SET GLOBAL group_replication_group_seeds='{seeds}'; SET sql_log_bin=0; "
                "CREATE USER repl@'%' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE, CONNECTION_ADMIN ON *.* TO repl@'%'; "
                "CHANGE REPLICATION SOURCE TO SOURCE_USER='repl', SOURCE_PASSWORD='r' "
                "FOR CHANNEL 'group_replication_recovery'"
            )
        members[0].execute(
            "SET GLOBAL group_replication_bootstrap_group=ON; START GROUP_REPLICATION; "
            "SET GLOBAL group_replication_bootstrap_group=OFF"
        )
        for member in members[1:]:
            member.execute("START GROUP_REPLICATION")
        yield members
