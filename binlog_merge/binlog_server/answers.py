"""Answers statements with rows, OK or an error, from facts about the server and the session's settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from binlog_merge.binlog_server.constants import WHAT, computed, value_of
from binlog_merge.binlog_server.definitions import Definitions, Moment, Row
from binlog_merge.binlog_server.dictionary import SYSTEM_SCHEMAS
from binlog_merge.binlog_server.log import LogView
from binlog_merge.binlog_server.recorded import known_shows, known_status
from binlog_merge.binlog_server.refused import Refused, no_rows_of, unknown_database, unknown_table
from binlog_merge.binlog_server.session_variables import checked, shown_variables
from binlog_merge.binlog_server.settings import Settings, Snapshot
from binlog_merge.binlog_server.show_sql import check_stray_bytes, hidden
from binlog_merge.binlog_server.shows import show as shown
from binlog_merge.binlog_server.sql import parse_statement
from binlog_merge.binlog_server.statements import (
    Empty,
    EndTransaction,
    Kill,
    Lock,
    Nothing,
    Select,
    SetIsolation,
    SetNames,
    SetVariables,
    Show,
    ShowDefinitions,
    ShowEvents,
    StartTransaction,
    Unlock,
    Unsupported,
    Use,
)
from binlog_merge.binlog_server.tables.session import Selected, Wanted, check_spoken
from binlog_merge.binlog_server.variables import Facts
from binlog_merge.errors import MergeError
from binlog_merge.protocol.packets import Column, Err, ErrorCode, Ok, Value
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.text.charsets import collation_id

if TYPE_CHECKING:
    from binlog_merge.binlog_server.tables.keeper import Tables

_SYSTEM: Final = {name: (charset, collation) for name, charset, collation in SYSTEM_SCHEMAS}
_LONGEST_MESSAGE: Final = 500


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

    def counts(self) -> Mapping[str, int | str]:
        """Return what SHOW GLOBAL STATUS knows of the server."""

    def kill(self, connection_id: int) -> bool:
        """End a connection; return whether it existed."""


def answer(sql: bytes | str, settings: Settings, world: World, wanted: Wanted = Wanted.TEXT) -> Answer:
    """Answer one statement; only a SET, a USE and those of transactions change the session's settings.

    Bytes are in the client's character set. `wanted` is what is wanted of rows of tables.
    """
    try:
        text = sql if isinstance(sql, str) else settings.reads.decoded(sql)
        check_stray_bytes(text)
        settings.reads.check_lock()
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
    match parse_statement(text, settings.reads.grammar(), settings.schema):
        case Select() as select:
            return _selected(select, settings, world, wanted)
        case SetVariables(items):
            return _set(items, settings, _facts(settings, world))
        case ShowDefinitions() as show:
            asked = replace(show, where=hidden(show.where))
            return Rows(*shown(asked, _definitions(settings, world), settings.schema))
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
        case SetNames(charset, collation, literals):
            done = _set_names(charset, collation, settings)
            settings.values["character_set_connection"] = (charset or "utf8mb4") if literals else "utf8mb4"
            return done
        case SetIsolation(level):
            if level:
                settings.values["transaction_isolation"] = level.upper()
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
        case Unsupported(reason):
            why = f": {reason[:200]}" if reason else ""
            return Err.of(ErrorCode.ER_NOT_SUPPORTED_YET, f"{WHAT} '{' '.join(text.split())[:80]}'{why}")


def use(schema: str, settings: Settings, world: World) -> Ok | Err:
    """Make a schema the session's default if there is one of this name."""
    if schema and schema.lower() not in _SYSTEM:
        try:
            schema_there = _definitions(settings, world).schemas.get(schema)
        except MergeError as error:
            return _failed(error)
        if schema_there is None:
            return unknown_database(schema).answer
        settings.database = schema_there.charset, schema_there.collation
    else:
        settings.database = _SYSTEM.get(schema.lower())
    settings.schema = schema or None
    return Ok()


def _failed(error: MergeError) -> Err:
    return Err.of(ErrorCode.ER_UNKNOWN_ERROR, f"{error.code}: {error.message} ({error.where()})"[:_LONGEST_MESSAGE])


def _selected(select: Select, settings: Settings, world: World, wanted: Wanted) -> Rows | Selected:
    """Answer a SELECT: from the session if it is from no table, else by who has the rows of its first. Raises Refused.

    information_schema and its like are read by sqlglot, users' tables by `tables`, where there are any.
    """
    if select.table is None:
        return Rows(*computed(select.cursor, settings, _facts(settings, world)))
    schema, table = select.table
    if not schema:
        raise Refused(ErrorCode.ER_NO_DB_ERROR, "No database selected")
    if schema.lower() in _SYSTEM:
        from binlog_merge.binlog_server.questions import select as answered

        longest = settings.values.get("group_concat_max_len")
        moment = _moment(settings, world)
        return Rows(*answered(select.cursor, _definitions(settings, world), settings.schema, moment, longest))
    if (tables := world.tables()) is None:
        known = (schema, table) in _definitions(settings, world).tables
        raise no_rows_of(schema, table) if known else unknown_table(schema, table)
    from binlog_merge.binlog_server.tables.query import read_query

    query = read_query(select.cursor, settings.schema, settings.reads.connection())
    return settings.reads.select(query, tables, world.facts().view.state.rank, wanted)


def _moment(settings: Settings, world: World) -> Moment:
    """Return the rows of the system tables that are a session's own, or of the moment."""
    grantee = f"'{settings.user}'@'%'"

    def variables(everywhere: bool) -> Iterable[Row]:
        return shown_variables("global" if everywhere else "session", settings, _facts(settings, world))

    return {
        "PROCESSLIST": world.processes,
        "USER_PRIVILEGES": lambda: [(grantee, "def", name, "NO") for name in _privileges(world)],
        "USER_ATTRIBUTES": lambda: [(settings.user, "%", None)],
        "performance_schema.global_variables": lambda: variables(True),
        "performance_schema.session_variables": lambda: variables(False),
        "performance_schema.variables_info": lambda: (
            (name, "COMPILED", None, "0", "0", None, None, None) for name, _ in variables(False)
        ),
        "performance_schema.global_status": lambda: _status(True, settings, world),
        "performance_schema.session_status": lambda: _status(False, settings, world),
    }


def _status(everywhere: bool, settings: Settings, world: World) -> Iterator[tuple[str, str]]:
    return shown_status(everywhere, {**world.counts(), "Ssl_version": settings.tls})


def _privileges(world: World) -> Sequence[str]:
    """Return what clients may do: they lock nobody out, and end only what they have begun."""
    return ("SELECT",) * (world.tables() is not None) + _GRANTED


def _set_names(charset: str, collation: str, settings: Settings) -> Ok:
    if charset and collation_id(charset, collation or None) is None:
        raise Refused(ErrorCode.ER_UNKNOWN_CHARACTER_SET, f"Unknown character set: '{charset[:64]}'")
    check_spoken(charset)
    for name in ("character_set_client", "character_set_results", "character_set_connection", "collation_connection"):
        settings.values.pop(name, None)
    for name in ("character_set_client", "character_set_results") if charset else ():
        settings.values[name] = charset
    settings.values.pop("collation_results", None)
    if collation:
        settings.values["collation_results"] = collation_id(charset, collation)
    return Ok()


def _set(items: Sequence[tuple[str, Node | None]], settings: Settings, facts: Facts) -> Ok:
    for name, expression in items:
        own = name.startswith("@")
        if expression is None and not own:
            checked(name, None, facts)
            settings.values.pop(name, None)
            continue
        try:
            value = None if expression is None else value_of(expression, settings, facts)
        except Refused as refused:
            if own or refused.answer.code == ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE:
                raise
            value = None  # what a session variable of a connector is computed from is no concern of ours
        _keep(name, value if own else checked(name, value, facts), settings)
        if name == "autocommit" and value in (1, "1", "on", "ON"):
            settings.end()  # this commits
    return Ok()


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
            return _named(shown_variables("global" if show.everywhere else "session", settings, facts), show)
        case "status":
            return _named(_status(show.everywhere, settings, world), show)
        case "warnings count":
            return Rows([Column("@@session.warning_count", True)], [(0,)])
        case "errors count":
            return Rows([Column("@@session.error_count", True)], [(0,)])
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
            return Rows(known_shows()["replica status"].columns, [])
        case "processlist":
            return Rows(_PROCESS_COLUMNS, world.processes())
        case "grants":
            granted = f"GRANT {', '.join(_privileges(world))} ON *.* TO `{settings.user}`@`%`"
            return Rows([Column(f"Grants for {settings.user}@%")], [(granted,)])
        case _:
            return Rows([Column("Level"), Column("Code", True), Column("Message")], [])


def _named(values: Iterable[tuple[str, str]], show: Show) -> Rows:
    if show.where:
        from binlog_merge.binlog_server.questions import where

        return Rows(_NAMED_COLUMNS, where(show.where, _NAMED_COLUMNS, values, ("variable_name", "value")))
    match = None if show.names is None else show.names.matcher()
    return Rows(_NAMED_COLUMNS, [(name, value) for name, value in values if match is None or match(name)])


_GRANTED: Final = ("RELOAD", "PROCESS", "SHOW DATABASES", "LOCK TABLES", "REPLICATION SLAVE", "REPLICATION CLIENT")
_NAMED_COLUMNS: Final = (Column("Variable_name"), Column("Value"))
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


Counts = Mapping[str, int | str]


def shown_status(everywhere: bool, known: Counts) -> Iterator[tuple[str, str]]:
    """Yield names and values of SHOW STATUS, or of SHOW GLOBAL STATUS; `known` are those of this server and session."""
    for name, (of_server, value) in known_status().items():
        if of_server or not everywhere:
            yield name, str(known.get(name, value))
