"""DDL for MariaDB: the user's text, with what MariaDB writes otherwise, or does not have, changed by offset.

    b INT AS (a->>'$.n') STORED NOT NULL      b INT AS (JSON_UNQUOTE(JSON_EXTRACT(a, '$.n'))) STORED
    v VECTOR(3), KEY ((lower(b)))             v LONGBLOB
    CHECK (b > 1) NOT ENFORCED                (nothing: MariaDB would enforce it)

What cannot be carried is left out and named. A statement that holds something that MariaDB may refuse and that nothing
here knows how to write passes as it is, and is named, too: the replica stops there and says so itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from binlog_merge.streams.mariadb.items import Statement, is_functional, is_type, rewrite_item, word_of
from binlog_merge.streams.mariadb.rows import mariadb_name
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession

_RESERVED: Final = frozenset(
    {
        "OFFSET", "RETURNING", "DELETE_DOMAIN_ID", "DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS", "PARSE_VCOL_EXPR",
        "REF_SYSTEM_ID",
    }
)  # fmt: skip
"""Words that are reserved in MariaDB and not in MySQL."""
_MISSING: Final = frozenset(
    {
        "UUID_TO_BIN", "BIN_TO_UUID", "IS_UUID", "REGEXP_LIKE", "JSON_STORAGE_SIZE", "JSON_STORAGE_FREE",
        "JSON_SCHEMA_VALIDATION_REPORT", "ST_TRANSFORM", "ST_LATITUDE", "ST_LONGITUDE", "ST_SWAPXY", "ST_GEOHASH",
        "STRING_TO_VECTOR", "TO_VECTOR", "VECTOR_TO_STRING", "FROM_VECTOR", "VECTOR_DIM", "GROUPING", "MEMBER",
    }
)  # fmt: skip
"""Functions that MariaDB 10.11 does not have."""
_OPTIONS: Final = {
    "TABLESPACE": "", "SECONDARY_ENGINE": "", "AUTOEXTEND_SIZE": "", "ENGINE_ATTRIBUTE": "",
    "SECONDARY_ENGINE_ATTRIBUTE": "", "COLUMN_FORMAT": "", "STORAGE": "", "ENCRYPTION": "", "COMPRESSION": "",
    "SRID": "the SRID of a column is not checked",
}  # fmt: skip
"""Options with one value that are left out, and what is lost with them, if anything."""
_PAIRS: Final = (("START", "TRANSACTION"), ("WITH", "VALIDATION"), ("WITHOUT", "VALIDATION"), ("READ", "ONLY"))
"""Clauses of two words that are left out; READ ONLY has a value."""
_OF_ACCOUNTS: Final = (["USER"], ["ROLE"], ["PASSWORD"], ["DEFAULT"])
_WITHOUT_OPTIONS: Final = 3
"""Words of an ALTER DATABASE of which nothing is left."""


@dataclass(frozen=True, slots=True)
class MariaDdl:
    """A statement for MariaDB, None if nothing of it is left; `notes` say what is lost, or may be refused."""

    sql: str | None
    notes: tuple[str, ...] = ()


def mariadb_ddl(sql: str, session: DdlSession) -> MariaDdl:
    """Return a statement as MariaDB takes it."""
    try:
        cursor = Cursor.of(sql, session)
    except DdlNotUnderstood as error:
        return MariaDdl(sql, (f"passes unchanged: {error.reason}",))
    made = _Rewriting(cursor)
    made.rewrite()
    return MariaDdl(None if made.dropped else made.edits.applied(), tuple(made.notes))


class _Rewriting(Statement):
    """Changes a statement."""

    def rewrite(self) -> None:
        """Collect the edits of the statement."""
        words = [word_of(token) for token in self.tokens[:4]]
        if (what := _left_out(words)) is not None:
            self.dropped = True
            self.notes.append(f"left out: {what}")
            return
        self._collations()
        if words[:1] == ["ALTER"] or (words[:1] == ["CREATE"] and {"TABLE", "DATABASE", "SCHEMA"} & set(words[:3])):
            self._options()
        if words[:1] == ["CREATE"] and "INDEX" in words and is_functional(self.tokens):
            self.dropped = True
            self.notes.append("left out: MariaDB has no keys over expressions")
            return
        if words[:1] in (["CREATE"], ["ALTER"]) and {"TABLE", "INDEX"} & set(words):
            self._names()
        self._arrows()
        self.rewrite_items(lambda item: rewrite_item(self, item))
        if words[:2] in (["ALTER", "DATABASE"], ["ALTER", "SCHEMA"]):
            self.dropped = len(self.edits.applied().split()) <= _WITHOUT_OPTIONS
        for token, after in pairwise(self.tokens):
            if after.text == "(" and word_of(token) in _MISSING:
                self.notes.append(f"MariaDB has no function {token.text}: make the table by hand, and skip it there")

    # The whole text

    @property
    def _is_table(self) -> bool:
        return "TABLE" in map(word_of, self.tokens[:3])

    def _collations(self) -> None:
        for i, token in enumerate(self.tokens):
            value = self.value(i)
            if value is None:
                continue
            if word_of(token) == "COLLATE" and (name := mariadb_name(value.text)) is not None:
                self.edits.replace(value.start, value.end, name)
            charset = word_of(token) == "CHARSET" or (word_of(token) == "SET" and i and self._charset_before(i))
            if charset and value.text.lower() == "gb18030":
                self.edits.replace(value.start, value.end, "utf8mb4")
                self.notes.append("gb18030 becomes utf8mb4: MariaDB does not have it")

    def _charset_before(self, i: int) -> bool:
        return word_of(self.tokens[i - 1]) in ("CHARACTER", "CHAR")

    def _options(self) -> None:
        for i, token in enumerate(self.tokens):
            word, value = word_of(token), self.value(i)
            if value is not None and (word, word_of(value)) in _PAIRS:
                end = self.value(i + 1) if word == "READ" else value
                self.edits.remove(token.start, (end or value).end)
            if word not in _OPTIONS or value is None or not self._is_option(i):
                continue
            start = token.start
            if word == "ENCRYPTION" and word_of(self.tokens[i - 1]) == "DEFAULT" and not self._is_table:
                start = self.tokens[i - 1].start
            self.edits.remove(start, value.end)
            if _OPTIONS[word]:
                self.notes.append(_OPTIONS[word])

    def _is_option(self, i: int) -> bool:
        """Return whether a word is an option, and not a column of that name: names follow ( , . or a verb."""
        before = self.tokens[i - 1]
        if before.text == "," and self.tokens[i + 1].text == "=":
            return True
        return before.text not in ("(", ",", ".") and word_of(before) not in (
            "ADD",
            "COLUMN",
            "DROP",
            "MODIFY",
            "CHANGE",
        )

    def _names(self) -> None:
        for i, token in enumerate(self.tokens):
            word = word_of(token)
            if word in _RESERVED or (word == "VECTOR" and i and not is_type(self.tokens, i)):
                self.edits.replace(token.start, token.end, f"`{token.text}`")

    def _arrows(self) -> None:
        for i in range(1, len(self.tokens)):
            count = _arrow(self.tokens, i)
            if not count or i + count >= len(self.tokens):
                continue
            first = i - 1
            while first >= 2 and self.tokens[first - 1].text == ".":
                first -= 2
            path = self.tokens[i + count]
            call = f"JSON_EXTRACT({self.sql[self.tokens[first].start : self.tokens[i - 1].end]}, "
            call += self.sql[path.start : path.end] + ")"
            call = f"JSON_UNQUOTE({call})" if count == len("->>") else call
            self.edits.replace(self.tokens[first].start, path.end, call)


def _left_out(words: Sequence[str]) -> str | None:
    """Return why a whole statement is left out by its first words; None if it is not."""
    verb, *rest = words or [""]
    changes = verb in ("CREATE", "ALTER", "DROP", "RENAME", "SET")
    if verb in ("GRANT", "REVOKE") or (changes and rest[:1] in _OF_ACCOUNTS):
        return "accounts are those of MariaDB's own"
    if verb in ("CREATE", "ALTER", "DROP") and ("TABLESPACE" in rest[:2] or rest[:2] == ["SPATIAL", "REFERENCE"]):
        return "MariaDB has none"
    return None


def _arrow(tokens: Sequence[Token], i: int) -> int:
    """Return how many tokens `->` or `->>` at an index has, 0 if neither is there."""
    if tokens[i].text == "-" and tokens[i].kind == "symbol" and tokens[i - 1].kind in ("word", "name"):
        ends = [token.end for token in tokens[i : i + 3]]
        texts = "".join(token.text for token in tokens[i : i + 3])
        if texts == "->>" and ends[2] - tokens[i].start == len("->>"):
            return 3
        if texts.startswith("->") and ends[1] - tokens[i].start == len("->"):
            return 2
    return 0
