"""Starts and ends Spark's Java, and reads what it prints: so that it stands between other lines, not in them."""

import logging
import os
import re
import subprocess
import threading
from collections import deque
from typing import Any, Final

_LOG: Final = logging.getLogger(__name__)
_SAYS_NOTHING: Final = re.compile(r"WARNING: (Using incubator modules: jdk\.incubator\.vector|package \S+ not in \S+)$")
"""Spark's launcher asks for modules and packages, which Java comments on at every start."""
_LAST_WORDS: Final = 2.0
_LAST_LINES: Final = 200
_ENDS_WITHIN: Final = 600.0


class LaunchError(Exception):
    """Java has not started; `said` are its last lines, in order."""

    def __init__(self, error: Exception, said: tuple[str, ...]) -> None:
        super().__init__(str(error))
        self.said = said


def launch(conf: Any) -> Any:
    """Return py4j's gateway to a new Java with these settings. Raises LaunchError if it does not start.

    Each line that Java or its Python workers print becomes a warning in the log; nothing of theirs goes to stdout.
    The stack trace of a start that fails is logged at level debug. A Java that outlives this process does not keep the
    pipes open that a shell waits for.
    """
    from pyspark.java_gateway import launch_gateway

    said: deque[str] = deque(maxlen=_LAST_LINES)
    started = threading.Event()
    lines, end = os.pipe()
    reader = threading.Thread(target=_pass_on, args=(lines, said, started), daemon=True)
    reader.start()
    try:
        gateway = launch_gateway(conf, {"stdout": end, "stderr": end})
        started.set()
        return gateway
    except BaseException as error:
        os.close(end)
        end = -1
        reader.join(_LAST_WORDS)  # why it does not start
        if isinstance(error, Exception):
            raise LaunchError(error, tuple(said)) from error
        raise
    finally:
        if end >= 0:
            os.close(end)


def stop(spark: Any) -> None:
    """Stop a session as the last thing that this process does with Spark, without waiting for its accumulator server.

    That looks only once a second whether it should end.
    """
    context: Any = getattr(spark, "_sc", None)
    if hasattr(context, "_accumulatorServer"):
        context._accumulatorServer = None
    spark.stop()


def end_java(spark: Any) -> bool:
    """Stop a session and wait until its Java has ended; return whether that went well."""
    gateway = spark.sparkContext._gateway
    stop(spark)
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        return gateway.proc.wait(_ENDS_WITHIN) == 0
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        return False


def _pass_on(lines: int, said: deque[str], started: threading.Event) -> None:
    with os.fdopen(lines, errors="replace") as stream:
        for line in stream:
            if (text := line.rstrip()) and not _SAYS_NOTHING.match(text):
                said.append(text)
                where = not started.is_set() and text.startswith("\tat ")
                _LOG.log(logging.DEBUG if where else logging.WARNING, "%s", text)
