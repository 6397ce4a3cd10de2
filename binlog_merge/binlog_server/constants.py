"""SELECTs without FROM that are computed: `SELECT 1 + 1`, `SELECT TIME_TO_SEC(TIMEDIFF(NOW(), UTC_TIMESTAMP()))`.

Read by MySQL's grammar and compiled piece by piece like conditions over tables, so exact or refused. What is known of
the session and its clock stands in the statement as a constant, before it is compiled.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.definitions import Row
from binlog_merge.binlog_server.in_memory import Database, in_turn
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.session_variables import is_double, value_of_variable
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.show_sql import column_name, cursor_of
from binlog_merge.binlog_server.sql import SCOPES
from binlog_merge.binlog_server.statements import Call, Default, Expression, Literal, SystemVariable, UserVariable
from binlog_merge.binlog_server.tables.values import real_text
from binlog_merge.binlog_server.variables import Facts
from binlog_merge.protocol.packets import Column, ErrorCode, Value
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.compile import UnknownColumn, compile_value
from binlog_merge.values.duckdb.piece import COLUMN, LITERAL, NULL, ExpressionError, Sql, quoted, string
from snapshot_store.errors import DdlNotUnderstood, DdlRejected
from snapshot_store.mysql.expr.nodes import Node, column, literal
from snapshot_store.mysql.expr.reader import VARIABLE, ExpressionReader
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.surrogates import is_text

_MOST_PARTS: Final = 2000
_AFTER: Final = ("FROM", "LIMIT")
_FORM: Final = "%Y-%m-%d %H:%M:%S"
_CLOCK: Final[Mapping[str, tuple[str, bool, str]]] = {
    "now": ("TIMESTAMP", True, _FORM),
    "sysdate": ("TIMESTAMP", True, _FORM),
    "utc_timestamp": ("TIMESTAMP", False, _FORM),
    "curdate": ("DATE", True, "%Y-%m-%d"),
    "utc_date": ("DATE", False, "%Y-%m-%d"),
    "curtime": ("TIME", True, "%H:%M:%S"),
    "utc_time": ("TIME", False, "%H:%M:%S"),
}
"""Functions of the time: their type, whether they follow the session's time zone, and how they are written."""
_KINDS: Final[Mapping[str, ColumnType]] = {
    "decimal": ColumnType.NEWDECIMAL,
    "double": ColumnType.DOUBLE,
    "binary": ColumnType.VAR_STRING,
    "date": ColumnType.DATE,
    "datetime": ColumnType.DATETIME,
    "time": ColumnType.TIME,
}
"""The types of columns that are neither BIGINT nor a text; they have no character set."""
_SYSTEM: Final = (COLUMN + LITERAL) // 2
"""How strong the collation of a system variable is: between those of a column and a literal."""
_OF_SESSION: Final = ("version", "database", "connection_id", "user", "current_user", "unix_timestamp")


def computed(sql: str, settings: Settings, facts: Facts) -> tuple[list[Column], list[Row]]:
    """Return the columns and the row of a SELECT without FROM. Raises Refused for what is not known for certain."""
    try:
        cursor = cursor_of(sql, settings.reads.grammar(), _MOST_PARTS)
        items = _items(cursor)
        known = _Known(settings, facts)
        connection = settings.reads.connection()
        nodes = [known.in_place(node) for _, node in items]
        pieces = [compile_value(node, known.variables, connection) for node in nodes]
        texts = [_shown(piece) for piece in pieces]
    except UnknownColumn as error:
        text = f"Unknown column '{error.column[:64]}' in 'field list'"
        raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, text) from None
    except (DdlNotUnderstood, DdlRejected) as error:
        raise _refused(getattr(error, "reason", None) or str(error)) from None
    except (ExpressionError, UnknownCollation) as error:
        raise _refused(str(error)) from None
    except RecursionError:
        raise _refused("an expression nested too deep") from None
    with in_turn(), _database().of({}) as run:
        _, rows = run(f"SELECT {', '.join(texts)}")
    values = tuple(_value(piece, value) for piece, value in zip(pieces, rows[0], strict=True))
    names = [_column(label, *found) for (label, _), found in zip(items, zip(pieces, values, strict=True), strict=True)]
    return names, [values]


def _column(label: str, piece: Sql, value: Value) -> Column:
    kind = _KINDS.get(piece.kind)
    if isinstance(value, int) and value > _MOST_SIGNED:  # no BIGINT without a sign is described here
        kind = ColumnType.NEWDECIMAL
    return Column(label, piece.kind in ("int", "bool", *_KINDS), kind)


_MOST_SIGNED: Final = (1 << 63) - 1


@lru_cache(maxsize=1)
def _database() -> Database:
    return Database()


def _refused(reason: str) -> Refused:
    return Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"binlog-merge serve does not compute this SELECT: {reason[:300]}")


def _items(cursor: Cursor) -> list[tuple[str, Node]]:
    """Parse items with their names, FROM DUAL, LIMIT."""
    cursor.expect("SELECT")
    found = [_item(cursor)]
    while cursor.accept_symbol(","):
        found.append(_item(cursor))
    if cursor.accept("FROM"):
        cursor.expect("DUAL")
    if cursor.accept("LIMIT") and cursor.integer() != 1:
        raise cursor.error("LIMIT of the one row that there is")
    cursor.finish()
    return found


def _item(cursor: Cursor) -> tuple[str, Node]:
    start = cursor.peek()
    node = ExpressionReader(cursor).expression()
    plain = node.kind == "string" and start.kind == "string"
    label = column_name(start.text if plain else cursor.text[start.start : cursor.peek(-1).end])
    token = cursor.peek()
    bare = token.kind in ("name", "string") or (token.kind == "word" and cursor.word() not in _AFTER)
    if cursor.accept("AS") or bare:
        label = cursor.string() if cursor.peek().kind == "string" else cursor.name()
    return label, node


class _Known:
    """What is known of a session and of the time, as nodes that stand for it."""

    def __init__(self, settings: Settings, facts: Facts) -> None:
        self._settings, self._facts = settings, facts
        self._utc = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
        self._charset = settings.reads.grammar().charset_connection
        self.variables: dict[str, Sql] = {}
        """Those that stand in a tree as columns, by their names: `@x`, `@@global.x`."""

    def in_place(self, node: Node) -> Node:
        """Return a tree with constants in the place of calls. Raises ExpressionError, Refused."""
        if node.kind == "call" and node.text == "timediff" and len(node.args) == 2:
            return self._difference(*node.args)
        if node.kind == "call" and node.text in _CLOCK and not node.args:
            kind, _, form = _CLOCK[node.text]
            return Node("moment", kind, (Node("string", self._moment(node).strftime(form)),))
        if node.kind == "call" and node.text in _OF_SESSION and not node.args:
            return self._constant(value_of(Call(node.text), self._settings, self._facts))
        if node.kind == "forbidden" and node.text == VARIABLE and node.args:
            return self._variable(node.args[0].text)
        return replace(node, args=tuple(map(self.in_place, node.args)))

    def _variable(self, name: str) -> Node:
        """Return a column that stands for a variable."""
        scope, dot, rest = name.lstrip("@").partition(".")
        scoped = SCOPES.get(scope.upper(), "") if dot else ""
        system = SystemVariable(rest if scoped else name[2:], scoped) if name.startswith("@@") else None
        value = value_of(system or UserVariable(name[1:]), self._settings, self._facts)
        if isinstance(value, int):  # whether one of the system's is UNSIGNED is not known
            piece = Sql(f"{value}::HUGEINT", "int", unsigned=None if system else value > _MOST_SIGNED)
        elif value is None:
            piece = NULL
        elif system is not None and is_double(system.name, self._facts):
            piece = Sql(f"'{value}'::DOUBLE", "double")
        elif not is_text(str(value)):
            raise ExpressionError(f"{name}, which is no text")
        elif system is not None:
            piece = Sql(quoted(str(value)), "string", "utf8mb3_general_ci", _SYSTEM)
        else:
            piece = Sql(quoted(str(value)), "string", self._settings.reads.connection(), COLUMN)
        self.variables[name] = piece
        return column(name)

    def _constant(self, value: Value) -> Node:
        if value is None:
            return literal("NULL")
        if isinstance(value, int):
            return literal(str(value))
        return Node("string", str(value), (literal(self._charset),))

    def _moment(self, node: Node) -> datetime:
        zoned = _CLOCK[node.text][1]
        return self._utc + timedelta(minutes=self._settings.reads.minutes() if zoned else 0)

    def _difference(self, one: Node, other: Node) -> Node:
        for node in (one, other):
            if node.kind != "call" or node.args or _CLOCK.get(node.text, ("",))[0] != "TIMESTAMP":
                raise ExpressionError("TIMEDIFF() of other moments than those of NOW() and UTC_TIMESTAMP()")
        seconds = int((self._moment(one) - self._moment(other)).total_seconds())
        hours, rest = divmod(abs(seconds), 3600)
        text = f"{'-' if seconds < 0 else ''}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
        return Node("moment", "TIME", (Node("string", text),))


def _shown(piece: Sql) -> str:
    """Return SQL of what is sent of a value. Raises ExpressionError where its text is not known."""
    show = _SHOWN.get(piece.kind)
    if show is not None:
        return show(piece)
    if piece.bit or piece.untold:
        raise ExpressionError(f"the text of a {piece.kind}")
    return string(piece).text


def _whole(piece: Sql, kind: str) -> str:
    """Return the digits of a constant moment without a fraction."""
    if piece.constant is None or any(digit not in "0." for digit in piece.constant.partition(".")[2]):
        raise ExpressionError(f"the text of a {kind} that is computed, or has a fraction")
    return "'" + piece.constant.partition(".")[0] + "'"


_SHOWN: Final[Mapping[str, Callable[[Sql], str]]] = {
    "bool": lambda piece: f"({piece.text})::INTEGER",
    "int": lambda piece: f"({piece.text})::VARCHAR",
    "double": lambda piece: f"({piece.text})::DOUBLE",
    "binary": lambda piece: f"hex({piece.text})",
    "null": lambda piece: "NULL",
    "datetime": lambda piece: _whole(piece, "DATETIME"),
    "time": lambda piece: _whole(piece, "TIME"),
}


def _value(piece: Sql, value: Value) -> Value:
    if value is None:
        return None
    match piece.kind:
        case "int" | "bool":
            return int(value)
        case "double":
            return real_text(float(value), False, None)
        case "binary":
            return bytes.fromhex(str(value)).decode("utf-8", "surrogateescape")
    return str(value)


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
