"""Captures of real servers: the same bytes, whatever happens on the way, and clear errors where that cannot be."""

import json
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import (
    ManifestError,
    MergeError,
    OutputBusy,
    Purged,
    ServerRefused,
    WrongNode,
)
from binlog_merge.files.lock import OutputLock
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture
from tests.effort import effort
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import (
    Child,
    capture_now,
    captured_files,
    cluster,
    command,
    killed_at,
    server_files,
    url_of,
)

pytestmark = pytest.mark.mysql


@pytest.fixture
def config(mysql_server: MySqlServer, tmp_path: Path) -> Path:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
    return cluster(tmp_path, {"dn-1": url_of(mysql_server)})


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process or thread brings about."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def refused(kind: type[MergeError], config: Path, **options: Any) -> MergeError:
    with pytest.raises(kind) as caught:
        capture_now(config, **options)
    return caught.value


def test_the_files_are_the_servers(mysql_server: MySqlServer, config: Path) -> None:
    """Checksums on and off, compressed transactions, tagged GTIDs, packets beyond 16 MB, XA; the open file too."""
    steps = [
        "INSERT INTO d.t (b) VALUES ('a')",
        "FLUSH BINARY LOGS",
        "SET SESSION binlog_transaction_compression = ON; INSERT INTO d.t (b) VALUES (REPEAT('z', 1000000))",
        "INSERT INTO d.t (b) VALUES (REPEAT('z', 17000000)); FLUSH BINARY LOGS; FLUSH BINARY LOGS",
        "SET gtid_next = 'AUTOMATIC:tag'; INSERT INTO d.t (b) VALUES ('tagged'); SET gtid_next = 'AUTOMATIC'",
        "SET GLOBAL binlog_checksum = NONE; INSERT INTO d.t (b) VALUES ('plain')",
        "INSERT INTO d.t (b) VALUES ('plain'); XA START 'x'; DELETE FROM d.t WHERE id = 1; XA END 'x'; XA PREPARE 'x'",
        "SET GLOBAL binlog_checksum = CRC32; INSERT INTO d.t (b) VALUES ('sums')",
        "INSERT INTO d.t (b) VALUES ('sums')",
    ]
    new_bytes = 0
    try:
        for step in steps:
            mysql_server.execute(step)
            values = capture_now(config).to_dict()["nodes"]["dn-1"]
            expected = server_files(mysql_server)
            assert captured_files(config) == expected, step
            assert (values["file"], values["position"]) == (max(expected), len(expected[max(expected)]))
            assert values["complete"] and values["error"] is None
            new_bytes += values["new_bytes"]
        assert new_bytes == sum(map(len, expected.values()))
        assert capture_now(config).to_dict()["nodes"]["dn-1"]["new_bytes"] == 0
    finally:
        mysql_server.execute("SET GLOBAL binlog_checksum = CRC32")


class Writer(threading.Thread):
    """Transactions, DDL and new files, in a random order, until it is told to stop."""

    def __init__(self, server: MySqlServer, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._server, self._rng = server, rng
        self._enough = threading.Event()

    def run(self) -> None:
        session = self._server.connect("d")
        session.autocommit(False)
        try:
            with session.cursor() as cursor:
                number = 0
                while not self._enough.is_set():
                    for _ in range(self._rng.randint(1, 4)):
                        size = self._rng.choice([3, 300, 30_000])
                        cursor.execute("INSERT INTO t (b) VALUES (REPEAT(%s, %s))", (number % 10, size))
                    session.commit()
                    number += 1
                    if number % 40 == 0:
                        cursor.execute(
                            "FLUSH BINARY LOGS" if number % 80 else f"ALTER TABLE t ADD COLUMN c{number} INT"
                        )
        finally:
            session.close()

    def stop(self) -> None:
        self._enough.set()
        self.join()


def test_a_capture_that_is_killed_again_and_again_is_whole(mysql_server: MySqlServer, config: Path) -> None:
    """SIGKILL at any moment, while a server writes; merges on the way publish what one merge of its files does."""
    rng = random.Random(7)
    merged = config.parent / "merged"
    writer = Writer(mysql_server, rng)
    writer.start()
    try:
        for number in range(effort(5, 10)):
            size = sum(map(len, captured_files(config).values()))
            child = Child(lambda: capture_now(config, follow=True))
            until(lambda size=size: sum(map(len, captured_files(config).values())) > size)
            time.sleep(rng.random() * 0.3)
            if number % 3 == 0:
                merge(config, merged, end_of_input=False)
            child.signal(signal.SIGKILL)
            assert child.exit_code() == -signal.SIGKILL
    finally:
        writer.stop()
    capture_now(config)
    assert captured_files(config) == server_files(mysql_server)
    merge(config, merged)
    own = MergeConfig.load(config)
    pattern = (f"{mysql_server.data}/binlog.[0-9]*",)
    own = own.model_copy(update={"nodes": tuple(n.model_copy(update={"files": pattern}) for n in own.nodes)})
    merge(own, config.parent / "own")
    assert written(merged) == written(config.parent / "own")


@pytest.mark.parametrize("failpoint", ["capture-begun", "capture-before-finish", "capture-finished"])
def test_a_capture_that_is_killed_between_files_is_whole(
    mysql_server: MySqlServer, config: Path, failpoint: str
) -> None:
    mysql_server.execute("FLUSH BINARY LOGS; INSERT INTO d.t (b) VALUES ('a'); FLUSH BINARY LOGS")
    for _ in range(2):
        assert killed_at(failpoint, config)
    capture_now(config)
    assert captured_files(config) == server_files(mysql_server)


def test_following_goes_on_when_its_session_is_killed(mysql_server: MySqlServer, config: Path) -> None:
    told: list[str] = []
    stop = threading.Event()
    loaded = MergeConfig.load(config)
    results: list[Any] = []

    def follow() -> None:
        options = CaptureOptions(follow=True)
        report = lambda node, text: told.append(text)  # noqa: E731
        results.append(capture(loaded, Path(loaded.capture.dir), options, report=report, stop=stop))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        for number in range(2):
            until(lambda: captured_files(config) == server_files(mysql_server))
            dumps = mysql_server.query("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
            assert len(dumps) == 1
            mysql_server.execute(f"KILL {dumps[0][0]}; INSERT INTO d.t (b) VALUES ('{number}'); FLUSH BINARY LOGS")
        until(lambda: captured_files(config) == server_files(mysql_server))
    finally:
        stop.set()
        thread.join()
    assert sum("trying again" in text for text in told) >= 2, told
    node = results[0].to_dict()["nodes"]["dn-1"]
    assert node["error"] is None and not node["complete"]
    until(lambda: mysql_server.query("SHOW REPLICAS") == [])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_a_capture_that_follows(mysql_server: MySqlServer, config: Path, number: int, code: int) -> None:
    printed = config.parent / "printed"
    child = command(["capture", "-c", str(config), "--stop-never", "-o", "json"], printed)
    until(lambda: captured_files(config) == server_files(mysql_server))
    with pytest.raises(OutputBusy, match="another capture"):
        capture_now(config)
    child.signal(number)
    assert child.exit_code() == code
    document = json.loads(printed.with_suffix(".out").read_text())
    (name, data), *_ = sorted(server_files(mysql_server).items(), reverse=True)
    assert (document["nodes"]["dn-1"]["file"], document["nodes"]["dn-1"]["position"]) == (name, len(data))
    assert document["error"]["exit_code"] == code and document["nodes"]["dn-1"]["error"] is None
    assert "from binlog.000001:4" in printed.with_suffix(".err").read_text()


def test_what_the_server_purged(mysql_server: MySqlServer, config: Path) -> None:
    """A file that is captured whole may go; one that is not is named, with what to do."""
    mysql_server.execute("FLUSH BINARY LOGS")
    capture_now(config)
    mysql_server.execute("INSERT INTO d.t (b) VALUES ('a'); FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    mysql_server.execute("PURGE BINARY LOGS TO 'binlog.000003'")
    error = refused(Purged, config)
    assert "the server does not have binlog.000002: its files are binlog.000003 to binlog.000004" in error.message
    assert (error.node, error.file) == ("dn-1", "binlog.000002")
    assert "copy binlog.000002" in error.remedy

    apart = cluster(config.parent, {"dn-1": url_of(mysql_server)}, capture={"dir": "apart"})
    capture_now(apart)
    mysql_server.execute("FLUSH BINARY LOGS")
    capture_now(apart)  # has ended with binlog.000004 and begun binlog.000005
    whole = captured_files(apart)
    directory = config.parent / "apart" / "dn-1"
    (directory / "binlog.000005").unlink()
    (directory / "binlog.000004").write_bytes(whole["binlog.000004"][:21] + b"\1" + whole["binlog.000004"][22:])
    mysql_server.execute("PURGE BINARY LOGS TO 'binlog.000005'")
    capture_now(apart)
    assert captured_files(apart) == whole


def test_another_server_is_refused(mysql_server: MySqlServer, config: Path) -> None:
    capture_now(config)
    record = config.parent / "captured" / "dn-1" / ".capture.json"
    values = json.loads(record.read_text())
    record.write_text(json.dumps({**values, "server_uuid": "11111111-2222-3333-4444-555555555555"}))
    error = refused(WrongNode, config)
    assert "are of 11111111-2222-3333-4444-555555555555" in error.message
    record.write_text("{")
    assert refused(ManifestError, config).file == str(record)
    record.unlink()
    capture_now(config)  # files of one's own are taken, if they are the server's
    assert json.loads(record.read_text())["server_uuid"] == values["server_uuid"]

    # Begun anew under the same names: a shorter file, and a longer one.
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    assert "is not the file that was captured" in refused(WrongNode, config).message
    mysql_server.execute("INSERT INTO d.t (b) VALUES (REPEAT('a', 5000)), ('b')")
    assert "is not the file that was captured" in refused(WrongNode, config).message
    mysql_server.execute("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    capture_now(cluster(config.parent, {"dn-1": url_of(mysql_server)}, capture={"dir": "apart"}))
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    config = cluster(config.parent, {"dn-1": url_of(mysql_server)}, capture={"dir": "apart"})
    assert "does not have binlog.000003" in refused(Purged, config).message

    nodes = [{"source-id": "dn-1", "server": url_of(mysql_server), "server-id": 7}]
    other = cluster(config.parent, {}, nodes=nodes, capture={"dir": "third"})
    assert "is 101, the configuration expects 7" in refused(WrongNode, other).message


@pytest.mark.parametrize(
    ("rights", "says"), [("REPLICATION SLAVE", "REPLICATION CLIENT"), ("REPLICATION CLIENT", "Access denied")]
)
def test_what_the_user_needs(mysql_server: MySqlServer, config: Path, rights: str, says: str) -> None:
    users = "DROP USER IF EXISTS half@localhost, whole@localhost"
    mysql_server.execute(
        f"{users}; CREATE USER half@localhost, whole@localhost; GRANT {rights} ON *.* TO half@localhost"
    )
    try:
        error = refused(ServerRefused, cluster(config.parent, {"dn-1": url_of(mysql_server, "half")}))
        assert says in error.message
        assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT" in error.remedy
        mysql_server.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO whole@localhost")
        capture_now(cluster(config.parent, {"dn-1": url_of(mysql_server, "whole")}))
    finally:
        mysql_server.execute(users)


def test_one_node_that_fails_does_not_stop_the_others(
    mysql_server: MySqlServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = cluster(config.parent, {"dn-1": "mysql://root@127.0.0.1:1", "dn-2": url_of(mysql_server)})
    command = ["capture", "-c", str(config), "--retry-seconds", "0.3"]
    assert main.run([*command, "-o", "json"]) == 39
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["error"]["node"] == "dn-1" and document["nodes"]["dn-1"]["error"]["code"] == "server"
    assert document["nodes"]["dn-2"]["complete"]
    assert captured_files(config, "dn-2") == server_files(mysql_server)
    assert "dn-1: mysql://root@127.0.0.1:1: " in err and "trying again" in err
    assert main.run(command) == 39
    out, err = capsys.readouterr()
    assert "2 nodes captured into" in out and "dn-2  up to binlog.000001:" in out and "dn-1  nothing yet" in out
    assert main.run([*command, "--node", "dn-2"]) == 0
    assert "1 node captured" in capsys.readouterr().out


def test_where_a_node_begins(mysql_server: MySqlServer, config: Path) -> None:
    mysql_server.execute("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    error = refused(Purged, config, start_files={"": "binlog.000009"})
    assert "--start-file" in error.remedy
    capture_now(config, start_files={"dn-1": "binlog.000002"})
    assert list(captured_files(config)) == ["binlog.000002", "binlog.000003"]
    capture_now(config, start_files={"": "binlog.000001"})
    assert list(captured_files(config)) == ["binlog.000002", "binlog.000003"]


def test_a_lock_is_for_one_capture(config: Path) -> None:
    with OutputLock(config.parent / "captured" / "dn-1", "capture"):
        assert refused(OutputBusy, config).exit_code == 25


def test_nodes_that_end_together(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """One that fails ends the others, which would follow for ever; they have what they had got."""
    mysql_server.execute("CREATE DATABASE d")
    url = url_of(mysql_server)
    config = cluster(tmp_path, {"dn-1": url, "dn-2": url})
    text = config.read_text().replace(
        "source-id: dn-2", "server-uuid: 00000000-0000-0000-0000-000000000001\n  source-id: dn-2"
    )
    config.write_text(text)
    error = refused(WrongNode, config, follow=True, together=True)
    assert error.node == "dn-2"
    assert error.result.to_dict()["nodes"]["dn-1"]["error"] is None
