"""A client's socket as packets, plain, encrypted or compressed: what is put is sent with few calls, in large pieces.

A client that accepts no bytes for `write_timeout` seconds makes sending fail, and so does one that is gone.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Buffer
from binlog_merge.binlog_server.stream import Events
from binlog_merge.protocol.commands import ASKED, Com
from binlog_merge.protocol.compression import FRAME_HEADER_LEN, Algorithm, Compression, FrameHeader
from binlog_merge.protocol.packets import (
    PACKET_HEADER_LEN,
    ErrorCode,
    PacketHeader,
    event_packets,
    large_event_packets,
    packets,
)

_BUFFER: Final = 1 << 16
_MOST_UNTRUSTED: Final = 1 << 16
_MOST: Final = 1 << 24
_WAIT_TIMEOUT: Final = 28800.0
WRITE_TIMEOUT: Final = 60.0
LONGEST_TIMEOUT: Final = 1_000_000.0
_LEAVING: Final = 2.0
_QUIT: Final = bytes([Com.COM_QUIT])
_PROXY: Final = (b"PROX", b"\r\n\r\n")
"""How a header of the PROXY protocol begins, in its versions 1 and 2."""
_NO_PROXY: Final = (
    "Bad handshake: this is a header of the PROXY protocol, which this server does not take. Turn it off in the proxy "
    "(HAProxy: no send-proxy; ProxySQL: no proxy_protocol_networks)"
)


class Gone(Exception):  # noqa: N818 (named after what is the case, like the errors of the project)
    """The client has disconnected, or is to be disconnected without another packet."""


class Broken(Exception):  # noqa: N818
    """The client has broken the protocol: it is to be told so, and disconnected."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class State:
    """What another process must know of a wire to go on with it; `frame` is the next one's number, if compressed."""

    sequence: int = 0
    frame: int = 0
    compression: tuple[Algorithm, int] | None = None
    write_timeout: float = WRITE_TIMEOUT


class Wire:
    """The packets of a client. For one thread; `end` is for any. Raises Gone, Broken, and OSError."""

    def __init__(self, sock: socket.socket, state: State = State()) -> None:
        self.peer = _name_of(sock)
        self.sent_at = 0.0
        self.write_timeout = state.write_timeout
        self._sock = sock
        self._sequence = state.sequence
        self._buffer = bytearray()
        self._algorithm: tuple[Algorithm, int] | None = None
        self._compression: Compression | None = None
        if state.compression is not None:
            self.compress(*state.compression)
        self._frame = state.frame
        self._expanded = bytearray()
        self._input = bytearray()  # what `take` has read

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return self._sock.fileno()

    def start_tls(self, context: ssl.SSLContext) -> str:
        """Encrypt from now on; return the version of TLS."""
        encrypted = context.wrap_socket(self._sock, server_side=True, do_handshake_on_connect=False)
        self._sock = encrypted  # before the handshake, which `end` would not reach otherwise
        encrypted.do_handshake()
        return encrypted.version() or ""

    def compress(self, algorithm: Algorithm, level: int) -> None:
        """Compress from now on."""
        self._algorithm, self._compression = (algorithm, level), Compression(algorithm, level)

    def state(self) -> State | None:
        """Return what it takes to go on elsewhere; None if it cannot, as TLS is used or more has been read."""
        if isinstance(self._sock, ssl.SSLSocket) or self._expanded or self._input:
            return None
        self.flush()
        return State(self._sequence, self._frame, self._algorithm, self.write_timeout)

    def end(self) -> None:
        """Make whatever waits for the socket fail at once."""
        with contextlib.suppress(OSError):
            # Not SSLSocket's, after which the other thread might still send, and not encrypted.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def leave(self) -> None:
        """Say that nothing more comes, and take in what the client still sends, for a moment and up to a size.

        To close a socket over bytes that nobody has read resets the connection, and a proxy in between then drops what
        was sent last.
        """
        until, taken = time.monotonic() + _LEAVING, 0
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_WR)
            while taken < _MOST_UNTRUSTED and (left := until - time.monotonic()) > 0:
                self._sock.settimeout(left)
                part = socket.socket.recv(self._sock, _BUFFER)
                if not part:
                    return
                taken += len(part)

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._sock.close()

    # Input

    def receive(self, trusted: bool, until: float) -> bytes:
        """Return the payload of the next packet. One who is not trusted has until a moment of the monotonic clock."""
        payload = bytearray()
        first = True
        while True:
            begin = self._exactly(PACKET_HEADER_LEN, trusted, until)
            if bytes(begin) in _PROXY and not trusted:
                self._sequence = 2  # the client knows of no header: it has sent a packet 1 behind it
                raise Broken(ErrorCode.ER_HANDSHAKE_ERROR, _NO_PROXY)
            header = PacketHeader.parse(begin)
            expected = 0 if trusted and first else self._sequence & 0xFF
            self._sequence = header.sequence + 1
            if len(payload) + header.length > (_MOST if trusted else _MOST_UNTRUSTED):
                raise Broken(ErrorCode.ER_NET_PACKET_TOO_LARGE, "Got a packet bigger than this server takes")
            payload += self._exactly(header.length, trusted, until)
            # Where packets are compressed, frames are counted, and packets begin anew with any of them.
            if header.sequence != expected and self._compression is None:
                if not trusted and header.sequence == 0 and bytes(payload) == _QUIT:
                    raise Gone  # as HAProxy's `mysql-check user` leaves: it does not wait for what its login gets
                raise Broken(ErrorCode.ER_NET_PACKETS_OUT_OF_ORDER, "Got packets out of order")
            first = False
            if not header.more:
                return bytes(payload)

    def take(self) -> Iterator[bytes]:
        """Yield the payloads of packets that have come whole, without waiting; for a client that has no turn."""
        self._sock.settimeout(0)
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            while len(self._input) <= _MOST_UNTRUSTED:
                data = self._sock.recv(_BUFFER)
                if not data:
                    raise Gone
                self._input += data
        source = self._input
        if self._compression is not None:
            while (size := self._whole_frame()) is not None:
                header = FrameHeader.parse(self._input[:FRAME_HEADER_LEN])
                if header.expanded + len(self._expanded) > _MOST_UNTRUSTED:
                    raise Gone
                self._expand(header, bytes(self._input[FRAME_HEADER_LEN:size]))
                del self._input[:size]
            source = self._expanded
        while len(source) >= PACKET_HEADER_LEN:
            end = PACKET_HEADER_LEN + PacketHeader.parse(source[:PACKET_HEADER_LEN]).length
            if len(source) < end:
                break
            yield bytes(source[PACKET_HEADER_LEN:end])
            del source[:end]
        if max(len(source), len(self._input)) > _MOST_UNTRUSTED:
            raise Gone

    def _whole_frame(self) -> int | None:
        """Return the size of the first frame if all of it has come."""
        if len(self._input) < FRAME_HEADER_LEN:
            return None
        size = FRAME_HEADER_LEN + FrameHeader.parse(self._input[:FRAME_HEADER_LEN]).length
        return size if len(self._input) >= size else None

    def _exactly(self, size: int, trusted: bool, until: float) -> bytes:
        if self._compression is None:
            return self._from_socket(size, trusted, until)
        while len(self._expanded) < size:
            header = FrameHeader.parse(self._from_socket(FRAME_HEADER_LEN, trusted, until))
            self._frame = header.sequence + 1
            self._expand(header, self._from_socket(header.length, trusted, until))
        data = bytes(self._expanded[:size])
        del self._expanded[:size]
        return data

    def _expand(self, header: FrameHeader, frame: bytes) -> None:
        assert self._compression is not None
        try:
            self._expanded += self._compression.expand(header, frame)
        except BinlogFormatError as error:
            raise Broken(ErrorCode.ER_NET_UNCOMPRESS_ERROR, error.reason) from None

    def _from_socket(self, size: int, trusted: bool, until: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._sock.settimeout(_WAIT_TIMEOUT if trusted else max(until - time.monotonic(), 0.001))
            part = self._sock.recv(min(size - len(data), _BUFFER))
            if not part:
                raise Gone
            data += part
        return bytes(data)

    # What goes out

    def put(self, payload: Buffer) -> None:
        """Send a payload, at the latest with the next `flush`."""
        for header, part in packets(payload, self._sequence):
            self._sequence += 1
            self._buffer += header
            self._add(part)

    def put_events(self, events: Events, prefix: bytes, asked: bool) -> None:
        """Send events, each in a packet behind a prefix; `asked`: the last one is to be acknowledged."""
        size = int(events.sizes[-1])
        if len(events.sizes) == 1 and size >= _BUFFER:
            for head, part in large_event_packets(events.data, self._sequence, ASKED if asked else prefix):
                self._sequence += 1
                self._buffer += head
                self._add(part)
        else:
            framed = event_packets(events.data, events.sizes, self._sequence, prefix)
            if asked:
                framed[-1 - size] = ASKED[-1]
            self._sequence += len(events.sizes)
            self._add(framed)
        if asked:
            # Both sides now count packets anew: from 1, but frames of compressed ones from 0, as MySQL 9.7 does it.
            self.flush()
            self._sequence, self._frame = 1, 0

    def flush(self) -> None:
        """Send what is not sent yet."""
        if self._buffer:
            data, self._buffer = self._buffer, bytearray()
            self._send(memoryview(data))

    def _add(self, data: memoryview) -> None:
        """Send bytes: large ones as they are, small ones together."""
        if len(data) < _BUFFER:
            self._buffer += data
        else:
            self.flush()
            self._send(data)
        if len(self._buffer) >= _BUFFER:
            self.flush()

    def _send(self, data: memoryview) -> None:
        if self._compression is None:
            self._to_socket(data)
            return
        for frame in self._compression.frames(data, self._frame):
            self._frame += 1
            self._to_socket(memoryview(frame))

    def _to_socket(self, data: memoryview) -> None:
        self._sock.settimeout(min(self.write_timeout, LONGEST_TIMEOUT))
        while len(data):  # not sendall: its timeout is for all bytes, and a slow client is not gone
            data = data[self._sock.send(data) :]
        self.sent_at = time.monotonic()


def _name_of(sock: socket.socket) -> str:
    try:
        peer = sock.getpeername()
    except OSError:
        return "a client that is gone"
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
