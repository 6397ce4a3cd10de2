"""The gather stage: write one output file, from rows in global order and the bytes they point at.

Rows are taken in windows of a few thousand branches; their byte ranges are read, coalesced, into one buffer, and the render kernel
writes whole transactions from it. A transaction too big for that is streamed piece by piece (`stages.giant`).
What is not understood stops the file right before its transaction: the file is then a valid, shorter one, and the error comes back
as a value with it.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render as k
from binlog_merge.binlog.kernels import scan as ks
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.errors import ChecksumMismatch, ConversionFailed, MergeError, RowsWithoutTableMap, UnsupportedInput
from binlog_merge.files.source import Source, io_error, open_source
from binlog_merge.merge.convert import ConversionError
from binlog_merge.merge.render import FileHead, LogicalDdl, pack_ddl, pack_head, pack_rotate
from binlog_merge.merge.reshape import rewrite_rows
from binlog_merge.stages.block import Column, read_block
from binlog_merge.stages.plans import PlanTable, Schemas
from snapshot_store.tso import OrderKey

WINDOW_ROWS = 4096
WINDOW_BYTES = 4 << 20
GAP = 64 << 10  # ranges closer than this are read as one
OUT_BUFFER = 20 << 20  # more than 2**24, so that a transaction that does not fit has a nine-byte length
FLUSH = 4 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A node's file, as gather reads it."""

    path: str
    checksum: bool


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One output file: its rows, and everything its bytes depend on.

    `runs` are (order file, from row, to row). `prefix` is the published part of a file that goes on: (path, size); its head is not
    written again. `rank` and `sequence` are those of the next transaction. `next_name` closes the file with a ROTATE.
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
    ddl: Mapping[tuple[int, int], LogicalDdl]


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


@dataclass
class Output:
    """The file being written: a buffer and what lies behind it on disk."""

    fd: int
    path: str
    position: int = 0  # file position of the buffer's first byte
    buffer: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(OUT_BUFFER, np.uint8))

    def write(self, count: int) -> None:
        """Write the first `count` bytes of the buffer behind the file's end."""
        view = memoryview(self.buffer)[:count]
        try:
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            raise io_error(error, self.path) from error
        self.position += count

    def truncate(self, position: int) -> None:
        """Cut the file at `position` and go on there."""
        os.ftruncate(self.fd, position)
        os.lseek(self.fd, position, os.SEEK_SET)
        self.position = position


class Gather:
    """The state of one gather task; `stages.giant` drives the same state for transactions that must be streamed."""

    def __init__(self, task: GatherTask, out: Output) -> None:
        self.task = task
        self.out = out
        self.plans = PlanTable(task.schemas, task.nodes)
        self.reg = np.zeros(k.REGISTERS, np.int64)
        self.reg[k.SERVER_ID], self.reg[k.SERVER_VERSION] = task.head.server_id, task.head.server_version_number
        self.reg[k.ANONYMOUS] = task.head.anonymous
        self.reg[k.RANK], self.reg[k.SEQUENCE] = task.rank, task.sequence
        self.sid = np.frombuffer(task.head.sid, np.uint8).copy()
        self.inject = np.zeros(1 << 16, np.uint8)
        self.sources: dict[tuple[int, int], Source] = {}
        self.input = np.empty(WINDOW_BYTES * 2, np.uint8)
        self.last_key: OrderKey | None = None
        self.first_key: OrderKey | None = None
        self.last_timestamp = task.last_timestamp
        self.input_bytes = self.branches = self.ddl = 0

    def source(self, node: int, file: int) -> Source:
        """Return the open source of an input file."""
        if (node, file) not in self.sources:
            self.sources[node, file] = open_source(self.task.files[node, file].path)
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

    def done(self, rows: "Rows", start: int, stop: int) -> None:
        """Note that the transactions of rows[start:stop] are written."""
        if stop > start:
            self.first_key = self.first_key or rows.key(start)
            self.last_key = rows.key(stop - 1)
            self.last_timestamp = int(rows.commit_us[stop - 1]) // 1_000_000
            self.input_bytes += int(np.sum(rows.end[start:stop] - rows.start[start:stop]))
            self.branches += stop - start

    def learn(self, body: bytes, node: int, key: OrderKey) -> None:
        """Give the kernel the plan of a table map it does not know."""
        self.plans.learn(node, body, key)

    def rewrite(self, kind: int, body: bytes, commit_us: int) -> None:
        """Rewrite a rows event in Python and hand it to the kernel."""
        plan = self.plans.reshape[int(self.reg[k.PLAN])]
        assert plan is not None
        try:
            new = rewrite_rows(plan, kind, body, commit_us)
        except ConversionError as error:
            raise ConversionFailed(str(error)) from error
        if len(new) > len(self.inject):
            self.inject = np.zeros(2 * len(new), np.uint8)
        self.inject[: len(new)] = np.frombuffer(new, np.uint8)
        self.reg[k.INJECT] = len(new)


@dataclass(frozen=True)
class Rows:
    """The rows of one run, as columns."""

    columns: Mapping[str, Column]
    first: Column
    start: Column
    end: Column
    node: Column
    file: Column
    flags: Column
    commit_us: Column
    before: Column

    @classmethod
    def load(cls, path: str, start: int, stop: int) -> "Rows":
        """Map rows[start:stop] of an order file."""
        columns = {name: values[start:stop] for name, values in read_block(path).items()}
        return cls(columns, *(columns[n] for n in ("first", "start", "end", "node", "file", "flags", "commit_us", "before")))

    def __len__(self) -> int:
        return len(self.first)

    def key(self, row: int) -> OrderKey:
        """Return the order key of a row."""
        return OrderKey(*(int(self.columns[name][row]) for name in ("tso", "transaction", "seq", "node_seq")))

    def size(self, row: int) -> int:
        """Return the bytes of a row's branch."""
        return int(self.end[row] - self.start[row])

    def transaction_end(self, row: int) -> int:
        """Return the row behind the last one of the transaction that begins at `row`."""
        stop, step = row + 1, 64
        while stop < len(self):
            begins = np.flatnonzero(self.first[stop : stop + step])
            if len(begins):
                return stop + int(begins[0])
            stop += step
        return len(self)

    def upper(self, key: OrderKey) -> int:
        """Return how many rows have a key less than or equal to `key`."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) <= key:
                low = middle + 1
            else:
                high = middle
        return low


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
        os.fsync(fd)
    finally:
        state.close()
        os.close(fd)
    return GatherResult(
        task.name, task.path, out.position, int(state.reg[k.RANK]), int(state.reg[k.SEQUENCE]), state.first_key, state.last_key,
        state.last_timestamp, state.input_bytes, int(state.reg[k.RANK]) - task.rank, state.branches, int(state.reg[k.EVENTS]), int(state.reg[k.ROW_EVENTS]),
        int(state.reg[k.RESHAPED_ROWS]), state.ddl, closed, error,
    )  # fmt: skip


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
                view = memoryview(out.buffer)[: min(len(out.buffer), size - out.position)]
                got = source.read_into(view, out.position)
                if got != len(view):
                    raise io_error(OSError(0, "the published file is shorter than the manifest says"), path)
                out.write(got)
    state.reg[k.FILE_BASE] = out.position


def _write_run(state: Gather, rows: Rows) -> None:
    """Write a run's rows, a new epoch of plans at every schema version among them."""
    if not len(rows):
        return
    low, high = rows.key(0), rows.key(len(rows) - 1)
    edges = [rows.upper(b) for b in state.task.schemas.history.boundaries() if low <= b < high]
    start = 0
    for stop in sorted({*edges, len(rows)}):
        if stop > start:
            state.plans.begin_epoch()
            _write_epoch(state, rows, start, stop)
            start = stop


def _write_epoch(state: Gather, rows: Rows, start: int, stop: int) -> None:
    from binlog_merge.stages.giant import write_giant

    while start < stop:
        end = _window_end(rows, start, stop)
        if int(rows.end[start:end].sum() - rows.start[start:end].sum()) > 2 * WINDOW_BYTES:
            write_giant(state, rows, start, end)  # one transaction alone
        else:
            _write_window(state, rows, start, end)
        start = end
        if state.reg[k.OUT] > FLUSH:
            state.flush()


def _window_end(rows: Rows, start: int, stop: int) -> int:
    """Return where the window that begins at `start` ends: whole transactions, at least one."""
    end = min(start + WINDOW_ROWS, stop)
    wanted = int(np.searchsorted(rows.before[start:end], int(rows.before[start]) + WINDOW_BYTES)) + start
    end = max(start + 1, min(end, wanted))
    if end < stop and not rows.first[end]:
        begins = np.flatnonzero(rows.first[start + 1 : end])
        end = start + 1 + int(begins[-1]) if len(begins) else rows.transaction_end(start)
    # A window begins and ends with whole transactions even if its last one is large: then it is cut before that one.
    if end - start > 1 and rows.before[end - 1] + rows.size(end - 1) - rows.before[start] > 2 * WINDOW_BYTES:
        begins = np.flatnonzero(rows.first[start + 1 : end])
        if len(begins):
            return start + 1 + int(begins[-1])
    return end


def _write_window(state: Gather, rows: Rows, start: int, stop: int) -> None:
    from binlog_merge.stages.giant import write_giant

    segments, keys = _window(state, rows, start, stop)
    reg, out = state.reg, state.out
    reg[k.SEGMENT], reg[k.IN], reg[k.LENGTH_WIDTH] = 0, -1, 0
    written = start
    try:
        while True:
            reason = int(
                k.render_window(reg, state.plans.arrays, state.input, segments, keys, state.sid, out.buffer, state.inject)
            )
            row = start + int(reg[k.SEGMENT])
            if reason == k.FINISHED:
                state.done(rows, written, stop)
                return
            if reason == k.FULL:
                if reg[k.OUT] == 0:
                    end = rows.transaction_end(row)
                    state.done(rows, written, row)
                    written = row
                    write_giant(state, rows, row, end)
                    written = end
                    reg[k.SEGMENT], reg[k.IN] = end - start, -1
                else:
                    state.flush()
            elif reason == k.DDL_NEXT:
                end = rows.transaction_end(row)
                _write_ddl(state, rows, row)
                reg[k.SEGMENT] = end - start
            else:
                serve(state, reason, int(segments[reg[k.SEGMENT], k.S_CRC]), state.input, rows, row)
    except MergeError:
        # Undo the transaction that is open, keep the whole ones before it.
        open_row = start + (int(reg[k.TXN_SEGMENT]) if reg[k.IN] >= 0 else int(reg[k.SEGMENT]))
        if reg[k.IN] >= 0:
            reg[k.OUT] = reg[k.TXN_OUT]
        state.done(rows, written, max(written, open_row))
        raise


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
            state.learn(body, node, rows.key(row))
        else:
            state.rewrite(header.type_code, body, int(rows.commit_us[row]))
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


def _write_ddl(state: Gather, rows: Rows, row: int) -> None:
    """Write the logical DDL that stands at a row's key."""
    key = rows.key(row)
    data = pack_ddl(
        state.task.head,
        state.task.ddl[key.commit_tso, key.transaction_id],
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
    state.reg[k.EVENTS] += 2
    state.reg[k.RANK] += 1
    state.reg[k.SEQUENCE] += 1
    state.ddl += 1


def _window(state: Gather, rows: Rows, start: int, stop: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Read the bytes of rows[start:stop] into the input buffer; returns the kernel's segments and keys."""
    n = stop - start
    segments = np.zeros((n, k.S_COLUMNS), np.int64)
    node, file, begin = rows.node[start:stop], rows.file[start:stop], rows.start[start:stop]
    length = rows.end[start:stop] - begin
    ddl = (rows.flags[start:stop] & ks.MARKER) != 0
    at, used = _read(state, node, file, begin, length, ddl)
    segments[:, k.S_POS], segments[:, k.S_END] = at, at + length
    segments[:, k.S_NODE] = node
    segments[:, k.S_DDL] = ddl
    first = rows.first[start:stop]
    segments[:, k.S_FIRST] = first
    segments[:-1, k.S_LAST] = first[1:]
    segments[-1, k.S_LAST] = 1
    begins = np.flatnonzero(first)
    segments[begins, k.S_BYTES] = np.add.reduceat(length, begins)
    pairs = {pair: 4 if state.task.files[pair].checksum else 0 for pair in _pairs(node, file)}
    if len(set(pairs.values())) == 1:
        segments[:, k.S_CRC] = next(iter(pairs.values()))
    else:
        segments[:, k.S_CRC] = [pairs[p] for p in zip(node.tolist(), file.tolist(), strict=True)]
    for i in np.flatnonzero(rows.flags[start:stop] & ks.COMPRESSED).tolist():
        used = _unpack(state, segments[i], used)
    keys = np.empty((n, k.K_COLUMNS), np.int64)
    for column, name in ((k.K_TSO, "tso"), (k.K_TRANSACTION, "transaction"), (k.K_SEQ, "seq"), (k.K_NODE, "node_seq")):
        keys[:, column] = rows.columns[name][start:stop]
    keys[:, k.K_COMMIT_US] = rows.commit_us[start:stop]
    return segments, keys


def _pairs(node: Column, file: Column) -> list[tuple[int, int]]:
    distinct = np.unique(node * (1 << 32) + file)
    return [(int(p >> 32), int(p & 0xFFFFFFFF)) for p in distinct]


def _read(
    state: Gather, node: Column, file: Column, begin: Column, length: Column, skip: npt.NDArray[np.bool_]
) -> tuple[Column, int]:
    """Read byte ranges into the input buffer, near ones together; returns where each begins there, and the bytes used."""
    place = np.lexsort((begin, file, node))
    node, file, begin, length = node[place], file[place], begin[place], np.where(skip, 0, length)[place]
    new = np.ones(len(place), np.bool_)
    if len(place) > 1:
        far = begin[1:] > begin[:-1] + length[:-1] + GAP
        new[1:] = far | (node[1:] != node[:-1]) | (file[1:] != file[:-1])
    heads = np.flatnonzero(new)
    ends = np.maximum.reduceat(begin + length, heads)
    sizes = ends - begin[heads]
    offsets = np.cumsum(sizes) - sizes
    used = int(sizes.sum())
    state.input = _at_least(state.input, used)
    view = memoryview(state.input)
    for head, size, offset in zip(heads.tolist(), sizes.tolist(), offsets.tolist(), strict=True):
        if size:
            source = state.source(int(node[head]), int(file[head]))
            got = source.read_into(view[offset : offset + size], int(begin[head]))
            if got != size:
                raise ChecksumMismatch(
                    "the file became shorter while it was read",
                    node=state.task.nodes[int(node[head])],
                    file=state.task.files[int(node[head]), int(file[head])].path,
                    position=int(begin[head]),
                )
    run = np.cumsum(new) - 1
    at = np.empty(len(place), np.int64)
    at[place] = offsets[run] + begin - begin[heads][run]
    return at, used


def _unpack(state: Gather, segment: npt.NDArray[np.int64], used: int) -> int:
    """Replace a compressed branch by the events inside, behind the `used` bytes of the input buffer."""
    data = b"".join(chunk for _, chunk in unpacked(state.input, segment))
    state.input = _at_least(state.input, used + len(data), keep=used)
    state.input[used : used + len(data)] = np.frombuffer(data, np.uint8)
    segment[k.S_POS], segment[k.S_END], segment[k.S_CRC] = used, used + len(data), 0
    return used + len(data)


def unpacked(buffer: npt.NDArray[np.uint8], segment: npt.NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, bytes) of the payloads in a branch; its other events (GTID, XA_PREPARE) carry no rows."""
    at, end, crc = int(segment[k.S_POS]), int(segment[k.S_END]), int(segment[k.S_CRC])
    number = 0
    while at < end:
        header = EventHeader.parse(buffer[at : at + 19].tobytes())
        if header.type_code == 40:
            payload = TransactionPayload.parse(buffer[at + 19 : at + header.event_size - crc].tobytes())
            for chunk in payload.chunks():
                yield number, chunk
            number += 1
        at += header.event_size


def _at_least(buffer: npt.NDArray[np.uint8], size: int, keep: int = 0) -> npt.NDArray[np.uint8]:
    if size <= len(buffer):
        return buffer
    bigger = np.empty(size + (size >> 2), np.uint8)
    bigger[:keep] = buffer[:keep]
    return bigger
