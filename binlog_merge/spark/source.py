"""A merged log as a data source of Spark: `spark.read.format("binlog").option("table", "shop.orders").load("merged/")`.

Spark imports this in every application that asks for a data source by name, so what reads is loaded when it is used.
"""

import sys
from typing import Any

from pyspark.sql.datasource import DataSource


class BinlogSource(DataSource):
    """The data source `binlog`: the changes of a table's rows, or of all tables', batch and stream.

    The path is a merged log, or the configuration of a cluster that is not merged. Options: table, start, stop, where,
    op, columns, asOf, temporal, zeroDates and timeZone as of `binlog_merge.changes`; fields; of a merged log
    partitionBytes (32 MiB), and of its stream maxFilesPerTrigger; of a cluster endOfInput.
    """

    _planned: Any = None
    """The cluster's transactions, from the process that has asked for the schema to the one that plans the read."""

    @classmethod
    def name(cls) -> str:
        """Return the short name."""
        return "binlog"

    def schema(self) -> Any:
        """Return the columns of the rows, typed over the versions of the table."""
        from binlog_merge.spark.source_options import Options, schema_of, spark_schema

        options = Options.of(self.options)
        if not options.of_nodes:
            return schema_of(options)
        self._planned = options.plan()
        return spark_schema(options.selected_unmerged(self._planned))

    def reader(self, schema: Any) -> Any:
        """Return a reader of a batch, which takes filters where Spark hands them."""
        from binlog_merge.spark.source_options import Options
        from binlog_merge.spark.source_reader import BinlogReader, PushingReader

        options = Options.of(self.options)
        if options.of_nodes:
            from binlog_merge.spark.source_reader import NodesReader

            planned, self._planned = self._planned, None  # Spark sends this object to every task
            return NodesReader(options, planned or options.plan(), schema)
        kind = PushingReader if _hands_filters() else BinlogReader
        return kind(options, schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 (Spark's name)
        """Return a reader of micro-batches."""
        from binlog_merge.spark.source_options import Options
        from binlog_merge.spark.source_reader import BinlogStream

        return BinlogStream(Options.of(self.options), schema)


class SchemasSource(DataSource):
    """The data source `binlog.schemas`: every version of every table that the log's schema store has."""

    @classmethod
    def name(cls) -> str:
        """Return the short name."""
        return "binlog.schemas"

    def schema(self) -> str:
        """Return the columns."""
        from binlog_merge.spark.source_reader import SCHEMAS

        return SCHEMAS

    def reader(self, schema: Any) -> Any:
        """Return a reader of a batch."""
        from binlog_merge.spark.source_reader import SchemasReader

        return SchemasReader(self.options, schema)


class TransactionsSource(DataSource):
    """The data source `binlog.transactions`: where each transaction of the log stands, without its rows."""

    @classmethod
    def name(cls) -> str:
        """Return the short name."""
        return "binlog.transactions"

    def schema(self) -> str:
        """Return the columns."""
        from binlog_merge.spark.source_reader import TRANSACTIONS

        return TRANSACTIONS

    def reader(self, schema: Any) -> Any:
        """Return a reader of a batch."""
        from binlog_merge.spark.source_reader import TransactionsReader

        return TransactionsReader(self.options, schema)


def _hands_filters() -> bool:
    """Return whether this process plans a read with filters: Spark refuses a reader that has pushFilters in others."""
    name = "pyspark.sql.worker.data_source_pushdown_filters"
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return name in sys.modules or (spec is not None and spec.name == name)
