"""Reads the rows that are selected in a log, file by file: the only reader of rows that are asked for.

Only what is asked is decoded: files and transactions out of range are not read, rows of other tables and operations are
not cut, a condition's columns are decoded first, and the others for the rows that match.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConfigError, ConversionFailed, MergeError
from binlog_merge.files.manifest import OutputFile
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter
from binlog_merge.log.changes import OPS, Changes, narrowed, parts_of, rows_that_pass, runs_of
from binlog_merge.log.columns import Shape
from binlog_merge.log.index import key_of
from binlog_merge.log.key_conditions import looks_for
from binlog_merge.log.key_index import segments_with
from binlog_merge.log.log import Log
from binlog_merge.log.question import AnySelection, ManySelection, Name, Selection
from binlog_merge.log.segments import Segment, StatementAt
from binlog_merge.log.table_changes import Form, TableChanges, gtid_prefix, located, transactions_of
from binlog_merge.log.versions import TableVersions
from binlog_merge.log.where import Undecided, Where
from binlog_merge.log.whole_json import with_whole_json
from binlog_merge.values.types import facts_of
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

PART_BYTES: Final = 4 << 20
"""The bytes of rows events that become one batch: the cells of a row take several times as much memory as its bytes."""
WINDOW: Final = 4 << 20
"""The bytes of the log that are read at a time: several passes go over them, so they should fit into a CPU cache."""
_MOST_KNOWN: Final = 1 << 10
Definition = tuple[Table, Form | None]
Wants = Callable[[str, str], bool]


@dataclass(frozen=True)
class RowReader:
    """Reads the changes of some tables' rows out of segments.

    `wants` chooses tables, `ops` operations, `where` and `filter` rows. `definition` says what rows with a table map
    are, of a transaction with a key, and what their columns become. If not `lenient`, a JSON difference to a document
    that the log does not hold is an error, else it is absent.
    """

    log: Log
    wants: Wants
    definition: Callable[[TableMap, OrderKey | None], Definition]
    ops: Collection[Op] = OPS
    where: Where | None = None
    filter: Filter | None = None
    lenient: bool = True

    def parts(self, segment: Segment, part_bytes: int | None = PART_BYTES) -> Iterator[list[TableChanges]]:
        """Yield the rows of a segment that are chosen, table by table, in parts of so many bytes of events.

        Of a table that has no such row here, there may be changes without rows. Raises what reading the log does,
        UnknownTableSchema, ReplayStopped for rows that a filter declares an error, and ConfigError for rows of which
        the log does not say whether they match.
        """
        chosen = narrowed(segment, self.wants, self.ops)
        if not len(chosen.events):
            return
        facts, prefix = transactions_of(segment), gtid_prefix(segment, self.log.cluster_uuid)
        whole = with_whole_json(chosen, lenient=self.lenient)
        for part in (whole,) if part_bytes is None else parts_of(whole, part_bytes):
            found = (self._changes(Changes(part, table, run), facts, prefix) for table, run in runs_of(part))
            yield list(found)

    def _changes(self, changes: Changes, facts: Any, prefix: bytes | None) -> TableChanges:
        try:
            transaction = changes.segment.events[changes.events[0], k.E_TRANSACTION]
            table, form = self.definition(changes.table, key_of(facts[transaction]))
            rows = self._passing(changes, table)
        except Undecided as undecided:
            raise self._undecided(changes, undecided) from None
        except MergeError as error:
            raise located(error, changes) from None
        return TableChanges(changes, rows, table, facts, prefix, form)

    def _passing(self, changes: Changes, table: Table) -> Any:
        """Return the numbers of the rows that pass the condition and the filter, None if all do."""
        rows = None
        if self.where is not None:
            rows = np.arange(len(changes.cut))
            rows = rows[self.where.matches(table, changes.cut, facts_of(table, True, changes.table), rows)]
        if self.filter is not None:
            passing = rows_that_pass(changes, self.filter, table, facts_of(table, True, changes.table))
            rows = np.flatnonzero(passing) if rows is None else rows[passing[rows]]
        return rows

    def _undecided(self, changes: Changes, undecided: Undecided) -> MergeError:
        assert self.where is not None
        name, op = f"{changes.table.schema}.{changes.table.table}", changes.op_of(undecided.row)
        article = "a" if op == "delete" else "an"
        error = ConfigError(
            f"{self.where.option} {self.where.text!r}: whether {article} {op} of {name} matches is not known, for its "
            f"images do not hold {', '.join(undecided.columns)} (binlog_row_image is not FULL)",
            remedy="ask by the columns of the key, which every image holds",
        )
        return located(error, changes, undecided.row)


def pieces_between(
    log: Log,
    first: int,
    last: int,
    wants: Wants,
    where: Where | None = None,
    tables: Sequence[Table] = (),
    *,
    statements: bool = False,
) -> Iterator[Segment | StatementAt]:
    """Yield what may have rows of wanted tables that match a condition, and what else stands beside them.

    Of a file that has an index of keys, only that is read; one is made for a condition on `tables` that gains by it.
    """
    if first > last:
        return
    log.check_there(first)
    terms = () if where is None else where.terms
    make = where is not None and looks_for(terms, tables)
    for file in log.state.files:
        low, high = max(first, file.first_rank), min(last, file.last_rank)
        if low <= high:
            yield from segments_with(
                log, file, low, high, wants, terms, make=make, statements=statements, window=WINDOW
            )


def reader_of(log: Log, selection: AnySelection) -> RowReader:
    """Return what reads the rows of a selection."""
    if isinstance(selection, Selection):
        return RowReader(log, selection.wants, _definitions(selection).of, selection.ops, selection.where)
    return RowReader(log, selection.wants, _DefinitionsOfMany(selection).of, selection.ops)


def read(log: Log, selection: AnySelection, part_bytes: int = PART_BYTES) -> Iterator[list[TableChanges]]:
    """Yield the changes of a selection part after part of the log; those of a part table by table.

    Raises what `RowReader.parts` does.
    """
    where, tables = (selection.where, selection.versions.tables()) if isinstance(selection, Selection) else (None, ())
    pieces = pieces_between(log, selection.first, selection.last, selection.wants, where, tables)
    return _changes(reader_of(log, selection), pieces, part_bytes)


def read_file(
    log: Log, selection: AnySelection, file: OutputFile, position: int | None = None
) -> Iterator[list[TableChanges]]:
    """Yield the changes of a selection in one file, as `read` does of all; no index is made.

    `position` is where the first of its transactions begins, if known.
    """
    first, last = max(selection.first, file.first_rank), min(selection.last, file.last_rank)
    terms = selection.where.terms if isinstance(selection, Selection) and selection.where is not None else ()
    pieces = segments_with(log, file, first, last, selection.wants, terms, position=position, window=WINDOW)
    return _changes(reader_of(log, selection), pieces, PART_BYTES)


def batches(log: Log, selection: Selection, part_bytes: int = PART_BYTES) -> Iterator[Any]:
    """Yield the changes of a table as record batches, in the order of the log, no more rows than its limit.

    Raises what `read` does, and ConversionFailed for values that a type does not hold.
    """
    left = selection.limit
    for part in read(log, selection, part_bytes):
        for changes in part:
            batch = changes.batch(selection.schema)
            if left is None:
                yield batch
                continue
            yield batch.slice(0, left)
            left -= len(batch)
            if left <= 0:
                return


def _changes(
    reader: RowReader, pieces: Iterable[Segment | StatementAt], part_bytes: int
) -> Iterator[list[TableChanges]]:
    for piece in pieces:
        if isinstance(piece, Segment):
            for part in reader.parts(piece, part_bytes):
                yield [changes for changes in part if len(changes)]


class Definitions:
    """What the rows of a table are: their definition, and the form that is made of it, as far as they are known.

    `of` raises UnknownTableSchema, and what making a form does.
    """

    def __init__(self, versions: TableVersions, form_of: Callable[[TableMap, Table], Form]) -> None:
        self._versions, self._form_of = versions, form_of
        self._found: dict[tuple[int, int], tuple[Any, ...]] = {}

    def of(self, witness: TableMap, key: OrderKey | None) -> tuple[Table, Form]:
        """Return the definition and the form of rows with a table map, of a transaction with this key."""
        known = None if key is None else self._versions.at(key)
        if (id(witness), id(known)) not in self._found:
            table = self._versions.of_rows(witness, key)
            if len(self._found) >= _MOST_KNOWN:
                self._found.clear()
            form = self._form_of(witness, table)
            self._found[id(witness), id(known)] = witness, known, table, form  # with what keeps the ids theirs
        _, _, table, form = self._found[id(witness), id(known)]
        return table, form


def _definitions(selection: Selection) -> Definitions:
    """Return what the rows of a selection are. A column that it lacks is ConversionFailed."""

    def form_of(witness: TableMap, table: Table) -> Form:
        if selection.whole:
            _check_whole(selection.shape, table)
        facts = facts_of(table, selection.temporal_text, witness, selection.zero_dates)
        return Form(facts, selection.shape, selection.fields)

    return Definitions(selection.versions, form_of)


class _DefinitionsOfMany:
    """What the rows of many tables are; of a table, while its shape is the same."""

    def __init__(self, selection: ManySelection) -> None:
        self._selection = selection
        self._known: dict[Name, tuple[Shape, Definitions]] = {}

    def of(self, witness: TableMap, key: OrderKey | None) -> Definition:
        """Return the definition and the form of rows with a table map, of a transaction with this key."""
        selection = self._selection.of_rows(witness, key)
        shape, definitions = self._known.get(selection.name, (None, None))
        if definitions is None or shape is not selection.shape:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            definitions = _definitions(selection)
            self._known[selection.name] = selection.shape, definitions
        return definitions.of(witness, key)


def _check_whole(shape: Shape, table: Table) -> None:
    known = {name.lower() for name in shape.names}
    more = [column.name for column in table.columns if column.name.lower() not in known]
    if more:
        raise ConversionFailed(
            f"{table.schema}.{table.name} has a column {more[0]} here, which it did not have when the read began",
            remedy="begin the read again: a stream goes on from its checkpoint, with the new columns",
        )
