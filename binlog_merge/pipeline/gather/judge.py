"""Applies a filter to the rows events of a window, all at once, before any of them is rendered.

    found      rows events of tables whose rows the filter examines, in the order of the render kernel
    judged     all of one logical shape and kind together: cut, the columns that expressions need decoded to Arrow, each
               expression evaluated once
    verdicts   kept, left out, or ready: Python has the new body

An event that cannot be judged in this way (a row that cannot be decoded, a rule that makes rows an error) gets no
verdict. It is judged alone when its transaction is written, and stops the merge there, not before. So the output does
not depend on how rows are batched.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.columnar import AFTER, BEFORE, CutRows
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.rows import RowsEvent, present_columns
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.rows_events import (
    NO_VERDICTS,
    Bodies,
    Bytes,
    LogicalBodies,
    Verdicts,
    rows_in_piece,
    rows_in_window,
)
from binlog_merge.pipeline.gather.traces import Window
from binlog_merge.values.convert.cells import ConversionError

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.filtering import OutputFilter, Shape

Ints = npt.NDArray[np.int64]
_PARTIAL: Final = int(EventType.PARTIAL_UPDATE_ROWS_EVENT)


def judge_window(plans: PlanTable, buffer: Bytes, read: Window, rows: Rows, start: int) -> Verdicts:
    """Judge the rows events of a window whose bytes are in `buffer`; rows[start] is its first row."""
    if plans.filter is None or not plans.filter.asks:
        return NO_VERDICTS
    found = rows_in_window(plans, buffer, read.segments, read.row, rows, start, k.ASKED)
    return _Judge(plans, plans.filter, buffer, read.keys[:, k.K_TSO], read.keys[:, k.K_COMMIT_US]).judge(found)


def judge_piece(plans: PlanTable, known: int, rows: Rows, row: int, buffer: Bytes, end: int, crc: int) -> Verdicts:
    """Judge the rows events of `buffer[:end]`, a piece of a branch with `known` table maps before it."""
    if plans.filter is None or not plans.filter.asks:
        return NO_VERDICTS
    maps = plans.arrays.maps[:known].copy()
    found, _ = rows_in_piece(plans, known, rows, row, buffer, end, crc, k.ASKED)
    plans.arrays.maps[:known] = maps  # rendering begins where the search began
    tso, commit_us = (np.array([value[row]], np.int64) for value in (rows.columns["tso"], rows.commit_us))
    return _Judge(plans, plans.filter, buffer, tso, commit_us).judge(found)


class _Judge:
    def __init__(
        self, plans: PlanTable, output_filter: "OutputFilter", buffer: Bytes, tso: Ints, commit_us: Ints
    ) -> None:
        self.plans, self.filter = plans, output_filter
        self.bodies = LogicalBodies(plans, buffer, commit_us)
        self.tso = tso
        self.verdicts = Verdicts(np.zeros(len(buffer), np.uint8))

    def judge(self, found: Ints) -> Verdicts:
        """Return the verdicts on rows events."""
        plans = self.plans.arrays.plans[found[:, k.F_PLAN]]
        out = self.filter.leaves_out(self.tso)[found[:, k.F_SEGMENT]]
        self._set(found[out], k.LEFT_OUT)
        for number in np.unique(plans[:, k.ASKED]).tolist():
            shape = self.plans.asked_shapes[number - 1]
            for op, kinds in self.filter.KINDS.items():
                chosen = (plans[:, k.ASKED] == number) & np.isin(found[:, k.F_KIND], kinds) & ~out
                decision = self.filter.of_kind(shape, op)
                if decision.action == "Error" or not chosen.any():
                    continue
                if decision.ignored or not self.filter.concerns(shape):
                    self._set(found[chosen], k.LEFT_OUT if decision.ignored else k.KEPT)
                    continue
                for batch, bodies_of in self.bodies.batches(found[chosen]):
                    self._ask(shape, op, batch, bodies_of)
        return self.verdicts

    def _set(self, events: Ints, verdict: int) -> None:
        self.verdicts.of[events[:, k.F_EVENT]] = verdict

    def _ask(self, shape: "Shape", op: Any, events: Ints, bodies_of: Callable[[Ints], Bodies]) -> bool:
        """Judge events by their rows' values. If an event fails, judge those before the first one that does; returns
        False then.
        """
        try:
            bodies = bodies_of(events)
            ignored, cut = self.filter.ignored(shape, op, bodies.source, bodies.places)
        except (MergeError, BinlogFormatError, ConversionError):
            half = len(events) // 2
            return bool(half) and all(self._ask(shape, op, part, bodies_of) for part in (events[:half], events[half:]))
        counts = np.bincount(cut.events, minlength=len(events))
        gone = np.bincount(cut.events, ignored, len(events)).astype(np.int64)
        verdicts = np.where(gone == 0, k.READY if bodies.own else k.KEPT, k.READY)
        verdicts[(gone == counts) & (counts > 0)] = k.LEFT_OUT
        self.verdicts.of[events[:, k.F_EVENT]] = verdicts
        ends = np.cumsum(counts)
        for n in np.flatnonzero(verdicts == k.READY).tolist():
            kept = ~ignored[ends[n] - counts[n] : ends[n]]
            body = self._body(shape, bodies, cut, n, slice(int(ends[n] - counts[n]), int(ends[n])), kept)
            self.verdicts.ready[int(events[n, k.F_EVENT])] = body, int(bodies.rows[n])
        return True

    def _body(self, shape: "Shape", bodies: Bodies, cut: CutRows, n: int, rows: slice, kept: Any) -> bytes:
        begin, end, kind = bodies.places[n].tolist()
        body = bodies.source[begin:end].tobytes()
        if kept.all():
            return body
        if kind == _PARTIAL:
            return self.filter.without(shape, kind, body, kept)
        event = RowsEvent.parse(kind, body)
        images = np.frombuffer(event.rows, np.uint8)[np.repeat(kept, row_lengths(cut, rows, event))]
        return replace(event, rows=images.tobytes()).pack()


def row_lengths(cut: CutRows, rows: slice, event: RowsEvent) -> Ints:
    """Return the bytes that the images of each row of an event take: null bitmaps and cells."""
    lengths = np.zeros(rows.stop - rows.start, np.int64)
    for side, present in ((BEFORE, event.present_before), (AFTER, event.present_after)):
        if present is not None:
            columns = present_columns(present, event.column_count)
            lengths += (len(columns) + 7) // 8 + np.maximum(cut.sizes[side][columns, rows], 0).sum(axis=0)
    return lengths
