"""The values of a batch's columns as plain Python values, as text, and as SQL, by their Arrow types."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from snapshot_store.mysql.sql.names import quote_string

Plain = Callable[[Any], Any]
_LONGEST: Final = 60


def float_text(value: float, single: bool) -> str:
    """Return the shortest text that is this number again, of a FLOAT (`single`) or a DOUBLE."""
    return str(np.float32(value)) if single else repr(value)


def plain_of(kind: Any) -> Plain:
    """Return a function from a column's values to what JSON has.

    Decimals and bytes (0x…) become strings, integers stay numbers of all their digits, a vector is a list.
    """
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_binary(kind):
        return lambda value: "0x" + value.hex()
    if pa.types.is_float32(kind):
        return lambda value: float(float_text(value, True))
    if pa.types.is_list(kind):
        return lambda value: [float(float_text(item, True)) for item in value]
    if pa.types.is_temporal(kind):
        return str
    return lambda value: value


def literal_of(kind: Any) -> Callable[[Any], str]:
    """Return a function from a column's values to literals of MySQL's SQL; dates and times are text there."""
    if pa.types.is_binary(kind):
        return lambda value: f"0x{value.hex()}" if value else "''"
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_floating(kind):
        single = pa.types.is_float32(kind)
        return lambda value: float_text(value, single)
    if pa.types.is_integer(kind):
        return str
    if pa.types.is_list(kind):
        return lambda value: "0x" + np.array(value, "<f4").tobytes().hex()
    return lambda value: quote_string(str(value))


def shown_of(kind: Any) -> Callable[[Any], str]:
    """Return a function from a column's values to short texts for people."""
    literal = literal_of(kind)
    if pa.types.is_list(kind):
        literal = str

    def shown(value: Any) -> str:
        text = literal(value)
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

    return shown


def image_rows(column: Any, convert: Callable[[Any], Callable[[Any], Any]]) -> Iterator[dict[str, Any] | None]:
    """Yield each row of `before` or `after` by name, its values converted; NULL is None, and so is no row."""
    names = [field.name for field in column.type]
    there = column.is_valid().to_pylist()
    values = []
    for number, field in enumerate(column.type):
        change = convert(field.type)
        values.append([None if v is None else change(v) for v in column.field(number).to_pylist()])
    for number, row in enumerate(zip(*values, strict=True)):
        yield dict(zip(names, row, strict=True)) if there[number] else None
