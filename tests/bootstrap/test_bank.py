"""The bank under load into DuckDB and MySQL, killed at every step; its total is right at every position after."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import replay
from binlog_merge.verification.against import compare_with_server
from binlog_merge.verification.base import DuckdbBase
from snapshot_store.server import ServerAddress
from tests.bootstrap.running import PAST, RunningBank, running, until
from tests.effort import THOROUGH, effort
from tests.soak.sturdy_bank import TABLES
from tools.demo_live.bank import TOTAL
from tools.demo_live.load import Load
from tools.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

_MORE = ("bootstrap-tables:kill", "bootstrap-committed:kill:5", "bootstrap-caught-up:kill") if THOROUGH else ()
DUCKDB_KILLS = (
    "bootstrap-before-commit:kill:3",
    *_MORE[1:],
    "bootstrap-catching-up:kill",
    "replay-before-commit:kill",
    "bootstrap-exact:kill",
)
MYSQL_KILLS = (
    *_MORE[:1],
    "bootstrap-before-commit:kill:3",
    "bootstrap-committed:kill:4",
    "bootstrap-emptied:kill",
    "replay-committed:kill",
    *_MORE[2:],
)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBank]:
    with running(tmp_path_factory.mktemp("bank")) as bank:
        yield bank


def killed(bank: RunningBank, to: str, kills: Sequence[str], between: Any = lambda number: None) -> dict[str, Any]:
    """Run a bootstrap to its end, killed at each of these points in turn; return its result."""
    for number, failpoint in enumerate(kills):
        done = bank.bootstrap(to, failpoint)
        if failpoint.startswith("bootstrap"):
            assert done is None, f"{failpoint} was not reached"
        between(number)
    done = bank.bootstrap(to)
    assert done is not None
    return done


def test_a_running_bank_is_copied_exactly(bank: RunningBank, tmp_path: Path) -> None:
    file = tmp_path / "bank.db"
    with bank.beating(), MySqlServer(tmp_path / "target", 301, binlog=False) as server:
        transfers = Load(bank.bank, effort(15, 30))
        transfers.start()
        try:
            into_file = killed(bank, f"duckdb://{file}", DUCKDB_KILLS)
            url = f"mysql://root@localhost/?socket={server.socket}"
            target = MysqlTarget(ServerAddress.parse(url), Log(bank.merged).cluster_uuid)

            def between(number: int) -> None:
                with pytest.raises(ReplayStopped, match="is being bootstrapped"):
                    replay(Log(bank.merged), target, ReplayOptions())
                if number == len(
                    _MORE[:1]
                ):  # the rest of the accounts has another column then, and the marker is in the log
                    bank.bank.alter(0.1)

            into_server = killed(bank, url, MYSQL_KILLS, between)
            until(lambda: transfers.done > 50)
        finally:
            transfers.stop()
        assert transfers.error is None, repr(transfers.error)
        assert into_server["copied_again"] == ["bank.accounts"] and into_server["rounds"] >= 2
        assert into_server["rows"]["bank.ledger"] >= 3 * PAST
        wanted = {table: bank.rows(table) for table in TABLES}
        bank.drained()
        file_is_right_at_positions(bank, file, into_file["rank"], wanted, step=20)
        server_is_right_at_every_position(bank, server, target, into_server["rank"], wanted)
        verify_judges(bank, target, file)
        bank.check()


def file_is_right_at_positions(bank: RunningBank, file: Path, rank: int, wanted: dict[str, Any], step: int = 1) -> None:
    binlog, near = Log(bank.merged), effort(20, 40)
    with DuckdbTarget(file, binlog.cluster_uuid) as target:
        assert target.rank == rank
        for last in (*range(rank, rank + near), *range(rank + near, binlog.last_rank, step), binlog.last_rank):
            load(binlog, target, history_of(binlog.directory), ReplayOptions(last_rank=last))
            assert _total(target.connection) == TOTAL, last
        assert {table: sorted(target.connection.execute(f"FROM bank.{table}").fetchall()) for table in TABLES} == wanted


def _total(connection: duckdb.DuckDBPyConnection) -> Any:
    return connection.execute("SELECT sum(balance) FROM bank.accounts").fetchall()[0][0]


def server_is_right_at_every_position(
    bank: RunningBank, server: MySqlServer, target: MysqlTarget, rank: int, wanted: dict[str, Any]
) -> None:
    binlog = Log(bank.merged)
    assert server.query("SELECT `rank` FROM binlog_merge.replay_position") == [(rank,)]
    totals = set()
    with server.connect() as session, session.cursor() as cursor:

        def look(done: object = None) -> None:
            cursor.execute("SELECT SUM(balance) FROM bank.accounts")
            totals.add(int(cursor.fetchall()[0][0]))

        look()
        replay(binlog, target, ReplayOptions(batch=1), applied=look)
    assert totals == {TOTAL}
    assert {table: sorted(server.query(f"SELECT * FROM bank.{table}")) for table in TABLES} == wanted


def verify_judges(bank: RunningBank, target: MysqlTarget, file: Path) -> None:
    binlog = Log(bank.merged)
    found = compare_with_server(binlog, target.address, base=DuckdbBase.of(file, binlog.cluster_uuid))
    assert found.same and found.whole and {table.name for table in found.tables} == {f"bank.{t}" for t in TABLES}
