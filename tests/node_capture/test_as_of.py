"""The note beside captured files: when a server vouches for its clock, and when it does not."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import EventHeader
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.as_of import AS_OF_NAME, AsOf, read_as_of
from binlog_merge.files.head import file_identity
from binlog_merge.files.source import LocalSource
from binlog_merge.node_capture.beside import Activity, rows_of
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture
from binlog_merge.node_capture.server_end import Standing, standing_of
from tests.effort import effort
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import capture_now, cluster, url_of

pytestmark = pytest.mark.mysql


@pytest.fixture
def config(mysql_server: MySqlServer, tmp_path: Path) -> Path:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
    return cluster(tmp_path, {"dn-1": url_of(mysql_server)})


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread brings about."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def note_of(config: Path, node: str = "dn-1") -> AsOf | None:
    notes, warnings = read_as_of(MergeConfig.load(config).node(node).files)
    assert not warnings
    return notes[0] if notes else None


@contextmanager
def capturing(config: Path, lines: list[str] | None = None) -> Iterator[Path]:
    """Capture as the servers write, in a thread, as long as the block runs."""
    loaded, stop = MergeConfig.load(config), threading.Event()
    told: Callable[[str, str], None] = lambda node, text: (lines if lines is not None else []).append(text)  # noqa: E731
    options = CaptureOptions(follow=True)
    arguments = {"report": told, "stop": stop}
    thread = threading.Thread(target=lambda: capture(loaded, Path(loaded.capture.dir), options, **arguments))
    thread.start()
    try:
        yield Path(loaded.capture.dir)
    finally:
        stop.set()
        thread.join()


def clock(server: MySqlServer) -> int:
    return int(server.query("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")[0][0])


def test_the_note_says_where_the_log_ends(mysql_server: MySqlServer, config: Path) -> None:
    for step in ("INSERT INTO d.t (b) VALUES ('a')", "FLUSH BINARY LOGS", "INSERT INTO d.t (b) VALUES ('b')"):
        mysql_server.execute(step)
        before = clock(mysql_server)
        capture_now(config)
        note = note_of(config)
        ((file, position, *_),) = mysql_server.query("SHOW BINARY LOG STATUS")
        assert note is not None and (note.file, note.position) == (file, position)
        assert before <= note.clock_us <= clock(mysql_server)
        with LocalSource(str(config.parent / "captured" / "dn-1" / note.file)) as source:
            assert note.identity == file_identity(source)


def test_the_note_goes_on_while_the_node_is_idle(mysql_server: MySqlServer, config: Path) -> None:
    with capturing(config):
        until(lambda: note_of(config) is not None)
        first = note_of(config)
        assert first is not None
        until(lambda: (note_of(config) or first).clock_us > first.clock_us)
        mysql_server.execute("INSERT INTO d.t (b) VALUES ('a')")
        until(lambda: (note_of(config) or first).position > first.position)


def commits(server: MySqlServer) -> list[tuple[str, int, int]]:
    """Return (file, position, commit time in microseconds) of every transaction in a server's log."""
    found = []
    for file in server.binlog_files():
        data, at = file.read_bytes(), 4
        while at < len(data):
            header = EventHeader.parse(data, at)
            if header.type_code == EventType.GTID_LOG_EVENT:
                time_us = Gtid.parse(data[at + 19 : at + header.event_size - 4]).original_commit_timestamp
                assert time_us is not None
                found.append((file.name, at, time_us))
            at += header.event_size
    return found


def test_what_commits_behind_a_standing_commits_later(mysql_server: MySqlServer, config: Path) -> None:
    """The exact argument of `capture.standing`, with commits in groups, XA, DDL and files that end."""
    enough = threading.Event()

    def write(number: int) -> None:
        session = mysql_server.connect("d")
        with session.cursor() as cursor:
            for turn in range(1_000_000):
                if enough.is_set():
                    return
                statement = f"INSERT INTO t (b) VALUES (REPEAT('x', {2_000_000 if turn % 50 == 49 else 20}))"
                if number == 1 and turn % 20 == 0:
                    statement = f"XA START 'x{turn}'; {statement}; XA END 'x{turn}'; XA PREPARE 'x{turn}'"
                    statement += f"; XA COMMIT 'x{turn}'"
                if number == 2 and turn % 100 == 99:
                    statement = "FLUSH BINARY LOGS; CREATE TABLE IF NOT EXISTS u (a INT); DROP TABLE u"
                cursor.execute(statement)
                while cursor.nextset():
                    pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    session, standings = mysql_server.connect(), list[Standing]()
    try:
        until(lambda: len(commits(mysql_server)) > 50)
        for _ in range(effort(300, 1000)):
            standings.append(standing_of(lambda sql: rows_of(session, sql)))
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    found = commits(mysql_server)
    places = [(file, at) for file, at, _ in found]
    followed = 0
    for standing in standings:
        assert standing.doubt is None
        behind = found[bisect_left(places, (standing.file, standing.position)) :]
        followed += bool(behind)
        assert all(time_us >= standing.clock_us for _, _, time_us in behind)
    assert followed > len(standings) / 2


def test_a_server_that_vouches_for_nothing(mysql_server: MySqlServer, config: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with capturing(config, lines):
        until(lambda: note_of(config) is not None)
        mysql_server.execute("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1")
        try:
            until(lambda: note_of(config) is None)
            assert [line for line in lines if line.startswith("it is a replica, ") and "waits for it" in line]
        finally:
            mysql_server.execute("RESET REPLICA ALL")
        until(lambda: note_of(config) is not None)
        assert lines[-1] == "its clock counts again"


def test_no_clock_is_asked_if_it_is_off(mysql_server: MySqlServer, config: Path) -> None:
    capture_now(config)
    assert note_of(config) is not None
    config.write_text(config.read_text() + "capture: {clock: off}\n")
    capture_now(config)
    assert note_of(config) is None


def test_a_user_who_may_not_ask_captures_all_the_same(mysql_server: MySqlServer, tmp_path: Path) -> None:
    mysql_server.execute("CREATE USER little; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO little")
    mysql_server.execute("ALTER USER little WITH MAX_USER_CONNECTIONS 1")  # the capture's own
    lines: list[str] = []
    try:
        config = cluster(tmp_path, {"dn-1": url_of(mysql_server, "little")})
        with capturing(config, lines):
            until(lambda: any("its clock cannot be asked" in line for line in lines))
            mysql_server.execute("CREATE DATABASE later")
            size = mysql_server.binlog_files()[-1].stat().st_size
            until(lambda: (tmp_path / "captured/dn-1/binlog.000001").stat().st_size == size)
    finally:
        mysql_server.execute("DROP USER little")


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"version": 2}', b"[]", b"null"])
def test_a_damaged_note_is_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / AS_OF_NAME).parent.mkdir()
    (tmp_path / AS_OF_NAME).write_bytes(data)
    notes, warnings = read_as_of([f"{tmp_path}/*"])
    assert not notes and len(warnings) == 1 and str(tmp_path / AS_OF_NAME) in warnings[0]


def test_clocks_are_asked_often_only_while_a_node_writes() -> None:
    asked_now, asked_long_ago = time.monotonic(), time.monotonic() - 3600
    awake, asleep = Activity(awake=3600), Activity(awake=0)
    assert awake.wants(asked_now)
    assert not asleep.wants(asked_now)
    assert asleep.wants(asked_long_ago)
    asleep.wrote()
    assert not asleep.wants(time.monotonic())
