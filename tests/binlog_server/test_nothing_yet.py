"""Readers that come before anything is published, or where a file has ended and the next is still to come."""

import contextlib
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer

import pytest

from binlog_merge.binlog.control import HeartbeatV2
from binlog_merge.binlog_server.feed import DumpOptions, Sending
from binlog_merge.binlog_server.log import DumpRequest, PublishedLog
from binlog_merge.binlog_server.stream import AtEnd, Opened
from binlog_merge.errors import ManifestError
from binlog_merge.files.manifest import Header, Manifest, Publish
from tests.binlog_server.merged import merged_copy
from tests.binlog_server.running import PASSWORD, USER, serving
from tests.binlog_server.test_replica import _caught_up, _replica, _status
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import PREFIX, MySqlServer

CASE = "three-nodes-online-ddl"


@dataclass
class Stepwise:
    """An output whose files are published when it is said: at first nothing is, but that there is one."""

    out: Path
    header: Header
    whole: Publish

    @classmethod
    def of(cls, folder: Path, name: str = CASE) -> "Stepwise":
        out = merged_copy(name, folder)
        state = Manifest.load(out).state
        assert state.header is not None and state.last is not None and len(state.files) > 3
        (out / "manifest.jsonl").unlink()
        Manifest.load(out).append(state.header)
        return cls(out, state.header, replace(state.last, files=state.files))

    def publish(self, files: int | None = None) -> None:
        """Publish the first so many files, all of them closed, or everything."""
        manifest = Manifest.load(self.out)
        new = self.whole.files[len(manifest.state.files) : files]
        manifest.append(replace(self.whole, run=manifest.state.run + 1, files=new, rank=new[-1].last_rank))


@pytest.fixture
def output(tmp_path: Path) -> Stepwise:
    return Stepwise.of(tmp_path)


def _beats(server: MySqlServer, more: int) -> None:
    """Wait until a replica has received more heartbeats; an error of its threads fails the test."""
    sql = "SELECT COUNT_RECEIVED_HEARTBEATS FROM performance_schema.replication_connection_status"
    ((first,),) = server.query(sql)
    until = time.monotonic() + 120
    while server.query(sql)[0][0] < first + more:
        status = _status(server)
        assert not status["Last_IO_Error"] and time.monotonic() < until, status
        time.sleep(0.05)


BY_POSITION = "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4, SOURCE_SSL=0"
BY_GTIDS = "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"


@pytest.mark.mysql
# A place that says nothing is the first position.
@pytest.mark.parametrize("place", [BY_POSITION, BY_GTIDS, pytest.param("SOURCE_SSL=0", marks=pytest.mark.extended)])
def test_a_replica_goes_on_by_itself_when_something_is_published(
    place: str, mysql_server: MySqlServer, output: Stepwise
) -> None:
    case = case_named(CASE)
    begin_as(case, mysql_server)
    with serving(output.out) as source, _replica(mysql_server, source, place):
        _beats(mysql_server, 3)
        output.publish(2)
        _caught_up(mysql_server, output.out)
        # The last file is closed, the next one is still to come: there, and for a replica that comes again.
        _beats(mysql_server, 3)
        mysql_server.execute("STOP REPLICA IO_THREAD; START REPLICA IO_THREAD")
        _beats(mysql_server, 3)
        output.publish(3)
        _caught_up(mysql_server, output.out)
        output.publish()
        _caught_up(mysql_server, output.out)
        _beats(mysql_server, 2)
        assert held(case, mysql_server) == expected(case)
        file, position = PublishedLog(output.out).view().end
        status = _status(mysql_server)
        assert (status["Source_Log_File"], status["Read_Source_Log_Pos"]) == (file, position)


@pytest.mark.mysql
def test_mysqlbinlog_writes_the_files_as_they_come(mysql_server: MySqlServer, output: Stepwise, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with serving(output.out) as source:
        command = [str(PREFIX / "bin" / "mysqlbinlog"), "--no-defaults", "--host=127.0.0.1", f"--port={source.port}"]
        command += [f"--user={USER}", f"--password={PASSWORD}", "--read-from-remote-server", "--raw", "--stop-never"]
        with subprocess.Popen([*command, "binlog.000001"], cwd=tmp_path / "raw", stderr=subprocess.PIPE) as process:
            try:
                for files in (2, 3, None):
                    time.sleep(0.5)
                    output.publish(files)
                files_there = written(output.out)
                _until(lambda: {p.name: p.read_bytes() for p in (tmp_path / "raw").iterdir()} == files_there)
                assert process.poll() is None
            finally:
                process.terminate()


def test_mysql_replication_gets_the_rows_when_they_come(output: Stepwise) -> None:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    kinds = [WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]
    with serving(output.out) as source:
        settings = {"host": "127.0.0.1", "port": source.port, "user": USER, "passwd": PASSWORD}
        for place in ({"log_file": "binlog.000001", "log_pos": 4, "resume_stream": True}, {"auto_position": ""}):
            reader = BinLogStreamReader(
                settings, server_id=7, blocking=True, only_events=kinds, slave_heartbeat=0.05, **place
            )
            with contextlib.closing(reader):
                # It connects when it is first asked; by then nothing is there the first time, two files the second.
                timer = Timer(0.5, output.publish, [2 if len(place) > 1 else None])
                timer.start()
                wanted = 2 if len(place) > 1 else len(output.whole.files)
                ends = {file.name for file in output.whole.files[:wanted]}
                seen = 0
                for event in reader:
                    seen += len(event.rows)
                    if reader.log_file == max(ends):
                        break
                timer.join()
        assert seen


@pytest.mark.parametrize("v2", [False, True])
def test_heartbeats_beyond_4_gib_say_where_the_reader_is(v2: bool) -> None:
    """One of the older kind has 32 bits for it: what goes out instead has 64, and moves nothing."""
    sending = Sending(DumpOptions(DumpRequest("", 4), True, False, v2, 1.0), 9001)
    place = (5 << 32) + 77
    (rotate,) = sending.before(Opened("binlog.000001", place))
    assert list(sending.before(AtEnd("binlog.000001", place))) == []
    beat = sending.heartbeat()
    if v2:
        assert beat[5] == 41 and HeartbeatV2.parse(beat[20:]) == HeartbeatV2(b"binlog.000001", place)
    else:
        assert beat == rotate and beat[5] == 4
        assert struct.unpack("<Q", beat[20:28]) == (place,) and beat[28:] == b"binlog.000001"
        assert struct.unpack("<IH", beat[14:20]) == (0, 0x20)
    list(sending.before(AtEnd("binlog.000001", 0xFFFFFFFF)))
    assert sending.heartbeat()[5] == (41 if v2 else 27)


def test_the_command_waits_for_the_first_merge(output: Stepwise, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("binlog-merge")
    password = tmp_path / "pw"
    password.touch(0o600)  # one that others may read is told of
    password.write_text(PASSWORD)
    later = tmp_path / "later"
    command = [program, "serve", later, "--port", "0", "--password-file", password]
    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    assert missing.returncode == ManifestError.exit_code and "there is no such directory" in missing.stderr
    later.mkdir()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert f"no merge has written to {later} yet" in process.stderr.readline()
        output.publish()
        for path in [*output.out.glob("binlog.*"), output.out / "manifest.jsonl"]:
            shutil.copy(path, later)
        assert f"{len(output.whole.files)} file" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 143


def _until(holds: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
