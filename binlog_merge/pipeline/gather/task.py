"""The gather stage: write one output file, from rows in global order and the bytes they refer to.

Rows are processed in windows of a few thousand branches: their byte ranges are read, coalesced, into one buffer, and
the render kernel writes whole transactions from it. A transaction too big for a window is streamed piece by piece
(`gather.giant`). An error stops the file right before its transaction: the file is then a valid, shorter one, and the
error is returned with it.
"""

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels.render import render_window
from binlog_merge.errors import ChecksumMismatch, MergeError, UnsupportedInput, io_error
from binlog_merge.files.parts import Rendered, send_part, sent
from binlog_merge.files.scratch import scratch_folder
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.gather.arranging import Doubt, no_order, window_in_order
from binlog_merge.pipeline.gather.collisions import KeysOfTask
from binlog_merge.pipeline.gather.giant import write_giant
from binlog_merge.pipeline.gather.input_reader import WINDOW_BYTES, InputReader, window, window_end
from binlog_merge.pipeline.gather.judge import judge_window
from binlog_merge.pipeline.gather.output_file import OutputFile
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.renderer import Renderer, RowsWritten, heartbeat, pack_ddl, pack_head, pack_rotate
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import GatherResult, GatherTask
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.filtering import OutputFilter

FLUSH = 4 << 20


def gather(task: GatherTask) -> GatherResult:
    """Write one output file. An error is returned as `error`, with the valid prefix written before it."""
    away = task.away
    if away is None:
        return _gathered(task, f"{task.path}.{task.name}.{uuid.uuid4().hex}", durable=True)
    with scratch_folder() as folder:
        result = render(task, folder)
        if task.begins:
            return replace(result, part=send_part(away, task.name, Path(result.path)))
        return replace(result, sent=sent(away, task.name, Rendered(Path(result.path), result.size, result.crc)))


def render(task: GatherTask, folder: Path) -> GatherResult:
    """Write one output file into a folder from which it is read and then gone; see `gather`."""
    return _gathered(task, str(folder / task.name), durable=False)


def _gathered(task: GatherTask, to: str, durable: bool) -> GatherResult:
    writesets = None
    if task.writesets:
        from binlog_merge.pipeline.gather.writeset_history import writesets_of

        writesets = writesets_of(task.schemas, task.history)
    plans = PlanTable(task.schemas, task.nodes, writesets)
    try:
        fd = os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except OSError as raised:  # also where this attempt comes when the run is over, and has removed its folder
        raise io_error(raised, to) from raised
    out, reader = OutputFile(fd, to, task.begins, durable), InputReader(task.nodes, task.files)
    work = Gathering(task, Renderer(task.head, plans, reader, out, writesets))
    written, reg = work.written, work.render.reg
    error: dict[str, Any] | None = None
    try:
        _begin(task, out)
        work.render.begin(task.rank, task.sequence, task.check_rows)
        try:
            for path, start, stop in task.runs:
                work.write_run(Rows.load(path, start, stop))
        except MergeError as raised:
            error = raised.to_dict()
        except BinlogFormatError as raised:
            error = ChecksumMismatch(raised.reason, file=raised.file or None).to_dict()
        work.render.flush()
        closed = error is None and task.next_name is not None
        if closed:
            assert task.next_name is not None
            out.append(pack_rotate(task.head, task.next_name, written.last_timestamp, out.position))
        out.sync()
    finally:
        reader.close()
        out.close()
    return GatherResult(
        name=task.name,
        path=to,
        size=out.position,
        crc=out.crc,
        rank=int(reg[k.RANK]),
        sequence=int(reg[k.SEQUENCE]),
        first_key=written.first_key,
        last_key=written.last_key,
        last_timestamp=written.last_timestamp,
        input_bytes=written.input_bytes,
        transactions=int(reg[k.RANK]) - task.rank,
        branches=written.branches,
        events=int(reg[k.EVENTS]),
        row_events=int(reg[k.ROW_EVENTS]),
        reshaped=int(reg[k.RESHAPED_ROWS]),
        ddl=written.ddl,
        closed=closed,
        error=error,
        believed=tuple(sorted(plans.believed)),
        doubted=tuple(written.doubted[known] for known in sorted(written.doubted)),
        failed=_key_at(task.runs, written.branches) if error is not None else None,
        keys=work.keys.seen(),
        dependencies=None if writesets is None else writesets.found(),
        history=None if writesets is None or closed else writesets.history(),
    )


def _key_at(runs: Sequence[tuple[str, int, int]], row: int) -> OrderKey | None:
    """Return the key of the n-th row of the runs, None if there are fewer."""
    for path, start, stop in runs:
        if row < stop - start:
            return Rows.load(path, start, stop).key(row)
        row -= stop - start
    return None


def _begin(task: GatherTask, out: OutputFile) -> None:
    """Write the head of a new file."""
    if not task.begins:
        first = Rows.load(*task.runs[0][:2], task.runs[0][1] + 1)
        out.append(pack_head(task.head, int(first.commit_us[0]) // 1_000_000, task.rank - 1))


def statement_at(task: GatherTask, chosen: "OutputFilter | None", rows: Rows, row: int) -> LogicalDdl:
    """Return what is written at a row that has no rows of its own: a DDL as the filter leaves it, or a heartbeat."""
    key = rows.key(row)
    if rows.flags[row] & ks.HEARTBEAT:
        return heartbeat(key)
    ddl = task.ddl.get(key) or task.ddl[key._replace(seq=0, node_seq=0)]
    if chosen is None:
        return ddl
    try:
        return chosen.statement(ddl)
    except MergeError as error:
        raise error.located(order_key=key) from None


class Gathering:
    """Writes a task's rows into its file, and counts what has been written."""

    def __init__(self, task: GatherTask, render: Renderer) -> None:
        self.task, self.render = task, render
        self.written = RowsWritten(task.last_timestamp)
        self.keys = KeysOfTask(render.plans, task.schemas.modes, len(task.nodes))

    def write_run(self, rows: Rows) -> None:
        """Write a run's rows, with a new epoch of plans at every schema version among them."""
        if not len(rows):
            return
        self.render.reader.expect(rows)
        edges = rows.edges(self.task.schemas.boundaries())
        # The rows of a CREATE TABLE ... SELECT see the table it creates, so they need an epoch of their own.
        edges += [
            edge for row in np.flatnonzero(rows.flags & ks.FLAG_CREATE_SELECT).tolist() for edge in (row, row + 1)
        ]
        start = 0
        for stop in sorted({*edges, len(rows)}):
            if stop > start:
                self.render.plans.begin_epoch()
                self._write_epoch(rows, start, stop)
                start = stop

    def _write_epoch(self, rows: Rows, start: int, stop: int) -> None:
        while start < stop:
            end = window_end(rows, start, stop)
            size = int(rows.end[start:end].sum() - rows.start[start:end].sum())
            # The bytes of a DDL's markers are not read, however many there are.
            if size > 2 * WINDOW_BYTES and not rows.flags[start] & ks.MARKER:
                self.keys.pass_over(size)
                self._write_giant(rows, start, end)  # a single transaction
            else:
                self._write_window(rows, start, end)
            start = end
            if self.render.reg[k.OUT] > FLUSH:
                self.render.flush()

    def _write_window(self, rows: Rows, start: int, stop: int) -> None:
        render = self.render
        reg, out, plans, reader = render.reg, render.out, render.plans, render.reader
        read = window(reader, rows, start, stop, self.task.hints)
        read, doubts = window_in_order(plans, reader.buffer, read, rows, start)
        for refused in [doubt.row for doubt in doubts if doubt.certain and not self.task.key_doubts][:1]:
            if refused > start:
                self._write_window(rows, start, refused)
            raise no_order(doubts, refused).located(**reader.place(rows, refused))
        self.keys.look(reader.buffer, read, rows, start)
        verdicts = judge_window(plans, reader.buffer, read, rows, start)
        render.judged(verdicts)
        segments, keys = read.segments, read.keys
        reg[k.SEGMENT], reg[k.IN], reg[k.LENGTH_WIDTH] = 0, -1, 0
        written = start
        try:
            while True:
                reason = int(
                    render_window(
                        reg,
                        plans.arrays,
                        reader.buffer,
                        segments,
                        keys,
                        render.sid,
                        out.buffer,
                        render.inject,
                        render.sets,
                    )
                )
                if reason == k.FINISHED:
                    self._written(rows, written, stop, doubts)
                    return
                row = start + int(read.begins[reg[k.SEGMENT]])
                if reason == k.FULL:
                    if reg[k.OUT] == 0:
                        end = rows.transaction_end(row)
                        self._written(rows, written, row, doubts)
                        written = row
                        self._write_giant(rows, row, end)
                        render.judged(verdicts)
                        written = end
                        reg[k.SEGMENT], reg[k.IN] = read.segment_of(end - start), -1
                    else:
                        render.flush()
                elif reason == k.DDL_NEXT:
                    end = rows.transaction_end(row)
                    self._write_ddl(rows, row)
                    reg[k.SEGMENT] = read.segment_of(end - start)
                else:
                    row = start + int(read.row[reg[k.SEGMENT]])
                    render.serve(reason, int(segments[reg[k.SEGMENT], k.S_CRC]), reader.buffer, rows, row)
        except MergeError:
            # Drop the open transaction, keep the whole ones before it.
            open_segment = int(reg[k.TXN_SEGMENT] if reg[k.IN] >= 0 else reg[k.SEGMENT])
            open_row = start + int(read.begins[open_segment]) if open_segment < len(segments) else stop
            if reg[k.IN] >= 0:
                reg[k.OUT] = reg[k.TXN_OUT]
            self._written(rows, written, max(written, open_row), doubts)
            raise

    def _written(self, rows: Rows, start: int, stop: int, doubts: Sequence[Doubt]) -> None:
        self.written.add(rows, start, stop)
        for doubt in doubts:
            if start <= doubt.row < stop:
                self.written.doubt(doubt.table, doubt.certain, rows.key(doubt.row))

    def _write_ddl(self, rows: Rows, row: int) -> None:
        """Write the logical DDL at a row's key."""
        render, key = self.render, rows.key(row)
        ddl = statement_at(self.task, render.plans.filter, rows, row)
        data, events = pack_ddl(
            self.task.head,
            ddl,
            rank=int(render.reg[k.RANK]),
            sequence=int(render.reg[k.SEQUENCE]),
            commit_us=int(rows.commit_us[row]),
            position=int(render.reg[k.FILE_BASE] + render.reg[k.OUT]),
        )
        if render.reg[k.OUT] + len(data) > len(render.out.buffer):
            render.flush()
            if len(data) > len(render.out.buffer):
                raise UnsupportedInput(f"a DDL statement of {len(data)} bytes", order_key=key)
        at = int(render.reg[k.OUT])
        render.out.buffer[at : at + len(data)] = np.frombuffer(data, np.uint8)
        if render.writesets is not None:
            render.writesets.take(render.out.buffer[at : at + len(data)], len(data))
        render.reg[k.OUT] += len(data)
        render.reg[k.EVENTS] += events
        render.reg[k.RANK] += 1
        render.reg[k.SEQUENCE] += 1
        self.written.ddl += not rows.flags[row] & ks.HEARTBEAT

    def _write_giant(self, rows: Rows, start: int, stop: int) -> None:
        doubts = write_giant(self.render, rows, start, stop, self.task.hints, self.task.key_doubts)
        self._written(rows, start, stop, doubts)
