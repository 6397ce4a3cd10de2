"""Spark's Python daemon with the stages imported before it forks: workers share their pages and start at once."""

from pyspark.daemon import manager

import binlog_merge.stages.gather
import binlog_merge.stages.order
import binlog_merge.stages.scan  # noqa: F401

if __name__ == "__main__":
    manager()
