"""Spark's Python daemon, with the kernels loaded before it forks: workers share their pages and start at once."""

import gc
import os
import sys
from typing import Any

from pyspark import daemon

from binlog_merge import without_pandas
from binlog_merge.spark.peer import VARIABLE, identity

_worker = daemon.worker


def _quiet_worker(*arguments: Any) -> int:
    """Run a worker, without a traceback when Spark ends it after a minute without work."""
    try:
        return int(_worker(*arguments))
    except BrokenPipeError:
        return 1


def _check() -> None:
    """End the process if the driver has another Python or version: what is loaded next may not load here."""
    if os.environ.get(VARIABLE, identity()) != identity():
        sys.exit(f"binlog-merge: this executor has {identity()}")


if __name__ == "__main__":
    _check()
    from binlog_merge.pipeline.warm import warm

    warm()
    import pyarrow.compute

    without_pandas.refuse()
    pyarrow.scalar(0)  # with its first value, pyarrow decides whether it uses pandas
    without_pandas.allow()  # to a worker whose task wants it
    import snapshot_store.mysql.sql.tokens  # noqa: F401 (sqlglot, which is imported when a statement is read)

    # Spark's worker collects garbage after every task: with all that is loaded here that would take longer than most
    # tasks (80 ms), and unshare the pages. What is frozen is not looked at.
    gc.collect()
    gc.freeze()
    daemon.worker = _quiet_worker
    daemon.manager()
