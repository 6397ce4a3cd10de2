"""Dates and times as Debezium shows them: a schema, a function to JSON, and what a NOT NULL zero date becomes.

The arrays are Arrow's date32, timestamp[us] and duration[us].
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.errors import CellValueError
from binlog_merge.messages import json_text as j

Shown = tuple[dict[str, Any], Callable[[Any], Any], str]
_DAY_US = 86_400_000_000


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "version": 1}


def dates(mode: str) -> Shown:
    """Return how DATE is shown."""
    if mode == "isostring":
        schema = _named("string", "io.debezium.time.IsoDate")
        return schema, _iso_dates, '"1970-01-01Z"'
    name = "org.apache.kafka.connect.data.Date" if mode == "connect" else "io.debezium.time.Date"
    return _named("int32", name), lambda array: j.numbers(pc.cast(array, pa.int32())), "0"


def _iso_dates(array: Any) -> Any:
    return j.quoted(pc.strftime(array, "%Y-%m-%dZ"))


def times(fsp: int, mode: str) -> Shown:
    """Return how TIME is shown."""
    if mode == "isostring":
        return _named("string", "io.debezium.time.IsoTime"), _iso_times, '"00:00:00Z"'
    if mode == "connect":
        return (
            _named("int32", "org.apache.kafka.connect.data.Time"),
            lambda array: _scaled(_in_a_day(array), -1000),
            "0",
        )
    if mode == "nanoseconds":
        return _named("int64", "io.debezium.time.NanoTime"), lambda array: _scaled(array, 1000), "0"
    return _named("int64", "io.debezium.time.MicroTime"), lambda array: _scaled(array, 1), "0"


def datetimes(fsp: int, mode: str) -> Shown:
    """Return how DATETIME is shown."""
    if mode == "isostring":
        schema = _named("string", "io.debezium.time.IsoTimestamp")
        return schema, lambda array: _iso(array, None), '"1970-01-01T00:00:00Z"'
    if mode == "connect":
        return _named("int64", "org.apache.kafka.connect.data.Timestamp"), lambda array: _scaled(array, -1000), "0"
    if mode == "nanoseconds":
        return _named("int64", "io.debezium.time.NanoTimestamp"), lambda array: _scaled(array, 1000), "0"
    if mode == "microseconds" or fsp > 3:
        return _named("int64", "io.debezium.time.MicroTimestamp"), lambda array: _scaled(array, 1), "0"
    return _named("int64", "io.debezium.time.Timestamp"), lambda array: _scaled(array, -1000), "0"


def timestamps(fsp: int) -> Shown:
    """Return how TIMESTAMP is shown: in UTC, with all digits of its fraction."""
    return _named("string", "io.debezium.time.ZonedTimestamp"), lambda array: _iso(array, fsp), '"1970-01-01T00:00:00Z"'


def _scaled(array: Any, factor: int) -> Any:
    """Return numbers of µs, times a factor or (negative) by a divisor, rounded down."""
    micros = pc.cast(array, pa.int64())
    if factor == 1:
        return j.numbers(micros)
    if factor > 0:
        try:
            return j.numbers(pc.multiply_checked(micros, factor))
        except pa.ArrowInvalid:
            raise CellValueError(
                "a time has no nanoseconds in 64 bits; time.precision.mode=microseconds has it"
            ) from None
    values = np.asarray(micros.fill_null(0)) // -factor
    return j.numbers(pa.array(values, pa.int64(), mask=np.asarray(micros.is_null())))


def _in_a_day(array: Any) -> Any:
    """Return durations, null where they are not a time of a day: Debezium has none for them."""
    micros = pc.cast(array, pa.int64())
    inside = pc.and_(pc.greater_equal(micros, 0), pc.less(micros, _DAY_US))
    return pc.if_else(inside, micros, pa.scalar(None, pa.int64()))


def _iso_times(array: Any) -> Any:
    return _iso(pc.cast(_in_a_day(array), pa.timestamp("us")), None, "%H:%M:%S")


def _iso(array: Any, digits: int | None, form: str = "%Y-%m-%dT%H:%M:%S") -> Any:
    """Return times as ISO 8601 with Z; with `digits` of their fraction, or as many as it needs."""
    micros = pc.cast(array, pa.int64())
    seconds = pc.strftime(
        pc.cast(pc.floor_temporal(pc.cast(micros, pa.timestamp("us")), unit="second"), pa.timestamp("s")), form
    )
    valid = array.is_valid()
    if digits == 0:
        whole = j.joined(['"', seconds, 'Z"'])
    else:
        rest = np.asarray(micros.fill_null(0)) % 1_000_000
        if digits is None and not rest.any():
            whole = j.joined(['"', seconds, 'Z"'])
        else:
            fractions = pc.utf8_lpad(pc.cast(pa.array(rest), pa.string()), 6, "0")
            if digits is not None:
                fractions = pc.utf8_slice_codeunits(fractions, 0, digits)
                whole = j.joined(['"', seconds, ".", fractions, 'Z"'])
            else:
                trimmed = pc.utf8_rtrim(fractions, "0")
                point = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), "", ".")
                whole = j.joined(['"', seconds, point, trimmed, 'Z"'])
    return pc.if_else(valid, whole, pa.scalar(None, whole.type))
