"""What clients may take: none of them, and no flood of them, is felt by the others."""

import contextlib
import resource
import socket
import struct
import time
import zlib
from importlib import import_module
from unittest import mock

import pymysql
import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.session import Session
from binlog_merge.binlog_server.settings import Limits, take_descriptors, too_few
from binlog_merge.protocol.compression import FrameHeader
from binlog_merge.protocol.handshake import OFFERED, SslRequest
from binlog_merge.protocol.packets import Capability, PacketHeader
from tests.binlog_server.merged import merged
from tests.binlog_server.raw import Raw, response
from tests.binlog_server.running import eventually, from_position, serving, without
from tests.effort import keeping

connection = import_module("binlog_merge.binlog_server.connection")
prepared = import_module("binlog_merge.binlog_server.prepared")
CASE = "two-nodes"


def test_only_so_many_are_logged_in() -> None:
    with serving(merged(CASE), limits=Limits(connections=2)) as running, contextlib.closing(running.connect()):
        first = running.connect()
        with pytest.raises(pymysql.MySQLError, match="1040, 'Too many connections'"):
            running.connect()
        first.close()

        def room() -> bool:
            with contextlib.suppress(pymysql.MySQLError):
                running.connect().close()
                return True
            return False

        assert eventually(room)


def test_of_those_that_do_not_log_in_the_oldest_leaves_for_one_more() -> None:
    with (
        serving(merged(CASE), limits=Limits(logins=5)) as running,
        contextlib.ExitStack() as opened,
        running.reading(from_position(flags=0)) as events,
    ):
        next(events)
        address = ("127.0.0.1", running.port)
        flood = [opened.enter_context(socket.create_connection(address, 20)) for _ in range(100)]
        assert running.query("SELECT 1") == [(1,)]
        while flood[0].recv(4096):
            pass  # the greeting, and then the end
        assert flood[-1].recv(4096), "the newest may still log in"
        assert len(running.server._clients) <= 7
        next(events)


def test_those_that_begin_tls_and_go_no_further_have_to_leave_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_CONNECT_TIMEOUT", 1000.0)
    with serving(merged(CASE), limits=Limits(logins=5)) as running, contextlib.ExitStack() as opened:
        for _ in range(20):
            raw = opened.enter_context(Raw(("127.0.0.1", running.port)))
            raw.send(SslRequest(OFFERED | Capability.CLIENT_SSL).pack())
            raw.sock.sendall(b"\x16\x03\x01\x02\x00\x01")  # how a ClientHello begins
        assert eventually(lambda: len(running.server._clients) <= 5)
        assert running.query("SELECT 1") == [(1,)]


def test_what_the_greeting_takes_is_not_of_the_time_to_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    greet = Session.greeting

    def slow(session: Session) -> bytes:
        time.sleep(1.5)
        return greet(session)

    monkeypatch.setattr(connection, "_CONNECT_TIMEOUT", 1.5)
    monkeypatch.setattr(Session, "greeting", slow)
    with serving(merged(CASE)) as running:
        assert running.query("SELECT 1") == [(1,)]


def test_statements_and_variables_have_the_lengths_that_are_given() -> None:
    with (
        serving(merged(CASE), limits=Limits(statement=2000, variables=1000)) as running,
        contextlib.closing(running.connect()) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"SET @a = '{'x' * 900}'")
        for sql, code in ((f"SET @b = '{'x' * 200}'", 1041), (f"SELECT '{'x' * 2000}'", 1153)):
            with pytest.raises(pymysql.MySQLError) as caught:
                cursor.execute(sql)
            assert caught.value.args[0] == code


@pytest.mark.parametrize("size", keeping(["many intervals"], ["many intervals", "many sources"]))
def test_a_set_of_gtids_has_a_length_and_one_within_it_is_served(size: str) -> None:
    """Whoever sends 16 MB of it would take a minute of the server's, and a second of the others'."""

    def has(number: int) -> GtidSet:
        if size == "many sources":
            return GtidSet.of((n.to_bytes(16, "big"), "", 1, 2) for n in range(number // 40))
        return GtidSet.of((b"s" * 16, "", n, n + 1) for n in range(1, number // 8, 2))

    most = Limits().gtids
    with serving(merged(CASE)) as running:
        whole = running.events(without(GtidSet()))
        assert running.events(without(has(most - 200))) == whole
        with pytest.raises(pymysql.MySQLError, match=f"1236, .* GTID set .* takes {most}, some 65536 intervals"):
            running.events(without(has(most + 200)))
        assert running.query("SELECT 1") == [(1,)]


def test_values_that_come_before_an_execution_are_not_kept_without_end() -> None:
    """A statement that has lost a part of its value is refused, and not executed with the rest of it."""
    with serving(merged(CASE), limits=Limits(statement=2000)) as running, Raw(("127.0.0.1", running.port)) as raw:
        assert raw.login(response(raw.nonce).pack()) == "ok"
        number = struct.pack("<I", raw.prepare(b"SELECT ?"))
        execute = b"\x17" + number + b"\0\1\0\0\0\0\1" + struct.pack("<H", 253)
        for parts, answer in ((3, "1153"), (2, "rows"), (3, "1153"), (1, "rows")):
            for _ in range(parts):
                raw.send(b"\x18" + number + b"\0\0" + b"x" * 900, begin=True)
            assert raw.ask(execute)[:4] == answer
        (session,) = [client.session for client in running.server._clients]
        others = [struct.pack("<I", raw.prepare(b"SELECT ?")) for _ in range(20)]
        with mock.patch.object(prepared, "_MOST_LONG", 10_000):
            for other in others:
                raw.send(b"\x18" + other + b"\0\0" + b"x" * 900, begin=True)
            assert raw.ask(b"\x0e") == "ok"
            assert sum(one.kept() for one in session._statements._known.values()) == 9900
            assert raw.ask(execute.replace(number, others[-1], 1)) == "1153"
            assert raw.ask(execute.replace(number, others[0], 1))[:4] == "rows"


def test_frames_that_expand_to_much_end_a_dump() -> None:
    flags = OFFERED & ~Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM & ~Capability.CLIENT_CONNECT_WITH_DB
    with serving(merged(CASE)) as running, Raw(("127.0.0.1", running.port)) as raw:
        assert raw.login(response(raw.nonce, capabilities=flags).pack()) == "ok"
        for payload in (b"\x03SET @source_binlog_checksum = 'CRC32'", from_position(flags=0).pack()):
            packet = PacketHeader(len(payload), 0).pack() + payload
            raw.sock.sendall(FrameHeader(len(packet), 0, 0).pack() + packet)
        assert eventually(lambda: [reader.waiting for reader in running.server.readers()] == [True])
        bomb = zlib.compress(bytes(1 << 23))
        raw.sock.sendall((FrameHeader(len(bomb), 0, 1 << 23).pack() + bomb) * 4)
        assert eventually(lambda: not running.server.readers())


def test_what_clients_name_is_cut_in_lines_of_the_log() -> None:
    with serving(merged(CASE)) as running:
        with pytest.raises(pymysql.MySQLError, match="1236"):
            running.events(from_position("no\n" * 100_000))
        assert eventually(lambda: any("disconnected" in line for line in running.reports))
        assert max(map(len, running.reports)) < 600
        assert not any("\n" in line for line in running.reports)


def test_as_many_descriptors_are_taken_as_there_may_be() -> None:
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, most))
    try:
        taken = take_descriptors()
        assert taken == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
    assert "enough for 87 readers" in too_few(512, Limits()) and too_few(1024, Limits()) == ""
