"""A host that has nothing but the configuration: it fetches what the merged log still needs, and the output goes on."""

import random
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from binlog_merge.errors import MergeError, NoFiles, Purged, WrongNode
from binlog_merge.files.captured import hole_of
from binlog_merge.files.needed import needed_by
from binlog_merge.files.publish import FAILPOINTS
from binlog_merge.log.inspection import inspect_file
from tests.effort import effort
from tests.merge_e2e.killed import merge_until
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import Child, capture_now, captured_files, cluster, killed_at, server_files, url_of
from tests.node_capture.pairs import until

pytestmark = pytest.mark.mysql


@pytest.fixture
def config(mysql_server: MySqlServer, tmp_path: Path) -> Path:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
    return cluster(tmp_path, {"dn-1": url_of(mysql_server)})


def write(server: MySqlServer, megabytes: int) -> None:
    for number in range(megabytes):
        server.execute(f"INSERT INTO d.t (b) VALUES (REPEAT('{number % 10}', 1000000))")


def whole(config: Path) -> dict[str, bytes]:
    """Return what one merge gives of all that the servers have."""
    folder = config.parent / "whole"
    other = folder / "cluster.yaml"
    folder.mkdir(exist_ok=True)
    shutil.copy(config, other)
    capture_now(other)
    merge(other, folder / "out")
    found = written(folder / "out")
    shutil.rmtree(folder)
    return found


def lose(config: Path) -> None:
    shutil.rmtree(config.parent / "captured")


def test_the_bytes_of_one_merge_from_a_new_host(mysql_server: MySqlServer, config: Path) -> None:
    out = config.parent / "out"
    for number in range(3):
        if number == 1:
            mysql_server.execute("FLUSH BINARY LOGS")
        write(mysql_server, 4)
        lines: list[str] = []
        result = capture_now(config, merged=str(out), report=lambda node, text, lines=lines: lines.append(text))
        values = result.nodes["dn-1"]
        servers = server_files(mysql_server)
        last = max(servers)
        if number:
            assert any("as" in line and "has all that is before that" in line for line in lines)
        if number == 2:
            (path,) = (config.parent / "captured" / "dn-1").glob("binlog.*")
            hole = hole_of(str(path))
            assert hole is not None and path.name == last == hole.file
            data = path.read_bytes()
            assert data[: hole.begin] == servers[last][: hole.begin]
            assert not any(data[hole.begin : hole.end]) and data[hole.end :] == servers[last][hole.end :]
            assert values["new_bytes"] == len(data) - (hole.end - hole.begin)
            assert path.stat().st_blocks * 512 < len(data) - (hole.end - hole.begin) // 2
            assert capture_now(config, merged=str(out)).nodes["dn-1"]["new_bytes"] == 0
        merge(config, out, end_of_input=number == 2)
        lose(config)
    assert written(out) == whole(config)


def test_what_is_not_there_is_refused(mysql_server: MySqlServer, config: Path) -> None:
    out = config.parent / "out"
    write(mysql_server, 4)
    capture_now(config)
    merge(config, out, end_of_input=False)
    lose(config)
    write(mysql_server, 1)
    capture_now(config, merged=str(out))
    (path,) = (config.parent / "captured" / "dn-1").glob("binlog.*")
    hole = hole_of(str(path))
    assert hole is not None
    with pytest.raises(Purged, match=r"were not captured: .*out had all that is in them") as caught:
        list(inspect_file(path, 4, None, 0))
    assert caught.value.position == hole.begin and "--whole" in caught.value.remedy
    assert any("Rows_query" in line or "Write_rows" in line for line in inspect_file(path, hole.end, None, 0))
    with pytest.raises(Purged, match="were not captured"):
        merge(config, config.parent / "another")
    merge(config, out)
    assert written(out) == whole(config)


def test_killed_while_it_begins(mysql_server: MySqlServer, config: Path) -> None:
    out = config.parent / "out"
    write(mysql_server, 4)
    capture_now(config)
    merge(config, out, end_of_input=False)
    write(mysql_server, 1)
    for failpoint in ("capture-begun", "capture-before-hole", "capture-after-hole"):
        lose(config)
        assert killed_at(failpoint, config, merged=str(out))
        with suppress(NoFiles):  # what was merged is not here yet
            merge(config, out, end_of_input=False)
        result = capture_now(config, merged=str(out)).nodes["dn-1"]
        (path,) = (config.parent / "captured" / "dn-1").glob("binlog.*")
        assert hole_of(str(path)) is not None and result["complete"]
    merge(config, out)
    assert written(out) == whole(config)


def test_what_an_old_host_had_is_set_aside(mysql_server: MySqlServer, config: Path) -> None:
    """Another host has gone on meanwhile: what was captured here ends before what is needed."""
    out, home = config.parent / "out", config.parent / "captured" / "dn-1"
    write(mysql_server, 2)
    capture_now(config)
    merge(config, out, end_of_input=False)
    shutil.copytree(home, config.parent / "old")
    write(mysql_server, 3)
    capture_now(config)
    merge(config, out, end_of_input=False)
    # The same file: it goes on behind a hole.
    shutil.rmtree(home)
    shutil.copytree(config.parent / "old", home)
    capture_now(config, merged=str(out))
    (path,) = home.glob("binlog.*")
    assert hole_of(str(path)) is not None
    merge(config, out, end_of_input=False)
    mysql_server.execute("FLUSH BINARY LOGS")
    write(mysql_server, 1)
    capture_now(config)
    merge(config, out, end_of_input=False)
    needed = needed_by(str(out))["dn-1"]
    shutil.rmtree(home)
    shutil.copytree(config.parent / "old", home)
    lines: list[str] = []
    (home / ".set-aside-9" / "binlog.000001").mkdir(parents=True)  # of an earlier time
    capture_now(config, merged=str(out), report=lambda node, text: lines.append(text))
    aside = home / ".set-aside-10"
    assert any(f"is moved to {aside}" in line and "is removed: .set-aside-9" in line for line in lines)
    assert list(home.glob(".set-aside*")) == [aside]
    assert {path.name for path in aside.glob("binlog.*")} == {path.name for path in (config.parent / "old").glob("b*")}
    assert min(captured_files(config)) == needed.oldest.file
    merge(config, out)
    assert written(out) == whole(config)


def test_what_is_needed_is_purged(mysql_server: MySqlServer, config: Path) -> None:
    out = config.parent / "out"
    write(mysql_server, 2)
    capture_now(config)
    merge(config, out, end_of_input=False)
    lose(config)
    needed = needed_by(str(out))["dn-1"].oldest
    mysql_server.execute("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    last = max(server_files(mysql_server))
    mysql_server.execute(f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(Purged, match=f"the server does not have {needed.file}: its files are {last} to {last}") as one:
        capture_now(config, merged=str(out))
    assert one.value.node == "dn-1" and f"needs it from {needed.file}:{needed.position} on" in one.value.remedy
    assert not captured_files(config)
    # Without the merged log it begins at what there is, and the merge says what is missing.
    capture_now(config)
    with pytest.raises(MergeError):
        merge(config, out)
    lose(config)
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    with pytest.raises((WrongNode, Purged)):
        capture_now(config, merged=str(out))


class Load(threading.Thread):
    """Rows, branches that are prepared and end later, DDL and new files, until it is told to stop."""

    def __init__(self, server: MySqlServer, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._server, self._rng, self._enough = server, rng, threading.Event()

    def run(self) -> None:
        session, rng, number = self._server.connect("d"), self._rng, 0
        prepared: list[str] = []
        with session, session.cursor() as cursor:
            while not self._enough.is_set() or prepared:
                number += 1
                if prepared and (rng.random() < 0.3 or self._enough.is_set()):
                    xid = prepared.pop(rng.randrange(len(prepared)))
                    cursor.execute(f"XA {rng.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} '{xid}'")
                elif rng.random() < 0.2:
                    prepared.append(f"x{number}")
                    cursor.execute(f"XA START 'x{number}'")
                    cursor.execute(f"INSERT INTO t VALUES ({1_000_000 + number}, 'xa')")
                    cursor.execute(f"XA END 'x{number}'")
                    cursor.execute(f"XA PREPARE 'x{number}'")
                elif number % 50 == 0:
                    cursor.execute("FLUSH BINARY LOGS")
                elif number % 70 == 0 and not prepared:
                    cursor.execute(f"ALTER TABLE t ADD COLUMN c{number} INT, ALGORITHM=INSTANT")
                    cursor.execute(f"ALTER TABLE t DROP COLUMN c{number}, ALGORITHM=INSTANT")
                else:
                    cursor.execute("INSERT INTO t (b) VALUES (REPEAT('z', %s))", (rng.choice((3, 3000, 2_000_000)),))
                    session.commit()
                time.sleep(0.005)

    def stop(self) -> None:
        self._enough.set()
        self.join()


def test_hosts_are_killed_again_and_again(mysql_server: MySqlServer, config: Path) -> None:
    """Between captured and published, anywhere: what the next host fetches gives the bytes of one merge of all."""
    rng, out = random.Random(5), config.parent / "out"
    home = config.parent / "captured" / "dn-1"
    load = Load(mysql_server, rng)
    load.start()
    try:
        for _ in range(effort(3, 12)):
            host = Child(lambda: capture_now(config, follow=True, merged=str(out)))
            until(lambda: any(path.stat().st_size > 4 for path in home.glob("binlog.*")))
            for _ in range(rng.randint(1, 3)):
                time.sleep(rng.random() * 0.3)
                with suppress(NoFiles):
                    if rng.random() < 0.5:
                        merge(config, out, end_of_input=False)
                    else:
                        failpoint = rng.choice(("after-order", "after-gather", *FAILPOINTS))
                        merge_until(f"{failpoint}:kill", config, out, end_of_input=False)
            host.signal(signal.SIGKILL)
            assert host.exit_code() == -signal.SIGKILL
            lose(config)
    finally:
        load.stop()
    capture_now(config, merged=str(out))
    merge(config, out)
    assert written(out) == whole(config)
