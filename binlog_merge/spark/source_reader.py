"""Reads for Spark: the changes of a merged log, those of a cluster that is not merged, and what a log has beside rows,
its transactions and the versions of its tables.

Spark hands a Python data source no list of the columns that a query needs; a schema given by `.schema(…)`, and the
options `fields` and `columns`, are what prunes. Filters come only with spark.sql.python.filterPushdown.enabled.

Of a cluster that is not merged, the process that plans a read scans the nodes' files and puts their transactions in
order, without a Spark job: a data source has no session. Each task gets where the transactions of a file stand that a
merge would write, renders that file into its folder for temporary files, and reads it as it reads one of a merged log:
the rows are the same by that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from binlog_merge.ask.changes import file_batches
from binlog_merge.ask.lists import SCHEMA_COLUMNS, TRANSACTION_COLUMNS, schema_rows, transaction_batches
from binlog_merge.ask.unmerged import Unmerged, UnmergedFile, files_of, rendered
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.index import transactions_between
from binlog_merge.log.log import Log
from binlog_merge.log.question import AnySelection
from binlog_merge.log.versions import key_at
from binlog_merge.spark.source_options import Options, check_goes_on, fitted_to, pushed
from binlog_merge.spark.transactions import say

_PARTITION_BYTES: Final = 32 << 20


@dataclass(frozen=True)
class Part(InputPartition):
    """Transactions of a file: the first of them begins at `position`."""

    file: OutputFile
    first: int
    last: int
    position: int | None = None
    selection: AnySelection | None = None


def parts_of(binlog: Log, first: int, last: int, size: int, selection: AnySelection | None = None) -> Iterator[Part]:
    """Yield transactions `first` to `last` in parts of about `size` bytes; each is of one file."""
    for file in binlog.state.files:
        if file.last_rank < first or file.first_rank > last:
            continue
        low, high = max(first, file.first_rank), min(last, file.last_rank)
        if file.size <= size + size // 2:
            yield Part(file, low, high, None, selection)
            continue
        begin: tuple[int, int] | None = None
        for rows in transactions_between(binlog.folder, file, low, high):
            for rank, at in rows[:, [x.X_RANK, x.X_AT]].tolist():
                if begin is None:
                    begin = rank, at
                elif at - begin[1] >= size:
                    yield Part(file, begin[0], rank - 1, begin[1], selection)
                    begin = rank, at
        if begin is not None:
            yield Part(file, begin[0], high, begin[1], selection)


def read_part(place: str, selection: AnySelection, part: Part, schema: Any) -> Iterator[Any]:
    """Yield the record batches of a part, exactly as Spark's schema says."""
    selection = replace(selection, first=part.first, last=part.last)
    with opened_log(place, schema=False) as folder:
        yield from read_file(Log(folder), selection, part.file, schema, part.position)


def read_file(
    binlog: Log, selection: AnySelection, file: OutputFile, schema: Any, position: int | None = None
) -> Iterator[Any]:
    """Yield the record batches of what is selected of a file, exactly as Spark's schema says."""
    wanted = arrow_schema(schema)
    for batch in file_batches(binlog, selection, file, position):
        yield pa.RecordBatch.from_arrays(
            [_cast(batch.column(field.name), field.type) for field in wanted], schema=wanted
        )


def _cast(array: Any, kind: Any) -> Any:
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_cast(array.field(child.name), child.type) for child in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    return array.cast(kind)


class BinlogReader(DataSourceReader):
    """Reads what was published when the read was planned."""

    def __init__(self, options: Options, schema: Any) -> None:
        self.options = options
        self.schema = schema
        with opened_log(options.place) as folder:
            self.selection = fitted_to(options.selected(Log(folder)), schema)

    def partitions(self) -> Sequence[Part]:
        """Return the parts of the range."""
        with opened_log(self.options.place, schema=False) as folder:
            size = self.options.number("partitionbytes", _PARTITION_BYTES)
            parts = list(parts_of(Log(folder), self.selection.first, self.selection.last, size))
        return parts or [NOTHING]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield a part's record batches; called on an executor."""
        if partition is NOTHING or partition.first > partition.last:
            return iter(())
        return read_part(self.options.place, self.selection, partition, self.schema)


_EMPTY: Final = OutputFile("", 0, True, "", "", 1, 0, 0, 0, 0)
NOTHING: Final = Part(_EMPTY, 1, 0)
"""A part without transactions: Spark has no read of no parts."""


class PushingReader(BinlogReader):
    """A reader to which Spark hands a query's filters."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 (Spark's name)
        """Take what narrows the range, the operations or the rows down; Spark asks all of it again of the rows."""
        with opened_log(self.options.place) as folder:
            self.selection = pushed(Log(folder), filters, self.selection)
        yield from filters


class BinlogStream(DataSourceStreamReader):
    """Reads a log on and on: an offset is the last transaction that was read, by order key and rank.

    The schema is that of the table when the query begins; rows with other columns stop it, with what to do.
    """

    def __init__(self, options: Options, schema: Any) -> None:
        self.options = options
        self.schema = schema
        self.checked = False
        self.most = options.number("maxfilespertrigger", 1 << 60)
        if "maxfilespertrigger" in options.values and find_spec("pyspark.sql.streaming.datasource") is None:
            raise ConfigError(
                "option maxFilesPerTrigger: pyspark 4.1 does not ask a data source for a part of what there is",
                remedy="leave it out, or take pyspark 4.2",
            )
        if options.of_nodes:
            raise ConfigError(
                "a stream reads a merged log, not the nodes' files",
                remedy="`binlog-merge run` merges as the nodes write",
            )
        if "stop" in options.values:
            raise ConfigError("option stop: a stream has no end", remedy="read a batch: spark.read")
        with opened_log(options.place) as folder:
            binlog = Log(folder)
            left, self.no_begin = options.of_stream(binlog)
            self.selection = fitted_to(left.selected(binlog), schema)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the place before the first transaction. Raises OutsideLog if it was removed."""
        if self.no_begin is not None:
            raise self.no_begin
        return {"rank": self.selection.first - 1, "order_key": ""}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the last transaction that is published, of at most so many files as the option says."""
        with opened_log(self.options.place, schema=False) as folder:
            state = Log(folder).state
        done = self.selection.first - 1 if start is None else int(start["rank"])
        files = [file for file in state.files if file.last_rank > done]
        if not files:
            return start if start is not None else self.initialOffset()
        last = files[: self.most][-1] if start is not None else files[-1]
        return {"rank": last.last_rank, "order_key": last.last_key}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Part]:
        """Return the parts of the transactions behind `start`, up to `end`. Raises OutsideLog."""
        first, last = int(start["rank"]) + 1, int(end["rank"])
        if first > last:
            return []
        with opened_log(self.options.place) as folder:
            binlog = Log(folder)
            self._check(binlog, first, start)
            if last > binlog.last_rank:
                raise OutsideLog(f"the log ends with transaction {binlog.last_rank}, and {last} was read of it before")
            now: Any = self.options.of_stream(binlog)[0].selected(binlog)
            selection = replace(self.selection, versions=now.versions)
            size = self.options.number("partitionbytes", _PARTITION_BYTES)
            return list(parts_of(binlog, first, last, size, selection))

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield a part's record batches; called on an executor."""
        return read_part(self.options.place, partition.selection or self.selection, partition, self.schema)

    def _check(self, binlog: Log, first: int, start: dict[str, Any]) -> None:
        """Raise OutsideLog if the log does not go on where the stream has stopped."""
        check_goes_on(binlog, first)
        key = str(start["order_key"])
        known = key_at(binlog, first - 1) if key and not self.checked else None
        self.checked = True
        if known is not None and known.text() != key:
            raise OutsideLog(
                f"transaction {first - 1} has the order key {known.text()}, and had {key} when it was read: it is "
                "another log",
                remedy="begin with another checkpoint directory",
            )


def arrow_schema(schema: Any) -> Any:
    """Return a schema whose times are in UTC. pyspark 4.1 has them so in any case, later ones have to be told."""
    told = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **told)


@dataclass(frozen=True)
class NodesPart(InputPartition):
    """A file that a merge would write."""

    file: UnmergedFile


class NodesReader(DataSourceReader):
    """Reads what the nodes' files had when the frame was made: `unmerged`."""

    def __init__(self, options: Options, unmerged: Unmerged, schema: Any) -> None:
        self.schema = schema
        self.selection = fitted_to(options.selected_unmerged(unmerged), schema)
        self.common, self.header = unmerged.common, unmerged.header
        self._files = tuple(files_of(unmerged, self.selection))
        say(unmerged.result)

    def __getstate__(self) -> dict[str, Any]:
        """Return what each task needs: of the files it has its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_files"}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files that have transactions of the range."""
        return [NodesPart(file) for file in self._files] or [NOTHING]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield a file's record batches; called on an executor."""
        if not isinstance(partition, NodesPart) or self.common is None:
            return
        with rendered(partition.file, self.common, self.header) as (binlog, output):
            yield from read_file(binlog, self.selection, output, self.schema)


SCHEMAS: Final = (
    "schema string, table string, version bigint, order_key string, commit_tso bigint, commit_time timestamp, "
    "origin string, statement string, columns array<struct<name: string, type: string, nullable: boolean>>"
)
TRANSACTIONS: Final = (
    "gtid string, rank bigint, kind string, commit_tso bigint, order_key string, commit_time timestamp, file string, "
    "position bigint, bytes bigint"
)


class _Reader(DataSourceReader):
    def __init__(self, options: Any, schema: Any) -> None:
        self.place = options.get("path")
        if self.place is None:
            raise ConfigError("no merged log is named", remedy='write .load("merged/")')
        self.wanted = schema

    def _fitted(self, batch: Any) -> Any:
        schema = arrow_schema(self.wanted)
        return pa.RecordBatch.from_arrays([batch.column(f.name).cast(f.type) for f in schema], schema=schema)


class TransactionsReader(_Reader):
    """Reads a file in each task."""

    def partitions(self) -> Sequence[Any]:
        """Return the files' names."""
        with opened_log(self.place, schema=False) as folder:
            names = [file.name for file in Log(folder).state.files]
        return [InputPartition(name) for name in names or [""]]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield a file's transactions."""
        with opened_log(self.place, schema=False) as folder:
            binlog = Log(folder)
            for file in binlog.state.files:
                if file.name == partition.value:
                    yield from map(self._fitted, transaction_batches(binlog, file))


class SchemasReader(_Reader):
    """Reads the schema store in one task: executors open no store elsewhere, and it is small."""

    def partitions(self) -> Sequence[Any]:
        """Return one partition that has all rows, which the planning process reads."""
        with opened_log(self.place) as folder:
            return [InputPartition(schema_rows(Log(folder)))]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield all rows."""
        yield self._fitted(pa.RecordBatch.from_pylist(partition.value, SCHEMA_COLUMNS))


__all__ = ["SCHEMAS", "TRANSACTIONS", "TRANSACTION_COLUMNS", "SchemasReader", "TransactionsReader"]
