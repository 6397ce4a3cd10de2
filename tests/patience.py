"""How long tests wait for what is sure to come: in seconds of a machine that has nothing else to do.

A limit of plain seconds says of a loaded machine that something is broken; of what hangs, nothing else tells.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from typing import Any


class Patience:
    """So many seconds; they pass the more slowly, the more others want the cores."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._at = time.monotonic()

    def lasts(self) -> bool:
        """Return whether there is some left; to be asked every few seconds at least."""
        now = time.monotonic()
        self._left -= (now - self._at) / max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        self._at = now
        return self._left > 0


def ended(process: "subprocess.Popen[Any]", seconds: float) -> tuple[Any, Any]:
    """Return what a process still prints until it ends by itself; what does not end is killed, and fails the test."""
    patience = Patience(seconds)
    while True:
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            if not patience.lasts():
                process.kill()
                said = process.communicate()
                raise AssertionError(f"it does not end: {process.args!r}, which has said {said!r}") from None


def completed(command: Sequence[str], seconds: float, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; return what it has printed."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    with subprocess.Popen(command, **pipes) as process:
        printed, complained = ended(process, seconds)
        return subprocess.CompletedProcess(command, process.returncode, printed, complained)
