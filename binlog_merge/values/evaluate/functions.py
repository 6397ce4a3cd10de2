"""The functions that `evaluate` computes, and the kinds of arguments it computes them for.

Names, numbers of arguments and kinds of results are in the catalogue, `snapshot_store.mysql.sql.functions`. Letters
change their case only in ASCII, where every collation agrees. Source: refman, "Built-In Function and Operator
Reference".
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import json_text
from binlog_merge.binlog.json_diff import path_legs
from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.convert.time import moment_of, shifted
from binlog_merge.values.value import ConversionError, Json, Value, read_json
from snapshot_store.mysql.sql.functions import Kind

_MAX_LENGTH: Final = 1 << 24
_MOST_DECIMALS: Final = 30
_TEXTS: Final = ("text", "int", "decimal")
_NUMBERS: Final = ("int", "decimal", "double")
_MEMBERS: Final = ("text", "int", "double", "json")
_DATES: Final = ("date", "datetime")


@dataclass(frozen=True, slots=True)
class Computation:
    """How a function is computed, and the kinds of its arguments.

    `gives`: the kind of its result if the catalogue has none; "" is the kind of the arguments. With `nulls` it is
    called with NULL too; otherwise an argument that is NULL makes the result NULL.
    """

    run: Callable[..., Value | None]
    takes: tuple[Kind, ...]
    gives: Kind = ""
    nulls: bool = False
    counts: tuple[int, ...] = ()
    """The places of arguments that are whole numbers, whatever kind the others have."""
    bytes: bool = True
    """Whether bytes may be among its arguments, which have neither characters to count nor letters."""


def _text(value: Value) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


_UNLIKE: Final = re.compile(
    "[\x80-\xbf\xf7\u010c\u0155\u0156\u015e-\u0161\u017b\u02d8\u03c2\u03d0-\u03f5\u0436-\u0439\u1e9b\u1fbe"
    "\u2010-\u25ff\U00010000-\U000105ff\U00011000-\U0001d3ff\U0001fb00-\U0010ffff]"
)
"""Characters that keep their case here and not under some collation of a server, as a server has shown of all of them
below U+11000 and from U+1D400 to U+1FAFF; and those of which it was not asked."""


def _cased(change: Callable[[str], str]) -> Callable[[Value], str]:
    """Return LOWER or UPPER of a text whose characters beyond ASCII are the same in both cases, as é is in LOWER."""

    def run(value: Value) -> str:
        text = _text(value)
        if not text.isascii() and (
            _UNLIKE.search(text) or any(change(char) != char for char in text if not char.isascii())
        ):
            raise ConversionError(f"{text[:40]!r}: the case of letters beyond ASCII depends on the collation")
        return "".join(change(char) if char.isascii() else char for char in text)

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
        if length < 0:
            return None
        if length > _MAX_LENGTH:
            raise ConversionError(f"LPAD() or RPAD() to {length} characters")
        if len(text) < length and not fill:
            raise ConversionError("LPAD() or RPAD() with nothing to pad with")
        more = (fill * length)[: max(0, length - len(text))]
        return (more + text if left else text + more)[:length]

    return run


def _repeat(value: Value, count: int) -> str:
    text = _text(value)
    if count > _MAX_LENGTH or len(text) * count > _MAX_LENGTH:
        raise ConversionError(f"REPEAT of {count} times {len(text)} characters is too long")
    return text * max(0, count)


def _concat_ws(separator: Value | None, *parts: Value | None) -> str | None:
    return None if separator is None else _text(separator).join(_text(part) for part in parts if part is not None)


def _round(value: Value, digits: int = 0) -> Value:
    if isinstance(value, int):
        unit = 10 ** max(0, -digits)
        return (abs(value) + unit // 2) // unit * unit * (-1 if value < 0 else 1)
    assert isinstance(value, Decimal)
    digits = min(digits, _MOST_DECIMALS)
    scale = min(max(0, -int(value.as_tuple().exponent)), max(0, digits))
    return without_minus_zero(
        value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP).quantize(Decimal(1).scaleb(-scale))
    )


def without_minus_zero(value: Decimal) -> Decimal:
    """Return a DECIMAL as a server has it, where a zero has no sign."""
    return value if value else value.copy_abs()


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


def _date_format(value: Civil, form: str) -> str | None:
    def part(found: re.Match[str]) -> str:
        if found[1] not in _DATE_PARTS:
            raise ConversionError(f"DATE_FORMAT() with %{found[1]}, whose text depends on the session or the week")
        return _DATE_PARTS[found[1]](value)

    return re.sub("%(.)", part, form, flags=re.DOTALL) if form else None


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


def local_time(commit_us: int, offset: int, digits: int) -> Civil:
    """Return the commit time on the clock of the time zone that is `offset` minutes ahead of UTC."""
    unit = 10 ** (6 - digits)
    return shifted(moment_of(commit_us // unit * unit), offset)


def _time_of_day(commit_us: int, offset: int, digits: int) -> timedelta:
    now = local_time(commit_us, offset, digits)
    return timedelta(hours=now.hour, minutes=now.minute, seconds=now.second)


Argument = Callable[[], Value | None]
"""An argument that is computed when it is called."""


def _first_known(*arguments: Argument) -> Value | None:
    return next((value for argument in arguments if (value := argument()) is not None), None)


CALLS: Final[dict[str, Computation]] = {
    "concat": Computation(lambda *parts: "".join(map(_text, parts)), _TEXTS),
    "concat_ws": Computation(_concat_ws, _TEXTS, nulls=True),
    "upper": Computation(_cased(str.upper), _TEXTS, bytes=False),
    "lower": Computation(_cased(str.lower), _TEXTS, bytes=False),
    "char_length": Computation(lambda value: len(_text(value)), _TEXTS, bytes=False),
    "left": Computation(lambda value, n: _text(value)[: max(0, n)], _TEXTS, counts=(1,), bytes=False),
    "right": Computation(lambda value, n: _text(value)[-n:] if n > 0 else "", _TEXTS, counts=(1,), bytes=False),
    "substr": Computation(_substr, _TEXTS, counts=(1, 2), bytes=False),
    "trim": Computation(lambda value: _text(value).strip(" "), _TEXTS),
    "ltrim": Computation(lambda value: _text(value).lstrip(" "), _TEXTS),
    "rtrim": Computation(lambda value: _text(value).rstrip(" "), _TEXTS),
    "reverse": Computation(lambda value: _text(value)[::-1], _TEXTS, bytes=False),
    "repeat": Computation(_repeat, _TEXTS, counts=(1,)),
    "lpad": Computation(_padded(True), _TEXTS, counts=(1,), bytes=False),
    "rpad": Computation(_padded(False), _TEXTS, counts=(1,), bytes=False),
    "hex": Computation(lambda value: f"{value & (1 << 64) - 1:X}", ("int",)),
    "abs": Computation(abs, _NUMBERS),
    "sign": Computation(lambda value: (value > 0) - (value < 0), _NUMBERS),
    "floor": Computation(math.floor, ("int", "decimal"), "int"),
    "ceiling": Computation(math.ceil, ("int", "decimal"), "int"),
    "round": Computation(_round, ("int", "decimal")),
    "greatest": Computation(max, ("int",), "int"),
    "least": Computation(min, ("int",), "int"),
    "year": Computation(lambda value: value.year, _DATES),
    "month": Computation(lambda value: value.month, _DATES),
    "dayofmonth": Computation(lambda value: value.day, _DATES),
    "hour": Computation(lambda value: value.hour, ("datetime",)),
    "minute": Computation(lambda value: value.minute, ("datetime",)),
    "second": Computation(lambda value: value.second, ("datetime",)),
    "date_format": Computation(_date_format, (*_DATES, "text")),
    "json_extract": Computation(_extract, ("json", "text")),
    "json_unquote": Computation(_unquoted, ("json",)),
    "json_array": Computation(lambda *items: Json([_document(item) for item in items]), _MEMBERS, nulls=True),
    "json_object": Computation(_object, _MEMBERS, nulls=True),
}
"""Functions whose arguments are all computed."""

CHOICES: Final[dict[str, Callable[..., Value | None]]] = {
    "if": lambda condition, yes, no: yes() if condition() else no(),
    "ifnull": _first_known,
    "coalesce": _first_known,
    "nullif": lambda value, other: None if (found := value()) == other() else found,
}
"""Functions that compute only the arguments they need."""

CLOCK: Final[dict[str, Callable[[int, int, int], Value]]] = {
    "now": local_time,
    "utc_timestamp": lambda commit_us, offset, digits: local_time(commit_us, 0, digits),
    "curdate": lambda commit_us, offset, digits: local_time(commit_us, offset, 0)._replace(hour=0, minute=0, second=0),
    "curtime": _time_of_day,
    "unix_timestamp": lambda commit_us, offset, digits: commit_us // 1_000_000,
}
"""Functions of the commit time (microseconds), the time zone's offset (minutes), and a number of fraction digits."""

FEWER: Final = {"json_extract": 2}
"""The most arguments of functions that are computed for fewer than MySQL takes."""
