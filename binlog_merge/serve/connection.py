"""A client's connection to the binlog server: a thread that reads packets, answers them, and sends binlogs.

Events are sent in batches of 256 KiB, or one larger event. A client that accepts no bytes for `net_write_timeout`
seconds is disconnected, and so is one that is gone. The protocol itself is in `session`, without a socket.
"""

import contextlib
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from struct import Struct
from typing import Final

from binlog_merge.binlog.wire import Buffer
from binlog_merge.errors import MergeError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.protocol.commands import Dump
from binlog_merge.protocol.packets import PACKET_HEADER_LEN, Eof, Err, ErrorCode, PacketHeader, event_packets, packets
from binlog_merge.serve.dump import DumpOptions, Sending
from binlog_merge.serve.log import PublishedLog
from binlog_merge.serve.place import NotServed
from binlog_merge.serve.readers import Reader
from binlog_merge.serve.session import Session, Step, Then
from binlog_merge.serve.stream import AtEnd, Events, Skipped, stream

_LOG = logging.getLogger(__name__)

_BUFFER: Final = 1 << 16
_HEADER: Final = Struct("<I")
"""A packet's header: the payload's length in three bytes, the sequence number in one."""
_MOST_UNTRUSTED: Final = 1 << 16
_MOST: Final = 1 << 24
_CONNECT_TIMEOUT: Final = 10.0
_WAIT_TIMEOUT: Final = 28800.0
_WRITE_TIMEOUT: Final = 60.0
_LONGEST_TIMEOUT: Final = 1_000_000.0
_LONGEST_MESSAGE: Final = 500
_LONGEST_NAME: Final = 80


class _Gone(Exception):  # noqa: N818 (named after what is the case, like the errors of the project)
    """The client has disconnected, or is to be disconnected without another packet."""


class Connection:
    """A client's connection. `run` is called by its thread; `end` may be called by any.

    `report` takes a line for the server's operator; `dumping` is called before a dump begins. `reader` says how far a
    dump is; None while there is none.
    """

    def __init__(
        self,
        sock: socket.socket,
        session: Session,
        log: PublishedLog,
        tls: ssl.SSLContext | None,
        report: Callable[[str], None],
        dumping: Callable[["Connection"], None],
    ) -> None:
        self.session = session
        self.peer = _name_of(sock)
        self.reader: Reader | None = None
        self._sock = sock
        self._log = log
        self._tls = tls
        self._report = report
        self._dumping = dumping
        self._sequence = 0
        self._buffer = bytearray()
        self._sent_at = 0.0
        self._log_in_by = time.monotonic() + _CONNECT_TIMEOUT

    def run(self) -> None:
        """Serve the client until either side disconnects."""
        _LOG.info("connected", extra={"peer": self.peer})
        try:
            self._sock.settimeout(_CONNECT_TIMEOUT)
            self._send_all([self.session.greeting()])
            while self._step(self.session.receive(self._receive())):
                pass
        except (OSError, _Gone):  # TimeoutError and TLS errors are among the first
            pass
        except Exception as error:  # a fault of ours ends one client, not the others
            self._report(f"{self.peer}: internal error: {type(error).__name__}: {error}")
        finally:
            _LOG.info("connection ends", extra={"peer": self.peer})
            self.session.close()
            with contextlib.suppress(OSError):
                self._sock.close()

    def end(self) -> None:
        """Make whatever the connection's thread waits for fail at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _step(self, step: Step) -> bool:
        """Carry out a step; return whether the connection continues."""
        self._send_all(step.payloads)
        if step.then is Then.START_TLS:
            self._start_tls()
        elif step.then is Then.DUMP and step.dump is not None:
            self._dump(step.dump)
            return False
        elif step.then is Then.CLOSE and not self.session.trusted:
            self._report(f"{self.peer}: refused, user {self.session.settings.user[:_LONGEST_NAME]!r}")
        return step.then is not Then.CLOSE

    def _start_tls(self) -> None:
        assert self._tls is not None
        self._sock = self._tls.wrap_socket(self._sock, server_side=True)
        self.session.tls_started(self._sock.version() or "")

    # Input

    def _receive(self) -> bytes:
        """Return the payload of the next packet. A packet out of order or too large ends the connection."""
        trusted = self.session.trusted
        payload = bytearray()
        first = True
        while True:
            header = PacketHeader.parse(self._exactly(PACKET_HEADER_LEN))
            expected = 0 if trusted and first else self._sequence & 0xFF
            self._sequence = header.sequence + 1
            if len(payload) + header.length > (_MOST if trusted else _MOST_UNTRUSTED):
                self._farewell(ErrorCode.ER_NET_PACKET_TOO_LARGE, "Got a packet bigger than this server takes")
            payload += self._exactly(header.length)
            if header.sequence != expected:
                self._farewell(ErrorCode.ER_NET_PACKETS_OUT_OF_ORDER, "Got packets out of order")
            first = False
            if not header.more:
                return bytes(payload)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            remaining = self._log_in_by - time.monotonic()
            self._sock.settimeout(_WAIT_TIMEOUT if self.session.trusted else max(remaining, 0.001))
            part = self._sock.recv(min(size - len(data), _BUFFER))
            if not part:
                raise _Gone
            data += part
        return bytes(data)

    # What goes out

    def _send_all(self, payloads: Iterable[Buffer]) -> None:
        """Send payloads; an error in producing them is sent to the client in their place."""
        try:
            for payload in payloads:
                self._put(payload)
        except (NotServed, MergeError) as error:
            self._put(self._failure(ErrorCode.ER_UNKNOWN_ERROR, error))
        self._flush()

    def _farewell(self, code: ErrorCode, message: str) -> None:
        self._send_all([Err.of(code, message).pack()])
        raise _Gone

    def _put(self, payload: Buffer) -> None:
        if len(payload) < _BUFFER:  # nearly all are; there may be one for each row of a table
            self._buffer += _HEADER.pack(len(payload) | (self._sequence & 0xFF) << 24)
            self._buffer += payload
            self._sequence += 1
            if len(self._buffer) >= _BUFFER:
                self._flush()
            return
        for header, part in packets(payload, self._sequence):
            self._sequence += 1
            self._buffer += header
            if len(part) < _BUFFER:
                self._buffer += part
            else:
                self._flush()
                self._send(part)
            if len(self._buffer) >= _BUFFER:
                self._flush()

    def _put_events(self, events: Events) -> None:
        if len(events.sizes) == 1 and events.sizes[0] >= _BUFFER:
            self._put(b"\0" + bytes(events.data))
            return
        self._buffer += event_packets(events.data, events.sizes, self._sequence)
        self._sequence += len(events.sizes)
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            data, self._buffer = self._buffer, bytearray()
            self._send(memoryview(data))

    def _send(self, data: memoryview) -> None:
        timeout = self.session.settings.either("net_write_timeout")
        given = timeout if isinstance(timeout, int) and timeout > 0 else _WRITE_TIMEOUT
        self._sock.settimeout(min(given, _LONGEST_TIMEOUT))
        while len(data):  # not sendall: its timeout is for all bytes, and a slow client is not gone
            data = data[self._sock.send(data) :]
        self._sent_at = time.monotonic()

    # Binlogs

    def _dump(self, dump: Dump) -> None:
        """Send the binlog from the position requested, until the client disconnects or has what it asked for."""
        self._dumping(self)
        options = DumpOptions.of(dump, self.session.settings)
        self._report(f"{self.peer}: reads from {_begin_of(options)}, server id {dump.server_id}")
        asked = {"peer": self.peer, "begin": _begin_of(options), "server_id": dump.server_id}
        _LOG.info("dump begins", extra={**asked, "wait": options.wait, "heartbeat": options.period})
        self.reader = self._reader(dump.server_id, options)
        try:
            self._stream(options)
            last = Eof().pack()
        except (ObjectStoreUnreachable, ObjectStoreRefused) as error:
            # Not a fatal error of the log: the reader comes again, and goes on from where it is.
            self._report(f"{self.peer}: left, {error.message}")
            raise _Gone from None
        except (NotServed, MergeError) as error:
            last = self._failure(ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG, error)
        self._send_all([last])

    def _stream(self, options: DumpOptions) -> None:
        sending = Sending(options, self._log.view().server_id)
        with self._log.bell() as bell:
            for item in stream(self._log, options.start):
                for payload in sending.before(item):
                    self._put(payload)
                if isinstance(item, Events):
                    self._put_events(item)
                    self._sent_to(item.file, item.end)
                elif isinstance(item, AtEnd):
                    self._flush()
                    self._sent_to(item.file, item.position, waiting=True)
                    if not options.wait:
                        return
                    self._wait(bell, sending, options.period)
                elif isinstance(item, Skipped):
                    self._sent_to(item.file, item.end)
                    if self._late(options.period):
                        self._beat(sending)

    def _reader(self, server_id: int, options: DumpOptions) -> Reader:
        replica = self.session.replica
        host = "" if replica is None else replica.host.decode("utf-8", "replace")
        uuid = str(self.session.settings.either("@replica_uuid", "@slave_uuid") or "")[:_LONGEST_NAME]
        start = options.start
        return Reader(self.peer, server_id, uuid, host, time.time(), start.file, start.position, waiting=False)

    def _sent_to(self, file: str, position: int, waiting: bool = False) -> None:
        assert self.reader is not None
        self.reader = replace(self.reader, file=file, position=position, waiting=waiting)

    def _wait(self, bell: socket.socket, sending: Sending, period: float | None) -> None:
        """Wait until more is published, and send heartbeats meanwhile."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while True:
            remaining = _LONGEST_TIMEOUT if period is None else max(0.0, self._sent_at + period - time.monotonic())
            ready = [fd for fd, _ in poll.poll(min(remaining, _LONGEST_TIMEOUT) * 1000)]
            if self._sock.fileno() in ready:
                self._ignore_input()
            if bell.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    bell.recv(_BUFFER)
                return
            if self._late(period):
                self._beat(sending)

    def _late(self, period: float | None) -> bool:
        return period is not None and time.monotonic() >= self._sent_at + period

    def _beat(self, sending: Sending) -> None:
        self._put(sending.heartbeat())
        self._flush()

    def _ignore_input(self) -> None:
        """Discard what a client sends during a dump (some send pings); raise if it has disconnected."""
        self._sock.settimeout(0)
        try:
            if not self._sock.recv(_BUFFER):
                raise _Gone
        except (BlockingIOError, ssl.SSLWantReadError):
            pass

    def _failure(self, code: ErrorCode, error: Exception) -> bytes:
        """Return an error packet for the client, and report the error to the operator."""
        if isinstance(error, MergeError):
            self._report(str(error))
            text = f"{error.code}: {error.message} ({error.where()})"
        else:
            text = str(error)
            self._report(f"{self.peer}: not served: {text[:_LONGEST_MESSAGE]}")
        return Err.of(code, text[:_LONGEST_MESSAGE]).pack()


def _begin_of(options: DumpOptions) -> str:
    start = options.start
    if start.has is not None and not start.file:
        return f"behind {str(start.has)[:_LONGEST_MESSAGE] or 'nothing'}"
    return f"{start.file or 'the first file'}:{start.position}"


def _name_of(sock: socket.socket) -> str:
    try:
        peer = sock.getpeername()
    except OSError:
        return "a client that is gone"
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
