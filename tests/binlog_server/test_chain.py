"""Real MySQL servers behind a replica of a merged binlog, and a replica that follows another server beside it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.binlog_server.log import PublishedLog
from tests.binlog_server.growing import Growing
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, USER, caught_up, executes, replica_of, serving
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import MySqlServer
from tools.demo_live.cluster import free_ports

pytestmark = pytest.mark.mysql
_BY_GTID = "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"
_FROM_A_SERVER = f"{_BY_GTID}, GET_SOURCE_PUBLIC_KEY=1"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[MySqlServer, MySqlServer]]:
    """Two servers that replicas can follow, and that hold after a crash what they have committed."""
    options = ("--relay-log-recovery=ON", "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1")
    first, second = (
        MySqlServer(tmp_path / f"server-{port}", 201 + n, options, port=port) for n, port in enumerate(free_ports(2))
    )
    with first, second:
        for server in (first, second):
            server.execute(
                f"SET sql_log_bin = 0; CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'; "
                f"GRANT REPLICATION SLAVE ON *.* TO '{USER}'@'%'"
            )
        yield first, second


def test_a_replica_behind_a_replica_takes_the_place_of_the_one_before_it(
    servers: tuple[MySqlServer, MySqlServer], tmp_path: Path
) -> None:
    """Its source dies, it goes on at the log itself, and the old source comes back behind it: by GTIDs alone."""
    first, second = servers
    growing = Growing.of(tmp_path)
    case, out = growing.case, growing.out
    growing.publish(0.4)
    for server in servers:
        begin_as(case, server)
    with serving(out) as source, replica_of(first, source, _BY_GTID), replica_of(second, first, _FROM_A_SERVER):
        growing.publish(0.6)
        caught_up(second, out)
        _crash(first)
        second.execute("STOP REPLICA; RESET REPLICA ALL")
        with replica_of(second, source, _BY_GTID):
            growing.publish(0.8)
            caught_up(second, out)
            first.restart()
            first.execute("STOP REPLICA; RESET REPLICA ALL")
            with replica_of(first, second, _FROM_A_SERVER):
                growing.publish(1)
                caught_up(first, out)
    executed = str(PublishedLog(out).view().executed)
    for server in servers:
        assert held(case, server) == expected(case)
        assert server.query("SELECT @@global.gtid_executed") == [(executed,)]


def test_a_replica_follows_the_log_and_another_server_in_channels(
    servers: tuple[MySqlServer, MySqlServer],
) -> None:
    """Each channel is stopped and started while the other goes on."""
    first, second = servers
    case, out = case_named("all-types"), merged("all-types")
    begin_as(case, first)
    second.execute("RESET BINARY LOGS AND GTIDS")
    second.execute("CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY)")
    with serving(out) as source:
        for name, server in (("log", source), ("other", second)):
            first.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={server.port}, "
                f"SOURCE_USER='{USER}', SOURCE_PASSWORD='{PASSWORD}', {_FROM_A_SERVER} FOR CHANNEL '{name}'"
            )
        try:
            first.execute("START REPLICA FOR CHANNEL 'other'")
            second.execute("INSERT INTO other.t VALUES (1)")
            executes(first, _executed(second))
            first.execute("STOP REPLICA FOR CHANNEL 'other'; START REPLICA FOR CHANNEL 'log'")
            second.execute("INSERT INTO other.t VALUES (2)")
            caught_up(first, out)
            first.execute("STOP REPLICA FOR CHANNEL 'log'; START REPLICA")
            executes(first, _executed(second))
            caught_up(first, out)
        finally:
            first.execute("STOP REPLICA; RESET REPLICA ALL")
    assert held(case, first) == expected(case)
    assert first.query("SELECT id FROM other.t ORDER BY id") == [(1,), (2,)]


def _crash(server: MySqlServer) -> None:
    pid = int((server.path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    server.stop()


def _executed(server: MySqlServer) -> str:
    ((gtids,),) = server.query("SELECT @@global.gtid_executed")
    return str(gtids)
