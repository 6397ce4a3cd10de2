"""A position in a statement's tokens, with the basic operations of a parser."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from snapshot_store.errors import DdlNotUnderstood, DdlRejected, shorten
from snapshot_store.mysql.sql.lexer import Token, expand, tokenize
from snapshot_store.mysql.sql.names import is_reserved
from snapshot_store.mysql.sql.session import DdlSession

TableName = tuple[str | None, str]
"""A table's name as written: (schema or None, name)."""


_SHORT: Final = 1 << 14
"""The longest statement of which the tokens are kept for a while: it is asked this and that, one after the other."""
_LONGEST_NAME = 64
_LIKE_A_NUMBER = re.compile(r"\d+[eE]\d")


class Cursor:
    """A position in one statement; `text` is the statement with comments blanked, which the tokens' offsets refer to.

    `files` are the (start, end) of options that choose a table's files; the parser of options adds them. `named` are
    those of the names of tables and databases that were parsed, `qualified` those of the schemas, with their dots, that
    were parsed before names of tables, each with the whole name. `conditions` are those of IF EXISTS and IF NOT EXISTS
    where MariaDB alone has them, up to what follows. `items` are those of the list of an ALTER or RENAME TABLE: the
    indexes of their tokens, and how many actions each is, as ADD (...) is several; `actions` are the indexes of these.
    """

    def __init__(self, sql: str, text: str, tokens: Sequence[Token], session: DdlSession) -> None:
        self.sql = sql
        self.text = text
        self.session = session
        self.tokens = tokens
        self._end = Token("end", "", len(text), len(text))
        self.place = 0
        self.files: set[tuple[int, int]] = set()
        self.named: set[tuple[int, int]] = set()
        self.qualified: dict[tuple[int, int], tuple[str, str]] = {}
        self.conditions: list[tuple[int, int]] = []
        self.items: list[tuple[int, int, int]] = []
        self.actions: list[tuple[int, int]] = []

    @classmethod
    def of(cls, sql: str, session: DdlSession) -> "Cursor":
        """Return a cursor at the start of a statement."""
        text, tokens = (_cut_lately if len(sql) <= _SHORT else _cut)(sql, session)
        return cls(sql, text, tokens, session)

    def peek(self, ahead: int = 0) -> Token:
        """Return a token without moving; after the last, a token of kind "end"."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else self._end

    def next(self) -> Token:
        """Return the next token and move past it."""
        token = self.peek()
        self.place += 1
        return token

    @property
    def done(self) -> bool:
        """Return whether the statement is at its end."""
        return self.place >= len(self.tokens) or self.at_symbol(";")

    def finish(self) -> None:
        """Raise unless the statement ends here; semicolons may follow, but nothing after them."""
        while self.accept_symbol(";"):
            pass
        if self.peek().kind != "end":
            raise self.error("something follows the statement")

    def skip_rest(self) -> None:
        """Skip the rest of the statement."""
        while not self.done:
            self.next()

    def skip_all(self) -> None:
        """Skip the rest of the text: the body of a routine, with its semicolons."""
        self.place = len(self.tokens)

    def error(self, reason: str) -> DdlNotUnderstood:
        """Return an error that quotes the text from here on."""
        rest = self.text[self.peek().start :]
        where = f"near {shorten(rest)[:60]!r}" if rest.strip() else "at the end"
        return DdlNotUnderstood(self.sql, f"{reason} {where}")

    def limit(self, kept: bool, reason: str) -> None:
        """Raise DdlRejected unless `kept`, if the session has `validate`."""
        if not kept and self.session.validate:
            raise DdlRejected(f"{reason}; statement: {shorten(self.sql)}")

    # Words: unquoted, in upper or lower case.

    def word(self, ahead: int = 0) -> str:
        """Return the next word in upper case, or "" if the next token is not a word."""
        token = self.peek(ahead)
        return token.text.upper() if token.kind == "word" else ""

    def at(self, *words: str) -> bool:
        """Return whether these words come next, in this order."""
        return all(self.word(i) == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Skip these words if they come next; return whether they did."""
        if not self.at(*words):
            return False
        self.place += len(words)
        return True

    def accept_condition(self, *words: str) -> bool:
        """Skip IF EXISTS or IF NOT EXISTS where MariaDB alone takes it; return whether it came next.

        With `validate` it is not skipped: no MySQL takes it there.
        """
        start = self.peek().start
        if self.session.validate or not self.accept(*words):
            return False
        self.conditions.append((start, self.peek().start))
        return True

    def accept_one(self, *words: str) -> str | None:
        """Skip one of these words and return it; None if none comes next."""
        here = self.word()
        if here not in words or not here:
            return None
        self.place += 1
        return here

    def expect(self, *words: str) -> None:
        """Skip these words; raise if they do not come next."""
        if not self.accept(*words):
            raise self.error(f"expected {' '.join(words)}")

    # Symbols.

    def at_symbol(self, symbol: str, ahead: int = 0) -> bool:
        """Return whether this symbol comes next."""
        token = self.peek(ahead)
        return token.kind == "symbol" and token.text == symbol

    def accept_symbol(self, symbol: str) -> bool:
        """Skip this symbol if it comes next; return whether it did."""
        if not self.at_symbol(symbol):
            return False
        self.place += 1
        return True

    def expect_symbol(self, symbol: str) -> None:
        """Skip this symbol; raise if it does not come next."""
        if not self.accept_symbol(symbol):
            raise self.error(f"expected {symbol!r}")

    # Values.

    def at_name(self) -> bool:
        """Return whether a name, quoted or not, comes next."""
        return self.peek().kind in ("word", "name")

    def name(self) -> str:
        """Parse a name. With `validate`, it must be one that a server accepts: an unquoted reserved word is refused."""
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
        """Parse `table` or `schema.table`."""
        start = self.peek().start
        first = self.database_name()
        if not self.accept_symbol("."):
            return (None, first)
        token = self.peek()
        self.named.add((token.start, token.end))
        name = (first, self.after_dot())
        self.qualified[start, token.start] = name
        return name

    def database_name(self) -> str:
        """Parse the name of a database."""
        token = self.peek()
        self.named.add((token.start, token.end))
        return self.name()

    def after_dot(self) -> str:
        """Parse a name after a dot, where a keyword is a name."""
        return self._checked(self.word_or_name())

    def word_or_name(self) -> str:
        """Parse any word, or a quoted name."""
        if not self.at_name():
            raise self.error("expected a name")
        return self.next().text

    def names(self) -> tuple[str, ...]:
        """Parse a list of names in parentheses."""
        self.expect_symbol("(")
        names = [self.name()]
        while self.accept_symbol(","):
            names.append(self.name())
        self.expect_symbol(")")
        return tuple(names)

    def string(self) -> str:
        """Parse a string literal without introducer or N, as in COMMENT or ENUM."""
        token = self.peek()
        if token.kind != "string" or self.text[token.start] in "nN":
            raise self.error("expected a string")
        return self.next().text

    def literal_string(self) -> str:
        """Parse a string literal; adjacent literals are joined, as in SQL."""
        if self.peek().kind != "string":
            raise self.error("expected a string")
        parts = [self.next().text]
        while self.peek().kind == "string":
            parts.append(self.next().text)
        return "".join(parts)

    def integer(self) -> int:
        """Parse a whole number."""
        text = self.peek().text
        if self.peek().kind != "number" or not (text.isascii() and text.isdigit()) or len(text) > 20:
            raise self.error("expected a whole number")
        self.next()
        return int(text)

    def parenthesized(self) -> str:
        """Skip a pair of parentheses and return the source text between them."""
        start, close = self.peek().end, closing(self.tokens, self.place)
        self.expect_symbol("(")
        if close == len(self.tokens):
            self.place = close
            raise self.error("a parenthesis is never closed")
        self.place = close + 1
        return self.text[start : self.tokens[close].start].strip()


def depths_of(tokens: Sequence[Token], begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Token, int]]:
    """Yield the index of each token between two, the token, and how many parentheses since `begin` it is in.

    A parenthesis is as deep as what stands before and after the pair.
    """
    depth = 0
    for i in range(begin, len(tokens) if end is None else end):
        token = tokens[i]
        if token.kind == "symbol":
            depth -= token.text == ")"
        yield i, token, depth
        if token.kind == "symbol":
            depth += token.text == "("


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`; the count of tokens if none does."""
    found = (i for i, token, depth in depths_of(tokens, opening) if i > opening and depth <= 0 and token.text == ")")
    return next((i for i in found if tokens[i].kind == "symbol"), len(tokens))


def items_of(tokens: Sequence[Token], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the (first, after last) indexes of the items of a list with commas."""
    commas = [i for i, token, depth in depths_of(tokens, begin, end) if token.text == "," and not depth]
    commas = [i for i in commas if tokens[i].kind == "symbol"]
    return list(zip([begin, *(i + 1 for i in commas)], [*commas, end], strict=True))


def names_in(expression: str, session: DdlSession) -> set[str]:
    """Return the words and quoted names of an expression in lower case: its columns, but also other words."""
    tokens = tokenize(expression, session)
    return {t.text.lower() for t in tokens if t.kind in ("word", "name")}


def _cut(sql: str, session: DdlSession) -> tuple[str, Sequence[Token]]:
    """Return a statement with comments blanked, and its tokens."""
    text, _ = expand(sql, session)
    try:
        return text, tokenize(text, session)
    except DdlNotUnderstood as error:
        raise DdlNotUnderstood(sql, error.reason) from None


_cut_lately = lru_cache(maxsize=64)(_cut)
