"""MySQL's functions in filter expressions: only those whose answer is the same whenever they are asked.

A function that is not here, NOW() and RAND() among them, is refused. Source: refman, chapter "Functions and Operators".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from binlog_merge.filters.expr_collations import likeness
from binlog_merge.filters.expr_dates import DATES
from binlog_merge.filters.expr_sql import (
    NULL,
    ExpressionError,
    Sql,
    boolean,
    clock,
    common_collation,
    comparable,
    condition,
    double,
    moment,
    number,
    quoted,
    string,
)
from snapshot_store.ddl.session import DdlSession

Args = Sequence[Sql]
Function = Callable[[Args, DdlSession], Sql]


def call(name: str, args: Args, session: DdlSession) -> Sql:
    """Return a call as SQL. Raises ExpressionError for an unknown function or a wrong number of arguments."""
    if name not in FUNCTIONS:
        raise ExpressionError(f"the function {name}() is not known, or not the same every time")
    least, most, function = FUNCTIONS[name]
    if not least <= len(args) <= most:
        raise ExpressionError(f"{name}() with {len(args)} arguments")
    return function(args, session)


def unified(pieces: Args, session: DdlSession) -> tuple[list[str], Sql]:
    """Return pieces as SQL of one type, and a model of it: of what IF, CASE and COALESCE give."""
    kinds = {piece.kind for piece in pieces if piece.kind != "null"}
    if not kinds:
        return [piece.text for piece in pieces], NULL
    if kinds == {"string"}:
        rule = _rule(pieces)
        return [piece.text for piece in pieces], rule
    if len(kinds) == 1 and kinds <= {"date", "datetime", "time", "json", "binary", "bool"}:
        model = next(piece for piece in pieces if piece.kind in kinds)
        return [piece.text for piece in pieces], replace(model, constant=None)
    if kinds <= {"date", "datetime"}:
        return [piece.text for piece in pieces], Sql("", "datetime")
    if kinds <= {"int", "bool", "decimal", "double"}:
        return [number(p).text if p.kind != "null" else p.text for p in pieces], _wider(pieces)
    texts = [string(piece) for piece in pieces]
    return [piece.text for piece in texts], _rule(texts)


def _rule(pieces: Args) -> Sql:
    strings = [piece for piece in pieces if piece.kind == "string"]
    rule = strings[0]
    for piece in strings[1:]:
        rule = common_collation(rule, piece)
    return replace(rule, constant=None)


def _wider(pieces: Args) -> Sql:
    kinds = {piece.kind for piece in pieces}
    kind = "double" if "double" in kinds else "decimal" if "decimal" in kinds else "int"
    return Sql("", kind, scale=max(piece.scale for piece in pieces))


def _as(model: Sql, text: str) -> Sql:
    return replace(model, text=text, constant=None, numbers=None)


def _text(template: str, kind: str = "string") -> Function:
    """Return a function of strings that the engine has too; the result keeps the first string's collation."""

    def build(args: Args, session: DdlSession) -> Sql:
        pieces = [string(args[0]), *args[1:]]
        texts = [pieces[0].text, *(number(a).text if a.kind != "string" else a.text for a in pieces[1:])]
        made = template.format(*texts)
        return _as(pieces[0], made) if kind == "string" else Sql(f"({made})::HUGEINT", kind)

    return build


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
    return _as(piece, f"round({piece.text}, {int(places)})")


def _concat(args: Args, session: DdlSession) -> Sql:
    pieces = [string(arg) for arg in args]
    return _as(_rule(pieces) if any(p.kind == "string" for p in pieces) else NULL, _joined(pieces))


def _joined(pieces: Args) -> str:
    return "(" + " || ".join(piece.text for piece in pieces) + ")"


def _concat_ws(args: Args, session: DdlSession) -> Sql:
    pieces = [string(arg) for arg in args]
    separator = pieces[0].text
    made = f"concat_ws({', '.join(piece.text for piece in pieces)})"
    return _as(_rule(pieces), f"(CASE WHEN {separator} IS NOT NULL THEN {made} END)")


def _length(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind == "binary":
        return Sql(f"octet_length({piece.text})::HUGEINT", "int")
    piece = string(piece)
    if piece.strength == 2 and not piece.collation.startswith(("utf8", "ascii")):
        raise ExpressionError("LENGTH() in bytes of a column that is not in UTF-8; CHAR_LENGTH() counts characters")
    return Sql(f"octet_length(encode({piece.text}))::HUGEINT", "int")


def _locate(args: Args, session: DdlSession) -> Sql:
    sought, within = string(args[0]), string(args[1])
    rules = common_collation(sought, within).collation
    needle, hay = likeness(sought.text, rules), likeness(within.text, rules)
    if len(args) == 2:
        return Sql(f"instr({hay}, {needle})::HUGEINT", "int")
    start = number(args[2]).text
    found = f"instr(substr({hay}, ({start})::BIGINT), {needle})"
    return Sql(f"(CASE WHEN {found} = 0 THEN 0 ELSE {found} + ({start}) - 1 END)::HUGEINT", "int")


def _find_in_set(args: Args, session: DdlSession) -> Sql:
    sought, within = string(args[0]), string(args[1])
    # A constant is sought among the members of a SET column as they are written.
    exact = within.numbers is not None and sought.constant is not None
    rules = "binary" if exact else common_collation(sought, within).collation
    members = f"string_split({likeness(within.text, rules)}, ',')"
    found = f"coalesce(list_position({members}, {likeness(sought.text, rules)}), 0)"
    known = f"{sought.text} IS NOT NULL AND {within.text} IS NOT NULL"
    return Sql(f"(CASE WHEN {known} THEN CASE WHEN {within.text} = '' THEN 0 ELSE {found} END END)::HUGEINT", "int")


def _if(args: Args, session: DdlSession) -> Sql:
    (yes, no), model = unified(args[1:], session)
    return _as(model, f"(CASE WHEN {condition(args[0])} THEN {yes} ELSE {no} END)")


def _coalesce(args: Args, session: DdlSession) -> Sql:
    texts, model = unified(args, session)
    return _as(model, f"coalesce({', '.join(texts)})")


def _nullif(args: Args, session: DdlSession) -> Sql:
    one, two = comparable(args[0], args[1], False, session)
    return _as(args[0], f"(CASE WHEN {one} = {two} THEN NULL ELSE {args[0].text} END)")


def _extreme(name: str) -> Function:
    def build(args: Args, session: DdlSession) -> Sql:
        texts, model = unified(args, session)
        if model.kind == "string":
            raise ExpressionError(f"{name}() of strings")
        known = " AND ".join(f"{text} IS NOT NULL" for text in texts)
        return _as(model, f"(CASE WHEN {known} THEN {name}({', '.join(texts)}) END)")

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
    return Sql(f"json_extract({document.text}, {quoted(path)})::VARCHAR", "json")


def _json_unquote(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind != "json":
        return string(piece)
    return Sql(f"json_extract_string({piece.text}, '$')", "string", "utf8mb4_bin", strength=2)


def _regexp(args: Args, session: DdlSession) -> Sql:
    text, pattern = string(args[0]), string(args[1])
    rules = common_collation(text, pattern).collation
    flags = "is" if rules.endswith("_ci") else "s"
    return boolean(f"regexp_matches({text.text}, {pattern.text}, '{flags}')")


def _strcmp(args: Args, session: DdlSession) -> Sql:
    one, two = comparable(string(args[0]), string(args[1]), True, session)
    known = f"{args[0].text} IS NOT NULL AND {args[1].text} IS NOT NULL"
    return Sql(
        f"(CASE WHEN {known} THEN CASE WHEN {one} < {two} THEN -1 WHEN {one} = {two} THEN 0 ELSE 1 END END)", "int"
    )


def _power(args: Args, session: DdlSession) -> Sql:
    return Sql(f"pow({double(args[0])}, {double(args[1])})", "double")


def _sqrt(args: Args, session: DdlSession) -> Sql:
    value = double(args[0])
    return Sql(f"(CASE WHEN {value} >= 0 THEN sqrt({value}) END)", "double")


def _hex(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind in ("int", "bool"):
        return Sql(f"format('{{:X}}', ({number(piece).text})::BIGINT)", "string")
    return Sql(f"hex({piece.text})" if piece.kind == "binary" else f"hex(encode({string(piece).text}))", "string")


def _isnull(args: Args, session: DdlSession) -> Sql:
    return boolean(f"({args[0].text} IS NULL)")


FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    "abs": (1, 1, _numeric("abs({0})")),
    "ceiling": (1, 1, _rounded("ceil")),
    "ceil": (1, 1, _rounded("ceil")),
    "floor": (1, 1, _rounded("floor")),
    "round": (1, 2, _round),
    "sign": (1, 1, _numeric("sign({0})::HUGEINT", "int")),
    "pow": (2, 2, _power),
    "power": (2, 2, _power),
    "sqrt": (1, 1, _sqrt),
    "lower": (1, 1, _text("lower({0})")),
    "lcase": (1, 1, _text("lower({0})")),
    "upper": (1, 1, _text("upper({0})")),
    "ucase": (1, 1, _text("upper({0})")),
    "char_length": (1, 1, _text("length({0})", "int")),
    "character_length": (1, 1, _text("length({0})", "int")),
    "length": (1, 1, _length),
    "octet_length": (1, 1, _length),
    "left": (2, 2, _text("left({0}, greatest(({1})::BIGINT, 0))")),
    "right": (2, 2, _text("right({0}, greatest(({1})::BIGINT, 0))")),
    "reverse": (1, 1, _text("reverse({0})")),
    "trim": (1, 1, _text("trim({0}, ' ')")),
    "ltrim": (1, 1, _text("ltrim({0}, ' ')")),
    "rtrim": (1, 1, _text("rtrim({0}, ' ')")),
    "replace": (3, 3, _text("replace({0}, {1}, {2})")),
    "concat": (1, 99, _concat),
    "concat_ws": (2, 99, _concat_ws),
    "locate": (2, 3, _locate),
    "find_in_set": (2, 2, _find_in_set),
    "strcmp": (2, 2, _strcmp),
    "hex": (1, 1, _hex),
    "regexp_like": (2, 2, _regexp),
    "if": (3, 3, _if),
    "ifnull": (2, 2, _coalesce),
    "coalesce": (1, 99, _coalesce),
    "nullif": (2, 2, _nullif),
    "isnull": (1, 1, _isnull),
    "greatest": (2, 99, _extreme("greatest")),
    "least": (2, 99, _extreme("least")),
    "year": (1, 1, _part(1, 4)),
    "month": (1, 1, _part(5, 2)),
    "dayofmonth": (1, 1, _part(7, 2)),
    "day": (1, 1, _part(7, 2)),
    "hour": (1, 1, _clock_part(10000, 0)),
    "minute": (1, 1, _clock_part(100, 100)),
    "second": (1, 1, _clock_part(1, 100)),
    **DATES,
    "json_extract": (2, 2, _json_extract),
    "json_unquote": (1, 1, _json_unquote),
}


def substring(args: Args) -> Sql:
    """Return SUBSTR: a start of 0 gives nothing, a negative one counts from the end."""
    piece, start = string(args[0]), number(args[1]).text
    length = f", greatest(({number(args[2]).text})::BIGINT, 0)" if len(args) > 2 else ""
    made = f"substr({piece.text}, ({start})::BIGINT{length})"
    outside = f"({start}) = 0 OR ({start}) < -length({piece.text})"
    known = f"{piece.text} IS NOT NULL AND ({start}) IS NOT NULL"
    return _as(piece, f"(CASE WHEN {known} THEN CASE WHEN {outside} THEN '' ELSE {made} END END)")


FUNCTIONS["substr"] = (2, 3, lambda args, session: substring(args))
