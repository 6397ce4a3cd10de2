"""Makes `spark.read.format("binlog")` known: Spark imports packages named pyspark_*, and takes their DefaultSource."""

from binlog_merge.spark.source import BinlogSource as DefaultSource

__all__ = ["DefaultSource"]
