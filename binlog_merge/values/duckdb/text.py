"""MySQL's functions of strings, as SQL of the engine.

Source: refman, "String Functions and Operators", "Regular Expressions".
"""

from typing import Final

from binlog_merge.values.duckdb.collations import sort_key, sought_and_there
from binlog_merge.values.duckdb.compare import common_collation, comparable
from binlog_merge.values.duckdb.piece import NULL, ExpressionError, Sql, boolean, clamped, number, string
from binlog_merge.values.duckdb.unify import Args, Function, as_model, ruling
from snapshot_store.mysql.sql.session import DdlSession


def _text(template: str, kind: str = "string") -> Function:
    """Return a function of strings that the engine has too; the result keeps the first one's collation."""

    def build(args: Args, session: DdlSession) -> Sql:
        pieces = [string(arg) for arg in args]
        made = template.format(*(piece.text for piece in pieces))
        return as_model(pieces[0], made) if kind == "string" else Sql(f"({made})::HUGEINT", kind)

    return build


_MOST = 1 << 31
"""More characters than a string has."""


def _concat(args: Args, session: DdlSession) -> Sql:
    pieces = [string(arg) for arg in args]
    return as_model(ruling(pieces) if any(p.kind == "string" for p in pieces) else NULL, _joined(pieces))


def _joined(pieces: Args) -> str:
    return "(" + " || ".join(piece.text for piece in pieces) + ")"


def _concat_ws(args: Args, session: DdlSession) -> Sql:
    pieces = [string(arg) for arg in args]
    separator = pieces[0].text
    made = f"concat_ws({', '.join(piece.text for piece in pieces)})"
    return as_model(ruling(pieces), f"(CASE WHEN {separator} IS NOT NULL THEN {made} END)")


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
    needle, hay = sought_and_there(sought.text, within.text, rules)
    if len(args) == 2:
        return Sql(f"instr({hay}, {needle})::HUGEINT", "int")
    start = number(args[2]).text
    found = f"instr(substr({hay}, ({start})::BIGINT), {needle})"
    return Sql(f"(CASE WHEN {found} = 0 THEN 0 ELSE {found} + ({start}) - 1 END)::HUGEINT", "int")


def _find_in_set(args: Args, session: DdlSession) -> Sql:
    sought, within = string(args[0]), string(args[1])
    # A constant is sought among the members of a SET column as they are written.
    exact = bool(within.numbers) and sought.constant is not None
    rules = "binary" if exact else common_collation(sought, within).collation
    members = f"list_transform(string_split({within.text}, ','), lambda m: {sort_key('m', rules, False, padded=False)})"
    found = f"coalesce(list_position({members}, {sort_key(sought.text, rules, False, padded=False)}), 0)"
    known = f"{sought.text} IS NOT NULL AND {within.text} IS NOT NULL"
    return Sql(f"(CASE WHEN {known} THEN CASE WHEN {within.text} = '' THEN 0 ELSE {found} END END)::HUGEINT", "int")


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


def _hex(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind in ("decimal", "double"):
        raise ExpressionError("HEX() of a number with a fraction")
    if piece.kind in ("int", "bool"):
        return Sql(f"format('{{:X}}', ({number(piece).text})::BIGINT)", "string")
    return Sql(f"hex({piece.text})" if piece.kind == "binary" else f"hex(encode({string(piece).text}))", "string")


def _substring(args: Args, session: DdlSession) -> Sql:
    """Return SUBSTR: a start of 0 gives nothing, a negative one counts from the end."""
    piece, start = string(args[0]), _place(args[1])
    length = f", {_place(args[2], 0)}" if len(args) > 2 else ""
    made = f"substr({piece.text}, {start}{length})"
    outside = f"{start} = 0 OR {start} < -length({piece.text})"
    known = f"{piece.text} IS NOT NULL AND {start} IS NOT NULL"
    return as_model(piece, f"(CASE WHEN {known} THEN CASE WHEN {outside} THEN '' ELSE {made} END END)")


def _ending(name: str) -> Function:
    """Return LEFT or RIGHT."""

    def build(args: Args, session: DdlSession) -> Sql:
        piece = string(args[0])
        return as_model(piece, f"{name}({piece.text}, {_place(args[1], 0)})")

    return build


def _place(piece: Sql, least: int = -_MOST) -> str:
    """Return SQL of a number of characters, within what strings have."""
    return f"{clamped(f'round({number(piece).text})', str(least), str(_MOST))}::BIGINT"


TEXTS: Final[dict[str, Function]] = {
    "lower": _text("lower({0})"),
    "upper": _text("upper({0})"),
    "char_length": _text("length({0})", "int"),
    "length": _length,
    "left": _ending("left"),
    "right": _ending("right"),
    "reverse": _text("reverse({0})"),
    "trim": _text("trim({0}, ' ')"),
    "ltrim": _text("ltrim({0}, ' ')"),
    "rtrim": _text("rtrim({0}, ' ')"),
    "replace": _text("replace({0}, {1}, {2})"),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "locate": _locate,
    "find_in_set": _find_in_set,
    "strcmp": _strcmp,
    "hex": _hex,
    "regexp_like": _regexp,
    "substr": _substring,
}
