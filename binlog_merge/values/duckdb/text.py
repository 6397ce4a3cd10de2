"""MySQL's functions of strings, as SQL of the engine.

Source: refman, "String Functions and Operators", "Regular Expressions".
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from binlog_merge.values.duckdb.collations import place_in, sort_key
from binlog_merge.values.duckdb.compare import Args, Function, as_model, common_collation, comparable, ruling
from binlog_merge.values.duckdb.piece import (
    NULL,
    NUMERIC,
    ExpressionError,
    Sql,
    boolean,
    clamped,
    number,
    stop,
    string,
    unhex,
)
from snapshot_store.mysql.sql.session import DdlSession


def _text(template: str, kind: str = "string") -> Function:
    """Return a function of strings that the engine has too; the result has the collation that rules them all."""

    def build(args: Args, session: DdlSession) -> Sql:
        pieces = [string(arg) for arg in args]
        made = template.format(*(piece.text for piece in pieces))
        if kind != "string":
            return Sql(f"({made})::HUGEINT", kind, unsigned=False)
        return as_model(ruling(pieces) if any(p.kind == "string" for p in pieces) else NULL, made)

    return build


def _replace(args: Args, session: DdlSession) -> Sql:
    """Return REPLACE, which compares bytes, and whose result has the first text's collation."""
    pieces = [string(arg) for arg in args]
    known = [piece for piece in pieces if piece.kind != "null"]
    if len(known) < len(pieces):
        if known:
            ruling(known)
        return NULL
    if ruling(pieces).collation != pieces[0].collation:
        raise ExpressionError("REPLACE() of texts of different collations")
    return as_model(pieces[0], f"replace({', '.join(piece.text for piece in pieces)})")


def trimmed(side: str, sought: Sql, piece: Sql) -> Sql:
    """Return TRIM of a text at one side ("leading", "trailing") or at both; bytes are compared."""
    pieces = [string(piece), string(sought)]
    if any(part.kind == "null" for part in pieces):
        return NULL
    made, again = pieces[0].text, f"'(?:' || regexp_escape({pieces[1].text}) || ')*'"
    if side != "trailing":
        made = f"regexp_replace({made}, '^' || {again}, '')"
    if side != "leading":
        made = f"regexp_replace({made}, {again} || '$', '')"
    return as_model(ruling(pieces), made)


def _cased(name: str) -> Function:
    """Return UPPER or LOWER; the engine stops at a character whose other case may be another one on a server."""

    def build(args: Args, session: DdlSession) -> Sql:
        piece = string(args[0])
        if piece.collation == "binary":  # bytes have no case
            return as_model(piece, piece.text)
        made = "replace(upper(t), '\u1e9e', '\u00df')" if name == "upper" else "lower(t)"
        known = _CASED.get(piece.charset, _CASED_ASCII)
        message = f"{name.upper()} is not known for this text in {piece.charset}: "
        checked = f"CASE WHEN t IS NULL OR regexp_full_match(t, '(?s)[{known}]*') THEN {made} "
        checked += f"ELSE {stop(message, 'VARCHAR', 't')} END"
        return as_model(piece, f"list_transform([{piece.text}], lambda t: {checked})[1]")

    return build


_CASED_UNICODE: Final = (
    "\\x{0}-\\x{17f}\\x{300}-\\x{344}\\x{386}-\\x{3ce}\\x{400}-\\x{481}\\x{5d0}-\\x{5ea}\\x{620}-\\x{6d3}"
    "\\x{e00}-\\x{e7f}\\x{1e00}-\\x{1e9d}\\x{1ea0}-\\x{1ef9}\\x{2000}-\\x{206f}\\x{20a0}-\\x{20bf}\\x{3000}-\\x{9fff}"
    "\\x{ac00}-\\x{d7a3}\\x{ff01}-\\x{ff9f}\\x{1f300}-\\x{1faff}"
)
_CASED_ASCII: Final = "\\x{0}-\\x{7f}"
_CASED: Final = {
    **dict.fromkeys(("utf8mb4", "utf8mb3", "utf16", "utf16le", "utf32", "ucs2"), _CASED_UNICODE),
    "latin1": _CASED_ASCII + "\\x{a0}-\\x{b4}\\x{b6}-\\x{fe}",
}
"""Characters of which the engine and all of a server's tables have the same upper and lower case."""


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
        return Sql(f"octet_length({piece.text})::HUGEINT", "int", unsigned=False)
    return Sql(f"octet_length({bytes_of(piece)})::HUGEINT", "int", unsigned=False)


def bytes_of(piece: Sql) -> str:
    """Return SQL of the bytes of a text as a server has them. Raises ExpressionError where they are others here."""
    piece = string(piece)
    if piece.raw is not None:
        return unhex(piece.raw)
    if piece.kind == "string" and piece.charset not in ("utf8mb4", "utf8mb3", "ascii"):
        raise ExpressionError(f"the bytes of a text in {piece.charset}; CHAR_LENGTH() counts characters")
    return f"encode({piece.text})"


def _locate(args: Args, session: DdlSession) -> Sql:
    sought, within = string(args[0]), string(args[1])
    rule = common_collation(sought, within)
    # A server takes the collation of the text that it looks through, whatever else the arguments have.
    if within.kind == "string" and within.charset != rule.charset:
        raise ExpressionError(f"a text in {sought.charset} that is looked for in one in {within.charset}")
    rules = within.collation if within.kind == "string" else rule.collation
    untold = _own_charset("LOCATE()", rule)
    if len(args) == 2:
        found = place_in(sought.text, within.text, rules)
        return Sql(f"({found})::HUGEINT", "int", unsigned=False, untold=untold)
    start = _place(args[2])
    found = place_in("a['sought']", "substr(a['within'], a['start'])", rules)
    outside = f"a['start'] < 1 OR a['start'] > length(a['within']) + 1 OR {found} = 0"
    known = "a['sought'] IS NOT NULL AND a['within'] IS NOT NULL AND a['start'] IS NOT NULL"
    body = f"CASE WHEN {known} THEN CASE WHEN {outside} THEN 0 ELSE {found} + a['start'] - 1 END END"
    given = f"{{'sought': {sought.text}, 'within': {within.text}, 'start': {start}}}"
    made = f"(list_transform([{given}], lambda a: {body})[1])::HUGEINT"
    return Sql(made, "int", unsigned=False, untold=untold)


def _own_charset(name: str, rule: Sql) -> str:
    """Return why the text of what a function gives is not known: a server has it in the arguments' character set."""
    return "" if rule.charset == "utf8mb4" else f"{name} of texts in {rule.charset}"


def _find_in_set(args: Args, session: DdlSession) -> Sql:
    sought, within = string(args[0]), string(args[1])
    if sought.charset != within.charset and sought.kind == within.kind == "string":
        raise ExpressionError(f"FIND_IN_SET() of a text in {sought.charset} and one in {within.charset}")
    # A constant is sought among the members of a SET column as they are written, and has its place among all of them.
    exact = bool(within.members and within.numbers)
    if exact and sought.kind != "null" and not _is_plain_member(sought.constant, within.members):
        raise ExpressionError("FIND_IN_SET() in a SET of what is no constant, or not written as the member is")
    rules = "binary" if exact else common_collation(sought, within).collation
    members = f"list_transform(string_split({within.text}, ','), lambda m: {sort_key('m', rules, False, padded=False)})"
    found = f"coalesce(list_position({members}, {sort_key(sought.text, rules, False, padded=False)}), 0)"
    if exact:
        place = within.members.index(sought.constant) + 1 if sought.constant in within.members else 0
        found = f"(CASE WHEN {found} > 0 THEN {place} ELSE 0 END)"
    known = f"{sought.text} IS NOT NULL AND {within.text} IS NOT NULL"
    return Sql(
        f"(CASE WHEN {known} THEN CASE WHEN {within.text} = '' THEN 0 ELSE {found} END END)::HUGEINT",
        "int",
        unsigned=False,
    )


def _is_plain_member(text: str | None, members: Sequence[str]) -> bool:
    """Return whether a constant is one member, or certainly none, whatever a server takes for the same letters."""
    if text is None:
        return False
    alike = [member for member in members if member.casefold() == text.casefold()]
    return alike == [text] or (not alike and text.isascii() and all(map(str.isascii, members)))


def _regexp(args: Args, session: DdlSession) -> Sql:
    text, pattern = string(args[0]), string(args[1])
    rule = common_collation(text, pattern)
    rules = rule.collation
    if pattern.kind == "null":
        return boolean("NULL::BOOLEAN")
    if "binary" in (text.collation, pattern.collation):
        raise ExpressionError("a regular expression beside a text in binary, in which SET NAMES binary has literals")
    if pattern.constant is None or _PATTERN.fullmatch(pattern.constant) is None or not _valid(pattern.constant):
        raise ExpressionError("a regular expression with more than ASCII characters, . * + ? | ( ) [ ] ^ $ and {n}")
    if text.kind == "null":  # an illegal pattern is one beside NULL too
        return boolean("NULL::BOOLEAN")
    known, flags = (_CASED_ALONE, "is") if rules.endswith("_ci") else ("^" + _LINE_ENDS, "s")
    if rules.endswith("_ci") and not _takes_s(pattern.constant):
        known += "\u00df"
    message = f"what matches a regular expression is not known for this text under {rules}: "
    checked = f"CASE WHEN t IS NULL OR regexp_full_match(t, '[{known}]*') "
    checked += f"THEN regexp_matches(t, {pattern.text}, '{flags}') ELSE {stop(message, 'BOOLEAN', 't')} END"
    made = boolean(f"list_transform([{text.text}], lambda t: {checked})[1]")
    return replace(made, untold=_own_charset("a regular expression", rule))


_LINE_ENDS: Final = "\\n-\\r\\x{85}\\x{2028}\\x{2029}"
_CASED_ALONE: Final = (
    "\\x{0}-\\t\\x{e}-\\x{84}\\x{86}-\\x{b4}\\x{b6}-\\x{de}\\x{e0}-\\x{12f}\\x{132}-\\x{148}\\x{14a}-\\x{17e}\\x{391}-\\x{3a9}"
    "\\x{400}-\\x{481}\\x{3000}-\\x{9fff}\\x{ac00}-\\x{d7a3}\\x{1f300}-\\x{1faff}"
)
"""Characters that a regular expression takes for no others than their other case."""
_ATOM: Final = (
    r"(?:[A-Za-z0-9 _,;:@#%&=<>\"'~/!-]|\.|\\\.|\[\^?(?:[A-Za-z0-9_ ]|[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9])+\])"
)
_TIMES: Final = r"(?:[*+?]|\{\d{1,2}(?:,\d{0,2})?\})?"
_PATTERN: Final = re.compile(rf"(?:\^|\$|\||\((?!\?)|\){_TIMES}|{_ATOM}{_TIMES})+")
"""Regular expressions that mean the same to a server's engine and to this one."""


def _takes_s(pattern: str) -> bool:
    """Return whether an s may match, which may be half of a sharp one."""
    ranges = re.findall(r"(\w)-(\w)", pattern)
    return "s" in pattern.lower() or any(first.lower() <= "s" <= last.lower() for first, last in ranges)


def _valid(pattern: str) -> bool:
    try:
        return bool(re.compile(pattern))
    except re.error:
        return False


def _strcmp(args: Args, session: DdlSession) -> Sql:
    if {arg.kind for arg in args} - {"string", "null"}:
        raise ExpressionError("STRCMP() of what is no text")
    one, two = comparable(string(args[0]), string(args[1]), True, session)
    known = f"{args[0].text} IS NOT NULL AND {args[1].text} IS NOT NULL"
    return Sql(
        f"(CASE WHEN {known} THEN CASE WHEN {one} < {two} THEN -1 WHEN {one} = {two} THEN 0 ELSE 1 END END)",
        "int",
        unsigned=False,
        truth=True,
    )


def _hex(args: Args, session: DdlSession) -> Sql:
    piece = args[0]
    if piece.kind in ("decimal", "double"):
        raise ExpressionError("HEX() of a number with a fraction")
    if piece.kind in ("int", "bool"):
        value = f"({number(piece).text})"
        return Sql(
            f"format('{{:X}}', (CASE WHEN {value} < 0 THEN {value} + {1 << 64} ELSE {value} END)::UBIGINT)",
            "string",
            strength=NUMERIC,
        )
    return Sql(f"hex({piece.text if piece.kind == 'binary' else bytes_of(piece)})", "string", strength=NUMERIC)


def _substring(args: Args, session: DdlSession) -> Sql:
    """Return SUBSTR: a start of 0 gives nothing, a negative one counts from the end."""
    piece, start = string(args[0]), _place(args[1])
    places = [start, *(_place(arg, 0) for arg in args[2:])]
    made = f"substr({piece.text}, {', '.join(places)})"
    outside = f"{start} = 0 OR {start} < -length({piece.text})"
    known = " AND ".join(f"{one} IS NOT NULL" for one in (piece.text, *places))
    return as_model(piece, f"(CASE WHEN {known} THEN CASE WHEN {outside} THEN '' ELSE {made} END END)")


def _ending(name: str) -> Function:
    """Return LEFT or RIGHT."""

    def build(args: Args, session: DdlSession) -> Sql:
        piece = string(args[0])
        return as_model(piece, f"{name}({piece.text}, {_place(args[1], 0)})")

    return build


def _place(piece: Sql, least: int = -_MOST) -> str:
    """Return SQL of a number of characters, within what strings have. Raises ExpressionError for one with a FLOAT."""
    given = number(piece) if piece.kind != "null" else piece
    if given.kind == "double" or given.untold:
        raise ExpressionError(f"a {piece.kind} as a number of characters; write a whole number")
    return f"{clamped(f'round({given.text})', str(least), str(_MOST))}::BIGINT"


TEXTS: Final[dict[str, Function]] = {
    "lower": _cased("lower"),
    "upper": _cased("upper"),
    "char_length": _text("length({0})", "int"),
    "length": _length,
    "left": _ending("left"),
    "right": _ending("right"),
    "reverse": _text("array_to_string(list_reverse(regexp_extract_all({0}, '(?s).')), '')"),
    "trim": _text("trim({0}, ' ')"),
    "ltrim": _text("ltrim({0}, ' ')"),
    "rtrim": _text("rtrim({0}, ' ')"),
    "replace": _replace,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "locate": _locate,
    "find_in_set": _find_in_set,
    "strcmp": _strcmp,
    "hex": _hex,
    "regexp_like": _regexp,
    "substr": _substring,
}
