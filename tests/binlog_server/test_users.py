"""Who is served: users of a file with hashes, over TLS and without, by a server's own clients and by PyMySQL."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog_server.accounts import Account, Accounts, accounts_in
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.login import Gate, Login, PasswordKey
from binlog_merge.binlog_server.server import BinlogServer, ServeOptions
from binlog_merge.binlog_server.settings import Limits
from binlog_merge.errors import ConfigError, IoError
from binlog_merge.protocol.handshake import CACHING_SHA2, NATIVE, OFFERED, Greeting, HandshakeResponse
from binlog_merge.protocol.packets import PacketHeader
from binlog_merge.protocol.passwords import Crypt, Secret, native_text
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, USER, Running, serving
from tests.binlog_server.test_replica import _caught_up, _replica
from tests.mysql_server import PREFIX, MySqlServer

CASE = "two-nodes"
KEY = PasswordKey()


def _users(file: Path, text: str) -> Path:
    file.write_text(f"users:\n{text}")
    return file


def _user(name: str, password: str, hosts: str = "'%'") -> str:
    return f"  - {{name: {name}, password: '{password}', hosts: [{hosts}]}}\n"


def _mysql(running: Running, *options: str, user: str = USER, password: str = PASSWORD) -> str:
    """Return what the mysql client prints of who it is; its complaint, where it has one."""
    command = [str(PREFIX / "bin" / "mysql"), "--no-defaults", "-h127.0.0.1", f"-P{running.port}", f"-u{user}"]
    command += [f"-p{password}", "-Ne", "SELECT USER()", *options]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, text=True)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def _denied(call: Callable[[], Any]) -> int:
    with pytest.raises(pymysql.MySQLError) as caught:
        call()
    return int(caught.value.args[0])


@pytest.mark.mysql
def test_a_users_password_is_given_once_and_proved_from_then_on(tmp_path: Path) -> None:
    """Over TLS it comes as it is, without it hidden by the server's key, which the mysql client has to ask for."""
    file = _users(tmp_path / "users.yaml", _user(USER, Crypt.of(PASSWORD).text()) + _user("other", native_text("o")))
    hidden, asks = "--ssl-mode=DISABLED", "--get-server-public-key"
    with serving(merged(CASE), users=file) as running:
        assert "requires secure connection" in _mysql(running, hidden)
        assert "Access denied" in _mysql(running, hidden, asks, password="wrong")
        assert _mysql(running, hidden, asks) == f"{USER}@%"
        assert _mysql(running, hidden) == f"{USER}@%", "the fast path needs no key"
        assert "Access denied" in _mysql(running, password="wrong")
        running.connect(user="other", password="o").close()
        assert "Access denied" in _mysql(running, user="nobody")
        for user in ("other", "nobody"):
            assert _denied(lambda user=user: running.connect(user=user)) == 1045
    with serving(merged(CASE), users=file) as running:
        assert _mysql(running, "--ssl-mode=REQUIRED") == f"{USER}@%"
        assert _mysql(running, hidden) == f"{USER}@%"
    with serving(merged(CASE), users=file) as running:
        assert running.query("SELECT 1") == [(1,)], "PyMySQL asks for the key by itself"


@pytest.mark.mysql
def test_hashes_are_those_of_a_server(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE USER a IDENTIFIED BY 'päss'; CREATE USER b IDENTIFIED BY ''")
    mysql_server.execute(f"CREATE USER c IDENTIFIED WITH caching_sha2_password AS '{Crypt.of('päss').text()}'")
    try:
        ((hashed,),) = mysql_server.query(
            "SELECT CONCAT('0x', HEX(authentication_string)) FROM mysql.user WHERE user = 'a'"
        )
        crypt = Secret.parse(hashed).crypt
        assert crypt is not None and crypt.is_of("päss".encode()) and not crypt.is_of(b"pass")
        for password, ok in (("päss".encode(), True), (b"pass", False)):
            try:
                pymysql.connect(unix_socket=mysql_server.socket, user="c", password=password).close()
                assert ok
            except pymysql.err.OperationalError:
                assert not ok
    finally:
        mysql_server.execute("DROP USER a, b, c")


@pytest.mark.mysql
def test_a_replica_logs_in_by_a_hash_and_the_servers_own_certificate(mysql_server: MySqlServer, tmp_path: Path) -> None:
    file = _users(tmp_path / "users.yaml", _user(USER, Crypt.of(PASSWORD).text(), "127.0.0.0/8"))
    mysql_server.drop_databases()
    with (
        serving(merged("ddl-by-markers"), users=file, tls_required=True) as source,
        _replica(mysql_server, source, "SOURCE_AUTO_POSITION=1"),
    ):
        _caught_up(mysql_server, merged("ddl-by-markers"))


def test_clients_are_greeted_with_the_plugin_that_the_users_have(tmp_path: Path) -> None:
    """pgloader and old drivers know mysql_native_password alone, and leave when another is named first."""
    file = _users(tmp_path / "users.yaml", old := _user("old", native_text("1")))
    with serving(merged(CASE), users=file) as running:
        assert _greeted(running) == NATIVE
        running.connect(user="old", password="1").close()
        _users(file, old + _user("new", Crypt.of("2").text()))
        assert _greeted(running) == CACHING_SHA2
        running.connect(user="old", password="1").close()
    with serving(merged(CASE)) as running:
        assert _greeted(running) == CACHING_SHA2


def _greeted(running: Running) -> str:
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        length = PacketHeader.parse(connection.recv(4, socket.MSG_WAITALL)).length
        return Greeting.parse(connection.recv(length, socket.MSG_WAITALL)).plugin


def test_a_file_of_users_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = _users(tmp_path / "users.yaml", _user("one", native_text("1")))
    with serving(merged(CASE), users=file) as running:
        running.connect(user="one", password="1").close()
        _users(file, _user("one", native_text("new")) + _user("two", native_text("2"), "10.0.0.%"))
        running.connect(user="one", password="new").close()
        assert _denied(lambda: running.connect(user="one", password="1")) == 1045
        assert _denied(lambda: running.connect(user="two", password="2")) == 1045, "not from here"
        file.write_text("users: [{name: one, pasword: x}]")
        running.connect(user="one", password="new").close()
        (line,) = [line for line in running.reports if "users are those from before" in line]
        assert f"{file}:1" in line and "did you mean 'password'" in line


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("users: []", "should not be empty"),
        ("users: [{name: a, password: secret}]", "is no hash.*binlog-merge password"),
        (f"users: [{{name: a, password: '{native_text('a')}', hosts: [db.example.com]}}]", "names are not looked up"),
        (f"users: [{{name: a, password: '{native_text('a')}', hosts: [10.0.0.0/99]}}]", "is no host"),
        (
            f"users: [{{name: a, password: '{native_text('a')}'}}, {{name: a, password: '{native_text('b')}'}}]",
            "'a' from every",
        ),
    ],
)
def test_a_file_that_is_wrong_is_an_error_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        accounts_in(tmp_path / "users.yaml")
    assert caught.value.file == f"{tmp_path / 'users.yaml'}:1"


@pytest.mark.parametrize(
    ("hosts", "address", "admitted"),
    [
        ("%", "10.1.2.3", True),
        ("10.1.%", "10.1.2.3", True),
        ("10.1.%", "10.11.2.3", False),
        ("10.1.2._", "10.1.2.3", True),
        ("10.1.2._", "10.1.2.33", False),
        ("10.1.0.0/16", "10.1.2.3", True),
        ("10.1.0.0/255.255.0.0", "10.2.0.1", False),
        ("10.1.2.3", "::ffff:10.1.2.3", True),
        ("localhost", "::1", True),
        ("localhost", "10.1.2.3", False),
        ("fe80::%", "fe80::1%eth0", True),
    ],
)
def test_hosts_are_patterns_and_networks(hosts: str, address: str, admitted: bool) -> None:
    accounts = Accounts([Account("a", (Secret.of("x"),), (hosts,))], None, print)
    assert (accounts.find("a", address).secrets[0] == Secret.of("x")) == admitted


@pytest.mark.mysql
def test_tls_may_be_required_and_a_certificate_of_the_client_too(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = certificate
    with serving(merged(CASE), tls_required=True) as running:
        assert _denied(running.connect) == 3159
        assert _mysql(running) == f"{USER}@%", "over TLS, with the server's own certificate"
    with serving(merged(CASE), tls_required=True, tls_ca=cert) as running:
        assert "ERROR 2" in _mysql(running), "no certificate is shown"
        assert _mysql(running, f"--ssl-cert={cert}", f"--ssl-key={key}") == f"{USER}@%"
        assert any("refused, TLS fails" in line for line in running.reports)
    with pytest.raises(IoError, match="CA of clients"):
        options = ServeOptions("127.0.0.1", 0, USER, "", tls_ca=tmp_path / "none.pem", tls_required=True)
        BinlogServer(PublishedLog(merged(CASE)), options, print)


@given(
    st.sampled_from([Secret.of("x"), Secret(crypt=Crypt.of("x")), None]),
    st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([b"\2", b"x\0"])), max_size=4),
    st.booleans(),
)
def test_any_packets_of_a_login_are_answered_and_prove_nothing(
    secret: Secret | None, payloads: list[bytes], encrypted: bool
) -> None:
    account = Account("a", () if secret is None else (secret,))
    gate = Gate(Accounts([account], None, print), KEY, Limits(), lambda: 0)
    login = Login(gate, b"n" * 20, "127.0.0.1")
    login.encrypted = encrypted
    response = HandshakeResponse(OFFERED, "a", b"p" * 32, plugin=CACHING_SHA2).pack()
    answered = login.receive(response)
    assert not answered.proved
    for payload in payloads:
        if answered.denied or answered.proved:
            break
        answered = login.receive(payload)
        assert answered.proved == (payload == b"x\0" and encrypted) and bool(answered.payloads) != answered.proved


def test_the_command_makes_hashes() -> None:
    command = [sys.executable, "-m", "binlog_merge.cli.main", "password"]
    made = subprocess.run(command, input="hush\n", capture_output=True, check=True, text=True).stdout.strip()
    crypt = Secret.parse(made).crypt
    assert crypt is not None and crypt.is_of(b"hush")
    made = subprocess.run([*command, "--native"], input="hush\n", capture_output=True, check=True, text=True).stdout
    assert made == native_text("hush") + "\n"
    assert subprocess.run(command, input="", capture_output=True, check=False, text=True).returncode == 2
