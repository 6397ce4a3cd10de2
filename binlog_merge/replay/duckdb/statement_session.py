"""The session of a statement, as far as it decides what becomes of rows that are there: clock, mode, counter.

`NOW()` is the statement's own time on the clock of the session's time zone. On that clock, too, are literals of
TIMESTAMP columns, and what such a column's values become in another type. Sources: mysql-server
`libbinlogevents/include/statement_events.h` (Q_TIME_ZONE_CODE, Q_MICROSECONDS, Q_AUTO_INCREMENT); refman, "MySQL Server
Time Zone Support".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Final

from binlog_merge.binlog.query import StatusVar
from binlog_merge.binlog.query_session import session_of
from binlog_merge.binlog.temporal import Civil
from binlog_merge.errors import ReplayStopped
from binlog_merge.log.reader import Statement
from snapshot_store.ddl import DdlSession
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE
from snapshot_store.mysql.values.time_zones import local_of, utc_of, zone_of

_SYSTEM: Final = "SYSTEM"
_ZONES: Final = "install the zones of the operating system, or Python's package tzdata"
_STRICT: Final = DdlSession(sql_mode=DEFAULT_SQL_MODE)


@dataclass(frozen=True, slots=True)
class StatementSession:
    """What a session says; `zone` is its time zone's name. SYSTEM is its server's own, which a log does not tell.

    `now_us` is when the statement began, in microseconds since 1970. `step` and `first` are auto_increment_increment
    and auto_increment_offset.
    """

    now_us: int
    zone: str = "+00:00"
    ddl: DdlSession = _STRICT
    step: int = 1
    first: int = 1

    @classmethod
    def of(cls, statement: Statement, system_zone: str | None = None) -> "StatementSession":
        """Return a statement's session; `system_zone` is what SYSTEM is."""
        found = statement.query.status_vars
        name = bytes(found.get(StatusVar.Q_TIME_ZONE_CODE, b"")).decode("latin-1") or "+00:00"
        if name == _SYSTEM:
            name = system_zone or _SYSTEM
        ddl = session_of(statement.query)
        now = statement.timestamp * 1_000_000 + int(found.get(StatusVar.Q_MICROSECONDS, 0))
        step, first = found.get(StatusVar.Q_AUTO_INCREMENT) or (1, 1)
        session = cls(now, name, ddl, step, first)
        try:
            session.known_zone()
        except ReplayStopped:
            return session  # most statements do not ask
        return replace(session, ddl=replace(ddl, time_zone=name))

    @property
    def offset(self) -> int:
        """Return how many minutes the session's clock is ahead of UTC as the statement begins."""
        now = datetime(1970, 1, 1) + timedelta(microseconds=self.now_us)
        return int((local_of(now, self.known_zone()) - now) / timedelta(minutes=1))

    def local(self, moment: Civil) -> Civil:
        """Return what the session's clock shows at a moment in UTC; one that is no real date stays as it is."""
        return _moved(moment, lambda at: local_of(at, self.known_zone()))

    def utc(self, moment: Civil) -> Civil:
        """Return the moment in UTC that the session's clock shows; one that is no real date stays as it is."""
        return _moved(moment, lambda at: utc_of(at, self.known_zone()))

    def known_zone(self) -> tzinfo:
        """Return the zone. Raises ReplayStopped where it is not known."""
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
