"""A question about the rows of a table (a frozen value), and the record batches that answer it, file by file.

Only what is asked is decoded: files and transactions out of range are not read, rows of other tables and operations are
not cut, a condition's columns are decoded first, and the others for the rows that match.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from binlog_merge.ask.rows import FIELDS, Form, Rows, schema_of, transactions_of
from binlog_merge.ask.shape import Shape
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.kernels import event_types as t
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.zero_dates import REMEDY, STOP, ZeroDates
from binlog_merge.errors import ConfigError, ConversionFailed, MergeError
from binlog_merge.files.manifest import OutputFile
from binlog_merge.filters.expressions import Op
from binlog_merge.log.changes import OPS, Changes, narrowed, parts_of, runs_of
from binlog_merge.log.index import key_of
from binlog_merge.log.key_index import segments_with
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.segments import Segment, StatementAt
from binlog_merge.log.sought import looks_for
from binlog_merge.log.versions import TableVersions
from binlog_merge.log.where import Undecided, Where, condition_on
from binlog_merge.log.whole_json import with_whole_json
from binlog_merge.values.column_facts import facts_of
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

PART_BYTES: Final = 4 << 20
"""The bytes of rows events that become one batch: the cells of a row take several times as much memory as its bytes."""
MOST_KNOWN: Final = 1 << 10
WINDOW: Final = 4 << 20
"""The bytes of the log that are read at a time: several passes go over them, so they should fit into a CPU cache."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the rows of a table: which of them, and which of their columns.

    `shape` is that of `before` and `after`, `fields` are some of `rows.FIELDS`. If the shape is the `whole` table's, a
    row with a column that it lacks is an error. With `temporal_text` dates and times are MySQL's text.
    """

    versions: TableVersions
    shape: Shape
    fields: tuple[str, ...] = tuple(FIELDS)
    ops: tuple[Op, ...] = OPS
    where: Where | None = None
    temporal_text: bool = False
    whole: bool = True
    zero_dates: ZeroDates = STOP

    @property
    def schema(self) -> Any:
        """Return the schema of the batches."""
        return schema_of(self.shape, self.fields)


def batches_of(
    binlog: MergedBinlog, asked: Asked, first_rank: int, last_rank: int, part_bytes: int = PART_BYTES
) -> Iterator[Any]:
    """Yield the rows of transactions `first_rank` to `last_rank` as record batches, in the order of the log.

    Raises what reading the log does, ConversionFailed for values that a type does not hold, and ConfigError for rows of
    which the log does not say whether they match.
    """
    if first_rank > last_rank:
        return
    binlog.check_there(first_rank)
    for file in binlog.state.files:
        if file.last_rank >= first_rank and file.first_rank <= last_rank:
            yield from file_batches(binlog, asked, file, first_rank, last_rank, part_bytes=part_bytes, make_index=True)


def file_batches(
    binlog: MergedBinlog,
    asked: Asked,
    file: OutputFile,
    first_rank: int,
    last_rank: int,
    position: int | None = None,
    part_bytes: int = PART_BYTES,
    make_index: bool = False,
) -> Iterator[Any]:
    """Yield the rows of some transactions of a file; `position` is where the first of them begins, if known.

    Of a file that has an index of keys, only what may have the rows is read; with `make_index` one is made for a
    condition that gains by it.
    """
    named, schema, known = (asked.versions.schema, asked.versions.name), asked.schema, Known(asked)
    wanted = lambda *name: name == named  # noqa: E731
    where = asked.where
    pieces = segments_with(
        binlog, file, max(first_rank, file.first_rank), min(last_rank, file.last_rank), wanted,
        () if where is None else where.terms, position=position, window=WINDOW,
        make=make_index and where is not None and looks_for(where.terms, asked.versions.tables()),
    )  # fmt: skip
    for part, facts in parts_with(pieces, wanted, asked.ops, part_bytes):
        for table, run in runs_of(part):
            batch = batch_of(known, schema, Changes(part, table, run), facts, binlog)
            if batch is not None:
                yield batch


def parts_with(
    pieces: Iterable[Segment | StatementAt], wanted: Callable[[str, str], bool], ops: Sequence[Op], part_bytes: int
) -> Iterator[tuple[Segment, Any]]:
    """Yield the rows events of some tables, a few megabytes at a time, each with what `transactions_of` returns."""
    for piece in pieces:
        if not isinstance(piece, Segment) or not len(piece.events):
            continue
        chosen = narrowed(piece, wanted, ops)
        if not len(chosen.events):
            continue
        facts = transactions_of(piece)
        for part in parts_of(with_whole_json(chosen, lenient=True), part_bytes):
            yield part, facts


class Known:
    """What is asked, and what the table maps of a read mean."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._found: dict[tuple[int, int], tuple[Any, ...]] = {}

    def of(self, witness: TableMap, key: OrderKey | None) -> tuple[Table, Form]:
        """Return the definition of rows of a transaction with this key, and how their columns are decoded.

        Raises UnknownTableSchema and ConversionFailed.
        """
        asked = self.asked
        known = None if key is None else asked.versions.at(key)
        if (id(witness), id(known)) not in self._found:
            table = asked.versions.of_rows(witness, key)
            if asked.whole:
                _check_whole(asked.shape, table)
            form = Form(facts_of(table, asked.temporal_text, witness, asked.zero_dates), asked.shape, asked.fields)
            if len(self._found) >= MOST_KNOWN:
                self._found.clear()
            self._found[id(witness), id(known)] = witness, known, table, form  # with what keeps the ids theirs
        _, _, table, form = self._found[id(witness), id(known)]
        return table, form


def batch_of(known: Known, schema: Any, changes: Changes, transactions: Any, binlog: MergedBinlog) -> Any:
    """Return the rows that match as a batch, None if none does."""
    asked = known.asked
    try:
        first = changes.segment.events[changes.events[0], k.E_TRANSACTION]
        table, form = known.of(changes.table, key_of(transactions[first]))
        chosen = None
        if asked.where is not None:
            every = np.arange(len(changes.cut))
            chosen = every[asked.where.matches(table, changes.cut, facts_of(table, True, changes.table), every)]
            if not len(chosen):
                return None
        gtid = _gtid(changes.segment, binlog)
        return Rows(changes, chosen, form, transactions, gtid, schema).batch()
    except Undecided as undecided:
        raise _undecided(changes, undecided, asked) from None
    except (CellValueError, BinlogFormatError) as error:
        raise _located(
            changes,
            0,
            ConversionFailed(
                f"{changes.table.schema}.{changes.table.table}: {error}",
                remedy=REMEDY,
            ),
        ) from None
    except MergeError as error:
        raise _located(changes, 0, error) from None


def _check_whole(shape: Shape, table: Table) -> None:
    known = {name.lower() for name in shape.names}
    more = [column.name for column in table.columns if column.name.lower() not in known]
    if more:
        raise ConversionFailed(
            f"{table.schema}.{table.name} has a column {more[0]} here, which it did not have when the read began",
            remedy="begin the read again: a stream goes on from its checkpoint, with the new columns",
        )


def _gtid(segment: Segment, binlog: MergedBinlog) -> bytes | None:
    """Return the text before the number in the GTIDs of a segment, None if they are anonymous."""
    at = int(segment.transactions[-1, k.T_GTID])
    anonymous = segment.begin(0).gtid == "ANONYMOUS" if at < 0 else segment.buffer[at + 4] != t.GTID_LOG_EVENT
    return None if anonymous else f"{binlog.cluster_uuid}:".encode()


def _located(changes: Changes, row: int, error: MergeError) -> MergeError:
    segment, event = changes.segment, int(changes.events[0]) if row == 0 else changes.event_of(row)
    transaction = int(segment.events[event, k.E_TRANSACTION])
    return error.located(file=segment.file, position=segment.position(event), order_key=segment.key(transaction))


def _undecided(changes: Changes, undecided: Undecided, asked: Asked) -> MergeError:
    assert asked.where is not None
    name = f"{changes.table.schema}.{changes.table.table}"
    op = changes.op_of(undecided.row)
    return _located(
        changes,
        undecided.row,
        ConfigError(
            f"{asked.where.option} {asked.where.text!r}: whether an {op} of {name} matches is not known, for its "
            f"images do not hold {', '.join(undecided.columns)} (binlog_row_image is not FULL)",
            remedy="ask by the columns of the key, which every image holds",
        ),
    )


def checked_fields(fields: Sequence[str] | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are asked for, None for all. Raises ConfigError for one that is not known."""
    there = tuple(known)
    for name in fields or ():
        if name not in there:
            raise ConfigError(f"there is no column {name}; there are {', '.join(there)}")
    return there if fields is None else tuple(fields)


def checked_ops(ops: Sequence[str] | None) -> tuple[Op, ...]:
    """Return the operations that are asked for, None for all. Raises ConfigError for one that there is not."""
    for op in ops or ():
        if op not in OPS:
            raise ConfigError(f"{op} is no operation; they are {', '.join(OPS)}")
    return OPS if ops is None else cast(tuple[Op, ...], tuple(ops))


def asked_of(
    versions: TableVersions,
    shape: Shape,
    *,
    fields: tuple[str, ...] | None = None,
    ops: tuple[Op, ...] | None = None,
    where: str | None = None,
    time_zone: str = "UTC",
    temporal_text: bool = False,
    whole: bool = True,
    zero_dates: ZeroDates = STOP,
) -> Asked:
    """Return what is asked, checked. Raises ConfigError for a wrong condition, operation or column."""
    return Asked(
        versions,
        shape,
        checked_fields(fields, FIELDS),
        checked_ops(ops),
        None if where is None else condition_on(versions.tables(), where, time_zone),
        temporal_text,
        whole,
        zero_dates,
    )
