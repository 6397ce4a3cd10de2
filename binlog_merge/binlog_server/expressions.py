"""The values of expressions without tables: literals, variables, a few functions."""

import time
import uuid
from collections.abc import Sequence
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.session_variables import value_of_variable
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.statements import Call, Default, Expression, Literal, SystemVariable, UserVariable
from binlog_merge.binlog_server.variables import Facts
from binlog_merge.protocol.packets import ErrorCode, Value

WHAT: Final = (
    "this is binlog-merge serve, which hands out a merged binlog: it answers what replicas and binlog readers ask, and "
    "with --tables SELECTs from tables (SHOW BINARY LOGS, SHOW BINARY LOG STATUS, SHOW BINLOG EVENTS, "
    "SHOW VARIABLES, SELECT @@…, SET, SHOW CREATE TABLE, information_schema, COM_BINLOG_DUMP), not"
)


def value_of(expression: Expression, settings: Settings, facts: Facts) -> Value:
    match expression:
        case Literal(value):
            return value
        case UserVariable(name):
            return settings.values.get("@" + name)
        case SystemVariable(name, scope):
            return value_of_variable(name, scope, settings, facts)
        case Default():
            return None
        case Call(name, arguments):
            return _call(name, [value_of(argument, settings, facts) for argument in arguments], settings, facts)


def _call(name: str, values: Sequence[Value], settings: Settings, facts: Facts) -> Value:
    match name, values:
        case "version", []:
            return settings.version_prefix + facts.version
        case "unix_timestamp", []:
            return int(time.time())
        case "now" | "current_timestamp" | "sysdate", []:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        case "connection_id", []:
            return settings.connection_id
        case "user" | "current_user" | "session_user" | "system_user", []:
            return f"{settings.user}@%"
        case "database" | "schema", []:
            return settings.schema
        case "uuid", []:
            return str(uuid.uuid4())
        case "gtid_subset", [str(inner), str(outer)]:
            return int(_gtids(outer).contains_set(_gtids(inner)))
        case "gtid_subtract", [str(one), str(other)]:
            return str(_gtids(one).minus(_gtids(other)))
        case _:
            raise Refused(ErrorCode.ER_SP_DOES_NOT_EXIST, f"FUNCTION {name} does not exist: {WHAT} functions")


def _gtids(text: str) -> GtidSet:
    try:
        return GtidSet.parse_text(text)
    except BinlogFormatError:
        raise Refused(
            ErrorCode.ER_MALFORMED_GTID_SET_SPECIFICATION, f"Malformed GTID set specification '{text[:200]}'."
        ) from None
