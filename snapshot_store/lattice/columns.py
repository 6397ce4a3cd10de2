"""The order of columns and of their types: one is greater than another if it accepts every value that the other
accepts.

Besides the type: NULL is greater than NOT NULL, and a default greater than none, since a row may then omit the column.
The default also decides how a table that has the column compares with one that lacks it.

The rules are those of DM's schemacmp (`pingcap/tidb` pkg/util/schemacmp), which compares fewer types than MySQL
could: VARCHAR and TEXT, INT and DECIMAL, signed and unsigned are incomparable. Where it has no rule (geometry, FLOAT
without digits and with), a comment gives the rule used here.

A table is less than or equal to another if each of its parts is. If one part accepts less and another accepts more, or
if two parts cannot be compared, the tables cannot be compared either.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from snapshot_store.diff import _plain_number, plain_text
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Column, Default
from snapshot_store.mysql.column_type import AS_CHARACTERS, NUMERIC, TEMPORAL, ColumnType, Family

Ordering = int | str
"""-1, 0 or 1 if the first accepts less than, the same as, or more than the second; otherwise the reason, as text."""


class Incomparable(SnapshotStoreError):  # noqa: N818 (the name says what happened)
    """Two tables of which neither accepts all rows of the other, or that have no join.

    `part` names the column, index or table option; `reason` begins with DM's wording for the same case.
    """

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}")
        self.part = part
        self.reason = reason

    def __reduce__(self) -> tuple[type["Incomparable"], tuple[str, str]]:
        return (type(self), (self.part, self.reason))


class Comparison(NamedTuple):
    """The result of comparing one aspect of a column, an index or the table's options."""

    part: str
    aspect: str
    verdict: Ordering

    @property
    def sign(self) -> int:
        """Return -1, 0 or 1. Raises Incomparable if the verdict is a reason instead."""
        if isinstance(self.verdict, str):
            raise Incomparable(self.part, f"{self.aspect}: {self.verdict}" if self.aspect else self.verdict)
        return self.verdict

    def __str__(self) -> str:
        return f"{self.part} ({self.aspect})" if self.aspect else self.part


def combine(findings: Iterable[Comparison]) -> int:
    """Return the common sign of all findings, ignoring zeros. Raises Incomparable at the first that contradicts it."""
    decisive: Comparison | None = None
    for finding in findings:
        sign = finding.sign
        if sign == 0:
            continue
        if decisive is None:
            decisive = finding
        elif decisive.sign != sign:
            less, more = (finding, decisive) if sign < 0 else (decisive, finding)
            raise Incomparable(finding.part, f"combining contradicting orders ({less} accepts less, {more} more)")
    return 0 if decisive is None else decisive.sign


def sign_of(a: int, b: int) -> int:
    """Compare two numbers: -1, 0 or 1."""
    return (a > b) - (a < b)


def same(a: Any, b: Any) -> Ordering:
    """Compare unordered values: equal or incomparable."""
    return 0 if a == b else f"distinct singletons ({a} vs {b})"


# FLOAT accepts every value of any FLOAT(M,D).
_UNLIMITED = 1 << 16


@dataclass(frozen=True, slots=True)
class Aspect:
    """An aspect of a type: how to compare it, and how to copy it from the greater type."""

    name: str
    order: Callable[[ColumnType, ColumnType], Ordering]
    take: Callable[[ColumnType, ColumnType], ColumnType]


def compare_types(part: str, a: ColumnType, b: ColumnType) -> list[Comparison]:
    """Compare two types in each aspect."""
    return [Comparison(part, aspect.name, aspect.order(a, b)) for aspect in _ASPECTS]


def join_types(part: str, a: ColumnType, b: ColumnType) -> ColumnType:
    """Return the type that has the greater of each aspect. Raises Incomparable."""
    joined = a
    for aspect in _ASPECTS:
        if Comparison(part, aspect.name, aspect.order(a, b)).sign < 0:
            joined = aspect.take(joined, b)
    if joined.family is Family.INTEGER:
        return _with_width(joined, max(_length(a), _length(b)))
    return joined


def _order_name(a: ColumnType, b: ColumnType) -> Ordering:
    (family, rank), (other, other_rank) = map(_ranked, (a, b))
    return sign_of(rank, other_rank) if family == other else f"incompatible mysql type ({a.name} vs {b.name})"


def _ranked(type: ColumnType) -> tuple[str, int]:
    """Return the types that a type compares with, and its place among them."""
    if type.family is Family.INTEGER:
        return "integer", type.facts.size
    return ("blob", type.facts.counter) if type.is_lob else (AS_CHARACTERS.get(type.name, type.name), 0)


def _order_bytes(a: ColumnType, b: ColumnType) -> Ordering:
    return same(*("bytes" if t.family is Family.BYTES else "characters" for t in (a, b)))


def _length(type: ColumnType) -> int:
    if type.length is not None:
        return type.length
    if type.family is Family.FLOAT:
        return _UNLIMITED
    if type.family is Family.INTEGER:
        return type.facts.shown_width(type.unsigned) if type.display_width is None else type.display_width
    return 0


def _with_width(type: ColumnType, width: int) -> ColumnType:
    if _length(type) == width:
        return type
    if type.zerofill or (type.name == "tinyint" and width == 1 and not type.unsigned):
        return replace(type, length=width, display_width=None)
    return replace(type, length=None, display_width=None if width == type.facts.shown_width(type.unsigned) else width)


def _order_length(a: ColumnType, b: ColumnType) -> Ordering:
    if a.family is Family.DECIMAL:
        return same(a.length, b.length)
    return sign_of(_length(a), _length(b))


def _order_decimals(a: ColumnType, b: ColumnType) -> Ordering:
    if a.family is Family.DECIMAL:
        return same(a.decimals, b.decimals)
    return sign_of(*(_UNLIMITED if t.decimals is None else t.decimals for t in (a, b)))


def _order_members(a: ColumnType, b: ColumnType) -> Ordering:
    for place, (member, other) in enumerate(zip(a.members, b.members, strict=False)):
        if member != other:
            return f"at string list index {place}: distinct values ({member!r} vs {other!r})"
    return sign_of(len(a.members), len(b.members))


def _order_srid(a: ColumnType, b: ColumnType) -> Ordering:
    """Compare SRIDs: a column without one accepts any geometry. DM has no rule for geometry."""
    if a.srid is None or b.srid is None:
        return sign_of(a.srid is None, b.srid is None)
    return same(a.srid, b.srid)


def order_charsets(a: tuple[str | None, str | None], b: tuple[str | None, str | None]) -> Ordering:
    """Compare (character set, collation) pairs: utf8mb4 is greater than utf8mb3 and latin1; others are incomparable.

    The collations must have the same suffix (utf8mb3_bin is less than utf8mb4_bin), or each be the default of its
    character set: MySQL 8 changes utf8mb3_general_ci to utf8mb4_0900_ai_ci when a column's character set changes. The
    second rule is not DM's: TiDB does not need it, since its defaults all end in _bin.
    """
    (charset, collation), (other, other_collation) = a, b
    if charset == other:
        return 0 if collation == other_collation else _apart("collation", collation, other_collation)
    if {charset, other} not in ({"utf8mb4", "utf8mb3"}, {"utf8mb4", "latin1"}):
        return _apart("charset", charset, other)
    pair = (collation or "", other_collation or "")
    if len({name.partition("_")[2] for name in pair}) > 1 and not _DEFAULT_COLLATIONS.issuperset(pair):
        return _apart("collation", collation, other_collation)
    return sign_of(charset == "utf8mb4", other == "utf8mb4")


_DEFAULT_COLLATIONS = frozenset({"latin1_swedish_ci", "utf8mb3_general_ci", "utf8mb4_0900_ai_ci"})


def _apart(what: str, a: str | None, b: str | None) -> str:
    return f"incompatible mysql {what} ({a} vs {b})"


_ASPECTS = (
    Aspect("type", _order_name, lambda joined, b: replace(joined, name=b.name)),
    Aspect("length", _order_length, lambda joined, b: replace(joined, length=b.length)),
    Aspect("decimals", _order_decimals, lambda joined, b: replace(joined, decimals=b.decimals)),
    Aspect("fraction", lambda a, b: sign_of(a.fsp, b.fsp), lambda joined, b: replace(joined, fsp=b.fsp)),
    Aspect("bytes", _order_bytes, lambda joined, b: joined),
    Aspect("unsigned", lambda a, b: same(a.unsigned, b.unsigned), lambda joined, b: joined),
    Aspect("zerofill", lambda a, b: same(a.zerofill, b.zerofill), lambda joined, b: joined),
    Aspect(
        "character set",
        lambda a, b: order_charsets((a.charset, a.collation), (b.charset, b.collation)),
        lambda joined, b: replace(joined, charset=b.charset, collation=b.collation),
    ),
    Aspect("members", _order_members, lambda joined, b: replace(joined, members=b.members)),
    Aspect("SRID", _order_srid, lambda joined, b: replace(joined, srid=b.srid)),
)


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
