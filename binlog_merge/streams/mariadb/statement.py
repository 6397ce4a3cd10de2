"""A statement on its way to MariaDB: its text, tokens and items, what is changed, and what is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from snapshot_store.mysql.sql import cursor
from snapshot_store.mysql.sql.edits import Edits
from snapshot_store.mysql.sql.lexer import Token

_EVERYTHING: Final = -1


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list. `span` are the offsets of the item with the comma that goes with it."""

    tokens: Sequence[Token]
    span: tuple[int, int]

    def words(self, count: int = _EVERYTHING) -> tuple[str, ...]:
        """Return the first words in upper case, "" for a token that is no word."""
        tokens = self.tokens if count == _EVERYTHING else self.tokens[:count]
        return tuple(token.text.upper() if token.kind == "word" else "" for token in tokens)


def items_of(tokens: Sequence[Token]) -> list[Item]:
    """Return the definitions of a CREATE TABLE, or the actions of an ALTER TABLE; none of any other statement."""
    words = [token.text.upper() if token.kind == "word" else "" for token in tokens]
    if words[:2] == ["ALTER", "TABLE"]:
        begin = _behind_name(tokens, 2)
        return _cut(tokens, begin, len(tokens))
    if words[:1] == ["CREATE"] and "TABLE" in words[:3]:
        first = next((i for i, token in enumerate(tokens) if token.text == "(" and token.kind == "symbol"), None)
        return [] if first is None else _cut(tokens, first + 1, cursor.closing(tokens, first))
    return []


def _behind_name(tokens: Sequence[Token], at: int) -> int:
    at += 1
    while at + 1 < len(tokens) and tokens[at].text == ".":
        at += 2
    return at


def _cut(tokens: Sequence[Token], begin: int, end: int) -> list[Item]:
    """Return the items between two indexes. The first takes the comma behind it along, others that before them."""
    items, bounds = [], cursor.items_of(tokens, begin, end) if begin < end else []
    for number, (start, stop) in enumerate(bounds):
        if start == stop:
            continue
        span = tokens[start].start, tokens[stop - 1].end
        if number:
            span = tokens[bounds[number - 1][1]].start, span[1]
        elif len(bounds) > 1:
            span = span[0], tokens[stop].end
        items.append(Item(tokens[start:stop], span))
    return items


class Statement:
    """A statement. `dropped`: nothing of it is left; `notes` say what is lost, or may be refused."""

    def __init__(self, found: cursor.Cursor) -> None:
        self.sql, self.tokens, self.edits = found.sql, found.tokens, Edits(found)
        self.notes: list[str] = []
        self.dropped = False

    def leave_out(self, item: Item, why: str) -> None:
        """Remove an item with a comma, and name it."""
        self.edits.remove(*item.span)
        text = " ".join(self.sql[item.tokens[0].start : item.tokens[-1].end].split())
        self.notes.append(f"{text[:120]}: {why}")


def word_of(token: Token) -> str:
    """Return a word in upper case, "" for any other token."""
    return token.text.upper() if token.kind == "word" else ""


def is_functional(tokens: Sequence[Token]) -> bool:
    """Return whether a key has a part in parentheses of its own."""
    return any(a.text in ("(", ",") and b.text == "(" for a, b in pairwise(tokens))


def is_type(tokens: Sequence[Token], i: int) -> bool:
    """Return whether the word at an index is a type: a column's name stands before it."""
    before = tokens[i - 1]
    verbs = ("ADD", "COLUMN", "MODIFY", "CHANGE", "DROP", "EXISTS", "AFTER", "TO", "RENAME", "DEFAULT", "SET", "ALTER")
    return before.kind in ("word", "name") and word_of(before) not in verbs
