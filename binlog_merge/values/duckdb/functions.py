"""MySQL's functions as SQL of the engine: only those whose answer is the same whenever they are asked.

A function that is not here, NOW() and RAND() among them, is refused. Source: refman, chapter "Functions and Operators".
"""

import re
from typing import Final

from binlog_merge.values.duckdb.compare import comparable
from binlog_merge.values.duckdb.dates import DATES
from binlog_merge.values.duckdb.piece import (
    ExpressionError,
    Sql,
    boolean,
    clock,
    condition,
    double,
    moment,
    number,
    quoted,
    string,
)
from binlog_merge.values.duckdb.text import TEXTS
from binlog_merge.values.duckdb.unify import Args, Function, as_model, unified
from snapshot_store.mysql.sql.functions import MANY, function
from snapshot_store.mysql.sql.session import DdlSession


def call(name: str, args: Args, session: DdlSession) -> Sql:
    """Return a call as SQL. Raises ExpressionError for an unknown function or a wrong number of arguments."""
    build = CALLS.get(name)
    if build is None:
        raise ExpressionError(f"the function {name}() is not known, or not the same every time")
    if not function(name).takes(len(args), FEWER.get(name, MANY)):
        raise ExpressionError(f"{name}() with {len(args)} arguments")
    return build(args, session)


def _numeric(template: str, kind: str | None = None) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        pieces = [number(arg) for arg in args]
        made = template.format(*(piece.text for piece in pieces))
        return Sql(made, kind or pieces[0].kind, scale=pieces[0].scale)

    return build


def _rounded(name: str) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        piece = number(args[0])
        if piece.kind == "int":
            return piece
        made = f"{name}({piece.text})"
        return Sql(f"({made})::HUGEINT", "int") if piece.kind == "decimal" else Sql(made, "double")

    return build


def _round(args: Args, session: DdlSession) -> Sql:
    piece = number(args[0])
    places = args[1].constant if len(args) > 1 else "0"
    if places is None or not places.lstrip("-").isdecimal():
        raise ExpressionError("ROUND() to a number of places that is no constant")
    return as_model(piece, f"round({piece.text}, {int(places)})")


def _if(args: Args, session: DdlSession) -> Sql:
    (yes, no), model = unified(args[1:], session)
    return as_model(model, f"(CASE WHEN {condition(args[0])} THEN {yes} ELSE {no} END)")


def _coalesce(args: Args, session: DdlSession) -> Sql:
    texts, model = unified(args, session)
    return as_model(model, f"coalesce({', '.join(texts)})")


def _nullif(args: Args, session: DdlSession) -> Sql:
    if args[0].numbers is not None:
        raise ExpressionError("NULLIF() of an ENUM or SET")
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
        digits = f"lpad((floor({moment(args[0], session).text})::HUGEINT)::VARCHAR, 14, '0')"
        return Sql(f"substr({digits}, {first}, {size})::HUGEINT", "int")

    return build


def _clock_part(divisor: int, modulus: int) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        piece = args[0]
        if piece.kind == "string" and piece.constant is None:
            raise ExpressionError("the hour, minute or second of a string")
        text = piece.text if piece.kind in ("date", "datetime") else clock(piece).text
        whole = f"floor(abs({text}))::HUGEINT"
        digits = f"({whole} % 1000000)" if piece.kind in ("date", "datetime") or modulus else whole
        return Sql(f"({digits} // {divisor}{f' % {modulus}' if modulus else ''})", "int")

    return build


def _json_extract(args: Args, session: DdlSession) -> Sql:
    document, path = args[0], args[1].constant
    if document.kind not in ("json", "string") or path is None:
        raise ExpressionError("a JSON path that is no constant, or not of a JSON value")
    if "*" in path or "**" in path or " to " in path or "last" in path or not path.startswith("$"):
        raise ExpressionError(f"the JSON path {path!r}: only members and places are understood")
    found = document.text
    for step in re.findall(r'\.(?:"(?:[^"\\]|\\.)*"|[^.\[]+)|\[[^\]]*\]', path[1:]):
        inner = f"json_extract({found}, {quoted('$' + step)})::VARCHAR"
        if step == "[0]":  # a value that is no array is an array of itself
            inner = f"(CASE WHEN json_type({found}) = 'ARRAY' THEN {inner} ELSE {found} END)"
        found = inner
    return Sql(found if found != document.text else f"json({found})::VARCHAR", "json")


def _json_unquote(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind != "json":
        return string(piece)
    # The engine has SQL's NULL for JSON's.
    text = f"(CASE WHEN json_type({piece.text}) = 'NULL' THEN 'null' ELSE json_extract_string({piece.text}, '$') END)"
    return Sql(text, "string", "utf8mb4_bin")


def _power(args: Args, session: DdlSession) -> Sql:
    return Sql(f"pow({double(args[0])}, {double(args[1])})", "double")


def _sqrt(args: Args, session: DdlSession) -> Sql:
    value = double(args[0])
    return Sql(f"(CASE WHEN {value} >= 0 THEN sqrt({value}) END)", "double")


def _isnull(args: Args, session: DdlSession) -> Sql:
    return boolean(f"({args[0].text} IS NULL)")


CALLS: Final[dict[str, Function]] = {
    **TEXTS,
    "abs": _numeric("abs({0})"),
    "ceiling": _rounded("ceil"),
    "floor": _rounded("floor"),
    "round": _round,
    "sign": _numeric("sign({0})::HUGEINT", "int"),
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

OTHER_DIGITS: Final = ("pow", "round", "sqrt")
"""Functions whose last digits may differ from those that a server computes."""
