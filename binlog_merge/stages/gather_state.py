"""What a gather task works on: the file being written, the inputs, the plans of tables, the render kernel's registers.

The render kernel stops where it needs Python: `serve` gives it the plan of a table it does not know, or a row event
rewritten, and turns what it met into an error with its place. `stages.gather` drives this state window by window,
`stages.giant` piece by piece.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.wire import pack_uint
from binlog_merge.errors import ChecksumMismatch, ConversionFailed, MergeError, RowsWithoutTableMap, UnsupportedInput
from binlog_merge.files.known import KnownFile, open_known
from binlog_merge.files.source import Source, io_error
from binlog_merge.files.writeback import WriteBehind
from binlog_merge.merge.convert import ConversionError
from binlog_merge.merge.render import CTS_PLACES, FileHead, LogicalDdl
from binlog_merge.merge.reshape import reshape_rows
from binlog_merge.stages.block import view
from binlog_merge.stages.judging import NO_VERDICTS, Verdicts
from binlog_merge.stages.plans import PlanTable, Schemas
from binlog_merge.stages.window import WINDOW_BYTES, Rows
from snapshot_store.tso import OrderKey

OUT_BUFFER = 20 << 20  # more than 2**24, so that a transaction that does not fit has a nine-byte length


@dataclass(frozen=True, slots=True)
class InputFile:
    """A node's file, as gather reads it."""

    known: KnownFile
    checksum: bool

    @property
    def path(self) -> str:
        """Return where it is."""
        return self.known.path


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One output file: its rows, and everything its bytes depend on.

    `runs` are (order file, from row, to row). `prefix` is the published part of a file that goes on, (path, size); its
    head is not written again. `rank` and `sequence` are those of the next transaction. `next_name` closes the file with
    a ROTATE. `ddl` are the logical DDL by the key of the rows they stand at.
    """

    name: str
    path: str
    prefix: tuple[str, int] | None
    head: FileHead
    runs: tuple[tuple[str, int, int], ...]
    rank: int
    sequence: int
    last_timestamp: int
    next_name: str | None
    nodes: Mapping[int, str]
    files: Mapping[tuple[int, int], InputFile]
    schemas: Schemas
    ddl: Mapping[OrderKey, LogicalDdl]
    hints: bool = False  # statements have trace hints: see `stages.traces`
    check_rows: bool = False  # rows of events that have a checksum are walked too


@dataclass(frozen=True, slots=True)
class GatherResult:
    """What was written; after an error, the valid prefix. `rank` and `sequence` are those of the next transaction."""

    name: str
    path: str
    size: int
    rank: int
    sequence: int
    first_key: OrderKey | None
    last_key: OrderKey | None
    last_timestamp: int
    input_bytes: int
    transactions: int
    branches: int
    events: int
    row_events: int
    reshaped: int
    ddl: int
    closed: bool
    error: dict[str, Any] | None = None
    believed: tuple[str, ...] = ()  # what table maps said against the schema history
    failed: OrderKey | None = None  # the key of the transaction at which it stopped


@dataclass
class Output:
    """The file being written: a buffer and what lies behind it on disk."""

    fd: int
    path: str
    position: int = 0  # file position of the buffer's first byte
    buffer: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(OUT_BUFFER, np.uint8))

    def __post_init__(self) -> None:
        self._behind = WriteBehind(self.fd)

    def write(self, count: int) -> None:
        """Write the first `count` bytes of the buffer behind the file's end."""
        part = view(self.buffer)[:count]
        try:
            while part:
                part = part[os.write(self.fd, part) :]
        except OSError as error:
            raise io_error(error, self.path) from error
        self.position += count
        self._behind.wrote(self.position)

    def truncate(self, position: int) -> None:
        """Cut the file at `position` and go on there."""
        os.ftruncate(self.fd, position)
        os.lseek(self.fd, position, os.SEEK_SET)
        self.position = position
        self._behind.truncated(position)

    def sync(self) -> None:
        """Flush everything to disk. Raises IoError."""
        try:
            self._behind.finish()
            os.fsync(self.fd)
        except OSError as error:
            raise io_error(error, self.path) from error

    def close(self) -> None:
        """Close the file, flushed or not."""
        with suppress(OSError):
            self._behind.finish()
        os.close(self.fd)


class Gather:
    """The state of one gather task; `stages.giant` drives the same state for transactions that must be streamed."""

    def __init__(self, task: GatherTask, out: Output) -> None:
        self.task = task
        self.out = out
        self.plans = PlanTable(task.schemas, task.nodes)
        self.reg = np.zeros(k.REGISTERS, np.int64)
        self.reg[k.OWN_SERVER_ID] = task.head.server_id
        self.reg[k.SERVER_ID], self.reg[k.SERVER_VERSION] = task.head.server_id, task.head.server_version_number
        self.reg[k.ANONYMOUS], self.reg[k.CTS] = task.head.anonymous, CTS_PLACES[task.head.cts]
        self.reg[k.RANK], self.reg[k.SEQUENCE] = task.rank, task.sequence
        self.reg[k.CHECK_ROWS] = task.check_rows
        self.sid = np.frombuffer(task.head.sid, np.uint8).copy()
        self.inject = np.zeros(1 << 16, np.uint8)
        self.verdicts = NO_VERDICTS
        self.sources: dict[tuple[int, int], Source] = {}
        self.input = np.empty(WINDOW_BYTES * 2, np.uint8)
        self.last_key: OrderKey | None = None
        self.first_key: OrderKey | None = None
        self.last_timestamp = task.last_timestamp
        self.input_bytes = self.branches = self.ddl = 0

    def source(self, node: int, file: int) -> Source:
        """Return the open source of an input file."""
        if (node, file) not in self.sources:
            self.sources[node, file] = open_known(self.task.files[node, file].known)
        return self.sources[node, file]

    def close(self) -> None:
        """Close all input files."""
        for source in self.sources.values():
            source.close()

    def flush(self) -> None:
        """Write out the whole transactions that are in the buffer."""
        self.out.write(int(self.reg[k.OUT]))
        self.reg[k.OUT] = self.reg[k.TXN_OUT] = 0
        self.reg[k.FILE_BASE] = self.out.position

    def done(self, rows: Rows, start: int, stop: int) -> None:
        """Note that the transactions of rows[start:stop] are written."""
        if stop > start:
            self.first_key = self.first_key or rows.key(start)
            self.last_key = rows.key(stop - 1)
            self.last_timestamp = int(rows.commit_us[stop - 1]) // 1_000_000
            self.input_bytes += int(np.sum(rows.end[start:stop] - rows.start[start:stop]))
            self.branches += stop - start

    def learn(self, body: bytes, rows: Rows, row: int) -> None:
        """Give the kernel the plan of a table map it does not know."""
        own = bool(rows.flags[row] & ks.FLAG_CREATE_SELECT)
        moved_to = rows.key(row) if rows.is_moved(row) else None
        self.plans.learn(int(rows.node[row]), body, rows.own_key(row), own, moved_to)

    def judged(self, verdicts: Verdicts) -> None:
        """Take verdicts on the rows events of the buffer that is rendered next."""
        if verdicts is not self.verdicts:
            self.verdicts = verdicts
            self.plans.take(verdicts.of)

    def rewrite(self, kind: int, body: bytes, commit_us: int, key: OrderKey) -> None:
        """Rewrite a rows event in Python and hand it to the kernel."""
        number, at = int(self.reg[k.PLAN]), int(self.reg[k.IN])
        plan = self.plans.reshape[number]
        assert plan is not None
        if (ready := self.verdicts.ready.get(at)) is not None:
            new, rows = ready
        else:
            try:
                new, rows = (body, 0) if plan.identity else reshape_rows(plan, kind, body, commit_us)
            except ConversionError as error:
                raise ConversionFailed(str(error)) from error
            shape = self.plans.shape_of(number)
            if shape is not None and not self.verdicts.has(at):
                assert self.plans.filter is not None
                kept = self.plans.filter.keep(shape, kind, new, key)
                if kept is None:
                    self.reg[k.INJECT] = k.NOTHING
                    return
                new = kept
        if plan.identity:
            new = pack_uint(plan.table_id, 6) + new[6:]
        if len(new) > len(self.inject):
            self.inject = np.zeros(2 * len(new), np.uint8)
        self.inject[: len(new)] = np.frombuffer(new, np.uint8)
        self.reg[k.INJECT] = len(new)
        self.reg[k.RESHAPED_ROWS] += rows


def serve(state: Gather, reason: int, crc: int, buffer: npt.NDArray[np.uint8], rows: Rows, row: int) -> None:
    """Give the kernel what it stopped for, or raise what it met, with its place."""
    reg = state.reg
    at = int(reg[k.IN])
    node, file = int(rows.node[row]), int(rows.file[row])
    try:
        if reason not in (k.NEW_PLAN, k.SLOW):
            raise _damage(reason)
        header = EventHeader.parse(buffer[at : at + 19].tobytes())
        body = buffer[at + 19 : at + header.event_size - crc].tobytes()
        if reason == k.NEW_PLAN:
            state.learn(body, rows, row)
        else:
            state.rewrite(header.type_code, body, int(rows.commit_us[row]), rows.key(row))
    except MergeError as error:
        raise error.located(
            node=state.task.nodes[node],
            file=state.task.files[node, file].path,
            position=int(rows.start[row]),
            order_key=rows.key(row),
        ) from None
    except BinlogFormatError as error:
        raise ChecksumMismatch(
            error.reason,
            node=state.task.nodes[node],
            file=state.task.files[node, file].path,
            position=int(rows.start[row]),
            order_key=rows.key(row),
        ) from None


def _damage(reason: int) -> MergeError:
    if reason == k.NO_TABLE_MAP:
        return RowsWithoutTableMap("a rows event names a table id that no table map of its transaction has")
    if reason == k.BAD_CHECKSUM:
        return ChecksumMismatch("an event's checksum is wrong; it was right when the file was scanned")
    if reason == k.TOO_MANY_TABLES:
        return UnsupportedInput(f"a transaction has more than {k.MAX_MAPS} table maps")
    return ChecksumMismatch("a rows event contradicts its table map")
