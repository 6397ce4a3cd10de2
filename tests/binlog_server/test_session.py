"""Sessions without a socket: what depends on who the client says that it is."""

from collections.abc import Iterator

import pytest

from binlog_merge.binlog_server.accounts import Account, Accounts
from binlog_merge.binlog_server.login import Gate, PasswordKey
from binlog_merge.binlog_server.session import Session
from binlog_merge.binlog_server.settings import Limits
from binlog_merge.protocol.handshake import NATIVE, OFFERED, HandshakeResponse
from binlog_merge.protocol.packets import Capability
from tests.binlog_server.merged import merged
from tests.binlog_server.running import USER, Running, serving


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(merged("two-nodes")) as running:
        yield running


@pytest.mark.parametrize(
    ("client", "program", "begins"),
    [("libmariadb", "mysqlbinlog", b"5.5.5-9."), ("libmariadb", "mysql", b"9."), ("libmysql", "mysqlbinlog", b"9.")],
)
def test_mariadbs_binlog_reader_is_told_a_version_that_it_takes(
    client: str, program: str, begins: bytes, running: Running
) -> None:
    gate = Gate(Accounts([Account(USER)], None, print), PasswordKey(), Limits(), lambda: 0)
    session = Session(gate, running.server, 1, bytes(20))
    attributes = {"_client_name": client, "program_name": program}
    session.receive(HandshakeResponse(Capability(OFFERED), USER, b"", "", NATIVE, attributes).pack())
    session.receive(b"")  # to the auth switch
    assert session.trusted
    (_, _, _, row, _) = session.receive(b"\x03SELECT VERSION()").payloads
    assert row[1:].startswith(begins)
