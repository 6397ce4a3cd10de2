"""A client's session, packet by packet: authentication, commands, and their answers. It has no socket.

    greeting ─▶ (SSL request, TLS) ─▶ login, which is in `login` ─▶ commands ─▶ a dump, which never ends

`receive` takes a payload and returns a step: payloads to send, and what to do then. It does so for any bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import chain
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog_server.answers import Rows, World, answer, use
from binlog_merge.binlog_server.login import Answered, Gate, Login, is_mariadb
from binlog_merge.binlog_server.prepared import COMMANDS, Statements
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.tables.session import Selected
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
from binlog_merge.protocol.compression import Algorithm
from binlog_merge.protocol.fields import described
from binlog_merge.protocol.handshake import OFFERED, Greeting, SslRequest, new_nonce
from binlog_merge.protocol.packets import Capability, Eof, Err, ErrorCode, Ok, Sent, result_set

_ENDS: Final = b" \t\n\v\f\r;\0"
"""What MySQL takes away from the end of a statement."""
_MULTI_STATEMENTS_OFF: Final = 1
_DUMP_GTID: Final = bytes([Com.COM_BINLOG_DUMP_GTID])
_REPLICA_ATTRIBUTE: Final = "_client_replication_channel_name"
_CRASHES: Final = (
    "This merged binlog has order keys behind XID (output.cts: end or both), for readers of PolarDB-X's global binlog. "
    "A MySQL replica would crash on them, so none is served: merge with output.cts: begin."
)


class Then(Enum):
    """What to do after a step's payloads are sent."""

    GO_ON = auto()
    START_TLS = auto()
    LOG_IN = auto()
    COMPRESS = auto()
    DUMP = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """The response to a client's packet. `why`, for the operator, a client is refused that has not logged in."""

    payloads: Iterable[bytes] = ()
    then: Then = Then.GO_ON
    dump: Dump | None = None
    why: str = ""


class Session:
    """The state of a session. `tls`: TLS is offered.

    `compression` is what the client asked for when it logged in, with the level of zstd.
    """

    def __init__(
        self, gate: Gate, world: World, connection_id: int, nonce: bytes, address: str = "", tls: bool = False
    ) -> None:
        self.settings = Settings("", connection_id, most_kept=gate.limits.variables)
        self.replica: RegisterReplica | None = None
        self.attributes: dict[str, str] = {}
        self.compression: tuple[Algorithm, int] | None = None
        self.trusted = False
        self._login = Login(gate, nonce, address)
        self._longest = gate.limits.statement
        self._most_gtids = gate.limits.gtids
        self._world = world
        self._nonce = nonce
        self._tls = tls
        self._statements = Statements(
            lambda text, wanted: answer(text, self.settings, world, wanted),
            self._longest,
            self.settings.reads,
        )

    def greeting(self) -> bytes:
        """Return the payload of the server's first packet."""
        flags = OFFERED | (Capability.CLIENT_SSL if self._tls else 0)
        facts = self._world.facts()
        reads = self.settings.reads
        reads.version = max(reads.version, facts.number)  # clients put what a version knows into comments for it
        plugin = self._login.greeted()
        return Greeting(facts.version, self.settings.connection_id, self._nonce, Capability(flags), plugin).pack()

    def tls_started(self, version: str) -> None:
        """Note that the connection is encrypted from now on; `version` is the TLS version."""
        self.settings.tls = version
        self._login.encrypted = True

    def close(self) -> None:
        """Give up what the session holds: its transaction, its locks, its prepared statements."""
        self._statements.close()
        self.settings.end()
        self.settings.reads.close()

    def receive(self, payload: bytes) -> Step:
        """Return the response to a packet's payload."""
        try:
            return self._command(payload) if self.trusted else self._handshake(payload)
        except BinlogFormatError as error:
            if self.trusted:
                return _refusal(ErrorCode.ER_MALFORMED_PACKET, f"Malformed communication packet: {error.reason}")
            return _farewell(ErrorCode.ER_HANDSHAKE_ERROR, f"Bad handshake: {error.reason}")

    def _handshake(self, payload: bytes) -> Step:
        if self._login.response is None and self._login.tls_request is None and SslRequest.is_one(payload):
            if not self._tls:
                return _farewell(ErrorCode.ER_HANDSHAKE_ERROR, "Bad handshake: TLS was not offered")
            self._login.tls_request = SslRequest.parse(payload)
            return Step(then=Then.START_TLS)
        return self._entered(self._login.receive(payload))

    def _change_user(self, body: bytes) -> Step:
        """Begin anew as another user: nothing is kept of what the session was."""
        self._reset()
        self.replica = None
        self.trusted = False
        entered = self._entered(self._login.change(body, new_nonce()))
        return entered if self.trusted or entered.then is Then.CLOSE else replace(entered, then=Then.LOG_IN)

    def _reset(self) -> None:
        self.close()
        self.settings.values.clear()

    def _entered(self, answered: Answered) -> Step:
        """Return what follows an answer to a login: the session, if the client has proved itself."""
        response = self._login.response
        if response is not None:
            self.settings.user, self.attributes = response.user, dict(response.attributes)
            self.settings.schema = response.database or None
            try:
                self.settings.reads.speak(response.charset)
            except Refused as refused:
                return Step([refused.answer.pack()], Then.CLOSE, why=refused.answer.message)
            if is_mariadb(response) and response.attributes.get("program_name") == "mysqlbinlog":
                # mariadb-binlog reads no source whose version begins otherwise than one of MySQL 5 or MariaDB. MariaDB
                # itself has long put this before its own for the likes of it.
                self.settings.version_prefix = "5.5.5-"
            if response.algorithm is not None:
                self.compression = response.algorithm, response.zstd_level
        if not answered.proved:
            return Step(answered.payloads, Then.CLOSE if answered.denied else Then.GO_ON, why=answered.denied)
        opened = use(self.settings.schema or "", self.settings, self._world)
        if isinstance(opened, Err):
            return Step([opened.pack()], Then.CLOSE, why="there is no such database")
        self.trusted = True
        compressed = self.compression is not None
        return Step([*answered.payloads, opened.pack()], Then.COMPRESS if compressed else Then.GO_ON)

    def _command(self, payload: bytes) -> Step:
        if payload[:1] == _DUMP_GTID and len(payload) > self._most_gtids:
            # As fatal: a replica stops and shows it, where it would come again for ever after an error in the packet.
            return _refusal(
                ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
                f"The request with the replica's GTID set has {len(payload)} bytes, and binlog-merge serve takes "
                f"{self._most_gtids}, some {self._most_gtids >> 4} intervals: read by file and position "
                "(SOURCE_AUTO_POSITION=0), or make the replica anew, without so many gaps",
            )
        match parse_command(payload):
            case Query(sql) if len(sql) > self._longest:
                return _refusal(
                    ErrorCode.ER_NET_PACKET_TOO_LARGE,
                    f"The statement has {len(sql)} bytes, and binlog-merge serve takes {self._longest} "
                    "(--max-statement)",
                )
            case Query(sql):
                return self._answered(sql)
            case InitDb(schema):
                return self._use(schema.partition(b"\0")[0])
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
                self._reset()
                return Step([Ok().pack()])
            case Plain(Com.COM_CHANGE_USER, body):
                return self._change_user(body)
            case Plain(Com.COM_SET_OPTION, body):
                return _set_option(body)
            case Plain(Com.COM_STATISTICS):
                files = self._world.facts().view.there
                return Step([f"Files: {len(files)}  Bytes: {sum(file.size for file in files)}".encode()])
            case Plain(code, body) if code in COMMANDS:
                return Step(self._statements.command(code, body))
            case Plain(code):
                return _refusal(ErrorCode.ER_UNKNOWN_COM_ERROR, f"Unknown command {code}: this is binlog-merge serve")

    def _use(self, schema: bytes) -> Step:
        if not schema:
            return _refusal(ErrorCode.ER_NO_DB_ERROR, "No database selected")
        try:
            return Step([use(self.settings.reads.decoded(schema), self.settings, self._world).pack()])
        except Refused as refused:
            return Step([refused.answer.pack()])

    def _answered(self, sql: bytes) -> Step:
        answered = answer(sql.rstrip(_ENDS), self.settings, self._world)
        if isinstance(answered, Rows):
            return Step(result_set(answered.columns, answered.rows, self.settings.reads.texts()))
        if isinstance(answered, Selected):
            head = described(answered.fields, encode=self.settings.reads.texts().encode)
            return Step(chain(head, answered.rows, [Eof().pack()]))
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


def _set_option(body: bytes) -> Step:
    """Answer whether several statements may stand in one packet: here they may not, and clients ask all the same."""
    if Sent(body, "option").u16("option") > _MULTI_STATEMENTS_OFF:
        return _refusal(ErrorCode.ER_UNKNOWN_COM_ERROR, "Unknown command")
    return Step([Eof().pack()])


def _refusal(code: ErrorCode, message: str) -> Step:
    return Step([Err.of(code, message).pack()])


def _farewell(code: ErrorCode, message: str) -> Step:
    return Step([Err.of(code, message).pack()], Then.CLOSE, why=message)
