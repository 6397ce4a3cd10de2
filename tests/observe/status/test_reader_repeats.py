"""A reader that stops at one place and is started again there, over and over, is told: a replica with 1062, clients."""

from pathlib import Path

import pytest

from binlog_merge.binlog_server.log import DumpRequest, PublishedLog
from binlog_merge.binlog_server.readers import OFTEN, Reader, Repeats
from binlog_merge.protocol.commands import Dump
from tests.binlog_server.running import Running, caught_up, from_position, replica_of, replica_status, serving
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.tables import begin_as
from tests.mysql_server import MySqlServer
from tests.observe.status.looking import Cluster, codes, eventually, merged


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return merged("two-nodes", tmp_path)


@pytest.mark.mysql
def test_a_replica_that_stops_with_1062_and_is_started_again(mysql_server: MySqlServer, cluster: Cluster) -> None:
    begin_as(case_named("two-nodes"), mysql_server)
    with serving(cluster.out) as serve:
        page = cluster.observer()
        with replica_of(mysql_server, serve, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
            caught_up(mysql_server, cluster.out)
            gtid, executed = _last_insert(serve), serve.query("SELECT @@gtid_executed")[0][0]
            before = mysql_server.query(f"SELECT GTID_SUBTRACT('{executed}', '{gtid}')")[0][0]
            has = before.rpartition("-")[0] + f"-{int(gtid.rpartition(':')[2]) - 1}"
            mysql_server.execute(f"STOP REPLICA; RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{has}'")
            for number in range(OFTEN):
                assert "reader-repeats" not in codes(page.look()), number
                mysql_server.execute("STOP REPLICA; RESET REPLICA; START REPLICA")
                assert eventually(lambda: replica_status(mysql_server)["Last_SQL_Errno"] == 1062)
            assert eventually(lambda: "reader-repeats" in codes(page.look()))
            (told,) = [problem for problem in page.look().problems if problem.code == "reader-repeats"]
            uuid = mysql_server.query("SELECT @@server_uuid")[0][0]
            assert f"reader {uuid}, " in told.text and f"begun {OFTEN} times after GTIDs {has}, since" in told.text
            assert page.look().healthy

            mysql_server.execute(f"STOP REPLICA; RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{executed}'")
            mysql_server.execute("RESET REPLICA; START REPLICA")
            assert eventually(lambda: "reader-repeats" not in codes(page.look()))


def _last_insert(serve: Running) -> str:
    """Return the GTID of the last transaction that inserts."""
    file = str(serve.query("SHOW BINARY LOGS")[-1][0])
    gtid = found = ""
    for _, _, kind, _, _, info in serve.query(f"SHOW BINLOG EVENTS IN '{file}'"):
        gtid = str(info).split("'")[1] if kind == "Gtid" else gtid
        found = gtid if kind == "Write_rows" else found
    return found


def test_clients_that_come_for_what_there_is_may_come_again(cluster: Cluster) -> None:
    with serving(cluster.out) as serve:
        page = cluster.observer()

        def reads(dump: Dump) -> None:
            with serve.reading(dump) as events:
                next(events)

        for _ in range(2 * OFTEN):
            reads(from_position())
        for _ in range(OFTEN):
            assert codes(page.look()) == set()
            reads(from_position(flags=0))
        assert eventually(lambda: codes(page.look()) == {"reader-repeats"})
        last = serve.query("SHOW BINARY LOGS")[-1]
        reads(from_position(str(last[0]), int(last[1]), flags=0))
        assert eventually(lambda: codes(page.look()) == set())


def test_one_that_gets_further_or_has_not_come_for_long_is_over_it(cluster: Cluster) -> None:
    view = PublishedLog(cluster.out).view()
    now = [0.0]
    repeats = Repeats(lambda: now[0])

    def begins(position: int = 4, peer: str = "10.0.0.1:1234", server_id: int = 1) -> list[int]:
        start = DumpRequest(view.name(view.first), position)
        repeats.begins(Reader(peer, server_id, "", "", 0, "", 4, False, "rep"), start, view, "there")
        return [one.times for one in repeats.now()]

    assert [begins() for _ in range(4)] == [[], [], [3], [4]]
    assert [begins(peer=f"10.0.0.1:{n}", server_id=2) for n in range(3)] == [[4], [4], [4, 3]]
    assert begins(120) == [3] and begins() == [3], "another place, and back again: it is a new one"
    assert [begins(), begins(view.size(view.first)), begins(), begins()] == [[3]] * 4
    now[0] += 601
    assert begins() == [] and [begins(), begins()] == [[], [3]]
