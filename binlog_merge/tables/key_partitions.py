"""The places of rows among partitions, or subpartitions, by KEY: those of a hash of the key's columns.

The server hashes what it holds in memory of each column, which is what a row event has of it. Sources:
`Partition_helper::ph_calculate_key_hash_value`, `Field::hash`, `my_hash_sort_bin` and `get_part_id_from_linear_hash` of
mysql-server; `KEY ALGORITHM = 1` hashes otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from binlog_merge.tables.types import listed, quoted
from binlog_merge.tables.values import cells_of
from binlog_merge.values.duckdb.piece import ExpressionError
from binlog_merge.values.types import byte_length
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import DATES, NUMERIC, Family
from snapshot_store.mysql.text.charsets import folding
from snapshot_store.mysql.text.codecs import encode_text, is_ascii_compatible

_HERE: Final = "places by key"
_LIKE_LATIN1: Final = NUMERIC | {Family.DATE}
"""Types whose bytes a server hashes as if they were text in latin1_swedish_ci: `my_charset_numeric`."""
_WEIGHTS: Final = bytes.maketrans(*(side.encode("latin-1") for side in folding("latin1_swedish_ci")))
_BITS: Final = (1 << 32) - 1
"""The bits of the hash that matter: higher ones never come down."""


@dataclass(frozen=True)
class KeyPlaces:
    """Finds the places of the rows that the file's table `name` has now, of which `table` is the definition."""

    connection: Any
    name: str
    table: Table
    here: frozenset[str]

    def sql(self, names: Sequence[str], count: int, linear: bool, algorithm: int) -> str:
        """Return SQL of a row's place among `count`, by the hash of these columns, () for those of the primary key.

        Raises ExpressionError if it is not known.
        """
        if algorithm == 1:
            raise ExpressionError("it is by KEY ALGORITHM = 1, of which only a server knows the hash")
        if self.table.index_of("rowid") is not None:  # which hides DuckDB's
            raise ExpressionError("its rows cannot be told apart here: a column of it is called rowid")
        columns = self._columns(names)
        rows = self.connection.sql(f"SELECT rowid AS k, {listed([c.name for c in columns])} FROM {self.name}")
        found = rows.to_arrow_table()
        hashed = [_hashed(column, found.column(i)) for i, column in enumerate(columns, 1)]
        places = [_place(_hash(row), count, linear) for row in zip(*hashed, strict=True)]
        self.connection.register(_HERE, pa.table({"k": found.column("k"), "place": pa.array(places, pa.int64())}))
        return f"(SELECT place FROM {quoted(_HERE)} p WHERE p.k = {self.name}.rowid)"

    def _columns(self, names: Sequence[str]) -> list[Column]:
        """Return the columns in the order in which a server hashes them: that of the table."""
        key = self.table.primary_key
        if not names and key is not None:
            names = [part.column or "" for part in key.parts]
        wanted = {name.lower() for name in names}
        columns = [column for column in self.table.columns if column.name.lower() in wanted]
        if not columns or not wanted <= self.here:
            raise ExpressionError("the file does not have the columns of its KEY")
        return columns


def _hashed(column: Column, values: Any) -> list[bytes | None]:
    """Return the bytes of a column's values that a server hashes, None for NULL.

    Raises ExpressionError if they are not known.
    """
    kind = column.type
    if kind.family in DATES and values.null_count:
        raise ExpressionError(f"NULL in column {column.name} may be a date that no calendar has")
    if kind.family in _LIKE_LATIN1 | DATES:
        cells = cells_of(column, values)
        return [_weighed(cell) for cell in cells] if kind.family in _LIKE_LATIN1 else list(cells)
    found = [None if value is None else _bytes(column, value) for value in values.to_pylist()]
    if kind.family is not Family.TEXT or _by_bytes(column):
        return found
    if kind.collation == "latin1_swedish_ci":
        return [_weighed(text) for text in found]
    raise ExpressionError(f"it is by KEY, and only a server knows the hash of column {column.name} ({kind.collation})")


def _weighed(text: bytes | None) -> bytes | None:
    return None if text is None else text.rstrip(b" ").translate(_WEIGHTS)


def _by_bytes(column: Column) -> bool:
    """Return whether texts are hashed byte by byte, but for spaces at the end."""
    collation, charset = column.type.collation or "", column.type.charset or ""
    return collation.endswith("_bin") and collation != "utf8mb4_0900_bin" and is_ascii_compatible(charset)


def _bytes(column: Column, value: Any) -> bytes:
    kind = column.type
    if kind.family is Family.BIT:
        return int(value).to_bytes(8, "big")
    if kind.family is Family.TEXT:
        return encode_text(kind.charset or "", value.rstrip(" "))
    if kind.family is Family.BYTES:
        return bytes(value).ljust(byte_length(kind) if kind.name == "binary" else 0, b"\0")
    raise ExpressionError(f"it is by KEY, and the order of column {column.name} ({kind.name}) is not known here")


def _hash(values: Sequence[bytes | None]) -> int:
    """Return the hash of a key, of which there are the bytes of each column, None for NULL."""
    one, two = 1, 4
    for value in values:
        if value is None:
            one ^= (one << 1 | 1) & _BITS
            continue
        for byte in value:
            one ^= (((one & 63) + two) * byte + (one << 8)) & _BITS
            two += 3
    return one


def _place(number: int, count: int, linear: bool) -> int:
    if not linear:
        return number % count
    power = 1 << (count - 1).bit_length()
    low = number & (power - 1)
    return low if low < count else low & (power // 2 - 1)
