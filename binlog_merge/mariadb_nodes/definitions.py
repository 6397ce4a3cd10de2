"""What MariaDB writes otherwise in the definitions of a CREATE TABLE and in the actions of an ALTER TABLE.

A rule each: for what an item is about, for the type of a column, for a word that is no name.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from itertools import pairwise
from typing import Final

from binlog_merge.streams.mariadb.items import Item, Statement, word_of
from binlog_merge.streams.mariadb.items import items_of as cut
from snapshot_store.mysql.column_type import TYPES
from snapshot_store.mysql.sql.cursor import closing, depths_of, items_of
from snapshot_store.mysql.sql.functions import WITHOUT_PARENTHESES
from snapshot_store.mysql.sql.lexer import Token

BEFORE_NAMES: Final = frozenset({"ADD", "COLUMN", "MODIFY", "CHANGE", "DROP", "AFTER"})

_JSON: Final = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_RESERVED: Final = frozenset(
    {
        "CUBE", "CUME_DIST", "DENSE_RANK", "EMPTY", "EXTERNAL", "FIRST_VALUE", "FUNCTION", "GENERATED", "GET",
        "GROUPING", "GROUPS", "JSON_TABLE", "LAG", "LAST_VALUE", "LATERAL", "LEAD", "LIBRARY", "MANUAL", "NTH_VALUE",
        "NTILE", "OF", "OPTIMIZER_COSTS", "PARALLEL", "PERCENT_RANK", "QUALIFY", "RANK", "ROW_NUMBER", "STORED",
        "SYSTEM", "TABLESAMPLE", "VIRTUAL",
    }
)  # fmt: skip
"""Words that are reserved in MySQL and not in MariaDB."""
_PLAIN_DEFAULTS: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
"""Functions that MySQL takes as a DEFAULT without parentheses around it."""
_NO_FUNCTIONS: Final = frozenset({"NULL", "TRUE", "FALSE", "CHARSET", "CHARACTER", "COLLATE", "NEXTVAL", "NEXT"})
_WITHOUT_LITERALS: Final = frozenset(
    {"GEOMETRYCOLLECTION", *(name.upper() for name, facts in TYPES.items() if not facts.defaults_to_literal)}
)
"""Types for which MySQL wants a literal DEFAULT in parentheses."""
_LITERALS: Final = ("string", "number", "bits")
_FLOAT: Final = 4
_IPV4: Final = 4
_OF_KEYS: Final = frozenset(
    {"CONSTRAINT", "FOREIGN", "KEY", "INDEX", "UNIQUE", "PRIMARY", "FULLTEXT", "SPATIAL", "CHECK", "PARTITION"}
)
"""Words with which a definition begins that is none of a column."""
_GENERATED_KEY: Final = re.compile(r".+_ibfk_\d+", re.IGNORECASE)
_NAMING: Final = frozenset({"KEY", "INDEX", "CONSTRAINT", "TO"})
"""Words behind which the name of something else than a column stands, or a new one."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column's definition among the tokens of an item: its name, its type, where it ends.

    `added` says by what: None if the column is there already, else whether it has an ADD of its own.
    """

    name: int
    stop: int
    added: bool | None

    @property
    def type(self) -> int:
        return self.name + 1


def rewrite_item(made: Statement, item: Item) -> None:
    """Collect the edits of one item."""
    tokens = item.tokens
    _alter_key(made, tokens)
    _foreign_key(made, tokens)
    columns = list(_columns(tokens, word_of(made.tokens[0]) == "ALTER"))
    written = set[int]()
    for column in columns:
        _references(made, tokens, column)
        rule = _TYPES.get(word_of(tokens[column.type]))
        if rule is not None and rule(made, tokens, column):
            written.update(range(column.type, column.stop))
    for i, token in enumerate(tokens):
        word = word_of(token)
        if i == 0 or _is_name(tokens, i):
            _name(made, tokens, i)
        elif word == "DEFAULT" and i not in written and i + 1 < len(tokens):
            first = next((column.name for column in columns if column.name < i < column.stop), 0)
            _default(made, tokens, i + 1, any(word_of(t) in _WITHOUT_LITERALS for t in tokens[first:i]))
        elif (changed := _WORDS.get(word)) is not None:
            changed(made, tokens, i)


def rewrite_index(made: Statement, tokens: Sequence[Token]) -> None:
    """Collect the edits of a CREATE INDEX, whose tokens are given from the index's name on."""
    for i, token in enumerate(tokens):
        if i == 0 or tokens[i - 1].text in ("(", ",", ".") or word_of(tokens[i - 1]) == "ON":
            if word_of(token) in _RESERVED:
                made.edits.replace(token.start, token.end, f"`{token.text}`")
        elif (changed := _WORDS.get(word_of(token))) is not None:
            changed(made, tokens, i)


def quoted(sql: str, token: Token) -> str:
    """Return the text of a name, or of a point between two, as MySQL takes it."""
    text = sql[token.start : token.end]
    return f"`{text}`" if word_of(token) in _RESERVED else text


def note_numbers(made: Statement) -> None:
    """Note where both may number a foreign key without a name differently: beside one that goes."""
    items = cut(made.tokens)
    gone = any(item.words(1) == ("DROP",) and _GENERATED_KEY.fullmatch(item.tokens[-1].text) for item in items)
    keys = (item.tokens[3].text for item in items if item.words(3) == ("ADD", "FOREIGN", "KEY"))
    if gone and "(" in keys:
        made.notes.append("the number in the new foreign key's name may be another: drop it by the name in MySQL")


def _columns(tokens: Sequence[Token], alters: bool) -> Iterator[_Column]:
    """Yield the definitions of columns in an item of a CREATE TABLE, or of an ALTER TABLE."""
    verb = word_of(tokens[0]) if alters else ""
    if alters and verb not in ("ADD", "MODIFY", "CHANGE"):
        return
    first, stop = int(alters), len(tokens)
    while alters and first < stop and word_of(tokens[first]) in ("COLUMN", "IF", "NOT", "EXISTS"):
        first += 1
    if verb == "ADD" and first < stop and tokens[first].text == "(" and tokens[first].kind == "symbol":
        found = [(begin, end, False) for begin, end in items_of(tokens, first + 1, closing(tokens, first))]
    else:
        found = [(first + (verb == "CHANGE"), stop, verb == "ADD")]
    for begin, end, adds in found:
        if begin + 1 < end and word_of(tokens[begin]) not in _OF_KEYS:
            yield _Column(begin, end, None if verb in ("MODIFY", "CHANGE") else adds)


def _is_name(tokens: Sequence[Token], i: int) -> bool:
    """Return whether the word at an index is the name of a column, a key or a constraint, by what stands before it."""
    words = [word for word in map(word_of, tokens[:i]) if word not in ("IF", "NOT", "EXISTS")]
    if (tokens[i - 1].kind == "symbol" and tokens[i - 1].text != ")") or words in (["ALTER"], ["CHANGE", words[-1]]):
        return True
    second = words[:2] == ["CHANGE", "COLUMN"] and len(words) == 3
    return second or (words[-1:] or [""])[0] in BEFORE_NAMES | _NAMING


# What an item is about


def _alter_key(made: Statement, tokens: Sequence[Token]) -> None:
    if [word_of(token) for token in tokens[:2]] == ["ALTER", "KEY"]:
        made.edits.replace(tokens[1].start, tokens[1].end, "INDEX")


def _foreign_key(made: Statement, tokens: Sequence[Token]) -> None:
    """Give a foreign key the name of its index, as MariaDB does if it has no other."""
    words = [word_of(token) for token in tokens]
    for i, pair in enumerate(pairwise(words)):
        at = i + 2
        while at < len(tokens) and words[at] in ("IF", "NOT", "EXISTS"):
            at += 1
        if pair != ("FOREIGN", "KEY") or at + 1 >= len(tokens) or tokens[at + 1].text != "(":
            continue
        name = made.sql[tokens[at].start : tokens[at].end]
        before = words[i - 1] if i else ""
        if before == "CONSTRAINT":
            made.edits.replace(tokens[i].start, tokens[i].start, f"{name} ")
        elif "CONSTRAINT" not in words[max(0, i - 5) : i]:
            made.edits.replace(tokens[i].start, tokens[i].start, f"CONSTRAINT {name} ")


def _references(made: Statement, tokens: Sequence[Token], column: _Column) -> None:
    """Make a foreign key of the REFERENCES in a new column's definition: MySQL 8.4 ignores those."""
    first, stop = column.name, column.stop
    ends = (i for i, token, depth in depths_of(tokens[:stop], first) if not depth and word_of(token) == "REFERENCES")
    at, name = next(ends, first), made.sql[tokens[first].start : tokens[first].end]
    if column.added is None or at <= first + 1:
        return
    text = f", {'ADD ' * column.added}FOREIGN KEY ({name}) "
    last = stop - 2 if word_of(tokens[stop - 2]) == "AFTER" else stop - (word_of(tokens[stop - 1]) == "FIRST")
    if last == stop:
        made.edits.replace(tokens[at].start, tokens[at].start, text)
        return
    text += made.sql[tokens[at].start : tokens[last - 1].end]
    made.edits.remove(tokens[at].start, tokens[last].start)
    made.edits.replace(tokens[stop - 1].end, tokens[stop - 1].end, text)


# The types of columns: each rule returns whether it has written the column's DEFAULT, too


def _json(made: Statement, tokens: Sequence[Token], column: _Column) -> bool:
    made.edits.replace(tokens[column.type].start, tokens[column.type].end, _JSON)
    return False


def _vector(made: Statement, tokens: Sequence[Token], column: _Column) -> bool:
    at = column.type
    if [token.text for token in tokens[at + 1 : at + 4 : 2]] == ["(", ")"] and tokens[at + 2].text.isdecimal():
        size = int(tokens[at + 2].text) * _FLOAT
        made.edits.replace(tokens[at].start, tokens[at + 3].end, f"VARBINARY({size})")
        made.notes.append(f"VECTOR({size // _FLOAT}) becomes VARBINARY({size}) with the same bytes")
    return False


def _as_bytes(made: Statement, tokens: Sequence[Token], column: _Column) -> bool:
    """Write what MariaDB logs of a type for which MySQL has none: its bytes; and a DEFAULT as these."""
    name, kind = tokens[column.name], tokens[column.type]
    if _is_computed(tokens, column) or _is_computed_with(made, name):
        made.notes.append(f"{name.text}: an expression has {kind.text} as a text, and MySQL its bytes: it passes")
        return False
    facts, at = _BYTES[word_of(kind)], _behind_default(tokens, column)
    default = None if at is None else facts.default(tokens, at)
    if at is not None and default is None:
        return False  # no value, or an expression: a merge stops at the type
    if at is not None and default:
        made.edits.replace(tokens[at].start, tokens[_end_of_value(tokens, at)].end, default)
    made.edits.replace(kind.start, tokens[_end_of_value(tokens, column.type)].end, f"BINARY({facts.size})")
    made.notes.append(f"{kind.text} becomes BINARY({facts.size}) with the same bytes, which {facts.shown_by} shows")
    return True


def _behind_default(tokens: Sequence[Token], column: _Column) -> int | None:
    """Return the index of what stands behind the DEFAULT of a column, None if it has none."""
    return next((i + 1 for i in range(column.type, column.stop - 1) if word_of(tokens[i]) == "DEFAULT"), None)


def _end_of_value(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the last token of a DEFAULT: of a function's call, or of what is in parentheses."""
    opened = at if tokens[at].text == "(" else at + 1
    return closing(tokens, opened) if opened < len(tokens) and tokens[opened].text == "(" else at


def _is_computed(tokens: Sequence[Token], column: _Column) -> bool:
    """Return whether a column is a generated one."""
    return any(word_of(token) == "AS" for token in tokens[column.type : column.stop])


def _is_computed_with(made: Statement, name: Token) -> bool:
    """Return whether an expression of the statement names a column."""
    for i, token in enumerate(made.tokens[:-1]):
        if word_of(token) in ("CHECK", "AS", "DEFAULT") and made.tokens[i + 1].text == "(":
            inner = made.tokens[i + 2 : closing(made.tokens, i + 1) + 1]
            named = (t for t, behind in pairwise(inner) if t.kind in ("word", "name") and behind.text != "(")
            if any(token.text.lower() == name.text.lower() for token in named):
                return True
    return False


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A type of which MariaDB logs bytes: how many, from which text, what shows them as this in MySQL.

    `calls` are functions that may be its DEFAULT, as MySQL writes them.
    """

    size: int
    of_text: Callable[[str], bytes | None]
    shown_by: str
    calls: Mapping[str, str] = field(default_factory=dict)

    def default(self, tokens: Sequence[Token], at: int) -> str | None:
        """Return a DEFAULT as MySQL writes it, "" if it stays as it is, None if it is not known."""
        first = at + (tokens[at].text == "(")
        token, word = tokens[first], word_of(tokens[first])
        if word in self.calls and [t.text for t in tokens[first + 1 : first + 3]] == ["(", ")"]:
            alone = first == at or tokens[first + 3].text == ")"
            return self.calls[word] if alone else None
        if token.kind == "string" and (first == at or tokens[first + 1].text == ")"):
            value = self.of_text(token.text)
            return None if value is None else f"x'{value.hex()}'"
        return None if first > at or word not in ("", "NULL") else ""


def _bytes_of_address(size: int, text: str) -> bytes | None:
    """Return an address as MariaDB stores it; None for what is none."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if found.version == _IPV4 and size != len(found.packed):
        return bytes(10) + b"\xff\xff" + found.packed
    return found.packed if len(found.packed) == size else None


def _bytes_of_uuid(text: str) -> bytes | None:
    """Return the bytes of a UUID, in whose text MariaDB takes hyphens anywhere; None for what is none."""
    digits = text.replace("-", "")
    return bytes.fromhex(digits) if _UUID.fullmatch(digits) else None


_UUID: Final = re.compile(r"[0-9A-Fa-f]{32}")
_BYTES: Final[Mapping[str, _Bytes]] = {
    "INET4": _Bytes(4, partial(_bytes_of_address, 4), "INET6_NTOA"),
    "INET6": _Bytes(16, partial(_bytes_of_address, 16), "INET6_NTOA"),
    "UUID": _Bytes(16, _bytes_of_uuid, "BIN_TO_UUID", {"UUID": "(UUID_TO_BIN(UUID()))"}),
}
"""What is in rows of these types in the binlog, whatever order a table has them in: the bytes of a UUID as in its text.

Source: `pack` of MariaDB `plugin/type_uuid/sql_type_uuid.h`; observed in files of 10.11 and 11.8.
"""
_TYPES: Final[Mapping[str, Callable[[Statement, Sequence[Token], _Column], bool]]] = {
    "JSON": _json,
    "VECTOR": _vector,
    **dict.fromkeys(_BYTES, _as_bytes),
}


# Words that are no names


def _name(made: Statement, tokens: Sequence[Token], i: int) -> None:
    """Quote a name that MySQL does not take bare. In an expression, what stands before a parenthesis is a function."""
    calls = i + 1 < len(tokens) and tokens[i + 1].text == "("
    if word_of(tokens[i]) in _RESERVED and not (calls and _may_call(tokens, i)):
        made.edits.replace(tokens[i].start, tokens[i].end, f"`{tokens[i].text}`")


def _may_call(tokens: Sequence[Token], i: int) -> bool:
    """Return whether what stands before a parenthesis may be a function: not behind KEY or in a key's parts."""
    before = [word_of(token) for token in tokens[:i]]
    first = before[before[:1] == ["ADD"]] if before[before[:1] == ["ADD"] :] else ""
    return word_of(tokens[i - 1]) not in _NAMING and (
        first not in _OF_KEYS or "CHECK" in before or "PARTITION" in before
    )


def _compressed(made: Statement, tokens: Sequence[Token], i: int) -> None:
    if tokens[i - 1].text == "=" or word_of(tokens[i - 1]) == "ROW_FORMAT":
        return
    algorithm = tokens[i + 2 : i + 3] if i + 1 < len(tokens) and tokens[i + 1].text == "=" else [tokens[i]]
    made.edits.remove(tokens[i].start, algorithm[-1].end)


def _ignored(made: Statement, tokens: Sequence[Token], i: int) -> None:
    if word_of(tokens[i - 1]) == "NOT":
        made.edits.replace(tokens[i - 1].start, tokens[i].end, "VISIBLE")
    else:
        made.edits.replace(tokens[i].start, tokens[i].end, "INVISIBLE")


def _persistent(made: Statement, tokens: Sequence[Token], i: int) -> None:
    made.edits.replace(tokens[i].start, tokens[i].end, "STORED")


_WORDS: Final[Mapping[str, Callable[[Statement, Sequence[Token], int], None]]] = {
    "COMPRESSED": _compressed,
    "IGNORED": _ignored,
    "PERSISTENT": _persistent,
}


def _default(made: Statement, tokens: Sequence[Token], i: int, without_literals: bool) -> None:
    """Put what is a DEFAULT into parentheses, where MySQL wants it: a function, and a literal of some types."""
    last = _last_of_default(tokens, i, without_literals)
    if last is not None:
        made.edits.replace(tokens[i].start, tokens[i].start, "(")
        made.edits.replace(last.end, last.end, ")")


def _last_of_default(tokens: Sequence[Token], i: int, without_literals: bool) -> Token | None:
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
