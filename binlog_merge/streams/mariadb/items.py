"""What MariaDB has otherwise in the definitions of a CREATE TABLE and in the actions of an ALTER TABLE."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from snapshot_store.mysql.sql import cursor
from snapshot_store.mysql.sql.cursor import depths_of
from snapshot_store.mysql.sql.edits import Edits
from snapshot_store.mysql.sql.lexer import Token

_EVERYTHING: Final = -1


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list. `start` is the offset of the comma before it, and `end` that behind the one after it, if there
    is one.
    """

    tokens: Sequence[Token]
    start: int
    end: int

    def words(self, count: int = _EVERYTHING) -> tuple[str, ...]:
        """Return the first words in upper case, "" for a token that is no word."""
        tokens = self.tokens if count == _EVERYTHING else self.tokens[:count]
        return tuple(token.text.upper() if token.kind == "word" else "" for token in tokens)


def items_of(tokens: Sequence[Token]) -> list[Item]:
    """Return the definitions of a CREATE TABLE, or the actions of an ALTER TABLE; none of any other statement."""
    words = [token.text.upper() if token.kind == "word" else "" for token in tokens]
    if words[:2] == ["ALTER", "TABLE"]:
        begin = _behind_name(tokens, 4 if words[2:4] == ["IF", "EXISTS"] else 2)
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
    """Return the items between two indexes."""
    items, bounds = [], cursor.items_of(tokens, begin, end) if begin < end else []
    for number, (start, stop) in enumerate(bounds):
        if start == stop:
            continue
        before = bounds[number - 1][1] if number else start
        behind = stop if number + 1 < len(bounds) else stop - 1
        items.append(Item(tokens[start:stop], tokens[before].start, tokens[behind].end))
    return items


class Statement:
    """A statement. `dropped`: nothing of it is left; `notes` say what is lost, or may be refused."""

    def __init__(self, found: cursor.Cursor) -> None:
        self.sql, self.tokens, self.edits = found.sql, found.tokens, Edits(found)
        self.notes: list[str] = []
        self.dropped = False

    def value(self, i: int) -> Token | None:
        """Return the value behind the word at an index, which may follow `=`."""
        at = i + 1
        if at < len(self.tokens) and self.tokens[at].text == "=":
            at += 1
        return self.tokens[at] if at < len(self.tokens) and self.tokens[at].kind != "symbol" else None

    def rewrite_items(self, rewrite: Callable[[Item], None]) -> None:
        """Collect the edits of each item; of what nothing is left, a comma goes too: those before the first that stays
        take the one behind them along, the others that before them.
        """
        stays = False
        for item in items_of(self.tokens):
            rewrite(item)
            start, end = item.tokens[0].start, item.tokens[-1].end
            if not self.edits.empties(start, end):
                stays = True
            elif stays:
                self.edits.remove(item.start, end)
            else:
                self.edits.remove(start, item.end)

    def leave_out(self, item: Item, why: str) -> None:
        """Remove an item, and name it."""
        self.edits.remove(item.tokens[0].start, item.tokens[-1].end)
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


_KEYS: Final = ("KEY", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY")


def rewrite_item(made: Statement, item: Item) -> None:
    """Collect the edits of one item: the first rule that knows it decides."""
    for rule in _RULES:
        if rule(made, item):
            return


Rule = Callable[[Statement, Item], bool]


def _drop_check(made: Statement, item: Item) -> bool:
    if item.words(2) != ("DROP", "CHECK"):
        return False
    made.edits.replace(item.tokens[1].start, item.tokens[1].end, "CONSTRAINT")
    return True


def _alter_check(made: Statement, item: Item) -> bool:
    if item.words(2) not in (("ALTER", "CHECK"), ("ALTER", "CONSTRAINT")):
        return False
    made.leave_out(item, "left out: MariaDB enforces all checks that it has")
    return True


def _alter_index(made: Statement, item: Item) -> bool:
    if item.words(2) not in (("ALTER", "INDEX"), ("ALTER", "KEY")):
        return False
    _index_visibility(made, item)
    return True


def _index_visibility(made: Statement, item: Item) -> None:
    for token in item.tokens:
        if word_of(token) in ("VISIBLE", "INVISIBLE"):
            made.edits.replace(token.start, token.end, "IGNORED" if word_of(token) == "INVISIBLE" else "NOT IGNORED")


def _set_visible(made: Statement, item: Item) -> bool:
    words = item.words()
    if words[:1] != ("ALTER",) or words[-2:-1] != ("SET",) or words[-1] not in ("VISIBLE", "INVISIBLE"):
        return False
    made.leave_out(item, "left out: MariaDB needs the whole definition for it; the column stays as it was there")
    return True


def _functional_key(made: Statement, item: Item) -> bool:
    words = [word for word in item.words() if word not in ("ADD", "CONSTRAINT")]
    if not any(word in _KEYS for word in words[:2]):
        return False
    if is_functional(item.tokens):
        made.leave_out(item, "left out: MariaDB has no keys over expressions")
    else:
        _index_visibility(made, item)
    return True


def _not_enforced(made: Statement, item: Item) -> bool:
    words = item.words()
    for i in range(len(words) - 1):
        if words[i : i + 2] != ("NOT", "ENFORCED"):
            continue
        first = max((j for j in range(i) if words[j] == "CHECK"), default=None)
        if first is None:
            continue
        if first and words[first - 1] == "CONSTRAINT":
            first -= 1
        elif first > 1 and words[first - 2] == "CONSTRAINT":
            first -= 2
        if first <= 1 and words[:first] in ((), ("ADD",)):
            made.leave_out(item, "left out: MariaDB would enforce it")
            return True
        made.edits.remove(item.tokens[first].start, item.tokens[i + 1].end)
        made.notes.append("a check that is not enforced is left out: MariaDB would enforce it")
    return False


def _column(made: Statement, item: Item) -> bool:
    tokens, words = item.tokens, item.words()
    generated = 0
    for i, word in enumerate(words):
        if i and word == "VECTOR" and is_type(tokens, i):
            end = i + 3 if i + 3 < len(tokens) and tokens[i + 1].text == "(" else i
            made.edits.replace(tokens[i].start, tokens[end].end, "LONGBLOB")
        elif i and word == "GEOMCOLLECTION" and is_type(tokens, i):
            made.edits.replace(tokens[i].start, tokens[i].end, "GEOMETRYCOLLECTION")
        elif word == "AS" and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            generated = i
        elif generated and word == "NOT" and words[i + 1 : i + 2] == ("NULL",) and _depth(tokens, generated, i) == 0:
            made.edits.remove(tokens[i].start, tokens[i + 1].end)
        elif i and word == "VISIBLE" and _depth(tokens, 0, i) == 0:
            made.edits.remove(tokens[i].start, tokens[i].end)
        elif i and word == "INVISIBLE":
            _unwrap(made, tokens[i])
    return True


def _depth(tokens: Sequence[Token], first: int, last: int) -> int:
    return next(depth for i, _, depth in depths_of(tokens, first) if i == last)


def _unwrap(made: Statement, token: Token) -> None:
    """Take INVISIBLE out of the comment in which SHOW CREATE TABLE has it: MariaDB skips it there."""
    opened = made.sql.rfind("/*!80023", 0, token.start)
    closed = made.sql.find("*/", token.end)
    if opened >= 0 and closed >= 0 and not made.sql[opened + 8 : token.start].strip():
        made.edits.replace(opened, closed + 2, "INVISIBLE")


_RULES: Final[tuple[Rule, ...]] = (
    _drop_check, _alter_check, _alter_index, _set_visible, _functional_key, _not_enforced, _column,
)  # fmt: skip
