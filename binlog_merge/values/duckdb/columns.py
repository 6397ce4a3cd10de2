"""A table's columns for expressions: their SQL, rows in the Arrow types that the engine reads, and the values that an
expression has for these, by the one DuckDB that each process has for it.

Dates and times go in as MySQL's text, so that every value has a place; ENUM and SET as text, beside their numbers.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.temporal import time_text
from binlog_merge.values.duckdb.compile import generated_column
from binlog_merge.values.duckdb.piece import COLUMN, NULL, Sql, quoted
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import DATES, MEMBERS, Family, set_text

_WHOLE: Final = frozenset({Family.INTEGER, Family.YEAR, Family.BIT})
UNIX_EPOCH_ZERO: Final = "0000-00-00 00:00:00"


def column_sql(column: Column, place: str) -> Sql:
    """Return a column that stands in the batch as `place`; of kind "" with a reason where it cannot be asked about."""
    name, family = place, column.type.family
    if family in _WHOLE:
        unsigned = column.type.unsigned or family is not Family.INTEGER
        untold = "a number with ZEROFILL" if column.type.zerofill and family is not Family.YEAR else ""
        return Sql(
            *(f"{name}::HUGEINT", "int"),
            strength=COLUMN,
            year=family is Family.YEAR,
            bit=family is Family.BIT,
            unsigned=unsigned,
            untold=untold,
        )
    if family is Family.DECIMAL:
        scale = column.type.decimals or 0
        if (column.type.length or 10) > 38:
            return Sql(f"column {column.name}: DECIMAL of more than 38 digits cannot stand in a filter", "")
        untold = "a number with ZEROFILL" if column.type.zerofill else ""
        unsigned = column.type.unsigned
        return Sql(name, "decimal", strength=COLUMN, scale=scale, unsigned=unsigned, untold=untold)
    if family is Family.FLOAT:
        return Sql(f"{name}::DOUBLE", "double", untold="a FLOAT" if column.type.name == "float" else "")
    if family is Family.TEXT:
        return Sql(name, "string", column.type.collation or "utf8mb4_0900_ai_ci", COLUMN)
    if family is Family.BYTES:
        return Sql(name, "binary")
    if family in MEMBERS:
        return _member_sql(column, name)
    if family in DATES:
        digits = f"replace(replace(replace({name}, '-', ''), ':', ''), ' ', '')"
        value = f"({digits})::DECIMAL(20,6)"
        if family is Family.DATE:
            return Sql(f"({value} * 1000000)::DECIMAL(20,6)", "date")
        return Sql(value, "datetime")
    if family is Family.TIME:
        return Sql(f"replace({name}, ':', '')::DECIMAL(13,6)", "time", strength=COLUMN, scale=column.type.fsp)
    if family is Family.JSON:
        return Sql(name, "json")
    return Sql(f"column {column.name}: {column.type.name.upper()} cannot stand in a filter", "")


def _member_sql(column: Column, name: str) -> Sql:
    members = "[" + ", ".join(quoted(member) for member in column.type.members) + "]"
    if column.type.family is Family.ENUM:
        numbers = f"(CASE WHEN {name} IS NOT NULL THEN coalesce(list_position({members}, {name}), 0) END)::HUGEINT"
    else:
        bits = f"list_sum(list_transform(string_split({name}, ','), lambda x: pow(2, list_position({members}, x) - 1)))"
        numbers = f"(CASE WHEN {name} IS NOT NULL THEN coalesce({bits}, 0) END)::HUGEINT"
    made = Sql(name, "string", column.type.collation or "utf8mb4_0900_ai_ci", COLUMN, numbers=numbers)
    return replace(made, members=column.type.members) if column.type.family is Family.SET else made


def engine_array(column: Column, values: Any, time_zone: str) -> Any:
    """Return an Arrow array of a column's values in the type that `column_sql` expects; TIMESTAMP in `time_zone`."""
    family = column.type.family
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), _engine_type(column))
    if family in MEMBERS and pa.types.is_integer(values.type):
        return _members(column, values)
    if column.type.name == "timestamp":
        return _zoned(values, time_zone)
    if family in DATES and not pa.types.is_string(values.type):
        return pc.cast(values if family is Family.DATE else pc.cast(values, pa.timestamp("us")), pa.string())
    if family is Family.TIME and pa.types.is_duration(values.type):
        return pa.array([None if v is None else time_text(v, 6) for v in values.to_pylist()], pa.string())
    if family is Family.TEXT and pa.types.is_binary(values.type):
        return values.cast(pa.string())
    if family is Family.DECIMAL and pa.types.is_decimal256(values.type) and values.type.precision <= 38:
        return values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return values


def _engine_type(column: Column) -> Any:
    """Return the type of a column of which no value is known."""
    family = column.type.family
    if family in _WHOLE:
        return pa.int64()
    if family is Family.DECIMAL:
        return pa.decimal128(38, column.type.decimals or 0)
    if family is Family.FLOAT:
        return pa.float64()
    return pa.binary() if family is Family.BYTES else pa.string()


def _members(column: Column, values: Any) -> Any:
    members = column.type.members
    texts: list[str | None] = []
    for value in values.to_pylist():
        if value is None:
            texts.append(None)
        elif column.type.family is Family.ENUM:
            texts.append(members[value - 1] if 0 < value <= len(members) else "")
        else:
            texts.append(set_text(member for i, member in enumerate(members) if value >> i & 1))
    return pa.array(texts, pa.string())


def _zoned(values: Any, time_zone: str) -> Any:
    """Return UTC times as text of a time zone; 0000-00-00 has none."""
    if pa.types.is_string(values.type):
        if time_zone == "UTC":
            return values
        zero = pc.starts_with(values, UNIX_EPOCH_ZERO[:10])
        moments = pc.cast(pc.if_else(zero, pa.scalar(None, pa.string()), values), pa.timestamp("us"))
        return pc.if_else(zero, values, _zoned(pc.assume_timezone(moments, "UTC"), time_zone))
    moments = pc.cast(values, pa.timestamp("us", tz=time_zone))
    return pc.cast(pc.local_timestamp(moments), pa.string())


def one_row(table: Table, row: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Return one row of plain values as a batch.

    Values are as the binlog has them: ENUM's index, SET's and BIT's bits, dates as text, JSON as text, bytes. A
    sequence has all columns in their order, or all but virtual ones; what a shorter one lacks is NULL.
    """
    columns = list(table.columns)
    if not isinstance(row, Mapping):
        stored = [c for c in columns if c.generated is None or c.generated.stored]
        named = columns if len(row) == len(columns) else stored
        if len(row) > len(named):
            raise ValueError(f"{len(row)} values for the {len(columns)} columns of {table.schema}.{table.name}")
        row = dict(zip((c.name for c in named), row, strict=False)) | {c.name: None for c in named[len(row) :]}
    by_name = {name.lower(): value for name, value in row.items()}
    present = [c for c in columns if c.name.lower() in by_name]
    arrays = [_array(c, by_name[c.name.lower()]) for c in present]
    return pa.RecordBatch.from_arrays(arrays, names=[c.name for c in present])


def _array(column: Column, value: Any) -> Any:
    family = column.type.family
    if value is None:
        return pa.nulls(1)
    if family in _WHOLE:
        return pa.array([int(value)], pa.uint64() if int(value) > 0x7FFFFFFFFFFFFFFF else pa.int64())
    if family is Family.DECIMAL:
        return pa.array([Decimal(str(value))], pa.decimal128(38, column.type.decimals or 0))
    if family is Family.FLOAT:
        return pa.array([float(value)], pa.float32() if column.type.name == "float" else pa.float64())
    if family in MEMBERS and isinstance(value, int):
        return pa.array([value], pa.uint64())
    if family is Family.BYTES:
        return pa.array([value.encode("latin-1") if isinstance(value, str) else bytes(value)], pa.binary())
    return pa.array([value.decode() if isinstance(value, bytes) else str(value)], pa.string())


class TableColumns(dict[str, Sql]):
    """The columns of a table as SQL, produced on demand; `used` are those that rows must hold, by their place.

    `present` are the virtual columns whose values rows hold; others are computed. `elsewhere` are the lower-case names
    of columns that the table has at other times: here they are NULL.
    """

    def __init__(self, table: Table, present: Collection[str], elsewhere: Collection[str] = ()) -> None:
        super().__init__()
        self.table = table
        self.used: dict[str, Column] = {}
        self._known = set(present)
        self._elsewhere = elsewhere

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column as SQL, or the default."""
        if name not in self:
            place = self.table.index_of(name)
            if place is None:
                return NULL if name.lower() in self._elsewhere else default
            self[name] = self._make(self.table.columns[place], f"c{place}")
        return self[name]

    def _make(self, column: Column, place: str) -> Sql:
        if column.generated is None or column.generated.stored or column.name in self._known:
            self.used[place] = column
            return column_sql(column, place)
        self._known.add(column.name)
        return generated_column(column, self)


_engines: dict[int, Any] = {}
"""By process id: a process that is forked does not use its parent's. To start one takes longer than most questions."""


def values_of(sql: str, rows: Any) -> Any:
    """Return what an expression of DuckDB's gives for each row of a `pa.Table`, as a ChunkedArray.

    Raises duckdb.Error. Safe to call from several threads.
    """
    engine = _engines.get(os.getpid()) or _engines.setdefault(os.getpid(), duckdb.connect(config={"threads": 1}))
    with engine.cursor() as connection:
        try:
            return connection.from_arrow(rows).project(f"{sql} AS found").to_arrow_table().column("found")
        except (duckdb.InternalException, duckdb.FatalException):
            _engines.pop(os.getpid(), None)  # after such an error it does nothing more
            raise
