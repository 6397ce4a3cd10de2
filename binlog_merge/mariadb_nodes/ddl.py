"""DDL of MariaDB for MySQL: the user's text, with what MySQL writes otherwise changed by offset.

    CREATE OR REPLACE TABLE t (j JSON)     DROP TABLE IF EXISTS t; CREATE TABLE t (j LONGTEXT CHARACTER SET utf8mb4 …)
    a VARCHAR(9) COMPRESSED                a VARCHAR(9)
    v VECTOR(3), i INET6                   v VARBINARY(12), i BINARY(16)
    KEY (a) IGNORED                        KEY (a) INVISIBLE
    FOREIGN KEY f (a) REFERENCES …         CONSTRAINT f FOREIGN KEY f (a) REFERENCES …
    a INT REFERENCES p (id)                a INT, FOREIGN KEY (a) REFERENCES p (id)
    /*M!100100 … */                        what is in it, as far as the server ran it

IF EXISTS and IF NOT EXISTS of columns and keys pass: a merge knows what is there, and does what they mean. What cannot
be written for MySQL passes as it is: a merge stops there, and says what it does not understand. What has no
meaning in MySQL (accounts, sequences) is left out, and named.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import pairwise
from typing import Final

from binlog_merge.mariadb_nodes.collations import mysql_collation
from binlog_merge.streams.mariadb.items import Item, Statement, is_type, word_of
from binlog_merge.streams.mariadb.items import items_of as cut
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.column_type import TYPES
from snapshot_store.mysql.sql.cursor import Cursor, closing, depths_of, items_of
from snapshot_store.mysql.sql.functions import WITHOUT_PARENTHESES
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession

_JSON: Final = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_OPTIONS: Final = frozenset(
    {
        "PAGE_CHECKSUM", "TRANSACTIONAL", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED", "ENCRYPTION_KEY_ID",
        "IETF_QUOTES",
    }
)  # fmt: skip
"""Options of tables that say how a node stores them."""
_RESERVED: Final = frozenset(
    {
        "CUBE", "CUME_DIST", "DENSE_RANK", "EMPTY", "EXTERNAL", "FIRST_VALUE", "FUNCTION", "GENERATED", "GET",
        "GROUPING", "GROUPS", "JSON_TABLE", "LAG", "LAST_VALUE", "LATERAL", "LEAD", "LIBRARY", "MANUAL", "NTH_VALUE",
        "NTILE", "OF", "OPTIMIZER_COSTS", "PARALLEL", "PERCENT_RANK", "QUALIFY", "RANK", "ROW_NUMBER", "STORED",
        "SYSTEM", "TABLESAMPLE", "VIRTUAL",
    }
)  # fmt: skip
"""Words that are reserved in MySQL and not in MariaDB."""
_BEFORE_NAMES: Final = frozenset({"ADD", "COLUMN", "MODIFY", "CHANGE", "DROP", "AFTER"})
_BEFORE_TABLES: Final = frozenset({"TABLE", "TABLES", "EXISTS", "ON", "TO", "TRUNCATE"})
_PLAIN_DEFAULTS: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
"""Functions that MySQL takes as a DEFAULT without parentheses around it."""
_NO_FUNCTIONS: Final = frozenset({"NULL", "TRUE", "FALSE", "CHARSET", "CHARACTER", "COLLATE", "NEXTVAL", "NEXT"})
_WITHOUT_LITERALS: Final = frozenset(
    {"GEOMETRYCOLLECTION", *(name.upper() for name, facts in TYPES.items() if not facts.defaults_to_literal)}
)
"""Types for which MySQL wants a literal DEFAULT in parentheses."""
_LITERALS: Final = ("string", "number", "bits")
_FLOAT: Final = 4
_ADDRESSES: Final = {"INET4": 4, "INET6": 16}
"""Types of addresses, and their bytes."""
_IPV4: Final = 4
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
            self.rewrite_items(self._item)
            self._numbers()
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
            if value is None or before.text in ("(", ".", "`") or word_of(before) in _BEFORE_NAMES:
                continue
            if word in _OPTIONS and (self.tokens[i + 1].text == "=" or value.text.isdecimal()):
                self.edits.remove(token.start, value.end)
            elif word == "ENGINE" and value.text.upper() == "ARIA":
                self.edits.remove(token.start, value.end)
                self.notes.append("ENGINE=Aria is left out: MySQL has none")
            elif word == "ROW_FORMAT" and value.text.upper() == "PAGE":
                self.edits.remove(token.start, value.end)

    def _item(self, item: Item) -> None:
        tokens, words = item.tokens, item.words()
        if words[:2] == ("ALTER", "KEY"):
            self.edits.replace(tokens[1].start, tokens[1].end, "INDEX")
        self._foreign_key(tokens, words)
        self._references(tokens)
        for i, (token, word) in enumerate(zip(tokens, words, strict=True)):
            before, after = tokens[i - 1] if i else None, tokens[i + 1] if i + 1 < len(tokens) else None
            named = i == 0 or _is_name(tokens, i)
            if named and word in _RESERVED and (after is None or after.text != "("):
                self.edits.replace(token.start, token.end, f"`{token.text}`")
            elif not i or _is_name(tokens, i):
                continue
            elif word == "JSON" and is_type(tokens, i):
                self.edits.replace(token.start, token.end, _JSON)
            elif word in _ADDRESSES and is_type(tokens, i):
                self._address(tokens, i)
            elif word == "VECTOR" and is_type(tokens, i) and after is not None and after.text == "(":
                size = int(tokens[i + 2].text) * _FLOAT if tokens[i + 2].text.isdecimal() else 0
                if size:
                    self.edits.replace(token.start, tokens[i + 3].end, f"VARBINARY({size})")
                    self.notes.append(f"VECTOR({size // _FLOAT}) becomes VARBINARY({size}) with the same bytes")
            elif word == "COMPRESSED" and before is not None and before.text != "=" and word_of(before) != "ROW_FORMAT":
                algorithm = tokens[i + 2 : i + 3] if after is not None and after.text == "=" else [token]
                self.edits.remove(token.start, algorithm[-1].end)
            elif word == "IGNORED" and words[i - 1] == "NOT":
                self.edits.replace(tokens[i - 1].start, token.end, "VISIBLE")
            elif word == "IGNORED":
                self.edits.replace(token.start, token.end, "INVISIBLE")
            elif word == "PERSISTENT":
                self.edits.replace(token.start, token.end, "STORED")
            elif word == "DEFAULT" and after is not None:
                self._default(tokens, i + 1, bool(set(words[:i]) & _WITHOUT_LITERALS))

    def _foreign_key(self, tokens: Sequence[Token], words: Sequence[str]) -> None:
        """Give a foreign key the name of its index, as MariaDB does if it has no other."""
        for i, pair in enumerate(pairwise(words)):
            at = i + 2
            while at < len(tokens) and words[at] in ("IF", "NOT", "EXISTS"):
                at += 1
            if pair != ("FOREIGN", "KEY") or at + 1 >= len(tokens) or tokens[at + 1].text != "(":
                continue
            name = self.sql[tokens[at].start : tokens[at].end]
            before = words[i - 1] if i else ""
            if before == "CONSTRAINT":
                self.edits.replace(tokens[i].start, tokens[i].start, f"{name} ")
            elif "CONSTRAINT" not in words[max(0, i - 5) : i]:
                self.edits.replace(tokens[i].start, tokens[i].start, f"CONSTRAINT {name} ")

    def _numbers(self) -> None:
        """Note where both may number a foreign key without a name differently: beside one that goes."""
        items = cut(self.tokens)
        gone = any(item.words(1) == ("DROP",) and _GENERATED_KEY.fullmatch(item.tokens[-1].text) for item in items)
        keys = (item.tokens[3].text for item in items if item.words(3) == ("ADD", "FOREIGN", "KEY"))
        if gone and "(" in keys:
            self.notes.append("the number in the new foreign key's name may be another: drop it by the name in MySQL")

    def _references(self, tokens: Sequence[Token]) -> None:
        """Make a foreign key of the REFERENCES in a column's definition: MySQL 8.4 ignores those."""
        for first, stop, adds in _definitions(tokens):
            if word_of(tokens[first]) in _OF_KEYS:
                continue
            ends = (
                i for i, token, depth in depths_of(tokens[:stop], first) if not depth and word_of(token) == "REFERENCES"
            )
            at, name = next(ends, first), self.sql[tokens[first].start : tokens[first].end]
            if at <= first + 1:
                continue
            made = f", {'ADD ' * adds}FOREIGN KEY ({name}) "
            last = stop - 2 if word_of(tokens[stop - 2]) == "AFTER" else stop - (word_of(tokens[stop - 1]) == "FIRST")
            if last == stop:
                self.edits.replace(tokens[at].start, tokens[at].start, made)
                continue
            text = self.sql[tokens[at].start : tokens[last - 1].end]
            self.edits.remove(tokens[at].start, tokens[last].start)
            self.edits.replace(tokens[stop - 1].end, tokens[stop - 1].end, made + text)

    def _address(self, tokens: Sequence[Token], i: int) -> None:
        """Write the bytes of an address, which INET6_NTOA shows; and a literal DEFAULT as these."""
        size = _ADDRESSES[word_of(tokens[i])]
        if self._is_computed_with(tokens[i - 1]):
            return
        ends = (j for j, token, depth in depths_of(tokens, i) if depth < 0 or (depth == 0 and token.text == ","))
        last = next(ends, len(tokens))  # ADD COLUMN (i INET6, s VARCHAR(39) DEFAULT '::1')
        at = next((j + 1 for j in range(i, last - 1) if word_of(tokens[j]) == "DEFAULT"), None)
        if at is not None and (word_of(tokens[at]) or tokens[at].kind == "string" or tokens[at].text == "("):
            first = at + (tokens[at].text == "(")
            default = _address_bytes(tokens[first].text, size) if tokens[first].kind == "string" else None
            if word_of(tokens[at]) != "NULL":
                if default is None or (first > at and tokens[first + 1].text != ")"):
                    return  # no address, or an expression: a merge stops at the type
                self.edits.replace(tokens[at].start, tokens[2 * first - at].end, f"x'{default.hex()}'")
        self.edits.replace(tokens[i].start, tokens[i].end, f"BINARY({size})")
        self.notes.append(f"{tokens[i].text} becomes BINARY({size}) with the same bytes, which INET6_NTOA shows")

    def _is_computed_with(self, name: Token) -> bool:
        """Return whether an expression of the statement names a column: an address is a text in it, in MySQL bytes."""
        for i, token in enumerate(self.tokens[:-1]):
            if word_of(token) in ("CHECK", "AS", "DEFAULT") and self.tokens[i + 1].text == "(":
                inner = self.tokens[i + 2 : closing(self.tokens, i + 1)]
                if any(t.kind in ("word", "name") and t.text.lower() == name.text.lower() for t in inner):
                    self.notes.append(f"{name.text} is an address, which an expression takes as a text: it passes")
                    return True
        return False

    def _default(self, tokens: Sequence[Token], i: int, without_literals: bool) -> None:
        """Put what is a DEFAULT into parentheses, where MySQL wants it: a function, and a literal of some types."""
        last = self._last_of_default(tokens, i, without_literals)
        if last is not None:
            self.edits.replace(tokens[i].start, tokens[i].start, "(")
            self.edits.replace(last.end, last.end, ")")

    def _last_of_default(self, tokens: Sequence[Token], i: int, without_literals: bool) -> Token | None:
        """Return the last token of what needs parentheses, None if it needs none."""
        token, word = tokens[i], word_of(tokens[i])
        if token.kind in _LITERALS or token.text in ("-", "+"):
            literal = tokens[i + 1] if token.text in ("-", "+") and i + 1 < len(tokens) else token
            return literal if without_literals else None
        if not word or word in _PLAIN_DEFAULTS or word in _NO_FUNCTIONS:
            return None
        if i + 1 < len(tokens) and tokens[i + 1].text == "(":
            closes = (t for _, t, depth in depths_of(tokens, i + 1) if t.text == ")" and depth == 0)
            return next(closes, None)
        return token if word.lower() in WITHOUT_PARENTHESES else None


def _definitions(tokens: Sequence[Token]) -> Iterator[tuple[int, int, bool]]:
    """Yield where the definitions in an item begin and end, and whether each is an ADD of its own."""
    if word_of(tokens[0]) in ("CHANGE", "MODIFY", "DROP", "ALTER", "RENAME"):
        return
    adds = first = int(word_of(tokens[0]) == "ADD")
    while first < len(tokens) and word_of(tokens[first]) in ("COLUMN", "IF", "NOT", "EXISTS"):
        first += 1
    if adds and first < len(tokens) and tokens[first].text == "(":
        inner = items_of(tokens, first + 1, closing(tokens, first))
        yield from ((begin, end, False) for begin, end in inner if begin < end)
    elif first < len(tokens):
        yield first, len(tokens), bool(adds)


def _address_bytes(text: str, size: int) -> bytes | None:
    """Return an address as MariaDB stores it; None for what is none."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if found.version == _IPV4 and size == _ADDRESSES["INET6"]:
        return bytes(10) + b"\xff\xff" + found.packed
    return found.packed if len(found.packed) == size else None


def _is_name(tokens: Sequence[Token], i: int) -> bool:
    """Return whether the word at an index is the name of a column, a key or a constraint, by what stands before it."""
    words = [word for word in map(word_of, tokens[:i]) if word not in ("IF", "NOT", "EXISTS")]
    if (tokens[i - 1].kind == "symbol" and tokens[i - 1].text != ")") or words in (["ALTER"], ["CHANGE", words[-1]]):
        return True
    second = words[:2] == ["CHANGE", "COLUMN"] and len(words) == 3
    return second or (words[-1:] or [""])[0] in _BEFORE_NAMES | _NAMING


_OF_KEYS: Final = frozenset(
    {"CONSTRAINT", "FOREIGN", "KEY", "INDEX", "UNIQUE", "PRIMARY", "FULLTEXT", "SPATIAL", "CHECK", "PARTITION"}
)
"""Words with which a definition begins that is none of a column."""
_GENERATED_KEY: Final = re.compile(r".+_ibfk_\d+", re.IGNORECASE)
_NAMING: Final = frozenset({"KEY", "INDEX", "CONSTRAINT", "TO"})
"""Words behind which the name of something else than a column stands, or a new one."""


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
