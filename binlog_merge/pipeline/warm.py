"""Loads every kernel of a merge before workers are forked: compiled on a machine's first run, then read from a cache.

`python -m binlog_merge.pipeline.warm PART` compiles a part of them, and prints a line for each function that is done:
`pipeline.compiling` starts a process for each part.
"""

import signal
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numba.core import event

from binlog_merge.binlog.kernels import (
    cache,
    exchanges,
    index_rows,
    key_hashes,
    packed_columns,
    render,
    render_layout,
    row_cells,
    scan,
    scan_layout,
    scan_tables,
    trace,
    transaction_events,
    xid,
)
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.values import Schemas
from binlog_merge.pipeline.scan.walk import new_arrays
from binlog_merge.reshape.writesets import OFF, History, Writesets
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology

_NOTHING: Final = np.zeros(64, np.uint8)


def warm() -> None:
    """Call each kernel on empty input, with the argument types that the stages use."""
    for load in PARTS.values():
        load()


def _walking() -> None:
    scan.scan_events(new_arrays(16), _NOTHING, 0, 1 << 62, 4, 1, False)
    scan.find_group(_NOTHING, 0, 0, 0, 4, 0)
    scan_tables.name_hash(_NOTHING)
    arrays = new_arrays(16)
    xid.rehash(arrays.xids, arrays.tsos, scan_layout.C_STATE, True)


def _writing() -> None:
    plans = PlanTable(Schemas(SchemaHistory(), Topology()), {}).arrays
    registers, out = np.zeros(render_layout.REGISTERS, np.int64), np.zeros(1024, np.uint8)
    segments = np.zeros((0, render_layout.S_COLUMNS), np.int64)
    keys = np.zeros((0, render_layout.K_COLUMNS), np.int64)
    render.render_window(registers, plans, _NOTHING, segments, keys, _NOTHING, out, _NOTHING, OFF)
    render.render_events(registers, plans, _NOTHING, 0, 4, 1, out, _NOTHING, OFF)
    Writesets(lambda *_: None, lambda _: {}, History()).take(out, 0)
    found = np.zeros((0, render_layout.F_COLUMNS), np.int64)
    render.find_in_window(registers, plans, _NOTHING, segments, found, render_layout.ASKED)
    render.find_in_events(registers, plans, _NOTHING, 0, 4, 1, found, render_layout.ASKED)
    render.reshape_found(plans, _NOTHING, found, out, np.zeros((0, 3), np.int64), np.zeros(0, np.int64))
    cells, columns, none = np.zeros((2, 1, 0), np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64)
    key_hashes.hash_keys(_NOTHING, cells, cells, columns, 0, none, 0, none, none)
    row_cells.count_rows(_NOTHING, np.zeros((0, 3), np.int64), columns, columns, cells, none)
    row_cells.cut_events(_NOTHING, np.zeros((0, 3), np.int64), columns, columns, cells, cells)
    row_cells.differing(_NOTHING, cells, cells, 0, out)
    trace.cut_pieces(_NOTHING, 0, 0, 4, 0, np.zeros((1, trace.P_COLUMNS), np.int64), 0, np.zeros(4, np.int64))
    key = np.zeros(render_layout.K_COLUMNS, np.int64)
    transaction_events.begin_transaction(out, registers, _NOTHING, key, 4)
    transaction_events.end_transaction(out, registers, key)
    transaction_events.write_gtid(out, 0, registers, _NOTHING, 0, 0, 4, 0, 0)
    transaction_events.length_width(100)
    render.plan_hash(_NOTHING, 1)
    pieces = np.zeros((1, trace.P_COLUMNS), np.int64)
    trace.trace_window(_NOTHING, segments, pieces, pieces[0])
    trace.read_hint(_NOTHING, 0, 0, pieces[0])
    exchanges.may_exchange(_NOTHING, plans, found, none, none, 0, found, _NOTHING)
    rows = np.zeros((7, 0), np.int64)
    index_rows.sorted_places(rows)
    index_rows.points(np.zeros((0, 7), np.int64), 0, 0, 0, 1, rows)
    layout = np.zeros((len(rows), packed_columns.L_FIELDS), np.int64)
    packed_columns.pack(rows, layout, out)
    packed_columns.unpack(_NOTHING, 0, layout, none, rows)


PARTS: Final[dict[str, Callable[[], None]]] = {"walking": _walking, "writing": _writing}
"""Parts that take about as long to compile."""


class _Reporting(event.Listener):
    def on_start(self, event: Any) -> None:
        """Do nothing."""

    def on_end(self, event: Any) -> None:
        """Print a function that is done."""
        print(event.data["dispatcher"].py_func.__name__, flush=True)


def main() -> None:
    """Compile the part that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C also reaches the command that has started this
    event.register("numba:compile", _Reporting())
    event.unregister("numba:compile", cache.TELLER)
    PARTS[sys.argv[1]]()


if __name__ == "__main__":
    main()
