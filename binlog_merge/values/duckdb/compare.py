"""How MySQL compares pieces of an expression (numbers, moments, strings under a collation, bytes), and what IF, CASE,
COALESCE and functions of several pieces give: one type, and for strings one collation.

Source: refman, "Comparison Functions and Operators", "Collation Coercibility in Expressions", "Comparison and Ordering
of JSON Values".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from binlog_merge.values.duckdb.collations import sort_key
from binlog_merge.values.duckdb.piece import (
    COLUMN,
    EXPLICIT,
    LITERAL,
    MOMENTS,
    NULL,
    NUMBERS,
    NUMERIC,
    ExpressionError,
    Sql,
    boolean,
    clock,
    double,
    moment,
    not_valid,
    number,
    numeric_literal,
    quoted,
    stop,
    string,
    unhex,
)
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.text.codecs import decode_text, encode_text

_ALL_CHARACTERS = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
_NAMED_ALIKE = frozenset({"ascii", "latin1"})


def common_collation(left: Sql, right: Sql) -> Sql:
    """Return the piece whose collation rules both. Raises ExpressionError for an illegal mix.

    The other piece's characters are all in the ruling one's character set.
    """
    rule = _ruling(left, right)
    check_converted(right if rule is left else left, rule.charset)
    return rule


def check_converted(piece: Sql, charset: str) -> None:
    """Raise ExpressionError unless a text is the same in another character set."""
    own = piece.charset
    if piece.kind != "string" or own == charset or charset in _ALL_CHARACTERS or piece.strength == NUMERIC:
        return
    if charset == "binary":
        if piece.raw is None and own not in ("utf8mb4", "utf8mb3", "ascii") and not (piece.constant or "ä").isascii():
            raise ExpressionError(f"the bytes of a text in {own}")
        return
    if own == "ascii" and charset != "binary":
        return
    if piece.constant is None and piece.raw is not None:
        raise ExpressionError(not_valid(own))
    if piece.constant is None:
        raise ExpressionError(f"a text that is made of others, in {own}, as one in {charset}")
    try:
        encode_text(charset, piece.constant)
    except (UnicodeError, LookupError):
        raise ExpressionError(f"cannot convert string {piece.constant[:40]!r} from {own} to {charset}") from None


def _ruling(left: Sql, right: Sql) -> Sql:
    first, second = sorted((left, right), key=lambda piece: piece.strength)
    if first.strength < second.strength or first.collation == second.collation:
        return first
    for one, other in ((first, second), (second, first)) if first.strength != EXPLICIT else ():
        same_charset = one.collation.split("_")[0] == other.collation.split("_")[0]
        bins = [piece.collation.endswith("_bin") for piece in (one, other)]
        if one.collation == "binary" or (same_charset and bins == [True, False]):
            return one
        if other.charset in _NAMED_ALIKE and one.charset == "utf8mb4":
            return one
    raise ExpressionError(
        f"illegal mix of collations {left.collation} and {right.collation}; add COLLATE to one of them"
    )


def compare(symbol: str, left: Sql, right: Sql, session: DdlSession) -> Sql:
    """Return a comparison as MySQL makes it; `<=>` takes NULL for a value."""
    operator = {"<=>": "IS NOT DISTINCT FROM"}.get(symbol, symbol)
    if "null" in (left.kind, right.kind):
        if symbol != "<=>":
            return boolean("NULL::BOOLEAN")
        other = right if left.kind == "null" else left
        return boolean(f"({other.text} IS NULL)")
    ordered = symbol not in ("=", "<>", "<=>")
    if left.kind == right.kind == "json":
        return boolean(_json_equal(symbol, left, right))
    if any(piece.kind == "json" and piece.constant is not None for piece in (left, right)):
        raise ExpressionError("a JSON constant and something else; write the value itself")
    if "json" in (left.kind, right.kind) and ordered:
        if left.bit or right.bit:
            raise ExpressionError("a BIT compared with a JSON value")
        if "bool" in (left.kind, right.kind):
            raise ExpressionError("the order of a JSON value and a truth value")
        if any(piece.kind == "string" and piece.constant is None for piece in (left, right)):
            raise ExpressionError("the order of a JSON value and a string; ->> gives the value as text")
        return boolean(_json_order(symbol, left, right))
    one, two = comparable(left, right, ordered, session)
    if "json" not in (left.kind, right.kind) or ordered:
        return boolean(f"({one} {operator} {two})")
    # Values of different JSON types differ; only a missing one is unknown.
    known = f"{left.text} IS NOT NULL AND {right.text} IS NOT NULL"
    if symbol == "<>":
        return boolean(f"(CASE WHEN {known} THEN coalesce({one} <> {two}, TRUE) END)")
    missing = f" ELSE {left.text} IS NULL AND {right.text} IS NULL" if symbol == "<=>" else ""
    return boolean(f"(CASE WHEN {known} THEN coalesce({one} = {two}, FALSE){missing} END)")


def comparable(left: Sql, right: Sql, ordered: bool, session: DdlSession) -> tuple[str, str]:
    """Return SQL of both sides, so converted that the engine compares them as MySQL would."""
    left, right = _adapted(left, right), _adapted(right, left)
    kinds = {left.kind, right.kind}
    if "json" in kinds:
        if left.bit or right.bit:
            raise ExpressionError("a BIT compared with a JSON value")
        return _json_sides(left, right)
    if kinds & set(MOMENTS):
        if "date" in kinds and any(p.kind == "int" and len(p.constant or "") > 8 for p in (left, right)):
            raise ExpressionError("a DATE compared with a number that has a time")
        return moment(left, session).text, moment(right, session).text
    if "time" in kinds and kinds - {"time"}:
        if any(p.kind not in ("time", "string", "int", "null") for p in (left, right)):
            raise ExpressionError(f"a TIME compared with a {' or '.join(sorted(kinds - {'time'}))}")
        _check_fraction(left, right)
        _check_fraction(right, left)
        return clock(left).text, clock(right).text
    if "binary" in kinds:
        return _bytes_sides(left, right)
    if kinds == {"string"}:
        rules = common_collation(left, right).collation
        if rules == "binary":
            check_converted(left, "binary")
            check_converted(right, "binary")
            return f"encode({left.text})", f"encode({right.text})"
        return sort_key(left.text, rules, ordered), sort_key(right.text, rules, ordered)
    if "string" in kinds:
        left, right = _exact(left, right), _exact(right, left)
    left, right = number(left), number(right)
    if "double" in (left.kind, right.kind):
        return double(left), double(right)
    if left.scale == right.scale or left.scale + right.scale <= 18:
        return left.text, right.text
    scale = max(left.scale, right.scale)
    return _in_two(left, scale), _in_two(right, scale)


def _check_fraction(time: Sql, other: Sql) -> None:
    """Raise ExpressionError for a constant that a server rounds to the digits of the TIME that it is compared with."""
    fraction = (other.constant or "").partition(".")[2].rstrip("0")
    if other.kind != "time" and len(fraction) > (time.scale if time.strength == COLUMN else 0):
        raise ExpressionError(f"a TIME compared with {other.constant!r}, which has more digits after its second")


def _in_two(piece: Sql, scale: int) -> str:
    """Return SQL of a number's whole part and its fraction, which have the number's order.

    No DECIMAL of the engine may have room for both sides, and as DOUBLE they lose digits.
    """
    text = piece.text
    whole, fraction = (f"trunc({text})", f"{text} - trunc({text})") if piece.kind == "decimal" else (text, "0")
    pair = f"{{'whole': ({whole})::HUGEINT, 'fraction': ({fraction})::DECIMAL(38,{scale})}}"
    return f"(CASE WHEN {text} IS NOT NULL THEN {pair} END)"


def _adapted(piece: Sql, other: Sql) -> Sql:
    """Return a constant as the other side wants it: a bit literal as text for text, 21 as 2021 for a YEAR."""
    if piece.kind == "binary" and piece.raw is not None and other.kind == "string" and other.strength < LITERAL:
        text = _in_charset(piece.raw, other.charset)
        return Sql(quoted(text), "string", other.collation, constant=text)
    plain = piece.constant is not None and piece.constant.isascii() and piece.constant.isdecimal()
    fraction = piece.kind in ("decimal", "double") and piece.constant is not None
    if other.year and (
        piece.kind in ("json", "bool", "time", *MOMENTS)
        or fraction
        or (piece.kind == "string" and (not plain or not int(piece.constant or 0)))
    ):
        raise ExpressionError(f"a YEAR compared with {piece.constant or f'a {piece.kind} value'!r}; write a number")
    if other.year and piece.constant is not None and plain and 0 < int(piece.constant) < 100:
        value = int(piece.constant)
        return numeric_literal(str(value + (2000 if value < 70 else 1900)))
    return piece


def _in_charset(raw: bytes, charset: str) -> str:
    """Return the text that a bit literal's bytes are in a column's character set. Raises ExpressionError."""
    try:
        return decode_text(charset, raw)
    except (UnicodeError, LookupError):
        raise ExpressionError(f"the bytes 0x{raw[:20].hex()} are no text in {charset}") from None


def _exact(piece: Sql, other: Sql) -> Sql:
    """Return a constant string that is a plain number, beside a column, as that number: no digit is lost."""
    if piece.kind != "string" or piece.constant is None or other.strength != COLUMN or other.bit:
        return piece
    text = piece.constant.strip()
    if not text.isascii() or not text.lstrip("+-").replace(".", "", 1).isdecimal() or len(text) > 30:
        return piece
    return numeric_literal(str(Decimal(text)))


def _bytes_sides(left: Sql, right: Sql) -> tuple[str, str]:
    if left.kind == right.kind == "binary":
        return left.text, right.text
    other, bits = (left, right) if right.kind == "binary" else (right, left)
    if other.kind in NUMBERS:
        if bits.numbers is None:
            raise ExpressionError("a binary string compared with a number")
        sides = number(other).text, bits.numbers
    elif other.kind == "string":
        if other.strength == EXPLICIT:
            raise ExpressionError("a binary string compared with a text by COLLATE")
        check_converted(other, "binary")
        sides = f"encode({other.text})" if other.raw is None else unhex(other.raw), bits.text
    else:
        raise ExpressionError(f"a binary string compared with a {other.kind}")
    return sides if other is left else (sides[1], sides[0])


def _json_sides(left: Sql, right: Sql) -> tuple[str, str]:
    """Compare by the JSON type: numbers with numbers, strings with strings."""
    document, other = (left, right) if left.kind == "json" else (right, left)
    kind = f"json_type({document.text})"
    if other.truth or (other.kind == "bool" and other.constant is None):
        raise ExpressionError("a JSON value compared with a truth value that is computed; write CASE WHEN … THEN")
    if other.kind == "bool" and other.constant is not None:
        value = f"(CASE WHEN {kind} = 'BOOLEAN' THEN {document.text} = 'true' END)"
        sides = value, other.text
    elif other.kind in NUMBERS:
        message = "two numbers of more than 53 bits, one of them in JSON, are not compared: "
        large = (
            f"{kind} <> 'DOUBLE' AND abs({double(other)}) > {1 << 53} AND abs(({document.text})::HUGEINT) > {1 << 53}"
        )
        value = (
            f"(CASE WHEN {kind} NOT IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT') THEN NULL "
            f"WHEN {large} THEN {stop(message, 'DOUBLE', document.text)} ELSE ({document.text})::DOUBLE END)"
        )
        sides = value, double(other)
    elif other.kind == "string":
        if other.collation == "binary" or (other.collation.endswith("_bin") and other.collation != "utf8mb4_bin"):
            raise ExpressionError(f"a JSON value compared with a text in {other.collation}")
        sides = f"(CASE WHEN {kind} = 'VARCHAR' THEN json_extract_string({document.text}, '$') END)", other.text
    else:
        raise ExpressionError(f"a JSON value compared with a {other.kind}")
    return sides if document is left else (sides[1], sides[0])


def _json_equal(symbol: str, left: Sql, right: Sql) -> str:
    """Compare documents by their texts; where numbers have fractions, of which 1.0 is 1, the engine stops."""
    if symbol not in ("=", "<>", "<=>"):
        raise ExpressionError("the order of two JSON values; ->> gives a value as text")
    one, two = left.text, right.text
    bare = [f"regexp_replace({text}, '\"(?:[^\"\\\\]|\\\\.)*\"', '', 'g')" for text in (one, two)]
    message = "whether two JSON values are equal is not known where numbers have fractions; ->> gives a value as text: "
    open_ = " OR ".join(f"regexp_matches({text}, '[0-9][.eE]')" for text in bare)
    same = (
        f"(CASE WHEN {one} = {two} THEN TRUE WHEN {open_} THEN {stop(message, 'BOOLEAN', one, two)} "
        f"WHEN {one} <> {two} THEN FALSE END)"
    )
    if symbol == "<>":
        return f"(NOT {same})"
    return same if symbol == "=" else f"coalesce({same}, {one} IS NULL AND {two} IS NULL)"


def _json_order(symbol: str, left: Sql, right: Sql) -> str:
    """Compare less and greater: values of one JSON type by value, others by the precedence of their types."""
    one, two = _json_sides(left, right)
    document, other = (left, right) if left.kind == "json" else (right, left)
    less = "'NULL'" if other.kind in NUMBERS else "'NULL', 'BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT'"
    document_first = document is left
    kind = f"json_type({document.text})"
    above = ("TRUE", "FALSE") if (symbol[0] == ">") is document_first else ("FALSE", "TRUE")
    by_type = f"CASE WHEN {kind} IN ({less}) THEN {above[1]} ELSE {above[0]} END"
    known = f"{document.text} IS NOT NULL AND {other.text} IS NOT NULL"
    return f"(CASE WHEN {known} THEN coalesce({one} {symbol} {two}, {by_type}) END)"


Args = Sequence[Sql]
Function = Callable[[Args, DdlSession], Sql]


def unified(pieces: Args, session: DdlSession) -> tuple[list[str], Sql]:
    """Return pieces as SQL of one type, and a model of it: of what IF, CASE and COALESCE give."""
    kinds = {piece.kind for piece in pieces if piece.kind != "null"}
    if not kinds:
        return [piece.text for piece in pieces], NULL
    if kinds == {"string"}:
        rule = ruling(pieces)
        return [piece.text for piece in pieces], rule
    if len(kinds) == 1 and kinds <= {"date", "datetime", "time", "json", "binary", "bool"}:
        model = next(piece for piece in pieces if piece.kind in kinds)
        return [piece.text for piece in pieces], replace(model, constant=None, raw=None)
    if kinds <= {"date", "datetime"}:
        return [piece.text for piece in pieces], Sql("", "datetime")
    if kinds <= {"int", "bool", "decimal", "double"}:
        singles = {p.untold == "a FLOAT" for p in pieces if p.kind != "null"}
        if len(singles) > 1:
            raise ExpressionError("a FLOAT or another number, out of CASE, IF or COALESCE, which has few digits then")
        numbers = [number(p) if p.kind != "null" else p for p in pieces]
        model = _wider([replace(n, year=p.year) for n, p in zip(numbers, pieces, strict=True)])
        if model.kind == "decimal":  # the engine itself would drop digits where it has no room for all
            return [f"({p.text})::DECIMAL(38,{model.scale})" for p in numbers], model
        return [p.text for p in numbers], model
    if kinds & {"date", "datetime", "time"} and kinds & {"int", "bool", "decimal", "double"}:
        raise ExpressionError("a date and time or a number, out of CASE, IF or COALESCE")
    if "json" in kinds:
        raise ExpressionError("a JSON value or something else, out of CASE, IF or COALESCE")
    texts = [string(piece) for piece in pieces]
    rule = ruling(texts)
    # As a number a date among texts is another one than its text.
    return [piece.text for piece in texts], replace(rule, numbers="") if kinds & {"date", "datetime", "time"} else rule


def chosen(pieces: Args, session: DdlSession) -> tuple[list[str], Sql]:
    """Return pieces as `unified` does, for what gives one of them as it is: as text a DECIMAL keeps its own digits."""
    texts, model = unified(pieces, session)
    if model.shorter:
        model = replace(model, untold="a DECIMAL, out of CASE or IF with another number of digits after the point,")
    return texts, model


def ruling(pieces: Args) -> Sql:
    """Return a model of the strings among some pieces: of what their collation is. Raises ExpressionError."""
    strings = [piece for piece in pieces if piece.kind == "string"]
    rule = strings[0]
    for piece in strings[1:]:
        rule = common_collation(rule, piece)
    for piece in strings:
        check_converted(piece, rule.charset)
    numbers = "" if any(piece.numbers is not None for piece in strings) else None
    return replace(rule, constant=None, raw=None, numbers=numbers)


def _wider(pieces: Args) -> Sql:
    kinds = {piece.kind for piece in pieces}
    kind = "double" if "double" in kinds else "decimal" if "decimal" in kinds else "int"
    # Of a BIT or YEAR the number is known, but not the text that it would be.
    known = {piece.unsigned for piece in pieces if piece.kind != "null"}
    return Sql(
        "",
        kind,
        scale=max(piece.scale for piece in pieces),
        bit=any(p.bit or p.year for p in pieces),
        unsigned=known.pop() if len(known) == 1 else None,
        untold=next((p.untold for p in pieces if p.untold), ""),
        shorter=kind == "decimal" and len({piece.scale for piece in pieces if piece.kind != "null"}) > 1,
    )


def as_model(model: Sql, text: str) -> Sql:
    """Return SQL as a piece like another."""
    if model.kind == "null":
        return NULL
    return replace(model, text=text, constant=None, raw=None, numbers="" if model.numbers == "" else None)
