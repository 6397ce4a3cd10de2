"""Pieces of an expression as typed SQL, and how MySQL converts and compares them.

| kind | held as |
|---|---|
| `int`, `decimal`, `double` | HUGEINT, DECIMAL, DOUBLE |
| `bool` | BOOLEAN: what a condition gives; a number where one is asked for |
| `string`, `binary` | VARCHAR, BLOB |
| `date`, `datetime` | DECIMAL(20,6): the digits YYYYMMDDhhmmss.ffffff, so that 0000-00-00 has a place |
| `time` | DECIMAL(13,6): the digits hhmmss.ffffff, with a sign |
| `json` | VARCHAR: the document's text |
| `null` | NULL |

Source: refman, "Type Conversion in Expression Evaluation", "Comparison Functions and Operators", "Collation
Coercibility in Expressions".
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from binlog_merge.filters.expr_collations import sort_key
from snapshot_store.ddl.literal_times import datetime_text, time_text
from snapshot_store.ddl.session import DdlSession
from snapshot_store.model import ColumnType

EXPLICIT, COLUMN, LITERAL = 0, 2, 4
SESSION = DdlSession()
"""Expressions are read in a session without SQL modes: 0000-00-00, which rows may hold, can be asked for."""
_NUMBERS: Final = ("int", "bool", "decimal", "double")
_MOMENTS: Final = ("date", "datetime")


class ExpressionError(ValueError):
    """An expression that cannot be read, or is not understood for certain."""


@dataclass(frozen=True)
class Sql:
    """A piece: its SQL, its kind; for strings the collation and how strong it is; a constant's own value.

    `numbers` is SQL of the same value where a number is asked for (ENUM, SET, bit literals); `raw` are a bit
    literal's own, `year` marks a YEAR column.
    """

    text: str
    kind: str
    collation: str = "utf8mb4_0900_ai_ci"
    strength: int = LITERAL
    constant: str | None = None
    numbers: str | None = None
    scale: int = 0
    raw: bytes | None = None
    year: bool = False


NULL = Sql("NULL", "null")


def quoted(text: str) -> str:
    """Return a string literal."""
    if "\0" in text:
        return "concat(" + ", chr(0), ".join(quoted(part) for part in text.split("\0")) + ")"
    return "'" + text.replace("'", "''") + "'"


def boolean(text: str) -> Sql:
    """Return a condition."""
    return Sql(text, "bool")


def condition(piece: Sql) -> str:
    """Return SQL of whether a piece is true."""
    if piece.kind == "bool":
        return piece.text
    if piece.kind == "null":
        return "NULL::BOOLEAN"
    return f"({number(piece).text} <> 0)"


def number(piece: Sql) -> Sql:
    """Return a piece as a number; a string gives what stands at its beginning, else 0."""
    if piece.numbers is not None:
        return Sql(piece.numbers, "int")
    if piece.kind == "bool":
        return Sql(f"({piece.text})::INTEGER::HUGEINT", "int")
    if piece.kind == "date":
        return Sql(f"floor({piece.text} / 1000000)::HUGEINT", "int")
    if piece.kind == "string":
        return Sql(_leading_number(piece.text), "double")
    if piece.kind == "json":
        return Sql(f"try_cast({piece.text} AS DOUBLE)", "double")
    if piece.kind == "binary":
        raise ExpressionError("a binary string as a number")
    return replace(piece, kind="decimal") if piece.kind in ("datetime", "time") else piece


def _leading_number(text: str) -> str:
    pattern = r"^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    found = f"regexp_extract({text}, '{pattern}', 1)"
    return f"(CASE WHEN {text} IS NULL THEN NULL ELSE coalesce(try_cast({found} AS DOUBLE), 0) END)"


def double(piece: Sql) -> str:
    """Return SQL of a piece as a DOUBLE."""
    return f"({number(piece).text})::DOUBLE"


def string(piece: Sql) -> Sql:
    """Return a piece as a string, as MySQL prints it."""
    if piece.kind in ("string", "null"):
        return piece
    if piece.kind == "bool":
        return string(number(piece))
    if piece.kind == "binary":
        raise ExpressionError("a binary string as text; write CONVERT(… USING utf8mb4)")
    if piece.kind == "date":
        return Sql(_date_text(piece.text), "string")
    if piece.kind in ("int", "decimal", "json"):
        return Sql(f"({piece.text})::VARCHAR", "string")
    raise ExpressionError(f"a {piece.kind} as text")


def _date_text(text: str) -> str:
    digits = f"lpad((floor({text} / 1000000)::HUGEINT)::VARCHAR, 8, '0')"
    return "(" + " || '-' || ".join(f"substr({digits}, {at}, {size})" for at, size in ((1, 4), (5, 2), (7, 2))) + ")"


def moment(piece: Sql, session: DdlSession) -> Sql:
    """Return a piece as a date and time: constants are read as MySQL reads them, other strings in its own format."""
    if piece.kind in (*_MOMENTS, "null"):
        return piece
    if piece.constant is not None and piece.kind in ("string", "int", "decimal"):
        return replace(constant_moment(piece.constant, piece.kind != "string", session), strength=piece.strength)
    if piece.kind == "string":
        digits = f"regexp_replace({piece.text}, '[-: T]', '', 'g')"
        shape = r"^\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?)?$"
        whole = f"CASE WHEN length({digits}) = 8 THEN {digits} || '000000' ELSE {digits} END"
        return Sql(
            f"(CASE WHEN regexp_matches({piece.text}, '{shape}') THEN try_cast({whole} AS DECIMAL(20,6)) END)",
            "datetime",
        )
    if piece.kind in ("int", "decimal", "double"):
        value = f"({piece.text})::DECIMAL(20,6)"
        return Sql(f"(CASE WHEN {value} < 100000000 THEN {value} * 1000000 ELSE {value} END)", "datetime")
    raise ExpressionError(f"a {piece.kind} as a date")


def constant_moment(text: str, is_number: bool, session: DdlSession) -> Sql:
    """Return a date and time that a literal means. Raises ExpressionError."""
    try:
        shown = datetime_text(is_number, text, ColumnType("datetime", fsp=6), session)
    except ValueError as error:
        raise ExpressionError(f"incorrect date: {error}") from None
    digits = "".join(c for c in shown if c.isdigit() or c == ".")
    return Sql(f"{digits}::DECIMAL(20,6)", "datetime", constant=shown)


def clock(piece: Sql) -> Sql:
    """Return a piece as a time of day or a duration."""
    if piece.kind in ("time", "null"):
        return piece
    if piece.constant is not None and piece.kind in ("string", "int", "decimal"):
        try:
            shown = time_text(piece.kind != "string", piece.constant, 6)
        except ValueError as error:
            raise ExpressionError(f"incorrect time: {error}") from None
        return Sql(f"{shown.replace(':', '')}::DECIMAL(13,6)", "time", constant=shown)
    if piece.kind in ("int", "decimal"):
        return Sql(f"({piece.text})::DECIMAL(13,6)", "time")
    raise ExpressionError(f"a {piece.kind} as a time")


def common_collation(left: Sql, right: Sql) -> Sql:
    """Return the piece whose collation rules both. Raises ExpressionError for an illegal mix."""
    first, second = sorted((left, right), key=lambda piece: piece.strength)
    if first.strength < second.strength or first.collation == second.collation:
        return first
    for one, other in ((first, second), (second, first)):
        same_charset = one.collation.split("_")[0] == other.collation.split("_")[0]
        if one.collation == "binary" or (same_charset and one.collation.endswith("_bin")):
            return one
        if other.collation.split("_")[0] in ("ascii", "latin1") and one.collation.startswith("utf8mb4"):
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
    if "json" in (left.kind, right.kind) and left.kind != right.kind and ordered:
        return boolean(_json_order(symbol, left, right))
    one, two = comparable(left, right, ordered, session)
    found = f"({one} {operator} {two})"
    if "json" in (left.kind, right.kind) and symbol in ("=", "<>"):
        # Values of different JSON types differ; only a missing one is unknown.
        known = f"{left.text} IS NOT NULL AND {right.text} IS NOT NULL"
        found = f"(CASE WHEN {known} THEN coalesce({found}, {'FALSE' if symbol == '=' else 'TRUE'}) END)"
    return boolean(found)


def comparable(left: Sql, right: Sql, ordered: bool, session: DdlSession) -> tuple[str, str]:
    """Return SQL of both sides, so converted that the engine compares them as MySQL would."""
    left, right = _adapted(left, right), _adapted(right, left)
    kinds = {left.kind, right.kind}
    if "json" in kinds:
        return _json_sides(left, right)
    if kinds & set(_MOMENTS):
        return moment(left, session).text, moment(right, session).text
    if "time" in kinds and kinds - {"time"}:
        return clock(left).text, clock(right).text
    if "binary" in kinds:
        return _bytes_sides(left, right)
    if kinds == {"string"}:
        rules = common_collation(left, right).collation
        if rules == "binary":
            return f"encode({left.text})", f"encode({right.text})"
        return sort_key(left.text, rules, ordered), sort_key(right.text, rules, ordered)
    if "string" in kinds:
        left, right = _exact(left), _exact(right)
    left, right = number(left), number(right)
    if "double" in (left.kind, right.kind) or left.scale + right.scale > 18:
        return double(left), double(right)
    return left.text, right.text


def _adapted(piece: Sql, other: Sql) -> Sql:
    """Return a constant as the other side wants it: a bit literal as text for text, 21 as 2021 for a YEAR."""
    if piece.raw is not None and other.kind == "string":
        try:
            return Sql(quoted(piece.raw.decode()), "string", constant=piece.raw.decode())
        except UnicodeDecodeError:
            return piece
    if other.year and piece.constant is not None and piece.constant.isdecimal() and 0 < int(piece.constant) < 100:
        value = int(piece.constant)
        return numeric_literal(str(value + (2000 if value < 70 else 1900)))
    return piece


def _exact(piece: Sql) -> Sql:
    """Return a constant string that is a plain number as that number, so that no digit is lost."""
    if piece.kind != "string" or piece.constant is None:
        return piece
    text = piece.constant.strip()
    if not text.lstrip("+-").replace(".", "", 1).isdecimal() or len(text) > 30:
        return piece
    return numeric_literal(str(Decimal(text)))


def numeric_literal(text: str) -> Sql:
    """Return a number as written in SQL."""
    if "e" in text.lower():
        return Sql(f"{text}::DOUBLE", "double", constant=text)
    whole, _, fraction = text.partition(".")
    if len(whole.lstrip("-")) + len(fraction) > 38:
        return Sql(f"{text}::DOUBLE", "double", constant=text)
    if fraction:
        size = max(len(whole.lstrip("-")) + len(fraction), 1)
        return Sql(f"{text}::DECIMAL({size},{len(fraction)})", "decimal", constant=text, scale=len(fraction))
    return Sql(f"{whole}::HUGEINT", "int", constant=text)


def _bytes_sides(left: Sql, right: Sql) -> tuple[str, str]:
    if left.kind == right.kind == "binary":
        return left.text, right.text
    other, bits = (left, right) if right.kind == "binary" else (right, left)
    if other.kind in _NUMBERS:
        if bits.numbers is None:
            raise ExpressionError("a binary string compared with a number")
        sides = number(other).text, bits.numbers
    elif other.kind == "string":
        sides = f"encode({other.text})", bits.text
    else:
        raise ExpressionError(f"a binary string compared with a {other.kind}")
    return sides if other is left else (sides[1], sides[0])


def _json_sides(left: Sql, right: Sql) -> tuple[str, str]:
    """Compare by the JSON type: numbers with numbers, strings with strings, anything else as documents."""
    if left.kind == right.kind == "json":
        return f"json({left.text})::VARCHAR", f"json({right.text})::VARCHAR"
    document, other = (left, right) if left.kind == "json" else (right, left)
    kind = f"json_type({document.text})"
    if other.kind == "bool" and other.constant is not None:
        value = f"(CASE WHEN {kind} = 'BOOLEAN' THEN {document.text} = 'true' END)"
        sides = value, other.text
    elif other.kind in _NUMBERS:
        value = f"(CASE WHEN {kind} IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT') THEN ({document.text})::DOUBLE END)"
        sides = value, double(other)
    elif other.kind == "string":
        sides = f"(CASE WHEN {kind} = 'VARCHAR' THEN json_extract_string({document.text}, '$') END)", other.text
    else:
        raise ExpressionError(f"a JSON value compared with a {other.kind}")
    return sides if document is left else (sides[1], sides[0])


def _json_order(symbol: str, left: Sql, right: Sql) -> str:
    """Compare less and greater: values of one JSON type by value, others by the precedence of their types."""
    one, two = _json_sides(left, right)
    document, other = (left, right) if left.kind == "json" else (right, left)
    less = "'NULL'" if other.kind in _NUMBERS else "'NULL', 'BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT'"
    document_first = document is left
    kind = f"json_type({document.text})"
    above = ("TRUE", "FALSE") if (symbol[0] == ">") is document_first else ("FALSE", "TRUE")
    by_type = f"CASE WHEN {kind} IN ({less}) THEN {above[1]} ELSE {above[0]} END"
    return f"(CASE WHEN {document.text} IS NOT NULL THEN coalesce({one} {symbol} {two}, {by_type}) END)"
