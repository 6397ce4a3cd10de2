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

import numpy as np
import pyarrow as pa

from binlog_merge.values.types import forms_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import OPAQUE, TEMPORAL, ColumnType, Family

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


def qualified(*names: str) -> str:
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


def in_duckdb(column: Column, prefix: str = "") -> str:
    """Return the SQL expression in a DuckDB file from which a column's text is made."""
    name, kind = prefix + quoted(column.name), column.type.family
    if kind is Family.VECTOR:
        return name
    if kind in OPAQUE:
        return f"hex({name})"
    if kind is Family.FLOAT:
        return f"CAST({name} AS DOUBLE) + 0"
    return number_text(column.type, name) if kind is Family.DECIMAL else f"CAST({name} AS VARCHAR)"


def number_text(kind: ColumnType, name: str) -> str:
    """Return the SQL of the text of an integer or DECIMAL, without ZEROFILL's zeros; `name` is the value's SQL."""
    text = f"CAST({name} AS VARCHAR)"
    if kind.family is Family.DECIMAL and kind.length == kind.decimals:
        return f"regexp_replace({text}, '^(-?)\\.', '\\10.')"  # DuckDB writes no 0 there
    return text


def moment_text(name: str, fsp: int) -> str:
    """Return the SQL of MySQL's text of a TIMESTAMP of DuckDB's, with the digits of a second that the column has."""
    return f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')[:{20 + fsp if fsp else 19}]"


def time_text(name: str, fsp: int) -> str:
    """Return the SQL of MySQL's text of an INTERVAL of DuckDB's, with the digits of a second that the column has."""
    micros = f"abs(epoch_us({name}))"
    sign = f"CASE WHEN epoch_us({name}) < 0 THEN '-' ELSE '' END"
    parts = f"{micros} // 3600000000, {micros} // 60000000 % 60, {micros} // 1000000 % 60"
    text = f"{sign} || printf('%02d:%02d:%02d', {parts})"
    if fsp:
        text += f" || printf('.%0{fsp}d', {micros} % 1000000 // {10 ** (6 - fsp)})"
    return f"({text})"


def text_array(column: Column, texts: Sequence[str | None]) -> Any:
    """Return the Arrow array of a column's texts, from which `of_text` makes values."""
    if column.type.family is not Family.VECTOR:
        return pa.array(texts, pa.string())
    values = [None if text is None else np.frombuffer(bytes.fromhex(text), "<f4") for text in texts]
    return pa.array(values, pa.list_(pa.float32()))


def of_text(column: Column, name: str, temporal_text: bool) -> str:
    """Return SQL that makes a column's value of its text, which the column `name` has.

    The text of a FLOAT or DOUBLE is a JSON array with the number, or with null.
    """
    kind, to = column.type.family, duckdb_type(column.type, temporal_text)
    if kind is Family.VECTOR:
        return name
    if kind in OPAQUE:
        return f"unhex({name})"
    if kind is Family.FLOAT:
        return f"CAST(CAST(nullif(trim({name}, '[]'), 'null') AS DOUBLE) AS {to})"
    return f"CAST({name} AS {to})"
