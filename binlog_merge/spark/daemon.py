"""Spark's Python daemon with the kernels loaded before it forks: workers share their pages and start at once."""

import gc
import sys
from threading import Timer

from pyspark.daemon import manager

from binlog_merge.stages.warm import warm

_PATIENCE = 5.0  # seconds; loading compiled kernels takes less


def _explain() -> None:
    print("loading kernels; the first run on a machine compiles them", file=sys.stderr, flush=True)


if __name__ == "__main__":
    slow = Timer(_PATIENCE, _explain)
    slow.daemon = True
    slow.start()
    warm()
    slow.cancel()
    slow.join()  # no thread may be left when the daemon forks
    # Spark's worker collects garbage after every task: with all that is loaded here that would take longer than most
    # tasks (80 ms), and unshare the pages. What is frozen is not looked at.
    gc.collect()
    gc.freeze()
    manager()
