"""A client's connection to the binlog server: a thread that reads packets, answers them, and sends binlogs.

Events are sent in batches of 512 KiB, or one larger event. The protocol itself is in `session`, without a socket, and
the socket in `wire`.
"""

import contextlib
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Buffer
from binlog_merge.errors import MergeError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.protocol.commands import Dump
from binlog_merge.protocol.compression import Compression
from binlog_merge.protocol.packets import Eof, Err, ErrorCode
from binlog_merge.protocol.semi_sync import MAGIC, Acknowledgement
from binlog_merge.serve.dump import DumpOptions, Sending
from binlog_merge.serve.log import PublishedLog
from binlog_merge.serve.place import NotServed
from binlog_merge.serve.readers import Pace, Reader
from binlog_merge.serve.session import Session, Step, Then
from binlog_merge.serve.stream import AtEnd, Events, Skipped, stream
from binlog_merge.serve.wire import LONGEST_TIMEOUT, WRITE_TIMEOUT, Broken, Gone, Wire

_LOG = logging.getLogger(__name__)

_BUFFER: Final = 1 << 16
_CONNECT_TIMEOUT: Final = 10.0
_LONGEST_MESSAGE: Final = 500
_LONGEST_NAME: Final = 80


class Connection:
    """A client's connection. `run` is called by its thread; `end` may be called by any.

    `report` takes a line for the server's operator; `dumping` is called before a dump begins. `reader` says how far a
    dump is; None while there is none. `pace` is that of what was sent of the log. `ended`: the server has ended it.
    """

    def __init__(
        self,
        sock: socket.socket,
        session: Session,
        log: PublishedLog,
        tls: ssl.SSLContext,
        report: Callable[[str], None],
        dumping: Callable[["Connection"], None],
    ) -> None:
        self.session = session
        self.reader: Reader | None = None
        self.pace = Pace()
        self.ended = False
        self._wire = Wire(sock)
        self._log = log
        self._tls = tls
        self._report = report
        self._dumping = dumping
        self._log_in_by = time.monotonic() + _CONNECT_TIMEOUT

    @property
    def peer(self) -> str:
        """Return the client's address and port."""
        return self._wire.peer

    def run(self) -> None:
        """Serve the client until either side disconnects."""
        _LOG.info("connected", extra={"peer": self.peer})
        try:
            self._send_all([self.session.greeting()])
            while self._step(self.session.receive(self._wire.receive(self.session.trusted, self._log_in_by))):
                pass
        except Broken as error:
            with contextlib.suppress(OSError):
                self._send_all([Err.of(error.code, error.message).pack()])
        except (OSError, Gone):  # TimeoutError and TLS errors are among the first
            pass
        except Exception as error:  # a fault of ours ends one client, not the others
            self._report(f"{self.peer}: internal error: {type(error).__name__}: {error}")
        finally:
            _LOG.info("connection ends", extra={"peer": self.peer})
            self._wire.close()

    def end(self) -> None:
        """Make whatever the connection's thread waits for fail at once."""
        self.ended = True
        self._wire.end()

    def _step(self, step: Step) -> bool:
        """Carry out a step; return whether the connection continues."""
        self._send_all(step.payloads)
        if step.then is Then.START_TLS:
            self._start_tls()
        elif step.then is Then.COMPRESS and self.session.compression is not None:
            self._wire.compress(Compression(*self.session.compression))
        elif step.then is Then.DUMP and step.dump is not None:
            self._dump(step.dump)
            return False
        elif step.then is Then.CLOSE and not self.session.trusted:
            self._report(f"{self.peer}: refused, user {self.session.settings.user[:_LONGEST_NAME]!r}")
        return step.then is not Then.CLOSE

    def _start_tls(self) -> None:
        try:
            self.session.tls_started(self._wire.start_tls(self._tls))
        except ssl.SSLError as error:
            self._report(f"{self.peer}: refused, TLS fails: {error.reason or error}")
            raise

    def _send_all(self, payloads: Iterable[Buffer]) -> None:
        """Send payloads; an error in producing them is sent to the client in their place."""
        timeout = self.session.settings.either("net_write_timeout")
        self._wire.write_timeout = timeout if isinstance(timeout, int) and timeout > 0 else WRITE_TIMEOUT
        try:
            for payload in payloads:
                self._wire.put(payload)
        except (NotServed, MergeError) as error:
            self._wire.put(self._failure(ErrorCode.ER_UNKNOWN_ERROR, error))
        self._wire.flush()

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
            raise Gone from None
        except (NotServed, MergeError) as error:
            last = self._failure(ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG, error)
        self._send_all([last])

    def _stream(self, options: DumpOptions) -> None:
        sending = Sending(options, self._log.view().server_id)
        with self._log.bell() as bell:
            for item in stream(self._log, options.start):
                for payload in sending.before(item):
                    self._wire.put(payload)
                if isinstance(item, Events):
                    self._wire.put_events(item, options.prefix, options.semi_sync)
                    self.pace.add(len(item.data))
                    self._sent_to(item.file, item.end, size=len(item.data))
                    if options.semi_sync:
                        self._take_input()
                elif isinstance(item, AtEnd):
                    self._wire.flush()
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
        start, settings = options.start, self.session.settings
        file = start.file[:_LONGEST_NAME]
        reader = Reader(self.peer, server_id, uuid, host, time.time(), file, start.position, waiting=False)
        compression = "" if self.session.compression is None else self.session.compression[0].value
        return replace(reader, user=settings.user[:_LONGEST_NAME], tls=settings.tls, compression=compression)

    def _sent_to(self, file: str, position: int, waiting: bool = False, size: int = 0) -> None:
        assert self.reader is not None
        sent = self.reader.sent + size
        self.reader = replace(self.reader, file=file, position=position, waiting=waiting, sent=sent)

    def _wait(self, bell: socket.socket, sending: Sending, period: float | None) -> None:
        """Wait until more is published, and send heartbeats meanwhile."""
        poll = select.poll()
        poll.register(self._wire, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while True:
            remaining = LONGEST_TIMEOUT if period is None else max(0.0, self._wire.sent_at + period - time.monotonic())
            ready = [fd for fd, _ in poll.poll(min(remaining, LONGEST_TIMEOUT) * 1000)]
            if self._wire.fileno() in ready:
                self._take_input()
            if bell.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    bell.recv(_BUFFER)
                return
            if self._late(period):
                self._beat(sending)

    def _late(self, period: float | None) -> bool:
        return period is not None and time.monotonic() >= self._wire.sent_at + period

    def _beat(self, sending: Sending) -> None:
        self._wire.put(sending.heartbeat())
        self._wire.flush()

    def _take_input(self) -> None:
        """Take what a client sends during a dump: acknowledgements; pings and the like have no answer."""
        for payload in self._wire.take():
            if payload[:1] == bytes([MAGIC]):
                with contextlib.suppress(BinlogFormatError):
                    ack = Acknowledgement.parse(payload)
                    place = f"{ack.file[:_LONGEST_NAME]}:{ack.position}"
                    self.reader = None if self.reader is None else replace(self.reader, acknowledged=place)

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
    name = start.file if start.file.isprintable() else repr(start.file)
    return f"{name[:_LONGEST_NAME] or 'the first file'}:{start.position}"
