"""Finds the rows events of a buffer that are to be looked at before any of them is rendered.

A column of the plans says which tables they are of: `ASKED` by a filter, or `KEYED` (see `pipeline.gather.keyed`). The
search ends at the first table map that cannot be planned: rendering stops there too, and reports why.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.asked import find_in_events, find_in_window
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.verdicts import Bytes

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
