"""Several processes: readers get the same from a sender, and the server knows them, ends them and counts them."""

import contextlib
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.binlog.constants import EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.files.manifest import MANIFEST_NAME
from tests.binlog_server.merged import merged
from tests.binlog_server.running import Running, eventually, from_position, remote_mysqlbinlog, serving
from tests.binlog_server.test_replica import _caught_up, _replica
from tests.binlog_server.test_snapshots import Growing
from tests.effort import keeping
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import MySqlServer

CASE = "two-nodes"


def _senders(running: Running) -> list[Any]:
    return [one._process for one in running.server._senders._senders if one is not None and one.alive]


@pytest.mark.mysql
@pytest.mark.parametrize("algorithm", keeping(["zstd"], ["uncompressed", "zstd"]))
def test_mysqlbinlog_gets_the_files_from_a_sender(algorithm: str, tmp_path: Path) -> None:
    files = written(merged(CASE))
    with serving(merged(CASE), processes=2) as running:
        options = ("--read-from-remote-server", "--raw", "--ssl-mode=DISABLED", f"--compression-algorithms={algorithm}")
        remote_mysqlbinlog(running.port, *options, "--get-server-public-key", *files, folder=tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
        assert len(_senders(running)) == 1
        with pytest.raises(RuntimeError, match="Could not find first log file"):
            remote_mysqlbinlog(running.port, "--read-from-remote-server", "--ssl-mode=DISABLED", "binlog.000099")


@pytest.mark.mysql
@pytest.mark.parametrize(
    "more", keeping(["SOURCE_SSL=0"], ["SOURCE_SSL=0", "SOURCE_SSL=0, SOURCE_COMPRESSION_ALGORITHMS='zlib'"])
)
def test_a_semi_synchronous_replica_follows_a_sender(more: str, mysql_server: MySqlServer) -> None:
    out, case = merged("all-types"), case_named("all-types")
    begin_as(case, mysql_server)
    mysql_server.execute("INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'")
    try:
        mysql_server.execute("SET GLOBAL rpl_semi_sync_replica_enabled = 1")
        with (
            serving(out, processes=2) as source,
            _replica(mysql_server, source, f"SOURCE_AUTO_POSITION=1, {more}"),
        ):
            _caught_up(mysql_server, out)
            assert held(case, mysql_server) == expected(case)
            assert len(_senders(source)) == 1
            file, position = PublishedLog(out).view().end
            place = f"{file}:{position}"
            assert eventually(lambda: [reader.acknowledged for reader in source.server.readers()] == [place])
    finally:
        mysql_server.execute("UNINSTALL PLUGIN rpl_semi_sync_replica")


def test_readers_of_senders_are_shown_and_ended_and_get_what_is_published_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(merged(CASE), out)
    lines = (out / MANIFEST_NAME).read_text().splitlines(keepends=True)
    (out / MANIFEST_NAME).write_text("".join(lines[:-1]))
    with serving(out, processes=3) as running, contextlib.ExitStack() as readers:
        view = PublishedLog(out).view()
        events = [readers.enter_context(running.reading(from_position(flags=0))) for _ in "123"]
        for each in events:
            next(each)
        assert eventually(lambda: [reader.waiting for reader in running.server.readers()] == [True] * 3)
        rows = running.query("SHOW FULL REPLICAS")
        assert [row[6:8] + row[10:11] for row in rows] == [(*view.end, 0)] * 3
        assert len(_senders(running)) == 2
        (out / "whole").write_text("".join(lines))
        (out / "whole").replace(out / MANIFEST_NAME)  # at once, as merges do
        end = PublishedLog(out).view().end
        assert end != view.end
        assert eventually(lambda: [row[6:8] for row in running.query("SHOW FULL REPLICAS")] == [end] * 3)
        ids = [client.session.settings.connection_id for client in running.server._clients]
        running.query(f"KILL {ids[0]}")
        assert eventually(lambda: len(running.server.readers()) == 2)
        for sender in _senders(running):
            os.kill(sender.pid, signal.SIGKILL)
        assert eventually(lambda: not running.server.readers())
        assert sum("the process that sent to it has died" in line for line in running.reports) == 2
        for each in events:
            with pytest.raises(pymysql.MySQLError):
                list(each)
        assert running.events(from_position()), "another sender begins"
        begun = _senders(running)
    assert not any(sender.is_alive() for sender in begun)


def test_a_sender_has_readers_beyond_the_soft_limit_of_descriptors() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(merged(CASE), processes=2) as running, contextlib.ExitStack() as readers:
        few = len(list(Path("/proc/self/fd").iterdir())) + 30
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, limit[1]))  # the sender begins with that
        try:
            next(readers.enter_context(running.reading(from_position(flags=0))))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        for _ in range(few // 4):
            next(readers.enter_context(running.reading(from_position(flags=0))))
        assert eventually(lambda: [reader.waiting for reader in running.server.readers()] == [True] * (few // 4 + 1))
        assert not [line for line in running.reports if "left" in line]


def test_nobody_is_told_less_than_a_sender_has_sent(tmp_path: Path) -> None:
    """Whoever reads rows after an event must find what it tells, or he takes old rows for newer ones."""
    growing = Growing(tmp_path)
    growing.publish(50)
    growing.replay(1)
    with (
        serving(growing.out, growing.file, processes=2) as running,
        contextlib.closing(running.connect(autocommit=True)) as connection,
        connection.cursor() as cursor,
        running.reading(from_position(flags=0)) as events,
    ):
        tables = running.server.tables()
        assert tables is not None
        for event in events:
            if event[4] != EventType.GTID_LOG_EVENT or (sent := Gtid.parse(event[EVENT_HEADER_LEN:-4]).gno) < 50:
                continue
            cursor.execute("SHOW BINARY LOG STATUS")
            ((*_, executed),) = cursor.fetchall()
            cursor.execute("SELECT COUNT(*) FROM shop.orders")
            assert int(executed.rpartition("-")[2]) >= sent <= tables.rank
            if sent == 60:
                break
            growing.publish(sent + 1)
        assert len(_senders(running)) == 1
