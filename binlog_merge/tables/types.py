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

from binlog_merge.values.types import forms_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import TEMPORAL, ColumnType, Family

BY_HAND: Final = "do the same to the DuckDB table by hand, and run the replay again with --skip"
CATALOG: Final = "replay target"
"""The name under which the file is attached."""


def duckdb_type(kind: ColumnType, temporal_text: bool = False) -> str:
    """Return the DuckDB type of a column. Raises UnsupportedInput."""
    if kind.family is Family.DECIMAL:
        precision, scale = kind.length or 10, kind.decimals or 0
        return f"DECIMAL({precision},{scale})" if precision <= 38 else "VARCHAR"
    if temporal_text and kind.family in TEMPORAL:
        return "VARCHAR"
    sign = "U" if kind.unsigned and kind.family is Family.INTEGER else ""
    return sign + forms_of(kind, "in DuckDB").duckdb


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
    return f"CAST({name} AS VARCHAR)" if column.type.family is Family.FLOAT else name


def for_duckdb(array: Any) -> Any:
    """Convert an array for DuckDB: decimals of more than 38 digits become text."""
    if not pa.types.is_decimal256(array.type):
        return array
    return pa.array([None if value is None else format(value, "f") for value in array.to_pylist()], pa.string())
