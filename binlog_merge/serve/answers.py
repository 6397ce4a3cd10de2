"""Answers statements with rows, OK or an error, from facts about the server and the session's settings."""

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import MergeError
from binlog_merge.log.ranks import RankSet
from binlog_merge.protocol.packets import Column, Err, ErrorCode, Ok, Value
from binlog_merge.serve.definitions import Definitions
from binlog_merge.serve.dictionary import SYSTEM_SCHEMAS
from binlog_merge.serve.log import LogView
from binlog_merge.serve.refused import NO_ROWS, Refused, unknown_database
from binlog_merge.serve.shows import show as shown
from binlog_merge.serve.sql import parse_statement
from binlog_merge.serve.statements import (
    Call,
    Empty,
    EndTransaction,
    Expression,
    Kill,
    Literal,
    Lock,
    Names,
    Nothing,
    Question,
    Select,
    SetIsolation,
    SetNames,
    SetVariables,
    Show,
    ShowDefinitions,
    ShowEvents,
    StartTransaction,
    SystemVariable,
    Unlock,
    Use,
    UserVariable,
)
from binlog_merge.serve.tables.session import Reads, Selected, Wanted
from binlog_merge.serve.variables import Facts, variables
from snapshot_store.mysql.text.charsets import collation_id

if TYPE_CHECKING:
    from binlog_merge.serve.tables.keeper import Tables

_WHAT: Final = (
    "this is binlog-merge serve, which hands out a merged binlog and no rows of tables: it answers what replicas and "
    "binlog readers ask (SHOW BINARY LOGS, SHOW BINARY LOG STATUS, SHOW BINLOG EVENTS, SHOW VARIABLES, SELECT @@…, "
    "SET, SHOW CREATE TABLE, information_schema, COM_BINLOG_DUMP), not"
)
SYSTEM_NAMES: Final = frozenset(name for name, _, _ in SYSTEM_SCHEMAS)
_LONGEST_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Rows:
    """A result set."""

    columns: Sequence[Column]
    rows: Iterable[Sequence[Value]]


Answer = Rows | Selected | Ok | Err


class World(Protocol):
    """The server as answers need it, apart from the session's own state."""

    def facts(self) -> Facts:
        """Return the current facts about the server."""

    def definitions(self, view: LogView) -> Definitions:
        """Return the tables as of the end of a view of the log. Raises MergeError."""

    def tables(self) -> "Tables | None":
        """Return the tables beside the log, None if there are none."""

    def events(self, show: ShowEvents) -> Iterable[Sequence[Value]]:
        """Yield the rows of SHOW BINLOG EVENTS; may raise between rows."""

    def replicas(self) -> Iterable[Sequence[Value]]:
        """Yield the rows of SHOW REPLICAS."""

    def kill(self, connection_id: int) -> bool:
        """End a connection; return whether it existed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a transaction WITH CONSISTENT SNAPSHOT sees: the facts as it began, and the definitions as of their log."""

    facts: Facts
    definitions: Definitions


@dataclass(slots=True)
class Settings:
    """A session's settings: user variables as `@name`, session variables by their names.

    `tls` is the version of TLS in use, "" without; `snapshot` is that of the transaction in which the session is.
    """

    user: str
    connection_id: int
    tls: str = ""
    schema: str | None = None
    snapshot: Snapshot | None = None
    values: dict[str, Value] = field(default_factory=dict)
    reads: Reads = field(init=False)

    def __post_init__(self) -> None:
        self.reads = Reads(self.values)

    def end(self) -> None:
        """End the transaction in which the session is."""
        self.snapshot = None
        self.reads.end()

    def either(self, *names: str) -> Value:
        """Return the value of the first of these variables that is set, None if none is."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)


_MOST_KEPT: Final = 1 << 19


def answer(sql: bytes, settings: Settings, world: World, wanted: Wanted = Wanted.TEXT) -> Answer:
    """Answer one statement; only a SET, a USE and those of transactions change the session's settings.

    `wanted` is what is wanted of rows of tables.
    """
    text = sql.decode("utf-8", "surrogateescape")
    try:
        return _answer(text, settings, world, wanted)
    except Refused as refused:
        return refused.answer
    except MergeError as error:
        return _failed(error)


def _facts(settings: Settings, world: World) -> Facts:
    if settings.snapshot is not None:
        return settings.snapshot.facts
    tables = world.tables()
    at = tables.held() if tables is not None and settings.reads.locked else None
    return world.facts() if at is None else replace(world.facts(), view=at)


def _definitions(settings: Settings, world: World) -> Definitions:
    if settings.snapshot is not None:
        return settings.snapshot.definitions
    return world.definitions(_facts(settings, world).view)


def _snapshot(settings: Settings, world: World) -> Snapshot:
    """Begin a consistent snapshot: that of the tables, where there are tables."""
    facts, tables = world.facts(), world.tables()
    if tables is not None:
        facts = replace(facts, view=settings.reads.begin(tables, facts.view.state.rank))
    return Snapshot(facts, world.definitions(facts.view))


def _answer(text: str, settings: Settings, world: World, wanted: Wanted) -> Answer:
    match parse_statement(text):
        case Select(items):
            facts = _facts(settings, world)
            values = [_value(expression, settings, facts) for _, expression in items]
            names = [Column(name, isinstance(value, int)) for (name, _), value in zip(items, values, strict=True)]
            return Rows(names, [values])
        case SetVariables(items):
            return _set(items, settings, _facts(settings, world))
        case ShowDefinitions() as show:
            return Rows(*shown(show, _definitions(settings, world), settings.schema))
        case Question(sql):
            return _asked(sql, settings, world, wanted)
        case StartTransaction(snapshot):
            settings.end()
            settings.reads.begun = True
            if snapshot:
                settings.snapshot = _snapshot(settings, world)
            return Ok()
        case EndTransaction():
            settings.end()
            return Ok()
        case Lock():
            settings.end()
            if (tables := world.tables()) is not None:
                settings.reads.lock(tables, world.facts().view.state.rank)
            return Ok()
        case Unlock():
            settings.reads.unlock()
            return Ok()
        case SetNames(charset, collation):
            return _set_names(charset, collation, settings)
        case SetIsolation(level):
            if level:
                settings.values["transaction_isolation"] = level
            return Ok()
        case Show() as show:
            return _show(show, settings, world)
        case ShowEvents() as show:
            return Rows(_EVENT_COLUMNS, world.events(show))
        case Use(schema):
            return use(schema, settings, world)
        case Kill(connection_id):
            known = world.kill(connection_id)
            return Ok() if known else Err.of(ErrorCode.ER_NO_SUCH_THREAD, f"Unknown thread id: {connection_id}")
        case Nothing():
            return Ok()
        case Empty():
            return Err.of(ErrorCode.ER_EMPTY_QUERY, "Query was empty")
        case _:
            return Err.of(ErrorCode.ER_NOT_SUPPORTED_YET, f"{_WHAT} '{' '.join(text.split())[:80]}'")


def use(schema: str, settings: Settings, world: World) -> Ok | Err:
    """Make a schema the session's default if there is one of this name."""
    if schema and schema.lower() not in SYSTEM_NAMES:
        try:
            known = schema in _definitions(settings, world).schemas
        except MergeError as error:
            return _failed(error)
        if not known:
            return unknown_database(schema).answer
    settings.schema = schema or None
    return Ok()


def _failed(error: MergeError) -> Err:
    return Err.of(ErrorCode.ER_UNKNOWN_ERROR, f"{error.code}: {error.message} ({error.where()})"[:_LONGEST_MESSAGE])


def _asked(sql: str, settings: Settings, world: World, wanted: Wanted) -> Rows | Selected:
    from binlog_merge.serve.questions import LONGEST, select

    if (tables := world.tables()) is not None:
        from binlog_merge.serve.tables.query import parse_query

        query = parse_query(sql, settings.reads.grammar(), settings.schema)
        if query is not None:
            return settings.reads.select(query, tables, world.facts().view.state.rank, wanted)
    if len(sql) > LONGEST:  # no question about definitions is as long; a table may have as many columns
        raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"{_WHAT} '{' '.join(sql[:400].split())[:80]}': {NO_ROWS}")
    return Rows(*select(sql, _definitions(settings, world), settings.schema))


def _set_names(charset: str, collation: str, settings: Settings) -> Ok:
    if charset and collation_id(charset, collation or None) is None:
        raise Refused(ErrorCode.ER_UNKNOWN_CHARACTER_SET, f"Unknown character set: '{charset[:64]}'")
    for name in ("character_set_client", "character_set_results"):
        settings.values.pop(name, None)
        if charset:
            settings.values[name] = charset
    settings.values.pop("collation_results", None)
    if collation:
        settings.values["collation_results"] = collation_id(charset, collation)
    return Ok()


def _set(items: Sequence[tuple[str, Expression]], settings: Settings, facts: Facts) -> Ok:
    for name, expression in items:
        try:
            value = _value(expression, settings, facts)
        except Refused:
            if name.startswith("@"):
                raise
            value = None  # what a session variable of a connector is computed from is no concern of ours
        _keep(name, value, settings)
        if name == "autocommit" and value in (1, "1", "on", "ON"):
            settings.end()  # this commits
    return Ok()


def _keep(name: str, value: Value, settings: Settings) -> None:
    kept = sum(len(other) + len(str(held)) for other, held in settings.values.items() if other != name)
    if kept + len(name) + len(str(value)) > _MOST_KEPT:
        raise Refused(
            ErrorCode.ER_OUT_OF_RESOURCES, f"binlog-merge serve keeps {_MOST_KEPT} characters of a session's variables"
        )
    settings.values[name] = value


def _value(expression: Expression, settings: Settings, facts: Facts) -> Value:
    match expression:
        case Literal(value):
            return value
        case UserVariable(name):
            return settings.values.get("@" + name)
        case SystemVariable(name):
            known = variables(facts)
            if name not in known:
                raise Refused(ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE, f"Unknown system variable '{name}'")
            return _selected(name, known[name])
        case Call(name, arguments):
            return _call(name, [_value(argument, settings, facts) for argument in arguments], settings, facts)


def _selected(name: str, value: Value) -> Value:
    """Return a variable as SELECT shows it: ON and OFF as 1 and 0, except for variables with more values than these."""
    if value in ("ON", "OFF") and name not in ("gtid_mode", "enforce_gtid_consistency"):
        return int(value == "ON")
    return value


def _call(name: str, values: Sequence[Value], settings: Settings, facts: Facts) -> Value:
    match name, values:
        case "version", []:
            return facts.version
        case "unix_timestamp", []:
            return int(time.time())
        case "now" | "current_timestamp" | "sysdate", []:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        case "connection_id", []:
            return settings.connection_id
        case "user" | "current_user" | "session_user" | "system_user", []:
            return f"{settings.user}@%"
        case "database" | "schema", []:
            return settings.schema
        case "uuid", []:
            return str(uuid.uuid4())
        case "gtid_subset", [str(inner), str(outer)]:
            return int(_gtids(outer).contains_set(_gtids(inner)))
        case "gtid_subtract", [str(one), str(other)]:
            return str(_minus(_gtids(one), _gtids(other)))
        case _:
            raise Refused(ErrorCode.ER_SP_DOES_NOT_EXIST, f"FUNCTION {name} does not exist: {_WHAT} functions")


def _gtids(text: str) -> GtidSet:
    try:
        return GtidSet.parse_text(text)
    except BinlogFormatError:
        raise Refused(
            ErrorCode.ER_MALFORMED_GTID_SET_SPECIFICATION, f"Malformed GTID set specification '{text[:200]}'."
        ) from None


def _minus(gtids: GtidSet, other: GtidSet) -> GtidSet:
    rest = [(source, _ranks(gtids, source) - _ranks(other, source)) for source in gtids.intervals]
    return GtidSet.of((sid, tag, first, last + 1) for (sid, tag), ranks in rest for first, last in ranks.intervals)


def _ranks(gtids: GtidSet, source: tuple[bytes, str]) -> RankSet:
    return RankSet(tuple((start, end - 1) for start, end in gtids.intervals.get(source, ())))


def _show(show: Show, settings: Settings, world: World) -> Rows:
    facts = _facts(settings, world)
    match show.what:
        case "variables":
            return _named(dict(sorted(variables(facts).items())), show.names)
        case "status":
            return _named({"Ssl_version": settings.tls}, show.names)
        case "binary log status":
            file, position = facts.view.end
            return Rows(_STATUS_COLUMNS, [(file, position, "", "", str(facts.view.executed))])
        case "binary logs":
            return Rows(_LOG_COLUMNS, [(file.name, file.size, "No") for file in facts.view.there])
        case "replicas":
            return Rows(_REPLICA_COLUMNS, world.replicas())
        case "grants":
            granted = f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `{settings.user}`@`%`"
            return Rows([Column(f"Grants for {settings.user}@%")], [(granted,)])
        case _:
            return Rows([Column("Level"), Column("Code", True), Column("Message")], [])


def _named(values: dict[str, Value], names: Names | None) -> Rows:
    match = None if names is None else names.matcher()
    chosen = [(name, value) for name, value in values.items() if match is None or match(name)]
    return Rows([Column("Variable_name"), Column("Value")], chosen)


_LOG_COLUMNS: Final = (Column("Log_name"), Column("File_size", True), Column("Encrypted"))
_STATUS_COLUMNS: Final = (
    Column("File"),
    Column("Position", True),
    Column("Binlog_Do_DB"),
    Column("Binlog_Ignore_DB"),
    Column("Executed_Gtid_Set"),
)
_EVENT_COLUMNS: Final = (
    Column("Log_name"),
    Column("Pos", True),
    Column("Event_type"),
    Column("Server_id", True),
    Column("End_log_pos", True),
    Column("Info"),
)
_REPLICA_COLUMNS: Final = (
    Column("Server_Id", True),
    Column("Host"),
    Column("Port", True),
    Column("Source_Id", True),
    Column("Replica_UUID"),
)
