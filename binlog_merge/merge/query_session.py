"""What a QUERY event says of the session its statement ran in, as DDL needs it: how to read the text, what it means."""

from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.merge.charsets import charset_of, collation_name
from snapshot_store.ddl import DdlSession
from snapshot_store.ddl.characters import codec_of

_NO_FOREIGN_KEY_CHECKS = 1 << 26
"""OPTION_NO_FOREIGN_KEY_CHECKS among the bits of Q_FLAGS2_CODE (mysql-server `sql/query_options.h`)."""


def session_of(query: Query, server_version: int = 90700) -> DdlSession:
    """Return the session of a statement; what its event leaves unsaid is its server version's default."""
    found = query.status_vars
    _, connection, server = found.get(StatusVar.Q_CHARSET_CODE) or (255, 255, 255)
    modern = server_version >= 80000
    utf8mb4 = collation_name(found.get(StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4, 0))
    return DdlSession(
        sql_mode=found.get(StatusVar.Q_SQL_MODE_CODE, 0),
        charset_server=charset_of(server) or "utf8mb4",
        collation_server=collation_name(server) or "utf8mb4_0900_ai_ci",
        default_collation_for_utf8mb4=utf8mb4 or ("utf8mb4_0900_ai_ci" if modern else "utf8mb4_general_ci"),
        explicit_defaults_for_timestamp=bool(found.get(StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP, modern)),
        server_version=server_version,
        charset_connection=charset_of(connection) or "utf8mb4",
        foreign_key_checks=not found.get(StatusVar.Q_FLAGS2_CODE, 0) & _NO_FOREIGN_KEY_CHECKS,
    )


def text_of(query: Query) -> str:
    """Return the statement as text: its bytes are in the client's character set. What is none stays as surrogates."""
    client, _, _ = query.status_vars.get(StatusVar.Q_CHARSET_CODE) or (255, 255, 255)
    return query.query.decode(codec_of(charset_of(client)) or "utf-8", "surrogateescape")
