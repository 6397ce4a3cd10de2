"""SQL that gives values in a DuckDB file in a form whose text compares with a server's."""

from typing import Final

from binlog_merge.replay.duckdb.types import quoted
from binlog_merge.values.binlog_types import GEOMETRY_TYPES
from binlog_merge.values.value import BINARY_TYPES
from snapshot_store.model import Column

HEX_TYPES: Final = frozenset({*BINARY_TYPES, *GEOMETRY_TYPES, "vector"})


def in_duckdb(column: Column, prefix: str = "") -> str:
    """Return the SQL expression in a DuckDB file from which a column's text is made."""
    name, kind = prefix + quoted(column.name), column.type.name
    if kind == "vector":
        return name
    if kind in HEX_TYPES:
        return f"hex({name})"
    if kind in ("float", "double"):
        return f"CAST({name} AS DOUBLE) + 0"
    if kind == "decimal" and column.type.length == column.type.decimals:
        return f"regexp_replace(CAST({name} AS VARCHAR), '^(-?)\\.', '\\10.')"  # DuckDB writes no 0 there
    return f"CAST({name} AS VARCHAR)"
