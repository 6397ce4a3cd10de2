"""Values of a DuckDB file and the texts that a server shows of them: SQL from one to the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from binlog_merge.tables.types import duckdb_type, quoted
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import OPAQUE, ColumnType, Family


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
