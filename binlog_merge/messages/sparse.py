"""Objects with some of a row's columns: those that an update changes, and those of its key."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.messages import json_text as j
from binlog_merge.messages.rows import TableRows


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
