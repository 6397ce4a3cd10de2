"""The functions that `evaluate` computes: what they take, what they give, how.

Letters change their case only in ASCII, where every collation agrees. Source: refman, "Built-In Function and Operator
Reference".
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import json_text
from binlog_merge.binlog.json_diff import path_legs
from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.json import read_json
from binlog_merge.values.value import ConversionError, Json, Value

CHANGING: Final = frozenset(
    (
        *("uuid", "uuid_short", "rand", "random_bytes", "connection_id", "sysdate", "user", "current_user"),
        *("current_role", "database", "session_user", "last_insert_id", "statement_digest", "version"),
    )
)
"""Give another value each time, or on each server or session."""

_MAX_LENGTH: Final = 1 << 24
_TEXTS: Final = ("text", "int", "decimal")
_DATES: Final = ("date", "datetime")


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its value, how many arguments of which kinds it takes, and what kind it gives ("" is theirs).

    With `nulls` it is asked about NULL too; else NULL gives NULL.
    """

    run: Callable[..., Value | None]
    takes: tuple[str, ...]
    gives: str
    least: int = 1
    most: int = 1
    nulls: bool = False


def _text(value: Value) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _ascii(change: Callable[[str], str]) -> Callable[[Value], str]:
    def run(value: Value) -> str:
        text = _text(value)
        if not text.isascii():
            raise ConversionError(f"{text[:40]!r}: the case of letters beyond ASCII depends on the collation")
        return change(text)

    return run


def _substr(value: Value, start: int, count: int | None = None) -> str:
    text = _text(value)
    if start == 0 or -start > len(text) or (count is not None and count < 1):
        return ""
    rest = text[start - 1 :] if start > 0 else text[start:]
    return rest if count is None else rest[:count]


def _padded(left: bool) -> Callable[[Value, int, Value], str | None]:
    def run(value: Value, length: int, filler: Value) -> str | None:
        text, fill = _text(value), _text(filler)
        if length < 0 or length > _MAX_LENGTH:
            return None
        if len(text) < length and not fill:
            return ""
        more = (fill * length)[: max(0, length - len(text))]
        return (more + text if left else text + more)[:length]

    return run


def _repeat(value: Value, count: int) -> str:
    text = _text(value)
    if len(text) * count > _MAX_LENGTH:
        raise ConversionError(f"REPEAT of {count} times {len(text)} characters is too long")
    return text * max(0, count)


def _concat_ws(separator: Value | None, *parts: Value | None) -> str | None:
    return None if separator is None else _text(separator).join(_text(part) for part in parts if part is not None)


def _round(value: Value, digits: int = 0) -> Value:
    if isinstance(value, int):
        unit = 10 ** max(0, -digits)
        return (abs(value) + unit // 2) // unit * unit * (-1 if value < 0 else 1)
    assert isinstance(value, Decimal)
    scale = min(max(0, -int(value.as_tuple().exponent)), max(0, digits))
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP).quantize(Decimal(1).scaleb(-scale))


def _document(value: Value | None) -> Any:
    return value.document if isinstance(value, Json) else value


def _object(*pairs: Value | None) -> Json:
    if len(pairs) % 2 or None in pairs[::2]:
        raise ConversionError("JSON_OBJECT takes pairs of names, which are not NULL, and values")
    named = zip(pairs[::2], pairs[1::2], strict=True)
    return Json({_text(name): _document(value) for name, value in named if name is not None})


def _extract(value: Value, path: str) -> Json | None:
    """Return what a path leads to; a place 0 of what is no array is the value itself."""
    try:
        found = value.document if isinstance(value, Json) else read_json(str(value)).document
        for leg in path_legs(path):
            members = dict(enumerate(found)) if isinstance(found, list) else found
            if isinstance(members, dict) and leg in members:
                found = members[leg]
            elif leg != 0 or isinstance(found, list):
                return None
    except BinlogFormatError as error:
        raise ConversionError(str(error)) from None
    return Json(found)


def _unquoted(value: Json) -> str:
    return value.document if isinstance(value.document, str) else json_text(value.document)


def _date_format(value: Civil, form: str) -> str:
    def part(found: re.Match[str]) -> str:
        if found[1] not in _DATE_PARTS:
            raise ConversionError(f"DATE_FORMAT() with %{found[1]}, whose text depends on the session or the week")
        return _DATE_PARTS[found[1]](value)

    return re.sub("%(.)", part, form, flags=re.DOTALL)


_DATE_PARTS: Final[dict[str, Callable[[Civil], str]]] = {
    "Y": lambda at: f"{at.year:04d}",
    "y": lambda at: f"{at.year % 100:02d}",
    "m": lambda at: f"{at.month:02d}",
    "c": lambda at: str(at.month),
    "d": lambda at: f"{at.day:02d}",
    "e": lambda at: str(at.day),
    "H": lambda at: f"{at.hour:02d}",
    "k": lambda at: str(at.hour),
    "i": lambda at: f"{at.minute:02d}",
    "s": lambda at: f"{at.second:02d}",
    "S": lambda at: f"{at.second:02d}",
    "T": lambda at: f"{at.hour:02d}:{at.minute:02d}:{at.second:02d}",
    "f": lambda at: f"{at.micro:06d}",
    "%": lambda at: "%",
}


CALLS: Final[dict[str, Function]] = {
    "concat": Function(lambda *parts: "".join(map(_text, parts)), _TEXTS, "text", 1, 99),
    "concat_ws": Function(_concat_ws, _TEXTS, "text", 2, 99, nulls=True),
    "upper": Function(_ascii(str.upper), _TEXTS, "text"),
    "lower": Function(_ascii(str.lower), _TEXTS, "text"),
    "char_length": Function(lambda value: len(_text(value)), _TEXTS, "int"),
    "left": Function(lambda value, n: _text(value)[: max(0, n)], _TEXTS, "text", 2, 2),
    "right": Function(lambda value, n: _text(value)[-n:] if n > 0 else "", _TEXTS, "text", 2, 2),
    "substr": Function(_substr, _TEXTS, "text", 2, 3),
    "trim": Function(lambda value: _text(value).strip(" "), _TEXTS, "text"),
    "ltrim": Function(lambda value: _text(value).lstrip(" "), _TEXTS, "text"),
    "rtrim": Function(lambda value: _text(value).rstrip(" "), _TEXTS, "text"),
    "reverse": Function(lambda value: _text(value)[::-1], _TEXTS, "text"),
    "repeat": Function(_repeat, _TEXTS, "text", 2, 2),
    "lpad": Function(_padded(True), _TEXTS, "text", 3, 3),
    "rpad": Function(_padded(False), _TEXTS, "text", 3, 3),
    "hex": Function(lambda value: f"{value & (1 << 64) - 1:X}", ("int",), "text"),
    "abs": Function(abs, ("int", "decimal", "double"), ""),
    "sign": Function(lambda value: (value > 0) - (value < 0), ("int", "decimal", "double"), "int"),
    "floor": Function(math.floor, ("int", "decimal"), "int"),
    "ceiling": Function(math.ceil, ("int", "decimal"), "int"),
    "round": Function(_round, ("int", "decimal"), "", 1, 2),
    "greatest": Function(max, ("int",), "int", 2, 99),
    "least": Function(min, ("int",), "int", 2, 99),
    "year": Function(lambda value: value.year, _DATES, "int"),
    "month": Function(lambda value: value.month, _DATES, "int"),
    "dayofmonth": Function(lambda value: value.day, _DATES, "int"),
    "hour": Function(lambda value: value.hour, ("datetime",), "int"),
    "minute": Function(lambda value: value.minute, ("datetime",), "int"),
    "second": Function(lambda value: value.second, ("datetime",), "int"),
    "date_format": Function(_date_format, (*_DATES, "text"), "text", 2, 2),
    "json_extract": Function(_extract, ("json", "text"), "json", 2, 2),
    "json_unquote": Function(_unquoted, ("json",), "text"),
    "json_array": Function(
        lambda *items: Json([_document(item) for item in items]), ("text", "int", "double", "json"), "json", 0, 99, True
    ),
    "json_object": Function(_object, ("text", "int", "double", "json"), "json", 0, 99, True),
}
