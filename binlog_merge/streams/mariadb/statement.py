"""A statement on its way to MariaDB: its text and tokens, what is changed, and what is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from binlog_merge.streams.mariadb.edits import Edits, Item
from snapshot_store.mysql.sql.lexer import Token


@dataclass
class Statement:
    """A statement. `dropped`: nothing of it is left; `notes` say what is lost, or may be refused."""

    sql: str
    tokens: Sequence[Token]
    edits: Edits = field(default_factory=Edits)
    notes: list[str] = field(default_factory=list)
    dropped: bool = False

    def leave_out(self, item: Item, why: str) -> None:
        """Remove an item with a comma, and name it."""
        start, end = item.span
        self.edits.remove(start, comment_end(self.sql, end))
        text = " ".join(self.sql[item.tokens[0].start : item.tokens[-1].end].split())
        self.notes.append(f"{text[:120]}: {why}")


def word_of(token: Token) -> str:
    """Return a word in upper case, "" for any other token."""
    return token.text.upper() if token.kind == "word" else ""


def is_functional(tokens: Sequence[Token]) -> bool:
    """Return whether a key has a part in parentheses of its own."""
    return any(a.text in ("(", ",") and b.text == "(" for a, b in pairwise(tokens))


def comment_end(sql: str, end: int) -> int:
    """Return the offset behind the end of an executable comment, if only that follows."""
    rest = sql[end:]
    return end + len(rest) - len(rest.lstrip()) + 2 if rest.lstrip().startswith("*/") else end


def is_type(tokens: Sequence[Token], i: int) -> bool:
    """Return whether the word at an index is a type: a column's name stands before it."""
    before = tokens[i - 1]
    verbs = ("ADD", "COLUMN", "MODIFY", "CHANGE", "DROP", "EXISTS", "AFTER", "TO", "RENAME", "DEFAULT", "SET", "ALTER")
    return before.kind in ("word", "name") and word_of(before) not in verbs
