"""The session of a statement, as far as it determines values for existing rows: clock, sql_mode, AUTO_INCREMENT.

`NOW()` is the statement's time in the session's time zone. In that zone are also literals of TIMESTAMP columns, and the
values of such a column when they are converted to another type. Sources: mysql-server
`libbinlogevents/include/statement_events.h` (Q_TIME_ZONE_CODE, Q_MICROSECONDS, Q_AUTO_INCREMENT); refman, "MySQL Server
Time Zone Support".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Final

from binlog_merge.binlog.query import StatusVar
from binlog_merge.binlog.temporal import STOP, Civil, ZeroDates
from binlog_merge.errors import ReplayStopped
from binlog_merge.log.statement import Statement
from snapshot_store.ddl import DdlSession
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE
from snapshot_store.mysql.values.times import local_of, utc_of, zone_of

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
        found = statement.query.status_vars
        name = bytes(found.get(StatusVar.Q_TIME_ZONE_CODE, b"")).decode("latin-1") or "+00:00"
        if name == _SYSTEM:
            name = system_zone or _SYSTEM
        now = statement.timestamp * 1_000_000 + int(found.get(StatusVar.Q_MICROSECONDS, 0))
        step, first = found.get(StatusVar.Q_AUTO_INCREMENT) or (1, 1)
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
