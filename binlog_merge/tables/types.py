"""Maps MySQL's column types to DuckDB's, and quotes names for DuckDB.

| MySQL | DuckDB |
|---|---|
| TINYINT … BIGINT, UNSIGNED | TINYINT … BIGINT, UTINYINT … UBIGINT; MEDIUMINT: INTEGER, UINTEGER |
| DECIMAL(p,s) | DECIMAL(p,s); more than 38 digits: VARCHAR |
| FLOAT, DOUBLE | FLOAT, DOUBLE |
| BIT(n) | UBIGINT | YEAR | SMALLINT (0 for 0000) |
| CHAR, VARCHAR, TEXT of any character set | VARCHAR; invalid bytes become `0x…` |
| BINARY, VARBINARY, BLOB | BLOB | ENUM, SET | VARCHAR (a set's members with commas) |
| DATE, DATETIME, TIMESTAMP, TIME | DATE, TIMESTAMP, TIMESTAMPTZ, INTERVAL; VARCHAR with `--temporal text` |
| JSON | JSON | VECTOR | FLOAT[] | GEOMETRY | BLOB (SRID, then WKB) |
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from binlog_merge.values.binlog_types import GEOMETRY_TYPES
from binlog_merge.values.value import BINARY_TYPES, TEXT_TYPES
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType

BY_HAND: Final = "do the same to the DuckDB table by hand, and run the replay again with --skip"
CATALOG: Final = "replay target"
"""The name under which the file is attached."""
_INTEGERS: Final = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "mediumint": "INTEGER",
    "int": "INTEGER",
    "bigint": "BIGINT",
}
_TEMPORAL: Final = {"date": "DATE", "datetime": "TIMESTAMP", "timestamp": "TIMESTAMPTZ", "time": "INTERVAL"}
_OTHERS: Final = {
    "float": "FLOAT",
    "double": "DOUBLE",
    "bit": "UBIGINT",
    "year": "SMALLINT",
    "enum": "VARCHAR",
    "set": "VARCHAR",
    "json": "JSON",
    "vector": "FLOAT[]",
    **dict.fromkeys(TEXT_TYPES, "VARCHAR"),
    **dict.fromkeys(BINARY_TYPES, "BLOB"),
    **dict.fromkeys(GEOMETRY_TYPES, "BLOB"),
}


def duckdb_type(kind: ColumnType, temporal_text: bool = False) -> str:
    """Return the DuckDB type of a column."""
    if kind.name in _INTEGERS:
        return ("U" if kind.unsigned else "") + _INTEGERS[kind.name]
    if kind.name == "decimal":
        precision, scale = kind.length or 10, kind.decimals or 0
        return f"DECIMAL({precision},{scale})" if precision <= 38 else "VARCHAR"
    if kind.name in _TEMPORAL:
        return "VARCHAR" if temporal_text else _TEMPORAL[kind.name]
    return _OTHERS[kind.name]


def quoted(*names: str) -> str:
    """Return names quoted for DuckDB, joined by dots."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def place(*names: str) -> str:
    """Return a schema's or a table's quoted name, qualified with CATALOG, as a schema may have the file's name."""
    return quoted(CATALOG, *names)


def listed(names: Sequence[str], prefix: str = "") -> str:
    """Return quoted names, joined by commas."""
    return ", ".join(prefix + quoted(name) for name in names)


def definitions(columns: Sequence[Column], temporal_text: bool = False) -> str:
    """Return column definitions for CREATE TABLE."""
    return ", ".join(f"{quoted(column.name)} {duckdb_type(column.type, temporal_text)}" for column in columns)


def told_apart(column: Column, name: str) -> str:
    """Return SQL, for the values `name` of a column, that is equal only where a server shows the same.

    DuckDB takes 0.0 and -0.0 for one.
    """
    return f"CAST({name} AS VARCHAR)" if column.type.name in ("float", "double") else name


def for_duckdb(array: Any) -> Any:
    """Convert an array for DuckDB: decimals of more than 38 digits become text."""
    if not pa.types.is_decimal256(array.type):
        return array
    return pa.array([None if value is None else format(value, "f") for value in array.to_pylist()], pa.string())
