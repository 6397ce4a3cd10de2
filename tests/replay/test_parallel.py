"""Replay with several sessions: whatever runs beside whatever, the target ends as the source did."""

from typing import Any

import pytest

from binlog_merge.replay.mysql import MysqlTarget
from binlog_merge.replay.reader import MergedBinlog
from binlog_merge.replay.run import replay
from binlog_merge.replay.walk import ReplayOptions, ReplayResult
from snapshot_store.introspect import ServerAddress
from tests.mysql_server import MySqlServer
from tests.replay.test_replay import data, position
from tests.replay.workload import write_log

pytestmark = pytest.mark.mysql

Log = tuple[MergedBinlog, str, dict[str, object]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, _shared_mysql_server: MySqlServer) -> Log:
    """A log, the tables it begins with, and what its source came to."""
    binlog, base = write_log(_shared_mysql_server, tmp_path_factory.mktemp("work"), 11, 900)
    return binlog, base, data(_shared_mysql_server)


def run(server: MySqlServer, binlog: MergedBinlog, progress: Any = lambda result: None, **options: Any) -> ReplayResult:
    target = MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)
    return replay(binlog, target, ReplayOptions(**options), progress)


@pytest.mark.parametrize(
    ("workers", "keep", "batch"), [(1, True, 100), (4, True, 100), (4, True, 3), (4, False, 10), (3, False, 1)]
)
def test_any_number_of_sessions_comes_to_the_same(
    workers: int, keep: bool, batch: int, mysql_server: MySqlServer, log: Log
) -> None:
    binlog, base, expected = log
    mysql_server.execute(base)
    result = run(mysql_server, binlog, workers=workers, keep_order=keep, batch=batch)
    assert data(mysql_server) == expected
    assert result.transactions == result.last_rank == binlog.last_rank and position(mysql_server)[0] == result.last_rank
