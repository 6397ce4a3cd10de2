"""A read-only binlog server for an output directory, with a thread for each client.

The thread that calls `run` accepts clients and watches the manifest, until an exception ends it: that of a signal, or
of a manifest that is damaged or belongs to another output. Nothing is ever written but a state note about the readers.
"""

import contextlib
import errno
import ipaddress
import itertools
import selectors
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from binlog_merge.errors import ConfigError, IoError, ServerRefused, not_listening
from binlog_merge.protocol.handshake import new_nonce
from binlog_merge.protocol.packets import Err, ErrorCode, PacketHeader, Value
from binlog_merge.serve.connection import Connection
from binlog_merge.serve.definitions import DefinitionReader, Definitions
from binlog_merge.serve.log import LogView, PublishedLog
from binlog_merge.serve.readers import Reader, ReadersNote
from binlog_merge.serve.session import Account, Session
from binlog_merge.serve.show_events import event_rows
from binlog_merge.serve.statements import ShowEvents
from binlog_merge.serve.variables import Facts, Traits, traits_of

if TYPE_CHECKING:
    from binlog_merge.serve.tables.keeper import Tables

_POLL: Final = 0.2
_MOST_CLIENTS: Final = 200
_END_TIMEOUT: Final = 5.0
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The server's address, account and TLS files. Port 0 is any free port. An empty password is for loopback only."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None


class BinlogServer:
    """A server for an output directory; a context manager that listens from its construction on.

    Raises ConfigError for options that exclude each other and a port that is taken, ServerRefused for an address that
    cannot be bound.
    """

    def __init__(
        self,
        log: PublishedLog,
        options: ServeOptions,
        report: Callable[[str], None],
        tables: "Tables | None" = None,
    ) -> None:
        self._log = log
        self._tables = tables
        self._report = report
        self._account = Account(options.user, options.password)
        self._tls = _tls_context(options)
        self._traits: tuple[str, Traits] | None = None
        self._definitions = DefinitionReader(log.folder)
        self._closed = Event()
        self._ids = itertools.count(1)
        self._lock = Lock()
        self._clients: dict[Connection, Thread] = {}
        self._listeners = _listeners(options)
        self.address: tuple[str, int] = self._listeners[0].getsockname()[:2]
        self._note = ReadersNote(log.folder.directory, self.address, report)

    def __enter__(self) -> "BinlogServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Serve until `close`, or until a signal or a manifest that does not continue the log raises."""
        with selectors.DefaultSelector() as selector:
            for listener in self._listeners:
                selector.register(listener, selectors.EVENT_READ)
            while not self._closed.is_set():
                for key, _ in selector.select(_POLL):
                    if isinstance(key.fileobj, socket.socket):
                        self._accept(key.fileobj)
                self._log.refresh()
                self._note.refresh(self.readers)

    def close(self) -> None:
        """Disconnect all clients, and wait for their threads."""
        self._closed.set()
        for listener in self._listeners:
            listener.close()
        with self._lock:
            clients = dict(self._clients)
        for client in clients:
            client.end()
        for thread in clients.values():
            thread.join(_END_TIMEOUT)
        self._note.remove()

    def readers(self) -> list[Reader]:
        """Return the clients to which the log is sent."""
        with self._lock:
            clients = list(self._clients)
        return [reader for client in clients if (reader := client.reader) is not None]

    # The World of `answers`

    def facts(self) -> Facts:
        """Return the current facts about the server."""
        view = self._log.view()
        newest = view.there[-1].name if view.there else ""
        if self._traits is None or self._traits[0] != newest:
            self._traits = newest, traits_of(view)
        return Facts(view, self._traits[1], self.address[1], self._tls is not None)

    def definitions(self, view: LogView) -> Definitions:
        """Return the tables as of the end of a view of the log."""
        return self._definitions.at(view)

    def tables(self) -> "Tables | None":
        """Return the tables beside the log, None if there are none."""
        return self._tables

    def events(self, show: ShowEvents) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW BINLOG EVENTS."""
        return event_rows(self._log, show)

    def replicas(self) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW REPLICAS."""
        source = self._log.view().server_id
        with self._lock:
            sessions = [client.session for client in self._clients]
        return [
            (r.server_id, r.host.decode("utf-8", "replace"), r.port, source, _uuid_of(session))
            for session in sessions
            if (r := session.replica) is not None
        ]

    def kill(self, connection_id: int) -> bool:
        """End a connection; return whether it existed."""
        with self._lock:
            found = [c for c in self._clients if c.session.settings.connection_id == connection_id]
        for client in found:
            client.end()
        return bool(found)

    # Clients

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return  # the client is gone already, or there are no free file descriptors: the next may succeed
        with self._lock:
            full = len(self._clients) >= _MOST_CLIENTS
        if full:
            _turn_away(sock)
            return
        _keep_alive(sock)
        session = Session(self._account, self, next(self._ids), new_nonce(), self._tls is not None)
        client = Connection(sock, session, self._log, self._tls, self._report, self._leave_namesakes)
        thread = Thread(target=self._serve, args=(client,), daemon=True, name=f"client {client.peer}")
        with self._lock:
            self._clients[client] = thread
        thread.start()

    def _serve(self, client: Connection) -> None:
        try:
            client.run()
        finally:
            with self._lock:
                self._clients.pop(client, None)

    def _leave_namesakes(self, client: Connection) -> None:
        """End older dumps of a replica that has reconnected before we noticed that it was gone, as MySQL does."""
        name = _uuid_of(client.session)
        with self._lock:
            found = [c for c in self._clients if name and c is not client and _uuid_of(c.session) == name]
        for other in found:
            self._report(f"{other.peer}: left, the same replica has come again as {client.peer}")
            other.end()


def _uuid_of(session: Session) -> str:
    return str(session.settings.either("@replica_uuid", "@slave_uuid") or "")


def _listeners(options: ServeOptions) -> list[socket.socket]:
    """Return listening sockets on all addresses of the host. Raises ConfigError and ServerRefused."""
    where = f"{options.host}:{options.port}"
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ServerRefused(
            f"{where} is no address to listen on: {error.strerror or error}", remedy="choose another --host"
        ) from None
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    if not options.password and not all(_is_loopback(str(address[0])) for _, address in addresses):
        raise ConfigError(
            f"--host {options.host}: beyond this machine nobody is served without a password",
            remedy="give --password-file, or leave --host at 127.0.0.1",
        )
    listeners: list[socket.socket] = []
    with contextlib.ExitStack() as undo:
        for family, address in addresses if options.port else addresses[:1]:
            try:
                listeners.append(undo.enter_context(socket.create_server(address[:2], family=family)))
            except OSError as error:
                # A name may have an address of a family that this machine does not support.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) or (family, address) == addresses[-1]:
                    raise not_listening(error, where, "choose another --host or --port") from None
        undo.pop_all()
    for listener in listeners:
        listener.setblocking(False)
    return listeners


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _tls_context(options: ServeOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None:
        raise ConfigError("--tls-key goes with --tls-cert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ValueError) as error:
        raise IoError(
            f"cannot be used as certificate and key: {error}",
            file=str(options.tls_cert),
            remedy="give both in PEM, the key without a passphrase",
        ) from None
    return context


def _keep_alive(sock: socket.socket) -> None:
    """Switch on TCP keep-alive, to notice clients that vanish, and TCP_NODELAY."""
    with contextlib.suppress(OSError):
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _turn_away(sock: socket.socket) -> None:
    payload = Err.of(ErrorCode.ER_CON_COUNT_ERROR, "Too many connections").pack()
    with contextlib.suppress(OSError), sock:
        sock.settimeout(1)
        sock.sendall(PacketHeader(len(payload), 0).pack() + payload)
