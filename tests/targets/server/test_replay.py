"""Replay into a real server: the same data as the merged binlog says, once, whatever happens on the way."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ConfigError, ReplayStopped, ServerRefused, TargetBusy
from binlog_merge.filters.events import EventRule
from binlog_merge.filters.expressions import ExpressionRule
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
from binlog_merge.targets.server.ledger import Ledger
from binlog_merge.targets.server.mysql import MysqlTarget, RowSession
from binlog_merge.targets.server.run import dry_run, replay
from snapshot_store.server import ServerAddress
from tests.effort import keeping
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.targets.as_merged import as_merged, run_statements
from tests.targets.server.killing import Child

pytestmark = pytest.mark.mysql

CASES = (
    "three-nodes-online-ddl",
    "all-types",
    "partial-json",
    "row-image-minimal",
    "metadata-minimal",
    "strange-names",
    "gtid-off",
    "statements",
    "create-table-select",
)
# What is left out has the types and images of these.
KEPT = ("all-types", "partial-json", "row-image-minimal", "create-table-select")


def merged(name: str, folder: Path) -> Log:
    merge(case_named(name) / "cluster.yaml", folder)
    return Log(folder)


def target_of(server: MySqlServer, binlog: Log) -> MysqlTarget:
    return MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)


def prepare(server: MySqlServer, name: str) -> None:
    """Give the server the tables that a case begins with."""
    server.drop_databases()
    base = case_named(name) / "base" / "logical.sql"
    if base.exists():
        server.execute(base.read_text())


def data(server: MySqlServer) -> dict[str, object]:
    """Return definition and contents of every user's table."""
    tables = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND "
        "table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema', 'binlog_merge')"
    )
    found: dict[str, object] = {}
    for schema, table in tables:
        name = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))
        shown = server.query(f"SHOW CREATE TABLE {name}")[0][1]
        found[name] = (shown, sorted(map(repr, bytes_of(server, f"SELECT * FROM {name}"))))
    return found


def bytes_of(server: MySqlServer, sql: str) -> list[tuple[object, ...]]:
    """Return rows with their texts as the bytes that the server keeps: some are no text in their character set."""
    connection = server.connect()
    connection.use_unicode, connection.decoders = False, {}
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]
    finally:
        connection.close()


@pytest.mark.parametrize("name", keeping(KEPT, CASES))
def test_the_target_has_what_mysqlbinlog_would_make_of_it(name: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    binlog = merged(name, tmp_path)
    prepare(mysql_server, name)
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.apply(mysqlbinlog([tmp_path / file.name for file in binlog.state.files]))
    expected = data(mysql_server)
    prepare(mysql_server, name)
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    result = replay(binlog, target_of(mysql_server, binlog), ReplayOptions())
    assert data(mysql_server) == expected
    assert result.transactions == result.last_rank == binlog.last_rank
    again = replay(binlog, target_of(mysql_server, binlog), ReplayOptions())
    assert again.transactions == 0 and data(mysql_server) == expected


CASE = "three-nodes-online-ddl"


@pytest.fixture(scope="module")
def binlog(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A merged binlog of 210 transactions, two of them DDL."""
    return merged(CASE, tmp_path_factory.mktemp("merged"))


@pytest.fixture(scope="module")
def expected(binlog: Log, _shared_mysql_server: MySqlServer) -> dict[str, object]:
    """What a server has after all of it."""
    prepare(_shared_mysql_server, CASE)
    run(_shared_mysql_server, binlog)
    return data(_shared_mysql_server)


@pytest.fixture
def server(mysql_server: MySqlServer) -> Iterator[MySqlServer]:
    """A server with the tables that the case begins with."""
    prepare(mysql_server, CASE)
    yield mysql_server


@pytest.mark.parametrize("zone", ["+08:00", "-03:30"])
def test_a_ddl_runs_in_the_time_zone_of_its_session(zone: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    """The default that rows get, which are there already, is a moment of that time zone."""
    mysql_server.execute(f"SET GLOBAL time_zone = '{zone}'")
    try:
        added = "ALTER TABLE t ADD c TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'"
        run_statements(
            mysql_server, f"CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1);\n{added};\n", "one"
        )
    finally:
        mysql_server.execute("SET GLOBAL time_zone = '+00:00'")
    expected = mysql_server.query("SELECT UNIX_TIMESTAMP(c) FROM one.t")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    mysql_server.drop_databases()
    run(mysql_server, binlog)
    assert mysql_server.query("SELECT UNIX_TIMESTAMP(c) FROM one.t") == expected != [(1577836800,)]


def run(server: MySqlServer, binlog: Log, **options: Any) -> ReplayResult:
    return replay(binlog, target_of(server, binlog), ReplayOptions(**options))


def position(server: MySqlServer) -> tuple[Any, ...]:
    """Return the position, and how many DDL are begun and not done."""
    return server.query(
        "SELECT `rank`, (SELECT COUNT(*) FROM binlog_merge.replay_ddl) FROM binlog_merge.replay_position"
    )[0]


# Seven cuts between DDL and behind it, and a thousand nowhere; one leaves no group, which is less than either.
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.extended), 7, 1000])
def test_any_batch_comes_to_the_same(batch: int, server: MySqlServer, binlog: Log, expected: dict[str, object]) -> None:
    result = run(server, binlog, batch=batch)
    assert data(server) == expected and position(server) == (210, 0)
    assert [sql.split()[:3] for sql in result.statements] == [["ALTER", "TABLE", "orders"]] * 2
    gtid, key = server.query("SELECT gtid, order_key FROM binlog_merge.replay_position")[0]
    assert gtid == f"{binlog.cluster_uuid}:210" and len(key) == 54


def test_ranges_join_without_a_seam(server: MySqlServer, binlog: Log, expected: dict[str, object]) -> None:
    for last in (1, 50, 90, 91, 92, 150):
        assert run(server, binlog, last_rank=last).last_rank == last
        assert position(server)[0] == last
    with pytest.raises(ConfigError, match="a replay goes on at 151, not at 150"):
        run(server, binlog, first_rank=150)
    run(server, binlog, first_rank=151)
    assert data(server) == expected


def test_a_server_may_begin_in_the_middle(server: MySqlServer, binlog: Log, expected: dict[str, object]) -> None:
    run(server, binlog, last_rank=120)
    server.execute("DROP DATABASE binlog_merge")
    result = run(server, binlog, first_rank=121)
    assert (result.first_rank, result.transactions) == (121, 90) and data(server) == expected


# The places where a process may die while a DDL is carried out, and between commits.
PLACES = ("replay-intended", "replay-ddl-done", "replay-step-done", "replay-before-commit", "replay-committed")


@pytest.mark.parametrize("place", keeping(["replay-ddl-done", "replay-before-commit"], PLACES))
def test_killed_at_every_edge_of_a_ddl(
    place: str, server: MySqlServer, binlog: Log, expected: dict[str, object]
) -> None:
    assert Child(server, binlog, f"{place}:kill", batch=20).ended() == -signal.SIGKILL
    assert data(server) != expected
    run(server, binlog)
    assert data(server) == expected and position(server) == (210, 0)


def test_a_user_needs_few_rights_and_no_gtids(binlog: Log, expected: dict[str, object], tmp_path: Path) -> None:
    options = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--max-allowed-packet=1M")
    with MySqlServer(tmp_path / "server", 102, options) as server:
        prepare(server, CASE)
        rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES"
        server.execute(f"CREATE USER u IDENTIFIED BY 'p'; GRANT {rights} ON *.* TO u")
        target = MysqlTarget(ServerAddress(socket=server.socket, user="u", password="p"), binlog.cluster_uuid)
        with pytest.raises(ReplayStopped, match="REPLICATION_APPLIER"):
            replay(binlog, target, ReplayOptions())
        server.execute("GRANT REPLICATION_APPLIER ON *.* TO u")
        replay(binlog, target, ReplayOptions())
        assert data(server) == expected


def test_two_replays_at_once_are_refused(server: MySqlServer, binlog: Log) -> None:
    first = Ledger(target_of(server, binlog))
    first.begin()
    try:
        with pytest.raises(TargetBusy, match="another replay of this cluster"):
            run(server, binlog)
    finally:
        first.close()


def test_a_record_that_someone_else_changed_stops_the_commit(server: MySqlServer, binlog: Log) -> None:
    target = target_of(server, binlog)
    ledger = Ledger(target)
    ledger.begin()
    session = RowSession(target, 1, ledger.take_over(RankSet(), Checkpoint(0), 1), None)
    session.open()
    server.execute(
        "UPDATE binlog_merge.replay_worker SET commits = 5; UPDATE binlog_merge.replay_position SET `rank` = 5"
    )
    with pytest.raises(ReplayStopped, match="something else has changed"):
        session.record(RankSet.of([1]), RankSet())
    with pytest.raises(ReplayStopped, match="no longer 0"):
        ledger.publish(RankSet.of([1]), Checkpoint(1, "g"))
    session.close()
    ledger.close()


def test_a_faulty_transaction_is_named_and_all_before_it_is_there(
    server: MySqlServer, binlog: Log, expected: dict[str, object]
) -> None:
    run(server, binlog, last_rank=60)
    server.execute("CREATE TABLE shop.kept AS SELECT * FROM shop.orders; DELETE FROM shop.orders")
    with pytest.raises(ReplayStopped) as caught:
        run(server, binlog)
    stopped = caught.value
    assert (
        "the target refuses it: 1032" in stopped.message
        and "Can't find record" in stopped.message
        and f"{binlog.cluster_uuid}:" in stopped.message
    )
    reached = position(server)[0]
    assert f"{binlog.cluster_uuid}:{reached + 1}:" in stopped.message and f"--skip {reached + 1}" in str(stopped)
    assert stopped.order_key and stopped.file and stopped.position
    assert stopped.result.last_rank == reached and stopped.result.transactions == reached - 60
    # Between the two only new rows may have come: those of the log, which are there already.
    server.execute("INSERT INTO shop.orders SELECT * FROM shop.kept; DROP TABLE shop.kept")
    run(server, binlog)
    assert data(server) == expected


def test_a_skipped_transaction_is_recorded(server: MySqlServer, binlog: Log) -> None:
    result = run(server, binlog, last_rank=5, skip=frozenset({3}))
    assert result.skipped == [f"{binlog.cluster_uuid}:3"] and position(server)[0] == 5
    assert server.query("SELECT `rank`, gtid FROM binlog_merge.replay_skipped") == [(3, f"{binlog.cluster_uuid}:3")]


def test_a_ddl_that_the_target_refuses_goes_on_when_it_is_corrected(
    server: MySqlServer, binlog: Log, expected: dict[str, object]
) -> None:
    run(server, binlog, last_rank=90)
    server.execute("ALTER TABLE shop.orders ADD note INT")
    with pytest.raises(ReplayStopped, match="1060"):
        run(server, binlog)
    assert position(server) == (90, 1)
    server.execute("ALTER TABLE shop.orders DROP note")
    run(server, binlog)
    assert data(server) == expected


def kill_sessions(server: MySqlServer) -> None:
    """Cut off everyone else."""
    others = "SELECT id FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()"
    for (session,) in server.query(others):
        server.execute(f"KILL {session}")


def test_a_lost_connection_is_made_again(server: MySqlServer, binlog: Log, expected: dict[str, object]) -> None:
    cuts = [30, 100, 150]

    def disturb(result: ReplayResult) -> None:
        if cuts and result.last_rank >= cuts[0]:
            cuts.pop(0)
            kill_sessions(server)

    result = replay(binlog, target_of(server, binlog), ReplayOptions(batch=10), disturb)
    assert not cuts
    assert data(server) == expected and result.transactions == 210
    assert sum(result.selector.applied.values()) == sum(dry_run(binlog, ReplayOptions()).selector.applied.values())


def test_a_server_that_is_not_there_is_no_long_wait(binlog: Log) -> None:
    target = MysqlTarget(ServerAddress(socket="/nowhere/s"), binlog.cluster_uuid)
    with pytest.raises(ServerRefused, match="/nowhere/s"):
        replay(binlog, target, ReplayOptions())


def test_filters_choose_rows(server: MySqlServer, binlog: Log) -> None:
    dear = "id % 3 = 0"
    rule = ExpressionRule(["shop.orders"], insert=dear, update_old=dear, update_new=dear, delete=dear)
    chosen = Filter(FilterSettings(expression_rules=[rule]))
    base = server.query("SELECT COUNT(*) FROM shop.orders")[0][0]
    result = run(server, binlog, filter=chosen, last_rank=60)
    assert server.query(f"SELECT COUNT(*) FROM shop.orders WHERE {dear}") == [(base,)]
    everything = dry_run(binlog, ReplayOptions(last_rank=60)).selector.applied
    for op in ("insert", "update", "delete"):
        name = ("shop", "orders", op)
        assert result.selector.applied[name] + result.selector.filtered[name] == everything[name]
        assert result.selector.filtered[name]
    assert dry_run(binlog, ReplayOptions(filter=chosen, last_rank=60)).to_dict() == result.to_dict()


def test_filters_choose_kinds_and_statements(binlog: Log) -> None:
    rules = [EventRule(["shop.orders"], ["delete"], ["MODIFY"])]
    planned = dry_run(binlog, ReplayOptions(filter=Filter(FilterSettings(event_rules=rules))))
    assert (
        planned.selector.filtered["shop", "orders", "delete"]
        and not planned.selector.applied["shop", "orders", "delete"]
    )
    assert len(planned.statements) == 1 and planned.left_out[0].endswith("event-filters[0]: ignore-sql MODIFY")


def test_tables_that_are_not_chosen_leave_the_server_as_it_is(server: MySqlServer, binlog: Log) -> None:
    before = data(server)
    result = run(server, binlog, filter=Filter(FilterSettings(rules=["*.*", "!shop.orders"])))
    assert data(server) == before and position(server)[0] == 210
    assert not result.selector.applied and len(result.left_out) == 2
