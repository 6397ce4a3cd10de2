"""The order of columns: a column is greater than another if it accepts every value that the other accepts.

Besides the type: NULL is greater than NOT NULL, and a default greater than none, since a row may then omit the column.
The default also decides how a table that has the column compares with one that lacks it.
"""

import re
from dataclasses import replace

from snapshot_store.diff import _plain_number, plain_text
from snapshot_store.lattice.types import Comparison, Incomparable, Ordering, compare_types, join_types, same, sign_of
from snapshot_store.model import Column, Default
from snapshot_store.mysql.column_type import NUMERIC, TEMPORAL, ColumnType, Family

# The implicit default of a NOT NULL column without DEFAULT; an ENUM's is its first member.
_ZEROS = {
    **dict.fromkeys((Family.INTEGER, Family.DECIMAL, Family.FLOAT), "0"),
    **dict.fromkeys((Family.TEXT, Family.BYTES, Family.SET), ""),
    Family.MOMENT: "0000-00-00 00:00:00",
    Family.DATE: "0000-00-00",
    Family.TIME: "00:00:00",
    Family.YEAR: "0000",
    Family.BIT: "b'0'",
    Family.JSON: "null",
}
_FRACTION = re.compile(r"(\.\d*?)0+$")
_QUOTED = re.compile(r"'([^'\\]*)'")

_NONE, _NULL, _AUTO = "no default", "NULL", "AUTO_INCREMENT"


def part_of(column: Column) -> str:
    """Return a column's name as errors give it."""
    return f'column "{column.name}"'


def compare_columns(a: Column, b: Column) -> list[Comparison]:
    """Compare each aspect of two columns of the same name."""
    part = part_of(a)
    return [
        Comparison(part, "default", _order_defaults(a, b)),
        Comparison(part, "generated", _order_generated(a, b)),
        *compare_types(part, a.type, b.type),
        Comparison(part, "on update", same(a.on_update_now, b.on_update_now)),
        Comparison(part, "NULL", sign_of(_nullable(a), _nullable(b))),
    ]


def missing(column: Column) -> Ordering:
    """Compare a table that has this column with one that lacks it and is otherwise equal."""
    return 1 if _default_of(column) != _NONE else "column with no default value cannot be missing"


def join_columns(a: Column, b: Column) -> Column:
    """Return the least column that accepts what either accepts. Raises Incomparable."""
    signs = {finding.aspect: finding.sign for finding in compare_columns(a, b)}
    joined = replace(a, type=join_types(part_of(a), a.type, b.type), invisible=a.invisible and b.invisible)
    if signs["default"] < 0:
        joined = replace(joined, default=b.default, auto_increment=b.auto_increment)
    if signs["NULL"] < 0:
        joined = replace(joined, nullable=True)
    if {_default_of(a), _default_of(b)} != {_NONE} and _default_of(joined) == _NONE:
        # TIMESTAMP NOT NULL counts as having a default; for TIMESTAMP NULL it must be given.
        joined = replace(joined, default=Default("null"))
    return joined


def filled(column: Column) -> Column:
    """Return the column with a default for rows of a table that lacks it: its own, else NULL, else its type's zero.

    Raises Incomparable if the type has no zero.
    """
    if _default_of(column) != _NONE:
        return column
    return replace(column, default=Default("null") if column.nullable else _zero(column))


def _zero(column: Column) -> Default:
    type = column.type
    if type.family is Family.ENUM:
        return Default("literal", type.members[0])
    text = _ZEROS.get(type.family)
    if text is None:
        raise Incomparable(part_of(column), f"column with no default value cannot be missing; {type.name} has no zero")
    if not type.defaults_to_literal:
        return Default("expression", f"'{text}'")
    return Default("literal", f"{text}.{'0' * type.fsp}" if type.fsp else text)


def _nullable(column: Column) -> bool:
    # AUTO_INCREMENT implies NOT NULL, whether or not it is written.
    return column.nullable and not column.auto_increment


def _default_of(column: Column) -> str:
    """Return the value of a row that omits the column, as text: equal values have equal text."""
    default = column.default
    if column.auto_increment:
        return _AUTO
    if column.generated is not None:
        # It never accepts a value, so a row can always omit it.
        return _NULL
    if default is None:
        # TIMESTAMP NOT NULL has had a default of its own for most of MySQL's life (explicit_defaults_for_timestamp).
        return _NULL if column.type.name == "timestamp" and not column.nullable else _NONE
    return _NULL if default.kind == "null" else _value_of(default, column.type)


def _value_of(default: Default, type: ColumnType) -> str:
    if default.kind == "now":
        return "CURRENT_TIMESTAMP"
    text = default.text
    if default.kind == "expression":
        text = plain_text(text)
        literal = _QUOTED.fullmatch(text)
        if literal is None:
            return f"({text})"
        text = literal[1]
    return f"'{_plain_literal(text, type)}'"


def _plain_literal(text: str, type: ColumnType) -> str:
    if type.family in NUMERIC:
        return _plain_number(text)
    if type.family in TEMPORAL:
        return _FRACTION.sub(r"\1", text).rstrip(".")
    if type.family is Family.BYTES:
        data = bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode(errors="surrogateescape")
        # The server pads a BINARY to its length.
        return (data.rstrip(b"\0") if type.name == "binary" else data).hex()
    return text


def _order_defaults(a: Column, b: Column) -> Ordering:
    mine, other = _default_of(a), _default_of(b)
    if mine == other:
        return 0
    for least in (_NONE, _NULL):
        if least in (mine, other) and not (least == _NULL and _AUTO in (mine, other)):
            return -1 if mine == least else 1
    return same(mine, other)


def _order_generated(a: Column, b: Column) -> Ordering:
    return same(*(_generated_text(c) for c in (a, b)))


def _generated_text(column: Column) -> str:
    generated = column.generated
    if generated is None:
        return "not generated"
    return f"{plain_text(generated.expression)} {'STORED' if generated.stored else 'VIRTUAL'}"
