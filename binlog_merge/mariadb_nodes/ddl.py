"""DDL of MariaDB for MySQL: the user's text, with what MySQL writes otherwise changed by offset.

    CREATE OR REPLACE TABLE t (j JSON)     DROP TABLE IF EXISTS t; CREATE TABLE t (j LONGTEXT CHARACTER SET utf8mb4 …)
    a VARCHAR(9) COMPRESSED                a VARCHAR(9)
    v VECTOR(3), i INET6                   v VARBINARY(12), i BINARY(16)
    KEY (a) IGNORED                        KEY (a) INVISIBLE
    CREATE OR REPLACE INDEX k ON t (a)     ALTER TABLE t DROP INDEX IF EXISTS k, ADD INDEX k (a)
    FOREIGN KEY f (a) REFERENCES …         CONSTRAINT f FOREIGN KEY f (a) REFERENCES …
    a INT REFERENCES p (id)                a INT, FOREIGN KEY (a) REFERENCES p (id)
    /*M!100100 … */                        what is in it, as far as the server ran it

IF EXISTS and IF NOT EXISTS of columns and keys pass: a merge knows what is there, and does what they mean. What cannot
be written for MySQL passes as it is: a merge stops there, and says what it does not understand. What has no
meaning in MySQL (accounts, sequences) is left out, and named.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from binlog_merge.mariadb_nodes.collations import mysql_collation
from binlog_merge.mariadb_nodes.definitions import BEFORE_NAMES, note_numbers, quoted, rewrite_index, rewrite_item
from binlog_merge.streams.mariadb.items import Statement, word_of
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor, closing
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession

_OPTIONS: Final = frozenset(
    {
        "PAGE_CHECKSUM", "TRANSACTIONAL", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED", "ENCRYPTION_KEY_ID",
        "IETF_QUOTES",
    }
)  # fmt: skip
"""Options of tables that say how a node stores them."""
_BEFORE_TABLES: Final = frozenset({"TABLE", "TABLES", "EXISTS", "ON", "TO", "TRUNCATE"})
_ACCOUNTS: Final = ("USER", "ROLE", "PASSWORD", "DEFAULT")
_MARKS: Final = r"""
    (?P<string>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*`)
    | (?P<opens>/\*(?P<maria>M?)!(?P<version>\d{5,6})?)
    | (?P<comment>/\*.*?\*/ | --[\s].*?(?:\n|\Z) | \#.*?(?:\n|\Z))
    | (?P<closes>\*/)
"""
_COMMENTS: Final = re.compile(_MARKS, re.VERBOSE | re.DOTALL)
_OF_MYSQL_ALONE: Final = range(50700, 100000)
"""Versions in comments that MariaDB does not run: they are those of MySQL."""


@dataclass(frozen=True, slots=True)
class MysqlDdl:
    """Statements for MySQL in the place of one of MariaDB, none if it is left out; `notes` say what is lost."""

    statements: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What decides what a statement means, beside its session: the server's version, and what it made of the session.

    `collations` are the session's default collations by character set, `if_exists`: it had `sql_if_exists`.
    """

    version: int
    collations: Mapping[str, str]
    if_exists: bool = False


def mysql_ddl(sql: str, session: DdlSession, meaning: Meaning) -> MysqlDdl:
    """Return the statements that mean in MySQL what a statement of MariaDB did."""
    try:
        opened = with_comments_opened(sql, meaning.version)
        made = _Rewriting(Cursor.of(opened, replace(session, server_version=999999)), meaning)
    except DdlNotUnderstood:
        return MysqlDdl((sql,))
    return made.result()


def with_comments_opened(sql: str, version: int) -> str:
    """Return a text without executable comments: what was in those that the server ran stands there bare."""
    if "/*!" not in sql and "/*M!" not in sql:
        return sql
    parts: list[str] = []
    place, opened, left_out = 0, list[bool](), 0
    for match in _COMMENTS.finditer(sql):
        parts.append("" if left_out else sql[place : match.start()])
        place = match.end()
        if match["opens"]:
            number = int(match["version"] or 0)
            runs = number <= version and (bool(match["maria"]) or number not in _OF_MYSQL_ALONE)
            opened.append(runs)
            left_out += not runs
            parts.append(" ")
        elif match["closes"] and opened:
            left_out -= not opened.pop()
            parts.append(" ")
        elif not left_out:
            parts.append(match.group())
    if opened:
        raise DdlNotUnderstood(sql, "an executable comment is never closed")
    return "".join((*parts, sql[place:]))


class _Rewriting(Statement):
    """Changes a statement."""

    def __init__(self, found: Cursor, meaning: Meaning) -> None:
        super().__init__(found)
        self.meaning = meaning
        self.first = ""

    def result(self) -> MysqlDdl:
        """Return the statements with all edits."""
        words = tuple(map(word_of, self.tokens[:5]))
        if (why := _left_out(words)) is not None:
            return MysqlDdl((), (why,))
        begin = 0
        if words[:2] == ("SET", "STATEMENT"):
            begin = next((i + 1 for i, token in enumerate(self.tokens) if word_of(token) == "FOR"), 0)
            self.edits.remove(self.tokens[0].start, self.tokens[begin - 1].end if begin else self.tokens[0].start)
            words = tuple(map(word_of, self.tokens[begin : begin + 5]))
            self.tokens = self.tokens[begin:]
        if self.meaning.if_exists:
            self._if_exists(words)
        self._replace(words)
        self._index(words)
        words = tuple(map(word_of, self.tokens[:5]))
        while words[:2] in (("ALTER", "ONLINE"), ("CREATE", "ONLINE"), ("ALTER", "IGNORE")):
            if words[1] == "ONLINE":
                self.edits.remove(self.tokens[1].start, self.tokens[1].end)
            self.tokens = (self.tokens[0], *self.tokens[2:])
            words = tuple(map(word_of, self.tokens[:5]))
        self._waits(words)
        self._collations(words)
        if words[:1] in (("CREATE",), ("ALTER",)) and "TABLE" in words:
            self._options()
            self.rewrite_items(partial(rewrite_item, self))
            note_numbers(self)
        made = self.edits.applied().strip()
        return MysqlDdl((self.first, made) if self.first else (made,), tuple(self.notes))

    def _if_exists(self, words: tuple[str, ...]) -> None:
        """Write what sql_if_exists means for what a statement is about."""
        at = 1
        while words[at : at + 1] and words[at] in ("ONLINE", "IGNORE", "TEMPORARY"):
            at += 1
        named = words[at : at + 1]
        tables = words[:1] in (("ALTER",), ("RENAME",)) and named in (("TABLE",), ("TABLES",))
        if (tables or words[:1] == ("DROP",)) and named and words[at + 1 : at + 2] != ("IF",):
            self.edits.replace(self.tokens[at].end, self.tokens[at].end, " IF EXISTS")

    def _waits(self, words: tuple[str, ...]) -> None:
        """Leave out WAIT n and NOWAIT, behind what a statement is about."""
        tokens = self.tokens
        places = range(len(tokens) - 2, len(tokens))
        if words[:1] == ("ALTER",) and "TABLE" in words[:3]:
            at = words.index("TABLE") + 1
            at += 2 if words[at : at + 1] == ("IF",) else 0
            while tokens[at + 1 : at + 2] and tokens[at + 1].text == ".":
                at += 2
            places = range(at + 1, at + 2)
        elif words[:1] == ("RENAME",):
            places = range(3, len(tokens))
        elif words[:2] == ("CREATE", "TABLE") or words[:1] not in (("CREATE",), ("DROP",), ("TRUNCATE",)):
            return
        for i in places:
            before, after = (word_of(tokens[i + by]) if i + by < len(tokens) else "" for by in (-1, 1))
            renamed = words[:1] != ("RENAME",) or "TO" in (after, *map(word_of, tokens[i + 2 : i + 3]))
            if i < 2 or i >= len(tokens) or not renamed or tokens[i - 1].text in (".", ",") or before in _BEFORE_TABLES:
                continue
            if word_of(tokens[i]) == "NOWAIT":
                last = i
            elif word_of(tokens[i]) == "WAIT" and tokens[i + 1 : i + 2] and tokens[i + 1].text.isdecimal():
                last = i + 1
            else:
                continue
            self.edits.remove(tokens[i].start, tokens[last].end)
            self.tokens = (*tokens[:i], *tokens[last + 1 :])
            return

    def _replace(self, words: tuple[str, ...]) -> None:
        """Make a DROP and a CREATE of CREATE OR REPLACE TABLE."""
        if words[:4] != ("CREATE", "OR", "REPLACE", "TABLE"):
            return
        last = 4
        while last + 2 < len(self.tokens) and self.tokens[last + 1].text == ".":
            last += 2
        self.first = f"DROP TABLE IF EXISTS {self.sql[self.tokens[4].start : self.tokens[last].end]}"
        self.edits.remove(self.tokens[1].start, self.tokens[3].start)
        self.tokens = (self.tokens[0], *self.tokens[3:])

    def _index(self, words: tuple[str, ...]) -> None:
        """Write a CREATE INDEX or DROP INDEX; OR REPLACE as an ALTER TABLE, since a foreign key may need the index."""
        if words[:1] not in (("CREATE",), ("DROP",)) or "INDEX" not in words or "TABLE" in words:
            return
        name = words.index("INDEX") + 1
        while word_of(self.tokens[name]) in ("IF", "NOT", "EXISTS"):
            name += 1
        rewrite_index(self, self.tokens[name:])
        on = next((i for i in range(name + 1, len(self.tokens)) if word_of(self.tokens[i]) == "ON"), 0)
        first = next((i for i in range(on, len(self.tokens)) if self.tokens[i].text == "("), 0)
        if words[1:3] != ("OR", "REPLACE") or not on or not first:
            return
        called, table = (
            "".join(quoted(self.sql, token) for token in part)
            for part in (self.tokens[name : name + 1], self.tokens[on + 1 : first])
        )
        begin = f"ALTER TABLE {table} DROP INDEX IF EXISTS {called}, ADD "
        self.edits.replace(self.tokens[0].start, self.tokens[3].start, begin)
        self.edits.remove(self.tokens[on].start, self.tokens[first].start)
        for i in range(closing(self.tokens, first), len(self.tokens)):
            if word_of(self.tokens[i]) in ("ALGORITHM", "LOCK") and (value := self.value(i)) is not None:
                self.edits.remove(self.tokens[i].start, value.end)

    def _collations(self, words: tuple[str, ...]) -> None:
        for i, token in enumerate(self.tokens):
            value = self.value(i)
            if value is None:
                continue
            if word_of(token) == "COLLATE":
                self._collation(value)
            elif word_of(token) == "CHARSET" or (
                word_of(token) == "SET" and i and word_of(self.tokens[i - 1]) in ("CHARACTER", "CHAR")
            ):
                self._charset(i, value, words)

    def _collation(self, value: Token) -> None:
        found = mysql_collation(value.text)
        if found is not None and found != value.text.lower():
            self.edits.replace(value.start, value.end, found)
            if "_uca1400_" in value.text.lower() or "nopad" in value.text.lower():
                self.notes.append(f"collation {value.text} becomes {found}: a few characters may compare otherwise")

    def _charset(self, i: int, value: Token, words: tuple[str, ...]) -> None:
        """Write the collation that a character set without one meant in the session, where that was not the usual."""
        if words[:1] not in (("CREATE",), ("ALTER",)) or not {"TABLE", "DATABASE", "SCHEMA"} & set(words):
            return
        at = self.tokens.index(value) + 1
        following = [word_of(token) for token in self.tokens[at : at + 3]]
        if "COLLATE" in following[:1] or (following[:1] == ["DEFAULT"] and following[1:2] == ["COLLATE"]):
            return
        charset = value.text.lower().replace("utf8mb3", "utf8")
        charset = "utf8mb3" if charset == "utf8" else charset
        name = self.meaning.collations.get(charset)
        if name is None or (found := mysql_collation(name)) is None:
            return
        equals = "=" if self.tokens[i + 1].text == "=" else " "
        self.edits.replace(value.end, value.end, f" COLLATE{equals}{found}")

    def _options(self) -> None:
        for i, token in enumerate(self.tokens):
            word, value = word_of(token), self.value(i)
            before = self.tokens[i - 1] if i else token
            if value is None or before.text in ("(", ".", "`") or word_of(before) in BEFORE_NAMES:
                continue
            if word in _OPTIONS and (self.tokens[i + 1].text == "=" or value.text.isdecimal()):
                self.edits.remove(token.start, value.end)
            elif word == "ENGINE" and value.text.upper() == "ARIA":
                self.edits.remove(token.start, value.end)
                self.notes.append("ENGINE=Aria is left out: MySQL has none")
            elif word == "ROW_FORMAT" and value.text.upper() == "PAGE":
                self.edits.remove(token.start, value.end)


def _left_out(words: tuple[str, ...]) -> str | None:
    """Return why a whole statement is left out by its first words; None if it is not."""
    verb, rest = words[:1], [word for word in words[1:] if word not in ("OR", "REPLACE", "TEMPORARY")]
    if verb in (("GRANT",), ("REVOKE",)):
        return "left out: accounts are those of the nodes"
    changes = verb in (("CREATE",), ("ALTER",), ("DROP",), ("RENAME",), ("SET",))
    if changes and rest[:1] and rest[0] in _ACCOUNTS and (rest[0] != "DEFAULT" or rest[1:2] == ["ROLE"]):
        return "left out: accounts are those of the nodes"
    if verb in (("CREATE",), ("ALTER",), ("DROP",)) and rest[:1] == ["SEQUENCE"]:
        return "left out: MySQL has no sequences; leave the sequence's rows out with a filter, too"
    return None
