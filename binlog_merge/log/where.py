"""A condition of MySQL's SQL on the rows of a log, evaluated many rows at a time by DuckDB.

A row matches if its values before or its values after satisfy the condition. What an image does not hold
(binlog_row_image MINIMAL, NOBLOB) is not known, which is not NULL: the terms that AND joins are asked one by one, and a
row of which none that can be asked is false, and not all can be asked, stops the reader.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timezone
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.arrow import array_over
from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, CutRows, decode_rows
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from binlog_merge.errors import ConfigError
from binlog_merge.log.place import zone_named
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.columns import TableColumns, engine_array, values_of
from binlog_merge.values.duckdb.compile import UnknownColumn, compile_value, parse
from binlog_merge.values.duckdb.piece import ExpressionError, condition, why_stopped
from snapshot_store.model import Column, Table
from snapshot_store.mysql.expr.nodes import Node

Mask = npt.NDArray[np.bool_]
_MOST_TABLES: Final = 1000


class Undecided(Exception):  # noqa: N818 (what was found, as in binlog_merge.errors)
    """The log does not say whether a row matches: the row's index, and the columns that its images do not hold."""

    def __init__(self, row: int, columns: Sequence[str]) -> None:
        super().__init__(f"row {row}: {', '.join(columns)}")
        self.row = row
        self.columns = tuple(columns)


def condition_on(tables: Sequence[Table], text: str, time_zone: str) -> "Where":
    """Return a condition on rows of any of these definitions. Raises ConfigError where it is none on one of them."""
    where = Where(text, time_zone, frozenset(column.name.lower() for table in tables for column in table.columns))
    for table in tables:
        where.check(table)
    return where


@dataclass(frozen=True, slots=True)
class _Term:
    sql: str
    places: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Compiled:
    terms: tuple[_Term, ...]
    columns: tuple[tuple[str, int, Column], ...]


@dataclass
class Where:
    """A condition; `time_zone` (an IANA name or an offset) is that of TIMESTAMP values.

    `elsewhere` are the names of columns, in lower case, that the table has in other versions: a row of a version
    without it has NULL there. A row matches if one of its `sides` does. With `lenient`, a row of which this is not
    known matches, too. Raises ConfigError for what is no condition. Not thread-safe.
    """

    text: str
    time_zone: str = "UTC"
    elsewhere: frozenset[str] = frozenset()
    option: str = "--where"
    lenient: bool = False
    sides: tuple[int, ...] = (BEFORE, AFTER)
    _known: dict[Table, _Compiled] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            self._terms = _terms(parse(self.text))
        except ExpressionError as error:
            raise self._wrong(str(error)) from None
        self.time_zone = _zone(self.time_zone)

    def __reduce__(self) -> tuple[Any, ...]:
        return Where, (self.text, self.time_zone, self.elsewhere, self.option, self.lenient, self.sides)

    @property
    def terms(self) -> tuple[Node, ...]:
        """Return what AND joins."""
        return self._terms

    def check(self, table: Table) -> None:
        """Raise ConfigError if the condition cannot be asked of a table."""
        self._compiled(table)

    def columns(self, table: Table) -> frozenset[str]:
        """Return the names of the columns that the condition looks at."""
        return frozenset(column.name for _, _, column in self._compiled(table).columns)

    def matches(self, table: Table, cut: CutRows, facts: Sequence[ColumnFacts], rows: Any) -> Mask:
        """Return which of the rows with these numbers match; `facts` show dates as text.

        Raises Undecided and ConfigError.
        """
        compiled = self._compiled(table)
        matching, unknown = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        for side in self.sides:
            there = np.flatnonzero(cut.sizes[side, 0, rows] != NONE)
            if len(there):
                true, open_ = self._side(compiled, cut, side, facts, rows[there])
                matching[there] |= true
                unknown[there] |= open_
        if self.lenient:
            return matching | unknown
        undecided = np.flatnonzero(unknown & ~matching)
        if len(undecided):
            row = int(rows[undecided[0]])
            lacking = [c.name for _, i, c in compiled.columns if (cut.sizes[:, i, row] == ABSENT).any()]
            raise Undecided(row, lacking)
        return matching

    def _side(
        self, compiled: _Compiled, cut: CutRows, side: int, facts: Sequence[ColumnFacts], rows: Any
    ) -> tuple[Mask, Mask]:
        """Return which rows the values of a side satisfy, and of which it is not known."""
        lacking = {place: cut.sizes[side, i, rows] == ABSENT for place, i, _ in compiled.columns}
        if not any(absent.any() for absent in lacking.values()):
            sql = " AND ".join(term.sql for term in compiled.terms)
            return self._evaluated(compiled, sql, cut, side, facts, rows), np.zeros(len(rows), bool)
        true, false = np.ones(len(rows), bool), np.zeros(len(rows), bool)
        for term in compiled.terms:
            held = np.ones(len(rows), bool)
            for place in term.places:
                held &= ~lacking[place]
            found = np.zeros(len(rows), bool)
            found[held] = self._evaluated(compiled, term.sql, cut, side, facts, rows[held], term.places)
            true &= found
            false |= held & ~found
        return true, ~true & ~false

    def _evaluated(
        self,
        compiled: _Compiled,
        sql: str,
        cut: CutRows,
        side: int,
        facts: Sequence[ColumnFacts],
        rows: Any,
        places: Collection[str] | None = None,
    ) -> Mask:
        if not len(rows):
            return np.zeros(0, bool)
        wanted = [(place, i, c) for place, i, c in compiled.columns if places is None or place in places]
        batch = decode_rows(cut, side, facts, rows, [i for _, i, _ in wanted])
        arrays = {
            place: engine_array(column, batch.column(number), self.time_zone)
            for number, (place, _, column) in enumerate(wanted)
        }
        arrays = arrays or {"c": pa.nulls(len(rows))}
        try:
            found = values_of(sql, pa.table(arrays))
        except duckdb.Error as error:
            raise self._wrong(f"it cannot be evaluated: {why_stopped(error) or error}") from None
        return found.to_numpy().astype(bool)

    def _compiled(self, table: Table) -> _Compiled:
        if table not in self._known:
            if len(self._known) >= _MOST_TABLES:
                self._known.clear()
            self._known[table] = self._compile(table)
        return self._known[table]

    def _compile(self, table: Table) -> _Compiled:
        virtual = [c.name for c in table.columns if c.generated is not None and not c.generated.stored]
        terms: list[_Term] = []
        used: dict[str, Column] = {}
        for node in self._terms:
            columns = TableColumns(table, virtual, self.elsewhere)
            try:
                sql = condition(compile_value(node, columns))
            except UnknownColumn as error:
                names = ", ".join(column.name for column in table.columns)
                raise self._wrong(
                    f"{table.schema}.{table.name} has no column {error.column}; it has {names[:300]}"
                ) from None
            except (ExpressionError, UnknownCollation) as error:
                raise self._wrong(str(error)) from None
            terms.append(_Term(f"coalesce({sql}, FALSE)", frozenset(columns.used)))
            used |= columns.used
        places = tuple((place, int(place[1:]), column) for place, column in used.items())
        return _Compiled(tuple(terms), places)

    def _wrong(self, reason: str) -> ConfigError:
        return ConfigError(
            f"{self.option} {self.text!r}: {reason}",
            remedy="write a condition of MySQL's SQL on the table's columns, like \"id = 4711 AND price > 10\"",
        )


def _zone(name: str) -> str:
    """Return a time zone as Arrow writes it. Raises ConfigError for one that is not known here."""
    zone = zone_named(name)
    if isinstance(zone, timezone):
        return zone.tzname(None).removeprefix("UTC") or "UTC"
    try:
        pc.local_timestamp(array_over(np.zeros(1, np.int64), pa.timestamp("us", tz=name)))
    except pa.ArrowInvalid as error:
        raise ConfigError(f"the time zone: {error}", remedy="write +08:00, or a name like Asia/Shanghai") from None
    return name


def _terms(node: Node) -> tuple[Node, ...]:
    """Return what AND joins."""
    if node.kind != "and":
        return (node,)
    return tuple(term for arg in node.args for term in _terms(arg))
