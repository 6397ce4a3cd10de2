"""A running server, and readers that are not ours: PyMySQL, mysql-replication, the mysql client, mysqlbinlog."""

import contextlib
import random
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.server import BinlogServer, ServeOptions
from binlog_merge.errors import ConfigError, IoError, ManifestError, ServerRefused
from binlog_merge.protocol.commands import RegisterReplica
from binlog_merge.protocol.handshake import (
    CACHING_SHA2,
    NATIVE,
    OFFERED,
    AuthSwitch,
    Greeting,
    HandshakeResponse,
    prove,
)
from binlog_merge.protocol.packets import Capability, PacketHeader
from tests.binlog_server.merged import merged, merged_copy
from tests.binlog_server.running import (
    PASSWORD,
    USER,
    Running,
    eventually,
    from_position,
    remote_mysqlbinlog,
    serving,
    without,
)
from tests.effort import keeping
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import expected as expected_tables
from tests.mysql_server import PREFIX

CASE = "two-nodes"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(merged(CASE)) as running:
        yield running


def _refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(pymysql.MySQLError) as caught:
        call()
    return int(caught.value.args[0]), str(caught.value.args[1])


# Who may


@pytest.mark.parametrize("plugin", ["caching_sha2_password", NATIVE, "sha256_password", "dialog", ""])
def test_the_password_is_proved_by_either_plugin(
    plugin: str, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose plugin is another one is asked to switch."""
    from pymysql.connections import Connection

    unchanged = Connection._get_server_information  # type: ignore[attr-defined]

    def with_plugin(connection: Any) -> None:
        unchanged(connection)
        connection._auth_plugin_name = plugin

    monkeypatch.setattr(Connection, "_get_server_information", with_plugin)
    assert running.query("SELECT 1, CURRENT_USER()") == [(1, f"{USER}@%")]
    for user, password in ((USER, "another"), (USER, ""), ("root", PASSWORD), ("", "")):
        code, words = _refused(lambda user=user, password=password: running.connect(user=user, password=password))
        assert (code, "Access denied" in words) == (1045, True)


@pytest.mark.parametrize("named", ["", None, "a_plugin_of_its_own", CACHING_SHA2], ids=str)
def test_a_client_that_names_no_plugin_is_asked_to_switch(named: str | None, running: Running) -> None:
    """@powersync/mysql-zongji ends its response before the plugin's name, whose presence it has announced."""
    for password, answer in ((PASSWORD, [b"\x01\x03", b"\x00"]), ("another", [b"\xff"])):
        with socket.create_connection(("127.0.0.1", running.port), 20) as sock, sock.makefile("rb") as file:
            nonce = Greeting.parse(_packet(file)).nonce
            proof = prove(CACHING_SHA2, password, nonce)
            response = HandshakeResponse(Capability(0x0EF3CF) & OFFERED, USER, proof, "", named or "").pack()
            sock.sendall(_framed(response[:-1] if named is None else response, 1))
            sequence = 1
            if named != CACHING_SHA2:
                asked = AuthSwitch.parse(_packet(file))
                assert asked == AuthSwitch(CACHING_SHA2, nonce)
                sequence = 3
                sock.sendall(_framed(proof, sequence))
            for begin in answer:
                assert _packet(file).startswith(begin), (named, password)
            if password == PASSWORD:
                sock.sendall(_framed(b"\x0e", 0))
                assert _packet(file)[0] == 0


def test_a_user_that_is_refused_is_named_in_a_line_of_bounded_length(running: Running) -> None:
    assert _refused(lambda: running.connect(user="u" * 60_000))[0] == 1045
    assert eventually(lambda: any("refused, user 'uuu" in line for line in running.reports))
    assert eventually(lambda: any("no such user from there, or another password" in line for line in running.reports))
    assert max(map(len, running.reports)) < 200


def test_long_statements_and_many_variables_are_refused_and_hold_up_nobody(running: Running) -> None:
    with contextlib.closing(running.connect()) as connection, connection.cursor() as cursor:
        for sql in (f"SET @b = '{'x' * (15 << 20)}'", f"SHOW VARIABLES LIKE '{'%a' * 200_000}'"):
            assert _refused(lambda sql=sql: cursor.execute(sql))[0] == 1153
        begin = time.process_time()
        cursor.execute(f"SHOW VARIABLES LIKE '{'%a' * 100_000}'")
        assert cursor.fetchall() == ()
        assert time.process_time() - begin < 5
        cursor.execute(f"SET @a = '{'x' * 200_000}', @a = '{'y' * 40_000}'")
        assert _refused(lambda: [cursor.execute(f"SET @b{i} = '{'x' * 200_000}'") for i in range(4)])[0] == 1041
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == ((1,),)


def _packet(file: Any) -> bytes:
    header = PacketHeader.parse(file.read(4))
    return bytes(file.read(header.length))


def _framed(payload: bytes, sequence: int) -> bytes:
    return PacketHeader(len(payload), sequence).pack() + payload


def test_without_a_password_an_empty_one_is_asked_for() -> None:
    with serving(merged(CASE), password="") as running:
        with contextlib.closing(running.connect(password="")) as connection:
            connection.ping(reconnect=False)
        assert _refused(lambda: running.connect(password="x"))[0] == 1045


def test_nobody_is_served_beyond_this_machine_without_a_password() -> None:
    log = PublishedLog(merged(CASE))
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ConfigError, match="without a password"):
            BinlogServer(log, ServeOptions(host, 0, USER, ""), print)
    with pytest.raises(ServerRefused, match="no address"):
        BinlogServer(log, ServeOptions("no such host.invalid", 0, USER, PASSWORD), print)


def test_a_port_that_is_taken_is_an_error(running: Running) -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        BinlogServer(PublishedLog(merged(CASE)), ServeOptions("127.0.0.1", running.port, USER, ""), print)


@pytest.mark.mysql
def test_tls_is_offered_with_the_certificate_that_is_given(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    out = merged(CASE)
    with serving(out, tls_cert=cert, tls_key=key) as running:
        context = ssl.create_default_context(cafile=str(cert))
        context.check_hostname = False
        encrypted = running.connect(ssl_disabled=False, ssl=context)
        with contextlib.closing(encrypted), encrypted.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
            assert cursor.fetchall() == (("Ssl_version", "TLSv1.3"),)
        name = next(iter(written(out)))
        remote_mysqlbinlog(
            running.port,
            "--read-from-remote-server",
            "--raw",
            "--to-last-log",
            "--ssl-mode=REQUIRED",
            name,
            folder=tmp_path,
        )
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == written(out)
    with pytest.raises(ConfigError, match="--tls-key goes with"):
        BinlogServer(PublishedLog(out), ServeOptions("127.0.0.1", 0, USER, "", None, key), print)
    with pytest.raises(IoError, match="certificate and key"):
        BinlogServer(PublishedLog(out), ServeOptions("127.0.0.1", 0, USER, "", key, key), print)


# What they ask


def test_what_connectors_ask_is_answered(running: Running) -> None:
    out = merged(CASE)
    view = PublishedLog(out).view()
    files = written(out)
    executed, uuid = str(view.executed), str(view.header.cluster_uuid)
    assert running.query("SHOW BINARY LOGS") == [(name, len(data), "No") for name, data in files.items()]
    name = list(files)[-1]
    for status in ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"):
        assert running.query(status) == [(name, len(files[name]), "", "", executed)]
    selected = "SELECT @@server_id, @@GLOBAL.server_uuid, @@gtid_mode, @@gtid_purged, @@log_bin, GTID_SUBSET(%s, %s)"
    subset = selected.replace("%s", f"'{uuid}:2'", 1).replace("%s", "@@gtid_executed", 1)
    assert running.query(subset) == [(9001, uuid, "ON", "", 1, 1)]
    assert running.query(f"SELECT GTID_SUBTRACT(@@gtid_executed, '{uuid}:2-3') AS g") == [
        (executed.replace(":1-", ":1:4-"),)
    ]
    shown = dict(running.query("SHOW GLOBAL VARIABLES LIKE 'binlog\\_%'"))
    wanted = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
    assert {**shown, **wanted, "binlog_checksum": "CRC32"} == shown
    several = running.query("SHOW VARIABLES WHERE Variable_name IN ('gtid_executed', 'version')")
    assert several[0] == ("gtid_executed", executed)
    with (
        contextlib.closing(running.connect(database="information_schema")) as connection,
        connection.cursor() as cursor,
    ):
        assert several[1] == ("version", connection.server_version)
        cursor.execute("SET @a = @@server_id, @b = 'x', sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')")
        cursor.execute("SELECT @A, @b, @c, DATABASE(), CONNECTION_ID()")
        assert cursor.fetchall() == ((9001, "x", None, "information_schema", connection.thread_id()),)
        cursor.execute("SET @n = 2 * 3 + 1, @t = NULL, @s = _utf8mb4'a'")
        cursor.execute("SELECT @n, @t, @s, @@sql_mode LIKE '%ANSI_QUOTES%' FROM DUAL LIMIT 1")
        assert cursor.fetchall() == ((7, None, "a", 1),)
        assert cursor.execute("SELECT 1 LIMIT 0") == 0
        assert _refused(lambda: cursor.execute('SELECT "a"'))[0] == 1054, "a name, as sql_mode says now"
        cursor.execute("BEGIN")
        connection.ping(reconnect=False)
        connection.select_db("mysql")
        for sql, code in (
            ("SELECT @@no_such_variable", 1193),
            ("SELECT NO_SUCH_FUNCTION()", 1305),
            ("SELECT GTID_SUBSET('x', '')", 1772),
            ("SELECT * FROM d1.t1", 1235),
            ("SELECT * FROM shop.orders", 1146),
            ("PURGE BINARY LOGS BEFORE NOW()", 1235),
            ("USE shop", 1049),
            ("KILL 999999", 1094),
            (" ", 1065),
            ("SHOW BINLOG EVENTS IN 'nothing'", 1105),
        ):
            assert _refused(lambda sql=sql: cursor.execute(sql))[0] == code, sql
        assert "binlog-merge serve" in _refused(lambda: cursor.execute("DELETE FROM t"))[1]
        cursor.execute("SELECT 1")


def test_binlog_events_are_shown_in_a_servers_words(running: Running) -> None:
    rows = running.query("SHOW BINLOG EVENTS LIMIT 2, 6")
    uuid = PublishedLog(merged(CASE)).view().header.cluster_uuid
    assert [row[2] for row in rows[:4]] == ["Gtid", "Query", "Rows_query", "Table_map"]
    assert (rows[0][5], rows[1][5]) == (f"SET @@SESSION.GTID_NEXT= '{uuid}:1'", "BEGIN")
    file, position = rows[1][0], rows[1][1]
    assert running.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {position} LIMIT 5") == rows[1:]
    everything = running.query("SHOW BINLOG EVENTS IN 'binlog.000001'")
    assert everything[-1][2] == "Rotate" and everything[-1][5] == "binlog.000002;pos=4"
    assert [row[1] for row in everything[1:]] == [row[4] for row in everything[:-1]]


@pytest.mark.mysql
def test_the_mysql_client_shows_what_a_person_asks(running: Running) -> None:
    command = [PREFIX / "bin" / "mysql", "--no-defaults", "-h127.0.0.1", f"-P{running.port}", f"-u{USER}"]
    command += [f"-p{PASSWORD}", "-N", "-e", "SHOW BINARY LOG STATUS; SELECT 1; SHOW WARNINGS; SHOW DATABASES"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode().splitlines()
    assert printed[0].split("\t")[4] == str(PublishedLog(merged(CASE)).view().executed)
    assert printed[1:] == ["1", "d1", "information_schema", "mysql", "performance_schema", "sys"]


# Binlogs


@pytest.mark.mysql
def test_mysqlbinlog_gets_the_files_to_the_last_byte(running: Running, tmp_path: Path) -> None:
    files = written(merged(CASE))
    first = next(iter(files))
    remote_mysqlbinlog(running.port, "--read-from-remote-server", "--raw", "--to-last-log", first, folder=tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == files
    view = PublishedLog(merged(CASE)).view()
    last, uuid = view.state.rank, view.header.cluster_uuid
    text = remote_mysqlbinlog(
        running.port,
        "--read-from-remote-source=BINLOG-DUMP-GTIDS",
        f"--exclude-gtids={uuid}:1-5:7-9",
        "--verify-binlog-checksum",
        "--to-last-log",
        first,
    )
    gtids = [
        line for line in text.decode(errors="replace").splitlines() if line.startswith("SET @@SESSION.GTID_NEXT= '")
    ]
    numbers = [int(line.split(":")[1].split("'")[0]) for line in gtids if uuid in line]
    assert numbers == [6, *range(10, last + 1)]
    with pytest.raises(RuntimeError, match="Could not find first log file"):
        remote_mysqlbinlog(running.port, "--read-from-remote-server", "binlog.000099")


@pytest.mark.parametrize(
    "place",
    [
        {"log_file": "binlog.000001", "log_pos": 4, "resume_stream": True},
        {"auto_position": "00000000-0000-0000-0000-000000000001:1-7"},
    ],
    ids=["position", "gtid"],
)
def test_mysql_replication_keeps_the_table_as_the_cluster_has_it(place: dict[str, Any], running: Running) -> None:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    reader = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": running.port, "user": USER, "passwd": PASSWORD},
        server_id=77,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        slave_heartbeat=1,
        slave_uuid="00000000-0000-0000-0000-00000000000a",
        report_slave="a-reader",
        **place,
    )
    rows: dict[int, list[str]] = {}
    with contextlib.closing(reader):
        for event in reader:
            for row in event.rows:
                before = row["before_values"] if "before_values" in row else row["values"]
                if not isinstance(event, WriteRowsEvent):
                    assert rows.pop(before["id"]) == [str(value) for value in before.values()]
                if not isinstance(event, DeleteRowsEvent):
                    after = row["after_values"] if "after_values" in row else row["values"]
                    rows[after["id"]] = [str(value) for value in after.values()]
    ((expected, _),) = expected_tables(case_named(CASE)).values()
    assert sorted(rows.values(), key=repr) == expected


def test_a_reader_must_say_that_it_knows_checksums(running: Running) -> None:
    with contextlib.closing(running.connect()) as connection:
        payload = from_position().pack()
        connection._execute_command(payload[0], payload[1:])  # type: ignore[attr-defined]
        code, words = _refused(connection._read_packet)  # type: ignore[attr-defined]
    assert (code, "checksum" in words) == (1236, True)


def test_a_place_that_is_not_there_is_1236(running: Running) -> None:
    for dump in (from_position("binlog.000001", 1 << 30), from_position("gone"), from_position("binlog.000001", 5)):
        assert _refused(lambda dump=dump: running.events(dump))[0] == 1236
    sid = PublishedLog(merged(CASE)).view().sid
    code, words = _refused(lambda: running.events(without(GtidSet.of([(sid, "", 1, 1 << 40)]))))
    assert (code, "more GTIDs" in words) == (1236, True)


def test_heartbeats_come_in_the_period_asked_for_and_in_the_form_asked_for(running: Running) -> None:
    name, data = list(written(merged(CASE)).items())[-1]
    at_end = from_position(name, len(data), flags=0)
    with running.reading(at_end, "SET @master_heartbeat_period = 1000000") as events:
        rotate, description, first, second = (next(events) for _ in range(4))
    assert (rotate[4], description[4]) == (4, 15)
    for beat in (first, second):
        assert beat[4] == 27 and beat[19:-4] == name.encode()
        assert struct.unpack_from("<I", beat, 13)[0] == len(data)
    with running.reading(from_position(name, len(data), flags=2), "SET @source_heartbeat_period = 1000000") as events:
        beat = next(event for event in events if event[4] not in (4, 15))
    assert beat[4] == 41


def test_no_period_is_too_long(running: Running) -> None:
    name, data = list(written(merged(CASE)).items())[-1]
    periods = "SET @source_heartbeat_period = 4294967000000000", "SET net_write_timeout = 9223372036854775807"
    with running.reading(from_position(name, len(data), flags=0), *periods) as events:
        assert [next(events)[4], next(events)[4]] == [4, 15]
        assert running.query("SELECT 1") == [(1,)]


def test_a_reader_that_pings_during_a_dump_is_not_left(running: Running) -> None:
    """mysql-binlog-connector-java does, to notice a dead connection."""
    name, data = list(written(merged(CASE)).items())[-1]
    with contextlib.closing(running.connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET @source_binlog_checksum = 'CRC32', @source_heartbeat_period = 1000000")
        payload = from_position(name, len(data), flags=0).pack()
        connection._execute_command(payload[0], payload[1:])  # type: ignore[attr-defined]
        for _ in range(3):
            connection._sock.sendall(b"\1\0\0\0\x0e")  # type: ignore[attr-defined]
            while connection._read_packet().get_all_data()[5] != 27:  # type: ignore[attr-defined]
                pass


def test_damage_is_told_to_the_reader_and_here(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    file = out / "binlog.000002"
    data = bytearray(file.read_bytes())
    data[-10] ^= 1
    file.write_bytes(data)
    with serving(out) as running:
        came: list[bytes] = []

        def read() -> None:
            with running.reading(from_position()) as events:
                for event in events:
                    came.append(event)

        code, words = _refused(read)
        assert (code, "checksum" in words, "binlog.000002" in words) == (1236, True, True)
        assert any("checksum-mismatch" in line and f"file {file}" in line for line in running.reports)
    whole = (out / "binlog.000001").read_bytes()[4:] + bytes(data[4 : -(19 + 8 + len("binlog.000003") + 4)])
    assert b"".join(event for event in came if not event[17] & 0x20) == whole, "everything before the damage came"


def test_a_reader_that_has_the_log_already_gets_what_is_published_next(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    whole = (out / "manifest.jsonl").read_bytes()
    (out / "manifest.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
    files = written(out)
    with serving(out) as running:
        with running.reading(from_position(flags=0)) as events:
            # At once, as merges do: seen half-written it would be a damaged one.
            (out / "whole").write_bytes(whole)
            (out / "whole").replace(out / "manifest.jsonl")
            came = b""
            while len(came) < sum(map(len, files.values())) - 4 * len(files):
                event = next(events)
                came += b"" if event[17] & 0x20 else event
        assert came == b"".join(data[4:] for data in files.values())


def test_another_output_in_the_directory_ends_the_server(tmp_path: Path) -> None:
    out = merged_copy(CASE, tmp_path)
    with serving(out) as running:
        manifest = (out / "manifest.jsonl").read_bytes()
        (out / "manifest.jsonl").write_bytes(manifest.splitlines(keepends=True)[0])
        assert eventually(lambda: running.ended_by is not None)
    assert isinstance(running.ended_by, ManifestError)


# Clients that behave badly


def _talk(running: Running, data: bytes) -> bytes:
    """Send bytes to the server, say that no more will come, and return everything that it says until it leaves."""
    said = bytearray()
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while part := sock.recv(1 << 16):
                said += part
        except TimeoutError:
            raise
        except OSError:
            pass  # it left without having read everything
    return bytes(said)


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=40)
def test_any_bytes_end_in_an_error_or_a_closed_connection(running: Running, data: bytes, framed: bool) -> None:
    answer = _talk(running, len(data).to_bytes(3, "little") + b"\1" + data if framed else data)
    assert answer[4:5] in (b"\x0a", b""), "the greeting"
    assert not [line for line in running.reports if "internal" in line]


@given(st.lists(st.tuples(st.integers(0, 0x22), st.binary(max_size=60)), max_size=6), st.randoms())
@settings(max_examples=40)
def test_any_commands_end_in_answers(running: Running, commands: list[tuple[int, bytes]], rng: random.Random) -> None:
    with contextlib.closing(running.connect()) as connection:
        for code, body in commands:
            if rng.random() < 0.5:
                body = rng.choice([from_position("x").pack(), without(GtidSet()).pack(), RegisterReplica(3).pack()])[1:]
            sock = connection._sock  # type: ignore[attr-defined]
            with contextlib.suppress(OSError):
                sock.sendall(len(body + b"x").to_bytes(3, "little") + b"\0" + bytes([code]) + body)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR) if commands else None
            while commands and sock.recv(1 << 16):
                pass
    assert not [line for line in running.reports if "internal" in line]
    assert running.query("SELECT 1") == [(1,)]


def test_a_packet_that_is_too_large_or_out_of_order_ends_the_conversation(running: Running) -> None:
    assert b"bigger than" in _talk(running, b"\xff\xff\xff\1")
    assert b"out of order" in _talk(running, b"\1\0\0\7x")


@pytest.mark.parametrize(
    "header", [b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 3307\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)]
)
def test_a_header_of_the_proxy_protocol_is_refused_by_its_name(running: Running, header: bytes) -> None:
    """Both to the client and to the operator, of whom one has turned it on."""
    said = _talk(running, header + b"\1\0\0\1x")  # a client behind the proxy answers the greeting
    answer = said[PacketHeader.parse(said[:4]).length + 4 :]
    assert PacketHeader.parse(answer[:4]).sequence == 2
    assert b"this is a header of the PROXY protocol" in answer
    assert any("refused: Bad handshake: this is a header of the PROXY protocol" in line for line in running.reports)


def test_a_reader_that_is_gone_frees_its_thread(running: Running) -> None:
    def waiting() -> int:
        return len(running.server._clients)

    assert eventually(lambda: waiting() == 0), "those of other tests are gone"
    name, data = list(written(merged(CASE)).items())[-1]
    with running.reading(from_position(name, len(data), flags=0)) as events:
        next(events)
        assert waiting() == 1
    assert eventually(lambda: waiting() == 0)


def test_a_reader_that_comes_again_replaces_itself_and_kill_ends_one(running: Running) -> None:
    name, data = list(written(merged(CASE)).items())[-1]
    dump = from_position(name, len(data), flags=0)
    with running.reading(dump, "SET @replica_uuid = 'the same'") as first:
        next(first), next(first)
        with running.reading(dump, "SET @replica_uuid = 'the same'") as second:
            next(second), next(second)
            with pytest.raises(pymysql.err.OperationalError):
                next(first)
    with contextlib.closing(running.connect()) as connection:
        running.query(f"KILL {connection.thread_id()}")
        assert _refused(lambda: connection.ping(reconnect=False))[0] in (2006, 2013)


def test_registered_replicas_are_shown(running: Running) -> None:
    with contextlib.closing(running.connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET @replica_uuid = 'u-u'")
        payload = RegisterReplica(4711, b"far-away", port=3306).pack()
        connection._execute_command(payload[0], payload[1:])  # type: ignore[attr-defined]
        connection._read_packet()  # type: ignore[attr-defined]
        assert (4711, "far-away", 3306, 9001, "u-u") in running.query("SHOW REPLICAS")
        assert (4711, "far-away", 3306, 9001, "u-u", USER) in [row[:6] for row in running.query("SHOW FULL REPLICAS")]
    name, data = next(iter(written(merged(CASE)).items()))
    with running.reading(from_position(name, len(data), flags=0)) as events:
        next(events), next(events)
        assert eventually(lambda: running.server.readers()[0].waiting)
        (row,) = running.query("SHOW FULL REPLICAS")
        end = PublishedLog(merged(CASE)).view().end
        assert row == (7, "127.0.0.1", 0, 9001, "", USER, *end, None, row[9], 0, "", "")
        assert row[9] > 0, "bytes a second"
        with socket.create_connection(("127.0.0.1", running.port), 20):
            rows = running.query("SHOW FULL PROCESSLIST")
        shown = {(row[1], row[4], row[6]) for row in rows}
        sent_all = "Source has sent all binlog to replica; waiting for more updates"
        assert shown >= {(USER, "Binlog Dump", sent_all), (USER, "Query", ""), ("unauthenticated user", "Connect", "")}
        assert all(row[2].startswith("127.0.0.1:") and row[5] >= 0 for row in rows)


# The command


@pytest.mark.parametrize(
    ("number", "code"), keeping([(signal.SIGTERM, 143)], [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
)
def test_a_signal_ends_the_command_with_its_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(PASSWORD + "\n")
    program = Path(sys.executable).with_name("binlog-merge")
    command = [program, "serve", merged(CASE), "--port", "0", "--password-file", tmp_path / "pw"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    port = int(line.split("127.0.0.1:")[1].split()[0])
    with contextlib.closing(pymysql.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD)) as connection:
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
        assert _refused(lambda: connection.ping(reconnect=False))[0] in (2006, 2013)
    assert process.returncode == code and "Traceback" not in told, told
