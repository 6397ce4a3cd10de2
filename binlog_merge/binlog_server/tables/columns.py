"""A table's columns as SQL over the DuckDB file: as expressions compare them, as they are sorted, as MySQL prints them.

How values stand in the file is in `tables.types`. `minutes` is the offset of the session's time zone, in which
TIMESTAMP values are shown and compared.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.values.binlog_types import GEOMETRY_TYPES
from binlog_merge.values.duckdb.collations import UnknownCollation, sort_key
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.piece import Sql
from binlog_merge.values.value import BINARY_TYPES, TEXT_TYPES
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_WIDTHS: Final = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
_ZERO: Final = "0000-%"


class Form(Enum):
    """How DuckDB gives the values of a column, from which the bytes for a client are made."""

    ASCII = auto()
    TEXT = auto()
    BYTES = auto()
    FLOAT = auto()
    DOUBLE = auto()
    BIT = auto()
    VECTOR = auto()


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read: whether dates and times are text in it, and the offset of the session's time zone.

    `client` is the character set of the statement.
    """

    temporal_text: bool
    minutes: int = 0
    client: str = "utf8mb4"


def display_width(kind: ColumnType) -> int:
    """Return the greatest number of characters of a number's text, as MySQL states it."""
    if kind.name in _INTEGERS:
        return kind.length or _WIDTHS[kind.name][kind.unsigned]
    if kind.name == "decimal":
        scale = kind.decimals or 0
        return (kind.length or 10) + (scale > 0) + (not kind.unsigned)
    if kind.length is not None and kind.name in ("float", "double"):
        return kind.length
    return {"float": 12, "double": 22}[kind.name]


def compared(column: Column, name: str, reading: Reading) -> Sql:
    """Return the piece that stands for a column in an expression; `name` is its SQL in the file."""
    kind = column.type.name
    if kind in ("date", "datetime", "timestamp", "time"):
        return column_sql(column, printed(column, name, reading)[0])
    return column_sql(column, name)


def sorted_by(column: Column, name: str, reading: Reading) -> str:
    """Return SQL of a value that sorts as MySQL sorts the column. Raises Refused where that is not known."""
    kind = column.type
    if kind.name in TEXT_TYPES:
        try:
            return sort_key(name, kind.collation or "", True)
        except UnknownCollation as error:
            raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"column {column.name}: {error}") from None
    if kind.name in ("enum", "set"):
        return column_sql(column, name).numbers or name
    if kind.name == "time" and reading.temporal_text:
        return column_sql(column, name).text
    if kind.name in ("json", "vector", *GEOMETRY_TYPES) or (kind.name == "decimal" and (kind.length or 10) > 38):
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET,
            f"binlog-merge serve does not sort by column {column.name}, a {kind.name.upper()}: sort by the key",
        )
    return name


def printed(column: Column, name: str, reading: Reading) -> tuple[str, Form]:
    """Return SQL of what MySQL prints for a column, and the form of it; `name` is the column's SQL in the file."""
    kind = column.type
    if kind.name in _INTEGERS or kind.name == "decimal":
        return _number(kind, name), Form.ASCII
    if kind.name in ("float", "double"):
        return name, Form.FLOAT if kind.name == "float" else Form.DOUBLE
    if kind.name == "bit":
        return name, Form.BIT
    if kind.name == "year":
        return f"lpad(CAST({name} AS VARCHAR), 4, '0')", Form.ASCII
    if kind.name == "date":
        return (name if reading.temporal_text else f"CAST({name} AS VARCHAR)"), Form.ASCII
    if kind.name in ("datetime", "timestamp"):
        return _moment(kind, name, reading), Form.ASCII
    if kind.name == "time":
        return (name if reading.temporal_text else _clock(kind, name)), Form.ASCII
    if kind.name == "vector":
        return name, Form.VECTOR
    if kind.name in BINARY_TYPES or kind.name in GEOMETRY_TYPES:
        return name, Form.BYTES
    return f"CAST({name} AS VARCHAR)", Form.TEXT


def _number(kind: ColumnType, name: str) -> str:
    text = f"CAST({name} AS VARCHAR)"
    if kind.name == "decimal" and kind.length == kind.decimals:
        text = f"regexp_replace({text}, '^(-?)\\.', '\\10.')"  # DuckDB writes no 0 there
    if kind.zerofill:
        scale = kind.decimals or 0
        width = (kind.length or 10) + (scale > 0) if kind.name == "decimal" else display_width(kind)
        text = f"CASE WHEN length({text}) >= {width} THEN {text} ELSE lpad({text}, {width}, '0') END"
    return text


def _moment(kind: ColumnType, name: str, reading: Reading) -> str:
    moved = kind.name == "timestamp" and reading.minutes
    if reading.temporal_text and not moved:
        return name
    value = f"CAST({name} AS TIMESTAMP)" if reading.temporal_text else name
    if kind.name == "timestamp" and not reading.temporal_text:
        value = f"({name} AT TIME ZONE 'UTC')"
    if moved:
        value = f"({value} + INTERVAL ({reading.minutes}) MINUTE)"
    shown = f"strftime({value}, '%Y-%m-%d %H:%M:%S.%f')[:{19 + (kind.fsp + 1 if kind.fsp else 0)}]"
    return f"CASE WHEN {name} LIKE '{_ZERO}' THEN {name} ELSE {shown} END" if reading.temporal_text else shown


def _clock(kind: ColumnType, name: str) -> str:
    micros = f"abs(epoch_us({name}))"
    sign = f"CASE WHEN epoch_us({name}) < 0 THEN '-' ELSE '' END"
    parts = f"{micros} // 3600000000, {micros} // 60000000 % 60, {micros} // 1000000 % 60"
    text = f"{sign} || printf('%02d:%02d:%02d', {parts})"
    if kind.fsp:
        text += f" || printf('.%0{kind.fsp}d', {micros} % 1000000 // {10 ** (6 - kind.fsp)})"
    return f"({text})"
