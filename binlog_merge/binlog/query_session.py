"""The session of a QUERY event's statement as DDL needs it: what decides how the text is parsed, and what it means.

`SessionVariables` are parsed from a node's event and packed into an output's.
Of all that a MySQL server writes into the event (mysql-server `sql/log_event.cc`, `Query_log_event::write`), these are
not in the output: the catalog, which no server reads; `table_map_for_update` and `master_data_written`, which no DDL
has; commit numbers of other servers. The names of updated databases are those of the output's statement. The client's
character set is that of the output's text, utf8mb4.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from binlog_merge.binlog.query import Query, StatusVar, pack_status_vars, status_spans
from snapshot_store.ddl import DdlSession
from snapshot_store.mysql.text.charsets import charset_of, collation_name

UTF8MB4_GENERAL_CI: Final = 45
"""A collation of utf8mb4 that MariaDB has, too."""


@dataclass(frozen=True, slots=True)
class SessionVariables:
    """The session variables of a statement; None, or the server's default, for what the event does not have.

    `timestamp` and `microseconds` are the time at which the statement began, `thread_id` is CONNECTION_ID(), `atomic`:
    the server committed it atomically (it has an XID), `server_version` is that of the server that ran it.
    """

    flags2: int = 0
    sql_mode: int = 0
    server_collation: int = 255
    utf8mb4_collation: int | None = None
    time_zone: str = ""
    connection_collation: int = UTF8MB4_GENERAL_CI
    auto_increment_increment: int = 1
    auto_increment_offset: int = 1
    lc_time_names: int = 0
    database_collation: int = 0
    invoker_user: str | None = None
    invoker_host: str = ""
    timestamp: int | None = None
    microseconds: int | None = None
    explicit_defaults_for_timestamp: int | None = None
    atomic: bool = False
    sql_require_primary_key: int | None = None
    default_table_encryption: int | None = None
    enable_cascade_triggers: int | None = None
    thread_id: int = 0
    exec_time: int = 0
    server_version: int | None = None

    @classmethod
    def of(cls, query: Query, timestamp: int | None = None, server_version: int | None = None) -> Self:
        """Return the variables of a query event; `timestamp` is that of its header."""
        found = query.status_vars
        _, connection, server = found.get(StatusVar.Q_CHARSET_CODE) or (0, UTF8MB4_GENERAL_CI, 255)
        increment, offset = found.get(StatusVar.Q_AUTO_INCREMENT) or (1, 1)
        user, host = found.get(StatusVar.Q_INVOKER) or (None, b"")
        return cls(
            flags2=found.get(StatusVar.Q_FLAGS2_CODE, 0),
            sql_mode=found.get(StatusVar.Q_SQL_MODE_CODE, 0),
            server_collation=server,
            utf8mb4_collation=found.get(StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4),
            time_zone=bytes(found.get(StatusVar.Q_TIME_ZONE_CODE, b"")).decode("latin-1"),
            connection_collation=connection,
            auto_increment_increment=increment,
            auto_increment_offset=offset,
            lc_time_names=found.get(StatusVar.Q_LC_TIME_NAMES_CODE, 0),
            database_collation=found.get(StatusVar.Q_CHARSET_DATABASE_CODE, 0),
            invoker_user=None if user is None else bytes(user).decode("utf-8", "surrogateescape"),
            invoker_host=bytes(host).decode("utf-8", "surrogateescape"),
            timestamp=timestamp,
            microseconds=found.get(StatusVar.Q_MICROSECONDS),
            explicit_defaults_for_timestamp=found.get(StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP),
            atomic=StatusVar.Q_DDL_LOGGED_WITH_XID in found,
            sql_require_primary_key=found.get(StatusVar.Q_SQL_REQUIRE_PRIMARY_KEY),
            default_table_encryption=found.get(StatusVar.Q_DEFAULT_TABLE_ENCRYPTION),
            enable_cascade_triggers=found.get(StatusVar.Q_ENABLE_CASCADE_TRIGGERS),
            thread_id=query.thread_id,
            exec_time=query.exec_time,
            server_version=server_version,
        )

    def status_vars(self, xid: int, databases: Collection[str] = ()) -> bytes:
        """Return the variables as status variables of a QUERY event.

        `xid` is the number of its transaction. `databases` are those that the statement changes, for replicas that
        apply different ones at the same time; without them they apply the statement alone.
        """
        values: dict[StatusVar, Any] = {
            StatusVar.Q_FLAGS2_CODE: self.flags2,
            StatusVar.Q_SQL_MODE_CODE: self.sql_mode,
            StatusVar.Q_CHARSET_CODE: (UTF8MB4_GENERAL_CI, self.connection_collation, self.server_collation),
        }
        names = tuple(map(_bytes, databases)) or None
        optional = {**self._optional(xid), StatusVar.Q_UPDATED_DB_NAMES: names}
        return pack_status_vars(values | {code: value for code, value in optional.items() if value is not None})

    def _optional(self, xid: int) -> Mapping[StatusVar, Any]:
        """Return the variables that servers write only if they matter; None for those that need not be written."""
        counting = (self.auto_increment_increment, self.auto_increment_offset)
        user = self.invoker_user
        return {
            StatusVar.Q_AUTO_INCREMENT: counting if counting != (1, 1) else None,
            StatusVar.Q_TIME_ZONE_CODE: self.time_zone.encode("latin-1") or None,
            StatusVar.Q_LC_TIME_NAMES_CODE: self.lc_time_names or None,
            StatusVar.Q_CHARSET_DATABASE_CODE: self.database_collation or None,
            StatusVar.Q_INVOKER: None if user is None else (_bytes(user), _bytes(self.invoker_host)),
            StatusVar.Q_MICROSECONDS: self.microseconds,
            StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP: self.explicit_defaults_for_timestamp,
            StatusVar.Q_DDL_LOGGED_WITH_XID: xid if self.atomic else None,
            StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4: self.utf8mb4_collation,
            StatusVar.Q_SQL_REQUIRE_PRIMARY_KEY: self.sql_require_primary_key,
            StatusVar.Q_DEFAULT_TABLE_ENCRYPTION: self.default_table_encryption,
            StatusVar.Q_ENABLE_CASCADE_TRIGGERS: self.enable_cascade_triggers,
        }


def with_databases(query: Query, databases: Collection[str]) -> Query:
    """Return an event that lists other databases as changed by its statement, if it lists any."""
    parts = []
    for code, start, end in status_spans(query.status_raw):
        listed = code == StatusVar.Q_UPDATED_DB_NAMES
        named = {StatusVar.Q_UPDATED_DB_NAMES: tuple(map(_bytes, databases))}
        parts.append(pack_status_vars(named) if listed else query.status_raw[start:end])
    status = b"".join(parts) + query.status_unknown
    return query if status == query.status_raw else replace(query, status_raw=status)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_NO_FOREIGN_KEY_CHECKS = 1 << 26
"""OPTION_NO_FOREIGN_KEY_CHECKS among the bits of Q_FLAGS2_CODE (mysql-server `sql/query_options.h`)."""


def ddl_session(session: SessionVariables, server_version: int = 90700) -> DdlSession:
    """Return the DDL session of a QUERY event's variables; what is missing has the server version's default."""
    modern = server_version >= 80000
    explicit = session.explicit_defaults_for_timestamp
    utf8mb4 = collation_name(session.utf8mb4_collation or 0)
    return DdlSession(
        sql_mode=session.sql_mode,
        charset_server=charset_of(session.server_collation) or "utf8mb4",
        collation_server=collation_name(session.server_collation) or "utf8mb4_0900_ai_ci",
        default_collation_for_utf8mb4=utf8mb4 or ("utf8mb4_0900_ai_ci" if modern else "utf8mb4_general_ci"),
        explicit_defaults_for_timestamp=modern if explicit is None else bool(explicit),
        server_version=server_version,
        charset_connection=charset_of(session.connection_collation) or "utf8mb4",
        local_zone=session.time_zone,
        collation_database=collation_name(session.database_collation) or "",
        foreign_key_checks=not session.flags2 & _NO_FOREIGN_KEY_CHECKS,
    )


def session_of(query: Query, server_version: int = 90700) -> DdlSession:
    """Return the DDL session of a node's statement."""
    return ddl_session(SessionVariables.of(query), server_version)
