"""Reads what a merged log has beside rows, for Spark: its transactions, and the versions of its tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from binlog_merge.ask.lists import SCHEMA_COLUMNS, TRANSACTION_COLUMNS, schema_rows, transaction_batches
from binlog_merge.ask.unmerged import Unmerged, UnmergedFile, files_of, rendered
from binlog_merge.errors import ConfigError
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.spark.source_options import Options, fitted_to
from binlog_merge.spark.source_reader import NOTHING, arrow_schema, read_file
from binlog_merge.spark.transactions import say

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
