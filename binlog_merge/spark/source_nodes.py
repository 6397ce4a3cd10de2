"""Reads the changes of a cluster that is not merged for Spark: `spark.read.format("binlog").load("cluster.yaml")`.

The process that plans a read scans the nodes' files and puts their transactions in order, without a Spark job: a data
source has no session. Each task gets where the transactions of a file stand that a merge would write, renders that file
into its folder for temporary files, and reads it as it reads one of a merged log: the rows are the same by that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from binlog_merge.spark.source_options import Options, fitted_to
from binlog_merge.spark.source_reader import NOTHING, read_file
from binlog_merge.spark.transactions import say
from binlog_merge.unmerged.plan import Unmerged, UnmergedFile
from binlog_merge.unmerged.selection import files_of, rendered


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
