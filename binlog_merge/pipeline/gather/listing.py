"""Lists transactions instead of writing them: a row for each that the merge puts out, as Arrow batches.

What a row says of the log (key, GTID, branches) stands in the rows in global order. The changed tables and the number
of rows are counted while the transactions are rendered as for an output file (`gather.listing`), so that a list has
what the merge would write: behind filters and routes, and with the errors that would stop it. As they are counted, all
rows are checked against their table maps, as with `check-rows: always`.

An `Account` is the `Sink` of a renderer. So what it counts is what the merge writes, errors included. It looks through
each buffer of events with the kernel that indexes merged logs (`kernels.log_walk`).
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.cell_length import decimal_length
from binlog_merge.binlog.constants import ColumnType, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels.row_cells import count_rows
from binlog_merge.binlog.rows import RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.pipeline.gather import output_file
from binlog_merge.pipeline.gather.input_reader import InputReader
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.renderer import Renderer
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.task import Gathering, statement_at
from binlog_merge.pipeline.gather.values import GatherTask, doubted_orders
from binlog_merge.pipeline.order.ordered import KEY

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
_MOST_TRANSACTIONS, _MOST_EVENTS, _MOST_MAPS = 1 << 14, 1 << 15, 1 << 12
_HEADER: Final = 19
_NOTHING: Final = np.zeros((2, 0, 0), np.int32)


@dataclass(frozen=True, slots=True)
class Counted:
    """What some transactions changed: `rows` of each, and pairs of (transaction, table), sorted.

    A table is a number of `names`, (schema, table).
    """

    rows: Numbers
    transaction: Numbers
    table: Numbers
    names: tuple[tuple[str, str], ...]


@dataclass
class _Maps:
    """The table maps that the kernel has numbered, and the numbers of their tables."""

    tables: dict[int, TableMap] = field(default_factory=dict)
    _parsed: dict[bytes, TableMap] = field(default_factory=dict)

    def parsed(self, data: bytes) -> TableMap:
        if data not in self._parsed:
            if len(self._parsed) > _MOST_MAPS:
                self._parsed.clear()
            self._parsed[data] = TableMap.parse(data)
        return self._parsed[data]


class Account:
    """Takes rendered events, from the transaction with the rank `rank` on."""

    def __init__(self, rank: int) -> None:
        self.position = 0
        self.buffer: Bytes = np.empty(output_file.OUT_BUFFER, np.uint8)
        self._reg = np.zeros(k.REGISTERS, np.int64)
        self._reg[k.RANK], self._reg[k.LAST_RANK], self._reg[k.CHECKSUM] = rank - 1, 1 << 62, 1
        self._transactions = np.zeros((_MOST_TRANSACTIONS, 6), np.int64)
        self._events = np.zeros((_MOST_EVENTS, 6), np.int64)
        self._index = np.zeros((_MOST_MAPS, 4), np.int64)
        self._slots = np.full(k.SLOTS, -1, np.int32)
        self._maps = _Maps()
        self._names: dict[tuple[str, str], int] = {}
        self._pending = bytearray()
        self._taken = rank
        self._found: list[tuple[int, int, int]] = []  # rank, table, rows

    def write(self, count: int) -> None:
        """Count the first `count` bytes of the buffer."""
        self.position += count
        if not self._pending:
            self._look(self.buffer, count)
            return
        self._pending += self.buffer[:count].tobytes()
        size = int.from_bytes(self._pending[9:13], "little")
        if len(self._pending) >= max(size, _HEADER):
            whole, self._pending = np.frombuffer(bytes(self._pending), np.uint8), bytearray()
            self._look(whole, len(whole))

    def append(self, data: bytes) -> None:
        """Count bytes."""
        self.buffer[: len(data)] = np.frombuffer(data, np.uint8)
        self.write(len(data))

    def truncate(self, position: int) -> None:
        """Go back to `position`, where the open transaction begins."""
        self.position = position
        self._pending = bytearray()
        if self._reg[k.OPEN]:
            rank = int(self._reg[k.RANK])
            self._found = [found for found in self._found if found[0] != rank]
            self._reg[k.RANK], self._reg[k.OPEN] = rank - 1, 0
            self._clear()

    def overwrite(self, position: int, data: bytes) -> None:
        """Do nothing: what is counted is not in a GTID event."""

    def read_back(self, position: int) -> bytes:
        """Return nothing: what is counted is not kept."""
        return b""

    def take(self) -> Counted:
        """Return what the transactions changed that were written since the last time."""
        begin, end = self._taken, int(self._reg[k.RANK]) + 1
        self._taken = end
        found = np.array(self._found, np.int64).reshape(-1, 3)
        self._found.clear()
        rows = np.zeros(end - begin, np.int64)
        np.add.at(rows, found[:, 0] - begin, found[:, 2])
        pairs = np.unique(found[:, :2], axis=0)
        return Counted(rows, pairs[:, 0] - begin, pairs[:, 1], tuple(self._names))

    def _look(self, buffer: Bytes, end: int) -> None:
        """Index whole events; keep the rest of the buffer, the beginning of an event, for later."""
        self._reg[k.AT] = 0
        while True:
            why = int(k.walk(buffer, end, self._reg, self._transactions, self._events, self._index, self._slots))
            if why == k.DAMAGED:
                raise AssertionError(f"the renderer wrote what is no binlog, at {int(self._reg[k.AT])}")
            self._count(buffer)
            if why == k.MORE:
                break
            if why == k.PYTHON:
                self._pass_statement(buffer)
        if int(self._reg[k.AT]) < end:
            self._pending += buffer[int(self._reg[k.AT]) : end].tobytes()

    def _pass_statement(self, buffer: Bytes) -> None:
        """Go on behind a statement, which ends its transaction if no BEGIN was before it."""
        at = int(self._reg[k.AT])
        self._reg[k.AT] = at + int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        if self._reg[k.OPEN] != k.IN_ROWS:
            self._reg[k.OPEN] = 0

    def _count(self, buffer: Bytes) -> None:
        """Count the rows of what is indexed, and clear the index."""
        reg = self._reg
        self._learn(buffer)
        events = self._events[: int(reg[k.EVENTS])]
        ranks = self._transactions[events[:, k.E_TRANSACTION], k.T_RANK]
        for number in np.unique(events[:, k.E_MAP]).tolist():
            chosen = events[:, k.E_MAP] == number
            self._add(buffer, self._maps.tables[number], events[chosen], ranks[chosen])
        self._clear()

    def _clear(self) -> None:
        """Clear the index, but for the open transaction's table maps."""
        reg = self._reg
        rank, count = int(reg[k.RANK]), int(reg[k.MAPS])
        current = [n for n in range(count) if self._index[n, k.M_RANK] == rank] if reg[k.OPEN] else []
        kept = [(int(self._index[n, k.M_ID]), self._maps.tables[n]) for n in current]
        if 2 * len(kept) > len(self._index):
            self._index = np.zeros((2 * len(self._index), 4), np.int64)
        self._slots[:] = -1
        self._maps.tables = {}
        for number, (table_id, table) in enumerate(kept):
            self._index[number] = (table_id, -1, -1, rank)
            self._maps.tables[number] = table
            self._slots[table_id & (k.SLOTS - 1)] = number
        reg[k.MAPS], reg[k.EVENTS], reg[k.TRANSACTIONS] = len(kept), 0, 0
        if reg[k.OPEN]:
            self._transactions[0] = (-1, -1, 0, 0, -1, rank)
            reg[k.TRANSACTIONS] = 1

    def _learn(self, buffer: Bytes) -> None:
        for number in range(int(self._reg[k.MAPS])):
            body, end = int(self._index[number, k.M_BODY]), int(self._index[number, k.M_END])
            if body >= 0:
                self._maps.tables[number] = self._maps.parsed(buffer[body:end].tobytes())

    def _add(self, buffer: Bytes, table: TableMap, events: Numbers, ranks: Numbers) -> None:
        number = self._names.setdefault((table.schema, table.table), len(self._names))
        counts = _rows_of(buffer, table, events)
        each, which = np.unique(ranks, return_inverse=True)
        sums = np.bincount(which, counts, len(each)).astype(np.int64)
        self._found += zip(each.tolist(), [number] * len(each), sums.tolist(), strict=True)


def _rows_of(buffer: Bytes, table: TableMap, events: Numbers) -> Numbers:
    """Return how many rows each event of a table has. Raises ChecksumMismatch if its rows do not fit the table map."""
    counts = np.zeros(len(events), np.int64)
    bodies = np.ascontiguousarray(events[:, [k.E_BODY, k.E_END, k.E_KIND]])
    partial = bodies[:, 2] == int(EventType.PARTIAL_UPDATE_ROWS_EVENT)
    try:
        for kind, meta in zip(table.types, table.metas, strict=True):
            if kind == ColumnType.NEWDECIMAL:
                decimal_length(meta & 0xFF, meta >> 8)  # the kernel takes its digits as an index
        for number in np.flatnonzero(partial).tolist():
            begin, end, kind = bodies[number].tolist()
            event = RowsEvent.parse(kind, buffer[begin:end].tobytes())
            counts[number] = sum(1 for _ in iter_rows(event, table))
        whole = bodies[~partial]
        found = np.zeros(len(whole), np.int64)
        types, metas = np.frombuffer(table.types, np.uint8).astype(np.int64), np.array(table.metas, np.int64)
        wrong = int(count_rows(buffer, whole, types, metas, _NOTHING, found))
    except BinlogFormatError as error:
        raise ChecksumMismatch(f"rows of {table.schema}.{table.table} cannot be counted: {error.reason}") from None
    if wrong >= 0:
        raise ChecksumMismatch(f"rows of {table.schema}.{table.table} do not fit their table map")
    counts[~partial] = found
    return counts


_LOG = logging.getLogger(__name__)

BATCH_ROWS: Final = 1 << 15
"""Branches of a batch, unless a single transaction has more."""
_BRANCH: Final = pa.struct(
    [("node", pa.string()), ("file", pa.string()), ("start", pa.int64()), ("end", pa.int64())],
)
SCHEMA: Final = pa.schema(
    [
        ("commit_tso", pa.int64()),
        ("order_key", pa.string()),
        ("gtid", pa.string()),
        ("rank", pa.int64()),
        ("kind", pa.string()),
        ("committed", pa.timestamp("us", "UTC")),
        ("bytes", pa.int64()),
        ("branches", pa.list_(_BRANCH)),
        ("database", pa.string()),
        ("statement", pa.string()),
    ]
)
COUNTED: Final = pa.schema([("tables", pa.list_(pa.string())), ("rows", pa.int64())])
ROWS, DDL, HEARTBEAT = "rows", "ddl", "heartbeat"
_DIGITS: Final = (19, 19, 10, 6)


@dataclass(frozen=True, slots=True)
class ListTask(GatherTask):
    """A part of the global order. `names` are those of input files by node and index; `counts`: rows are counted."""

    names: Mapping[tuple[int, int], str] = field(default_factory=dict)
    counts: bool = True


def schema_of(counts: bool) -> pa.Schema:
    """Return the schema of a list: without `counts` it lacks what only the rows themselves tell."""
    return pa.schema([*SCHEMA, *COUNTED]) if counts else SCHEMA


def listed(task: ListTask) -> Iterator[pa.RecordBatch]:
    """Yield the task's transactions in order. Raises what gather returns as the error of a file."""
    rank = task.rank
    with _Counting(task) as counting:
        for rows in _stretches(task):
            batch = _batch(task, counting, rows, rank)
            rank += batch.num_rows
            yield batch
        for text in counting.believed:
            _LOG.warning("the table map is believed, not the schema history: %s", text)
        for text in counting.doubted:
            _LOG.warning("%s", text)


def _stretches(task: GatherTask) -> Iterator[Rows]:
    """Yield the task's rows in stretches of whole transactions."""
    for path, start, stop in task.runs:
        while start < stop:
            rows = Rows.load(path, start, min(stop, start + BATCH_ROWS + 1))
            end = len(rows)
            if start + end < stop:
                begins = np.flatnonzero(rows.first)
                last = int(begins[-1])
                end = last or Rows.load(path, start, stop).transaction_end(0)
            yield Rows.load(path, start, start + end)
            start += end


class _Counting:
    """Renders a task's transactions into an account, if they are to be counted."""

    def __init__(self, task: ListTask) -> None:
        self._task = task
        self.filter = task.schemas.filter
        if task.counts:
            self._account = Account(task.rank)
            self._reader = InputReader(task.nodes, task.files)
            self._plans = PlanTable(task.schemas, task.nodes)
            self._work = Gathering(task, Renderer(task.head, self._plans, self._reader, self._account))
            self._work.render.begin(task.rank, task.sequence, check_rows=True)

    def __enter__(self) -> "_Counting":
        return self

    def __exit__(self, *_: object) -> None:
        if self._task.counts:
            self._reader.close()

    @property
    def believed(self) -> list[str]:
        """Return warnings about table maps that contradict the schema history."""
        return sorted(self._plans.believed) if self._task.counts else []

    @property
    def doubted(self) -> list[str]:
        """Return warnings about transactions whose rows may be in no order that keeps keys unique."""
        return doubted_orders(self._work.written.doubted.values()) if self._task.counts else []

    def count(self, rows: Rows) -> Counted:
        """Return what transactions change. Raises MergeError, with the key of the transaction that failed."""
        before = self._work.written.branches
        try:
            self._work.write_run(rows)
            self._work.render.flush()
            return self._account.take()
        except BinlogFormatError as error:
            failed = min(self._work.written.branches - before, len(rows) - 1)
            raise ChecksumMismatch(error.reason, file=error.file or None, order_key=rows.key(failed)) from None


def _batch(task: ListTask, counting: _Counting, rows: Rows, rank: int) -> pa.RecordBatch:
    begins = np.flatnonzero(rows.first)
    columns = rows.columns
    ranks = np.arange(rank, rank + len(begins))
    ddl, beats = (rows.flags[begins] & ks.MARKER) != 0, (rows.flags[begins] & ks.HEARTBEAT) != 0
    statements = [statement_at(task, counting.filter, rows, int(begins[n])) for n in np.flatnonzero(ddl & ~beats)]
    values: dict[str, Any] = {
        "commit_tso": columns["tso"][begins],
        "order_key": _order_keys([columns[name][begins] for name in KEY]),
        "gtid": _gtids(task, ranks),
        "rank": ranks,
        "kind": pa.array(np.where(ddl, np.where(beats, HEARTBEAT, DDL), ROWS)),
        "committed": pa.array(rows.commit_us[begins]).cast(pa.timestamp("us", "UTC")),
        "bytes": np.add.reduceat(rows.end - rows.start, begins),
        "branches": _branches(task, rows, begins),
        "database": _at(ddl & ~beats, [found.schema for found in statements]),
        "statement": _at(ddl & ~beats, [found.sql if found.text is None else found.text for found in statements]),
    }
    if task.counts:
        counted = counting.count(rows)
        values |= {"tables": _tables(counted), "rows": counted.rows}
    schema = schema_of(task.counts)
    return pa.RecordBatch.from_arrays(
        [pa.array(values[name], schema.field(name).type) for name in schema.names], schema=schema
    )


def _order_keys(parts: list[Numbers]) -> pa.Array:
    """Return the text form of order keys (`OrderKey.text`)."""
    texts = [
        pc.utf8_lpad(pa.array(part).cast(pa.string()), width, "0") for part, width in zip(parts, _DIGITS, strict=True)
    ]
    return pc.binary_join_element_wise(*texts, "")


def _gtids(task: GatherTask, ranks: Numbers) -> pa.Array:
    if task.head.anonymous:
        return pa.nulls(len(ranks), pa.string())
    return pc.binary_join_element_wise(str(UUID(bytes=task.head.sid)), pa.array(ranks).cast(pa.string()), ":")


def _branches(task: ListTask, rows: Rows, begins: Numbers) -> pa.Array:
    """Return the branches of each transaction; a DDL that no node has logged by itself has none."""
    there = rows.end > rows.start
    offsets = np.concatenate([[0], np.cumsum(there)])[[*begins.tolist(), len(rows)]]
    node, file = rows.node[there], rows.file[there]
    pairs, which = np.unique(np.stack([node, file]), axis=1, return_inverse=True)
    known = list(zip(*pairs.tolist(), strict=True))
    take = pa.array(which.reshape(-1))
    texts = (
        pa.array([task.nodes[n] for n, _ in known], pa.string()).take(take),
        pa.array([task.names[pair] for pair in known], pa.string()).take(take),
    )
    spans = (pa.array(rows.start[there]), pa.array(rows.end[there]))
    structs = pa.StructArray.from_arrays([*texts, *spans], fields=list(_BRANCH))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


Value = TypeVar("Value")


def _at(chosen: npt.NDArray[np.bool_], values: list[Value]) -> list[Value | None]:
    """Return the values at the places that are chosen, None elsewhere."""
    left = iter(values)
    return [next(left) if here else None for here in chosen.tolist()]


def _tables(counted: Counted) -> pa.Array:
    """Return the tables that each transaction changes, by name."""
    names = [f"{schema}.{table}" for schema, table in counted.names]
    place = np.argsort(np.argsort(np.array(names, object), kind="stable"), kind="stable")
    in_order = np.lexsort((place[counted.table], counted.transaction))
    offsets = np.searchsorted(counted.transaction, np.arange(len(counted.rows) + 1))
    taken = pa.array(names, pa.string()).take(pa.array(counted.table[in_order]))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), taken)
