"""The columns of a table over its versions as one Arrow struct: by name, each with a type that holds every value.

| types | become |
|---|---|
| integers | the narrowest integer that holds both; `decimal128(20, 0)` for BIGINT UNSIGNED and a signed one |
| decimals, integers | a decimal with the digits of both |
| float, double, and integers or decimals that a double holds exactly | double |
| date, timestamp | timestamp |
| text, binary | binary, the text in UTF-8 |
| anything else | string: the value's text |

The columns are those of the latest version, in its order, and then those that only earlier versions have.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import ColumnFacts
from binlog_merge.binlog.temporal import STOP, ZeroDates
from binlog_merge.errors import ConfigError, ConversionFailed
from binlog_merge.values.types import facts_of
from snapshot_store.model import Table

_MOST_DIGITS: Final = 76
_DOUBLE_DIGITS: Final = 15
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_SIGNED: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of `before` and `after`: names as the latest version writes them, and Arrow types."""

    names: tuple[str, ...]
    types: tuple[Any, ...]

    @property
    def struct(self) -> Any:
        """Return the type of `before` and `after`."""
        return pa.struct([pa.field(name, kind) for name, kind in zip(self.names, self.types, strict=True)])

    def only(self, columns: Sequence[str], option: str) -> "Shape":
        """Return the shape of some columns, in the order given. Raises ConfigError for one that is not there."""
        places = {name.lower(): place for place, name in enumerate(self.names)}
        for name in columns:
            if name.lower() not in places:
                raise ConfigError(f"{option}: there is no column {name}; there are {', '.join(self.names)[:300]}")
        chosen = list(dict.fromkeys(places[name.lower()] for name in columns))
        if not chosen:
            raise ConfigError(f"{option} names no column")
        return Shape(tuple(self.names[i] for i in chosen), tuple(self.types[i] for i in chosen))


def shape_of(tables: Iterable[Table], temporal_text: bool = False, zero_dates: ZeroDates = STOP) -> Shape:
    """Return the shape of a table over its versions, the latest of which is the last one."""
    names: dict[str, str] = {}
    types: dict[str, Any] = {}
    for table in reversed(tuple(tables)):
        for facts in facts_of(table, temporal_text, zero_dates=zero_dates):
            key = facts.name.lower()
            names.setdefault(key, facts.name)
            types[key] = facts.type if key not in types else wider(types[key], facts.type)
    return Shape(tuple(names.values()), tuple(types[key] for key in names))


def wider(one: Any, two: Any) -> Any:
    """Return the narrowest type that holds every value of both."""
    if one.equals(two):
        return one
    if pa.types.is_null(one) or pa.types.is_null(two):
        return two if pa.types.is_null(one) else one
    if pa.types.is_integer(one) and pa.types.is_integer(two):
        return _wider_integer(one, two)
    if _is_exact(one) and _is_exact(two):
        return _wider_decimal(one, two)
    if (pa.types.is_floating(one) or pa.types.is_floating(two)) and _in_double(one) and _in_double(two):
        return pa.float64()
    kinds = {str(one), str(two)}
    if kinds == {"date32[day]", "timestamp[us]"}:
        return pa.timestamp("us")
    if kinds == {"string", "binary"}:
        return pa.binary()
    return pa.string()


def _is_exact(kind: Any) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_decimal(kind)


def _wider_integer(one: Any, two: Any) -> Any:
    signs = pa.types.is_signed_integer(one), pa.types.is_signed_integer(two)
    if signs[0] == signs[1]:
        return one if one.bit_width >= two.bit_width else two
    signed, unsigned = (one, two) if signs[0] else (two, one)
    width = max(signed.bit_width, 2 * unsigned.bit_width)
    return _SIGNED[width] if width <= 64 else pa.decimal128(20, 0)


def _whole_digits(kind: Any) -> tuple[int, int]:
    """Return how many digits a type has before and after the point."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (20 if kind.equals(pa.uint64()) else _DIGITS[kind.bit_width]), 0


def _wider_decimal(one: Any, two: Any) -> Any:
    (whole, scale), (other, others) = _whole_digits(one), _whole_digits(two)
    scale = max(scale, others)
    digits = max(whole, other) + scale
    if digits > _MOST_DIGITS:
        return pa.string()
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _in_double(kind: Any) -> bool:
    if pa.types.is_floating(kind):
        return True
    # A fraction has no exact double, whatever its digits.
    return _is_exact(kind) and _whole_digits(kind)[1] == 0 and _whole_digits(kind)[0] <= _DOUBLE_DIGITS


def fitted(array: Any, kind: Any, facts: ColumnFacts) -> Any:
    """Return the values of a column in another type. Raises ConversionFailed for one that it does not hold."""
    if array.type.equals(kind):
        return array
    try:
        if pa.types.is_string(kind) and pa.types.is_decimal(array.type):
            # Arrow writes 0E-8.
            return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], kind)
        if pa.types.is_string(kind) and pa.types.is_binary(array.type):
            return pa.array([None if v is None else f"0x{v.hex()}" for v in array.to_pylist()], kind)
        if pa.types.is_string(kind) and pa.types.is_list(array.type):
            return pa.array([None if v is None else str(v) for v in array.to_pylist()], kind)
        if pa.types.is_string(kind) and pa.types.is_duration(array.type):
            from binlog_merge.binlog.temporal import time_text

            return pa.array([None if v is None else time_text(v, 6) for v in array.to_pylist()], kind)
        if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
            # Arrow asks for room for every digit of the integer's type.
            return pc.cast(pc.cast(array, pa.decimal256(_MOST_DIGITS - 40, 0)), kind)
        cast = pc.cast(array, kind)
        if not wider(array.type, kind).equals(kind) and not pc.cast(cast, array.type).equals(array):
            raise pa.ArrowInvalid(f"{kind} does not hold every value of {array.type} here")
        return cast
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConversionFailed(
            f"column {facts.name}: {str(error).splitlines()[0]}",
            remedy="leave as_of out, or begin a stream again: the columns then have types that hold the values of all "
            "versions",
        ) from None
