"""A table's columns as SQL over the DuckDB file: as expressions compare them, as they are sorted, as MySQL prints them.

How values stand in the file is in `tables.types`. `minutes` is the offset of the session's time zone, in which
TIMESTAMP values are shown and compared.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.tables.types import moment_text, number_text, time_text
from binlog_merge.values.duckdb.collations import UnknownCollation, sort_key
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.piece import Sql
from binlog_merge.values.types import unsupported
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import MEMBERS, NUMERIC, TEMPORAL, ColumnType, Family

_SORTED_AS_KEPT: Final = NUMERIC | TEMPORAL | {Family.BIT, Family.BYTES}
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
    if kind.family is Family.INTEGER:
        return kind.length or kind.facts.shown_width(kind.unsigned)
    if kind.family is Family.DECIMAL:
        scale = kind.decimals or 0
        return (kind.length or 10) + (scale > 0) + (not kind.unsigned)
    if kind.family is not Family.FLOAT:
        raise unsupported(kind, "as a number")
    return kind.length or kind.facts.width


def compared(column: Column, name: str, reading: Reading) -> Sql:
    """Return the piece that stands for a column in an expression; `name` is its SQL in the file."""
    if column.type.family in TEMPORAL:
        return column_sql(column, printed(column, name, reading)[0])
    return column_sql(column, name)


def sorted_by(column: Column, name: str, reading: Reading) -> str:
    """Return SQL of a value that sorts as MySQL sorts the column. Raises Refused where that is not known."""
    kind = column.type
    if kind.family is Family.TEXT:
        try:
            return sort_key(name, kind.collation or "", True)
        except UnknownCollation as error:
            raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"column {column.name}: {error}") from None
    if kind.family in MEMBERS:
        return column_sql(column, name).numbers or name
    if kind.family is Family.TIME and reading.temporal_text:
        return column_sql(column, name).text
    long = kind.family is Family.DECIMAL and (kind.length or 10) > 38
    if long or kind.family not in _SORTED_AS_KEPT:
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET,
            f"binlog-merge serve does not sort by column {column.name}, a {kind.name.upper()}: sort by the key",
        )
    return name


def printed(column: Column, name: str, reading: Reading) -> tuple[str, Form]:
    """Return SQL of what MySQL prints for a column, and the form of it; `name` is the column's SQL in the file."""
    kind = column.type
    match kind.family:
        case Family.INTEGER | Family.DECIMAL:
            return _number(kind, name), Form.ASCII
        case Family.FLOAT:
            return name, Form.FLOAT if kind.name == "float" else Form.DOUBLE
        case Family.BIT:
            return name, Form.BIT
        case Family.YEAR:
            return f"lpad(CAST({name} AS VARCHAR), 4, '0')", Form.ASCII
        case Family.DATE:
            return (name if reading.temporal_text else f"CAST({name} AS VARCHAR)"), Form.ASCII
        case Family.MOMENT:
            return _moment(kind, name, reading), Form.ASCII
        case Family.TIME:
            return (name if reading.temporal_text else time_text(name, kind.fsp)), Form.ASCII
        case Family.VECTOR:
            return name, Form.VECTOR
        case Family.BYTES | Family.GEOMETRY:
            return name, Form.BYTES
        case Family.TEXT | Family.ENUM | Family.SET | Family.JSON:
            return f"CAST({name} AS VARCHAR)", Form.TEXT
    raise unsupported(kind, "for a client")


def _number(kind: ColumnType, name: str) -> str:
    text = number_text(kind, name)
    if kind.zerofill:
        scale = kind.decimals or 0
        width = (kind.length or 10) + (scale > 0) if kind.family is Family.DECIMAL else display_width(kind)
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
    shown = moment_text(value, kind.fsp)
    return f"CASE WHEN {name} LIKE '{_ZERO}' THEN {name} ELSE {shown} END" if reading.temporal_text else shown
