"""A client of any server that sends the bytes it is given, and says in short what it was answered."""

import socket
import ssl
import struct
from dataclasses import dataclass, field

from binlog_merge.protocol.handshake import CACHING_SHA2, OFFERED, HandshakeResponse, prove
from binlog_merge.protocol.packets import MAX_PAYLOAD, Capability, Eof
from tests.binlog_server.running import PASSWORD, USER

Address = tuple[str, int] | str
"""A host and a port, or the path of a unix socket."""
PLAIN = OFFERED & ~(
    Capability.CLIENT_COMPRESS | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM | Capability.CLIENT_CONNECT_WITH_DB
)
"""What an ordinary client says that it can."""


class Closed(Exception):  # noqa: N818
    """The server has left."""


@dataclass
class Raw:
    """A connection as packets."""

    address: Address
    timeout: float = 20.0
    nonce: bytes = b""
    sequence: int = 0
    sock: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        self.sock = socket.socket(family)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.address)
        greeting = self.receive()
        parts = greeting.index(b"\0", 1) + 1
        self.nonce = greeting[parts + 4 : parts + 12] + greeting[parts + 31 : parts + 43]

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, payload: bytes, begin: bool = False) -> None:
        """Send a payload; `begin`: it begins a command."""
        if begin:
            self.sequence = 0
        for at in range(0, len(payload) + 1, MAX_PAYLOAD):
            part = payload[at : at + MAX_PAYLOAD]
            self.sock.sendall(len(part).to_bytes(3, "little") + bytes([self.sequence & 0xFF]) + part)
            self.sequence += 1

    def receive(self) -> bytes:
        """Return the next payload. Raises Closed."""
        payload = b""
        while True:
            head = self._exactly(4)
            self.sequence = head[3] + 1
            length = int.from_bytes(head[:3], "little")
            payload += self._exactly(length)
            if length < MAX_PAYLOAD:
                return payload

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.sock.recv(size - len(data))
            except ConnectionError:
                part = b""
            if not part:
                raise Closed
            data += part
        return data

    def start_tls(self) -> None:
        """Encrypt from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.sock = context.wrap_socket(self.sock)

    # In short

    def login(self, response: bytes) -> str:
        """Send a response to the greeting, and prove the password by what is asked for."""
        self.send(response)
        return self.proved()

    def proved(self, password: str = PASSWORD) -> str:
        """Answer what a server asks until it lets in, refuses, or leaves."""
        try:
            while True:
                answer = self.receive()
                if answer[:1] == b"\xfe":
                    plugin, _, nonce = answer[1:].partition(b"\0")
                    self.nonce = nonce.rstrip(b"\0")
                    self.send(prove(plugin.decode(), password, self.nonce))
                elif answer == b"\x01\x04":
                    self.send(password.encode() + b"\0")
                elif answer != b"\x01\x03":
                    return kind(answer)
        except Closed:
            return "closed"

    def ask(self, payload: bytes) -> str:
        """Send a command; return the kind of its answer."""
        try:
            self.send(payload, begin=True)
            short = kind(self.receive())
            return short if short != "rows" else f"rows {self._rows()!r}"
        except (Closed, ConnectionError):
            return "closed"

    def _rows(self) -> list[bytes]:
        """Return the rows behind the number of columns, and an error that may come in their place."""
        while self.receive()[:1] != b"\xfe":
            pass
        rows: list[bytes] = []
        while (row := self.receive())[:1] != b"\xfe" or len(row) > len(Eof().pack()):
            rows.append(row)
            if row[:1] == b"\xff":
                break
        return rows

    def prepare(self, sql: bytes) -> int:
        """Prepare a statement; return its number."""
        self.send(b"\x16" + sql, begin=True)
        answer = self.receive()
        assert answer[:1] == b"\0", answer
        number, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        for count in (parameters, columns):
            for _ in range(count + 1 if count else 0):
                self.receive()
        return int(number)


def kind(answer: bytes) -> str:
    """Return what an answer is: "ok", "eof", "rows", or an error's number."""
    if answer[:1] == b"\xff":
        return str(int.from_bytes(answer[1:3], "little"))
    if answer[:1] == b"\0":
        return "ok"
    return "eof" if answer[:1] == b"\xfe" and len(answer) <= len(Eof().pack()) else "rows"


def response(nonce: bytes, **changes: object) -> HandshakeResponse:
    """Return what an ordinary client answers to a greeting."""
    values: dict[str, object] = {
        "capabilities": PLAIN,
        "user": USER,
        "proof": prove(CACHING_SHA2, PASSWORD, nonce),
        "plugin": CACHING_SHA2,
        **changes,
    }
    return HandshakeResponse(**values)  # type: ignore[arg-type]
