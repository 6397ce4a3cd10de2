"""System variables as a session sees them: what it has set, what follows from its login, else what is global.

@@x            what the session has; what is global, where no session has its own
@@global.x     never the session's; 1238 for what only sessions have
@@session.x    1238 for what only servers have
"""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server.recorded import Variable
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.tables.session import check_spoken
from binlog_merge.binlog_server.variables import Facts, own_values, variables_at
from binlog_merge.protocol.packets import ErrorCode, Value
from snapshot_store.mysql.sql.session import SQL_MODES, sql_mode_of
from snapshot_store.mysql.text.charsets import canonical_charset, charset_of, collation_id, collation_name

_ON: Final = {"on": 1, "true": 1, "1": 1, "off": 0, "false": 0, "0": 0}
_UPPER: Final = ("transaction_isolation", "tx_isolation")
_CHARSETS: Final = ("character_set_client", "character_set_connection", "character_set_results")
_COLLATIONS: Final = ("collation_connection", "collation_database", "collation_server")
_MODES: Final = {*SQL_MODES, "NO_AUTO_CREATE_USER"}
_INTEGER: Final = re.compile(r"-?\d+")


def value_of_variable(name: str, scope: str, settings: Settings, facts: Facts) -> Value:
    """Return a variable as SELECT shows it; `scope` is "global", "session" or "". Raises Refused."""
    variable = _found(name, facts)
    if scope not in ("", variable.scope) and variable.scope != "both":
        what = variable.scope.upper()
        raise Refused(ErrorCode.ER_INCORRECT_GLOBAL_LOCAL_VAR, f"Variable '{name}' is a {what} variable")
    return _value(variable, _Seen(settings, facts).value(variable, scope))


def is_double(name: str, facts: Facts) -> bool:
    """Return whether a variable is a number with a fraction in a result."""
    return _found(name, facts).kind == ColumnType.DOUBLE


def shown_variables(scope: str, settings: Settings, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield names and texts as SHOW GLOBAL or SESSION VARIABLES shows them, in the order of their names."""
    seen = _Seen(settings, facts)
    for variable in variables_at(facts.number).values():
        if scope != "global" or variable.scope != "session":
            yield variable.name, _shown(variable, seen.value(variable, scope))


def checked(name: str, value: Value, facts: Facts) -> Value:
    """Return what SET SESSION keeps of a variable. Raises Refused for a variable or value that MySQL refuses."""
    variable = _found(name, facts)
    match variable.refused:
        case 0:
            return value if value is None else _taken(variable, value)
        case 1229:
            text = f"Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL"
            raise Refused(ErrorCode.ER_GLOBAL_VARIABLE, text)
        case 1621:
            text = f"SESSION variable '{name}' is read-only. Use SET GLOBAL to assign the value"
            raise Refused(ErrorCode.ER_VARIABLE_IS_READONLY, text)
        case _:
            raise Refused(ErrorCode.ER_INCORRECT_GLOBAL_LOCAL_VAR, f"Variable '{name}' is a read only variable")


def _found(name: str, facts: Facts) -> Variable:
    variable = variables_at(facts.number).get(name)
    if variable is None:
        raise Refused(ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE, f"Unknown system variable '{name[:64]}'")
    return variable


_NOT_OURS: Final = object()


class _Seen:
    """Values as SELECT or SHOW shows them, of one moment."""

    def __init__(self, settings: Settings, facts: Facts) -> None:
        self._own = own_values(facts)
        self._session = _of_session(settings)

    def value(self, variable: Variable, scope: str) -> Value | object:
        """Return a variable's value, _NOT_OURS for what was recorded."""
        if scope != "global" and variable.scope != "global" and variable.name in self._session:
            return self._session[variable.name]
        return self._own.get(variable.name, _NOT_OURS)


def _of_session(settings: Settings) -> Mapping[str, Value]:
    """Return what differs in a session from what is global."""
    given, number = settings.values, settings.reads.collation
    charset, collation = charset_of(number), collation_name(number)
    values: dict[str, Value] = {"pseudo_thread_id": settings.connection_id, "timestamp": f"{time.time():.6f}"}
    if charset is not None and collation is not None:
        values |= dict.fromkeys(_CHARSETS, charset)
        values["collation_connection"] = collation
    if settings.database is not None:
        values["character_set_database"], values["collation_database"] = settings.database
    values |= {name: value for name, value in given.items() if value is not None or name == "character_set_results"}
    named = given.get("character_set_connection") or given.get("character_set_client")
    if named is not None and "collation_connection" not in given:
        chosen = int(given.get("collation_results") or 0)
        number = chosen if charset_of(chosen) == named else collation_id(str(named), None) or 0
        values["character_set_connection"], values["collation_connection"] = named, collation_name(number)
    return values


def _value(variable: Variable, value: Value | object) -> Value:
    if value is _NOT_OURS:
        return variable.value
    if variable.switch and isinstance(value, str):
        return _ON.get(value.lower(), 0)
    return value if value is None or isinstance(value, int | str) else str(value)


def _shown(variable: Variable, value: Value | object) -> str:
    if value is _NOT_OURS:
        return variable.shown
    if variable.switch:
        return "ON" if _value(variable, value) else "OFF"
    return "" if value is None else str(value)


def _taken(variable: Variable, value: Value) -> Value:
    name = variable.name
    if variable.switch:
        return _switched(name, value)
    if variable.number:
        if isinstance(value, str) and not (name == "timestamp" and _INTEGER.match(value)):
            raise Refused(ErrorCode.ER_WRONG_TYPE_FOR_VAR, f"Incorrect argument type to variable '{name}'")
        return value
    if name == "sql_mode":
        return _modes(value)
    if name in _CHARSETS or name in _COLLATIONS:
        return _named_charset(name, value)
    return str(value).upper() if name in _UPPER else value


def _switched(name: str, value: Value) -> int:
    switch = _ON.get(str(value).lower())
    if switch is None:
        raise _wrong(name, value)
    return switch


def _modes(value: Value) -> str:
    """Return sql_mode as a server writes it: all names, in the order of their bits."""
    names = [name.strip() for name in str(value).upper().split(",") if name.strip()]
    wrong = next((name for name in names if name not in _MODES and not name.isdecimal()), None)
    if wrong is not None:
        raise _wrong("sql_mode", wrong)
    bits = sql_mode_of(value)
    return ",".join(name for name, bit in sorted(SQL_MODES.items(), key=lambda item: item[1]) if bits & bit)


def _named_charset(name: str, value: Value) -> str:
    """Return the character set or collation that is meant, by its name or a collation's number."""
    collation = name in _COLLATIONS
    if isinstance(value, int):
        value = (collation_name if collation else charset_of)(value) or value
    if collation:
        if collation_id(None, str(value)) is None:
            raise Refused(ErrorCode.ER_UNKNOWN_COLLATION, f"Unknown collation: '{str(value)[:64]}'")
        return str(value).lower()
    charset = canonical_charset(str(value))
    if charset is None:
        raise Refused(ErrorCode.ER_UNKNOWN_CHARACTER_SET, f"Unknown character set: '{str(value)[:64]}'")
    if name == "character_set_client":
        check_spoken(charset)
    return charset


def _wrong(name: str, value: Value) -> Refused:
    text = f"Variable '{name}' can't be set to the value of '{str(value)[:64]}'"
    return Refused(ErrorCode.ER_WRONG_VALUE_FOR_VAR, text)
