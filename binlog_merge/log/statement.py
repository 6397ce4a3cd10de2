"""A statement of a log, read once: its text, its session, what it is, what it does, and the tables that it names.

Whoever reads a log gets this value, and parses nothing: what a statement is depends on its session. `"orders"` is a
table under ANSI_QUOTES, and a string without it.

A `StatementSession` is the session as far as it determines values for existing rows: clock, sql_mode, AUTO_INCREMENT.
`NOW()` is the statement's time in the session's time zone. In that zone are also literals of TIMESTAMP columns, and the
values of such a column when they are converted to another type. Sources: mysql-server
`libbinlogevents/include/statement_events.h` (Q_TIME_ZONE_CODE, Q_MICROSECONDS, Q_AUTO_INCREMENT); refman, "MySQL Server
Time Zone Support".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog.constants import EventFlag
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.binlog.temporal import STOP, Civil, ZeroDates
from binlog_merge.errors import ReplayStopped
from snapshot_store.ddl import DdlSession
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE
from snapshot_store.mysql.values.times import local_of, utc_of, zone_of
from snapshot_store.surrogates import shown
from snapshot_store.tso import OrderKey

# What parses is imported where it is used: most questions to a log are about rows.
if TYPE_CHECKING:
    from binlog_merge.filters.ddl import DdlEvent
    from snapshot_store.ddl import DdlSession, ParsedDdl
    from snapshot_store.ddl.effects import Effects, Name


@dataclass(frozen=True)
class Statement:
    """A statement; with `suppress_use` it must not run with its schema as the default database.

    `timestamp` is in seconds since 1970, `key` the order key that the log has beside the statement, `position` the
    offset of its event.
    """

    query: Query
    suppress_use: bool = False
    timestamp: int = 0
    key: OrderKey | None = None
    server_id: int = 0
    position: int = 0

    @classmethod
    def of(cls, event: RawEvent, query: Query, key: OrderKey | None = None) -> "Statement":
        """Return the statement of a QUERY event."""
        head = event.header
        suppress_use = bool(head.flags & EventFlag.LOG_EVENT_SUPPRESS_USE_F)
        return cls(query, suppress_use, head.timestamp, key, head.server_id, event.offset)

    @cached_property
    def text(self) -> str:
        """Return the text; bytes that are none in the client's character set are surrogates."""
        return self.query.text

    @property
    def line(self) -> str:
        """Return the text on one line, for people."""
        return " ".join(shown(self.text).split())

    @property
    def schema(self) -> str:
        """Return the default database, "" if there is none."""
        return self.query.schema_text

    @cached_property
    def session(self) -> "DdlSession":
        """Return the session, of which the log does not have all: its server's SYSTEM time zone is not known."""
        from binlog_merge.binlog.query_session import session_of

        return session_of(self.query)

    @cached_property
    def ddl(self) -> "ParsedDdl":
        """Return the parsed statement, or why it is not understood."""
        from snapshot_store.ddl import ParsedDdl

        return ParsedDdl.of(self.text, self.session)

    def ddl_in(self, session: "DdlSession", text: str | None = None) -> "ParsedDdl":
        """Return the statement, or a part of it, as parsed in a session that knows more of this one."""
        from snapshot_store.ddl import ParsedDdl

        if text in (None, self.text) and session == self.session:
            return self.ddl
        return ParsedDdl.of(self.text if text is None else text, session)

    @cached_property
    def body(self) -> str:
        """Return the text without the comments before it, in which a cluster keeps its own; "" if it is all comment.

        Raises DdlNotUnderstood.
        """
        from snapshot_store.mysql.sql.cursor import Cursor

        return self.text[Cursor.of(self.text, self.session).peek().start :].strip()

    @property
    def is_comment(self) -> bool:
        """Return whether it is comments alone, as a cluster's own statements come out. Raises DdlNotUnderstood."""
        return self.ddl.is_comment

    @cached_property
    def effects(self) -> "Effects":
        """Return what it does to tables. Raises DdlNotUnderstood."""
        from snapshot_store.ddl.effects import effects_of

        return effects_of(self.ddl.statement, self.schema)

    @cached_property
    def parts(self) -> "tuple[DdlEvent, ...]":
        """Return what it does to one table or database after another. Raises DdlNotUnderstood."""
        from binlog_merge.filters.ddl import events_of

        return events_of(self.ddl, self.schema)

    @cached_property
    def tables(self) -> "tuple[Name, ...] | None":
        """Return the tables and views that it is about, each once, as it names them; None: it is not understood."""
        try:
            return tuple(name for name in self.effects.own if name[1])
        except DdlNotUnderstood:
            return None


_SYSTEM: Final = "SYSTEM"
_ZONES: Final = "install the zones of the operating system, or Python's package tzdata"
_STRICT: Final = DdlSession(sql_mode=DEFAULT_SQL_MODE)


@dataclass(frozen=True, slots=True)
class StatementSession:
    """A statement's session; `zone` is its time zone's name. SYSTEM is that of its server, which a log does not have.

    `now_us` is the time at which the statement began, in microseconds since 1970. `step` and `first` are
    auto_increment_increment and auto_increment_offset. `zero_dates` are the file's rules, not the session's.
    """

    now_us: int
    zone: str = "+00:00"
    ddl: DdlSession = _STRICT
    step: int = 1
    first: int = 1
    zero_dates: ZeroDates = STOP

    @classmethod
    def of(cls, statement: Statement, system_zone: str | None = None) -> "StatementSession":
        """Return a statement's session; `system_zone` is the time zone meant by SYSTEM."""
        variables = statement.query.status_vars
        name = bytes(variables.get(StatusVar.Q_TIME_ZONE_CODE, b"")).decode("latin-1") or "+00:00"
        if name == _SYSTEM:
            name = system_zone or _SYSTEM
        now = statement.timestamp * 1_000_000 + int(variables.get(StatusVar.Q_MICROSECONDS, 0))
        step, first = variables.get(StatusVar.Q_AUTO_INCREMENT) or (1, 1)
        session = cls(now, name, statement.session, step, first)
        try:
            session.known_zone()
        except ReplayStopped:
            return session  # most statements do not ask
        return replace(session, ddl=replace(statement.session, time_zone=name))

    @property
    def offset(self) -> int:
        """Return the session's offset from UTC in minutes when the statement begins."""
        now = datetime(1970, 1, 1) + timedelta(microseconds=self.now_us)
        return int((local_of(now, self.known_zone()) - now) / timedelta(minutes=1))

    def local(self, moment: Civil) -> Civil:
        """Convert a moment from UTC to the session's time zone; an invalid date is unchanged."""
        return _moved(moment, lambda at: local_of(at, self.known_zone()))

    def utc(self, moment: Civil) -> Civil:
        """Convert a moment from the session's time zone to UTC; an invalid date is unchanged."""
        return _moved(moment, lambda at: utc_of(at, self.known_zone()))

    def known_zone(self) -> tzinfo:
        """Return the session's time zone. Raises ReplayStopped if it is not known."""
        if self.zone == _SYSTEM:
            raise ReplayStopped(
                "the time zone of the statement's session is SYSTEM, and rows that are there depend on it",
                remedy="say with --time-zone what the server's own time zone is: +08:00, Asia/Shanghai",
            )
        try:
            return zone_of(self.zone)
        except ValueError as error:
            raise ReplayStopped(
                f"rows that are there depend on the session's time zone: {error}", remedy=_ZONES
            ) from None


def _moved(moment: Civil, move: Callable[[datetime], datetime]) -> Civil:
    try:
        at = datetime(*moment)
    except ValueError:
        return moment
    try:
        there = move(at)
    except OverflowError:
        return moment
    return Civil(there.year, there.month, there.day, there.hour, there.minute, there.second, there.microsecond)
