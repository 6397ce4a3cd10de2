"""Signals that end a command: Ctrl-C and SIGTERM."""

import signal
from types import FrameType


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt, it passes every `except Exception`."""


raised: list[type[BaseException]] = []
"""What signals have raised. DuckDB replaces it by an error of its own if a query is running."""
_LATER_SECONDS = 0.05
_STARTS_PROCESS = ("_execute_child", "launch_gateway")
"""The functions that start a process (subprocess) and Java (pyspark)."""


def heed_signals() -> None:
    """Let SIGTERM and Ctrl-C raise Terminated and KeyboardInterrupt. Where Ctrl-C is ignored (nohup), it stays so."""
    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


def stop(number: int, frame: FrameType | None) -> None:
    """Raise the signal's exception, but not where it would be lost or do harm: then a moment later.

    A module that tries what it can import may take any exception for a no, and one in C aborts the process; Python
    drops what a hook of fork raises; and a Java whose start is not awaited does not notice that its parent has ended.
    """
    if _defers(frame):
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
        signal.setitimer(signal.ITIMER_REAL, _LATER_SECONDS)
        return
    raised.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
    raise raised[-1]


def _defers(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name in _STARTS_PROCESS:
            return True
        frame = frame.f_back
    return False
