"""Compares the rows of two sides: table by table, bucket by bucket, and row by row in buckets that differ."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from binlog_merge.verification.compare_sides import Compared, Side, Sums, Texts, bucket_of
from snapshot_store.model import Table

_BUCKETS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that differs; `key` are the texts of its key, `columns` those that differ, with the texts of both sides.

    `left` and `right` are the numbers of such rows on either side.
    """

    key: dict[str, str | None]
    left: int
    right: int
    columns: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        columns = {name: list(texts) for name, texts in self.columns.items()}
        return {"key": self.key, "left": self.left, "right": self.right, "columns": columns}


@dataclass(frozen=True, slots=True)
class Known:
    """What the left side knows of a table that it knows only in part.

    `touched` are the keys that it knows: rows of these that it does not have must not exist. `unsaid` are the columns,
    in lower case, whose values it does not know, by key; None: all but the key. `note` is what is not compared.
    """

    touched: frozenset[Texts] = frozenset()
    unsaid: Mapping[Texts, frozenset[str] | None] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The result for a table: (rows, checksum) of both sides, and the first rows that differ.

    `problem` is why the rows could not be compared; `unjudged`: the problem is not a known fault. `partly`: the left
    side does not know all rows; `unnamed` is the number of rows on the right that it does not know, `unsaid` that of
    rows of which it does not know all columns, and `note` what else is not compared.
    """

    name: str
    left: tuple[int, int] = (0, 0)
    right: tuple[int, int] = (0, 0)
    different: bool = False
    rows: tuple[RowDifference, ...] = ()
    problem: str = ""
    unjudged: bool = False
    partly: bool = False
    unnamed: int = 0
    unsaid: int = 0
    note: str = ""

    @property
    def same(self) -> bool:
        """Return whether both sides hold the same rows, as far as the left side can know."""
        return not self.problem and not self.different

    @property
    def whole(self) -> bool:
        """Return whether everything was compared."""
        return not self.unjudged and not self.partly

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; checksums as eight hexadecimal digits."""
        sides = {
            side: {"rows": count, "checksum": f"{xor:08x}"}
            for side, (count, xor) in (("left", self.left), ("right", self.right))
        }
        problem = {"problem": self.problem} if self.problem else {}
        known: dict[str, Any] = {"unjudged": True} if self.unjudged else {}
        if self.partly:
            known = {"partly": True, "unnamed": self.unnamed, "unsaid": self.unsaid}
            known |= {"note": self.note} if self.note else {}
        rows = [row.to_dict() for row in self.rows]
        return {"same": self.same, **sides, **problem, **known, "differences": rows}


def compare_tables(
    tables: Iterable[Table],
    left: Side,
    right: Side,
    most_rows: int,
    columns: Any = None,
    known: Callable[[Compared], Known | None] = lambda compared: None,
) -> list[TableComparison]:
    """Compare tables; `columns` returns the columns of a table on the right side, in lower case.

    `known` returns what the left side knows of a table; None: everything.
    """
    return [_compare(table, left, right, most_rows, columns, known) for table in tables]


def _compare(
    table: Table,
    left: Side,
    right: Side,
    most_rows: int,
    columns: Any,
    known: Callable[[Compared], Known | None],
) -> TableComparison:
    name = f"{table.schema}.{table.name}"
    if not right.has(table):
        return TableComparison(name, problem="it is not on the server")
    if not left.has(table):
        return TableComparison(name, problem="the log does not have it")
    if columns is not None:
        missing = [c.name for c in table.columns if c.name.lower() not in columns(table)]
        if missing:
            return TableComparison(name, problem=f"the server has no column {', '.join(missing)}")
    compared = Compared.of(table)
    ours, theirs = left.sums(compared), right.sums(compared)
    different = sorted(b for b in ours.keys() | theirs.keys() if ours.get(b) != theirs.get(b))
    totals, partial = (_total(ours), _total(theirs)), known(compared)
    if partial is None:
        rows = islice(_rows(compared, left, right, different), most_rows)
        return TableComparison(name, *totals, bool(different), tuple(rows))
    heard_of = ours.keys() | {bucket_of(key) for key in partial.touched}
    unnamed = sum(theirs[b][0] - ours.get(b, (0, 0))[0] for b in different if b not in heard_of)
    shown, wrong = list[RowDifference](), 0
    for row in _rows(compared, left, right, [b for b in different if b in heard_of]):
        judged, stray = _judged(row, compared, partial)
        unnamed += stray
        wrong += judged is not None
        if judged is not None and len(shown) < most_rows:
            shown.append(judged)
    return TableComparison(
        name,
        *totals,
        wrong > 0,
        tuple(shown),
        partly=True,
        unnamed=unnamed,
        unsaid=len(partial.unsaid),
        note=partial.note,
    )


def _judged(row: RowDifference, compared: Compared, known: Known) -> tuple[RowDifference | None, int]:
    """Return the part of a difference that is certain, or None, and the number of rows of which nothing is known."""
    key = tuple(row.key.values())
    if not compared.keyed:
        return (row, 0) if row.right < row.left else (None, row.right - row.left)
    if row.left == 0:
        return (row, 0) if key in known.touched else (None, row.right)
    if row.right != row.left or key not in known.unsaid:
        return row, 0
    unsaid = known.unsaid[key]
    columns = {name: texts for name, texts in row.columns.items() if unsaid is not None and name.lower() not in unsaid}
    return (replace(row, columns=columns) if columns else None), 0


def _total(sums: Sums) -> tuple[int, int]:
    count, xor = 0, 0
    for rows, checksum in sums.values():
        count, xor = count + rows, xor ^ checksum
    return count, xor


def _rows(compared: Compared, left: Side, right: Side, buckets: Sequence[int]) -> Iterator[RowDifference]:
    for first in range(0, len(buckets), _BUCKETS_AT_ONCE):
        chosen = buckets[first : first + _BUCKETS_AT_ONCE]
        ours, theirs = (_by_key(compared, side.rows(compared, chosen)) for side in (left, right))
        for key in sorted(ours.keys() | theirs.keys(), key=repr):
            one, two = ours.get(key, Counter()), theirs.get(key, Counter())
            if one != two:
                yield _difference(compared, key, one, two)


def _by_key(compared: Compared, rows: Iterable[Texts]) -> dict[Texts, Counter[Texts]]:
    found: dict[Texts, Counter[Texts]] = {}
    for row in rows:
        found.setdefault(tuple(row[c] for c in compared.key), Counter())[row] += 1
    return found


def _difference(compared: Compared, key: Texts, one: Counter[Texts], two: Counter[Texts]) -> RowDifference:
    names = [column.name for column in compared.table.columns]
    shown = {names[c]: text for c, text in zip(compared.key, key, strict=True)}
    columns = {}
    if one and two:
        a, b = next(iter(one - two), next(iter(one))), next(iter(two - one), next(iter(two)))
        columns = {n: (x, y) for n, x, y in zip(names, a, b, strict=True) if x != y}
    return RowDifference(shown, one.total(), two.total(), columns)
