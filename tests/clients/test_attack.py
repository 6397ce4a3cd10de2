"""`serve` under attack, by people with and without the password: it stays up, its memory is bounded, and a reader that
is there meanwhile gets every byte.

THOROUGH=1 sends five times as many packets. FUZZ_SEED and FUZZ_PACKETS choose other packets, or more or fewer of them;
what was chosen is printed, the memory, and the longest that another session has waited for an answer.
"""

import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pymysql
import pytest
import yaml

from binlog_merge.protocol.commands import RegisterReplica
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import from_position
from tests.clients.hostile import after_login, before_login, exhausting, packet
from tests.clients.served import Served, served, until
from tests.clients.test_mysql import MYSQLBINLOG, fetching
from tests.effort import effort
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import ALONE
from tests.patience import Patience

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
SEED: Final = os.environ.get("FUZZ_SEED", "25 November 2026")
PACKETS: Final = int(os.environ.get("FUZZ_PACKETS", effort(20_000, 100_000)))
CONNECTIONS: Final = 10_000
MIB: Final = 1 << 20
_THREADS: Final = 4


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    growing = Growing.of(tmp_path)
    growing.publish(0.2)
    return growing


@contextlib.contextmanager
def attacked(growing: Growing, folder: Path, most: int) -> Iterator[Served]:
    """Serve a log that grows to a reader that must get every byte; it may take `most` bytes more meanwhile."""
    raw = folder / "raw"
    raw.mkdir()
    with served(growing.out, folder) as server, fetching(MYSQLBINLOG, server, raw, "binlog.000001"):
        server.query("SELECT COUNT(*) FROM information_schema.columns")  # DuckDB and sqlglot are loaded
        begun, threads, descriptors = server.memory(), server.threads(), server.descriptors()
        over, peak, slowest = threading.Event(), [begun], [0.0]
        asking = server.connect()

        def watch() -> None:
            parts = iter((0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))
            with contextlib.closing(asking), asking.cursor() as cursor:
                while not over.wait(0.1):
                    peak[0] = max(peak[0], server.memory())
                    asked = time.monotonic()
                    assert cursor.execute("SELECT @@gtid_executed") == 1
                    slowest[0] = max(slowest[0], time.monotonic() - asked)
                    if random.random() < 0.02:
                        growing.publish(next(parts, 0.9))

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                yield server
            finally:
                over.set()
            watching.result()
        growing.publish(1)
        until(lambda: {path.name: path.read_bytes() for path in raw.iterdir()} == written(growing.out))
        used = ", ".join(f"{memory / MIB:.0f}" for memory in (begun, peak[0], server.memory()))
        print(f"seed {SEED!r}; MiB resident before, at most, and now: {used}; another waited for {slowest[0]:.2f} s")
        assert peak[0] - begun < most
        until(lambda: server.threads() <= threads and server.descriptors() <= descriptors, server.said)
        assert server.query("SELECT 1") == [(1,)]


def each(numbers: range, work: Callable[[int], None]) -> None:
    """Do something for each number, some at once. Raises what one of them raises."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(work, numbers, chunksize=1):
            pass


def connected(server: Served, number: int) -> socket.socket:
    """Return a connection; so many come from one address that it would run out of ports."""
    here = (f"127.0.0.{2 + number % 200}", 0)
    return socket.create_connection(("127.0.0.1", server.port), timeout=120, source_address=here)


def drained(sock: socket.socket) -> None:
    """Say that nothing more comes, and read until the server has left."""
    try:
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass
    except TimeoutError:
        raise
    except OSError:
        pass  # it left without having read everything


def test_packets_before_login(growing: Growing, tmp_path: Path) -> None:
    def attack(number: int) -> None:
        data = before_login(random.Random(f"{SEED} before {number}"))
        with connected(server, number) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            drained(sock)

    with attacked(growing, tmp_path, 64 * MIB) as server:
        each(range(PACKETS // 2), attack)


def test_packets_after_login(growing: Growing, tmp_path: Path) -> None:
    together = 10

    def attack(number: int) -> None:
        rng = random.Random(f"{SEED} after {number}")
        with contextlib.closing(server.connect()) as connection:
            sock = connection._sock  # type: ignore[attr-defined]
            sock.settimeout(120)
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"".join(after_login(rng) for _ in range(together)))
            drained(sock)

    with attacked(growing, tmp_path, 1200 * MIB) as server:
        each(range(PACKETS // 2 // together), attack)


def test_ten_thousand_connections(growing: Growing, tmp_path: Path) -> None:
    """In waves: some are silent, some send a byte now and then, some stop within their answer to the greeting."""
    wave = 1000
    with attacked(growing, tmp_path, 64 * MIB) as server:
        for first in range(0, CONNECTIONS, wave):
            with contextlib.ExitStack() as opened:
                socks = [opened.enter_context(connected(server, number)) for number in range(first, first + wave)]
                left = set(range(wave))
                patience = Patience(120)
                while left:
                    assert patience.lasts(), f"{len(left)} of {wave} are still there"
                    left = {number for number in left if _drips(socks[number], number)}
                    time.sleep(0.2)
            until(lambda: _may_log_in(server))


def _drips(sock: socket.socket, number: int) -> bool:
    """Send what this one sends; return whether the server has not left it yet."""
    sock.setblocking(False)
    try:
        if number % 3 == 1:
            sock.send(b"\x20")
        elif number % 3 == 2:
            sock.send(packet(b"\x05\xa2\x08\x00" + bytes(100), 1)[: 4 + number % 100])
        return bool(sock.recv(1 << 16))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def _may_log_in(server: Served) -> bool:
    try:
        return server.query("SELECT 1") == [(1,)]
    except pymysql.OperationalError as error:
        assert error.args[0] in (1040, 2003, 2013), error
        return False


def test_slow_readers(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """They ask for all of a log that fits in no buffer, and take nothing of it until another one has had it."""
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b LONGTEXT)")
    for _ in range(40):
        mysql_server.execute("INSERT INTO d.t (b) VALUES (REPEAT(UUID(), 28000))")
    mysql_server.execute("FLUSH BINARY LOGS")
    node = {"source-id": "dn-1", "files": [f"{mysql_server.data}/binlog.*"]}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({"version": 1, "name": "big", "nodes": [node], **ALONE}))
    merge(tmp_path / "cluster.yaml", tmp_path / "out")
    with served(tmp_path / "out", tmp_path) as server, contextlib.ExitStack() as opened:
        begun = server.memory()
        slow = [opened.enter_context(contextlib.closing(_dumping(server))) for _ in range(30)]
        whole = _read(opened.enter_context(contextlib.closing(_dumping(server))))
        used = server.memory()
        print(f"MiB resident before and with 30 readers: {begun / MIB:.0f}, {used / MIB:.0f}")
        assert len(whole) > 30 * MIB and used - begun < 120 * MIB, "a few times the event that each waits for"
        for connection in slow[:5]:
            assert _read(connection) == whole


def _dumping(server: Served) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum = 'CRC32', net_write_timeout = 600")
    dump = from_position().pack()
    connection._execute_command(dump[0], dump[1:])  # type: ignore[attr-defined]
    return connection


def _read(connection: "pymysql.Connection[pymysql.cursors.Cursor]") -> bytes:
    events = bytearray()
    while not (found := connection._read_packet()).is_eof_packet():  # type: ignore[attr-defined]
        events += found.get_all_data()[1:]
    return bytes(events)


def test_hostile_statements(growing: Growing, tmp_path: Path) -> None:
    """Four sessions at once send them; another one gets its answers meanwhile."""
    with attacked(growing, tmp_path, 1600 * MIB) as server:
        over = threading.Event()

        def asks() -> int:
            answers = 0
            with contextlib.closing(server.connect(read_timeout=120)) as connection, connection.cursor() as cursor:
                while not over.is_set():
                    cursor.execute("SELECT @@gtid_executed")
                    answers += len(cursor.fetchall())
            return answers

        with ThreadPoolExecutor(5) as pool:
            other = pool.submit(asks)
            try:
                for done in [pool.submit(_send_all, server) for _ in range(4)]:
                    done.result()
            finally:
                over.set()
            assert other.result() > 10


def _send_all(server: Served) -> None:
    """Send everything that exhausts, each in a session that may end by it."""
    for sql in exhausting():
        connection = server.connect()
        try:
            connection._execute_command(3, sql)  # type: ignore[attr-defined]
            connection._read_packet()  # type: ignore[attr-defined]
        except pymysql.MySQLError as error:
            assert error.args[0] not in (0, 2006, 2013), (sql[:100], error)
        finally:
            connection._force_close()  # type: ignore[attr-defined]


def test_sessions_that_keep_much(growing: Growing, tmp_path: Path) -> None:
    """Thousands of variables, and thousands of prepared statements that are never closed, in twenty sessions."""
    with attacked(growing, tmp_path, 200 * MIB) as server, contextlib.ExitStack() as opened:
        for _ in range(20):
            connection = opened.enter_context(contextlib.closing(server.connect()))
            with connection.cursor() as cursor:
                refused = 0
                for number in range(60):
                    sql = "SET " + ", ".join(f"@v{number}_{n} = '{'x' * 30}'" for n in range(300))
                    try:
                        cursor.execute(sql)
                    except pymysql.MySQLError as error:
                        refused += error.args[0] == 1041
                assert refused
            for number in range(25):
                with contextlib.suppress(pymysql.MySQLError):
                    _prepare(connection, f"SELECT {number}, ? FROM information_schema.tables WHERE table_name = ?")
            payload = RegisterReplica(7, b"h" * 60).pack()
            connection._execute_command(payload[0], payload[1:])  # type: ignore[attr-defined]
            connection._read_packet()  # type: ignore[attr-defined]


def _prepare(connection: "pymysql.Connection[pymysql.cursors.Cursor]", sql: str) -> None:
    """Prepare a statement, and never close it. Raises MySQLError once there are too many."""
    connection._execute_command(0x16, sql)  # type: ignore[attr-defined]
    answer = connection._read_packet().get_all_data()  # type: ignore[attr-defined]
    for described in struct.unpack_from("<HH", answer, 5):
        for _ in range(described + 1 if described else 0):
            connection._read_packet()  # type: ignore[attr-defined]
