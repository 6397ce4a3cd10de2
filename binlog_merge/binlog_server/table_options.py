"""What information_schema.TABLES says of how a table is stored: row format and options, as MySQL 9.7 writes them."""

from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.recorded import Row

if TYPE_CHECKING:
    from snapshot_store import model
    from snapshot_store.mysql.column_type import ColumnType

_FIXED: Final = ("MEMORY", "CSV", "BLACKHOLE", "MRG_MYISAM")
_OPTIONS: Final = (
    *("max_rows", "min_rows", "avg_row_length", "row_format", "stats_sample_pages", "stats_auto_recalc"),
    *("KEY_BLOCK_SIZE", "COMPRESSION", "stats_persistent", "pack_keys", "checksum", "delay_key_write"),
)
"""In the order in which a server lists them."""


def status_of(table: "model.Table | None") -> Row:
    """Return what both TABLES and SHOW TABLE STATUS have behind a table's name: the engine to the comment."""
    if table is None:
        return None, 10, *(None,) * 11, None, None, "", "its definition is not known"
    return table.engine, 10, _row_format(table), *(None,) * 10, table.collation, None, _options(table), table.comment


def text_of(literal: str) -> str:
    """Return the text of an attribute's value, a literal or a bare word."""
    from snapshot_store.mysql.sql.cursor import Cursor
    from snapshot_store.mysql.sql.session import STORED

    cursor = Cursor.of(literal, STORED)
    return cursor.literal_string() if cursor.peek().kind == "string" else literal


def _row_format(table: "model.Table") -> str:
    written = dict(table.attributes).get("ROW_FORMAT", "").capitalize()
    if table.engine in _FIXED:
        return "Fixed"
    if table.engine == "ARCHIVE":
        return "Compressed"
    if written and written != "Default":
        return written
    if table.engine == "MyISAM" and not any(_varies(column.type) for column in table.columns):
        return "Fixed"
    return "Dynamic"


def _varies(type: "ColumnType") -> bool:
    """Return whether MyISAM stores a value in as many bytes as it has: shapes too, which are BLOBs there."""
    return type.name in ("varchar", "varbinary") or not type.defaults_to_literal


def _options(table: "model.Table") -> str:
    written = {name: text_of(value) for name, value in table.attributes}
    found = [f"{name}={_value(name, written[name.upper()])}" for name in _OPTIONS if name.upper() in written]
    return " ".join([*found, "partitioned"] if table.partitioning else found)


def _value(name: str, text: str) -> str:
    if name == "COMPRESSION":
        return f'"{text}"'
    return text.upper() if name == "row_format" else text
