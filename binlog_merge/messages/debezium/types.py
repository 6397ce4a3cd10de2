"""How Debezium's MySQL connector shows each type: a schema of Kafka Connect, and values as JSON.

Source: the manual's "Data type mappings" and BinlogValueConverters of Debezium 3.6, held by a recording of it
(tests/messages/recorded). A date of which month or day is zero has no value there: it is null, or the epoch in a
column that is NOT NULL; so is, with `connect` and `isostring`, a TIME outside of a day.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.errors import CellValueError
from binlog_merge.messages import json_text as j
from binlog_merge.messages.debezium.options import DebeziumOptions
from binlog_merge.values.types import forms_of, unsupported
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType, Family

Values = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's schema without its name, whether and what it defaults to, and its values as JSON.

    `values` turns the column's Arrow array into JSON texts; `epoch` is the text of a zero date where NULL is not
    allowed.
    """

    schema: dict[str, Any]
    values: Values
    epoch: str | None = None


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a schema of a logical type."""
    return {"type": kind, "name": name, "version": 1, **more}


def kind_of(column: Column, options: DebeziumOptions) -> Kind:
    """Return how a column is shown. Raises UnsupportedInput."""
    type_ = column.type
    forms = forms_of(type_, "of Debezium")
    match type_.family:
        case Family.INTEGER if type_.unsigned and type_.name == "bigint":
            return _unsigned_bigint(options)
        case Family.INTEGER:
            return Kind({"type": forms.connect[type_.unsigned]}, j.numbers)
        case Family.FLOAT:
            return Kind({"type": type_.name}, j.floats)
        case Family.DECIMAL:
            return _decimal(type_.length or 10, type_.decimals or 0, options)
        case Family.BIT:
            return _bit(type_.length or 1)
        case Family.YEAR:
            return Kind(named("int32", "io.debezium.time.Year"), _years)
        case Family.DATE:
            return Kind(*dates(options.time))
        case Family.TIME:
            return Kind(*times(type_.fsp, options.time))
        case Family.MOMENT:
            zoned = type_.name == "timestamp"
            return Kind(*(timestamps(type_.fsp) if zoned else datetimes(type_.fsp, options.time)))
        case Family.ENUM | Family.SET:
            return _members(type_)
        case Family.JSON:
            return Kind(named("string", "io.debezium.data.Json"), j.quoted)
        case Family.VECTOR:
            items = {"type": "float", "optional": False}
            schema = {"type": "array", "items": items, "name": "io.debezium.data.FloatVector", "version": 1}
            return Kind(schema, _vectors)
        case Family.GEOMETRY:
            point = type_.name == "point"
            return Kind(_SHAPE_SCHEMAS["point" if point else "geometry"], _points if point else _shapes)
        case Family.BYTES:
            return _bytes(type_.length if type_.name == "binary" else None, options)
        case Family.TEXT:
            return Kind({"type": "string"}, j.quoted)
    raise unsupported(type_, "of Debezium")


def _members(type_: ColumnType) -> Kind:
    # A comma in a member is escaped, as EnumeratedValues does it.
    allowed = ",".join(member.replace(",", "\\,") for member in type_.members)
    enum = type_.family is Family.ENUM
    logical = "io.debezium.data.Enum" if enum else "io.debezium.data.EnumSet"
    schema = named("string", logical, parameters={"allowed": allowed})
    # So is the comma in an ENUM's value; a SET's members have none.
    commas = enum and "\\," in allowed
    return Kind(schema, (lambda array: j.quoted(pc.replace_substring(array, ",", "\\,"))) if commas else j.quoted)


def _unsigned_bigint(options: DebeziumOptions) -> Kind:
    if options.bigint_unsigned == "long":
        # Java has no unsigned long: what exceeds 2^63 - 1 comes out negative.
        return Kind({"type": "int64"}, lambda array: j.numbers(array.view(pa.int64())))
    schema = named(
        "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "0", "connect.decimal.precision": "20"}
    )
    return Kind(schema, lambda array: j.base64(j.unscaled(pc.cast(array, pa.decimal128(20, 0)))))


def _decimal(precision: int, scale: int, options: DebeziumOptions) -> Kind:
    if options.decimal == "string":
        return Kind({"type": "string"}, lambda array: j.quoted(j.plain_decimals(array)))
    if options.decimal == "double":
        return Kind({"type": "double"}, _doubles)
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    schema = named("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)
    return Kind(schema, lambda array: j.base64(j.unscaled(array)))


def _doubles(array: Any) -> Any:
    return j.floats(pa.array([None if v is None else float(v) for v in array.to_pylist()], pa.float64()))


def _bit(length: int) -> Kind:
    if length == 1:
        return Kind({"type": "boolean"}, lambda array: pc.cast(pc.not_equal(array, 0), pa.string()))
    size = (length + 7) // 8

    def values(array: Any) -> Any:
        numbers = np.frombuffer(array.buffers()[1], "<u8")[array.offset : array.offset + len(array)]
        cells = np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 8)[:, :size])
        found = pa.Array.from_buffers(pa.binary(size), len(array), [None, pa.py_buffer(cells)])
        found = pc.if_else(array.is_valid(), found, pa.scalar(None, found.type))
        return j.base64(pc.cast(found, pa.binary()))

    return Kind(named("bytes", "io.debezium.data.Bits", parameters={"length": str(length)}), values)


def _years(array: Any) -> Any:
    """Return years; the client adds 1900 to what the log has of them, and so makes 1900 of 0000."""
    return j.numbers(pc.if_else(pc.equal(array, 0), pa.scalar(1900, array.type), array))


def _bytes(length: int | None, options: DebeziumOptions) -> Kind:
    schema = {"type": "bytes" if options.binary == "bytes" else "string"}
    show: Values = {
        "bytes": j.base64,
        "base64": j.base64,
        "base64-url-safe": lambda array: j.base64(array, j.BASE64_URL),
        "hex": j.hexed,
    }[options.binary]
    if length is None:
        return Kind(schema, show)
    return Kind(schema, lambda array: show(_padded(array, length)))


def _padded(array: Any, length: int) -> Any:
    """Return BINARY values with the zero bytes that the log leaves out at their ends."""
    if pc.min(pc.binary_length(array)).as_py() in (None, length):
        return array
    return pa.array([None if v is None else v.ljust(length, b"\0") for v in array.to_pylist()], pa.binary())


def _vectors(array: Any) -> Any:
    texts = j.floats(array.flatten())
    lists = pa.ListArray.from_arrays(_offsets(array), pc.cast(texts, pa.string()))
    whole = j.joined(["[", pc.binary_join(lists, ","), "]"])
    return pc.if_else(array.is_valid(), whole, pa.scalar(None, whole.type))


def _offsets(array: Any) -> Any:
    return pc.subtract(array.offsets, array.offsets[0]) if array.offset else array.offsets


def _shape_schema(name: str, doc: str, *first: dict[str, Any]) -> dict[str, Any]:
    fields = [*first, {"type": "bytes", "optional": bool(first), "field": "wkb"}]
    fields.append({"type": "int32", "optional": True, "field": "srid"})
    return {"type": "struct", "fields": fields, "name": name, "version": 1, "doc": doc}


_SHAPE_SCHEMAS: Final = {
    "geometry": _shape_schema("io.debezium.data.geometry.Geometry", "Geometry"),
    "point": _shape_schema(
        "io.debezium.data.geometry.Point",
        "Geometry (POINT)",
        {"type": "double", "optional": False, "field": "x"},
        {"type": "double", "optional": False, "field": "y"},
    ),
}


def _shapes(array: Any) -> Any:
    return _parts_of_shapes(array, [])


def _points(array: Any) -> Any:
    points: list[tuple[float, float] | None] = []
    for value in array.to_pylist():
        points.append(None if value is None else tuple(np.frombuffer(value[9:25], "<f8").tolist()))
    x, y = (pa.array([None if v is None else v[i] for v in points], pa.float64()) for i in (0, 1))
    return _parts_of_shapes(array, ['"x":', j.floats(x), ',"y":', j.floats(y), ","])


def _parts_of_shapes(array: Any, first: list[Any]) -> Any:
    cells = array.to_pylist()
    srids = pa.array(
        [None if v is None or not any(v[:4]) else int.from_bytes(v[:4], "little") for v in cells], pa.int64()
    )
    wkb = pa.array([None if v is None else v[4:] for v in cells], pa.large_binary())
    whole = j.joined(["{", *first, '"wkb":', j.base64(wkb), ',"srid":', j.numbers(srids), "}"])
    return pc.if_else(array.is_valid(), whole, pa.scalar(None, whole.type))


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
