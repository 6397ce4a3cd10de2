"""Answers statements with rows, OK or an error, from facts about the server and the session's settings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from binlog_merge.errors import MergeError
from binlog_merge.protocol.packets import Column, Err, ErrorCode, Ok, Value
from binlog_merge.serve.definitions import Definitions
from binlog_merge.serve.dictionary import SYSTEM_SCHEMAS
from binlog_merge.serve.expressions import WHAT, value_of
from binlog_merge.serve.log import LogView
from binlog_merge.serve.refused import NO_ROWS, Refused, unknown_database
from binlog_merge.serve.replica_status import COLUMNS as REPLICA_STATUS
from binlog_merge.serve.settings import Settings, Snapshot
from binlog_merge.serve.shows import show as shown
from binlog_merge.serve.sql import parse_statement
from binlog_merge.serve.statements import (
    Empty,
    EndTransaction,
    Expression,
    Kill,
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
    Unlock,
    Use,
)
from binlog_merge.serve.stray_bytes import check_stray_bytes, hidden, restored
from binlog_merge.serve.tables.session import Selected, Wanted, check_spoken
from binlog_merge.serve.variables import Facts, variables
from snapshot_store.mysql.text.charsets import charset_of, collation_id

if TYPE_CHECKING:
    from binlog_merge.serve.tables.keeper import Tables

SYSTEM_NAMES: Final = frozenset(name for name, _, _ in SYSTEM_SCHEMAS)
_LONGEST_MESSAGE: Final = 500
_CHARSETS: Final = ("character_set_client", "character_set_results", "character_set_connection")


@dataclass(frozen=True, slots=True)
class Rows:
    """A result set."""

    columns: Sequence[Column]
    rows: Iterable[Sequence[Value]]


Answer = Rows | Selected | Ok | Err


class World(Protocol):
    """The server as answers need it, apart from the session's own state."""

    def refresh(self) -> None:
        """Know at least what anybody has been sent until now. Raises MergeError."""

    def facts(self) -> Facts:
        """Return the current facts about the server."""

    def definitions(self, view: LogView) -> Definitions:
        """Return the tables as of the end of a view of the log. Raises MergeError."""

    def tables(self) -> "Tables | None":
        """Return the tables beside the log, None if there are none."""

    def events(self, show: ShowEvents) -> Iterable[Sequence[Value]]:
        """Yield the rows of SHOW BINLOG EVENTS; may raise between rows."""

    def replicas(self) -> Iterable[Sequence[Value]]:
        """Yield the rows of SHOW FULL REPLICAS."""

    def processes(self) -> Iterable[Sequence[Value]]:
        """Yield the rows of SHOW PROCESSLIST."""

    def kill(self, connection_id: int) -> bool:
        """End a connection; return whether it existed."""


def answer(sql: bytes | str, settings: Settings, world: World, wanted: Wanted = Wanted.TEXT) -> Answer:
    """Answer one statement; only a SET, a USE and those of transactions change the session's settings.

    Bytes are in the client's character set. `wanted` is what is wanted of rows of tables.
    """
    try:
        text = sql if isinstance(sql, str) else settings.reads.decoded(sql)
        check_stray_bytes(text)
        world.refresh()
        return _answer(text, settings, world, wanted)
    except Refused as refused:
        return refused.answer
    except MergeError as error:
        return _failed(error)
    except RecursionError:  # a SELECT over information_schema is followed as deep as it is nested
        return Err.of(ErrorCode.ER_STACK_OVERRUN_NEED_MORE, "The statement is nested too deeply for binlog-merge serve")


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
            values = [value_of(expression, settings, facts) for _, expression in items]
            names = [Column(name, isinstance(value, int)) for (name, _), value in zip(items, values, strict=True)]
            return Rows(names, [values])
        case SetVariables(items):
            return _set(items, settings, _facts(settings, world))
        case ShowDefinitions() as show:
            found = replace(show, where=hidden(show.where))
            return Rows(*shown(found, _definitions(settings, world), settings.schema))
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
            return Err.of(ErrorCode.ER_NOT_SUPPORTED_YET, f"{WHAT} '{' '.join(text.split())[:80]}'")


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
        raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"{WHAT} '{' '.join(sql[:400].split())[:80]}': {NO_ROWS}")
    columns, rows = select(hidden(sql), _definitions(settings, world), settings.schema)
    return Rows(*restored(sql, columns, rows))


def _set_names(charset: str, collation: str, settings: Settings) -> Ok:
    if charset and collation_id(charset, collation or None) is None:
        raise Refused(ErrorCode.ER_UNKNOWN_CHARACTER_SET, f"Unknown character set: '{charset[:64]}'")
    check_spoken(charset)
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
            value = value_of(expression, settings, facts)
        except Refused:
            if name.startswith("@"):
                raise
            value = None  # what a session variable of a connector is computed from is no concern of ours
        if name in _CHARSETS and str(value).lower() == "default":
            settings.values.pop(name)
            continue
        if name in _CHARSETS:
            value = charset_of(value) if isinstance(value, int) else value
            _check_charset(name, value)
        _keep(name, value, settings)
        if name == "autocommit" and value in (1, "1", "on", "ON"):
            settings.end()  # this commits
    return Ok()


def _check_charset(name: str, value: Value) -> None:
    """Raise Refused for a character set that is not known, or that no client can write."""
    if value is not None and collation_id(str(value), None) is None:
        raise Refused(ErrorCode.ER_UNKNOWN_CHARACTER_SET, f"Unknown character set: '{str(value)[:64]}'")
    if name == "character_set_client":
        check_spoken(str(value))


def _keep(name: str, value: Value, settings: Settings) -> None:
    kept = settings.values.size_without(name)
    if kept + len(name) + len(str(value)) > settings.most_kept:
        raise Refused(
            ErrorCode.ER_OUT_OF_RESOURCES,
            f"binlog-merge serve keeps {settings.most_kept} characters of a session's variables (--max-variables)",
        )
    settings.values[name] = value


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
        case "replicas":  # MySQL's columns alone: monitoring takes no others
            columns = _REPLICA_COLUMNS[:_MYSQLS_REPLICA_COLUMNS]
            return Rows(columns, [row[: len(columns)] for row in world.replicas()])
        case "full replicas":
            return Rows(_REPLICA_COLUMNS, world.replicas())
        case "replica status":
            return Rows(REPLICA_STATUS, [])
        case "processlist":
            return Rows(_PROCESS_COLUMNS, world.processes())
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
_PROCESS_COLUMNS: Final = (
    Column("Id", True),
    Column("User"),
    Column("Host"),
    Column("db"),
    Column("Command"),
    Column("Time", True),
    Column("State"),
    Column("Info"),
)
_MYSQLS_REPLICA_COLUMNS: Final = 5
_REPLICA_COLUMNS: Final = (
    Column("Server_Id", True),
    Column("Host"),
    Column("Port", True),
    Column("Source_Id", True),
    Column("Replica_UUID"),
    Column("User"),
    Column("Log_file"),
    Column("Log_pos", True),
    Column("Acknowledged"),
    Column("Bytes_per_second", True),
    Column("Bytes_behind", True),
    Column("Tls"),
    Column("Compression"),
)
