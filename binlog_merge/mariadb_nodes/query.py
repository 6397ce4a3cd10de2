"""Statements of MariaDB as MySQL logs them: the session, and the text if it is DDL.

    Q_HRNOW (128)          Q_MICROSECONDS: NOW(6) of the statement
    Q_XID (129)            Q_DDL_LOGGED_WITH_XID
    130                    two-phase ALTER: dropped, the GTID event says it too
    131                    the session's default collations by character set: written into the text
    flags2, bit 24         Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP
    flags2, bit 28         sql_if_exists

Sources: MariaDB `sql/log_event.h` (Q_…_CODE), `sql/sql_priv.h`; observed in files of 10.11 and 11.8.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from binlog_merge.binlog.query import Query, StatusVar, pack_status_vars, parse_status_vars, status_spans
from binlog_merge.binlog.query_session import UTF8MB4_GENERAL_CI, session_of
from binlog_merge.binlog.wire import Reader
from binlog_merge.errors import UnsupportedInput
from binlog_merge.mariadb_nodes.collations import mariadb_name_of, mysql_id
from binlog_merge.mariadb_nodes.ddl import Meaning, MysqlDdl, mysql_ddl
from snapshot_store.mysql.sql.session import SQL_MODES
from snapshot_store.mysql.text.charsets import charset_of, collation_name

_ALTER: Final = 130
_COLLATIONS: Final = 131
_FLAGS2: Final = 1 << 14 | 1 << 19 | 1 << 26 | 1 << 27
"""Bits that mean the same in both: SQL_AUTO_IS_NULL, autocommit, FOREIGN_KEY_CHECKS and UNIQUE_CHECKS off."""
_EXPLICIT_DEFAULTS: Final = 1 << 24
_IF_EXISTS: Final = 1 << 28
_SQL_MODE: Final = sum(bit for name, bit in SQL_MODES.items() if name != "TIME_TRUNCATE_FRACTIONAL")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as MySQL logs it, before its text is translated, and what decides what that means."""

    query: Query
    meaning: Meaning

    def ddl(self) -> MysqlDdl:
        """Return its statements for MySQL."""
        return mysql_ddl(self.query.text, session_of(self.query), self.meaning)


def translated_statement(query: Query, version: int) -> Statement:
    """Return a statement of a server of a version (101118) in a session as MySQL writes it. Raises UnsupportedInput."""
    found, collations = _variables(query.status_raw)
    flags = found.get(StatusVar.Q_FLAGS2_CODE, 0)
    values: dict[StatusVar, Any] = {
        StatusVar.Q_FLAGS2_CODE: flags & _FLAGS2,
        StatusVar.Q_SQL_MODE_CODE: found.get(StatusVar.Q_SQL_MODE_CODE, 0) & _SQL_MODE,
        StatusVar.Q_CHARSET_CODE: tuple(map(_id, found.get(StatusVar.Q_CHARSET_CODE) or (UTF8MB4_GENERAL_CI,) * 3)),
        StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP: int(bool(flags & _EXPLICIT_DEFAULTS)),
        StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4: UTF8MB4_GENERAL_CI,
    }
    for code in (
        StatusVar.Q_AUTO_INCREMENT, StatusVar.Q_TIME_ZONE_CODE, StatusVar.Q_LC_TIME_NAMES_CODE, StatusVar.Q_INVOKER,
    ):  # fmt: skip
        if code in found:
            values[code] = found[code]
    if StatusVar.Q_CHARSET_DATABASE_CODE in found:
        values[StatusVar.Q_CHARSET_DATABASE_CODE] = _id(found[StatusVar.Q_CHARSET_DATABASE_CODE])
    if StatusVar.Q_HRNOW in found:
        values[StatusVar.Q_MICROSECONDS] = found[StatusVar.Q_HRNOW]
    if StatusVar.Q_XID in found:
        values[StatusVar.Q_DDL_LOGGED_WITH_XID] = found[StatusVar.Q_XID]
    body = replace(query, status_raw=pack_status_vars(values)).pack()
    return Statement(Query.parse(body), Meaning(version, collations, bool(flags & _IF_EXISTS)))


def _variables(raw: bytes) -> tuple[Mapping[int, Any], Mapping[str, str]]:
    """Return the status variables by code, and the default collations by character set."""
    found: dict[int, Any] = {}
    collations: dict[str, str] = {}
    rest = raw
    while rest:
        end = max((stop for _, _, stop in status_spans(rest)), default=0)
        found.update((int(code), value) for code, value in parse_status_vars(rest[:end])[0].items())
        r = Reader(rest[end:], "status variables")
        if not r.left():
            break
        code = r.u8("code")
        if code == _COLLATIONS:
            for _ in range(r.u8("count")):
                charset, collation = r.u16("character set"), r.u16("collation")
                known, name = charset_of(charset), mariadb_name_of(collation)
                if known is None or name is None:
                    raise UnsupportedInput(f"the session's collation {collation} is not known", remedy=_UNKNOWN)
                if collation_name(charset) != name:
                    collations[known] = name
        elif code == _ALTER:
            if r.u8("part of an ALTER") != _START:
                r.u64("its beginning")
        else:
            raise UnsupportedInput(f"a statement has the status variable {code}, which is not known", remedy=_UNKNOWN)
        rest = rest[end + r.pos :]
    return found, collations


_START: Final = 2
_UNKNOWN: Final = (
    "the server is newer than those that are known (10.11, 11.8): look for a newer release of binlog-merge"
)


def _id(number: int) -> int:
    found = mysql_id(number)
    if found is None:
        raise UnsupportedInput(f"the session's collation {number} is not known", remedy=_UNKNOWN)
    return found
