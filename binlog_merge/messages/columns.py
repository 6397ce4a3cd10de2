"""A column's values for a format, and objects of some of a row's columns."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.messages import json_text as j
from binlog_merge.messages.rows import TableRows
from snapshot_store.mysql.column_type import TEMPORAL


def typed(rows: TableRows, side: int, place: int) -> tuple[Any, Any]:
    """Return a column in Arrow's types, and a mask of values that those do not have (0000-00-00), or None.

    Such a value is null in the array. Raises ConversionFailed for cells that are damaged.
    """
    try:
        return rows.column(side, place), None
    except CellValueError:
        if rows.table.columns[place].type.family not in TEMPORAL:
            raise
    texts = rows.column(side, place, temporal_text=True).to_pylist()
    kind = rows.facts(place).type
    wrong = np.array([text is not None and _beyond(text) for text in texts], bool)
    values = [None if text is None or beyond else text for text, beyond in zip(texts, wrong, strict=True)]
    moments = np.array(
        [np.datetime64("NaT") if v is None else np.datetime64(v.replace(" ", "T")) for v in values], "datetime64[us]"
    )
    array = pa.array(moments, pa.timestamp("us"))
    if pa.types.is_date(kind):
        return array.cast(pa.date32()), wrong
    return array, wrong


def _beyond(text: str) -> bool:
    """Return whether a date has a month or a day of zero."""
    return text[5:7] == "00" or text[8:10] == "00"


def guarded(rows: TableRows, make: Callable[[], Any]) -> Any:
    """Return what `make` returns; errors of values say where the rows are. Raises ConversionFailed."""
    try:
        return make()
    except (CellValueError, BinlogFormatError) as error:
        raise rows.failed(error) from None


def sparse(rows: TableRows, arrays: Sequence[Any]) -> Any:
    """Return a JSON object for each row with the columns whose cells before and after differ."""
    parts: list[Any] = []
    for name, place, array in zip(rows.names, rows.places, arrays, strict=True):
        pair = j.joined([f",{j.literal(name)}:", array])
        parts.append(pc.if_else(pa.array(rows.changed(place)), pair, ""))
    return j.joined(["{", pc.utf8_slice_codeunits(j.joined(parts), 1), "}"])


def row_keys(rows: TableRows, arrays: Sequence[Any]) -> Any:
    """Return the primary key of each row as a JSON object; null in a table without one, or without its columns."""
    places = [rows.places.index(place) for place in rows.key_places if place in rows.places]
    if not places or len(places) < len(rows.key_places):
        return pa.nulls(len(rows), pa.large_string())
    return j.objects([rows.names[place] for place in places], [arrays[place] for place in places])
