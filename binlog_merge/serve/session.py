"""A client's session, packet by packet: authentication, commands, and their answers. It has no socket.

    greeting ─▶ (SSL request, TLS) ─▶ handshake response ─▶ (auth switch) ─▶ commands ─▶ a dump, which never ends

`receive` takes a payload and returns a step: payloads to send, and what to do then. It does so for any bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.protocol.commands import (
    BinlogDump,
    BinlogDumpGtid,
    Com,
    Dump,
    InitDb,
    Plain,
    Query,
    RegisterReplica,
    parse_command,
)
from binlog_merge.protocol.fields import described
from binlog_merge.protocol.handshake import (
    CACHING_SHA2,
    FAST_AUTH_SUCCESS,
    NATIVE,
    OFFERED,
    SSL_REQUEST_LEN,
    AuthSwitch,
    Greeting,
    HandshakeResponse,
    SslRequest,
    proves,
)
from binlog_merge.protocol.packets import Capability, Eof, Err, ErrorCode, Ok, result_set
from binlog_merge.serve.answers import Rows, World, answer, use
from binlog_merge.serve.prepared import COMMANDS, Statements
from binlog_merge.serve.settings import Settings
from binlog_merge.serve.tables.session import Selected

_REPLICA_ATTRIBUTE: Final = "_client_replication_channel_name"
_CRASHES: Final = (
    "This merged binlog has order keys behind XID (output.cts: end or both), for readers of PolarDB-X's global binlog. "
    "A MySQL replica would crash on them, so none is served: merge with output.cts: begin."
)


LONGEST_STATEMENT: Final = 1 << 18
"""Bytes: enough for GTID sets of thousands of intervals, and taken apart in some hundredths of a second."""


class Then(Enum):
    """What to do after a step's payloads are sent."""

    GO_ON = auto()
    START_TLS = auto()
    DUMP = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """The response to a client's packet."""

    payloads: Iterable[bytes] = ()
    then: Then = Then.GO_ON
    dump: Dump | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The server's only user."""

    user: str
    password: str = field(repr=False)


class _Phase(Enum):
    HANDSHAKE = auto()
    SWITCHED = auto()
    COMMANDS = auto()


class Session:
    """The state of a session. `tls`: TLS is offered, and the client may do without."""

    def __init__(self, account: Account, world: World, connection_id: int, nonce: bytes, tls: bool = False) -> None:
        self.settings = Settings("", connection_id)
        self.replica: RegisterReplica | None = None
        self.attributes: dict[str, str] = {}
        self._account = account
        self._world = world
        self._nonce = nonce
        self._tls = tls
        self._phase = _Phase.HANDSHAKE
        self._plugin = CACHING_SHA2
        self._statements = Statements(
            lambda text, wanted: answer(text, self.settings, world, wanted),
            LONGEST_STATEMENT,
            self.settings.reads,
        )

    @property
    def trusted(self) -> bool:
        """Return whether the client is authenticated."""
        return self._phase is _Phase.COMMANDS

    def greeting(self) -> bytes:
        """Return the payload of the server's first packet."""
        flags = OFFERED | (Capability.CLIENT_SSL if self._tls else 0)
        version = self._world.facts().version
        return Greeting(version, self.settings.connection_id, self._nonce, Capability(flags)).pack()

    def tls_started(self, version: str) -> None:
        """Note that the connection is encrypted from now on; `version` is the TLS version."""
        self.settings.tls = version

    def close(self) -> None:
        """Give up what the session holds: its transaction, its locks, its prepared statements."""
        self._statements.close()
        self.settings.end()
        self.settings.reads.close()

    def receive(self, payload: bytes) -> Step:
        """Return the response to a packet's payload."""
        try:
            if self._phase is _Phase.HANDSHAKE:
                return self._handshake(payload)
            if self._phase is _Phase.SWITCHED:
                return self._proved(payload)
            return self._command(payload)
        except BinlogFormatError as error:
            if self.trusted:
                return _refusal(ErrorCode.ER_MALFORMED_PACKET, f"Malformed communication packet: {error.reason}")
            return _farewell(ErrorCode.ER_HANDSHAKE_ERROR, f"Bad handshake: {error.reason}")

    def _handshake(self, payload: bytes) -> Step:
        if len(payload) == SSL_REQUEST_LEN:
            if self._tls and not self.settings.tls and SslRequest.parse(payload).capabilities & Capability.CLIENT_SSL:
                return Step(then=Then.START_TLS)
            return _farewell(ErrorCode.ER_HANDSHAKE_ERROR, "Bad handshake: TLS was not offered")
        response = HandshakeResponse.parse(payload)
        self.settings.user, self.attributes = response.user, dict(response.attributes)
        self.settings.schema = response.database or None
        self.settings.reads.collation = response.charset
        self._plugin = response.plugin if response.plugin in (CACHING_SHA2, NATIVE) else CACHING_SHA2
        if not response.proof and response.attributes.get("_client_name") == "libmariadb":
            self._plugin = NATIVE  # libmariadb has caching_sha2_password only if a plugin is installed
        # A client whose default plugin is not that of the greeting names its own, and waits for an auth switch; so does
        # one that names none, whose proof may be of any plugin.
        if response.plugin != self._plugin or (self._account.password and not response.proof):
            self._phase = _Phase.SWITCHED
            return Step([AuthSwitch(self._plugin, self._nonce).pack()])
        return self._proved(response.proof)

    def _proved(self, proof: bytes) -> Step:
        settings, account = self.settings, self._account
        known = proves(self._plugin, account.password, self._nonce, proof)
        if not known or settings.user != account.user:
            using = "YES" if proof else "NO"
            return _farewell(
                ErrorCode.ER_ACCESS_DENIED_ERROR,
                f"Access denied for user '{settings.user[:80]}' (using password: {using})",
            )
        opened = use(settings.schema or "", settings, self._world)
        if isinstance(opened, Err):
            return Step([opened.pack()], Then.CLOSE)
        self._phase = _Phase.COMMANDS
        fast = [FAST_AUTH_SUCCESS] if self._plugin == CACHING_SHA2 and account.password else []
        return Step([*fast, opened.pack()])

    def _command(self, payload: bytes) -> Step:
        match parse_command(payload):
            case Query(sql) if len(sql) > LONGEST_STATEMENT:
                return _refusal(
                    ErrorCode.ER_NET_PACKET_TOO_LARGE,
                    f"The statement has {len(sql)} bytes, and binlog-merge serve takes {LONGEST_STATEMENT}",
                )
            case Query(sql):
                return self._answered(sql)
            case InitDb(schema):
                return Step([use(schema.decode("utf-8", "replace"), self.settings, self._world).pack()])
            case RegisterReplica() as replica:
                self.replica = replica
                return Step([Ok().pack()])
            case BinlogDump() | BinlogDumpGtid() as dump:
                return self._dump(dump)
            case Plain(Com.COM_QUIT):
                return Step(then=Then.CLOSE)
            case Plain(Com.COM_PING):
                return Step([Ok().pack()])
            case Plain(Com.COM_RESET_CONNECTION):
                self.close()
                self.settings.values.clear()
                return Step([Ok().pack()])
            case Plain(Com.COM_STATISTICS):
                files = self._world.facts().view.there
                return Step([f"Files: {len(files)}  Bytes: {sum(file.size for file in files)}".encode()])
            case Plain(code, body) if code in COMMANDS:
                return Step(self._statements.command(code, body))
            case Plain(code):
                return _refusal(ErrorCode.ER_UNKNOWN_COM_ERROR, f"Unknown command {code}: this is binlog-merge serve")

    def _answered(self, sql: bytes) -> Step:
        answered = answer(sql, self.settings, self._world)
        if isinstance(answered, Rows):
            return Step(result_set(answered.columns, answered.rows))
        if isinstance(answered, Selected):
            return Step(chain(described(answered.fields), answered.rows, [Eof().pack()]))
        return Step([answered.pack()])

    def _dump(self, dump: Dump) -> Step:
        view = self._world.facts().view
        if view.key_ends_transaction and _REPLICA_ATTRIBUTE in self.attributes:
            return _refusal(ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG, _CRASHES)
        if self.settings.either("@source_binlog_checksum", "@master_binlog_checksum") is None:
            return _refusal(
                ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
                "Replica can not handle replication events with the checksum that source is configured to log: "
                "SET @source_binlog_checksum = @@global.binlog_checksum first",
            )
        return Step(then=Then.DUMP, dump=dump)


def _refusal(code: ErrorCode, message: str) -> Step:
    return Step([Err.of(code, message).pack()])


def _farewell(code: ErrorCode, message: str) -> Step:
    return Step([Err.of(code, message).pack()], Then.CLOSE)
