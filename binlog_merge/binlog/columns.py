"""The names and character sets of a table map's columns, and values as MySQL's text, for showing rows to people."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import fraction_text, time_text
from snapshot_store.mysql.text.charsets import charset_of
from snapshot_store.mysql.values.sets import set_text


def column_names(table_map: TableMap) -> tuple[str, ...]:
    """Return the names in the table map, else `@1`, `@2`... as mysqlbinlog prints them."""
    if table_map.optional is not None and table_map.optional.column_names is not None:
        return table_map.optional.column_names
    return tuple(f"@{i + 1}" for i in range(len(table_map.types)))


def column_charsets(table_map: TableMap, default: str = "utf8mb4") -> tuple[str, ...]:
    """Return the character set of each column, by its collation id; `default` if the table map has none (5.7)."""
    return tuple(
        default if collation is None else charset_of(collation) or "binary" for collation in table_map.collations()
    )


def member_text(kind: int, value: int, members: Sequence[str]) -> str:
    """Return the text of an ENUM index or of SET bits; index 0 is the empty text of an invalid value."""
    if kind == T.ENUM:
        if value > len(members):
            raise BinlogFormatError(f"ENUM index {value} of {len(members)} members")
        return members[value - 1] if value else ""
    if value >> len(members):
        raise BinlogFormatError(f"SET bits {value:#x} of {len(members)} members")
    return set_text(name for i, name in enumerate(members) if value >> i & 1)


def temporal_as_text(value: date | datetime | timedelta | str, fsp: int) -> str:
    """Return MySQL's text of a decoded date or time, with `fsp` fraction digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return time_text(value, fsp)
    if isinstance(value, datetime):
        return f"{value.year:04d}-{value:%m-%d %H:%M:%S}" + fraction_text(value.microsecond, fsp)
    return value.isoformat()
