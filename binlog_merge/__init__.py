"""The global binlog of a distributed MySQL: many nodes' binlogs in, one MySQL-compatible binlog out.

    import binlog_merge

    config = binlog_merge.MergeConfig.load("cluster.yaml")
    binlog_merge.capture(config)                              # the nodes' binlogs from their servers
    binlog_merge.merge(spark, config, "merged/")              # one binlog of all
    binlog_merge.verify("merged/")                            # is it whole and in order
    binlog_merge.replay("merged/", "mysql://root@10.0.0.7")   # apply it, exactly once
    with binlog_merge.serve("merged/") as address: ...        # be the source of replicas and CDC tools
    for event in binlog_merge.inspect("merged/binlog.000001"): ...

The names are loaded when they are first used, so that importing the package costs nothing; only `merge` and
`transactions` need Spark. Errors are `MergeError`s, as on the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlog_merge import errors
    from binlog_merge.api import capture, inspect, replay, serve, verify
    from binlog_merge.ask.changes import changes
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.errors import MergeError
    from binlog_merge.spark.job import MergeResult, merge
    from binlog_merge.spark.transactions import transactions

__all__ = [
    "MergeConfig",
    "MergeError",
    "MergeResult",
    "capture",
    "changes",
    "errors",
    "inspect",
    "merge",
    "replay",
    "serve",
    "transactions",
    "verify",
]

_HOMES = {
    "MergeConfig": "binlog_merge.config.merge_config",
    "MergeError": "binlog_merge.errors",
    "MergeResult": "binlog_merge.pipeline.values",
    "capture": "binlog_merge.api",
    "changes": "binlog_merge.ask.changes",
    "inspect": "binlog_merge.api",
    "merge": "binlog_merge.spark.job",
    "replay": "binlog_merge.api",
    "serve": "binlog_merge.api",
    "transactions": "binlog_merge.spark.transactions",
    "verify": "binlog_merge.api",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("binlog_merge.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
