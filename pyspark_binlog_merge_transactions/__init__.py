"""Makes `spark.read.format("binlog.transactions")` known; see pyspark_binlog_merge."""

from binlog_merge.spark.source import TransactionsSource as DefaultSource

__all__ = ["DefaultSource"]
