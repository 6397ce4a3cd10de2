"""Lists transactions instead of writing them: a row for each that the merge puts out, as Arrow batches.

What a row says of the log (key, GTID, branches) stands in the rows in global order. The changed tables and the number
of rows are counted while the transactions are rendered as for an output file (`gather.account`), so that a list has
what the merge would write: behind filters and routes, and with the errors that would stop it. As they are counted, all
rows are checked against their table maps, as with `check-rows: always`.
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

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.pipeline.gather.account import Account, Counted
from binlog_merge.pipeline.gather.input_reader import InputReader
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.renderer import Renderer
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.task import Gathering, statement_at
from binlog_merge.pipeline.gather.values import GatherTask, doubted_orders
from binlog_merge.pipeline.order.ordered import KEY

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

Numbers = npt.NDArray[np.int64]


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
