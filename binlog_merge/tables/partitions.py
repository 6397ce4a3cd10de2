"""Conditions for the rows of a partition, as a log does not name the rows that an action on a partition removes.

| by | a row is in the partition |
|---|---|
| RANGE, RANGE COLUMNS | if it is below the partition's bound, and not below the one before; NULL is below all |
| LIST, LIST COLUMNS | if the partition's list has its values, or NULL |
| HASH, LINEAR HASH | if the expression's remainder, or its lowest bits, are the partition's number |
| KEY | if the hash of its key, computed here of the rows that are there (`key_partitions`), is the partition's number |

Sources: refman, "Partitioning Types", "How MySQL Partitioning Handles NULL"; `get_part_id_hash`,
`get_part_id_from_linear_hash` and `part_val_int` of mysql-server `sql/sql_partition.cc`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import pyarrow as pa

from binlog_merge.errors import ReplayStopped
from binlog_merge.tables.types import BY_HAND, listed, moment_text, quoted
from binlog_merge.tables.values import cells_of
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.compare import compare
from binlog_merge.values.duckdb.compile import compile_value, parse
from binlog_merge.values.duckdb.piece import SESSION, ExpressionError, Sql
from binlog_merge.values.types import byte_length
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import DATES, NUMERIC, Family
from snapshot_store.mysql.expr.nodes import Node, column
from snapshot_store.mysql.text.charsets import folding
from snapshot_store.mysql.text.codecs import encode_text, is_ascii_compatible
from snapshot_store.partitioning import Partitioning

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


_EPOCH = "unix_timestamp of "
Places = Callable[[tuple[str, ...], int, bool, int], str]
"""`KeyPlaces.sql`."""


@dataclass(frozen=True)
class PartitionRows:
    """Builds conditions for a table; `here` are the columns that the file has of it, in lower case."""

    table: Table
    here: frozenset[str]
    temporal_text: bool = False

    def of(self, names: Sequence[str], by_key: KeyPlaces) -> str:
        """Return the SQL condition that a row is in one of these partitions, or subpartitions; ("ALL",) means all.

        It holds for the rows that the table of `by_key` has now, until `by_key` is asked again. Raises ReplayStopped if
        that is not known.
        """
        if tuple(names) == ("ALL",):
            return "TRUE"
        if not self.table.partitioning:
            raise self._unknown("how its rows are kept apart is not known")
        found = self.table.partitioning
        try:
            places = cache(by_key.sql)  # the rows are hashed once, whatever is asked of them
            return "(" + " OR ".join(self._named(found, name.lower(), places) for name in names) + ")"
        except (ExpressionError, UnknownCollation) as error:
            raise self._unknown(str(error)) from None

    def numbers(self, by_key: KeyPlaces) -> list[str]:
        """Return SQL of the number of the partition, and that of the subpartition, that a row is in.

        Raises ReplayStopped if that is not known.
        """
        found, places = self.table.partitioning, list[str]()
        if found is None:
            raise self._unknown("how its rows are kept apart is not known")
        try:
            if found.subs and found.method == "KEY":
                raise ExpressionError("it is by KEY, and has subpartitions, which no server has")
            if len(found.names) > 1 and found.method == "KEY":
                places.append(by_key.sql(found.columns, len(found.names), found.linear, found.algorithm))
            elif len(found.names) > 1:
                places.append(_first_of([self._partition(found, i, by_key.sql) for i in range(len(found.names))]))
            if found.subs > 1 and not found.sub:
                places.append(by_key.sql(found.sub_columns, found.subs, found.linear_sub, found.sub_algorithm))
            elif found.subs > 1:
                places.append(_first_of([self._sub(found, i, by_key.sql) for i in range(found.subs)]))
        except (ExpressionError, UnknownCollation) as error:
            raise self._unknown(str(error)) from None
        return places

    def _sub(self, found: Partitioning, number: int, places: Places) -> str:
        if not found.sub:
            return f"({places(found.sub_columns, found.subs, found.linear_sub, found.sub_algorithm)} = {number})"
        return self._hashed(found.sub, found.subs, number, found.linear_sub)

    def _unknown(self, reason: str) -> ReplayStopped:
        name = f"{self.table.schema}.{self.table.name}"
        return ReplayStopped(f"which rows of {name} are in the partition cannot be told: {reason}", remedy=BY_HAND)

    def _named(self, found: Partitioning, name: str, places: Places) -> str:
        names = [part.lower() for part in found.names]
        if name in names:
            return self._partition(found, names.index(name), places)
        for place, part in enumerate(names):
            for number in range(found.subs if not found.subpartitions else 0):
                if name == f"{part}sp{number}":
                    return f"({self._partition(found, place, places)} AND {self._sub(found, number, places)})"
        raise ExpressionError(f"there is no partition {name}, or a subpartition with a name of its own")

    def _partition(self, found: Partitioning, place: int, places: Places) -> str:
        if found.method == "HASH":
            return self._hashed(found.expression, len(found.names), place, found.linear)
        if found.method == "KEY":
            return f"({places(found.columns, len(found.names), found.linear, found.algorithm)} = {place})"
        sides = self._sides(found)
        values = [found.values[i] if i < len(found.values) else () for i in range(place + 1)]
        if not values[place] or (place and not values[place - 1] and found.method.startswith("RANGE")):
            raise ExpressionError("the values of its partitions are not known")
        if found.method.startswith("LIST"):
            return "(" + " OR ".join(self._equal(sides, row) for row in values[place]) + ")"
        below = self._below(sides, values[place][0])
        return f"({below} AND NOT {self._below(sides, values[place - 1][0])})" if place else below

    def _sides(self, found: Partitioning) -> list[Sql]:
        if found.method.endswith("COLUMNS"):
            count = len(next((rows[0] for rows in found.values if rows), ()))
            return [self._value(column(name)) for name in found.columns[:count]]
        if not found.expression:
            raise ExpressionError("by what its rows are kept apart is not known")
        return [self._value(parse(found.expression))]

    def _equal(self, sides: Sequence[Sql], row: Sequence[str]) -> str:
        pairs = zip(sides, row, strict=True)
        return "(" + " AND ".join(compare("<=>", side, self._bound(text), SESSION).text for side, text in pairs) + ")"

    def _below(self, sides: Sequence[Sql], row: Sequence[str]) -> str:
        """Return the SQL condition that `sides` are lexicographically less than the bounds."""
        if not sides:
            return "FALSE"
        if row[0] == "MAXVALUE":
            return "TRUE"
        bound = self._bound(row[0])
        less, same = (compare(symbol, sides[0], bound, SESSION).text for symbol in ("<", "="))
        further = self._below(sides[1:], row[1:])
        return f"coalesce({less} OR ({same} AND {further}), TRUE)"

    def _hashed(self, expression: str, count: int, number: int, linear: bool) -> str:
        if not expression:
            raise ExpressionError("it is by KEY, or by what is not known")
        # NULL counts as the least BIGINT, a value beyond BIGINT as the negative number with the same bits.
        value = f"coalesce(({self._value(parse(expression)).text})::HUGEINT, -9223372036854775808)"
        value = f"(CASE WHEN {value} > 9223372036854775807 THEN {value} - 18446744073709551616 ELSE {value} END)"
        if not linear:
            return f"(abs({value} % {count}) = {number})"
        power = 1 << (count - 1).bit_length()
        low, lower = (f"(({value} % {size} + {size}) % {size})" for size in (power, power // 2 or 1))
        return f"((CASE WHEN {low} >= {count} THEN {lower} ELSE {low} END) = {number})"

    def _bound(self, text: str) -> Sql:
        return compile_value(parse(text), {})

    def _value(self, node: Node) -> Sql:
        """Return the SQL of an expression on the table's columns; TRUE and FALSE are numbers."""
        columns: dict[str, Sql] = {}
        node = self._with_columns(node, columns)
        found = compile_value(node, columns)
        return Sql(f"({found.text})::HUGEINT", "int") if found.kind == "bool" else found

    def _with_columns(self, node: Node, columns: dict[str, Sql]) -> Node:
        """Collect the columns of an expression; UNIX_TIMESTAMP(column), which no time zone changes, counts as one."""
        if node.kind == "call" and node.text == "unix_timestamp" and node.args[0].kind == "column":
            name = node.args[0].text.lower()
            text = self._text(name)
            seconds = f"epoch(try_strptime(left({text}, 19), '%Y-%m-%d %H:%M:%S'))::HUGEINT"
            columns[_EPOCH + name] = Sql(f"(CASE WHEN {text} IS NOT NULL THEN coalesce({seconds}, 0) END)", "int")
            return column(_EPOCH + name)
        if node.kind == "column":
            place = self.table.index_of(node.text)
            if place is not None:
                columns[node.text.lower()] = column_sql(self.table.columns[place], self._text(node.text))
        return replace(node, args=tuple(self._with_columns(arg, columns) for arg in node.args))

    def _text(self, name: str) -> str:
        """Return a column's SQL for filter expressions: dates and times as MySQL's text."""
        if name.lower() not in self.here:
            raise ExpressionError(f"the file does not have its column {name}")
        place = self.table.index_of(name)
        if place is None or self.temporal_text:
            return quoted(name)
        kind = self.table.columns[place].type
        if kind.family in (Family.DATE, Family.TIME):
            return f"CAST({quoted(name)} AS VARCHAR)"
        if kind.family is Family.MOMENT:
            zone = " AT TIME ZONE 'UTC'" if kind.name == "timestamp" else ""
            return moment_text(f"{quoted(name)}{zone}", 6)
        return quoted(name)


def _first_of(conditions: Sequence[str]) -> str:
    return f"CASE {' '.join(f'WHEN {condition} THEN {i}' for i, condition in enumerate(conditions))} END"
