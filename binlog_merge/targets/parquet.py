"""A directory of Parquet files as the target: a change log for each table, exactly once.

    position.json                              the position, and the cluster
    shop/orders/000000000001-0000000000500-00000.parquet    changes of transactions 1 to 500
    _statements/…                              DDL, in order

Files are written under temporary names, then renamed, then the position is replaced. A file that reaches beyond the
position was not committed, and is removed by the next run. When the columns of a table change, a new file begins. Names
that a file system would not accept are percent-encoded.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import STOP, ZeroDates
from binlog_merge.errors import ConfigError, IoError, MergeError, OutputBusy, TargetBusy, io_error
from binlog_merge.files.disk import replace_file, sync_directory, sync_file
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.log.changes import OPS, Changes, changes_of, narrowed, without_ranks
from binlog_merge.log.checkpoint import Checkpoint, resume
from binlog_merge.log.columns import Shape, shape_of
from binlog_merge.log.log import Log
from binlog_merge.log.read import Definitions, RowReader, Wants
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult, Walk
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.segments import DDL_COLUMNS, Segment, StatementAt, segments, statement_record
from binlog_merge.log.table_changes import FIELDS, Form, TableChanges, schema_of
from binlog_merge.log.versions import history_of
from binlog_merge.targets.server.statements import plan_statement
from binlog_merge.values.types import facts_of
from binlog_merge.whole_files import NoteKind, read_note
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

_STATEMENTS = "_statements"
_PART_BYTES = 32 << 20
_COLUMNS = 2
"""The columns of the files, as a number in the position: 1, which was not written, had rank and committed_at."""
POSITION_NAME: Final = "position.json"
Temporal = Literal["text", "typed"]


@dataclass(frozen=True, slots=True)
class _Position:
    """What a change log has: the transactions up to `rank`, whose last has `order_key`, and how they are written."""

    cluster_uuid: str
    rank: int
    temporal: Temporal
    order_key: str | None = None
    columns: int = 1
    zero_dates_as_text: str = ""


_POSITION: Final = NoteKind(_Position, version=None)


@dataclass
class ParquetTarget:
    """A change log under `folder`; use it as a context manager. Raises TargetBusy, ConfigError, IoError.

    `columns` says which columns of a table are written. At most `part_bytes` of rows are held in memory.
    """

    folder: Path
    cluster: str
    temporal_text: bool = False
    columns: Callable[[str, str], Any] = lambda schema, table: None
    part_bytes: int = _PART_BYTES
    zero_dates: ZeroDates = STOP
    rank: int = 0
    key: str | None = None
    _batches: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    _statements: list[dict[str, Any]] = field(default_factory=list)
    _written: list[tuple[Path, Path]] = field(default_factory=list)
    _bytes: int = 0
    _first: int = 0
    _number: int = 0

    def __enter__(self) -> "ParquetTarget":
        if (self.folder / MANIFEST_NAME).exists():
            raise ConfigError(
                "the directory is a merge's output", file=str(self.folder), remedy="name a directory of its own"
            )
        self._lock = OutputLock(self.folder)
        try:
            self._lock.__enter__()
        except OutputBusy:
            raise TargetBusy(f"another replay is writing to {self.folder}", file=str(self.folder)) from None
        try:
            self.rank, self.key = self._position()
            self._clean()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(None, None, None)

    @property
    def empty(self) -> bool:
        """Return whether nothing has been written to the directory yet."""
        return not (self.folder / POSITION_NAME).exists()

    def definitions(self, log: Log) -> Callable[[TableMap, OrderKey | None], tuple[Table, Form]]:
        """Return what says of rows of a log their definition, and how their columns are written.

        It raises UnknownTableSchema.
        """
        return _Tables(log, self).of

    def add(self, changes: TableChanges) -> None:
        """Add rows, which have a form. Raises ConversionFailed for a date that Arrow cannot represent."""
        assert changes.form is not None
        name = (changes.changes.table.schema, changes.changes.table.table)
        batch = changes.batch(schema_of(changes.form.shape))
        batches = self._batches.setdefault(name, [])
        if batches and not batches[0].schema.equals(batch.schema):
            self._part(name)
        self._batches.setdefault(name, []).append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self.part_bytes:
            self._parts()

    def statement(self, piece: StatementAt, text: str) -> None:
        """Add a statement."""
        self._statements.append(statement_record(piece, text))

    @property
    def full(self) -> bool:
        """Return whether enough was added for a commit."""
        return bool(self._written)

    def commit(self, rank: int, key: str | None) -> None:
        """Make everything up to a transaction visible, with the position; `key` is the transaction's order key."""
        self._parts()
        for part, path in self._written:
            final = path.with_name(f"{self.rank + 1:012d}-{rank:012d}-{path.name}")
            try:
                part.rename(final)
            except OSError as error:
                raise io_error(error, str(final)) from error
            failpoint("parquet-renamed")
        for folder in {path.parent for _, path in self._written}:
            sync_directory(folder)
        self._written.clear()
        self._number = 0
        temporal: Temporal = "text" if self.temporal_text else "typed"
        position = _Position(self.cluster, rank, temporal, key, _COLUMNS, self.zero_dates.as_text)
        replace_file(self.folder / POSITION_NAME, _POSITION.dump(position))
        self.rank, self.key = rank, key
        failpoint("parquet-committed")

    def _parts(self) -> None:
        for name in list(self._batches):
            self._part(name)
        if self._statements:
            self._write(self.folder / _STATEMENTS, pa.Table.from_pylist(self._statements, DDL_COLUMNS))
            self._statements.clear()
        self._bytes = 0

    def _part(self, name: tuple[str, str]) -> None:
        if batches := self._batches.pop(name, None):
            self._write(self.folder.joinpath(*(quote(part, safe=" ") for part in name)), pa.Table.from_batches(batches))

    def _write(self, folder: Path, table: Any) -> None:
        path = folder / f"{self._number:05d}.parquet"
        part = folder / f".{path.name}.part"
        self._number += 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, part, compression="zstd")
        except (OSError, pa.ArrowException) as error:
            raise IoError(str(error), file=str(part)) from error
        sync_file(part)
        self._written.append((part, path))

    def _position(self) -> tuple[int, str | None]:
        path = self.folder / POSITION_NAME
        remedy = "put it back from a copy, or name a new directory and replay from the beginning"
        position = read_note(path, _POSITION, "the position of the change log", remedy, IoError)
        if position is None:
            if any(self.folder.glob("*/*/*.parquet")):
                raise ConfigError("the directory has Parquet files and no position", file=str(self.folder))
            return 0, None
        if position.cluster_uuid != self.cluster:
            raise ConfigError(f"the directory is a change log of cluster {position.cluster_uuid}", file=str(path))
        if position.columns != _COLUMNS:
            raise ConfigError(
                "the change log was begun by an earlier version, whose files have other columns (rank, committed_at)",
                file=str(path),
                remedy="name a new directory, and replay from the beginning: what this one has stays as it is",
            )
        if position.temporal != ("text" if self.temporal_text else "typed"):
            raise ConfigError(f"the change log was begun with --temporal {position.temporal}", file=str(path))
        if (texts := position.zero_dates_as_text) != self.zero_dates.as_text:
            raise ConfigError(
                f"the change log was begun with {f'--zero-dates {texts}' if texts else 'typed dates'}",
                file=str(path),
                remedy="the columns of dates that are text stay so; name a new directory for others",
            )
        return position.rank, position.order_key

    def _clean(self) -> None:
        """Remove files that were written but not committed."""
        for part in [*self.folder.glob("*/*/.*.part"), *self.folder.glob("*/.*.part")]:
            part.unlink()
        for path in [*self.folder.glob("*/*/*.parquet"), *self.folder.glob("*/*.parquet")]:
            if int(path.name.split("-")[0]) > self.rank:
                path.unlink()


class _Tables:
    """What the rows of a log become, by their table maps: columns as of their definition, of these the chosen ones."""

    def __init__(self, log: Log, target: ParquetTarget) -> None:
        self._log, self._target = log, target
        self._known: dict[tuple[str, str], Definitions] = {}

    def of(self, witness: TableMap, key: OrderKey | None) -> tuple[Table, Form]:
        """Return the definition of rows of a transaction with this key, and how their columns are written."""
        name = (witness.schema, witness.table)
        if name not in self._known:
            self._known[name] = Definitions(history_of(self._log, *name), self._form)
        return self._known[name].of(witness, key)

    def _form(self, witness: TableMap, table: Table) -> Form:
        target = self._target
        shape = shape_of((table,), target.temporal_text, target.zero_dates)
        chosen = target.columns(witness.schema, witness.table)
        if chosen is not None:
            kept = [i for i, name in enumerate(shape.names) if chosen.matches(name)]
            shape = Shape(tuple(shape.names[i] for i in kept), tuple(shape.types[i] for i in kept))
        return Form(facts_of(table, target.temporal_text, witness, target.zero_dates), shape, tuple(FIELDS))


_LOG = logging.getLogger(__name__)


def capture(binlog: Log, target: ParquetTarget, options: ReplayOptions) -> ReplayResult:
    """Write the changes of a range to a target, from its position on. Errors have what was written as `result`."""
    first = options.first_rank
    if target.empty:
        target.rank = (first or 1) - 1
    resume(binlog, Checkpoint(target.rank, key=target.key), first)
    result = ReplayResult(target.rank + 1, target.rank, selector=RowSelector(options.filter))
    try:
        _walk(binlog, target, options, result)
    except MergeError as error:
        error.result = result
        raise
    return result


def _walk(binlog: Log, target: ParquetTarget, options: ReplayOptions, result: ReplayResult) -> None:
    begun, done, key = target.rank, target.rank, target.key
    chosen = options.filter
    left_out: Wants = lambda schema, table: chosen is not None and chosen.table(schema, table).ignored  # noqa: E731
    reader = RowReader(binlog, lambda *name: not left_out(*name), target.definitions(binlog), filter=chosen)
    for piece in segments(binlog, target.rank + 1, options.last_rank):
        if isinstance(piece, Segment):
            last, ended = len(piece.transactions) - 1, piece.ended
            result.skipped += _skipped(piece, options.skip)
            kept = without_ranks(piece, options.skip)
            for each in changes_of(narrowed(kept, left_out)):
                _count(each, np.zeros(0, np.int8), result.selector)
            for part in reader.parts(kept, target.part_bytes):
                for changes in part:
                    _count(changes.changes, changes.ops, result.selector)
                    if len(changes):
                        target.add(changes)
            rank, order_key = piece.last_rank, piece.key(last)
        else:
            _statement(piece, target, options, result)
            rank, order_key, ended = piece.begin.rank, piece.statement.key, piece.ended
        if ended:
            done, key = rank, None if order_key is None else order_key.text()
            if target.full:
                target.commit(done, key)
                _LOG.debug("applied", extra={"last": done})
                result.transactions, result.last_rank = done - begun, done
    target.commit(done, key)
    _LOG.debug("applied", extra={"last": done})
    result.transactions, result.last_rank = done - begun, done


def _skipped(segment: Segment, skip: Collection[int]) -> list[str]:
    """Return what the transactions of a segment are called that are skipped, and end in it."""
    numbers = [n for n, rank in enumerate(segment.ranks) if rank in skip and segment.transactions[n, k.T_END] >= 0]
    begins = map(segment.begin, numbers)
    return [begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}" for begin in begins]


def _count(changes: Changes, written: Any, selector: RowSelector) -> None:
    """Count the rows that are `written`, by their operations, and those that the filter leaves out."""
    name = (changes.table.schema, changes.table.table)
    for code, op in enumerate(OPS):
        rows, kept = int(changes.rows_of(op).sum()), int((written == code).sum())
        selector.applied[*name, op] += kept
        selector.filtered[*name, op] += rows - kept


def _statement(piece: StatementAt, target: ParquetTarget, options: ReplayOptions, result: ReplayResult) -> None:
    walk = Walk(options)
    walk.begin, walk.key = piece.begin, piece.statement.key
    if walk.skipping:
        result.skipped += [walk.gtid] if piece.ended else []
        return
    with walk.blamed():
        plan = plan_statement(piece.statement, options.filter, walk.ddl_tso())
    for step in plan.steps:
        target.statement(piece, step.shown)
        result.statements.append(step.shown)
    result.left_out += plan.left_out
