"""A real MySQL as the replica of a merged binlog: it ends with what the cluster's nodes hold."""

import shutil
from pathlib import Path

import pytest

from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import before_file, remove
from tests.binlog_server.growing import Growing
from tests.binlog_server.merged import merged
from tests.binlog_server.running import caught_up as _caught_up
from tests.binlog_server.running import eventually, from_position, remote_mysqlbinlog, serving
from tests.binlog_server.running import replica_of as _replica
from tests.binlog_server.running import replica_status as _status
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.merge_e2e.test_ddl_session import STORY, all_on_one_table, play
from tests.merge_e2e.test_ddl_session import held as all_held
from tests.merge_e2e.test_ddl_session import merged as merged_story
from tests.mysql_server import MySqlServer
from tests.soak.cutting import Proxy

pytestmark = pytest.mark.mysql


def test_a_replica_follows_while_merges_publish(
    mysql_server: MySqlServer, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    """With DDL under way on three nodes; over TLS, which a replica of 9.7 asks for; restarted on the way."""
    growing = Growing.of(tmp_path)
    case, out = growing.case, growing.out
    growing.publish(0.4)
    begin_as(case, mysql_server)
    tls = {"tls_cert": certificate[0], "tls_key": certificate[1]}
    with serving(out, **tls) as source, _replica(mysql_server, source, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=1"):
        _caught_up(mysql_server, out)
        assert state_of(out).rank > 0
        growing.publish(0.7)
        _caught_up(mysql_server, out)
        ((server_id, _, _, source_id, uuid),) = source.query("SHOW REPLICAS")
        assert [(server_id, source_id, uuid)] == mysql_server.query("SELECT @@server_id, 9001, @@server_uuid")
        mysql_server.stop()
        growing.publish(1)
        mysql_server.start()
        _caught_up(mysql_server, out)
        assert len(written(out)) > 2
        assert held(case, mysql_server) == expected(case)
        file, position = PublishedLog(out).view().end
        status = _status(mysql_server)
        assert (status["Source_Log_File"], status["Read_Source_Log_Pos"]) == (file, position)
        assert str(status["Source_UUID"]) == state_of(out).header.cluster_uuid  # type: ignore[union-attr]


@pytest.mark.parametrize("more", ["SOURCE_SSL=0", "SOURCE_COMPRESSION_ALGORITHMS='zstd'"])
def test_a_semi_synchronous_replica_says_what_it_has_stored(more: str, mysql_server: MySqlServer) -> None:
    """Without TLS; and over TLS, compressed, with acknowledgements of both kinds of packets around them."""
    case, out = case_named("all-types"), merged("all-types")
    begin_as(case, mysql_server)
    mysql_server.execute("INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'")
    try:
        mysql_server.execute("SET GLOBAL rpl_semi_sync_replica_enabled = 1")
        with serving(out) as source, _replica(mysql_server, source, f"SOURCE_AUTO_POSITION=1, {more}"):
            _caught_up(mysql_server, out)
            assert mysql_server.query("SHOW STATUS LIKE 'Rpl_semi_sync_replica_status'")[0][1] == "ON"
            file, position = PublishedLog(out).view().end
            assert eventually(
                lambda: [reader.acknowledged for reader in source.server.readers()] == [f"{file}:{position}"]
            )
            assert source.query("SHOW FULL REPLICAS")[0][8] == f"{file}:{position}"
            assert held(case, mysql_server) == expected(case)
    finally:
        mysql_server.execute("UNINSTALL PLUGIN rpl_semi_sync_replica")


@pytest.mark.parametrize("name", ["all-types", "partial-json", "ddl-by-markers"])
def test_a_replica_by_position_ends_with_what_the_nodes_hold(
    name: str, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    case, out = case_named(name), merged(name)
    begin_as(case, mysql_server)
    with (
        serving(out) as source,
        _replica(mysql_server, source, "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4, SOURCE_SSL=0"),
    ):
        _caught_up(mysql_server, out)
        assert held(case, mysql_server) == expected(case)


def test_a_replica_goes_on_over_removed_files_if_it_has_what_was_in_them(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    """Also mysqlbinlog, which fetches what is left."""
    growing = Growing.of(tmp_path, "rotation", size=2000)
    case, out = growing.case, growing.out
    growing.publish(0.5)
    begin_as(case, mysql_server)
    with serving(out) as source, _replica(mysql_server, source, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
        _caught_up(mysql_server, out)
        mysql_server.execute("STOP REPLICA")
        manifest = Manifest.load(out)
        files = before_file(manifest.state, manifest.state.files[-1].name)
        remove(out, manifest, files, {})
        growing.publish(1)
        there = list(written(out))
        assert len(files) > 1 and len(there) > 1
        mysql_server.execute("START REPLICA")
        _caught_up(mysql_server, out)
        assert held(case, mysql_server) == expected(case)
        assert [row[0] for row in source.query("SHOW BINARY LOGS")] == there
        purged = f"{state_of(out).header.cluster_uuid}:1-{files[-1].last_rank}"  # type: ignore[union-attr]
        assert source.query("SELECT @@global.gtid_purged") == [(purged,)]
        remote_mysqlbinlog(source.port, "-R", "--raw", "--to-last-log", there[0], folder=tmp_path)
        assert {name: (tmp_path / name).read_bytes() for name in there} == written(out)
        text = remote_mysqlbinlog(source.port, "-R", "--verify-binlog-checksum", "--to-last-log", there[0])
        assert b"Xid = " in text
        with pytest.raises(RuntimeError, match="Could not find first log file name in binary log index file"):
            remote_mysqlbinlog(source.port, "-R", "--verify-binlog-checksum", "--to-last-log", files[0].name)
        mysql_server.execute("STOP REPLICA; RESET REPLICA; RESET BINARY LOGS AND GTIDS; START REPLICA")
        error = _io_error(mysql_server)
        assert "purged required binary logs" in error and f"missing transactions are '{purged}'" in error


def test_a_replica_goes_on_when_its_connection_was_cut_within_a_transaction(mysql_server: MySqlServer) -> None:
    """One with parallel workers, of which one has begun the transaction: it must hear that this comes again."""
    case, out = case_named("all-types"), merged("all-types")
    begin_as(case, mysql_server)
    budgets = (3000, 5000, 7000, 9000)
    with (
        serving(out) as source,
        Proxy(source.port, "", budgets) as proxy,
        _replica(mysql_server, proxy, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"),
    ):
        _caught_up(mysql_server, out)
        assert proxy.cuts["close"] == len(budgets)
        assert held(case, mysql_server) == expected(case)


def test_a_replica_that_has_other_transactions_is_refused(mysql_server: MySqlServer) -> None:
    out = merged("two-nodes")
    view = PublishedLog(out).view()
    mysql_server.execute(f"SET GLOBAL gtid_purged = '{view.header.cluster_uuid}:1-{view.state.rank + 1}'")
    with serving(out) as source, _replica(mysql_server, source, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
        assert "more GTIDs than the source has" in _io_error(mysql_server)


def test_a_replica_is_not_given_what_it_crashes_on(mysql_server: MySqlServer) -> None:
    """Order keys behind XID: a MySQL replica, which names its channel, is refused; others read them."""
    with serving(merged("two-nodes", cts="end")) as source:
        assert source.events(from_position())
        with _replica(mysql_server, source, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
            assert "output.cts: begin" in _io_error(mysql_server)
        assert mysql_server.running


def _io_error(server: MySqlServer) -> str:
    """Wait until the receiver tells an error, and return it."""
    for _ in range(2000):
        status = _status(server)
        if status["Last_IO_Errno"]:
            assert status["Last_IO_Errno"] in (1236, 13114)
            return str(status["Last_IO_Error"])
    raise AssertionError("no error")


def test_events_of_more_than_a_packet_come_whole(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """34 MB in a row, which takes three packets, of a shard made for it."""
    mysql_server.execute("CREATE DATABASE shop; CREATE TABLE shop.big (id INT PRIMARY KEY, data LONGBLOB)")
    mysql_server.execute("INSERT INTO shop.big VALUES (1, REPEAT(RANDOM_BYTES(1000), 34000)), (2, 'small')")
    (tmp_path / "node").mkdir()
    mysql_server.execute("FLUSH BINARY LOGS")
    for file in mysql_server.binlog_files()[:-1]:
        shutil.copy(file, tmp_path / "node")
    config = tmp_path / "cluster.yaml"
    config.write_text(
        "version: 1\nname: big\nnodes: [{source-id: dn-1, files: 'node/binlog.*'}]\nshard-mode: pessimistic\n"
        "commit-tso: {carrier: gtid-time}\n"
    )
    merge(config, tmp_path / "out")
    files = written(tmp_path / "out")
    (tmp_path / "raw").mkdir()
    with serving(tmp_path / "out") as source:
        options = ("--read-from-remote-server", "--raw", "--to-last-log", next(iter(files)))
        remote_mysqlbinlog(source.port, *options, folder=tmp_path / "raw")
    assert max(map(len, files.values())) > 34_000_000
    assert {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()} == files


def test_a_replica_runs_each_ddl_in_the_session_it_had(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """It ends with what the node holds: microseconds, thread, locale, character sets, counters."""
    story = all_on_one_table() + "; " + STORY["auto_increment"]
    with MySqlServer(tmp_path / "node", server_id=104) as node:
        folder = play(node, story, tmp_path / "story")
        merged_story(folder, "optimistic")
        mysql_server.execute("RESET BINARY LOGS AND GTIDS")
        with serving(folder / "out") as source, _replica(mysql_server, source, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
            _caught_up(mysql_server, folder / "out")
            assert all_held(mysql_server) == all_held(node)
