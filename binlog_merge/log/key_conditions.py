"""What a condition needs a row to have in its table's key: `id = 4711`, `id IN (1, 2)`, and AND and OR of such.

A column is of a kind: "number", "bytes", or the name of a collation under which printable ASCII texts are equal if they
differ in case and in trailing spaces at most. Values of other types and collations are not looked for, nor is what else
a condition asks: whatever is not certain, a row may have.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from binlog_merge.binlog.kernels import key_hashes as k
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.expr.nodes import Node

NUMBER: Final = "number"
BYTES: Final = "bytes"
_CHARSETS: Final = "utf8mb4|utf8mb3|utf8|latin1|ascii"
_COLLATION: Final = re.compile(
    rf"(?:{_CHARSETS})_(?:bin|0900_bin|0900_ai_ci|0900_as_ci|0900_as_cs|general_ci|unicode_ci|unicode_520_ci|swedish_ci)"
)
_PLAIN: Final = re.compile(r"[ -~]*", re.ASCII)
Found = TypeVar("Found")
Leaf = Callable[[str, Node], Found | None]
"""Answers for a column's name and a value; None if it cannot be told."""


def kind_of(column: Column) -> str | None:
    """Return the kind of a column, None if its values are not looked for."""
    kind = column.type
    if kind.family is Family.INTEGER:
        return NUMBER
    if kind.family is Family.BYTES:
        return BYTES
    if kind.family is not Family.TEXT or kind.collation is None:
        return None
    if kind.collation.endswith("swedish_ci") and not kind.collation.startswith("latin1"):
        return None  # v and w are one letter in these
    return kind.collation if _COLLATION.fullmatch(kind.collation) else None


def key_columns(table: Table) -> dict[str, tuple[int, str]]:
    """Return the columns of a table's primary key that are looked for: name in lower case -> place, kind."""
    columns: dict[str, tuple[int, str]] = {}
    index = table.primary_key
    for part in () if index is None else index.parts:
        place = None if part.column is None else table.index_of(part.column)
        kind = None if place is None else kind_of(table.columns[place])
        if place is not None and kind is not None:
            columns[table.columns[place].name.lower()] = place, kind
    return columns


def looks_for(terms: Sequence[Node], tables: Sequence[Table]) -> bool:
    """Return whether a condition needs a value in a key column of one of these definitions."""
    for table in tables:
        kinds = {name: kind for name, (_, kind) in key_columns(table).items()}

        def leaf(name: str, value: Node, kinds: Mapping[str, str] = kinds) -> bool | None:
            kind = kinds.get(name)
            return None if kind is None or hash_of(value, kind) is None else True

        if needed(terms, leaf, lambda found: True, lambda found: True) is not None:
            return True
    return False


def needed(
    terms: Sequence[Node],
    leaf: Leaf[Found],
    every: Callable[[Sequence[Found]], Found],
    some: Callable[[Sequence[Found]], Found],
) -> Found | None:
    """Return the leaves' answers, joined as the condition joins them (`every`: AND, `some`: OR); None: anything."""
    found = [one for one in (_needed(term, leaf, every, some) for term in terms) if one is not None]
    return every(found) if found else None


def _needed(
    node: Node,
    leaf: Leaf[Found],
    every: Callable[[Sequence[Found]], Found],
    some: Callable[[Sequence[Found]], Found],
) -> Found | None:
    if node.kind == "and":
        return needed(node.args, leaf, every, some)
    if node.kind == "or":
        found = [_needed(arg, leaf, every, some) for arg in node.args]
    elif node.kind == "compare" and node.text in ("=", "<=>"):
        left, right = node.args
        if left.kind != "column":
            left, right = right, left
        found = [leaf(left.text.lower(), right)] if left.kind == "column" else [None]
    elif node.kind == "in" and not node.negated and node.args[0].kind == "column":
        found = [leaf(node.args[0].text.lower(), value) for value in node.args[1:]]
    else:
        return None
    sure = [one for one in found if one is not None]
    return some(sure) if sure and len(sure) == len(found) else None


def hash_of(value: Node, kind: str) -> int | None:
    """Return the hash that cells of a kind have which equal a literal, None if that is not certain."""
    if kind == NUMBER:
        return _hash_of_number(value)
    if kind == BYTES and value.kind == "literal" and value.text.lower().startswith("0x"):
        return _hash_of_bytes(bytes.fromhex(value.text[2:]))
    if value.kind == "string" and _PLAIN.fullmatch(value.text):
        return _hash_of_bytes(value.text.encode())
    return None


def _hash_of_number(value: Node) -> int | None:
    sign = 1
    if value.kind == "prefix" and value.text == "-":
        sign, value = -1, value.args[0]
    if value.kind != "literal" or not re.fullmatch(r"\d{1,20}", value.text, re.ASCII):
        return None
    number = sign * int(value.text)
    if not -(1 << 63) <= number < 1 << 64:
        return None
    number &= (1 << 64) - 1
    return int(k.number_hash(np.int64(number - (1 << 64) if number >> 63 else number)))


def _hash_of_bytes(data: bytes) -> int:
    room: Any = np.zeros(1, np.int64)
    k.text_hash(np.frombuffer(bytearray(data + b"\0"), np.uint8), 0, len(data), room)
    return int(room[0])
