"""Nodes of real servers that fail over: nothing is lost and nothing comes twice, whoever has the node."""

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest
from click.testing import Result
from typer.testing import CliRunner

from binlog_merge.cli.verbs import application
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import NoFiles, OutputBusy, ServerRefused, WrongNode
from binlog_merge.files.servers import read_servers
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture
from binlog_merge.node_capture.switch_request import REQUEST_NAME
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.node_capture.capturing import capture_now, cluster, killed_at, url_of
from tests.node_capture.pairs import executed, kill, promote, replicate, replication_group, semi_sync_pair, until

pytestmark = pytest.mark.mysql


class Writing(threading.Thread):
    """A client that writes until its server dies; `told` are the rows of which it was told that they are committed."""

    def __init__(self, server: MySqlServer) -> None:
        super().__init__(daemon=True)
        self._connection = server.connect("d")
        self.told: list[str] = []

    def run(self) -> None:
        try:
            while True:
                with self._connection.cursor() as cursor:
                    cursor.execute(
                        "BEGIN; INSERT INTO t (b) VALUES (UUID()); INSERT INTO t (b) VALUES (REPEAT('x', 90))"
                    )
                    while cursor.nextset():
                        pass
                    cursor.execute("SELECT b FROM t ORDER BY id DESC LIMIT 1, 1")
                    ((row,),) = cursor.fetchall()
                    cursor.execute("COMMIT")
                    self.told.append(row)
        except pymysql.MySQLError:
            return


def captured_beyond(file: Path, size: int) -> bool:
    return file.exists() and file.stat().st_size > size


@contextmanager
def following(config: Path, lines: list[str]) -> Iterator[threading.Thread]:
    """Capture as the servers write, in a thread, as long as the block runs."""
    loaded, stop = MergeConfig.load(config), threading.Event()
    options = CaptureOptions(follow=True, lost_after=loaded.capture.lost_after / 1e6)

    def work() -> None:
        capture(loaded, Path(loaded.capture.dir), options, report=lambda node, text: lines.append(text), stop=stop)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


def bring_what_it_lacks(lines: list[str], folder: Path, server: MySqlServer) -> None:
    """Do what the capture says if the primary had sent it something before it sent that to its replica."""
    lacking = next(
        (found[1] for line in lines if (found := re.search(r"lacks what was captured, (\S+): ", line))), None
    )
    if lacking is not None:
        files = sorted(folder.glob("binlog.[0-9]*"))
        server.apply(mysqlbinlog(files, f"--include-gtids={lacking}"))


def rows(server: MySqlServer) -> list[tuple[object, ...]]:
    return server.query("SELECT * FROM d.t ORDER BY id")


def applied(server: MySqlServer, out: Path) -> list[tuple[object, ...]]:
    """Return the rows of a server that has applied a merged log, and nothing else."""
    server.execute("DROP DATABASE IF EXISTS d")
    server.apply(mysqlbinlog([out / name for name in sorted(written(out))], "--skip-gtids"))
    return rows(server)


def said_of(out: Path) -> bytes:
    """Return what a merged log says, but for how long each server took for a DDL, and the checksums of that."""
    text = mysqlbinlog([out / name for name in sorted(written(out))], "-vv")
    return re.sub(rb"CRC32 0x[0-9a-f]{8}|exec_time=\d+", b"", text)


def test_a_primary_is_killed(tmp_path: Path, mysql_server: MySqlServer) -> None:
    lines: list[str] = []
    with semi_sync_pair(tmp_path) as (a, b):
        a.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(99))")
        config = cluster(tmp_path, {"dn-1": [url_of(a), url_of(b)]}, capture={"lost-after": "200ms"})
        folder, out = tmp_path / "captured" / "dn-1", tmp_path / "out"
        with following(config, lines):
            first = Writing(a)
            first.start()
            until(lambda: len(first.told) > 50 and captured_beyond(folder / "binlog.000001", 5000))
            merge(config, out, end_of_input=False)
            kill(a)
            first.join()
            promote(b)
            second = Writing(b)
            second.start()
            until(lambda: bring_what_it_lacks(lines, folder, b) or read_servers(folder))
            until(lambda: len(second.told) > 50)
            b.execute("FLUSH BINARY LOGS; ALTER TABLE d.t ADD c INT")
            merge(config, out, end_of_input=False)
            b.execute("SET GLOBAL super_read_only=1")
            second.join()
        (server,) = read_servers(folder)
        assert [line for line in lines if "takes over from" in line and server.folder in line]

        # The old primary comes back, and thinks that it still is one.
        a.restart()
        a.execute("INSERT INTO d.t (b) VALUES ('nobody knows of this')")
        capture_now(config)
        assert read_servers(folder) == (server,)
        merge(config, out)
        assert {row[1] for row in rows(b)} >= {*first.told, *second.told}
        assert applied(mysql_server, out) == rows(b)

        # The replica's own log, as if it had had the node all the time.
        whole = cluster(tmp_path / "server-1", {"dn-1": url_of(b)}, capture={"dir": "whole"})
        capture_now(whole)
        merge(whole, tmp_path / "whole")
        assert said_of(tmp_path / "whole") == said_of(out)


def test_by_hand_and_back(tmp_path: Path, mysql_server: MySqlServer) -> None:
    lines: list[str] = []
    with semi_sync_pair(tmp_path) as (a, b):
        a.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(99))")
        a.execute("INSERT INTO d.t (b) VALUES ('a')")
        config = cluster(tmp_path, {"dn-1": [url_of(a), url_of(b)]})
        folder, out = tmp_path / "captured" / "dn-1", tmp_path / "out"
        with following(config, lines):
            until(lambda: [line for line in lines if "from binlog.000001:4" in line])
            # A planned switch: the primary lives on, read-only.
            a.execute("SET GLOBAL super_read_only=1")
            until(lambda: executed(b) == executed(a))
            promote(b)
            a.execute("SET GLOBAL rpl_semi_sync_source_enabled=0")
            b.execute("INSERT INTO d.t (b) VALUES ('b')")
            until(lambda: len(read_servers(folder)) == 1)
        b.execute("INSERT INTO d.t (b) VALUES ('c')")
        capture_now(config)
        merge(config, out, end_of_input=False)

        # Back by hand: refused while it is read-only, and while it lacks something.
        back = {"switch": {"dn-1": url_of(a)}}
        with pytest.raises(ServerRefused, match="cannot take over: it is read-only"):
            capture_now(config, **back)
        a.execute("SET GLOBAL super_read_only=0; SET GLOBAL read_only=0")
        with pytest.raises(ServerRefused, match=r"cannot take over: it lacks what was captured, [0-9a-f-]{36}:1-2: "):
            capture_now(config, **back)
        b.execute(
            "SET sql_log_bin=0; CREATE USER repl@'%' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'"
        )
        replicate(a, b)
        b.execute("SET GLOBAL super_read_only=1")
        until(lambda: executed(a) == executed(b))
        promote(a)
        assert len(read_servers(folder)) == 1
        assert killed_at("capture-before-taking-over", config, **back) and len(read_servers(folder)) == 1
        assert killed_at("capture-taken-over", config, **back) and len(read_servers(folder)) == 2
        result = capture_now(config).nodes["dn-1"]
        assert result["complete"] and result["file"].startswith("000003-") and len(result["switches"]) == 2
        assert capture_now(config, **back).nodes["dn-1"]["switches"] == result["switches"]
        merge(config, out, end_of_input=False)

        # A configuration of one server that knows nothing of it does not mix the logs. It may be told, of any server.
        other = cluster(tmp_path, {"dn-1": url_of(b)})
        with pytest.raises(WrongNode, match="the files captured so far are of") as caught:
            capture_now(other)
        assert "--switch" in caught.value.remedy
        assert capture_now(other, switch={"dn-1": url_of(b)}).nodes["dn-1"]["file"].startswith("000004-")
        capture_now(other)
        _asked_of_a_capture_that_is_running(other, a)
        merge(other, out)
        assert applied(mysql_server, out) == rows(a) and len(rows(a)) == 4
        assert json.loads((folder / "servers.index").read_text().splitlines()[1])["begins_in"] == "binlog.000001"


def _asked_of_a_capture_that_is_running(config: Path, server: MySqlServer) -> None:
    folder, lines = Path(MergeConfig.load(config).capture.dir) / "dn-1", list[str]()

    def ask(url: str, *more: str) -> Result:
        return CliRunner().invoke(application(), ["capture", f"--config={config}", f"--switch=dn-1={url}", *more])

    with following(config, lines):
        until(lambda: [line for line in lines if ": from " in line])
        refused = ask("mysql://root@127.0.0.1:1")
        assert isinstance(refused.exception, ServerRefused) and "the capture goes on" in refused.exception.remedy
        until(lambda: sum(": from " in line for line in lines) == 2)
        assert isinstance(ask(url_of(server), "--stop-never").exception, OutputBusy), "that is to be the capture itself"
        done = ask(url_of(server), "-o", "json")
        answer = json.loads(done.stdout)["switched"]["dn-1"]
        assert "into its `server` before capture starts again" in done.stderr
        assert answer["folder"] == read_servers(folder)[-1].folder and answer["folder"].startswith("000005-")
        assert json.loads(ask(url_of(server), "-o", "json").stdout)["switched"]["dn-1"] == answer, "it has it already"
        server.execute("INSERT INTO d.t (b) VALUES ('d')")
        last = server.binlog_files()[-1]
        until(lambda: _as_long_as(last, folder / answer["folder"] / last.name))
    assert not (folder / REQUEST_NAME).exists()


def _as_long_as(file: Path, captured: Path) -> bool:
    return captured.exists() and captured.stat().st_size == file.stat().st_size


# How a capture sees that another server has its node is the same as of a pair: two servers, one of them read-only.
@pytest.mark.extended
def test_a_replication_group(tmp_path: Path, mysql_server: MySqlServer) -> None:
    """The group makes another member its primary; the one that was is read-only from then on."""
    lines: list[str] = []
    with replication_group(tmp_path) as (a, b):
        a.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(99))")
        a.execute("INSERT INTO d.t (b) VALUES ('a')")
        config = cluster(tmp_path, {"dn-1": [url_of(a), url_of(b)]})
        folder, out = tmp_path / "captured" / "dn-1", tmp_path / "out"
        with following(config, lines):
            until(lambda: [line for line in lines if "from binlog.000001:4" in line])
            last = a.binlog_files()[-1]
            until(lambda: _as_long_as(last, folder / last.name))
            merge(config, out, end_of_input=False)
            ((uuid,),) = b.query("SELECT @@server_uuid")
            a.query(f"SELECT group_replication_set_as_primary('{uuid}')")
            b.execute("INSERT INTO d.t (b) VALUES ('b')")
            until(lambda: read_servers(folder))
        capture_now(config)
        merge(config, out)
        assert read_servers(folder)[0].server_uuid == uuid
        assert applied(mysql_server, out) == rows(b) and len(rows(b)) == 2


def test_a_host_is_lost_and_the_node_fails_over_meanwhile(tmp_path: Path, mysql_server: MySqlServer) -> None:
    """Nothing is left but the merged log: the server that has the node now gives what that lacks, by GTID."""
    lines: list[str] = []
    with semi_sync_pair(tmp_path) as (a, b):
        a.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(99))")
        a.execute("XA START 'early'; INSERT INTO d.t VALUES (1000, 'early'); XA END 'early'; XA PREPARE 'early'")
        a.execute("FLUSH BINARY LOGS; INSERT INTO d.t (b) VALUES ('a')")
        a.execute("XA START 'late'; INSERT INTO d.t VALUES (2000, 'late'); XA END 'late'; XA PREPARE 'late'")
        a.execute("XA START 'gone'; INSERT INTO d.t VALUES (3000, 'gone'); XA END 'gone'; XA PREPARE 'gone'")
        config = cluster(tmp_path, {"dn-1": [url_of(a), url_of(b)]}, capture={"lost-after": "200ms"})
        folder, out = tmp_path / "captured" / "dn-1", tmp_path / "out"
        capture_now(config)
        merge(config, out, end_of_input=False)
        a.execute("INSERT INTO d.t (b) VALUES ('captured, and not merged')")
        until(lambda: executed(b) == executed(a))
        kill(a)
        promote(b)
        shutil.rmtree(tmp_path / "captured")
        b.execute("XA COMMIT 'late'; INSERT INTO d.t (b) VALUES ('b'); XA ROLLBACK 'gone'")
        assert killed_at("capture-before-taking-over", config, merged=str(out))
        assert killed_at("capture-taken-over", config, merged=str(out))
        with pytest.raises(NoFiles):
            merge(config, out, end_of_input=False)
        capture_now(config, merged=str(out), report=lambda node, text: lines.append(text))
        (server,) = read_servers(folder)
        merge(config, out, end_of_input=False)
        b.execute("XA COMMIT 'early'; ALTER TABLE d.t ADD c INT")

        # And once more from nothing, with the server that it is now.
        shutil.rmtree(tmp_path / "captured")
        capture_now(config, merged=str(out), report=lambda node, text: lines.append(text))
        assert read_servers(folder) == (server,)
        merge(config, out)
        assert applied(mysql_server, out) == rows(b) and len(rows(b)) == 5
        whole = cluster(tmp_path / "server-1", {"dn-1": url_of(b)}, capture={"dir": "whole"})
        capture_now(whole)
        merge(whole, tmp_path / "whole")
        assert said_of(tmp_path / "whole") == said_of(out)


def test_a_node_fails_over_twice_and_hosts_are_lost(tmp_path: Path, mysql_server: MySqlServer) -> None:
    with semi_sync_pair(tmp_path) as (a, b):
        a.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(99))")
        a.execute("SET GLOBAL rpl_semi_sync_source_enabled=0")
        b.execute(
            "SET GLOBAL super_read_only=0; SET sql_log_bin=0; CREATE USER IF NOT EXISTS repl@'%' IDENTIFIED BY 'r'; "
            "GRANT REPLICATION SLAVE ON *.* TO repl@'%'; SET GLOBAL super_read_only=1"
        )
        config = cluster(tmp_path, {"dn-1": [url_of(a), url_of(b)]}, capture={"lost-after": "200ms"})
        folder, out = tmp_path / "captured" / "dn-1", tmp_path / "out"
        now, then = a, b
        for number in range(5):
            now.execute(f"INSERT INTO d.t (b) VALUES ('{number}')")
            capture_now(config, merged=str(out))
            if number != 3:  # what was captured then is lost before it is merged
                merge(config, out, end_of_input=False)
            now.execute(f"INSERT INTO d.t (b) VALUES ('{number} not captured')")
            if number in (1, 3, 4):
                shutil.rmtree(tmp_path / "captured")
            if number != 2:
                now.execute("SET GLOBAL super_read_only=1")
                until(lambda now=now, then=then: executed(now) == executed(then))
                promote(then)
                replicate(now, then)
                now, then = then, now
        capture_now(config, merged=str(out))
        assert read_servers(folder)
        merge(config, out)
        assert applied(mysql_server, out) == rows(now) and len(rows(now)) == 10
