"""Loads every kernel before workers are forked: compiled on a machine's first run, later read from the cache."""

import numpy as np

from binlog_merge.binlog.kernels import (
    asked,
    frame,
    render,
    render_layout,
    scan,
    scan_layout,
    scan_tables,
    sort,
    trace,
    xid,
)
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.schemas import Schemas
from binlog_merge.pipeline.scan.walk import new_arrays
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology


def warm() -> None:
    """Call each kernel on empty input, with the argument types that the stages use."""
    nothing = np.zeros(64, np.uint8)
    scan.scan_events(new_arrays(16), nothing, 0, 1 << 62, 4, 1, False)
    scan.find_group(nothing, 0, 0, 0, 4, 0)
    scan_tables.name_hash(nothing)
    arrays = new_arrays(16)
    xid.rehash(arrays.xids, arrays.tsos, scan_layout.C_STATE, True)
    plans = PlanTable(Schemas(SchemaHistory(), Topology()), {}).arrays
    registers, out = np.zeros(render_layout.REGISTERS, np.int64), np.zeros(1024, np.uint8)
    segments = np.zeros((0, render_layout.S_COLUMNS), np.int64)
    keys = np.zeros((0, render_layout.K_COLUMNS), np.int64)
    render.render_window(registers, plans, nothing, segments, keys, nothing, out, nothing)
    render.render_events(registers, plans, nothing, 0, 4, 1, out, nothing)
    found = np.zeros((0, render_layout.F_COLUMNS), np.int64)
    asked.find_in_window(registers, plans, nothing, segments, found)
    asked.find_in_events(registers, plans, nothing, 0, 4, 1, found)
    asked.reshape_found(plans, nothing, found, out, np.zeros((0, 3), np.int64), np.zeros(0, np.int64))
    key = np.zeros(render_layout.K_COLUMNS, np.int64)
    frame.begin_transaction(out, registers, nothing, key, 4)
    frame.end_transaction(out, registers, key)
    frame.write_gtid(out, 0, registers, nothing, 0, 0, 4, 0)
    frame.length_width(100)
    render.plan_hash(nothing, 1)
    pieces = np.zeros((1, trace.P_COLUMNS), np.int64)
    trace.trace_window(nothing, segments, pieces, pieces[0])
    trace.read_hint(nothing, 0, 0, pieces[0])
    sort.sorted_places(np.zeros((7, 0), np.int64))
