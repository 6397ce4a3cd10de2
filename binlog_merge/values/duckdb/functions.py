"""MySQL's functions as SQL of the engine: only those whose answer is the same whenever they are asked.

A function that is not here, NOW() and RAND() among them, is refused. Source: refman, chapter "Functions and Operators".

Source: refman, "Date and Time Functions".
"""

import re
from dataclasses import replace
from typing import Final

from binlog_merge.values.duckdb.arithmetic import bounded, finite, operand
from binlog_merge.values.duckdb.compare import Args, Function, as_model, chosen, comparable, unified
from binlog_merge.values.duckdb.piece import (
    LITERAL,
    ExpressionError,
    Sql,
    boolean,
    clock,
    condition,
    double,
    moment,
    quoted,
)
from binlog_merge.values.duckdb.text import TEXTS
from snapshot_store.mysql.sql.functions import MANY, function
from snapshot_store.mysql.sql.session import DdlSession

_FIRST_DAY = "DATE '0001-01-01'"
"""Which is day 366 of MySQL's count."""


def _digits(piece: Sql, session: DdlSession) -> tuple[str, str]:
    """Return SQL of the digits YYYYMMDD and hhmmss.ffffff of a moment."""
    text = moment(piece, session).text
    whole = f"floor(({text}) / 1000000)::HUGEINT"
    return whole, f"(({text}) - {whole} * 1000000)"


def _date(piece: Sql, session: DdlSession) -> str:
    """Return SQL of a day; NULL for one that is in no calendar."""
    day, _ = _digits(piece, session)
    made = "TRY(make_date((d // 10000)::BIGINT, (d // 100 % 100)::BIGINT, (d % 100)::BIGINT))"
    return f"list_transform([{day}], lambda d: {made})[1]"  # the engine TRYs nothing that may stop itself


def _days(piece: Sql, session: DdlSession) -> str:
    return f"(date_diff('day', {_FIRST_DAY}, {_date(piece, session)}) + 366)::HUGEINT"


def _seconds(digits: str) -> str:
    whole = f"trunc({digits})::HUGEINT"
    return f"({whole} // 10000 * 3600 + {whole} // 100 % 100 * 60 + {whole} % 100)"


def _of_day(template: str) -> Function:
    return lambda args, session: Sql(f"({template.format(_date(args[0], session))})::HUGEINT", "int", unsigned=False)


def _to_seconds(args: Args, session: DdlSession) -> Sql:
    return Sql(f"({_days(args[0], session)} * 86400 + {_seconds(_digits(args[0], session)[1])})", "int", unsigned=False)


def _yearweek(args: Args, session: DdlSession) -> Sql:
    """Weeks begin on Sunday, the first of a year on its first one: a week is of its Sunday's year."""
    if len(args) > 1 and args[1].constant != "0":
        raise ExpressionError("YEARWEEK() in another mode than 0")
    day = _date(args[0], session)
    sunday = f"({day} - dayofweek({day})::INTEGER)"
    return Sql(f"(year({sunday}) * 100 + (dayofyear({sunday}) + 6) // 7)::HUGEINT", "int", unsigned=False)


def _quarter(args: Args, session: DdlSession) -> Sql:
    return Sql(f"(({_digits(args[0], session)[0]} // 100 % 100 + 2) // 3)::HUGEINT", "int", unsigned=False)


def _datediff(args: Args, session: DdlSession) -> Sql:
    return Sql(f"({_days(args[0], session)} - {_days(args[1], session)})", "int", unsigned=False)


def _time(piece: Sql, session: DdlSession) -> str:
    """Return SQL of the digits hhmmss.ffffff of a time, or of a moment's time of day."""
    if piece.kind not in ("date", "datetime", "time", "null") and piece.constant is None:
        raise ExpressionError(f"the time of a {piece.kind}")
    return _digits(piece, session)[1] if piece.kind in ("date", "datetime") else clock(piece).text


def _time_to_sec(args: Args, session: DdlSession) -> Sql:
    return Sql(_seconds(_time(args[0], session)), "int", unsigned=False)


def _microsecond(args: Args, session: DdlSession) -> Sql:
    text = f"abs({_time(args[0], session)})"
    return Sql(f"(({text} - floor({text})) * 1000000)::HUGEINT", "int", unsigned=False)


DATES: Final[dict[str, Function]] = {
    "to_days": lambda args, session: Sql(_days(args[0], session), "int", unsigned=False),
    "to_seconds": _to_seconds,
    "datediff": _datediff,
    "dayofweek": _of_day("dayofweek({}) + 1"),
    "weekday": _of_day("isodow({}) - 1"),
    "dayofyear": _of_day("dayofyear({})"),
    "quarter": _quarter,
    "yearweek": _yearweek,
    "time_to_sec": _time_to_sec,
    "microsecond": _microsecond,
}


def call(name: str, args: Args, session: DdlSession) -> Sql:
    """Return a call as SQL. Raises ExpressionError for an unknown function or a wrong number of arguments."""
    build = CALLS.get(name)
    if build is None:
        raise ExpressionError(f"the function {name}() is not known, or not the same every time")
    if not function(name).takes(len(args), FEWER.get(name, MANY)):
        raise ExpressionError(f"{name}() with {len(args)} arguments")
    return build(args, session)


def _no_moment(piece: Sql) -> Sql:
    """Return a piece as an operand. Raises ExpressionError for a date and time, whose DOUBLE has its own fraction."""
    if piece.kind in ("datetime", "time"):
        raise ExpressionError(f"a {piece.kind} as a number")
    return Sql(double(piece), "double") if piece.kind in ("binary", "date") else operand(piece)


def _abs(args: Args, session: DdlSession) -> Sql:
    piece = _no_moment(args[0])
    made = f"abs({piece.text})"
    if piece.kind == "int":
        return bounded(made, piece.unsigned, piece.untold)
    return Sql(made, piece.kind, scale=piece.scale, untold=piece.untold, shorter=piece.shorter)


def _sign(args: Args, session: DdlSession) -> Sql:
    return Sql(f"sign({_no_moment(args[0]).text})::HUGEINT", "int", unsigned=False)


def _rounded(name: str) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        piece = _no_moment(args[0])
        if piece.kind == "int":
            return replace(piece, constant=None, year=False, strength=LITERAL)
        made = f"{name}({piece.text})"
        if piece.kind == "decimal":
            return Sql(f"({made})::HUGEINT", "int", unsigned=piece.unsigned)
        return Sql(made, "double")

    return build


def _round(args: Args, session: DdlSession) -> Sql:
    piece = _no_moment(args[0])
    places = args[1].constant if len(args) > 1 and args[1].kind == "int" else None if len(args) > 1 else "0"
    if places is None or not places.lstrip("-").isdecimal():
        raise ExpressionError("ROUND() to a number of places that is no constant")
    digits = int(places)
    if piece.kind == "double":
        if not 0 <= digits <= 15:
            raise ExpressionError(f"ROUND() of a FLOAT or DOUBLE to {digits} digits")
        raised = f"(n * 1e{digits}::DOUBLE)"
        body = f"CASE WHEN isfinite({raised}) THEN round_even({raised}, 0) / 1e{digits}::DOUBLE ELSE n END"
        return Sql(f"list_transform([{piece.text}], lambda n: {body})[1]", "double")
    if piece.kind == "int" and digits >= 0:
        return replace(piece, constant=None, year=False, strength=LITERAL)
    scale = min(max(digits, 0), piece.scale)
    if digits < 0:
        text = f"round(({piece.text})::DECIMAL(38,{piece.scale}), {max(digits, -38)})"
        if piece.kind == "int":
            return bounded(f"({text})::HUGEINT", piece.unsigned, piece.untold)
        return Sql(text, "decimal", untold=piece.untold)
    made = f"round({piece.text}, {scale})"
    return Sql(made, "decimal", scale=scale, untold=piece.untold, shorter=piece.shorter)


def _if(args: Args, session: DdlSession) -> Sql:
    (yes, no), model = chosen(args[1:], session)
    return as_model(model, f"(CASE WHEN {condition(args[0])} THEN {yes} ELSE {no} END)")


def _coalesce(args: Args, session: DdlSession) -> Sql:
    texts, model = unified(args, session)
    return as_model(model, f"coalesce({', '.join(texts)})")


def _nullif(args: Args, session: DdlSession) -> Sql:
    if args[0].numbers is not None:
        raise ExpressionError("NULLIF() of an ENUM or SET")
    if args[0].kind != args[1].kind:
        raise ExpressionError("NULLIF() of values of different types")
    if any(one.year and 0 < int(two.constant or 0) < 100 for one, two in (args, args[::-1])):
        raise ExpressionError("NULLIF() of a YEAR and a number of two digits; write all four")
    one, two = comparable(args[0], args[1], False, session)
    return as_model(args[0], f"(CASE WHEN {one} = {two} THEN NULL ELSE {args[0].text} END)")


def _extreme(name: str) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        texts, model = unified(args, session)
        if model.kind == "string":
            raise ExpressionError(f"{name}() of strings")
        known = " AND ".join(f"{text} IS NOT NULL" for text in texts)
        return as_model(model, f"(CASE WHEN {known} THEN {name}({', '.join(texts)}) END)")

    return build


def _part(first: int, size: int) -> Function:
    """Return a part of a date's digits: YEAR, MONTH … are digits, also of 0000-00-00."""

    def build(args: Args, session: DdlSession) -> Sql:
        if args[0].kind == "int":
            raise ExpressionError("a part of a date that is written as a number; write it as a text")
        digits = f"lpad((floor({moment(args[0], session).text})::HUGEINT)::VARCHAR, 14, '0')"
        return Sql(f"substr({digits}, {first}, {size})::HUGEINT", "int", unsigned=False)

    return build


def _clock_part(divisor: int, modulus: int) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        piece = args[0]
        if piece.kind not in ("date", "datetime", "time", "null") and piece.constant is None:
            raise ExpressionError(f"the hour, minute or second of a {piece.kind}")
        text = piece.text if piece.kind in ("date", "datetime") else clock(piece).text
        whole = f"floor(abs({text}))::HUGEINT"
        digits = f"({whole} % 1000000)" if piece.kind in ("date", "datetime") or modulus else whole
        return Sql(f"({digits} // {divisor}{f' % {modulus}' if modulus else ''})", "int", unsigned=False)

    return build


def _json_extract(args: Args, session: DdlSession) -> Sql:
    document, path = args[0], args[1].constant
    if document.kind != "json" or path is None:
        raise ExpressionError("a JSON path that is no constant, or not of a JSON value")
    if "*" in path or "**" in path or " to " in path or "last" in path or not path.startswith("$"):
        raise ExpressionError(f"the JSON path {path!r}: only members and places are understood")
    found = document.text
    for step in re.findall(r'\.(?:"(?:[^"\\]|\\.)*"|[^.\[]+)|\[[^\]]*\]', path[1:]):
        inner = f"json_extract({found}, {quoted('$' + step)})::VARCHAR"
        if step == "[0]":  # a value that is no array is an array of itself
            inner = f"(CASE WHEN json_type({found}) = 'ARRAY' THEN {inner} ELSE {found} END)"
        found = inner
    return Sql(found if found == document.text else _laid_out(found), "json")


def _laid_out(text: str) -> str:
    """Return SQL of a part of a document as a server prints it: with a space behind each comma and colon."""
    pieces = """regexp_extract_all(t, '"(?:[^"\\\\]|\\\\.)*"|[^"]')"""
    shown = "CASE p WHEN ',' THEN ', ' WHEN ':' THEN ': ' WHEN ' ' THEN '' ELSE p END"
    spaced = f"list_transform({pieces}, lambda p: {shown})"
    body = f"CASE WHEN regexp_matches(t, '^[{{\\[]') THEN array_to_string({spaced}, '') ELSE t END"
    return f"list_transform([{text}], lambda t: {body})[1]"


def _json_unquote(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind not in ("json", "string", "null"):
        raise ExpressionError(f"JSON_UNQUOTE() of a {piece.kind}")
    if piece.kind != "json":
        raise ExpressionError("JSON_UNQUOTE() of a text that is no JSON value")
    text = f"(CASE WHEN json_type({piece.text}) = 'VARCHAR' THEN json_extract_string({piece.text}, '$') "
    return Sql(f"{text}ELSE ({piece.text})::VARCHAR END)", "string", "utf8mb4_bin")


def _power(args: Args, session: DdlSession) -> Sql:
    return Sql(finite(f"pow({double(args[0])}, {double(args[1])})"), "double")


def _sqrt(args: Args, session: DdlSession) -> Sql:
    value = double(args[0])
    return Sql(f"(CASE WHEN {value} >= 0 THEN sqrt({value}) END)", "double")


def _isnull(args: Args, session: DdlSession) -> Sql:
    return boolean(f"({args[0].text} IS NULL)")


CALLS: Final[dict[str, Function]] = {
    **TEXTS,
    "abs": _abs,
    "ceiling": _rounded("ceil"),
    "floor": _rounded("floor"),
    "round": _round,
    "sign": _sign,
    "pow": _power,
    "sqrt": _sqrt,
    "if": _if,
    "ifnull": _coalesce,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "isnull": _isnull,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "year": _part(1, 4),
    "month": _part(5, 2),
    "dayofmonth": _part(7, 2),
    "hour": _clock_part(10000, 0),
    "minute": _clock_part(100, 100),
    "second": _clock_part(1, 100),
    **DATES,
    "json_extract": _json_extract,
    "json_unquote": _json_unquote,
}
"""What makes the SQL of a call, by the name that the server prints."""

FEWER: Final = {"json_extract": 2, "regexp_like": 2}
"""The most arguments of functions that are computed for fewer than MySQL takes."""

OWN_NULLS: Final = ("if", "ifnull", "coalesce", "nullif", "isnull", "concat_ws")
"""Functions that may have a value though one of their arguments is NULL."""

OTHER_DIGITS: Final = ("pow", "round", "sqrt")
"""Functions whose last digits may differ from those that a server computes."""
