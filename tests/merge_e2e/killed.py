"""A merge in a process of its own, which may be killed at a failpoint.

Processes are forked from a server that has everything imported, so each costs a fraction of a second.
"""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

from binlog_merge.files.failpoint import VARIABLE
from tests.merge_e2e.local import merge

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.merge_e2e.preloaded", __name__])


def merge_until(failpoint: str, config: Path, out: Path, **options: Any) -> bool:
    """Merge in another process that is killed at `failpoint`; returns whether it was, or ended before it got there."""
    process = _context.Process(target=_merge, args=(failpoint, config, out, options))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def _merge(failpoint: str, config: Path, out: Path, options: dict[str, Any]) -> None:
    os.environ[VARIABLE] = failpoint
    merge(config, out, **options)
