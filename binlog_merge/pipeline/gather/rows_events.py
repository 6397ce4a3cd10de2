"""Finds the rows events of a buffer that are to be looked at before any of them is rendered, and makes their bodies in
the logical shape.

A column of the plans says which tables they are of: `ASKED` by a filter, or `KEYED` (see `pipeline.gather.keyed`). The
search ends at the first table map that cannot be planned: rendering stops there too, and reports why.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.render import find_in_events, find_in_window, reshape_found
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.reshape.plan_of import reshape_rows

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Verdicts:
    """The verdict on each rows event, by the offset at which it begins in its buffer: see `render_layout`.

    `ready` has new bodies, in the logical shape, with the number of rows reshaped for each.
    """

    of: Bytes = field(default_factory=lambda: np.zeros(1, np.uint8))
    ready: dict[int, tuple[bytes, int]] = field(default_factory=dict)

    def has(self, at: int) -> bool:
        """Return whether there is a verdict on the event that begins at an offset."""
        return at < len(self.of) and int(self.of[at]) != k.NOT_JUDGED


NO_VERDICTS: Final = Verdicts()


Ints = npt.NDArray[np.int64]


def rows_in_window(
    plans: PlanTable, buffer: Bytes, segments: Ints, row: Column, rows: Rows, start: int, column: int
) -> Ints:
    """Return the rows events (F_*) of segments of a window. `row` are the segments' rows, from rows[start] on."""
    reg = np.zeros(k.REGISTERS, np.int64)
    reg[k.IN] = -1

    def learn() -> None:
        segment = int(reg[k.SEGMENT])
        _learn(plans, buffer, reg, int(segments[segment, k.S_CRC]), rows, start + int(row[segment]))

    return _find(lambda room: int(find_in_window(reg, plans.arrays, buffer, segments, room, column)), reg, learn)


def rows_in_piece(
    plans: PlanTable, known: int, rows: Rows, row: int, buffer: Bytes, end: int, crc: int, column: int
) -> tuple[Ints, int]:
    """Return the rows events (F_*) of `buffer[:end]`, a piece of a branch with `known` table maps before it.

    The second value is the number of table maps up to its end.
    """
    reg = np.zeros(k.REGISTERS, np.int64)
    reg[k.N_MAPS] = known
    node = int(rows.node[row])
    found = _find(
        lambda room: int(find_in_events(reg, plans.arrays, buffer, end, crc, node, room, column)),
        reg,
        lambda: _learn(plans, buffer, reg, crc, rows, row),
    )
    return found, int(reg[k.N_MAPS])


def _find(search: Callable[[Ints], int], reg: Ints, learn: Callable[[], None]) -> Ints:
    """Return the rows events, up to the first table map that cannot be planned."""
    found = np.zeros((1024, k.F_COLUMNS), np.int64)
    while True:
        reason = search(found)
        if reason == k.FULL:
            found = np.concatenate([found, np.zeros_like(found)])
        elif reason == k.NEW_PLAN:
            try:
                learn()
            except (MergeError, BinlogFormatError):
                break
        else:
            break
    return found[: int(reg[k.ROW_EVENTS])]


def _learn(plans: PlanTable, buffer: Bytes, reg: Ints, crc: int, rows: Rows, row: int) -> None:
    at = int(reg[k.IN])
    size = EventHeader.parse(buffer[at : at + 19].tobytes()).event_size
    plans.learn_row(buffer[at + 19 : at + size - crc].tobytes(), rows, row)


BATCH_BYTES = 2 << 20
"""Bytes of row images that are looked at together, unless a single event has more."""
_PARTIAL: Final = int(EventType.PARTIAL_UPDATE_ROWS_EVENT)


@dataclass(frozen=True)
class Bodies:
    """Bodies of rows events in the logical shape: `places` are (begin, end, type) in `source`, `rows` counts reshaped
    rows.

    `own`: the bodies must be written as they are here, since the kernel cannot make them.
    """

    source: Bytes
    places: Ints
    rows: Ints
    own: bool = False


class LogicalBodies:
    """Makes the bodies of rows events found in a buffer; `commit_us` has the commit time of each segment."""

    def __init__(self, plans: PlanTable, buffer: Bytes, commit_us: Ints) -> None:
        self._plans, self._buffer, self._commit_us = plans, buffer, commit_us

    def batches(self, events: Ints) -> Iterator[tuple[Ints, Callable[[Ints], Bodies]]]:
        """Yield the events in batches of bounded size, each with the function that makes its bodies."""
        plans = self._plans.arrays.plans[events[:, k.F_PLAN]]
        ways = np.where(plans[:, k.KIND] == k.IDENTITY, 0, np.where(plans[:, k.KIND] == k.RESHAPE, 1, 2))
        ways[events[:, k.F_KIND] == _PARTIAL] = 2
        for way, bodies_of in enumerate((self.in_place, self.by_kernel, self.by_python)):
            for batch in _batches(events[ways == way]):
                yield batch, bodies_of

    def in_place(self, events: Ints) -> Bodies:
        """Return the bodies of events whose rows have the logical shape already."""
        return Bodies(self._buffer, events[:, [k.F_BODY, k.F_END, k.F_KIND]], np.zeros(len(events), np.int64))

    def by_kernel(self, events: Ints) -> Bodies:
        """Return the bodies of events that the kernel reshapes."""
        size = int((events[:, k.F_END] - events[:, k.F_BODY]).sum()) + 2 * k.FRAME
        places, rows = np.zeros((len(events), 3), np.int64), np.zeros(len(events), np.int64)
        while True:
            source = np.empty(2 * size, np.uint8)
            done = int(reshape_found(self._plans.arrays, self._buffer, events, source, places, rows))
            if done == len(events):
                return Bodies(source, places, rows)
            if rows[done] < 0:
                raise BinlogFormatError("a rows event contradicts its table map, or no row is left of it")
            size *= 2

    def by_python(self, events: Ints) -> Bodies:
        """Return the bodies of events that only Python can reshape."""
        own, rows = [], []
        for _, begin, end, kind, number, segment in events[:, : k.F_COLUMNS].tolist():
            plan, body = self._plans.reshape[number], self._buffer[begin:end].tobytes()
            assert plan is not None
            made = (body, 0) if plan.identity else reshape_rows(plan, kind, body, int(self._commit_us[segment]))
            own.append(made[0])
            rows.append(made[1])
        ends = np.cumsum([len(body) for body in own])
        places = np.stack([np.concatenate([[0], ends[:-1]]), ends, events[:, k.F_KIND]], axis=1)
        return Bodies(np.frombuffer(bytearray().join(own), np.uint8), places, np.array(rows, np.int64), own=True)


def _batches(events: Ints) -> Iterator[Ints]:
    """Split events into batches of bounded size."""
    if len(events):
        batch = np.cumsum(events[:, k.F_END] - events[:, k.F_BODY]) // BATCH_BYTES
        yield from np.split(events, np.flatnonzero(np.diff(batch)) + 1)
