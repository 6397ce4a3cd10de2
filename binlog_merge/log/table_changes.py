"""Changes of a table's rows, cut from a segment of a log: who reads rows reads them so, and as Arrow if it likes.

| column | type |
|---|---|
| `op` | string: insert, update, delete |
| `commit_tso` | int64; null if the log has no order keys (`output.cts`) |
| `commit_time` | timestamp[us, UTC] |
| `gtid` | string; null in a log with anonymous GTIDs |
| `order_key` | string of 54 digits, which sort as the transactions do; null as `commit_tso` is |
| `file`, `position` | string, int64: the rows event, in the log |
| `row` | int32: the number of the row in its event, from 0 on |
| `before`, `after` | struct of the table's columns (`columns`); null if there was no row |
| `before_absent`, `after_absent` | list of the columns of which the log has no value in `before` and `after` |

A column is absent if the row image does not hold it (binlog_row_image MINIMAL or NOBLOB), or only a JSON difference to
a document that it does not hold, or if the table had no such column then. It is null in the struct, but not NULL; where
no column is absent the list is null. What an update's image after does not hold is taken from the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from binlog_merge.binlog.arrow import array_over, text_over
from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, CutRows, decode_column
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.images import ImageDecoder, Images
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from binlog_merge.binlog.kernels.row_facts import KEY_DIGITS, WORD, gtids, of_events, order_keys, words
from binlog_merge.binlog.temporal import REMEDY
from binlog_merge.errors import ConversionFailed, MergeError
from binlog_merge.log.changes import OP_CODES, OPS, Changes
from binlog_merge.log.columns import Shape, fitted
from binlog_merge.log.segments import Segment
from snapshot_store.model import Table

_NAMES: Final = pa.list_(pa.string())
FIELDS: Final[dict[str, Any]] = {
    "op": pa.string(),
    "commit_tso": pa.int64(),
    "commit_time": pa.timestamp("us", tz="UTC"),
    "gtid": pa.string(),
    "order_key": pa.string(),
    "file": pa.string(),
    "position": pa.int64(),
    "row": pa.int32(),
    "before": None,
    "after": None,
    "before_absent": _NAMES,
    "after_absent": _NAMES,
}
"""The columns of a batch; `before` and `after` have the type of the shape."""
_OPS: Final = np.frombuffer("".join(OPS).encode(), np.uint8).copy()
_SIDES: Final = {"before": BEFORE, "after": AFTER, "before_absent": BEFORE, "after_absent": AFTER}


def schema_of(shape: Shape, fields: Sequence[str] = tuple(FIELDS)) -> Any:
    """Return the schema of batches with these columns."""
    return pa.schema([pa.field(name, FIELDS[name] or shape.struct) for name in fields])


def transactions_of(segment: Segment) -> Any:
    """Return the commit times and order keys of a segment's transactions (X_* of `kernels.log_index`)."""
    facts = np.zeros((len(segment.transactions), x.COLUMNS), np.int64)
    facts[:, x.X_TSO] = facts[:, x.X_AT] = -1
    facts[:, x.X_RANK] = segment.transactions[:, k.T_RANK]
    if segment.carried is not None and len(facts):
        key = segment.carried_key
        facts[0, x.X_COMMIT_US] = segment.carried.commit_us
        if key is not None:
            facts[0, [x.X_TSO, x.X_ID, x.X_SEQ, x.X_NODE]] = key
    x.begins(segment.buffer, segment.transactions, 4 if segment.checksum else 0, facts)
    return facts


def gtid_prefix(segment: Segment, uuid: str) -> bytes | None:
    """Return the text before the number in the GTIDs of a segment, None if they are anonymous."""
    at = int(segment.transactions[-1, k.T_GTID])
    anonymous = segment.begin(0).gtid == "ANONYMOUS" if at < 0 else segment.buffer[at + 4] != t.GTID_LOG_EVENT
    return None if anonymous else f"{uuid}:".encode()


class Form:
    """How the columns of a table, of which `facts` say what determines their values, become those of a shape.

    `places` are the numbers in the table of the shape's columns, None where the table has none.
    """

    def __init__(self, facts: Sequence[ColumnFacts], shape: Shape, fields: Sequence[str]) -> None:
        of_names = {one.name.lower(): place for place, one in enumerate(facts)}
        self.facts, self.shape, self.fields = facts, shape, fields
        self.places = [of_names.get(name.lower()) for name in shape.names]
        sides = [_SIDES[name] for name in ("before", "after") if name in fields]
        self.decoder = ImageDecoder(facts, sorted(place for place in self.places if place is not None), sides)


@dataclass(frozen=True)
class TableChanges:
    """Changes of a table's rows that have the same definition, `table`, in the order of the log.

    `chosen` are their numbers in `changes`, None for all of them. `transactions` is what `transactions_of` returns of
    the segment; `gtid_prefix` the text before the rank in a GTID, None in a log with anonymous GTIDs. `form` says how
    the columns become those of batches. They hold the buffer of their segment, so they never go to an executor.
    """

    changes: Changes
    chosen: Any
    table: Table
    transactions: Any
    gtid_prefix: bytes | None
    form: Form | None = None

    def __len__(self) -> int:
        return len(self.in_event[0] if self.chosen is None else self.chosen)

    @cached_property
    def rows(self) -> Any:
        """Return the numbers of the rows in `changes`."""
        return np.arange(len(self.cut)) if self.chosen is None else self.chosen

    @property
    def cut(self) -> CutRows:
        """Return the cells of all rows of `changes`."""
        return self.changes.cut

    @property
    def segment(self) -> Segment:
        """Return the segment of the rows' events."""
        return self.changes.segment

    @property
    def file(self) -> str:
        """Return the name of the log's file."""
        return self.segment.file.rpartition("/")[2]

    @cached_property
    def events(self) -> Any:
        """Return the number of each row's event in the segment."""
        return self.changes.events[self.cut.events[self.rows]]

    @cached_property
    def in_event(self) -> tuple[Any, ...]:
        """Return for each row its transaction, its operation's place in OPS, its event's position, its number there.

        What several events of a segment have of one event of the log is numbered through.
        """
        counts, events = self._counts, self.changes.row_events
        found: Any = tuple(np.empty(counts.sum(), kind) for kind in (np.int64, np.int8, np.int64, np.int32))
        of_events(counts, events, self.segment.base, OP_CODES, *found)
        return tuple(map(self._of, found))

    @property
    def ops(self) -> Any:
        """Return the operation of each row, as its place in OPS."""
        return self.in_event[1]

    @property
    def positions(self) -> Any:
        """Return where each row's event begins in the file."""
        return self.in_event[2]

    @property
    def row_numbers(self) -> Any:
        """Return the number of each row in its event."""
        return self.in_event[3]

    @property
    def ranks(self) -> Any:
        """Return the rank of each row's transaction."""
        return self.transactions[self.in_event[0], x.X_RANK]

    @property
    def commit_us(self) -> Any:
        """Return the commit time of each row in µs since 1970."""
        return self.transactions[self.in_event[0], x.X_COMMIT_US]

    @property
    def commit_tsos(self) -> Any:
        """Return the commit TSO of each row, -1 where the log does not say it."""
        return self.transactions[self.in_event[0], x.X_TSO]

    @cached_property
    def gtids(self) -> Any:
        """Return the GTID of each row as Arrow has it; null in a log with anonymous GTIDs."""
        return gtid_array(self.in_event[0], self.transactions, self.gtid_prefix)

    @cached_property
    def order_keys(self) -> Any:
        """Return the order key of each row, 54 digits, as Arrow has it; null where the log does not say it."""
        return order_key_array(self.in_event[0], self.transactions, self.segment.buffer)

    def batch(self, schema: Any) -> Any:
        """Return the rows as a record batch. Raises ConversionFailed for values that a type does not hold."""
        try:
            return pa.RecordBatch.from_arrays([self._field(field) for field in schema], schema=schema)
        except (CellValueError, BinlogFormatError) as error:
            raise self.failed(error, REMEDY) from None
        except MergeError as error:
            raise located(error, self.changes) from None

    def there(self, side: int) -> Any:
        """Return a mask of the rows that have an image on a side."""
        return self._of(self.cut.sizes[side, 0]) != NONE

    def failed(self, error: CellValueError | BinlogFormatError, remedy: str | None = None) -> MergeError:
        """Return an error that names the table and where the rows begin."""
        name = f"{self.table.schema}.{self.table.name}"
        first = None if self.chosen is None else int(self.chosen[0])
        return located(ConversionFailed(f"{name}: {error}", remedy=remedy), self.changes, first)

    @property
    def _form(self) -> Form:
        assert self.form is not None
        return self.form

    @cached_property
    def _images(self) -> Images | None:
        """Return the images of all rows, decoded at once; None if only some are wanted, or if that cannot be."""
        if self.chosen is not None or self.form is None:
            return None
        events = np.ascontiguousarray(self.changes.row_events[:, [k.E_BODY, k.E_END, k.E_KIND]])
        return self.form.decoder.decode(self.segment.buffer, events)

    def _of(self, values: Any) -> Any:
        """Return the values of the rows, of those of all rows."""
        return values if self.chosen is None else values[self.chosen]

    @property
    def _counts(self) -> Any:
        """Return how many rows each event has."""
        if self._images is not None:
            return self._images.counts
        return np.bincount(self.cut.events, minlength=len(self.changes.events))

    def _field(self, field: Any) -> Any:
        match field.name:
            case "op":
                return self._op()
            case "commit_tso":
                return array_over(self.commit_tsos, field.type, self.commit_tsos < 0)
            case "commit_time":
                return array_over(self.commit_us, field.type)
            case "gtid":
                return self.gtids
            case "order_key":
                return self.order_keys
            case "file":
                return text_over(self.file, len(self))
            case "position":
                return array_over(self.positions, field.type)
            case "row":
                return array_over(self.row_numbers, field.type)
            case "before" | "after":
                return self._image(_SIDES[field.name], field.type)
        return self._absent(_SIDES[field.name])

    def _op(self) -> Any:
        out = np.empty(WORD * len(self), np.uint8)
        words(self.in_event[1], _OPS, out)
        offsets = np.arange(len(self) + 1, dtype=np.int32) * WORD
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(out))

    def _image(self, side: int, struct: Any) -> Any:
        columns = [
            pa.nulls(len(self), kind)
            if place is None
            else fitted(self._column(side, place), kind, self._form.facts[place])
            for place, kind in zip(self._form.places, self._form.shape.types, strict=True)
        ]
        if self._images is not None:
            mask, missing = self._images.mask(side), self._images.missing[side]
        else:
            there = self.there(side)
            missing = len(there) - int(np.count_nonzero(there))
            mask = pa.py_buffer(np.packbits(there, bitorder="little")) if missing else None
        return pa.Array.from_buffers(struct, len(self), [mask], missing, children=columns)

    def _column(self, side: int, place: int) -> Any:
        """Return the values of a column."""
        found = None if self._images is None else self._images.array(side, place)
        if found is not None:
            return found
        cut = self.cut
        starts, sizes = self._of(cut.starts[side, place]), self._of(cut.sizes[side, place])
        return decode_column(self._form.facts[place], cut.buffer, starts, sizes)

    def _absent(self, side: int) -> Any:
        every = None not in self._form.places
        if every and (self._images is not None or not (self.cut.sizes[side] == ABSENT).any()):
            return pa.nulls(len(self), _NAMES)
        there, sizes = self.there(side), self.cut.sizes[side]
        lacking = np.zeros((len(self), len(self._form.places)), bool)
        for number, place in enumerate(self._form.places):
            absent = True if place is None else self._of(sizes[place]) == ABSENT
            lacking[:, number] = there & absent
        counts = lacking.sum(axis=1)
        if not counts.any():
            return pa.nulls(len(self), _NAMES)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        values = pa.array(self._form.shape.names, pa.string()).take(pa.array(np.nonzero(lacking)[1]))
        return pa.ListArray.from_arrays(pa.array(offsets), values, type=_NAMES, mask=pa.array(counts == 0))


def located(error: MergeError, changes: Changes, row: int | None = None) -> MergeError:
    """Return an error with the place of a row's event, by its number; None: of the first event."""
    segment, event = changes.segment, int(changes.events[0]) if row is None else changes.event_of(row)
    key = segment.key(int(segment.events[event, k.E_TRANSACTION]))
    return error.located(file=segment.file, position=segment.position(event), order_key=key)


def gtid_array(numbers: Any, transactions: Any, prefix: bytes | None) -> Any:
    """Return the GTIDs: `prefix` (the UUID and a colon), then the rank. Null without a prefix: the log has none."""
    count = len(numbers)
    if prefix is None:
        return pa.nulls(count, pa.string())
    offsets, out = np.empty(count + 1, np.int32), np.empty(count * (len(prefix) + 19), np.uint8)
    used = gtids(numbers, transactions, np.frombuffer(prefix, np.uint8).copy(), offsets, out)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(out[:used]))


def order_key_array(numbers: Any, transactions: Any, buffer: Any) -> Any:
    """Return the order keys, of 54 digits each; null where the log does not say them.

    `buffer` has the segment's bytes; empty, keys are those that `transactions` itself has.
    """
    count = len(numbers)
    out, valid = np.empty(count * KEY_DIGITS, np.uint8), np.empty(count, np.uint8)
    found = order_keys(numbers, transactions, buffer, out, valid)
    offsets = np.arange(count + 1, dtype=np.int32) * KEY_DIGITS
    mask = None if found == count else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(out), mask, count - found)
