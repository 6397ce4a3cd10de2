"""The gather stage: write one output file, from rows in global order and the bytes they point at.

Rows are taken in windows of a few thousand branches; their byte ranges are read, coalesced, into one buffer, and the
render kernel writes whole transactions from it. A transaction too big for that is streamed piece by piece
(`stages.giant`). What is not understood stops the file right before its transaction: the file is then a valid, shorter
one, and the error comes back as a value with it.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels.render import render_window
from binlog_merge.errors import ChecksumMismatch, MergeError, UnsupportedInput
from binlog_merge.files.source import io_error, open_source
from binlog_merge.merge.render import heartbeat, pack_ddl, pack_head, pack_rotate
from binlog_merge.stages.block import view
from binlog_merge.stages.gather_state import Gather, GatherResult, GatherTask, Output, serve
from binlog_merge.stages.giant import write_giant
from binlog_merge.stages.judging import judge_window
from binlog_merge.stages.window import WINDOW_BYTES, Rows, window, window_end
from snapshot_store.tso import OrderKey

FLUSH = 4 << 20


def gather(task: GatherTask) -> GatherResult:
    """Write one output file; what stops it early is returned as `error` beside the valid prefix."""
    fd = os.open(task.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    out = Output(fd, task.path)
    state = Gather(task, out)
    error: dict[str, Any] | None = None
    try:
        _begin(task, state)
        try:
            for path, start, stop in task.runs:
                _write_run(state, Rows.load(path, start, stop))
        except MergeError as raised:
            error = raised.to_dict()
        except BinlogFormatError as raised:
            error = ChecksumMismatch(raised.reason, file=raised.file or None).to_dict()
        state.flush()
        closed = error is None and task.next_name is not None
        if closed:
            assert task.next_name is not None
            rotate = pack_rotate(task.head, task.next_name, state.last_timestamp, out.position)
            out.buffer[: len(rotate)] = np.frombuffer(rotate, np.uint8)
            out.write(len(rotate))
        out.sync()
    finally:
        state.close()
        out.close()
    reg = state.reg
    return GatherResult(
        name=task.name,
        path=task.path,
        size=out.position,
        rank=int(reg[k.RANK]),
        sequence=int(reg[k.SEQUENCE]),
        first_key=state.first_key,
        last_key=state.last_key,
        last_timestamp=state.last_timestamp,
        input_bytes=state.input_bytes,
        transactions=int(reg[k.RANK]) - task.rank,
        branches=state.branches,
        events=int(reg[k.EVENTS]),
        row_events=int(reg[k.ROW_EVENTS]),
        reshaped=int(reg[k.RESHAPED_ROWS]),
        ddl=state.ddl,
        closed=closed,
        error=error,
        believed=tuple(sorted(state.plans.believed)),
        failed=_key_at(task.runs, state.branches) if error is not None else None,
    )


def _key_at(runs: Sequence[tuple[str, int, int]], row: int) -> OrderKey | None:
    """Return the key of the n-th row of the runs."""
    for path, start, stop in runs:
        if row < stop - start:
            return Rows.load(path, start, stop).key(row)
        row -= stop - start
    return None


def _begin(task: GatherTask, state: Gather) -> None:
    """Write the head of a new file, or copy the published part of one that goes on."""
    out = state.out
    if task.prefix is None:
        first = Rows.load(*task.runs[0][:2], task.runs[0][1] + 1)
        head = pack_head(task.head, int(first.commit_us[0]) // 1_000_000, task.rank - 1)
        out.buffer[: len(head)] = np.frombuffer(head, np.uint8)
        out.write(len(head))
    else:
        path, size = task.prefix
        with open_source(path) as source:
            while out.position < size:
                part = view(out.buffer)[: min(len(out.buffer), size - out.position)]
                got = source.read_into(part, out.position)
                if got != len(part):
                    raise io_error(OSError(0, "the published file is shorter than the manifest says"), path)
                out.write(got)
    state.reg[k.FILE_BASE] = out.position


def _write_run(state: Gather, rows: Rows) -> None:
    """Write a run's rows, a new epoch of plans at every schema version among them."""
    if not len(rows):
        return
    edges = rows.edges(state.task.schemas.boundaries())
    # The rows of a CREATE TABLE ... SELECT see the table it makes: an epoch of their own.
    edges += [edge for row in np.flatnonzero(rows.flags & ks.FLAG_CREATE_SELECT).tolist() for edge in (row, row + 1)]
    start = 0
    for stop in sorted({*edges, len(rows)}):
        if stop > start:
            state.plans.begin_epoch()
            _write_epoch(state, rows, start, stop)
            start = stop


def _write_epoch(state: Gather, rows: Rows, start: int, stop: int) -> None:
    while start < stop:
        end = window_end(rows, start, stop)
        size = int(rows.end[start:end].sum() - rows.start[start:end].sum())
        # The bytes of a DDL's markers are not read, however many there are.
        if size > 2 * WINDOW_BYTES and not rows.flags[start] & ks.MARKER:
            write_giant(state, rows, start, end)  # one transaction alone
        else:
            _write_window(state, rows, start, end)
        start = end
        if state.reg[k.OUT] > FLUSH:
            state.flush()


def _write_window(state: Gather, rows: Rows, start: int, stop: int) -> None:
    read = window(state, rows, start, stop)
    verdicts = judge_window(state, read, rows, start)
    state.judged(verdicts)
    segments, keys = read.segments, read.keys
    reg, out = state.reg, state.out
    reg[k.SEGMENT], reg[k.IN], reg[k.LENGTH_WIDTH] = 0, -1, 0
    written = start
    try:
        while True:
            reason = int(
                render_window(reg, state.plans.arrays, state.input, segments, keys, state.sid, out.buffer, state.inject)
            )
            if reason == k.FINISHED:
                state.done(rows, written, stop)
                return
            row = start + int(read.begins[reg[k.SEGMENT]])
            if reason == k.FULL:
                if reg[k.OUT] == 0:
                    end = rows.transaction_end(row)
                    state.done(rows, written, row)
                    written = row
                    write_giant(state, rows, row, end)
                    state.judged(verdicts)
                    written = end
                    reg[k.SEGMENT], reg[k.IN] = read.behind(end - start), -1
                else:
                    state.flush()
            elif reason == k.DDL_NEXT:
                end = rows.transaction_end(row)
                _write_ddl(state, rows, row)
                reg[k.SEGMENT] = read.behind(end - start)
            else:
                row = start + int(read.row[reg[k.SEGMENT]])
                serve(state, reason, int(segments[reg[k.SEGMENT], k.S_CRC]), state.input, rows, row)
    except MergeError:
        # Undo the transaction that is open, keep the whole ones before it.
        open_segment = int(reg[k.TXN_SEGMENT] if reg[k.IN] >= 0 else reg[k.SEGMENT])
        open_row = start + int(read.begins[open_segment]) if open_segment < len(segments) else stop
        if reg[k.IN] >= 0:
            reg[k.OUT] = reg[k.TXN_OUT]
        state.done(rows, written, max(written, open_row))
        raise


def _write_ddl(state: Gather, rows: Rows, row: int) -> None:
    """Write the logical DDL that stands at a row's key."""
    key = rows.key(row)
    beats = bool(rows.flags[row] & ks.HEARTBEAT)
    ddl = heartbeat(key) if beats else state.task.ddl.get(key) or state.task.ddl[key._replace(seq=0, node_seq=0)]
    if state.plans.filter is not None and not beats:
        try:
            ddl = state.plans.filter.statement(ddl)
        except MergeError as error:
            raise error.located(order_key=key) from None
    data, events = pack_ddl(
        state.task.head,
        ddl,
        rank=int(state.reg[k.RANK]),
        sequence=int(state.reg[k.SEQUENCE]),
        commit_us=int(rows.commit_us[row]),
        position=int(state.reg[k.FILE_BASE] + state.reg[k.OUT]),
    )
    if state.reg[k.OUT] + len(data) > len(state.out.buffer):
        state.flush()
        if len(data) > len(state.out.buffer):
            raise UnsupportedInput(f"a DDL statement of {len(data)} bytes", order_key=key)
    at = int(state.reg[k.OUT])
    state.out.buffer[at : at + len(data)] = np.frombuffer(data, np.uint8)
    state.reg[k.OUT] += len(data)
    state.reg[k.EVENTS] += events
    state.reg[k.RANK] += 1
    state.reg[k.SEQUENCE] += 1
    state.ddl += not beats
