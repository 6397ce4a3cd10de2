"""Spark's Python daemon with the kernels loaded before it forks: workers share their pages and start at once."""

from pyspark.daemon import manager

from binlog_merge.stages.warm import warm

if __name__ == "__main__":
    warm()
    manager()
