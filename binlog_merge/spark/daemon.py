"""Spark's Python daemon with the stages imported before it forks: workers share their pages and start at once."""

import binlog_merge.stages.gather
import binlog_merge.stages.order
import binlog_merge.stages.scan  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
