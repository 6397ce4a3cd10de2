"""The SET statements that give a session the variables with which a statement ran, as mysqlbinlog prints them."""

from collections.abc import Mapping
from typing import Any, Final

from binlog_merge.binlog.query import StatusVar
from binlog_merge.binlog.query_session import UTF8MB4_GENERAL_CI, SessionVariables
from binlog_merge.log.statement import Statement

_RESTRICTED: Final = ("sql_require_primary_key", "default_table_encryption")
"""Variables that need a privilege beyond those of a replay: they are set only if the server's values differ."""
_THREAD: Final = "pseudo_thread_id"
"""It needs that privilege, too, so it is set only for statements that depend on it."""
KEPT: Final = "variable_name IN ({})".format(", ".join(f"'{name}'" for name in (*_RESTRICTED, _THREAD)))
"""The variables of the target's session that are restored after a statement, as an SQL condition."""
_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
_RELAXED_UNIQUE_CHECKS: Final = 1 << 27


def settings_of(statement: Statement, own: Mapping[str, str]) -> str:
    """Return the SET statement for a statement's session; `own` are the target's `KEPT` variables, if it has them."""
    session = SessionVariables.of(statement.query, statement.timestamp)
    client, _, _ = statement.query.status_vars.get(StatusVar.Q_CHARSET_CODE) or (UTF8MB4_GENERAL_CI, 0, 0)
    values: dict[str, Any] = {
        "timestamp": f"{statement.timestamp}.{session.microseconds or 0:06}",
        "sql_mode": session.sql_mode,
        "foreign_key_checks": 0 if session.flags2 & _NO_FOREIGN_KEY_CHECKS else 1,
        "unique_checks": 0 if session.flags2 & _RELAXED_UNIQUE_CHECKS else 1,
        "auto_increment_increment": session.auto_increment_increment,
        "auto_increment_offset": session.auto_increment_offset,
        "lc_time_names": session.lc_time_names,
        "character_set_client": client,
        "collation_connection": session.connection_collation,
        "collation_server": session.server_collation,
        "collation_database": session.database_collation or "DEFAULT",
        # Servers before 8.0 do not log it, and mean this one (mysql-server `Query_log_event::do_apply_event`).
        "default_collation_for_utf8mb4": session.utf8mb4_collation or UTF8MB4_GENERAL_CI,
    }
    if session.time_zone:
        values["time_zone"] = f"X'{session.time_zone.encode('latin-1').hex()}'"
    if session.explicit_defaults_for_timestamp is not None:
        values["explicit_defaults_for_timestamp"] = session.explicit_defaults_for_timestamp
    if "CONNECTION_ID" in statement.text.upper():
        values[_THREAD] = session.thread_id
    for name in _RESTRICTED:
        wanted = getattr(session, name)
        if wanted is not None and name in own and wanted != (own[name] == "ON"):
            values[name] = wanted
    return _set(values)


def afterwards(settings: str, own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the statements that restore the session for rows."""
    kept = {name: value for name, value in own.items() if f" {name} = " in settings}
    rows = "sql_mode = '', foreign_key_checks = 1, unique_checks = 1, timestamp = DEFAULT, time_zone = '+00:00'"
    return ("SET NAMES utf8mb4", f"SET SESSION {rows}", *([_set(kept)] if kept else []))


def _set(values: Mapping[str, Any]) -> str:
    return "SET SESSION " + ", ".join(f"{name} = {value}" for name, value in values.items())
