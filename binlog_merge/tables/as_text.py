"""Values of a DuckDB file and the texts that a server shows of them: SQL from one to the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from binlog_merge.tables.types import duckdb_type, quoted
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import OPAQUE, Family


def in_duckdb(column: Column, prefix: str = "") -> str:
    """Return the SQL expression in a DuckDB file from which a column's text is made."""
    name, kind = prefix + quoted(column.name), column.type.family
    if kind is Family.VECTOR:
        return name
    if kind in OPAQUE:
        return f"hex({name})"
    if kind is Family.FLOAT:
        return f"CAST({name} AS DOUBLE) + 0"
    if kind is Family.DECIMAL and column.type.length == column.type.decimals:
        return f"regexp_replace(CAST({name} AS VARCHAR), '^(-?)\\.', '\\10.')"  # DuckDB writes no 0 there
    return f"CAST({name} AS VARCHAR)"


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
