"""The Spark session: local by default, quiet, and quick to start."""

import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import ConfigError, EngineFailed

_ENDS_WITHIN: Final = 1.0
_LOG4J = Path(__file__).with_name("log4j2.properties")

_DEFAULTS = {
    "spark.app.name": "binlog-merge",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
    # The JVM only hands out tasks: a short start counts more than its best code.
    "spark.driver.extraJavaOptions": (
        f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={_LOG4J.as_uri()}"
    ),
    "spark.python.daemon.module": "binlog_merge.spark.daemon",
    # Over TCP a task's last small packet waits 40 ms for its acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}


def create_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> Any:
    """Return a session; `conf` overrides the defaults.

    Raises ConfigError if Spark does not start, EngineFailed if something has killed its Java.

    Workers run this interpreter, with the same cache of kernels.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for key, value in {**_DEFAULTS, **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Java's and py4j's too, which have nothing else in common
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line[2:] for line in lines if line.startswith(": ")), next(iter(lines), type(error).__name__))
        remedy = "stderr has what Java says; see --master, --conf, the configuration's `spark` and `java -version`"
        if (number := _killed_by(error)) is not None:
            raise EngineFailed(f"Spark does not start: its Java was ended by signal {number}") from error
        raise ConfigError(f"Spark does not start: {reason}", remedy=remedy) from error


def _killed_by(error: Exception) -> int | None:
    """Return the signal that has ended the session's Java, None if none has.

    pyspark tells nobody how a Java has ended that it waited for in vain: it only has the process in that frame.
    """
    from pyspark import SparkContext

    waiting = [frame.f_locals.get("proc") for frame, _ in traceback.walk_tb(error.__traceback__)]
    for process in (*waiting, getattr(SparkContext._gateway, "proc", None)):
        if isinstance(process, subprocess.Popen):
            with suppress(subprocess.TimeoutExpired):  # its connections are gone a moment before it is
                code = process.wait(_ENDS_WITHIN)
                # A shell has started it, and reports the signal as 128 + its number.
                return -code if code < 0 else code - 128 if code > 128 else None
    return None
