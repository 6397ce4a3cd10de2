"""Whether two sides hold the same rows: table by table, bucket by bucket, then row by row where buckets differ."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from binlog_merge.replay.compare_sides import Compared, Side, Sums, Texts
from snapshot_store.model import Table

_BUCKETS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that differs; `key` are the texts of its key. `columns` are those that differ, with both sides' texts.

    `left` and `right` are how many such rows there are on either side.
    """

    key: dict[str, str | None]
    left: int
    right: int
    columns: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def unnamed(self, compared: Compared) -> int:
        """Return how many rows there are on the right beyond the left, if nothing else differs; 0 if something does."""
        whole = len(compared.key) == len(compared.table.columns)
        return self.right - self.left if self.left == 0 or (whole and self.right > self.left) else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        columns = {name: list(texts) for name, texts in self.columns.items()}
        return {"key": self.key, "left": self.left, "right": self.right, "columns": columns}


@dataclass(frozen=True, slots=True)
class TableComparison:
    """What came of one table: rows and checksums of both sides, and rows that differ, the first so many of them.

    `problem` says why the rows could not be compared; `unjudged`: for no fault that is known. `unnamed` counts rows on
    the right of a table that was there before the left side began, which may be from then; `only_unnamed`: nothing else
    differs.
    """

    name: str
    left: tuple[int, int] = (0, 0)
    right: tuple[int, int] = (0, 0)
    buckets: int = 0
    rows: tuple[RowDifference, ...] = ()
    problem: str = ""
    unjudged: bool = False
    unnamed: int = 0
    only_unnamed: bool = False

    @property
    def same(self) -> bool:
        """Tell whether both sides hold the same rows, as far as the left side can know."""
        return not self.problem and (not self.buckets or self.only_unnamed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; checksums as eight hexadecimal digits."""
        sides = {
            side: {"rows": count, "checksum": f"{xor:08x}"}
            for side, (count, xor) in (("left", self.left), ("right", self.right))
        }
        problem = {"problem": self.problem} if self.problem else {}
        known = {"unjudged": True} if self.unjudged else {"unnamed": self.unnamed} if self.unnamed else {}
        rows = [row.to_dict() for row in self.rows]
        return {"same": self.same, **sides, **problem, **known, "differences": rows}


def compare_tables(
    tables: Iterable[Table],
    left: Side,
    right: Side,
    most_rows: int,
    columns: Any = None,
    found_there: Collection[tuple[str, str]] = (),
) -> list[TableComparison]:
    """Compare tables; `columns` says which columns of a table the right side has, in lower case.

    Of tables in `found_there` the left side may not know all rows.
    """
    return [
        _compare(table, left, right, most_rows, columns, (table.schema, table.name) in found_there) for table in tables
    ]


def _compare(table: Table, left: Side, right: Side, most_rows: int, columns: Any, found_there: bool) -> TableComparison:
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
    totals = _total(ours), _total(theirs)
    if not found_there:
        rows = islice(_rows(compared, left, right, different), most_rows)
        return TableComparison(name, *totals, len(different), tuple(rows))
    shown: list[RowDifference] = []
    unnamed, wrong = 0, False
    for row in _rows(compared, left, right, different):
        stray = row.unnamed(compared)
        unnamed, wrong = unnamed + stray, wrong or not stray
        if len(shown) < most_rows:
            shown.append(row)
        elif wrong:
            break
    return TableComparison(
        name, *totals, len(different), tuple(shown if wrong else ()), unnamed=unnamed, only_unnamed=not wrong
    )


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
