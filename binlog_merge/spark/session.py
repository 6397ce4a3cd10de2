"""The Spark session: local by default, quiet, and quick to start."""

import os
import sys
from collections.abc import Mapping
from typing import Any

_DEFAULTS = {
    "spark.app.name": "binlog-merge",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.python.daemon.module": "binlog_merge.spark.daemon",
}


def create_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> Any:
    """Return a session; `conf` overrides the defaults. Workers run this interpreter, with the kernels' cache where it
    is.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for key, value in {**_DEFAULTS, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(str((conf or {}).get("spark.log.level", "ERROR")))
    return session
