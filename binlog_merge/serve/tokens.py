"""Splits a statement into tokens, without spaces and comments, and reads them with a cursor.

What a comment /*!80000 …*/ holds is part of the statement, as for a MySQL server of that version.
"""

import re
from dataclasses import dataclass
from typing import Final

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|/\*.*?\*/|--(?=\s|$)[^\n]*|\#[^\n]*)
  | (?P<string>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
  | (?P<system>@@(?:[A-Za-z_]\w*\.)?(?:[A-Za-z_]\w*|`[^`]+`))
  | (?P<user>@(?:[\w.$]+|`[^`]+`|'[^']*'))
  | (?P<number>-?\d+(?:\.\d+)?\b)
  | (?P<word>[A-Za-z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*|`(?:[^`]|``)+`)
  | (?P<mark>:=|<=>|[<>!]=|<>|[(),;=*.<>+%-])
    """,
    re.VERBOSE | re.DOTALL,
)
# A backslash before a wildcard stays: it is LIKE's.
_ESCAPES: Final = {"%": "\\%", "_": "\\_", "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_EXECUTED = re.compile(r"/\*!(\d{5,6})?")
_VERSION: Final = 90700
_MOST_TOKENS: Final = 2000


class NotUnderstood(Exception):  # noqa: N818 (named after what is the case, like the errors of the project)
    """The statement is not one of those that are understood."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """A cursor over a statement's tokens."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._tokens = split(sql)
        self._at = 0

    @property
    def place(self) -> int:
        """The number of tokens taken; it may be set back."""
        return self._at

    @place.setter
    def place(self, at: int) -> None:
        self._at = at

    def at_end(self) -> bool:
        """Return whether nothing but semicolons follows."""
        return all(token.text == ";" for token in self._tokens[self._at :])

    def rest(self) -> str:
        """Take all tokens but semicolons at the end; return their text."""
        left = self._tokens[self._at :]
        while left and left[-1].text == ";":
            left.pop()
        if any(token.text == ";" for token in left):
            raise NotUnderstood
        self._at += len(left)
        return self.sql[left[0].start : left[-1].end] if left else ""

    def peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    @property
    def taken_to(self) -> int:
        """Return the offset in the text after the last token taken."""
        return self._tokens[self._at - 1].end if self._at else 0

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            raise NotUnderstood
        self._at += 1
        return token

    def word(self, *words: str) -> bool:
        """Take these words if they are next; return whether they were."""
        coming = self._tokens[self._at : self._at + len(words)]
        if len(coming) < len(words) or any(
            token.kind != "word" or token.text.lower() != word for token, word in zip(coming, words, strict=True)
        ):
            return False
        self._at += len(words)
        return True

    def mark(self, *marks: str) -> bool:
        token = self.peek()
        if token is None or token.kind != "mark" or token.text not in marks:
            return False
        self._at += 1
        return True

    def number(self) -> int:
        token = self.next()
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 19:
            raise NotUnderstood
        return int(token.text)

    def string(self) -> str:
        token = self.next()
        if token.kind != "string":
            raise NotUnderstood
        return unquoted(token.text)

    def end(self) -> None:
        """Raise unless the statement ends here."""
        while self.mark(";"):
            pass
        if self.peek() is not None:
            raise NotUnderstood


def name_of(token: Token) -> str:
    if token.kind == "string":
        return unquoted(token.text)
    if token.kind != "word":
        raise NotUnderstood
    return token.text[1:-1].replace("``", "`") if token.text.startswith("`") else token.text


def split(sql: str) -> list[Token]:
    found: list[Token] = []
    at, executed = 0, False
    while at < len(sql):
        opened = None if executed else _EXECUTED.match(sql, at)
        if opened is not None and int(opened[1] or 0) <= _VERSION:
            executed, at = True, opened.end()
            continue
        if executed and sql.startswith("*/", at):
            executed, at = False, at + 2
            continue
        match = _TOKEN.match(sql, at)
        if match is None or len(found) > _MOST_TOKENS:
            raise NotUnderstood
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], at, match.end()))
        at = match.end()
    return found


def unquoted(text: str) -> str:
    quote, inner = text[0], text[1:-1]
    return re.sub(
        rf"\\(.)|{quote}{quote}", lambda m: quote if m[1] is None else _ESCAPES.get(m[1], m[1]), inner, flags=re.DOTALL
    )
