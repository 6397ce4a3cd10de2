"""Makes `spark.read.format("binlog.schemas")` known; see pyspark_binlog_merge."""

from binlog_merge.spark.source import SchemasSource as DefaultSource

__all__ = ["DefaultSource"]
