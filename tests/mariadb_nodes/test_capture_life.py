"""Captures of MariaDB nodes as they are set up and as they live: encrypted, over TLS, purged, killed, on a new host."""

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pymysql
import pytest

from binlog_merge.binlog.header import walk
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import EncryptedBinlog, Purged, ServerRefused
from binlog_merge.mariadb_nodes.folder import FolderTranslation, translating
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture
from tests.cli.test_run_live import until
from tests.effort import effort
from tests.mariadb_nodes.test_capture import _USER, Nodes, _alike
from tests.mariadb_server import MariaDbServer
from tests.merge_e2e.local import merge, written
from tests.node_capture.capturing import Child

pytestmark = pytest.mark.mariadb
_ONCE = CaptureOptions()
_TABLE = ("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)")


def _capture(config: MergeConfig, options: CaptureOptions = _ONCE, merged: Path | None = None) -> None:
    place = None if merged is None else str(merged)
    capture(config, Path(config.capture.dir), options, merged=place, translating=translating)


def _files(folder: Path) -> dict[str, bytes]:
    """Return the numbered files in a folder, without the flag that says that one is being written."""
    found = {path.name: bytearray(path.read_bytes()) for path in sorted(folder.glob("mysql-bin.*"))}
    for data in found.values():
        data[21] = 0
    return {name: bytes(data) for name, data in found.items()}


def _begin(server: MariaDbServer, *statements: str) -> None:
    for sql in (*_USER, *_TABLE, *statements):
        server.query(sql)


def _kill(server: MariaDbServer) -> None:
    assert server._process is not None
    server._process.kill()
    server._process.wait()


def _purge(server: MariaDbServer, first: str) -> None:
    """Purge the files before one: a server keeps those that it believes to be sending."""

    def purged() -> bool:
        server.query(f"PURGE BINARY LOGS TO '{first}'")
        return str(server.query("SHOW BINARY LOGS")[0][0]) == first

    until(purged)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[Nodes, MariaDbServer]]]:
    """Starts a server with options; returns it, and the nodes of a cluster that it is the only one of."""
    with ExitStack() as stack:

        def started(*options: str) -> tuple[Nodes, MariaDbServer]:
            nodes = Nodes(tmp_path, options)
            stack.enter_context(nodes.servers[0])
            return nodes, nodes.servers[0]

        yield started


def test_an_encrypted_binlog_comes_decrypted_over_tls(
    start: Callable[..., tuple[Nodes, MariaDbServer]], certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(f"1;{'a1' * 16}\n")
    encrypted = ("--plugin-load-add=file_key_management", f"--file-key-management-filename={tmp_path / 'keys'}",
                 "--encrypt-binlog=ON", "--binlog-checksum=CRC32")  # fmt: skip
    certified = (f"--ssl-ca={certificate[0]}", f"--ssl-cert={certificate[0]}", f"--ssl-key={certificate[1]}")
    nodes, server = start(*encrypted, *certified)
    _begin(server, "INSERT INTO shop.t VALUES (1, 1)", "ALTER USER rep@'%' REQUIRE SSL")
    config, tls = MergeConfig.load(nodes.configured()), CaptureOptions(ssl_ca=str(certificate[0]))
    _capture(config, tls)
    raw = nodes.raw(1) / "mysql-bin.000001"
    whole, ends = raw.read_bytes(), [event.offset for event in walk(raw.read_bytes())]
    for end in (*ends[1:5], ends[-2]):  # resumed there, a server sends copies of what the file begins with
        raw.write_bytes(whole[: end + 3])
        _capture(config, tls)
        assert raw.read_bytes()[22:] == whole[22:]
    server.query("FLUSH BINARY LOGS")
    server.query("INSERT INTO shop.t VALUES (2, 2)")
    _capture(config, tls)
    merge(config, tmp_path / "merged")
    with pytest.raises(EncryptedBinlog) as refused:
        FolderTranslation([str(server.data)], tmp_path / "none", lambda text: None).advance()
    assert "mariadb-binlog --read-from-remote-server" in (refused.value.remedy or "")
    FolderTranslation([str(nodes.raw(1))], tmp_path / "again", lambda text: None).advance()
    assert _files(tmp_path / "again") == _files(raw.parent.parent)
    server.query("ALTER USER rep@'%' REQUIRE SUBJECT '/CN=nobody'")
    with pytest.raises(ServerRefused):
        _capture(config, tls)


def test_a_new_host_makes_the_same_again(start: Callable[..., tuple[Nodes, MariaDbServer]], tmp_path: Path) -> None:
    """What the server has is fetched and translated anew, whole files and byte for byte as before."""
    nodes, server = start()
    _begin(server)
    config, out = MergeConfig.load(nodes.configured()), tmp_path / "merged"
    folder = nodes.raw(1).parent
    for step in range(6):
        server.query(f"INSERT INTO shop.t (id) VALUES ({step})")
        server.query(f"ALTER TABLE shop.t ADD COLUMN IF NOT EXISTS c{step // 2} INT")
        if step % 2:
            server.query("FLUSH BINARY LOGS")
        _capture(config)
        merge(config, out, end_of_input=False)
    before, raw = _files(folder), _files(nodes.raw(1))
    _purge(server, "mysql-bin.000003")
    server.query("INSERT INTO shop.t (id) VALUES (100)")
    shutil.rmtree(tmp_path / "captured")
    _capture(config, merged=out)
    fetched, again = _files(folder), _files(nodes.raw(1))
    assert set(fetched) == set(again) and "mysql-bin.000001" not in fetched
    for name, data in fetched.items():
        assert data.startswith(before[name]) and again[name].startswith(raw[name])
    merge(config, out)
    assert written(tmp_path / "merged") == _merged_at_once(config, server, before | fetched, tmp_path)


def _merged_at_once(
    config: MergeConfig, server: MariaDbServer, files: dict[str, bytes], folder: Path
) -> dict[str, bytes]:
    """Return what one merge makes of a node's translated files."""
    own = folder / "own"
    own.mkdir()
    for name, data in files.items():
        (own / name).write_bytes(data)
    nodes = tuple(node.model_copy(update={"files": (f"{own}/mysql-bin.*",)}) for node in config.nodes)
    merge(config.model_copy(update={"nodes": nodes}), folder / "at-once")
    return written(folder / "at-once")


def test_purged_files(start: Callable[..., tuple[Nodes, MariaDbServer]]) -> None:
    """What is captured to its end may be purged; what is not, is named."""
    nodes, server = start()
    _begin(server)
    config = MergeConfig.load(nodes.configured())
    server.query("FLUSH BINARY LOGS")
    _capture(config)
    server.query("FLUSH BINARY LOGS")
    _capture(config)
    _purge(server, "mysql-bin.000003")
    server.query("INSERT INTO shop.t VALUES (1, 1)")
    _capture(config)
    assert sorted(_files(nodes.raw(1))) == [f"mysql-bin.00000{n}" for n in (1, 2, 3)]
    server.query("FLUSH BINARY LOGS")
    server.query("FLUSH BINARY LOGS")
    _purge(server, "mysql-bin.000005")
    with pytest.raises(Purged, match=r"does not have mysql-bin.000003: its files are mysql-bin.000005"):
        _capture(config)


class _Writer(threading.Thread):
    """Writes into a node until it is stopped, whatever happens to its server."""

    def __init__(self, server: MariaDbServer) -> None:
        super().__init__(daemon=True)
        self._server, self._enough = server, threading.Event()

    def run(self) -> None:
        number, session = 0, None
        while not self._enough.is_set():
            number += 1
            try:
                session = session or self._server.connect()
                with session.cursor() as cursor:
                    cursor.execute(
                        "FLUSH BINARY LOGS" if not number % 60 else f"INSERT INTO shop.t VALUES ({number}, 0)"
                    )
                    cursor.execute(f"UPDATE shop.t SET a = a + 1 WHERE id > {number - 50}")
            except pymysql.MySQLError:
                session = None
                time.sleep(0.05)

    def stop(self) -> None:
        self._enough.set()
        self.join()


@pytest.mark.extended
def test_a_capture_that_is_killed_twice_within_a_second_is_whole(
    start: Callable[..., tuple[Nodes, MariaDbServer]], tmp_path: Path
) -> None:
    nodes, server = start()
    _begin(server)
    config, rng = MergeConfig.load(nodes.configured()), random.Random(11)
    writer = _Writer(server)
    writer.start()
    try:
        for number in range(effort(10, 40)):
            child = Child(lambda: _capture(config, CaptureOptions(follow=True)))
            time.sleep(0.1 + rng.random() * 0.3)
            child.signal(signal.SIGKILL)
            child.exit_code()
            if number % 4 == 3:
                _capture(config)
                merge(config, tmp_path / "merged", end_of_input=False)
    finally:
        writer.stop()
    _capture(config)
    assert _alike(nodes) > 0
    merge(config, tmp_path / "merged")
    files = _files(nodes.raw(1).parent)
    assert written(tmp_path / "merged") == _merged_at_once(config, server, files, tmp_path)


@pytest.mark.extended
def test_a_node_that_is_killed_under_load_comes_back(
    start: Callable[..., tuple[Nodes, MariaDbServer]], tmp_path: Path
) -> None:
    """Nothing that the server has after its recovery is lost or doubled; a capture that follows goes on by itself."""
    nodes, server = start("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
    _begin(server)
    config, stop, writer = MergeConfig.load(nodes.configured()), threading.Event(), _Writer(server)
    failed: list[BaseException] = []

    def follow() -> None:
        try:
            capture(config, Path(config.capture.dir), CaptureOptions(follow=True), stop=stop, translating=translating)
        except BaseException as error:
            failed.append(error)

    following = threading.Thread(target=follow)
    writer.start()
    following.start()
    try:
        for _ in range(3):
            time.sleep(1)
            _kill(server)
            server.start()
    finally:
        writer.stop()
    server.query("INSERT INTO shop.t VALUES (-1, -1)")
    time.sleep(2)
    stop.set()
    following.join()
    assert not failed
    _capture(config)
    assert _alike(nodes) > 0
    merge(config, tmp_path / "merged")
