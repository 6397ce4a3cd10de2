"""The order of column types: a type is greater than another if it accepts the other's values. And product order, by
which what has several parts is compared.

The rules are those of DM's schemacmp (`pingcap/tidb` pkg/util/schemacmp), which compares fewer types than MySQL
could: VARCHAR and TEXT, INT and DECIMAL, signed and unsigned are incomparable. Where it has no rule (geometry, FLOAT
without digits and with), a comment gives the rule used here.

A table is less than or equal to another if each of its parts is. If one part accepts less and another accepts more, or
if two parts cannot be compared, the tables cannot be compared either.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from snapshot_store.errors import SnapshotStoreError
from snapshot_store.mysql.column_type import AS_CHARACTERS, ColumnType, Family

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
