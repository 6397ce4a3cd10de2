"""Replay with several sessions: whatever runs beside whatever, the target ends as the source did."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ReplayStopped, TargetBusy
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
from binlog_merge.targets.server import flow
from binlog_merge.targets.server import transactions as transactions_module
from binlog_merge.targets.server.barrier import DdlManager
from binlog_merge.targets.server.keys import Claims
from binlog_merge.targets.server.mysql import MysqlTarget, lock_name
from binlog_merge.targets.server.run import dry_run, replay
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer
from tests.targets.server.killing import Child
from tests.targets.server.test_replay import data, kill_sessions, position
from tests.targets.server.workload import as_output, write_log

pytestmark = pytest.mark.mysql

Merged = tuple[Log, str, dict[str, object]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, _shared_mysql_server: MySqlServer) -> Merged:
    """A log, the tables it begins with, and what its source came to."""
    binlog, base = write_log(_shared_mysql_server, tmp_path_factory.mktemp("work"), 11, 500)
    return binlog, base, data(_shared_mysql_server)


def run(server: MySqlServer, binlog: Log, progress: Any = lambda result: None, **options: Any) -> ReplayResult:
    target = MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)
    return replay(binlog, target, ReplayOptions(**options), progress)


@pytest.mark.parametrize(
    ("workers", "keep", "batch"),
    [
        (4, True, 3),
        (4, False, 10),
        # Other batches than the two above; one session is what test_replay has.
        pytest.param(1, True, 100, marks=pytest.mark.extended),
        pytest.param(4, True, 100, marks=pytest.mark.extended),
        pytest.param(3, False, 1, marks=pytest.mark.extended),
    ],
)
def test_any_number_of_sessions_comes_to_the_same(
    workers: int, keep: bool, batch: int, mysql_server: MySqlServer, log: Merged
) -> None:
    binlog, base, expected = log
    mysql_server.execute(base)
    result = run(mysql_server, binlog, workers=workers, keep_order=keep, batch=batch)
    assert data(mysql_server) == expected
    assert result.transactions == result.last_rank == binlog.last_rank and position(mysql_server)[0] == result.last_rank


# In order and not; one session keeps the order as three that do.
@pytest.mark.parametrize(
    ("workers", "keep"), [pytest.param(1, True, marks=pytest.mark.extended), (3, True), (3, False)]
)
def test_a_slow_ddl_holds_up_its_own_table_only(
    workers: int, keep: bool, mysql_server: MySqlServer, slow: tuple[Log, str]
) -> None:
    binlog, base = slow
    mysql_server.execute(base)
    with standing_still(mysql_server, "s.t0") as let_go:
        seen: list[tuple[int, str]] = []

        def applied(done: Any) -> None:
            seen.extend((transaction.rank, *sorted(table for _, table in transaction.tables)) for transaction in done)
            if sum(table != "t0" for _, table in seen if table) >= 60:
                let_go()

        target = MysqlTarget(ServerAddress(socket=mysql_server.socket), binlog.cluster_uuid)
        options = ReplayOptions(workers=workers, keep_order=keep, batch=7)
        result = replay(binlog, target, options, applied=lambda done: applied([t for t in done if not t.plans]))
    assert result.last_rank == binlog.last_rank == 84
    others = [rank for rank, table in seen if table != "t0"]
    before = [rank for rank, table in seen if table == "t0" and rank < 11]
    behind = [rank for rank, table in seen if table == "t0" and rank > 11]
    # All the others were there before the DDL was through; what is behind it on its table came last.
    assert len(before) == 3 and [rank for rank, _ in seen[-20:]] == behind
    assert not keep or (behind == sorted(behind) and others == sorted(others))
    assert mysql_server.query("SELECT COUNT(*), MAX(added) FROM s.t0") == [(23, 5)]
    assert position(mysql_server) == (84, 0)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory, _shared_mysql_server: MySqlServer) -> tuple[Log, str]:
    """Rows of four tables in turn, and behind the tenth transaction an ALTER of the first."""
    server = _shared_mysql_server
    server.drop_databases()
    base = "CREATE DATABASE s; USE s; " + "".join(f"CREATE TABLE t{i} (id INT PRIMARY KEY, v INT);" for i in range(4))
    server.execute(base)
    server.execute("RESET BINARY LOGS AND GTIDS")
    work = [f"INSERT INTO s.t{i % 4} (id, v) VALUES ({i}, {i})" for i in range(80)]
    work[10:10] = ["ALTER TABLE s.t0 ADD COLUMN added INT DEFAULT 5"]
    work += [f"INSERT INTO s.t0 (id) VALUES ({id})" for id in (100, 101, 102)]
    server.execute(";".join(work))
    return as_output(server, tmp_path_factory.mktemp("slow")), base


@contextmanager
def standing_still(server: MySqlServer, table: str) -> Iterator[Any]:
    """Hold a table's metadata lock, so that no DDL of it comes to an end; yields what lets go of it."""
    session = server.connect()
    try:
        with session.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {table}")
        yield session.rollback
    finally:
        session.close()


def test_every_table_waits_for_a_ddl_where_that_is_wanted(mysql_server: MySqlServer, slow: tuple[Log, str]) -> None:
    binlog, base = slow
    mysql_server.execute(base)
    order: list[int] = []
    target = MysqlTarget(ServerAddress(socket=mysql_server.socket), binlog.cluster_uuid)
    options = ReplayOptions(workers=3, keep_order=False, batch=2, global_barrier=True)
    replay(binlog, target, options, applied=lambda done: order.extend(transaction.rank for transaction in done))
    assert sorted(order[:10]) == list(range(1, 11)) and order[10] == 11


def test_killed_while_a_ddl_runs_and_others_flow_on(mysql_server: MySqlServer, slow: tuple[Log, str]) -> None:
    binlog, base = slow
    mysql_server.execute(base)
    with standing_still(mysql_server, "s.t0") as let_go:
        child = Child(mysql_server, binlog, workers=2)
        wait_until(lambda: mysql_server.query("SELECT COUNT(*) FROM s.t3") == [(20,)])
        child.kill()
        assert child.ended() == -signal.SIGKILL
        # A DDL may go on in the server when its client is gone: what comes next must not begin before it is through.
        left_behind = mysql_server.connect()
        with left_behind.cursor() as cursor:
            # In case the server has noticed.
            cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name(binlog.cluster_uuid, 3),))
        with pytest.raises(TargetBusy, match="a session of an earlier replay"):
            run(mysql_server, binlog, retry_seconds=0.2)
        left_behind.close()
        let_go()
    result = run(mysql_server, binlog, workers=2)
    assert 0 < result.transactions < 84 and position(mysql_server) == (84, 0)
    assert mysql_server.query("SELECT COUNT(*), MAX(added) FROM s.t0") == [(23, 5)]


def wait_until(holds: Any, seconds: float = 300) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_faulty_row_is_named(mysql_server: MySqlServer, log: Merged) -> None:
    binlog, base, expected = log
    mysql_server.execute(base + "INSERT INTO w.lone VALUES (5, -7)")
    with pytest.raises(ReplayStopped) as caught:
        run(mysql_server, binlog, workers=3)
    stopped = caught.value
    assert "the target refuses it: 1062 Duplicate entry '5' for key 'lone.PRIMARY'" in stopped.message
    assert "; insert w.lone (id=5, v=" in stopped.message
    rank = position(mysql_server)[0]
    assert f"{binlog.cluster_uuid}:{rank + 1}:" in stopped.message and stopped.result.last_rank == rank
    mysql_server.execute("DELETE FROM w.lone WHERE id = 5")
    run(mysql_server, binlog, workers=3, keep_order=False)
    assert data(mysql_server) == expected


def test_what_collides_unseen_is_sorted_out_by_the_order_of_commits(
    mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks held by those behind are given up for those before, and what is refused is tried again in its turn."""
    binlog, base = write_log(mysql_server, tmp_path, 5, 150, ddl=0)
    expected = data(mysql_server)
    monkeypatch.setattr(Claims, "take", lambda *arguments: None)
    mysql_server.drop_databases()
    mysql_server.execute(base)
    result = run(mysql_server, binlog, workers=4, batch=3)
    assert data(mysql_server) == expected and result.transactions == binlog.last_rank


def test_a_ddl_that_is_refused_may_be_left_out(mysql_server: MySqlServer, slow: tuple[Log, str]) -> None:
    binlog, base = slow
    mysql_server.execute(base + "ALTER TABLE s.t0 ADD COLUMN added INT DEFAULT 5")
    with pytest.raises(ReplayStopped, match=r":11: the target refuses it: 1060 .*; ALTER TABLE s.t0 ADD COLUMN added"):
        run(mysql_server, binlog, workers=2)
    assert position(mysql_server) == (10, 1)
    result = run(mysql_server, binlog, workers=2, skip=frozenset({11}))
    assert result.last_rank == 84 and mysql_server.query("SELECT COUNT(*), MAX(added) FROM s.t0") == [(23, 5)]
    assert mysql_server.query("SELECT `rank` FROM binlog_merge.replay_skipped") == [(11,)]
    run(mysql_server, binlog)
    assert position(mysql_server) == (84, 0)


def test_a_second_replay_is_refused_while_sessions_are_at_work(
    mysql_server: MySqlServer, slow: tuple[Log, str]
) -> None:
    binlog, base = slow
    mysql_server.execute(base)
    refused: list[TargetBusy] = []

    def try_too(result: ReplayResult) -> None:
        if not refused:
            with pytest.raises(TargetBusy, match="another replay of this cluster") as caught:
                run(mysql_server, binlog, workers=2)
            refused.append(caught.value)

    assert run(mysql_server, binlog, try_too, workers=2, batch=5).last_rank == 84 and refused


def test_lost_connections_are_made_again(mysql_server: MySqlServer, log: Merged) -> None:
    binlog, base, expected = log
    mysql_server.execute(base)
    cuts = [50, 200, 350]

    def disturb(result: ReplayResult) -> None:
        if cuts and result.last_rank >= cuts[0]:
            cuts.pop(0)
            kill_sessions(mysql_server)

    result = run(mysql_server, binlog, disturb, workers=3, batch=5)
    assert not cuts and data(mysql_server) == expected and result.last_rank == binlog.last_rank


def test_large_transactions_are_not_held_in_memory(
    mysql_server: MySqlServer, log: Merged, monkeypatch: pytest.MonkeyPatch
) -> None:
    binlog, base, expected = log
    mysql_server.execute(base)
    monkeypatch.setattr(transactions_module, "LARGE", 500)
    streamed: list[int] = []
    rest = transactions_module._rest

    def counted(*arguments: Any) -> Any:
        streamed.append(1)
        return rest(*arguments)

    monkeypatch.setattr(transactions_module, "_rest", counted)
    result = run(mysql_server, binlog, workers=3, batch=10)
    assert data(mysql_server) == expected and len(streamed) > 20
    assert result.to_dict()["rows"] == dry_run(binlog, ReplayOptions()).to_dict()["rows"]


def test_a_storm_of_ddl_is_read_no_further_than_it_can_be_held(
    mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "CREATE DATABASE s; USE s; " + "".join(f"CREATE TABLE t{i} (id INT PRIMARY KEY);" for i in range(12))
    mysql_server.execute(base)
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    for i in range(60):
        table = f"s.t{i % 12}"
        sql = f"ALTER TABLE {table} ADD COLUMN c{i} INT DEFAULT {i}; INSERT INTO {table} (id) VALUES ({i})"
        mysql_server.execute(sql)
    binlog, expected = as_output(mysql_server, tmp_path), data(mysql_server)
    mysql_server.drop_databases()
    mysql_server.execute(base)
    monkeypatch.setattr(flow, "MOST_PENDING", 8)
    pending: list[int] = []
    push = DdlManager.push
    monkeypatch.setattr(DdlManager, "push", lambda self, ddl: (push(self, ddl), pending.append(len(self))))
    run(mysql_server, binlog, workers=2)
    assert data(mysql_server) == expected and 4 < max(pending) <= 8
