"""A client's connection to the binlog server: a thread that reads packets, answers them, and sends binlogs.

The protocol itself is in `session`, without a socket; the socket is in `wire`, and what sends the log in `feed`.
"""

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from binlog_merge.binlog.wire import Buffer
from binlog_merge.binlog_server.feed import DumpOptions, Feed, Told, await_made, failure
from binlog_merge.binlog_server.log import NotServed, PublishedLog
from binlog_merge.binlog_server.readers import LONGEST_NAME, Pace, Reader, Repeats
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.senders import Senders
from binlog_merge.binlog_server.session import Session, Step, Then
from binlog_merge.binlog_server.wire import WRITE_TIMEOUT, Broken, Gone, Wire
from binlog_merge.errors import MergeError
from binlog_merge.files.remote_log import RemoteLog
from binlog_merge.protocol.commands import Dump
from binlog_merge.protocol.packets import Err, ErrorCode
from binlog_merge.redaction import Routine

_LOG = logging.getLogger(__name__)

_CONNECT_TIMEOUT: Final = 10.0
_LONGEST_MESSAGE: Final = 500


class Connection:
    """A client's connection. `run` is called by its thread; `end` may be called by any.

    `log` returns what a client gets that has logged in. `report` takes a line for the server's operator; `dumping` is
    called before a dump begins, and `repeats` is told where. `reader` says how far a dump is; None while there is none.
    `pace` is that of what was sent of the log. `ended`: the server has ended it. `command` is what it does, in MySQL's
    words, and `since` when it began, by the monotonic clock.
    """

    def __init__(
        self,
        sock: socket.socket,
        session: Session,
        log: Callable[[], PublishedLog],
        tls: ssl.SSLContext,
        report: Callable[[str], None],
        dumping: Callable[["Connection"], None],
        senders: Senders,
        repeats: Repeats,
    ) -> None:
        self.session = session
        self.reader: Reader | None = None
        self.pace = Pace()
        self.ended = False
        self.command, self.since = "Connect", time.monotonic()
        self._wire = Wire(sock)
        self.log = log
        self._tls = tls
        self._report = report
        self._dumping = dumping
        self._senders = senders
        self._repeats = repeats
        self._log_in_by = 0.0

    @property
    def peer(self) -> str:
        """Return the client's address and port."""
        return self._wire.peer

    def run(self) -> None:
        """Serve the client until either side disconnects."""
        _LOG.info("connected", extra={"peer": self.peer})
        try:
            self._send_all([self.session.greeting()])
            self._log_in_by = time.monotonic() + _CONNECT_TIMEOUT  # what the greeting takes is not the client's
            while self._step(self.session.receive(self._next())):
                pass
        except Broken as error:
            if not self.session.trusted:
                self._report(f"{self.peer}: refused: {error.message}")
            with contextlib.suppress(OSError):
                self._send_all([Err.of(error.code, error.message).pack()])
            self._wire.leave()
        except (OSError, Gone):  # TimeoutError and TLS errors are among the first
            pass
        except Exception as error:  # a fault of ours ends one client, not the others
            self._report(f"{self.peer}: internal error: {type(error).__name__}: {error}")
        finally:
            _LOG.info("connection ends", extra={"peer": self.peer})
            if (reader := self.reader) is not None:
                at = f"{reader.file}:{reader.position}" if reader.file else "the beginning"
                self._report(Routine(f"{self.peer}: disconnected at {at}, {reader.sent:,} bytes were sent"))
            self.session.close()
            self._wire.close()

    def _next(self) -> bytes:
        """Return the next packet's payload."""
        self._does("Sleep")
        payload = self._wire.receive(self.session.trusted, self._log_in_by)
        self._does("Query")
        return payload

    def _does(self, command: str) -> None:
        self.command, self.since = command, time.monotonic()

    def end(self) -> None:
        """Make whatever the connection's thread waits for fail at once."""
        self.ended = True
        self._wire.end()

    def _step(self, step: Step) -> bool:
        """Carry out a step; return whether the connection continues."""
        self._send_all(step.payloads)
        if step.then is Then.START_TLS:
            self._start_tls()
        elif step.then is Then.LOG_IN:
            self._log_in_by = time.monotonic() + _CONNECT_TIMEOUT
        elif step.then is Then.COMPRESS and self.session.compression is not None:
            self._wire.compress(*self.session.compression)
        elif step.then is Then.DUMP and step.dump is not None:
            self._dump(step.dump)
            return False
        elif step.then is Then.CLOSE and not self.session.trusted:
            why = f": {step.why}" if step.why else ""
            self._report(f"{self.peer}: refused, user {self.session.settings.user[:LONGEST_NAME]!r}{why}")
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
        except Refused as refused:
            self._wire.put(refused.answer.pack())
        except (NotServed, MergeError) as error:
            packet, line = failure(ErrorCode.ER_UNKNOWN_ERROR, error, self.peer)
            self._report(line)
            self._wire.put(packet)
        self._wire.flush()

    # Binlogs

    def _dump(self, dump: Dump) -> None:
        """Send the binlog from the position requested, until the client disconnects or has what it asked for."""
        self._dumping(self)
        options = DumpOptions.of(dump, self.session.settings)
        self._does("Binlog Dump" if options.start.has is None else "Binlog Dump GTID")
        user = self.session.settings.user[:LONGEST_NAME]
        self._report(
            Routine(f"{self.peer}: user {user!r}, server id {dump.server_id}, reads from {_begin_of(options)} on")
        )
        asked = {"peer": self.peer, "begin": _begin_of(options), "server_id": dump.server_id}
        _LOG.info("dump begins", extra={**asked, "wait": options.wait, "heartbeat": options.period})
        reader = self._reader(dump.server_id, options)
        self._moved(reader)
        told = Told(self._moved, self._report)
        log = self.log()
        try:
            await_made(self._wire, log, options, self.peer, told)
        except (NotServed, MergeError) as error:
            packet, line = failure(ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG, error, self.peer)
            self._report(line)
            self._wire.put(packet)
            self._wire.flush()
            return
        if options.wait:  # others have come for what there is, and may come for it again
            self._repeats.begins(reader, options.start, log.view(), _begin_of(options))
        local = not isinstance(log.folder, RemoteLog)
        if not local or not self._senders.send(self._wire, log.folder.directory, options, reader, told):
            Feed(self._wire, log, options, reader, told).run()

    def _moved(self, reader: Reader) -> None:
        before = 0 if self.reader is None else self.reader.sent
        self.pace.add(reader.sent - before)
        self.reader = reader

    def _reader(self, server_id: int, options: DumpOptions) -> Reader:
        replica = self.session.replica
        host = "" if replica is None else replica.host.decode("utf-8", "replace")
        uuid = str(self.session.settings.either("@replica_uuid", "@slave_uuid") or "")[:LONGEST_NAME]
        start, settings = options.start, self.session.settings
        file = start.file[:LONGEST_NAME]
        reader = Reader(self.peer, server_id, uuid, host, time.time(), file, start.position, waiting=False)
        compression = "" if self.session.compression is None else self.session.compression[0].value
        return replace(reader, user=settings.user[:LONGEST_NAME], tls=settings.tls, compression=compression)


def _begin_of(options: DumpOptions) -> str:
    start = options.start
    if start.has is not None and not start.file:
        has = str(start.has)[:_LONGEST_MESSAGE]
        return f"after GTIDs {has}" if has else "the beginning of the log"
    return f"{start.file[:LONGEST_NAME] or 'the first file'}:{start.position}"
