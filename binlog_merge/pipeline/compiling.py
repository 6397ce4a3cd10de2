"""Compiles the kernels of a merge on a machine that has not run them yet, with a process for each part.

numba compiles one function at a time in a process, however many cores there are.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from binlog_merge.binlog.kernels import cache
from binlog_merge.pipeline.base.runner import Progress

_LOG = logging.getLogger(__name__)

STAGE: Final = "compile"
_PARTS: Final = {"walking": 30, "writing": 61}
"""The parts of `pipeline.warm`, and about how many functions each has; that module imports far more than this one."""


@contextmanager
def compiling(progress: Progress) -> Iterator[None]:
    """Compile the kernels while the body runs, and wait for them; do nothing if they are there.

    Reported as the stage `compile`. A part that fails is left to those who need it, who then say what is wrong.
    """
    if cache.is_filled():
        yield
        return
    # Also where this process alone has a cache, in a folder of its own: those whom it starts find that one.
    os.environ["NUMBA_CACHE_DIR"] = str(cache.folder().parent)
    _LOG.warning("compiling kernels for this machine, once: about half a minute of processor time")
    command = [sys.executable, "-m", "binlog_merge.pipeline.warm"]
    progress(STAGE, 0, sum(_PARTS.values()))
    processes = {
        part: subprocess.Popen([*command, part], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for part in _PARTS
    }
    report = _Report(progress)
    watches = [threading.Thread(target=report.watch, args=(part, p), daemon=True) for part, p in processes.items()]
    try:
        for watch in watches:
            watch.start()
        yield
        for watch in watches:
            watch.join()
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    failed = sorted(part for part, process in processes.items() if process.returncode)
    if failed:
        _LOG.warning("kernels could not be compiled beforehand: %s", ", ".join(failed))
    else:
        cache.note_filled()
    progress(STAGE, sum(_PARTS.values()), sum(_PARTS.values()))


class _Report:
    """Reports what the parts have done together."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._done = dict.fromkeys(_PARTS, 0)

    def watch(self, part: str, process: "subprocess.Popen[str]") -> None:
        """Count the lines that a part's process prints, until it ends."""
        assert process.stdout is not None
        with process.stdout as lines:
            for _ in lines:
                self._count(part, min(self._done[part] + 1, _PARTS[part] - 1))
        process.wait()
        self._count(part, _PARTS[part])

    def _count(self, part: str, done: int) -> None:
        with self._lock:
            self._done[part] = done
            total = sum(_PARTS.values())
            self._progress(STAGE, min(sum(self._done.values()), total - 1), total)
