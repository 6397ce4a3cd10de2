"""A place in a statement's tokens, and the small questions every parser asks of it."""

import re

from snapshot_store.errors import DdlNotUnderstood, DdlRejected, shorten
from snapshot_store.mysql.sql.lexer import Token, expand, tokenize
from snapshot_store.mysql.sql.reserved import is_reserved
from snapshot_store.mysql.sql.session import DdlSession

TableName = tuple[str | None, str]
"""A table's name as written: (schema or None, name)."""


_LONGEST_NAME = 64
_LIKE_A_NUMBER = re.compile(r"\d+[eE]\d")


class Cursor:
    """Walks one statement; `text` is the statement with its comments blanked, which tokens index into.

    `files` is noted by who reads options: where those stand that say where a server keeps the table.
    """

    def __init__(self, sql: str, text: str, tokens: list[Token], session: DdlSession) -> None:
        self.sql = sql
        self.text = text
        self.session = session
        self._tokens = tokens
        self._end = Token("end", "", len(text), len(text))
        self.place = 0
        self.files: set[tuple[int, int]] = set()

    @classmethod
    def of(cls, sql: str, session: DdlSession) -> "Cursor":
        """Return a cursor at the start of one statement."""
        text, _ = expand(sql, session)
        try:
            return cls(sql, text, tokenize(text, session), session)
        except DdlNotUnderstood as error:
            raise DdlNotUnderstood(sql, error.reason) from None

    def peek(self, ahead: int = 0) -> Token:
        """Return a token without moving; past the last one, a token of kind "end"."""
        place = self.place + ahead
        return self._tokens[place] if place < len(self._tokens) else self._end

    def next(self) -> Token:
        """Return the token here and move on."""
        token = self.peek()
        self.place += 1
        return token

    @property
    def done(self) -> bool:
        """Tell whether nothing is left of the statement."""
        return self.place >= len(self._tokens) or self.at_symbol(";")

    def finish(self) -> None:
        """Raise unless the statement ends here; semicolons may end it, nothing may follow them."""
        while self.accept_symbol(";"):
            pass
        if self.peek().kind != "end":
            raise self.error("something follows the statement")

    def skip_rest(self) -> None:
        """Move to the end of the statement."""
        while not self.done:
            self.next()

    def skip_all(self) -> None:
        """Move to the end of the text: past the body of a routine, with its semicolons."""
        self.place = len(self._tokens)

    def error(self, reason: str) -> DdlNotUnderstood:
        """Return an error that points here."""
        rest = self.text[self.peek().start :]
        where = f"near {shorten(rest)[:60]!r}" if rest.strip() else "at the end"
        return DdlNotUnderstood(self.sql, f"{reason} {where}")

    def limit(self, kept: bool, reason: str) -> None:
        """Raise DdlRejected if a limit is not kept, in a session that validates."""
        if not kept and self.session.validate:
            raise DdlRejected(f"{reason}; statement: {shorten(self.sql)}")

    # Words: keywords are unquoted, in any case.

    def word(self, ahead: int = 0) -> str:
        """Return the upper-case word here, or "" if here is something else."""
        token = self.peek(ahead)
        return token.text.upper() if token.kind == "word" else ""

    def at(self, *words: str) -> bool:
        """Tell whether these words, in this order, stand here."""
        return all(self.word(i) == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Move past these words if they stand here."""
        if not self.at(*words):
            return False
        self.place += len(words)
        return True

    def accept_one(self, *words: str) -> str | None:
        """Move past one of these words and return it, or None."""
        here = self.word()
        if here not in words or not here:
            return None
        self.place += 1
        return here

    def expect(self, *words: str) -> None:
        """Move past these words, or raise."""
        if not self.accept(*words):
            raise self.error(f"expected {' '.join(words)}")

    # Symbols.

    def at_symbol(self, symbol: str, ahead: int = 0) -> bool:
        """Tell whether this symbol stands here."""
        token = self.peek(ahead)
        return token.kind == "symbol" and token.text == symbol

    def accept_symbol(self, symbol: str) -> bool:
        """Move past this symbol if it stands here."""
        if not self.at_symbol(symbol):
            return False
        self.place += 1
        return True

    def expect_symbol(self, symbol: str) -> None:
        """Move past this symbol, or raise."""
        if not self.accept_symbol(symbol):
            raise self.error(f"expected {symbol!r}")

    # Values.

    def at_name(self) -> bool:
        """Tell whether a name, quoted or not, stands here."""
        return self.peek().kind in ("word", "name")

    def name(self) -> str:
        """Read a name. With `validate`, one that a server takes: no reserved word, unless quoted."""
        token = self.peek()
        if not self.at_name():
            raise self.error("expected a name")
        self.limit(
            token.kind == "name" or not is_reserved(token.text, self.session), f"{token.text} is a reserved word"
        )
        self.limit(
            token.kind == "name" or not _LIKE_A_NUMBER.match(token.text), f"{token.text} begins as a number does"
        )
        return self._checked(self.next().text)

    def _checked(self, name: str) -> str:
        self.limit(0 < len(name) <= _LONGEST_NAME, f"a name must have 1 to {_LONGEST_NAME} characters: {name!r}")
        self.limit(not name.endswith(" ") and "\0" not in name, f"the name {name!r} is incorrect")
        return name

    def table_name(self) -> TableName:
        """Read `table` or `schema.table`."""
        first = self.name()
        return (first, self.after_dot()) if self.accept_symbol(".") else (None, first)

    def after_dot(self) -> str:
        """Read a name behind a dot, where keywords are names."""
        return self._checked(self.word_or_name())

    def word_or_name(self) -> str:
        """Read a word, whatever it is, or a quoted name."""
        if not self.at_name():
            raise self.error("expected a name")
        return self.next().text

    def names(self) -> tuple[str, ...]:
        """Read a list of names in parentheses."""
        self.expect_symbol("(")
        found = [self.name()]
        while self.accept_symbol(","):
            found.append(self.name())
        self.expect_symbol(")")
        return tuple(found)

    def string(self) -> str:
        """Read a string where a string must stand: a comment, a member."""
        token = self.peek()
        if token.kind != "string" or self.text[token.start] in "nN":
            raise self.error("expected a string")
        return self.next().text

    def literal_string(self) -> str:
        """Read a string literal; neighbours are one string, as in SQL."""
        if self.peek().kind != "string":
            raise self.error("expected a string")
        parts = [self.next().text]
        while self.peek().kind == "string":
            parts.append(self.next().text)
        return "".join(parts)

    def integer(self) -> int:
        """Read a whole number."""
        text = self.peek().text
        if self.peek().kind != "number" or not (text.isascii() and text.isdigit()) or len(text) > 20:
            raise self.error("expected a whole number")
        self.next()
        return int(text)

    def parenthesized(self) -> str:
        """Move past a pair of parentheses and return the source text between them."""
        self.expect_symbol("(")
        start = self.peek().start
        depth = 1
        while depth:
            token = self.next()
            if token.kind == "end":
                raise self.error("a parenthesis is never closed")
            if token.kind == "symbol":
                depth += (token.text == "(") - (token.text == ")")
        return self.text[start : token.start].strip()


def names_in(expression: str, session: DdlSession) -> set[str]:
    """Return the lower-case words and quoted names in an expression: its columns, and some more."""
    tokens = tokenize(expression, session)
    return {t.text.lower() for t in tokens if t.kind in ("word", "name")}
