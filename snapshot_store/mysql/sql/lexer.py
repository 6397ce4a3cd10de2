r"""Splitting statements into tokens with their offsets in the text.

sqlglot's tokenizer (`tokens`) cuts the text. Before that, `expand` does what the tokenizer cannot do:

    CREATE TABLE t (a INT) /*!50100 PARTITION BY HASH(a) */ -- note
    CREATE TABLE t (a INT)          PARTITION BY HASH(a)

Executable comments lose their delimiters, and all other comments (and $$ bodies of routines) become blanks. Offsets
stay the same, so that any part of the result can be quoted by offset. String literals are decoded here, from their
source text.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.session import DdlSession

if TYPE_CHECKING:
    from snapshot_store.mysql.sql.tokens import TokenKind


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `text` is its decoded value, `start` and `end` (exclusive) are its offsets.

    "word" may be a keyword or a name, "name" is a quoted name, "bits" a hexadecimal or bit literal, as written.
    """

    kind: "TokenKind"
    text: str
    start: int
    end: int


_SINGLE = {True: r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'", False: r"'[^']*(?:''[^']*)*'"}
_DOUBLE = {True: r'"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"', False: r'"[^"]*(?:""[^"]*)*"'}
_OTHERS = r"""
    | (?P<name>`[^`]*(?:``[^`]*)*`)
    | (?P<executable>/\*!(?P<version>\d{5,6})?)
    | (?P<comment>/\*)
    | (?P<close>\*/)
    | (?P<line>\#[^\n]*|--(?=[\s\x00-\x1f]|\Z)[^\n]*)
    | (?P<semicolon>;)
    | (?<![\w$])(?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<unclosed>['"`])
    | (?P<blank>[^\S \t\n\v\f\r])
"""


@cache
def _landmarks(ansi: bool, backslash: bool) -> re.Pattern[str]:
    """Return what `expand` stops at, by ANSI_QUOTES and backslash escapes, which a quoted name does not have."""
    strings = f"{_SINGLE[backslash]}|{_DOUBLE[backslash and not ansi]}"
    return re.compile(f"(?P<string>{strings}){_OTHERS}", re.VERBOSE | re.DOTALL)


def expand(sql: str, session: DdlSession) -> tuple[str, list[int]]:
    """Return the text with comments blanked and executable comments opened, and the offsets of its semicolons.

    The result has the length of `sql`. An executable comment for a server newer than the session's is blanked.
    """
    pattern = _landmarks(session.ansi_quotes, session.backslash_escapes)
    pieces: list[str] = []
    semicolons: list[int] = []
    start, opened = 0, 0
    while match := pattern.search(sql, start):
        pieces.append(sql[start : match.start()])
        kind, end = match.lastgroup, match.end()
        if kind == "unclosed":
            raise DdlNotUnderstood(sql, f"the quote {match.group()} at offset {match.start()} is never closed")
        if kind == "blank":
            code = f"U+{ord(match.group()):04X}"
            raise DdlNotUnderstood(sql, f"character {code} at offset {match.start()} is no blank to MySQL")
        if kind == "executable" and int(match["version"] or 0) > session.server_version:
            kind = "comment"
        if kind == "comment":
            end = _comment_end(sql, match.start())
        if kind == "semicolon":
            semicolons.append(match.start())
        blank = kind in ("comment", "line", "executable", "dollar") or (kind == "close" and opened > 0)
        opened += (kind == "executable") - (kind == "close" and blank)
        pieces.append(" " * (end - match.start()) if blank else match.group())
        start = end
    pieces.append(sql[start:])
    if opened:
        raise DdlNotUnderstood(sql, "an executable comment is never closed")
    return "".join(pieces), semicolons


def _comment_end(sql: str, start: int) -> int:
    """Return the end of the comment at `start`; an executable comment that is not executed may contain comments."""
    nests = sql.startswith("/*!", start)
    depth, end = 1, start + 2
    while depth:
        close = sql.find("*/", end)
        if close < 0:
            raise DdlNotUnderstood(sql, f"the comment at offset {start} is never closed")
        inner = sql.find("/*", end, close) if nests else -1
        depth += 1 if inner >= 0 else -1
        end = (inner if inner >= 0 else close) + 2
    return end


def tokenize(text: str, session: DdlSession, offset: int = 0) -> list[Token]:
    """Return the tokens of a text that `expand` returned; their offsets start at `offset`."""
    from snapshot_store.mysql.sql.tokens import cut  # importing sqlglot takes longer than a small question

    return [
        Token(kind, _value(kind, text[start:end], session.backslash_escapes), start + offset, end + offset)
        for kind, start, end in cut(text, session)
    ]


def _value(kind: "TokenKind", source: str, backslash_escapes: bool) -> str:
    if kind == "name":
        return source[1:-1].replace(source[0] * 2, source[0])
    return decode_string(source.lstrip("nN"), backslash_escapes) if kind == "string" else source


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def decode_string(source: str, backslash_escapes: bool) -> str:
    """Return the value of a quoted string literal."""
    quote, body = source[0], source[1:-1]
    if not backslash_escapes:
        return body.replace(quote * 2, quote)
    # A doubled quote can follow a backslash escape, so both are replaced in one pass.
    both = re.compile(rf"{quote}{quote}|{_ESCAPE.pattern}", re.DOTALL)
    return both.sub(lambda m: quote if m[1] is None else _ESCAPED.get(m[1], m[1]), body)
