"""Expressions of generated columns and expression defaults, computed for a row as the server computes them.

Only what has one answer wherever it is asked: integers, decimals, doubles, texts, dates and JSON, put together by
operators and functions whose result does not depend on a session. Comparing texts (a collation decides), dividing
decimals (digits that are not shown decide) and functions that give another value each time are refused, when the plan
is made, with the reason. The time of day is the commit time.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from binlog_merge.binlog.temporal import Civil
from binlog_merge.merge.convert import coerce
from binlog_merge.merge.convert_time import moment_of, shifted
from binlog_merge.merge.convert_values import TEXT_TYPES, ConversionError, Json, Lost, Value
from binlog_merge.merge.evaluate_functions import CALLS, CHANGING
from snapshot_store.ddl.expression_nodes import Node
from snapshot_store.ddl.expressions import read_expression
from snapshot_store.ddl.session import DdlSession
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Column, ColumnType

Kind = str
"""int, decimal, double, text, date, datetime, time, json, null: what a value is before a column makes it its own."""

_COLUMN_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), "int"),
    **dict.fromkeys(TEXT_TYPES, "text"),
    **{name: name for name in ("decimal", "double", "date", "datetime", "time", "json")},
    "float": "double",
    "timestamp": "datetime",
}
_TYPES: Final[dict[Kind, ColumnType]] = {
    "decimal": ColumnType("decimal", length=65, decimals=30),
    "double": ColumnType("double"),
    "text": ColumnType("varchar", length=1 << 32, charset="utf8mb4"),
    "date": ColumnType("date"),
    "datetime": ColumnType("datetime", fsp=6),
    "time": ColumnType("time", fsp=6),
    "json": ColumnType("json"),
}
_NUMBERS: Final = ("int", "decimal", "double")
_BIGINT: Final = ColumnType("bigint")
_BIGINT_UNSIGNED: Final = ColumnType("bigint", unsigned=True)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNITS: Final = {"microsecond": 1, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6,
                 "week": 7 * 86400 * 10**6}  # fmt: skip
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_CASTS: Final[dict[str, tuple[Kind, ColumnType]]] = {
    "signed": ("int", _BIGINT),
    "unsigned": ("int", _BIGINT_UNSIGNED),
    "json": ("json", _TYPES["json"]),
    "date": ("date", _TYPES["date"]),
    "double": ("double", _TYPES["double"]),
}


class NotComputableError(Exception):
    """An expression that has no one answer here; says which part of it, and why."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An expression that can be computed: its text, its tree, and what kind of value it gives."""

    source: str
    node: Node
    kind: Kind
    columns: frozenset[str]
    at_commit: bool


def computed(source: str, columns: Mapping[str, Column]) -> Computed:
    """Return an expression over `columns` (by lower-case name), ready to be evaluated; raises NotComputableError."""
    try:
        read = read_expression(source, DdlSession())
    except DdlNotUnderstood as error:
        raise NotComputableError(str(error)) from None
    at_commit = bool(read.functions & {"now", "curdate", "curtime", "unix_timestamp", "utc_timestamp"})
    return Computed(source, read.node, _kind_of(read.node, columns), read.columns, at_commit)


def _kind_of(node: Node, columns: Mapping[str, Column]) -> Kind:
    kinds = [_kind_of(arg, columns) for arg in node.args] if node.kind not in ("string", "moment") else []
    match node.kind:
        case "literal":
            return _literal_kind(node.text)
        case "string":
            if not node.text.isascii() and node.args and not node.args[0].text.startswith("utf8"):
                raise NotComputableError(f"{node.text!r} is written in {node.args[0].text}")
            return "text"
        case "column":
            column = columns.get(node.text.lower())
            kind = _COLUMN_KINDS.get(column.type.name) if column is not None else None
            if kind is None:
                raise NotComputableError(f"column {node.text} is {column.type.name if column else 'not there'}")
            return kind
        case "prefix" if node.text == "-":
            return _one_of(node, kinds, *_NUMBERS)
        case "binary":
            return _arithmetic_kind(node, kinds)
        case "compare" | "between" | "in":
            moments = all(kind in ("date", "datetime", "null") for kind in kinds)
            if not moments:
                _one_of(node, kinds, *_NUMBERS)
            return "int"
        case "and" | "or" | "xor" | "not" | "null" if node.text != "rows":
            return "int"
        case "case":
            skip = node.text.startswith("operand")
            if skip:
                break_ = [kinds[0], *kinds[1:][: (len(kinds) - 1) // 2 * 2 : 2]]
                _one_of(node, break_, *_NUMBERS)
            values = kinds[1:] if skip else kinds
            paired = len(values) // 2 * 2
            return _same(node, [*values[1:paired:2], *values[paired:]])
        case "cast" if node.text in _CASTS:
            return _CASTS[node.text][0]
        case "cast" if node.text.startswith("char charset"):
            return _one_of(node, kinds, "text", "int", "date") and "text"
        case "interval":
            unit = node.text.split()[1].lower()
            if unit in _UNITS or unit in _MONTHS:
                return "datetime" if unit in ("microsecond", "second", "minute", "hour") else kinds[0]
        case "call" if node.text in CHANGING:
            raise NotComputableError(f"{node.text}() gives another value each time")
        case "call" if node.text in ("if", "ifnull", "coalesce", "nullif"):
            return _same(node, kinds[1:] if node.text == "if" else kinds)
        case "call" if node.text in ("now", "utc_timestamp"):
            return "datetime"
        case "call" if node.text in ("curdate", "curtime", "unix_timestamp") and not node.args:
            return {"curdate": "date", "curtime": "time"}.get(node.text, "int")
        case "call" if node.text in CALLS:
            function = CALLS[node.text]
            if not function.least <= len(kinds) <= function.most:
                raise NotComputableError(f"{node.text}() with {len(kinds)} arguments")
            for kind in kinds:
                if kind not in (*function.takes, "null"):
                    raise NotComputableError(f"{node.text}() of a value of kind {kind}")
            if node.text == "round":
                if len(node.args) == 2 and node.args[1].kind != "literal":
                    raise NotComputableError("round() to a number of digits that is not written out")
                return kinds[0]
            return function.gives or _same(node, kinds)
    raise NotComputableError(f"{node.text or node.kind} is not among what is computed here".replace("  ", " "))


def _literal_kind(text: str) -> Kind:
    if text == "NULL":
        return "null"
    if text.lower() in ("true", "false") or text.isdigit():
        return "int"
    plain = text.lower()
    if plain.startswith("0x"):
        raise NotComputableError(f"{text} may be a text or a number")
    return "double" if "e" in plain else "decimal"


def _one_of(node: Node, kinds: list[Kind], *allowed: Kind) -> Kind:
    for kind in kinds:
        if kind not in (*allowed, "null"):
            raise NotComputableError(f"{node.text or node.kind} of a value of kind {kind}")
    return max(kinds, key=lambda kind: allowed.index(kind) if kind in allowed else -1, default="null")


def _same(node: Node, kinds: list[Kind]) -> Kind:
    found = {kind for kind in kinds if kind != "null"}
    if len(found) > 1:
        raise NotComputableError(f"{node.text or node.kind} of values of kinds {', '.join(sorted(found))}")
    return found.pop() if found else "null"


def _arithmetic_kind(node: Node, kinds: list[Kind]) -> Kind:
    kind = _one_of(node, kinds, *_NUMBERS)
    if node.text in ("+", "-", "*") or (node.text == "/" and kind == "double"):
        return kind
    if node.text in ("%", "DIV") and kind in ("int", "null"):
        return kind
    raise NotComputableError(f"{node.text} of a value of kind {kind}")


@dataclass(frozen=True, slots=True)
class Row:
    """What an expression is evaluated for: values by lower-case column name, and the commit time.

    `offset` is the time zone's, in minutes ahead of UTC.
    """

    values: Mapping[str, Value | None]
    commit_us: int
    offset: int

    def now(self, digits: int) -> Civil:
        """Return the commit time on the session's clock."""
        unit = 10 ** (6 - digits)
        return shifted(moment_of(self.commit_us // unit * unit), self.offset)


def value_for(expression: Computed, column: Column, row: Row) -> Value | None:
    """Return the expression's value as one of the column; raises ConversionError where it does not fit."""
    value = _value(expression.node, row)
    if value is None:
        return None
    kind = _TYPES.get(expression.kind, _BIGINT_UNSIGNED if isinstance(value, int) and value >= 0 else _BIGINT)
    if isinstance(value, Decimal):  # a text column shows its digits
        kind = ColumnType("decimal", length=65, decimals=max(0, -int(value.as_tuple().exponent)))
    elif expression.kind == "datetime" and column.type.name in TEXT_TYPES:
        raise ConversionError(f"({expression.source}) is a moment, whose digits in a text are not known")
    lost: Lost = []
    found = coerce(kind, column.type, value, lost, row.offset)
    if lost:
        raise ConversionError(f"({expression.source}): {lost[0]}")
    return found


def _value(node: Node, row: Row) -> Value | None:
    match node.kind:
        case "string":
            return node.text
        case "literal":
            return _literal(node.text)
        case "column":
            return row.values[node.text.lower()]
        case "and" | "or":
            return _logic(node, row)
        case "null":
            return int((_value(node.args[0], row) is None) != node.negated)
        case "case":
            return _case(node, row)
        case "call" if node.text in ("now", "utc_timestamp", "curdate", "curtime", "unix_timestamp"):
            return _clock(node, row)
    if node.kind == "call" and node.text in ("if", "ifnull", "coalesce"):
        return _choice(node, row)
    args = [_value(arg, row) for arg in node.args]
    if node.kind == "in":
        return _in(args, node.negated)
    if node.kind == "compare" and node.text == "<=>":
        return int(args[0] == args[1])
    if node.kind == "call" and node.text in CALLS and CALLS[node.text].nulls:
        return CALLS[node.text].run(*args)
    if None in args:
        return args[0] if node.text == "nullif" else None
    return _strict(node, [arg for arg in args if arg is not None])


def _strict(node: Node, args: list[Value]) -> Value | None:
    """Return the value of an operator or function that is NULL where an argument is."""
    match node.kind:
        case "prefix":
            return _bounded(-_number(args[0]))
        case "binary":
            return _arithmetic(node.text, _number(args[0]), _number(args[1]))
        case "compare":
            return int(_COMPARE[node.text](args[0], args[1]))
        case "between":
            return int((args[1] <= args[0] <= args[2]) != node.negated)  # type: ignore[operator]
        case "xor":
            return int(bool(args[0]) != bool(args[1]))
        case "not":
            return int(not args[0])
        case "cast":
            return _cast(node.text, args[0])
        case "interval":
            return _later(node.text, args[0], args[1])
    if node.text == "nullif":
        return None if args[0] == args[1] else args[0]
    return CALLS[node.text].run(*args)


def _literal(text: str) -> Value | None:
    if text == "NULL":
        return None
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    return {"int": int, "double": float, "decimal": Decimal}[_literal_kind(text)](text)


def _logic(node: Node, row: Row) -> Value | None:
    stop = node.kind == "or"
    found = [_value(arg, row) for arg in node.args]
    if any(value is not None and bool(value) == stop for value in found):
        return int(stop)
    return None if None in found else int(not stop)


def _choice(node: Node, row: Row) -> Value | None:
    if node.text == "if":
        return _value(node.args[1 if _value(node.args[0], row) else 2], row)
    found = (_value(arg, row) for arg in node.args)
    return next((value for value in found if value is not None), None)


def _case(node: Node, row: Row) -> Value | None:
    args = list(node.args)
    operand = _value(args.pop(0), row) if node.text.startswith("operand") else None
    while len(args) > 1:
        when, then = args.pop(0), args.pop(0)
        found = _value(when, row)
        if found is not None and (operand == found if node.text.startswith("operand") else found):
            return _value(then, row)
    return _value(args[0], row) if args else None


def _in(args: list[Value | None], negated: bool) -> Value | None:
    wanted, *items = args
    if wanted is None or (None in items and wanted not in items):
        return None
    return int((wanted in items) != negated)


def _number(value: Value) -> int | float | Decimal:
    assert isinstance(value, int | float | Decimal)
    return value


def _bounded(number: int | float | Decimal) -> int | float | Decimal:
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
        raise ConversionError(f"{number} is out of the range of BIGINT")
    return number


def _arithmetic(symbol: str, a: int | float | Decimal, b: int | float | Decimal) -> Value:
    if symbol in ("%", "DIV", "/") and not b:
        raise ConversionError(f"{a} {symbol} 0: division by zero")
    if isinstance(a, float) or isinstance(b, float):
        x, y = float(a), float(b)
        return x / y if symbol == "/" else x + y if symbol == "+" else x - y if symbol == "-" else x * y
    if symbol in ("%", "DIV"):
        quotient = abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if symbol == "DIV" else int(a) - quotient * int(b)
    if isinstance(a, int) and isinstance(b, int):
        return _bounded(a + b if symbol == "+" else a - b if symbol == "-" else a * b)
    x2, y2 = Decimal(a), Decimal(b)
    return x2 + y2 if symbol == "+" else x2 - y2 if symbol == "-" else x2 * y2


def _cast(word: str, value: Value) -> Value:
    lost: Lost = []
    if word.startswith("char charset"):
        return value.date_text() if isinstance(value, Civil) else str(value)
    target = _CASTS[word][1]
    source = _BIGINT if isinstance(value, int) else _TYPES[_kind_of_value(value)]
    found = coerce(source, target, value, lost)
    if lost:
        raise ConversionError(f"cast as {word}: {lost[0]}")
    return found


def _kind_of_value(value: Value) -> Kind:
    for type_, kind in ((Decimal, "decimal"), (float, "double"), (str, "text"), (Civil, "datetime"), (Json, "json")):
        if isinstance(value, type_):
            return kind
    return "time"


def _clock(node: Node, row: Row) -> Value:
    digits = _value(node.args[0], row) if node.args else 0
    assert isinstance(digits, int)
    if node.text == "unix_timestamp":
        return row.commit_us // 1_000_000
    if node.text == "utc_timestamp":
        return Row({}, row.commit_us, 0).now(digits)
    now = row.now(digits)
    if node.text == "curdate":
        return Civil(now.year, now.month, now.day)
    if node.text == "curtime":
        return timedelta(hours=now.hour, minutes=now.minute, seconds=now.second)
    return now


def _later(words: str, moment: Value, amount: Value) -> Value | None:
    sign, unit = words.lower().split()
    assert isinstance(moment, Civil)
    count = int(Decimal(_number(amount)).quantize(Decimal(1), ROUND_HALF_UP)) * (-1 if sign == "-" else 1)
    if unit in _UNITS:
        micros = _UNITS[unit] * count
        later = shifted(moment, micros // (60 * 10**6))
        return _with_micros(later, micros % (60 * 10**6))
    months = moment.year * 12 + moment.month - 1 + _MONTHS[unit] * count
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise ConversionError(f"{moment.text(0)} {words}: no date")
    last = (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day if (year, month) < (9999, 12) else 31
    return moment._replace(year=year, month=month, day=min(moment.day, last))


def _with_micros(moment: Civil, micros: int) -> Civil:
    total = moment.second * 10**6 + moment.micro + micros
    later = shifted(moment, total // (60 * 10**6))
    return later._replace(second=total % (60 * 10**6) // 10**6, micro=total % 10**6)


__all__ = ["Computed", "NotComputableError", "Row", "computed", "value_for"]
