"""Edits of a statement's text by offset, and the items of its list of definitions or actions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from snapshot_store.mysql.sql.lexer import Token

_EVERYTHING: Final = -1


@dataclass
class Edits:
    """Replacements of parts of a text. One that lies in another's part is dropped."""

    _made: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, start: int, end: int, text: str) -> None:
        """Put a text in place of a part."""
        self._made.append((start, end, text))

    def remove(self, start: int, end: int) -> None:
        """Remove a part."""
        self.replace(start, end, "")

    def empties(self, text: str, start: int, end: int) -> bool:
        """Return whether nothing but blanks is left of a part of a text."""
        inside = Edits([(a - start, b - start, new) for a, b, new in self._made if start <= a and b <= end])
        return not inside.applied(text[start:end]).strip()

    def applied(self, text: str) -> str:
        """Return the text with all edits."""
        result, at = [], 0
        # The longer of two that begin together comes first, so that the one inside is dropped.
        for start, end, new in sorted(self._made, key=lambda edit: (edit[0], -edit[1])):
            if start >= at:
                result += [text[at:start], new]
                at = end
        return "".join((*result, text[at:]))


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
        return [] if first is None else _cut(tokens, first + 1, _closing(tokens, first))
    return []


def _behind_name(tokens: Sequence[Token], at: int) -> int:
    at += 1
    while at + 1 < len(tokens) and tokens[at].text == ".":
        at += 2
    return at


def _closing(tokens: Sequence[Token], begin: int) -> int:
    depth = 0
    for i in range(begin, len(tokens)):
        if tokens[i].kind == "symbol":
            depth += (tokens[i].text == "(") - (tokens[i].text == ")")
            if depth == 0:
                return i
    return len(tokens)


def _cut(tokens: Sequence[Token], begin: int, end: int) -> list[Item]:
    """Return the items between two indexes. The first takes the comma behind it along, others that before them."""
    if begin >= end:
        return []
    bounds, depth, first = [], 0, begin
    for i in range(begin, end):
        if tokens[i].kind == "symbol":
            depth += (tokens[i].text == "(") - (tokens[i].text == ")")
            if depth == 0 and tokens[i].text == ",":
                bounds.append((first, i))
                first = i + 1
    bounds.append((first, end))
    items = []
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
