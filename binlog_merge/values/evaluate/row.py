"""Expressions of generated columns and expression defaults, computed for a row as the server computes them.

Only what has one answer wherever it is asked: integers, decimals, doubles, texts, dates and JSON, put together by
operators and functions whose result does not depend on a session. Comparing texts (a collation decides), dividing
decimals (digits that are not shown decide) and functions that give another value each time are refused, when the plan
is made, with the reason. The time of day is the commit time.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import partial
from typing import Any, Final

from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.convert.cells import coerce
from binlog_merge.values.convert.time import shifted
from binlog_merge.values.evaluate.functions import CALLS, CHOICES, CLOCK, without_minus_zero
from binlog_merge.values.evaluate.kinds import (
    BIGINT,
    BIGINT_UNSIGNED,
    CASTS,
    MONTHS,
    TYPES,
    UNITS,
    NotComputableError,
    check_charsets,
    kind_of,
    literal_kind,
    rounds_a_choice,
)
from binlog_merge.values.value import ConversionError, Json, Lost, Value
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.read import read_expression
from snapshot_store.mysql.sql.functions import Kind
from snapshot_store.mysql.sql.session import STORED

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_CONTEXT: Final = Context(prec=200)
"""More digits than any DECIMAL has, also between operations."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An expression that can be computed: its text, its tree, and what kind of value it gives."""

    source: str
    node: Node
    kind: Kind
    columns: frozenset[str]
    at_commit: bool
    untold: bool = False
    """Whether it is a DECIMAL that may have more zeros at its end on a server."""


def computed(source: str, columns: Mapping[str, Column]) -> Computed:
    """Return an expression over `columns` (by lower-case name), ready to be evaluated; raises NotComputableError."""
    try:
        read = read_expression(source, STORED)
    except DdlNotUnderstood as error:
        raise NotComputableError(str(error)) from None
    at_commit = not read.functions.isdisjoint(CLOCK)
    kind = kind_of(read.node, columns)
    check_charsets(read.node, columns)
    untold = kind == "decimal" and rounds_a_choice(read.node)
    return Computed(source, read.node, kind, read.columns, at_commit, untold)


@dataclass(frozen=True, slots=True)
class Row:
    """What an expression is evaluated for: values by lower-case column name, and the commit time.

    `offset` is the time zone's, in minutes ahead of UTC.
    """

    values: Mapping[str, Value | None]
    commit_us: int
    offset: int


def value_for(expression: Computed, column: Column, row: Row) -> Value | None:
    """Return the expression's value as one of the column; raises ConversionError where it does not fit."""
    with localcontext(_CONTEXT):
        value = _value(expression.node, row)
    if value is None:
        return None
    kind = TYPES.get(expression.kind, BIGINT_UNSIGNED if isinstance(value, int) and value >= 0 else BIGINT)
    if isinstance(value, Decimal):  # a text column shows its digits
        kind = ColumnType("decimal", length=65, decimals=max(0, -int(value.as_tuple().exponent)))
    if expression.untold and column.type.family is Family.TEXT:
        raise ConversionError(f"({expression.source}) is rounded after a choice: its zeros in a text are not known")
    if expression.kind == "datetime" and column.type.family is Family.TEXT:
        raise ConversionError(f"({expression.source}) is a moment, whose digits in a text are not known")
    if column.type.family is Family.INTEGER:
        value = _even(value)
    lost: Lost = []
    found = coerce(kind, column.type, value, lost, row.offset)
    if lost:
        raise ConversionError(f"({expression.source}): {lost[0]}")
    return found


def _even(value: Value) -> Value:
    """Return a DOUBLE in a document as a whole number: to the even one where it lies between two, as nowhere else."""
    return Json(round(value.document)) if isinstance(value, Json) and isinstance(value.document, float) else value


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
        case "call" if node.text in CLOCK:
            return _clock(node, row)
        case "call" if node.text in CHOICES:
            return CHOICES[node.text](*(partial(_value, arg, row) for arg in node.args))
    args = [_value(arg, row) for arg in node.args]
    if node.kind == "in":
        return _in(args, node.negated)
    if node.kind == "between":
        return _between(args, node.negated)
    if node.kind == "compare" and node.text == "<=>":
        one, other = _comparable(args)
        return int(one == other)
    if node.kind == "call" and node.text in CALLS and CALLS[node.text].nulls:
        return CALLS[node.text].run(*args)
    if None in args:
        return None
    return _strict(node, [arg for arg in args if arg is not None])


def _strict(node: Node, args: list[Value]) -> Value | None:
    """Return the value of an operator or function that is NULL where an argument is."""
    match node.kind:
        case "prefix":
            return _bounded(-_number(args[0]))
        case "binary":
            return _arithmetic(node.text, _number(args[0]), _number(args[1]))
        case "compare":
            return int(_COMPARE[node.text](*_comparable(args)))
        case "xor":
            return int(bool(args[0]) != bool(args[1]))
        case "not":
            return int(not args[0])
        case "cast":
            return _cast(node.text, args[0])
        case "interval":
            return _later(node.text, args[0], args[1])
    return CALLS[node.text].run(*args)


def _literal(text: str) -> Value | None:
    if text == "NULL":
        return None
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    return {"int": int, "double": float, "decimal": Decimal}[literal_kind(text)](text)


def _logic(node: Node, row: Row) -> Value | None:
    stop = node.kind == "or"
    found = [_value(arg, row) for arg in node.args]
    if any(value is not None and bool(value) == stop for value in found):
        return int(stop)
    return None if None in found else int(not stop)


def _case(node: Node, row: Row) -> Value | None:
    args = list(node.args)
    operand = _value(args.pop(0), row) if node.text.startswith("operand") else None
    while len(args) > 1:
        when, then = args.pop(0), args.pop(0)
        found = _value(when, row)
        one, other = _comparable((operand, found))
        _check_signs(operand, [found])
        if found is not None and (one == other if node.text.startswith("operand") else found):
            return _value(then, row)
    return _value(args[0], row) if args else None


def _in(args: list[Value | None], negated: bool) -> Value | None:
    wanted, *items = _comparable(args)
    if len(items) > 1:
        _check_signs(wanted, items)
    if wanted is None or (None in items and wanted not in items):
        return None
    return int((wanted in items) != negated)


def _check_signs(value: Value | None, others: Sequence[Value | None]) -> None:
    """Raise ConversionError for numbers of the same 64 bits, one with a sign: IN and CASE may take them for equal."""
    for other in others:
        if isinstance(value, int) and isinstance(other, int) and value != other and (value - other) % (1 << 64) == 0:
            raise ConversionError(f"{value} and {other}, of which only one has a sign, compared by IN or CASE")


def _comparable(values: Sequence[Any]) -> list[Any]:
    """Return values as a server compares them: beside a DOUBLE all numbers are DOUBLEs."""
    if any(isinstance(value, float) for value in values):
        return [float(value) if isinstance(value, int | Decimal) else value for value in values]
    return list(values)


def _between(args: Sequence[Any], negated: bool) -> Value | None:
    """Return BETWEEN, which is false if one of its bounds says so, whatever the other is."""
    value, low, high = _comparable(args)
    if value is None:
        return None
    above, below = None if low is None else low <= value, None if high is None else value <= high
    if above is False or below is False:
        return int(negated)
    return None if above is None or below is None else int(not negated)


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
    if symbol == "*" and _decimals(x2) + _decimals(y2) > _MOST_DECIMALS:
        raise ConversionError(f"{a} * {b}: more than {_MOST_DECIMALS} digits after the point")
    return without_minus_zero(x2 + y2 if symbol == "+" else x2 - y2 if symbol == "-" else x2 * y2)


_MOST_DECIMALS: Final = 30


def _decimals(number: Decimal) -> int:
    return max(0, -int(number.as_tuple().exponent))


def _cast(word: str, value: Value) -> Value:
    lost: Lost = []
    if word.startswith("char charset"):
        return value.date_text() if isinstance(value, Civil) else str(value)
    target = CASTS[word][1]
    if target.family is Family.INTEGER:
        value = _even(value)
    if target.family is Family.INTEGER and isinstance(value, str):
        digits = re.fullmatch(r"\s*([-+]?\d+)\s*", value)
        if digits is None:
            raise ConversionError(f"cast as {word}: {value[:40]!r} is not a number")
        value = int(digits[1])
    source = BIGINT if isinstance(value, int) else TYPES[_kind_of_value(value)]
    if word == "date":  # a column rounds a time to its day, CAST and DATE() leave the time out
        moment = coerce(source, TYPES["datetime"], value, lost)
        source = TYPES["datetime"]
        value = moment._replace(hour=0, minute=0, second=0, micro=0) if isinstance(moment, Civil) else moment
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
    return CLOCK[node.text](row.commit_us, row.offset, digits)


def _later(words: str, moment: Value, amount: Value) -> Value | None:
    sign, unit = words.lower().split()
    assert isinstance(moment, Civil)
    if not moment.month or not moment.day:
        return None
    count = int(Decimal(_number(amount)).quantize(Decimal(1), ROUND_HALF_UP)) * (-1 if sign == "-" else 1)
    if unit in UNITS:
        micros = UNITS[unit] * count
        later = shifted(moment, micros // (60 * 10**6)) if abs(micros) < _MOST_MICROS else moment
        if later == moment and micros // (60 * 10**6):  # shifted() leaves what it has no date for
            raise ConversionError(f"{moment.text(0)} {words}: no date")
        return _with_micros(later, micros % (60 * 10**6))
    months = moment.year * 12 + moment.month - 1 + MONTHS[unit] * count
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise ConversionError(f"{moment.text(0)} {words}: no date")
    last = (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day if (year, month) < (9999, 12) else 31
    return moment._replace(year=year, month=month, day=min(moment.day, last))


_MOST_MICROS: Final = 10_000 * 366 * 86400 * 10**6


def _with_micros(moment: Civil, micros: int) -> Civil:
    total = moment.second * 10**6 + moment.micro + micros
    later = shifted(moment, total // (60 * 10**6))
    if later == moment and total // (60 * 10**6):
        raise ConversionError(f"{moment.text(0)} and {micros} microseconds: no date")
    return later._replace(second=total % (60 * 10**6) // 10**6, micro=total % 10**6)


__all__ = ["Computed", "NotComputableError", "Row", "computed", "value_for"]
