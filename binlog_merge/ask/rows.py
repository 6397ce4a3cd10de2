"""Rows of one table, cut from a segment, as a record batch.

| column | type |
|---|---|
| `op` | string: insert, update, delete |
| `commit_tso` | int64; null if the log has no order keys (`output.cts`) |
| `commit_time` | timestamp[us, UTC] |
| `gtid` | string; null in a log with anonymous GTIDs |
| `order_key` | string of 54 digits, which sort as the transactions do; null as `commit_tso` is |
| `file`, `position` | string, int64: the rows event, in the log |
| `row` | int32: the number of the row in its event, from 0 on |
| `before`, `after` | struct of the table's columns (`shape`); null if there was no row |
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

from binlog_merge.ask.shape import Shape, fitted
from binlog_merge.binlog.arrow import array_over, text_over
from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, decode_column
from binlog_merge.binlog.images import ImageDecoder, Images
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from binlog_merge.binlog.kernels.row_facts import WORD, of_events, words
from binlog_merge.log.changes import OP_CODES, OPS, Changes
from binlog_merge.log.segments import Segment
from binlog_merge.log.transaction_texts import gtid_array, order_key_array

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


def schema_of(shape: Shape, fields: Sequence[str]) -> Any:
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


class Form:
    """How the columns of a table, of which `facts` say what determines their values, become those of a shape.

    `places` are the numbers in the table of the shape's columns, None where the table has none.
    """

    def __init__(self, facts: Sequence[ColumnFacts], shape: Shape, fields: Sequence[str]) -> None:
        of_names = {one.name.lower(): place for place, one in enumerate(facts)}
        self.facts, self.shape = facts, shape
        self.places = [of_names.get(name.lower()) for name in shape.names]
        sides = [_SIDES[name] for name in ("before", "after") if name in fields]
        self.decoder = ImageDecoder(facts, sorted(place for place in self.places if place is not None), sides)


@dataclass(frozen=True)
class Rows:
    """Some rows of a table: `chosen` are their numbers in `changes`, None for all of them.

    `transactions` is what `transactions_of` returns; `gtid` the text before the rank in a GTID, None in a log with
    anonymous GTIDs. The batches have the columns of `schema`.
    """

    changes: Changes
    chosen: Any
    form: Form
    transactions: Any
    gtid: bytes | None
    schema: Any

    def __len__(self) -> int:
        return len(self._in_event[0])

    def batch(self) -> Any:
        """Return the rows as a record batch. Raises what decoding does, and ConversionFailed."""
        return pa.RecordBatch.from_arrays([self._field(field) for field in self.schema], schema=self.schema)

    def _field(self, field: Any) -> Any:
        name = field.name
        if name in ("before", "after"):
            return self._image(_SIDES[name], field.type)
        if name in ("before_absent", "after_absent"):
            return self._absent(_SIDES[name])
        return getattr(self, f"_{name}")()

    @cached_property
    def _images(self) -> Images | None:
        """Return the images of all rows, decoded at once; None if only some are wanted, or if that cannot be."""
        if self.chosen is not None:
            return None
        events = np.ascontiguousarray(self.changes.row_events[:, [k.E_BODY, k.E_END, k.E_KIND]])
        return self.form.decoder.decode(self.changes.segment.buffer, events)

    def _of(self, values: Any) -> Any:
        """Return the values of the rows, of those of all rows."""
        return values if self.chosen is None else values[self.chosen]

    @property
    def _counts(self) -> Any:
        """Return how many rows each event has."""
        if self._images is not None:
            return self._images.counts
        return np.bincount(self.changes.cut.events, minlength=len(self.changes.events))

    @cached_property
    def _in_event(self) -> tuple[Any, ...]:
        """Return for each row its transaction, its operation's place in OPS, its event's position, its number there."""
        counts, events = self._counts, self.changes.row_events
        found: Any = tuple(np.empty(counts.sum(), kind) for kind in (np.int64, np.int8, np.int64, np.int32))
        of_events(counts, events, self.changes.segment.base, OP_CODES, *found)
        return tuple(map(self._of, found))

    def _op(self) -> Any:
        out = np.empty(WORD * len(self), np.uint8)
        words(self._in_event[1], _OPS, out)
        offsets = np.arange(len(self) + 1, dtype=np.int32) * WORD
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(out))

    def _of_transaction(self, column: int) -> Any:
        return self.transactions[self._in_event[0], column]

    def _commit_tso(self) -> Any:
        values = self._of_transaction(x.X_TSO)
        return array_over(values, pa.int64(), values < 0)

    def _commit_time(self) -> Any:
        return array_over(self._of_transaction(x.X_COMMIT_US), FIELDS["commit_time"])

    def _gtid(self) -> Any:
        return gtid_array(self._in_event[0], self.transactions, self.gtid)

    def _order_key(self) -> Any:
        return order_key_array(self._in_event[0], self.transactions, self.changes.segment.buffer)

    def _file(self) -> Any:
        return text_over(self.changes.segment.file.rpartition("/")[2], len(self))

    def _position(self) -> Any:
        return array_over(self._in_event[2], pa.int64())

    def _row(self) -> Any:
        return array_over(self._in_event[3], pa.int32())

    def _image(self, side: int, struct: Any) -> Any:
        columns = [
            pa.nulls(len(self), kind)
            if place is None
            else fitted(self._column(side, place), kind, self.form.facts[place])
            for place, kind in zip(self.form.places, self.form.shape.types, strict=True)
        ]
        if self._images is not None:
            mask, missing = self._images.mask(side), self._images.missing[side]
        else:
            there = self._there(side)
            missing = len(there) - int(np.count_nonzero(there))
            mask = pa.py_buffer(np.packbits(there, bitorder="little")) if missing else None
        return pa.Array.from_buffers(struct, len(self), [mask], missing, children=columns)

    def _column(self, side: int, place: int) -> Any:
        """Return the values of a column."""
        found = None if self._images is None else self._images.array(side, place)
        if found is not None:
            return found
        cut = self.changes.cut
        starts, sizes = self._of(cut.starts[side, place]), self._of(cut.sizes[side, place])
        return decode_column(self.form.facts[place], cut.buffer, starts, sizes)

    def _there(self, side: int) -> Any:
        return self._of(self.changes.cut.sizes[side, 0]) != NONE

    def _absent(self, side: int) -> Any:
        every = None not in self.form.places
        if every and (self._images is not None or not (self.changes.cut.sizes[side] == ABSENT).any()):
            return pa.nulls(len(self), _NAMES)
        there, sizes = self._there(side), self.changes.cut.sizes[side]
        lacking = np.zeros((len(self), len(self.form.places)), bool)
        for number, place in enumerate(self.form.places):
            absent = True if place is None else self._of(sizes[place]) == ABSENT
            lacking[:, number] = there & absent
        counts = lacking.sum(axis=1)
        if not counts.any():
            return pa.nulls(len(self), _NAMES)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        values = pa.array(self.form.shape.names, pa.string()).take(pa.array(np.nonzero(lacking)[1]))
        return pa.ListArray.from_arrays(pa.array(offsets), values, type=_NAMES, mask=pa.array(counts == 0))
