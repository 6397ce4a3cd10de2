"""Rows of one table, as a format sees them: columns by side, and what each row has of its event and transaction."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, decode_column
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.kernels.row_cells import ABSENT, differing
from binlog_merge.errors import UnsupportedInput
from binlog_merge.log.table_changes import TableChanges, located
from binlog_merge.messages import json_text as j
from binlog_merge.values.types import column_facts_of
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import TEMPORAL

INSERT, UPDATE, DELETE = 0, 1, 2
"""The codes of operations, as in `log.changes.OPS`."""
UNKNOWN: Final = -1


TransactionCounts = Counter[tuple[str, str]]
"""How many rows of each table, or what they count as, a transaction has had."""


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Where rows are in their transactions, over all tables that were asked for: their numbers, and which is the last.

    The last row of a transaction of which more may come in a later part is not known to be the last. Where tables are
    counted, `own` are the rows' numbers among those of their table, and `counts` has what each transaction, by its
    rank, has had so far.
    """

    offsets: Any
    last: Any
    own: Any = None
    counts: Mapping[int, TransactionCounts] = field(default_factory=dict)

    def first(self, count: int) -> "InTransaction":
        """Return the places of the first rows."""
        own = None if self.own is None else self.own[:count]
        return InTransaction(self.offsets[:count], self.last[:count], own, self.counts)


@dataclass(frozen=True, slots=True)
class Begins:
    """The BEGIN of each transaction of a segment: its session and where it is in the file, UNKNOWN if there is none."""

    threads: Any
    positions: Any


@dataclass(frozen=True, kw_only=True)
class TableRows(TableChanges):
    """Changes of a table, and what messages say of them beside: `places` are the columns' numbers in `table`.

    `begins` says where the BEGIN of each transaction is, and of which session it is, `place` where each row is in its
    transaction.
    """

    places: tuple[int, ...]
    begins: Begins
    place: InTransaction

    def first(self, count: int) -> "TableRows":
        """Return the first rows."""
        return replace(self, chosen=self.rows[:count], place=self.place.first(count))

    @property
    def columns(self) -> list[Column]:
        """Return the columns of the rows."""
        return [self.table.columns[place] for place in self.places]

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Return the columns of the primary key, by their numbers in the table."""
        index = self.table.primary_key
        return () if index is None else self.table.places(index) or ()

    @cached_property
    def _at(self) -> Any:
        """Return where each row's event begins in the segment."""
        return self.positions - self.segment.base

    @cached_property
    def order(self) -> Any:
        """Return a number for each row that grows through the tables of a segment as the log does."""
        return self._at * (1 << 24) + self.row_numbers

    @property
    def transaction_numbers(self) -> Any:
        """Return the number in the segment of each row's transaction."""
        return self.in_event[0]

    @cached_property
    def ends(self) -> Any:
        """Return where each row's event ends."""
        return self.positions + self._header(9)

    @property
    def server_ids(self) -> Any:
        """Return the server of each row's event."""
        return self._header(5)

    @property
    def seconds(self) -> Any:
        """Return the timestamp of each row's event."""
        return self._header(0)

    def _header(self, at: int) -> Any:
        """Return four bytes of the header of each row's event as a number."""
        return u32_at(self.segment.buffer, self._at + at)

    @property
    def thread_ids(self) -> Any:
        """Return the session of each row; null where the log does not say it."""
        found = self.begins.threads[self.transaction_numbers]
        return pa.array(found, pa.int64(), mask=found == UNKNOWN)

    @property
    def begun_at(self) -> Any:
        """Return where the BEGIN of each row's transaction is in the file; -1 where the log does not say it."""
        return self.begins.positions[self.transaction_numbers]

    @property
    def offsets(self) -> Any:
        """Return the number of each row in its transaction, over all tables."""
        return self.place.offsets

    @property
    def last_of_transaction(self) -> Any:
        """Return a mask of the rows with which their transactions end."""
        return self.place.last

    def column(self, side: int, place: int, temporal_text: bool = False) -> Any:
        """Return a column of a side as an Arrow array; null where there is no image.

        Raises CellValueError for a date that Arrow does not have; `temporal_text` shows every one as MySQL's text.
        """
        facts = self.facts(place, temporal_text)
        cut = self.cut
        return decode_column(facts, cut.buffer, cut.starts[side, place][self.rows], cut.sizes[side, place][self.rows])

    def facts(self, place: int, temporal_text: bool = False) -> ColumnFacts:
        """Return what determines a column's values."""
        witness = self.changes.table
        return column_facts_of(self.table.columns[place], temporal_text, (witness.types[place], witness.metas[place]))

    def changed(self, place: int) -> Any:
        """Return a mask of the rows whose cell before is not the one after."""
        cut = self.cut
        out = np.empty(len(cut), np.uint8)
        differing(cut.buffer, cut.starts, cut.sizes, place, out)
        return out[self.rows].astype(bool)

    def check_whole(self, form: str) -> None:
        """Raise UnsupportedInput if an image does not hold one of the columns: no message could say so."""
        for side in (BEFORE, AFTER):
            for place in self.places:
                lacking = np.flatnonzero(self.cut.sizes[side, place, self.rows] == ABSENT)
                if len(lacking):
                    error = UnsupportedInput(
                        f"a row of {self.table.schema}.{self.table.name} has no value "
                        f"{'before' if side == BEFORE else 'after'} of {self.table.columns[place].name}: a message of "
                        f"{form} has whole rows, and binlog_row_image or binlog_row_value_options left it out",
                        remedy="-o jsonl names what is absent; with binlog_row_image=FULL nothing is",
                    )
                    raise located(error, self.changes, int(self.rows[lacking[0]]))


def u32_at(buffer: Any, places: Any) -> Any:
    """Return four little-endian bytes of a buffer at each place as numbers."""
    numbers = np.zeros(len(places), np.int64)
    for number in range(4):
        numbers |= buffer[places + number].astype(np.int64) << (8 * number)
    return numbers


def select_places(table: Table, names: Sequence[str] | None) -> tuple[int, ...]:
    """Return the numbers of a table's columns, of those with some names or of all."""
    wanted = None if names is None else {name.lower() for name in names}
    return tuple(i for i, c in enumerate(table.columns) if wanted is None or c.name.lower() in wanted)


def typed(rows: TableRows, side: int, place: int) -> tuple[Any, Any]:
    """Return a column in Arrow's types, and a mask of values that those do not have (0000-00-00), or None.

    Such a value is null in the array. Raises ConversionFailed for cells that are damaged.
    """
    try:
        return rows.column(side, place), None
    except CellValueError:
        if rows.table.columns[place].type.family not in TEMPORAL:
            raise
    texts = rows.column(side, place, temporal_text=True).to_pylist()
    kind = rows.facts(place).type
    wrong = np.array([text is not None and _beyond(text) for text in texts], bool)
    values = [None if text is None or beyond else text for text, beyond in zip(texts, wrong, strict=True)]
    moments = np.array(
        [np.datetime64("NaT") if v is None else np.datetime64(v.replace(" ", "T")) for v in values], "datetime64[us]"
    )
    array = pa.array(moments, pa.timestamp("us"))
    if pa.types.is_date(kind):
        return array.cast(pa.date32()), wrong
    return array, wrong


def _beyond(text: str) -> bool:
    """Return whether a date has a month or a day of zero."""
    return text[5:7] == "00" or text[8:10] == "00"


def guarded(rows: TableRows, make: Callable[[], Any]) -> Any:
    """Return what `make` returns; errors of values say where the rows are. Raises ConversionFailed."""
    try:
        return make()
    except (CellValueError, BinlogFormatError) as error:
        raise rows.failed(error) from None


def sparse(rows: TableRows, arrays: Sequence[Any]) -> Any:
    """Return a JSON object for each row with the columns whose cells before and after differ."""
    parts: list[Any] = []
    for name, place, array in zip(rows.names, rows.places, arrays, strict=True):
        pair = j.joined([f",{j.literal(name)}:", array])
        parts.append(pc.if_else(pa.array(rows.changed(place)), pair, ""))
    return j.joined(["{", pc.utf8_slice_codeunits(j.joined(parts), 1), "}"])


def row_keys(rows: TableRows, arrays: Sequence[Any]) -> Any:
    """Return the primary key of each row as a JSON object; null in a table without one, or without its columns."""
    places = [rows.places.index(place) for place in rows.key_places if place in rows.places]
    if not places or len(places) < len(rows.key_places):
        return pa.nulls(len(rows), pa.large_string())
    return j.objects([rows.names[place] for place in places], [arrays[place] for place in places])
