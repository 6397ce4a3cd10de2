"""A MySQL of today for clients that know only older ones: the control of what they get from `serve`.

It logs in by itself, greets with mysql_native_password, takes whatever proof comes, and passes everything on, but for
two statements: SHOW MASTER STATUS is called otherwise since 8.4, and in their own character sets columns of
information_schema have collation 76, which pgloader does not know. `serve` suits both kinds of clients by itself.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pymysql

from binlog_merge.protocol.handshake import NATIVE, Greeting, HandshakeResponse, new_nonce
from binlog_merge.protocol.packets import Capability, Ok, PacketHeader
from tests.binlog_server.running import PASSWORD, USER

_OFFERED = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_CONNECT_WITH_DB
    | Capability.CLIENT_TRANSACTIONS
)
_INSTEAD = {
    b"\x03SHOW MASTER STATUS": b"\x03SHOW BINARY LOG STATUS",
    b"\x03SET character_set_results = null;": b"\x03SET character_set_results = utf8mb3",
}


@contextlib.contextmanager
def as_older(port: int) -> Iterator[int]:
    """Yield a port at which the server of another is as an older one, for as long as the context lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):  # it is closed
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, port), daemon=True).start()


def _serve(client: socket.socket, port: int) -> None:
    with client, contextlib.suppress(OSError, EOFError, pymysql.MySQLError):
        session = pymysql.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, ssl_disabled=True)
        server: socket.socket = session._sock  # type: ignore[attr-defined]
        server.settimeout(None)
        version = session.get_server_info()
        _send(client, 0, Greeting(version, session.thread_id(), new_nonce(), _OFFERED, NATIVE).pack())
        if database := HandshakeResponse.parse(_receive(client)[1]).database:
            session.select_db(database)
        _send(client, 2, Ok().pack())
        threading.Thread(target=_answers, args=(server, client), daemon=True).start()
        while True:
            number, payload = _receive(client)
            _send(server, number, _INSTEAD.get(payload, payload))


def _answers(server: socket.socket, client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := server.recv(1 << 16):
            client.sendall(data)


def _receive(sender: socket.socket) -> tuple[int, bytes]:
    header = PacketHeader.parse(_exactly(sender, 4))
    return header.sequence, _exactly(sender, header.length)


def _exactly(sender: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := sender.recv(size - len(data))):
            raise EOFError
        data += more
    return data


def _send(receiver: socket.socket, number: int, payload: bytes) -> None:
    receiver.sendall(PacketHeader(len(payload), number).pack() + payload)
