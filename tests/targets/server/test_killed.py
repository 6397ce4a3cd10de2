"""Replays that are killed, again and again and in pairs: they go on where they were, to what the source has."""

import os
import random
import signal
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ReplayStopped, TargetBusy
from binlog_merge.log.checkpoint import Checkpoint, checkpoints_of
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
from binlog_merge.targets.server.ledger import Ledger
from binlog_merge.targets.server.mysql import MysqlTarget, RowSession
from binlog_merge.targets.server.run import replay
from snapshot_store.server import ServerAddress
from tests.effort import keeping
from tests.mysql_server import MySqlServer
from tests.targets.server.killing import KILLED, PLACES, Child, kill_in_pairs
from tests.targets.server.test_replay import data, position
from tests.targets.server.workload import write_log

pytestmark = pytest.mark.mysql

Merged = tuple[Log, str, dict[str, object]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, _shared_mysql_server: MySqlServer) -> Merged:
    """A log with order keys, the tables it begins with, and what its source came to."""
    binlog, base = write_log(_shared_mysql_server, tmp_path_factory.mktemp("work"), 11, 500)
    return binlog, base, data(_shared_mysql_server)


@pytest.fixture
def server(mysql_server: MySqlServer, log: Merged) -> Iterator[MySqlServer]:
    """A server with the tables that the log begins with."""
    mysql_server.execute(log[1])
    yield mysql_server


def run(server: MySqlServer, binlog: Log, **options: Any) -> ReplayResult:
    return replay(binlog, target_of(server, binlog), ReplayOptions(**options))


def target_of(server: MySqlServer, binlog: Log) -> MysqlTarget:
    return MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)


def recorded(server: MySqlServer) -> Checkpoint:
    """Return the position as the server has it."""
    return Checkpoint(*server.query("SELECT `rank`, gtid, order_key FROM binlog_merge.replay_position")[0])


def check(server: MySqlServer, log: Merged, said: str = "") -> None:
    """Let a replay come to its end: the server has what the source has, and says so."""
    binlog, _, expected = log
    run(server, binlog, workers=2)
    assert data(server) == expected, said
    assert recorded(server) == checkpoints_of(binlog, {binlog.last_rank})[binlog.last_rank], said


# Of rows and of a DDL one edge each; at every edge of a DDL it is killed in test_replay, of several sessions below.
@pytest.mark.parametrize(
    "place",
    [
        "replay-committed",
        pytest.param("replay-ddl-done", marks=pytest.mark.extended),
        pytest.param("replay-before-commit", marks=pytest.mark.extended),
        pytest.param("replay-intended", marks=pytest.mark.extended),
    ],
)
def test_killed_at_an_edge(place: str, server: MySqlServer, log: Merged) -> None:
    child = Child(server, log[0], f"{place}:kill:4", workers=3, batch=4, keep_order=place < "replay-d")
    assert child.ended() == -signal.SIGKILL
    check(server, log)


# What is killed has taken over, has rows that are not committed, and a DDL that is done; the others lie between these.
KEPT = ("replay-taken-over", "replay-ddl-done")


@pytest.mark.parametrize(
    ("place", "workers"),
    keeping(KEPT, zip(PLACES, cycle((1, 4)), strict=False)),
)
def test_killed_and_killed_again_before_the_books_are_brought_up_to_date(
    workers: int, place: str, server: MySqlServer, log: Merged
) -> None:
    """Sessions have committed more than the position says; who takes over is killed, and who takes over from that."""
    binlog = log[0]
    options: dict[str, Any] = {"workers": workers, "batch": 3, "keep_order": workers == 1}
    assert Child(server, binlog, "replay-committed:kill:9", **options).ended() == KILLED
    for _ in range(2):
        assert Child(server, binlog, f"{place}:kill", **options).ended() == KILLED
        here = recorded(server)
        # The position's key is its own transaction's, wherever the replay was killed.
        assert here == checkpoints_of(binlog, {here.rank})[here.rank]
    check(server, log)


def test_a_position_whose_key_was_left_behind_is_gone_on_from(server: MySqlServer, log: Merged) -> None:
    """A replay once raised the rank alone, and left GTID and order key those of an earlier transaction."""
    run(server, log[0], last_rank=100)
    early = checkpoints_of(log[0], {40})[40]
    assert early.key is not None
    server.execute(f"UPDATE binlog_merge.replay_position SET gtid = '{early.gtid}', order_key = '{early.key}'")
    check(server, log)


def test_another_output_is_refused_behind_rows_and_at_the_end(server: MySqlServer, log: Merged) -> None:
    for rank in (100, log[0].last_rank):
        run(server, log[0], last_rank=rank)
        key = recorded(server).key
        server.execute("UPDATE binlog_merge.replay_position SET order_key = REPEAT('7', 54)")
        with pytest.raises(ReplayStopped, match=f"(?s)transaction {rank} has the order key 7.*another output"):
            run(server, log[0])
        server.execute(f"UPDATE binlog_merge.replay_position SET order_key = '{key}'")
    check(server, log)


def test_sessions_of_a_replay_that_was_cut_off_open_no_more(server: MySqlServer, log: Merged) -> None:
    """All its connections are gone, and it does not know it: when its next session opens another has taken over."""
    target = target_of(server, log[0])
    first = Ledger(target)
    assert first.begin() is None
    given = first.take_over(RankSet(), Checkpoint(0), 5)
    first.close()
    late = RowSession(target, 5, given, None)
    second = Ledger(target)
    assert second.begin() is not None
    # Between looking and taking over, too, it is not let in.
    with pytest.raises(TargetBusy, match="has taken over"):
        late.open()
    second.take_over(RankSet(), Checkpoint(0), 5)
    with pytest.raises(TargetBusy, match="has taken over"):
        late.open()
    second.finish()
    check(server, log)


def test_who_holds_a_target_is_named(server: MySqlServer, log: Merged) -> None:
    first = Ledger(target_of(server, log[0]))
    first.begin()
    ((session,),) = first.ask("SELECT CONNECTION_ID()")
    with pytest.raises(TargetBusy) as caught:
        run(server, log[0])
    assert f"KILL {session} (root@localhost)" in str(caught.value)
    server.execute(f"KILL {session}")
    first.close()
    check(server, log)


# One session commits in the order of the log, as several do that keep it: what they add is what they have beside it.
@pytest.mark.extended  # at places that are named: above
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.extended), 4])
def test_pairs_of_kills_within_a_second(workers: int, server: MySqlServer, log: Merged) -> None:
    assert kill(server, log, workers, 20, 7) > 0  # how many depends on the machine: it may be through before


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_hundreds_of_times(workers: int, mysql_server: MySqlServer, tmp_path: Path) -> None:
    seed, kills, wanted = int(os.environ.get("SOAK_SEED", "1")), 0, int(os.environ.get("SOAK_KILLS", "250"))
    while kills < wanted:
        binlog, base = write_log(mysql_server, tmp_path / str(seed), seed, 500)
        expected = data(mysql_server)
        mysql_server.drop_databases()
        mysql_server.execute(base)
        kills += kill(mysql_server, (binlog, base, expected), workers, wanted - kills, seed)
        print(f"{workers} workers, seed {seed}: {kills} kills, never refused", flush=True)
        seed += 1


def kill(server: MySqlServer, log: Merged, workers: int, kills: int, seed: int) -> int:
    """Kill replays in pairs, so often or until one is through; two at once now and then. Return how many kills."""
    binlog, r = log[0], random.Random(seed)

    def start(failpoint: str) -> Child:
        options = {"keep_order": r.random() < 0.5, "batch": r.choice((1, 2, 5, 30)), "workers": workers}
        child = Child(server, binlog, failpoint, **options)
        if r.random() < 0.1:
            # A second one is refused, or takes over what a kill has left; it is killed, too.
            time.sleep(0.05)
            beside = Child(server, binlog, retry_seconds=0.1, **options)
            assert beside.killed_after(r.random() * 0.3) in (KILLED, TargetBusy.exit_code, 0)
        return child

    done = kill_in_pairs(start, r, kills // 2)
    check(server, log, f"seed {seed}")
    assert position(server) == (binlog.last_rank, 0)
    return done
