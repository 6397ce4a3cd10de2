"""Values as SQL that a MySQL server reads, and the SQL by which it shows them.

Texts are quoted for a session with `SET NAMES utf8mb4` and backslash escapes; what is no UTF-8 in its column is written
in hexadecimal with its character set. FLOAT and DOUBLE have all digits of the stored value, TIMESTAMP is in UTC. An
ENUM or SET is a number where its text does not tell the value, which an empty member brings about.

A server shows a value in two forms of text, which lose nothing:

    text     the value's text in UTF-8; hexadecimal digits of bytes
    written  what a server takes for the same bytes again: hexadecimal digits of strings, the numbers of members of ENUM
             and SET

In both, FLOAT and DOUBLE have all digits, as a number in a JSON array, and TIMESTAMP is in UTC if the session is.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.cell_length import type_name
from binlog_merge.binlog.columnar import ColumnFacts, CutRows, decode_column
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import CellValueError
from binlog_merge.binlog.kernels.row_cells import ABSENT
from binlog_merge.binlog.table_map import member_text
from binlog_merge.errors import UnsupportedInput
from snapshot_store.errors import UnsupportedType
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import CHARACTERS, MEMBERS, NUMERIC, OPAQUE, TEMPORAL, Family
from snapshot_store.mysql.sql.names import quote_name, quote_string
from snapshot_store.mysql.text.codecs import is_ascii_compatible, is_utf8

_TEXTS: Final = frozenset((T.VARCHAR, T.VAR_STRING, T.STRING, T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB))
_TIMES: Final = frozenset((T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2))
_DURATIONS: Final = frozenset((T.TIME, T.TIME2))
_NUMBERS: Final = frozenset((T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.YEAR, T.BIT))
_SPECIAL: Final = "[\\\\'\n\r\\x00\x1a]"

Literals = list[str | None]
"""A literal for each row; None for a column that the row's image does not hold."""


def literals(cut: CutRows, side: int, column: int, facts: ColumnFacts, rows: Any) -> Literals:
    """Return the literals of a column of the rows with these numbers. Raises CellValueError."""
    starts, sizes = cut.starts[side, column, rows], cut.sizes[side, column, rows]
    texts: Literals = list(_literals(facts, cut, starts, sizes))
    for row in np.flatnonzero(sizes == ABSENT).tolist():
        texts[row] = None
    return texts


def _literals(facts: ColumnFacts, cut: CutRows, starts: Any, sizes: Any) -> list[str]:
    kind = facts.kind
    if kind in _TEXTS and facts.charset != "binary":
        # VARCHAR's code, since the bytes of a BINARY are padded, and those of a CHAR are not.
        return _texts(facts, _decoded(replace(_raw(facts, kind), code=T.VARCHAR), cut, starts, sizes))
    if kind in _TEXTS or kind in (T.GEOMETRY, T.VECTOR):
        return _hexadecimal(_decoded(_raw(facts, T.BLOB if kind == T.VECTOR else kind), cut, starts, sizes))
    if kind in _TIMES or kind in (T.DATE, T.NEWDATE):
        return _moments(facts, cut, starts, sizes)
    if kind in _DURATIONS:
        return _quoted(_decoded(_as_text(facts), cut, starts, sizes))
    if kind in (T.ENUM, T.SET):
        return _members(facts, _decoded(replace(facts, members=None, type=pa.uint64()), cut, starts, sizes))
    array = _decoded(facts, cut, starts, sizes)
    if kind in (T.FLOAT, T.DOUBLE):
        return ["NULL" if value is None else _float(value) for value in array.to_pylist()]
    if kind == T.NEWDECIMAL:
        return _decimals(array)
    if kind in _NUMBERS:
        return _plain(array.cast(pa.string()))
    if kind == T.JSON:
        return _quoted(array)
    raise UnsupportedInput(
        f"column {facts.name}: type {type_name(kind)} has no form as a literal that is known here",
        remedy="report the type and the server version",
    )


def _decoded(facts: ColumnFacts, cut: CutRows, starts: Any, sizes: Any) -> Any:
    return decode_column(facts, cut.buffer, starts, sizes)


def _raw(facts: ColumnFacts, kind: int) -> ColumnFacts:
    """Return facts by which a cell's bytes are its value."""
    code = T.BLOB if kind == T.BLOB else facts.code
    return replace(facts, code=code, kind=kind, charset="binary", type=pa.binary())


def _as_text(facts: ColumnFacts) -> ColumnFacts:
    return replace(facts, temporal_text=True, type=pa.string())


def _plain(array: Any) -> list[str]:
    found: list[str] = pc.fill_null(array, "NULL").to_pylist()
    return found


def _members(facts: ColumnFacts, numbers: Any) -> list[str]:
    """Return the literals of the indexes of an ENUM or the bits of a SET."""
    members = facts.members
    if members is None:
        return _plain(numbers.cast(pa.string()))
    encoded = numbers.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    texts = _quoted(pa.array([member_text(facts.kind, value, members) for value in values], pa.string()))
    found = [_untold(facts.kind, members, value) or text for value, text in zip(values, texts, strict=True)]
    return _plain(pa.array(found, pa.string()).take(encoded.indices))


def _untold(kind: int, members: Sequence[str], value: int) -> str | None:
    """Return the literal of an ENUM's index or a SET's bits that the text does not tell; None if it does."""
    if kind == T.ENUM and not value:
        return _no_member(members)
    if "" not in members:
        return None
    empty = members.index("")
    untold = not value or (value == empty + 1 if kind == T.ENUM else value >> empty & 1)
    return str(value) if untold else None


def _no_member(members: Sequence[str]) -> str:
    """Return the literal of an ENUM's invalid value.

    It is a text that is no member but a number, of up to five digits (`Field_enum::store`): neither '' nor the number 0
    passes in strict mode.
    """
    named = {unicodedata.normalize("NFKC", member) for member in members}
    return next((f"'{zeros}'" for n in range(1, 6) if (zeros := "0" * n) not in named), "0")


def _float(value: float) -> str:
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _decimals(array: Any) -> list[str]:
    texts = _plain(array.cast(pa.string()))
    return [format(Decimal(text), "f") if "E" in text else text for text in texts]


def _moments(facts: ColumnFacts, cut: CutRows, starts: Any, sizes: Any) -> list[str]:
    try:
        array = _decoded(facts, cut, starts, sizes)
    except CellValueError:  # what is no date, like 0000-00-00
        return _quoted(_decoded(_as_text(facts), cut, starts, sizes))
    if facts.kind in _TIMES:
        array = array.cast(pa.timestamp("us")) if array.type.tz is None else pc.local_timestamp(array)
        digits = facts.meta if facts.kind in (T.DATETIME2, T.TIMESTAMP2) else 0
        array = pc.utf8_slice_codeunits(array.cast(pa.string()), 0, 20 + digits if digits else 19)
    return _quoted(array.cast(pa.string()))


def _quoted(array: Any) -> list[str]:
    """Return texts in quotes, escaped where need be."""
    if pc.any(pc.match_substring_regex(array, _SPECIAL)).as_py():
        return ["NULL" if text is None else quote_string(text, expression=True) for text in array.to_pylist()]
    return _plain(pc.binary_join_element_wise("'", array, "'", ""))


def _hexadecimal(array: Any) -> list[str]:
    return ["NULL" if value is None else f"x'{value.hex()}'" for value in array.to_pylist()]


def _texts(facts: ColumnFacts, array: Any) -> list[str]:
    """Return the literals of texts that are given as bytes."""
    if is_utf8(facts.charset) or is_ascii_compatible(facts.charset):
        try:
            text = array.cast(pa.string())
            if is_utf8(facts.charset) or pc.all(pc.string_is_ascii(text)).as_py() is not False:
                return _quoted(text)
        except pa.ArrowInvalid:
            pass
    name = "utf8mb4" if facts.charset == "utf8" else facts.charset
    return ["NULL" if value is None else f"_{name} x'{value.hex()}'" for value in array.to_pylist()]


@dataclass(frozen=True, slots=True)
class Exact:
    """Makes conditions that a column has exactly a value, whatever its collation takes for equal."""

    facts: ColumnFacts

    def condition(self, name: str, literal: str) -> str:
        """Return the condition that the column with this name has this literal's value."""
        quoted = quote_name(name)
        if literal == "NULL":
            return f"{quoted} IS NULL"
        literal = self.compared(literal)
        return _CONDITION.get(self._form(), _equal)(quoted, literal, self.facts.charset)

    def compared(self, literal: str) -> str:
        """Return the literal that is equal to the column where `literal` gives it its value."""
        members = self.facts.members
        invalid = self.facts.kind == T.ENUM and members is not None and literal == _no_member(members)
        return "0" if invalid else literal

    def _form(self) -> str:
        if self.facts.kind in _TEXTS and self.facts.charset != "binary":
            return "text"
        if self.facts.kind == T.JSON:
            return "json"
        if self.facts.kind in (T.FLOAT, T.DOUBLE):
            return "float"
        if self.facts.kind in (T.ENUM, T.SET):
            return "member"
        return "hex" if self.facts.kind in (T.GEOMETRY, T.VECTOR) else "value"


def _equal(name: str, literal: str, charset: str) -> str:
    return f"{name} = {literal}"


def _same_float(name: str, literal: str, charset: str) -> str:
    if float(literal):
        return f"{name} = {literal}"
    # 0.0 and -0.0 are equal, and two values all the same. Behind `column = literal` a server would take the literal for
    # the column everywhere.
    return f"ABS({name}) = 0 AND LEFT({name}, 1) {'=' if literal.startswith('-') else '<>'} '-'"


def _same_member(name: str, literal: str, charset: str) -> str:
    # Compared with a number, bits would be a DOUBLE.
    return f"CAST({name} AS UNSIGNED) = {literal}" if literal.isdigit() else f"{name} = {literal}"


def _same_text(name: str, literal: str, charset: str) -> str:
    return f"CAST({name} AS BINARY) = CAST(CONVERT({literal} USING {charset}) AS BINARY)"


def _same_json(name: str, literal: str, charset: str) -> str:
    # By bytes, since a CHAR has the connection's collation; both sides read anew from their texts, since a DECIMAL or a
    # DATE inside a document becomes what the literal has in its place.
    there, sought = (f"CAST(CAST({value} AS JSON) AS CHAR)" for value in (f"CAST({name} AS CHAR)", literal))
    return f"CAST({there} AS BINARY) = CAST({sought} AS BINARY)"


def _same_bytes(name: str, literal: str, charset: str) -> str:
    return f"HEX({name}) = HEX({literal})"


_CONDITION: Final[dict[str, Callable[[str, str, str], str]]] = {
    "text": _same_text,
    "json": _same_json,
    "hex": _same_bytes,
    "float": _same_float,
    "member": _same_member,
}


def text_of(column: Column, source: str) -> str:
    """Return the SQL of the text of a value; `source` is the value's SQL."""
    family = column.type.family
    if family in CHARACTERS:
        return f"CONVERT({source} USING utf8mb4)"
    return f"HEX({source})" if family in OPAQUE else _as_written(column, source)


def written_of(column: Column, source: str) -> str:
    """Return the SQL of the written form of a value."""
    family = column.type.family
    if family in OPAQUE or family is Family.TEXT:
        return f"HEX({source})"
    if family is Family.JSON:
        return f"HEX(CAST({source} AS CHAR))"
    return f"CAST({source} + 0 AS CHAR)" if family in MEMBERS else _as_written(column, source)


def _as_written(column: Column, source: str) -> str:
    family = column.type.family
    if family is Family.FLOAT:
        # A server may cut the last digit of a DOUBLE; in a JSON document it prints all significant digits.
        return f"IF({source} IS NULL, NULL, CAST(JSON_ARRAY(CAST({source} AS DOUBLE) + 0e0) AS CHAR))"
    if family in (Family.BIT, Family.YEAR) or column.type.zerofill:
        return f"CAST({source} + 0 AS CHAR)"
    if family in NUMERIC | TEMPORAL | {Family.JSON}:
        return f"CAST({source} AS CHAR)"
    raise UnsupportedType(column.type.name, "as a server's text")


def literal_of_text(column: Column, text: str | None) -> str:
    """Return SQL that a server takes for the value of this text."""
    if text is not None and (column.type.family in CHARACTERS or column.type.family is Family.JSON):
        return f"_utf8mb4 x'{text.encode().hex()}'"
    return literal_of_written(column, text)


def literal_of_written(column: Column, text: str | None) -> str:
    """Return SQL that a server takes for the value of this written form."""
    family = column.type.family
    if text is None:
        return "NULL"
    if family is Family.TEXT or family is Family.JSON:
        return f"_{column.type.charset if family is Family.TEXT else 'utf8mb4'} x'{text}'"
    if family in OPAQUE:
        return f"x'{text}'"
    if family is Family.FLOAT:
        return number_of(text)
    if family in TEMPORAL:
        return quote_string(text)
    if family in NUMERIC | MEMBERS | {Family.BIT}:
        return text
    raise UnsupportedType(column.type.name, "as a literal")


def number_of(text: str) -> str:
    """Return the number in the JSON array as which a server shows a FLOAT or DOUBLE."""
    return text.strip("[]")
