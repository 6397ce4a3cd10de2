"""The global binlog of a distributed MySQL: many nodes' binlogs in, one MySQL-compatible binlog out.

    from binlog_merge import MergeConfig, merge

    result = merge(spark, MergeConfig.load("cluster.yaml"), "merged/")

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlog_merge import errors
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.errors import MergeError
    from binlog_merge.spark.job import MergeResult, merge
    from binlog_merge.spark.transactions import transactions

__all__ = ["MergeConfig", "MergeError", "MergeResult", "errors", "merge", "transactions"]

_HOMES = {
    "MergeConfig": "binlog_merge.config.merge_config",
    "MergeError": "binlog_merge.errors",
    "MergeResult": "binlog_merge.spark.job",
    "merge": "binlog_merge.spark.job",
    "transactions": "binlog_merge.spark.transactions",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("binlog_merge.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
