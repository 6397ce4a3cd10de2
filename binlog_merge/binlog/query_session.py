"""The session of a QUERY event's statement as DDL needs it: what decides how the text is parsed, and what it means."""

from binlog_merge.binlog.query import Query
from binlog_merge.binlog.session_variables import SessionVariables
from snapshot_store.ddl import DdlSession
from snapshot_store.mysql.text.charsets import charset_of, collation_name

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
