"""Rows as statements of SQL: those that undo them (`inverse`), or do them again (`forward`).

    INSERT   undone by DELETE by the key it has after
    UPDATE   undone by UPDATE of the columns that it changed, by the key it has after
    DELETE   undone by INSERT of the whole row

A row is found by its primary key, else by a unique key without NULL, else by all its columns, exactly, and only one.
Generated columns are the server's own work. A column with ON UPDATE CURRENT_TIMESTAMP is always set: else the server
would.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from binlog_merge.errors import ConversionFailed, UndoRefused
from binlog_merge.filters.expressions import Op
from binlog_merge.log.table_changes import TableChanges, located
from binlog_merge.values.sql import Exact, Literals, literals
from binlog_merge.values.types import facts_of
from snapshot_store.model import Column, Table
from snapshot_store.mysql.sql.names import quote_name

_A: Final[dict[Op, str]] = {"insert": "an INSERT", "update": "an UPDATE", "delete": "a DELETE"}


class RowStatement(NamedTuple):
    """A statement for one row; of an INSERT `values` is the row, and `head` is before it, for rows may be joined."""

    head: str
    values: str = ""


def key_of(table: Table) -> tuple[int, ...] | None:
    """Return the indexes of the columns that identify a row, None if only all of them together do."""
    return next(map(table.places, table.row_keys), None)


def inverse(chosen: TableChanges) -> list[RowStatement]:
    """Return what undoes each of the rows. Raises UndoRefused and ConversionFailed."""
    return _statements(chosen, AFTER, BEFORE)


def forward(chosen: TableChanges, only: frozenset[str] | None = None) -> list[RowStatement]:
    """Return what does each of the rows again; it sets `only` these columns, in lower case, all if None.

    Raises UndoRefused and ConversionFailed.
    """
    return _statements(chosen, BEFORE, AFTER, only)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a server should have of a row: `whole` is the condition that it is there as the log left it.

    None: that it is gone. `key` is the condition that finds it, `conditions` are those of each column, but only of the
    key's if it is gone: another row may have a key that the collation takes for equal.
    """

    table: str
    place: str
    key: str
    whole: str | None
    conditions: tuple[tuple[str, str], ...] = ()


def expected_rows(chosen: TableChanges) -> Iterator[tuple[Expected | None, Expected | None]]:
    """Yield, for each row in order, that its key before is gone, and what its key after has; nothing without a key."""
    if key_of(chosen.table) is None:
        return
    found: list[tuple[int, Expected | None, Expected | None]] = []
    for op in ("insert", "update", "delete"):
        rows = chosen.rows[chosen.changes.rows_of(op)[chosen.rows]]
        if len(rows):
            made = _Rows(chosen, rows, True)
            befores = made.expected(BEFORE, AFTER, gone=True) if op != "insert" else [None] * len(rows)
            afters = made.expected(AFTER, BEFORE, gone=False) if op != "delete" else [None] * len(rows)
            found += zip(rows.tolist(), befores, afters, strict=True)
    yield from ((before, after) for _, before, after in sorted(found, key=lambda each: each[0]))


def check_undoable(chosen: TableChanges) -> None:
    """Raise UndoRefused unless the images of the rows hold what undoing them takes."""
    for op in ("insert", "update", "delete"):
        rows = chosen.rows[chosen.changes.rows_of(op)[chosen.rows]]
        if len(rows):
            _Rows(chosen, rows, True).check(op)


def _statements(chosen: TableChanges, old: int, new: int, only: frozenset[str] | None = None) -> list[RowStatement]:
    """Return statements that make rows of the side `old` those of the side `new`."""
    undoing = new == BEFORE
    found = [RowStatement("")] * len(chosen.rows)
    for op in ("insert", "update", "delete"):
        places = np.flatnonzero(chosen.changes.rows_of(op)[chosen.rows])
        if not len(places):
            continue
        made = _Rows(chosen, chosen.rows[places], undoing, only)
        if op == "update":
            texts = made.updates(old, new)
        elif (op == "insert") == undoing:
            texts = made.deletes(old)
        else:
            texts = made.inserts(new)
        for place, text in zip(places.tolist(), texts, strict=True):
            found[place] = text
    return found


@dataclass
class _Rows:
    """Rows of one operation, and the literals of their columns as they are asked for."""

    chosen: TableChanges
    rows: Any
    undoing: bool
    only: frozenset[str] | None = None

    @cached_property
    def table(self) -> Table:
        """Return the rows' definition."""
        return self.chosen.table

    @cached_property
    def facts(self) -> tuple[ColumnFacts, ...]:
        """Return what determines the values of the columns."""
        return facts_of(self.table, False, self.chosen.changes.table)

    @cached_property
    def place(self) -> str:
        """Return the table's name in SQL."""
        witness = self.chosen.changes.table
        return f"{quote_name(witness.schema)}.{quote_name(witness.table)}"

    @cached_property
    def stored(self) -> list[tuple[int, Column]]:
        """Return the columns that are not generated."""
        return [(i, column) for i, column in enumerate(self.table.columns) if column.generated is None]

    @cached_property
    def written(self) -> list[tuple[int, Column]]:
        """Return the columns that statements set."""
        return [(i, column) for i, column in self.stored if self.only is None or column.name.lower() in self.only]

    def literals(self, side: int, column: int) -> Literals:
        """Return the literals of a column. Raises ConversionFailed."""
        try:
            return literals(self.chosen.cut, side, column, self.facts[column], self.rows)
        except (CellValueError, BinlogFormatError) as error:
            name = f"{self.table.schema}.{self.table.name}.{self.table.columns[column].name}"
            raise located(ConversionFailed(f"{name}: {error}"), self.chosen.changes, int(self.rows[0])) from None

    def check(self, op: Op) -> None:
        """Raise UndoRefused if the images do not hold what undoing this operation takes."""
        stored = [i for i, _ in self.stored]
        if op == "update":
            for i in stored:
                self._check_before(i)
            return
        needed = stored if op == "delete" else list(key_of(self.table) or stored)
        lacking = self._absent(BEFORE if op == "delete" else AFTER, needed)
        if lacking is not None:
            self._refuse(*lacking, "the row" if op == "delete" else "the key")

    def inserts(self, side: int) -> list[RowStatement]:
        """Return the INSERTs of rows of one side."""
        lacking = self._absent(side, [i for i, _ in self.written])
        if lacking is not None and self.undoing:
            self._refuse(*lacking, "the row")
        columns = [self.literals(side, i) for i, _ in self.written]
        if lacking is None:
            head = self._insert_head([column.name for _, column in self.written])
            return [RowStatement(head, f"({', '.join(row)})") for row in zip(*columns, strict=True)]
        made = []
        for row in zip(*columns, strict=True):
            held = [
                (column.name, text) for (_, column), text in zip(self.written, row, strict=True) if text is not None
            ]
            values = ", ".join(text for _, text in held)
            made.append(RowStatement(self._insert_head([name for name, _ in held]), f"({values})"))
        return made

    def _insert_head(self, names: Sequence[str]) -> str:
        return f"INSERT INTO {self.place} ({', '.join(map(quote_name, names))}) VALUES "

    def deletes(self, side: int) -> list[RowStatement]:
        """Return the DELETEs of rows of one side."""
        return [RowStatement(f"DELETE FROM {self.place} WHERE {where}") for where in self._wheres(side)]

    def updates(self, old: int, new: int) -> list[RowStatement]:
        """Return the UPDATEs that set what differs from the side `old` to the values of the side `new`."""
        wheres = self._wheres(old, other=new)
        assignments: list[list[str]] = [[] for _ in wheres]
        for i, column in self.written:
            if self.undoing:
                self._check_before(i)
            name = quote_name(column.name)
            before, after = self.literals(old, i), self.literals(new, i)
            for row, (was, will) in enumerate(zip(before, after, strict=True)):
                if will is not None and was != will and not (self.undoing and was is None):
                    assignments[row].append(f"{name} = {will}")
                elif column.on_update_now:
                    assignments[row].append(f"{name} = {name if will is None else will}")
        nothing = quote_name(self.stored[0][1].name)
        return [
            RowStatement(f"UPDATE {self.place} SET {', '.join(parts) or f'{nothing} = {nothing}'} WHERE {where}")
            for parts, where in zip(assignments, wheres, strict=True)
        ]

    def _check_before(self, column: int) -> None:
        """Raise UndoRefused if an update may have changed a column whose value before is not in the log."""
        sizes = self.chosen.cut.sizes[:, column, self.rows]
        lost = np.flatnonzero((sizes[AFTER] != ABSENT) & (sizes[BEFORE] == ABSENT))
        if len(lost):
            row = int(self.rows[lost[0]])
            self._refuse(row, self._lost_in(row), "the values before")

    def _lost_in(self, row: int) -> list[str]:
        sizes = self.chosen.cut.sizes[:, :, row]
        lost = (sizes[AFTER] != ABSENT) & (sizes[BEFORE] == ABSENT)
        return [column.name for i, column in self.stored if lost[i]]

    def expected(self, side: int, other: int, gone: bool) -> list[Expected | None]:
        """Return what a server has of the rows of a side, or that it has them no more."""
        update = bool((self.chosen.cut.sizes[other, 0, self.rows] != NONE).all())
        keys = self._wheres(side, other=other if update else None)
        table = f"{self.chosen.changes.table.schema}.{self.chosen.changes.table.table}"
        stored = [(i, column) for i, column in self.stored if not gone or i in (key_of(self.table) or ())]
        columns = [(column.name, Exact(self.facts[i]), self.literals(side, i)) for i, column in stored]
        found: list[Expected | None] = []
        for row, key in enumerate(keys):
            held = [(name, exact.condition(name, text)) for name, exact, texts in columns if (text := texts[row])]
            whole = " AND ".join([key, *(condition for _, condition in held)])
            found.append(Expected(table, self.place, key, None if gone else whole, tuple(held)))
        return found

    def _wheres(self, side: int, other: int | None = None) -> list[str]:
        """Return the conditions that find the rows of a side; what it lacks has not changed, and the other side has."""
        key = key_of(self.table)
        numbers = [i for i, _ in self.stored] if key is None else list(key)
        columns = [self.literals(side, i) for i in numbers]
        if other is not None and self._absent(side, numbers) is not None:
            others = [self.literals(other, i) for i in numbers]
            columns = [
                [b if a is None else a for a, b in zip(ours, theirs, strict=True)]
                for ours, theirs in zip(columns, others, strict=True)
            ]
        for number, texts in zip(numbers, columns, strict=True):
            if None in texts:
                row = int(self.rows[texts.index(None)])
                what = "the key" if key is not None else "all columns, which alone identify a row without a key"
                self._refuse(row, [self.table.columns[number].name], what)
        if key is not None:
            named = [(f"{quote_name(self.table.columns[i].name)} = ", Exact(self.facts[i]).compared) for i in key]
            parts = [
                [name + compared(text or "") for text in texts]
                for (name, compared), texts in zip(named, columns, strict=True)
            ]
            return parts[0] if len(parts) == 1 else list(map(" AND ".join, zip(*parts, strict=True)))
        exact = [(self.table.columns[i].name, Exact(self.facts[i])) for i in numbers]
        return [
            " AND ".join(form.condition(name, text or "NULL") for (name, form), text in zip(exact, row, strict=True))
            + " LIMIT 1"
            for row in zip(*columns, strict=True)
        ]

    def _absent(self, side: int, columns: Sequence[int]) -> tuple[int, list[str]] | None:
        """Return the first row that lacks some of these columns, and their names."""
        absent = self.chosen.cut.sizes[side][:, self.rows][list(columns)] == ABSENT
        lacking = np.flatnonzero(absent.any(axis=0))
        if not len(lacking):
            return None
        of = absent[:, lacking[0]]
        names = [self.table.columns[column].name for column, gone in zip(columns, of.tolist(), strict=True) if gone]
        return int(self.rows[lacking[0]]), names

    def _refuse(self, row: int, columns: Sequence[str], what: str) -> None:
        changes = self.chosen.changes
        name = f"{changes.table.schema}.{changes.table.table}"
        raise located(
            UndoRefused(
                f"the log does not hold {what} of {_A[changes.op_of(row)]} of {name}: {', '.join(columns)} "
                f"{'is' if len(columns) == 1 else 'are'} not in its row image (binlog_row_image is not FULL)",
                remedy="narrow the range or the rows so that it is left out; let the nodes write binlog_row_image=FULL",
            ),
            changes,
            row,
        )
