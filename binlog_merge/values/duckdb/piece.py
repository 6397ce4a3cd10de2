"""Pieces of an expression as typed SQL, how MySQL converts them, and why the engine stops at a row: what the SQL of an
expression says itself, never the engine's own words.

| kind | held as |
|---|---|
| `int`, `decimal`, `double` | HUGEINT, DECIMAL, DOUBLE |
| `bool` | BOOLEAN: what a condition gives; a number where one is asked for |
| `string`, `binary` | VARCHAR, BLOB |
| `date`, `datetime` | DECIMAL(20,6): the digits YYYYMMDDhhmmss.ffffff, so that 0000-00-00 has a place |
| `time` | DECIMAL(13,6): the digits hhmmss.ffffff, with a sign |
| `json` | VARCHAR: the document's text |
| `null` | NULL |

Source: refman, "Type Conversion in Expression Evaluation".
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.sql.names import quote_plainly
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.values.times import datetime_text, time_text

_MARK: Final = "stopped: "
_SAID: Final = re.compile(rf"Invalid Input Error: {_MARK}(.*)")
_TOO_GREAT: Final = re.compile(r"(?:Conversion|Out of Range) Error: ")
OUT_OF_RANGE: Final = "value is out of range"
"""What is said of a number at which a server stops too, with its error 1690."""
TOO_GREAT: Final = "a number with more than the 38 digits that are computed here"


def stop(message: str, kind: str, *shown: str) -> str:
    """Return SQL at which the engine stops, as a value of a type; `shown` is SQL of what is told behind the message."""
    told = " || ', ' || ".join(shown)
    return f"error({quote_plainly(_MARK + message)}{f' || {told}' if told else ''})::{kind}"


def why_stopped(error: Exception) -> str | None:
    """Return why an expression stopped the engine; None if it is not the expression that did."""
    text = (str(error).splitlines() or [""])[0]
    said = _SAID.search(text)
    if said is not None:
        return said[1]
    return TOO_GREAT if _TOO_GREAT.search(text) else None


EXPLICIT, COLUMN, LITERAL, NUMERIC = 0, 2, 4, 5
"""How strong a collation is; NUMERIC is that of what was no text, which is written in ASCII."""
CONNECTION: Final = "utf8mb4_0900_ai_ci"
"""The collation of literals, unless a session has another one."""
SESSION = DdlSession()
"""Expressions are read in a session without SQL modes: 0000-00-00, which rows may hold, can be asked for."""
_LEAST_DATE: Final = 101
"""The least number that means a date: 2000-01-01."""
MOMENT_AS_NUMBER: Final = "a date and time as a number"
"""Why the text of such a number is not known: its type may have no fraction."""
NUMBERS: Final = ("int", "bool", "decimal", "double")
MOMENTS: Final = ("date", "datetime")


class ExpressionError(ValueError):
    """An expression that cannot be read, or is not understood for certain."""


@dataclass(frozen=True)
class Sql:
    """A piece: its SQL, its kind; for strings the collation and how strong it is; a constant's own value.

    `numbers` is SQL of the same value where a number is asked for (ENUM, SET, bit literals), "" where it is not known;
    `raw` are the own bytes of a bit literal, and of a string literal that is no text or was not written in UTF-8;
    `year` marks a YEAR column, `bit` a BIT one: bytes where text is asked for.
    `unsigned` is whether an integer is UNSIGNED, None where that is not known. `untold` says why the text of a value is
    not known though the value is. `truth` marks a number that JSON takes for a truth value, and `shorter`
    a DECIMAL that may have fewer digits after the point than `scale`, by which a server divides it.
    `members` are those of a SET column.
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
    bit: bool = False
    unsigned: bool | None = None
    untold: str = ""
    truth: bool = False
    shorter: bool = False
    members: tuple[str, ...] = ()

    @property
    def charset(self) -> str:
        """The character set of a text."""
        return self.collation.partition("_")[0]


NULL = Sql("NULL", "null")


def quoted(text: str) -> str:
    """Return a string literal."""
    if "\0" in text:
        return "concat(" + ", chr(0), ".join(quoted(part) for part in text.split("\0")) + ")"
    return quote_plainly(text)


def unhex(raw: bytes) -> str:
    """Return a literal of bytes."""
    return f"unhex('{raw.hex()}')"


def no_text(raw: bytes, collation: str) -> Sql:
    """Return a string literal whose bytes are no text of its character set: only bytes can be compared with it."""
    why = not_valid(collation.partition("_")[0])
    return Sql(stop(why, "VARCHAR"), "string", collation, raw=raw)


def not_valid(charset: str) -> str:
    """Return why such a literal is refused."""
    return f"a text that is not valid in {charset}"


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
    if piece.numbers == "":
        raise ExpressionError("an ENUM, a SET, or a date beside texts, out of CASE, IF or COALESCE as a number")
    if piece.numbers is not None:
        return Sql(piece.numbers, "int", unsigned=True)
    if piece.kind == "bool":
        return Sql(f"({piece.text})::INTEGER::HUGEINT", "int", unsigned=False, untold=piece.untold)
    if piece.kind == "date":
        return Sql(f"(floor({piece.text})::HUGEINT // 1000000)", "int", unsigned=False)
    if piece.kind == "string":
        check_digits(piece)
        return Sql(_leading_number(piece.text), "double")
    if piece.kind == "json":
        raise ExpressionError("a JSON value as a number; ->> gives it as text, CAST makes a number of that")
    if piece.kind == "binary":
        raise ExpressionError("a binary string as a number")
    if piece.kind in ("datetime", "time"):
        return replace(
            piece, kind="decimal", scale=6, constant=None, unsigned=False, untold=MOMENT_AS_NUMBER, shorter=True
        )
    return piece


def check_digits(piece: Sql) -> None:
    """Raise ExpressionError for a text of which a server reads a number in a way of its own."""
    if piece.charset in ("utf16", "utf16le", "utf32", "ucs2"):
        raise ExpressionError(f"a text in {piece.charset} as a number")


def _leading_number(text: str) -> str:
    found = f"coalesce(try_cast({leading_digits(text)} AS DOUBLE), 0)"
    within = f"least(greatest({found}, -{_MOST_DOUBLE}), {_MOST_DOUBLE})"  # a server clips what is greater
    return f"(CASE WHEN {text} IS NULL THEN NULL ELSE {within} END)"


_MOST_DOUBLE: Final = "1.7976931348623157e308::DOUBLE"


def leading_digits(text: str) -> str:
    """Return SQL of the number that stands at the beginning of a text, as text; '' if there is none."""
    pattern = r"^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    return f"regexp_extract({text}, '{pattern}', 1)"


def clamped(text: str, least: str, most: str) -> str:
    """Return SQL of a number within limits; NULL stays NULL, of which the engine's own functions take no notice."""
    return f"(CASE WHEN {text} < {least} THEN {least} WHEN {text} > {most} THEN {most} ELSE {text} END)"


def double(piece: Sql) -> str:
    """Return SQL of a piece as a DOUBLE."""
    return f"({number(piece).text})::DOUBLE"


def string(piece: Sql) -> Sql:
    """Return a piece as a string, as MySQL prints it."""
    if piece.kind in ("string", "null"):
        return piece
    if piece.kind == "bool":
        return string(number(piece))
    if piece.kind == "binary" or piece.bit:
        raise ExpressionError("a binary string as text; write CONVERT(… USING utf8mb4)")
    if piece.untold:
        raise ExpressionError(f"{piece.untold} as text")
    if piece.kind == "date":
        return Sql(_date_text(piece.text), "string", strength=NUMERIC)
    if piece.kind == "json":
        return Sql(f"({piece.text})::VARCHAR", "string", "utf8mb4_bin", COLUMN)
    if piece.year:
        return Sql(f"lpad(({piece.text})::VARCHAR, 4, '0')", "string", strength=NUMERIC)
    if piece.kind == "int":
        return Sql(f"({piece.text})::VARCHAR", "string", strength=NUMERIC)
    if piece.kind == "decimal":  # the engine writes no 0 before the point of a DECIMAL that has no digits there
        text = f"regexp_replace(({piece.text})::DECIMAL(38,{piece.scale})::VARCHAR, '^(-?)\\.', '\\10.')"
        return Sql(text, "string", strength=NUMERIC)
    raise ExpressionError(f"a {piece.kind} as text")


def _date_text(text: str) -> str:
    digits = f"lpad((floor({text})::HUGEINT // 1000000)::VARCHAR, 8, '0')"
    return "(" + " || '-' || ".join(f"substr({digits}, {at}, {size})" for at, size in ((1, 4), (5, 2), (7, 2))) + ")"


def moment(piece: Sql, session: DdlSession) -> Sql:
    """Return a piece as a date and time; constants are read as MySQL reads them."""
    if piece.kind in (*MOMENTS, "null"):
        return piece
    if piece.constant is not None and piece.kind in ("string", "int"):
        return replace(constant_moment(piece.constant, piece.kind != "string", session), strength=piece.strength)
    raise ExpressionError(f"a {piece.kind} value that is no constant as a date: a server reads it by rules of its own")


def constant_moment(text: str, is_number: bool, session: DdlSession) -> Sql:
    """Return a date and time that a literal means. Raises ExpressionError."""
    if is_number and 0 < abs(int(text)) < _LEAST_DATE:
        raise ExpressionError(f"incorrect date: {text}")
    if not is_number and ":" in text and not re.match(r"\s*\d+\D+\d+\D+\d+\D+\d+", text):
        raise ExpressionError(f"{text!r} as a date and time: write it with its date")
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
    if piece.kind in ("int", "decimal") and not piece.bit:
        return Sql(f"try_cast({piece.text} AS DECIMAL(38,6))", "time")
    raise ExpressionError(f"a {piece.kind} as a time")


def numeric_literal(text: str) -> Sql:
    """Return a number as written in SQL."""
    if "e" in text.lower():
        return Sql(f"{text}::DOUBLE", "double", constant=text)
    whole, _, fraction = text.partition(".")
    if len(whole.lstrip("-0")) + len(fraction) > 38:
        fraction = fraction.rstrip("0")
    size = max(len(whole.lstrip("-0")) + len(fraction), 1)
    if size > 38:
        raise ExpressionError(f"{text}: a DECIMAL of more than 38 digits")
    if fraction:
        # In quotes: the engine itself takes a number for a DOUBLE if it has many digits.
        return Sql(
            f"'{whole}.{fraction}'::DECIMAL({size},{len(fraction)})",
            "decimal",
            constant=text,
            scale=len(fraction),
            unsigned=False,
        )
    value = int(whole)
    if not -(1 << 63) <= value < 1 << 64:
        return Sql(f"{whole}::DECIMAL(38,0)", "decimal", constant=text)
    return Sql(f"{whole}::HUGEINT", "int", constant=text, unsigned=value >= 1 << 63)
