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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.accounts import Account, Accounts
from binlog_merge.binlog_server.connection import Connection
from binlog_merge.binlog_server.definitions import DefinitionReader, Definitions
from binlog_merge.binlog_server.log import LogView, PublishedLog
from binlog_merge.binlog_server.login import Gate, PasswordKey, TlsFiles, tls_context
from binlog_merge.binlog_server.offered import Chosen, Offered, StreamWorld, Unmatched
from binlog_merge.binlog_server.readers import Reader, ReadersNote, Repeats, Replicas
from binlog_merge.binlog_server.senders import Senders
from binlog_merge.binlog_server.session import Session
from binlog_merge.binlog_server.settings import Limits, Memory
from binlog_merge.binlog_server.show_events import event_rows
from binlog_merge.binlog_server.show_sql import PLAIN
from binlog_merge.binlog_server.sql import parse_statement
from binlog_merge.binlog_server.statements import ShowEvents
from binlog_merge.binlog_server.stream import warm
from binlog_merge.binlog_server.variables import Facts, Traits, traits_of
from binlog_merge.errors import ConfigError, ServerRefused, not_listening
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.files.watch import FolderWatch
from binlog_merge.heartbeat import HEARTBEAT
from binlog_merge.protocol.handshake import new_nonce
from binlog_merge.protocol.packets import Value
from binlog_merge.protocol.passwords import Secret
from binlog_merge.redaction import printable
from snapshot_store.server import ServerAddress

if TYPE_CHECKING:
    from binlog_merge.binlog_server.tables.keeper import Tables

_POLL: Final = 0.2
_END_TIMEOUT: Final = 5.0
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The server's address, users and TLS. Port 0 is any free port. An empty password is for loopback only.

    `users` is a file of users, which counts instead of `user` and `password`. Of several `processes` all but this one
    send the log. `replicas` are servers that are asked whether they apply it.
    """

    host: str
    port: int
    user: str = "rep"
    password: str = field(default="", repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_required: bool = False
    users: Path | None = None
    limits: Limits = field(default_factory=Limits)
    processes: int = 1
    replicas: tuple[ServerAddress, ...] = ()


class BinlogServer:
    """A server for an output directory; a context manager that listens from its construction on.

    `streams` are offered beside the log. Raises ConfigError for options that exclude each other and a port that is
    taken, ServerRefused for an address that cannot be bound.
    """

    def __init__(
        self,
        log: PublishedLog,
        options: ServeOptions,
        report: Callable[[str], None],
        streams: Sequence[Offered] = (),
        tables: "Tables | None" = None,
    ) -> None:
        self._log = log
        self._tables = tables
        self._report = lambda line: report(type(line)(printable(line)))  # clients' words do not make lines of it
        self._gate = _gate(options, [s.user for s in streams if s.user], self._inside, self._report)
        self._tls = tls_context(TlsFiles(options.tls_cert, options.tls_key, options.tls_ca))
        self._traits: tuple[str, Traits] | None = None
        self._definitions = DefinitionReader(log.folder)
        self._closed = Event()
        self._ids = itertools.count(1)
        self._since = time.monotonic()
        self._lock = Lock()
        self._clients: dict[Connection, Thread] = {}
        self._memory = Memory()
        warm()
        parse_statement("SELECT 1", PLAIN)  # loads the lexer, which the first client would wait for
        self._senders = Senders(options.processes - 1)
        self._listeners = _listeners(options)
        self.address: tuple[str, int] = self._listeners[0].getsockname()[:2]
        self._streams = streams
        self._users: dict[str, StreamWorld] = {}
        self._ports: dict[socket.socket, StreamWorld] = {}
        self._offer(options)
        self.facts()
        self._note = ReadersNote(log.folder.directory, self.address, report)
        self._repeats = Repeats()
        self._replicas = Replicas(options.replicas, [log, *(stream.log for stream in streams)])
        self._unmatched = Unmatched(streams, lambda: self.definitions(log.view()).tables, report)

    def __enter__(self) -> "BinlogServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Serve until `close`, or until a signal or a manifest that does not continue the log raises."""
        logs = (self._log, *(stream.log for stream in self._streams))
        folders = [log.folder.directory for log in logs]
        with selectors.DefaultSelector() as selector, FolderWatch(folders, MANIFEST_NAME) as watch:
            for listener in self._listeners:
                selector.register(listener, selectors.EVENT_READ)
            if watch.tells:
                selector.register(watch, selectors.EVENT_READ)
            while not self._closed.is_set():
                HEARTBEAT.works()
                ready = [key.fileobj for key, _ in selector.select(_POLL)]
                for asked in ready:
                    if isinstance(asked, socket.socket):
                        self._accept(asked)
                if watch in ready and not watch.take():
                    continue  # another file has changed
                for log in logs:
                    log.refresh()
                self._unmatched.look()
                self._note.refresh(self._noted, self._unmatched.found, self._replicas.now(), self._repeats.now())
                self._memory.give_back()

    def close(self) -> None:
        """Disconnect all clients, and wait for their threads."""
        self._closed.set()
        self._replicas.close()
        for listener in self._listeners:
            listener.close()
        with self._lock:
            clients = dict(self._clients)
        for client in clients:
            client.end()
        for thread in clients.values():
            thread.join(_END_TIMEOUT)
        self._senders.close()
        self._note.remove()

    def readers(self) -> list[Reader]:
        """Return the clients to which the log is sent."""
        with self._lock:
            clients = list(self._clients)
        return [reader for client in clients if (reader := client.reader) is not None]

    def _noted(self) -> list[Reader]:
        return self.readers() + [reader for stream in self._streams if (reader := stream.source()) is not None]

    def _offer(self, options: ServeOptions) -> None:
        """Listen at the streams' ports, and know their users."""
        with contextlib.ExitStack() as undo:
            for listener in self._listeners:
                undo.enter_context(listener)
            for stream in self._streams:
                world = StreamWorld(stream)
                listeners = [] if stream.port is None else _listeners(replace(options, port=stream.port))
                for listener in listeners:
                    undo.enter_context(listener)
                    world.port = listener.getsockname()[1]
                    self._ports[listener] = world
                self._listeners += listeners
                if stream.user:
                    self._users[stream.user] = world
            undo.pop_all()

    def stream_ports(self) -> dict[str, int]:
        """Return the port of each stream that has one, by name."""
        return {world.name: world.port for world in self._ports.values()}

    # The World of `answers`

    def refresh(self) -> None:
        """Know at least what anybody has been sent until now. Raises MergeError."""
        if self._senders:
            # They read the manifest themselves. A position or a row from before what a client has got of the log would
            # make Debezium's incremental snapshots end with old rows.
            self._log.refresh()

    def facts(self) -> Facts:
        """Return the current facts about the server."""
        view = self._log.view()
        newest = view.there[-1].name if view.there else ""
        if self._traits is None or self._traits[0] != newest:
            self._traits = newest, traits_of(view)
        return Facts(view, self._traits[1], self.address[1], tls=True)

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
        """Return the rows of SHOW FULL REPLICAS: clients that have registered, and those to which the log is sent."""
        with self._lock:
            clients = list(self._clients)
        shown = [client for client in clients if client.session.replica or client.reader]
        return [_replica_row(client, client.log().view()) for client in shown]

    def processes(self) -> Iterable[Sequence[Value]]:
        """Return the rows of SHOW PROCESSLIST: all clients, also those that have not logged in."""
        with self._lock:
            clients = list(self._clients)
        return [_process_row(client) for client in clients]

    def counts(self) -> Mapping[str, int | str]:
        """Return what SHOW GLOBAL STATUS knows of the server."""
        with self._lock:
            clients = list(self._clients)
        up = int(time.monotonic() - self._since)
        return {
            "Uptime": up,
            "Uptime_since_flush_status": up,
            "Connections": max((c.session.settings.connection_id for c in clients), default=0) + 1,
            "Threads_connected": sum(client.session.trusted for client in clients),
            "Threads_running": sum(client.command != "Sleep" for client in clients),
        }

    def kill(self, connection_id: int) -> bool:
        """End a connection; return whether it existed."""
        with self._lock:
            clients = [c for c in self._clients if c.session.settings.connection_id == connection_id]
        for client in clients:
            client.end()
        return bool(clients)

    # Clients

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, (address, *_) = listener.accept()
        except OSError:
            return  # the client is gone already, or there are no free file descriptors: the next may succeed
        self._make_room()
        _keep_alive(sock)
        chosen = Chosen(self, self._log, self._ports.get(listener), self._users)
        session = Session(self._gate, chosen, next(self._ids), new_nonce(), address, tls=True)
        chosen.user = lambda: session.settings.user
        told, senders = self._report, self._senders
        client = Connection(sock, session, chosen.log, self._tls, told, self._leave_namesakes, senders, self._repeats)
        thread = Thread(target=self._serve, args=(client,), daemon=True, name=f"client {client.peer}")
        with self._lock:
            self._clients[client] = thread
        thread.start()

    def _inside(self) -> int:
        with self._lock:
            return sum(client.session.trusted for client in self._clients)

    def _make_room(self) -> None:
        """End the oldest client that has not logged in, if there are as many as there may be."""
        with self._lock:
            outside = [client for client in self._clients if not client.session.trusted and not client.ended]
        for client in outside[: len(outside) + 1 - self._gate.limits.logins]:
            client.end()

    def _serve(self, client: Connection) -> None:
        try:
            client.run()
        finally:
            with self._lock:
                self._clients.pop(client, None)
            self._memory.left()

    def _leave_namesakes(self, client: Connection) -> None:
        """End older dumps of a replica that has reconnected before we noticed that it was gone, as MySQL does."""
        name = _uuid_of(client.session)
        with self._lock:
            others = [c for c in self._clients if c is not client and c.log() is client.log()]
            namesakes = [c for c in others if name and _uuid_of(c.session) == name]
        for other in namesakes:
            self._report(f"{other.peer}: left, the same replica has come again as {client.peer}")
            other.end()


def _replica_row(client: Connection, view: LogView) -> Sequence[Value]:
    replica, reader = client.session.replica, client.reader
    server_id, host, port = (0, b"", 0) if replica is None else (replica.server_id, replica.host, replica.port)
    row = (
        server_id if reader is None else reader.server_id,
        host.decode("utf-8", "replace") or client.peer.rpartition(":")[0].strip("[]"),
        *(port, view.server_id, _uuid_of(client.session), client.session.settings.user),
    )
    if reader is None:
        return (*row, *(None,) * 7)
    behind = view.size_behind(reader.file, reader.position)
    return (
        *row,
        *(reader.file, reader.position, reader.acknowledged or None, client.pace.now(), behind),
        *(reader.tls, reader.compression),
    )


def _process_row(client: Connection) -> Sequence[Value]:
    """Return a client in MySQL's words."""
    settings, reader = client.session.settings, client.reader
    command = client.command if client.session.trusted else "Connect"
    user = settings.user if client.session.trusted else "unauthenticated user"
    state = ""
    if reader is not None:
        waits = "Source has sent all binlog to replica; waiting for more updates"
        state = waits if reader.waiting else "Sending binlog event to replica"
    passed = int(time.monotonic() - client.since)
    return settings.connection_id, user, client.peer, settings.schema, command, passed, state, None


def _uuid_of(session: Session) -> str:
    return str(session.settings.either("@replica_uuid", "@slave_uuid") or "")


def _gate(
    options: ServeOptions, streams: Sequence[str], inside: Callable[[], int], report: Callable[[str], None]
) -> Gate:
    """Return who may log in: the one user, also by the names of streams' users, or the users of a file."""
    secrets = (Secret.of(options.password),) if options.password else ()
    names = (options.user, *streams) if options.users is None else ()
    accounts = Accounts([Account(name, secrets) for name in names], options.users, report)
    return Gate(accounts, PasswordKey(), options.limits, inside, options.tls_required)


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
    if (
        not options.password
        and options.users is None
        and not all(_is_loopback(str(address[0])) for _, address in addresses)
    ):
        raise ConfigError(
            f"--host {options.host}: beyond this machine nobody is served without a password",
            remedy="give --password-file or --users, or leave --host at 127.0.0.1",
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


def _keep_alive(sock: socket.socket) -> None:
    """Switch on TCP keep-alive, to notice clients that vanish, and TCP_NODELAY."""
    with contextlib.suppress(OSError):
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
