"""Starts Spark's Java, and reads what it prints: so that it stands between other lines, not in them."""

import logging
import os
import re
import threading
from typing import Any, Final

_LOG: Final = logging.getLogger(__name__)
_SAYS_NOTHING: Final = re.compile(r"WARNING: (Using incubator modules: jdk\.incubator\.vector|package \S+ not in \S+)$")
"""Spark's launcher asks for modules and packages, which Java comments on at every start."""
_LAST_WORDS: Final = 2.0


def launch(conf: Any) -> Any:
    """Return py4j's gateway to a new Java with these settings. Raises what pyspark raises if it does not start.

    Each line that Java or its Python workers print becomes a warning in the log; nothing of theirs goes to stdout. A
    Java that outlives this process does not keep the pipes open that a shell waits for.
    """
    from pyspark.java_gateway import launch_gateway

    lines, end = os.pipe()
    reader = threading.Thread(target=_pass_on, args=(lines,), daemon=True)
    reader.start()
    try:
        return launch_gateway(conf, {"stdout": end, "stderr": end})
    except BaseException:
        os.close(end)
        end = -1
        reader.join(_LAST_WORDS)  # why it does not start
        raise
    finally:
        if end >= 0:
            os.close(end)


def _pass_on(lines: int) -> None:
    with os.fdopen(lines, errors="replace") as stream:
        for line in stream:
            if (text := line.rstrip()) and not _SAYS_NOTHING.match(text):
                _LOG.warning("%s", text)
