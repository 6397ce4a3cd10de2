"""SELECTs without FROM, and what variables are set to: `@@server_id`, `1 + 1`, `TIMEDIFF(NOW(), UTC_TIMESTAMP())`.

Read by MySQL's grammar. Variables, literals and functions of the session are answered at once. What is more than that
is compiled piece by piece like conditions over tables, so exact or refused; what the session knows stands in it as a
constant.
"""

import re
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
from binlog_merge.binlog_server.show_sql import column_name, limit, skip_modifiers
from binlog_merge.binlog_server.sql import SCOPES
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
from snapshot_store.mysql.sql.functions import FUNCTIONS, NATIVE_PREFIXES
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
_MOMENTS: Final = {"TIMESTAMP": "datetime", "DATE": "date", "TIME": "time"}
_SYSTEM: Final = (COLUMN + LITERAL) // 2
"""How strong the collation of a system variable is: between those of a column and a literal."""
_MOST_SIGNED: Final = (1 << 63) - 1
_NUMBER: Final = re.compile(r"\d{1,19}(?:\.\d{1,10})?")

Known = tuple[Value, Column]
"""A value, and its column, which has no name yet."""


def computed(cursor: Cursor, settings: Settings, facts: Facts) -> tuple[list[Column], list[Row]]:
    """Return the columns and the row of a SELECT without FROM. Raises Refused for what is not known for certain."""
    try:
        if len(cursor.tokens) > _MOST_PARTS:
            raise cursor.error(f"more than {_MOST_PARTS} words and signs")
        items = _items(cursor)
        most, skipped = limit(cursor)
        cursor.finish()
    except (DdlNotUnderstood, DdlRejected, RecursionError) as error:
        raise _refused(error) from None
    values = _evaluated([node for _, node in items], settings, facts)
    columns = [replace(column, name=label) for (label, _), (_, column) in zip(items, values, strict=True)]
    row = tuple(value for value, _ in values)
    return columns, [row] if not skipped and most != 0 else []


def value_of(node: Node, settings: Settings, facts: Facts) -> Value:
    """Return the value of an expression. Raises Refused for what is not known for certain."""
    ((value, _),) = _evaluated([node], settings, facts)
    return value


def _evaluated(nodes: Sequence[Node], settings: Settings, facts: Facts) -> list[Known]:
    """Return the values of expressions. The engine is asked only if one of them is more than what the session knows."""
    session = _SessionValues(settings, facts)
    try:
        known = [session.known(node) for node in nodes]
        if not any(value is None for value in known):
            return [value for value in known if value is not None]
        connection = settings.reads.connection()
        pieces = [compile_value(session.in_place(node), session.variables, connection) for node in nodes]
        texts = [_shown(piece) for piece in pieces]
    except UnknownColumn as error:
        text = f"Unknown column '{error.column[:64]}' in 'field list'"
        raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, text) from None
    except (ExpressionError, UnknownCollation, RecursionError) as error:
        raise _refused(error) from None
    with in_turn(), _database().of({}) as run:
        _, rows = run(f"SELECT {', '.join(texts)}")
    values = [_value(piece, value) for piece, value in zip(pieces, rows[0], strict=True)]
    return [(value, _column(piece, value)) for piece, value in zip(pieces, values, strict=True)]


def _column(piece: Sql, value: Value) -> Column:
    kind = _KINDS.get(piece.kind)
    if isinstance(value, int) and value > _MOST_SIGNED:  # no BIGINT without a sign is described here
        kind = ColumnType.NEWDECIMAL
    return Column("", piece.kind in ("int", "bool", *_KINDS), kind)


@lru_cache(maxsize=1)
def _database() -> Database:
    return Database()


def _refused(error: Exception) -> Refused:
    reason = "an expression nested too deep" if isinstance(error, RecursionError) else str(error)
    reason = getattr(error, "reason", None) or reason
    return Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"binlog-merge serve does not compute this SELECT: {reason[:300]}")


def _items(cursor: Cursor) -> list[tuple[str, Node]]:
    """Parse items with their names, up to LIMIT."""
    cursor.expect("SELECT")
    skip_modifiers(cursor)
    items = [_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_item(cursor))
    if cursor.accept("FROM"):
        cursor.expect("DUAL")
    return items


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


class _SessionValues:
    """The values that a session knows without the engine; for one statement, at one moment."""

    def __init__(self, settings: Settings, facts: Facts) -> None:
        self._settings, self._facts = settings, facts
        self._utc = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
        self._charset = settings.reads.grammar().charset_connection
        self.variables: dict[str, Sql] = {}
        """Those that stand in a tree as columns, by their names: `@x`, `@@global.x`."""

    def known(self, node: Node) -> Known | None:
        """Return the value of a variable, a literal or a function of the session; None for all else. Raises Refused."""
        match node.kind, node.text, node.args:
            case "forbidden", text, (name,) if text == VARIABLE:
                return self._variable(name.text)
            case "literal", text, _:
                return _literal(text)
            case "prefix", "-", (Node("literal", digits),) if digits.isdecimal() and _NUMBER.fullmatch(digits):
                return -int(digits), Column("", True)
            case "string", text, charset if {each.text for each in charset} <= {self._charset}:
                return text, Column("")
            case "call", name, () if name in _CLOCK:
                kind, _, form = _CLOCK[name]
                return self._moment(node).strftime(form), Column("", True, _KINDS[_MOMENTS[kind]])
            case "call", name, args:
                return self._called(name, [self.known(arg) for arg in args])
        return None

    def in_place(self, node: Node) -> Node:
        """Return a tree with constants in the place of what is known. Raises ExpressionError, Refused."""
        if node.kind == "call" and node.text == "timediff" and len(node.args) == 2:
            return self._difference(*node.args)
        if node.kind == "call" and node.text in _CLOCK and not node.args:
            kind, _, form = _CLOCK[node.text]
            return Node("moment", kind, (Node("string", self._moment(node).strftime(form)),))
        if node.kind == "forbidden" and node.text == VARIABLE and node.args:
            return self._placed(node.args[0].text)
        if node.kind == "call":
            if (known := self.known(node)) is not None:
                return self._constant(known[0])
            if node.text not in FUNCTIONS and not node.text.startswith(NATIVE_PREFIXES):
                text = f"FUNCTION {node.text[:64]} does not exist: {WHAT} functions"
                raise Refused(ErrorCode.ER_SP_DOES_NOT_EXIST, text)
        return replace(node, args=tuple(map(self.in_place, node.args)))

    def _variable(self, name: str) -> Known:
        """Return the value of a variable by its name, as `@x` or `@@global.x`. Raises Refused."""
        if not name.startswith("@@"):
            value = self._settings.values.get(name)
            return value, _described(value)
        scope, _, rest = name[2:].partition(".")
        scope = SCOPES.get(scope.upper(), "") if rest else ""
        system = rest if scope else name[2:]
        value = value_of_variable(system, scope, self._settings, self._facts)
        if is_double(system, self._facts):
            return value, Column("", True, ColumnType.DOUBLE)
        return value, _described(value)

    def _placed(self, name: str) -> Node:
        """Return a column that stands for a variable. Raises Refused, ExpressionError."""
        value, described = self._variable(name)
        system = name.startswith("@@")
        if isinstance(value, int):  # whether one of the system's is UNSIGNED is not known
            piece = Sql(f"{value}::HUGEINT", "int", unsigned=None if system else value > _MOST_SIGNED)
        elif value is None:
            piece = NULL
        elif described.kind is ColumnType.DOUBLE:
            piece = Sql(f"'{value}'::DOUBLE", "double")
        elif not is_text(str(value)):
            raise ExpressionError(f"{name}, which is no text")
        elif system:
            piece = Sql(quoted(str(value)), "string", "utf8mb3_general_ci", _SYSTEM)
        else:
            piece = Sql(quoted(str(value)), "string", self._settings.reads.connection(), COLUMN)
        self.variables[name] = piece
        return column(name)

    def _called(self, name: str, arguments: Sequence[Known | None]) -> Known | None:
        """Return what a function of the session returns; None if it is none, or not called so. Raises Refused."""
        match name, [None if argument is None else argument[0] for argument in arguments]:
            case "version", []:
                value: Value = self._settings.version_prefix + self._facts.version
            case "unix_timestamp", []:
                value = int(time.time())
            case "connection_id", []:
                value = self._settings.connection_id
            case (("user" | "current_user"), []):
                value = f"{self._settings.user}@%"
            case "database", []:
                value = self._settings.schema
            case "uuid", []:
                value = str(uuid.uuid4())
            case "gtid_subset", [str(inner), str(outer)]:
                value = int(_gtids(outer).contains_set(_gtids(inner)))
            case "gtid_subtract", [str(one), str(other)]:
                value = str(_gtids(one).minus(_gtids(other)))
            case _:
                return None
        return value, _described(value)

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


def _literal(text: str) -> Known | None:
    """Return NULL, a truth value or a number of usual length."""
    if text in _WORDS:
        return _WORDS[text], _described(_WORDS[text])
    if not _NUMBER.fullmatch(text):
        return None
    return (int(text), _described(int(text))) if text.isdecimal() else (text, Column("", True, ColumnType.NEWDECIMAL))


_WORDS: Final[Mapping[str, int | None]] = {"NULL": None, "true": 1, "false": 0}


def _described(value: Value) -> Column:
    return Column("", True, unsigned=value > _MOST_SIGNED) if isinstance(value, int) else Column("")


def _gtids(text: str) -> GtidSet:
    try:
        return GtidSet.parse_text(text)
    except BinlogFormatError:
        raise Refused(
            ErrorCode.ER_MALFORMED_GTID_SET_SPECIFICATION, f"Malformed GTID set specification '{text[:200]}'."
        ) from None
