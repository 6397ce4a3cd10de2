"""Real MySQL replicas of streams: of the parts of a hash, as channels of one server, and of a filter."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.streams.spec import load_streams
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, USER
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import MySqlServer
from tests.streams.helpers import streaming, written

pytestmark = pytest.mark.mysql


@contextlib.contextmanager
def _following(server: MySqlServer, ports: Mapping[str, int]) -> Iterator[None]:
    """Make a server the replica of streams, each by a channel of its name."""
    try:
        for name, port in ports.items():
            server.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{USER}', "
                f"SOURCE_PASSWORD='{PASSWORD}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=0 FOR CHANNEL '{name}'"
            )
        server.execute("START REPLICA")
        yield
    finally:
        server.execute("STOP REPLICA; RESET REPLICA ALL")


def _caught_up(server: MySqlServer, root: Path, names: list[str]) -> None:
    for name in names:
        executed = PublishedLog(root / name).view().executed
        ((timed_out,),) = server.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)")
        assert not timed_out, server.query("SHOW REPLICA STATUS")


@pytest.mark.parametrize("option", ["part hash=key into=2 port=0", "part hash=table into=2 ddl=once port=0"])
def test_a_replica_follows_the_parts_of_a_hash_as_channels(
    option: str, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    """It ends with what the nodes hold, stopped and started on the way."""
    case, out = case_named("all-types"), merged("all-types")
    streams = load_streams(None, [option])
    for spec in streams:
        written(out, tmp_path, spec)
    begin_as(case, mysql_server)
    mysql_server.execute("SET GLOBAL replica_parallel_workers = 2")
    names = [spec.name for spec in streams]
    with streaming(out, tmp_path, streams) as (_, ports):
        with _following(mysql_server, ports):
            mysql_server.execute(f"STOP REPLICA FOR CHANNEL '{names[0]}'")
            _caught_up(mysql_server, tmp_path, names[1:])
            mysql_server.execute(f"START REPLICA FOR CHANNEL '{names[0]}'")
            _caught_up(mysql_server, tmp_path, names)
        assert held(case, mysql_server) == expected(case)


def test_a_replica_of_a_filter_has_the_tables_chosen(mysql_server: MySqlServer, tmp_path: Path) -> None:
    case, out = case_named("ddl-by-markers"), merged("ddl-by-markers")
    (spec,) = streams = load_streams(None, ["d1 tables=d1.* rows-query=false port=0"])
    written(out, tmp_path, spec)
    begin_as(case, mysql_server)
    with streaming(out, tmp_path, streams) as (_, ports), _following(mysql_server, ports):
        _caught_up(mysql_server, tmp_path, ["d1"])
        whole = {name: table for name, table in expected(case).items() if name.startswith("d1.")}
        assert whole and held(case, mysql_server, whole) == whole
        assert not mysql_server.query("SHOW DATABASES LIKE 'd2'")
