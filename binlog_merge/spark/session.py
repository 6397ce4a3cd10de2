"""The Spark session: the one that is active, that of spark-submit, or one of our own: local, quiet, quick to start."""

import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import ConfigError, EngineFailed, EngineLost
from binlog_merge.spark import java
from binlog_merge.spark.java import LaunchError, launch
from binlog_merge.spark.master import check_master, is_connect, is_local
from binlog_merge.spark.peer import PACKAGES, VARIABLE, identity

_ENDS_WITHIN: Final = 1.0
_LONGEST: Final = 500
_WRONG_SETTING: Final = re.compile(
    r"Unrecognized (VM )?option|Improperly specified VM option|Invalid (initial|maximum|thread|heap)"
    r"|Invalid \S* ?(size|value|option)|Conflicting .*option|UnsupportedClassVersionError|requires Java|"
    r"IllegalArgumentException|NumberFormatException|Could not parse Master URL|Master must either be|must be set in|"
    r"Usage: spark-submit|Not allowed to|"
    r"SparkUpgradeException|INVALID_|must be (positive|specified|greater|at least)"
)
"""What Java and Spark say of settings that no second try makes right."""
_OF_JAVA: Final = re.compile(r'^(Exception in thread "\S+" |: )?([\w.$]+(Exception|Error): )?')
"""What stands in front of the words of an error of Java's."""
_SHORT: Final = re.compile(
    r"[Ii]nsufficient memory|OutOfMemory|unable to create|Cannot allocate|Too many open|No space"
)
_MAY_PASS: Final = (
    "stderr has what Java says; is the machine short of memory, processes or descriptors (ulimit -n, -u, -v)? It may "
    "pass: run it again. If it does not, see --master, --conf, the configuration's `spark` and `java -version`"
)
_LOG4J = Path(__file__).with_name("log4j2.properties")

LOCAL: Final = "local[*]"
_MASTER: Final = "spark.master"
_PYTHON: Final = "spark.pyspark.python"
_ARCHIVES: Final = ("spark.archives", "spark.yarn.dist.archives")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LAUNCHER_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Of the small Java that puts together the command line of the other one."""
_DEFAULTS = {
    "spark.app.name": "binlog-merge",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",  # of a quarter of a MB: buffers grow to a batch's size
    "spark.sql.adaptive.enabled": "false",
    "spark.shuffle.compress": "false",  # what is sent is narrow already: compressing it costs more than it saves
    "spark.rdd.compress": "false",
    # Rows are few and large. To look into the statistics of kept ones first takes a task longer than to read them; to
    # keep several in a buffer copies each again as it grows; and to hash them tells whether a task that is repeated
    # gives other rows, which ours never does, or why compressed ones could not be read.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.sql.inMemoryColumnarStorage.batchSize": "1",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.driver.memory": "1g",
    # The JVM only hands out tasks: a short start counts more than its best code.
    _JAVA_OPTIONS: (f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={_LOG4J.as_uri()}"),
    "spark.python.daemon.module": "binlog_merge.spark.daemon",
    f"spark.executorEnv.{VARIABLE}": identity(),
    # Over TCP a task's last small packet waits 40 ms for its acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}

_OF_ONE_MACHINE: Final = {
    "spark.ui.enabled": "false",
    # A plan has a row for each task: to make and compile a class for it takes longer than to run it as it stands.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark's own extension registers functions for machine learning, which takes half of a session's start.
    "spark.sql.extensions.test.loadFromCp": "false",
}
"""Of a cluster, its own settings say whether it shows what runs, and how."""


def is_submitted() -> bool:
    """Return whether spark-submit has started this process, and the Java that it talks to."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def active_session(master: str | None = None) -> Any:
    """Return this process's active session, None if there is none. Raises ConfigError if it has another master."""
    if (
        sys.modules.get("pyspark") is None
    ):  # so nobody has made one; and what is missing can be said before it is imported
        return None
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None and master is not None and (its := active.conf.get(_MASTER, None)) != master:
        raise ConfigError(f"a Spark session on {its} is active already", remedy="leave --master out, or stop it first")
    return active


def settings(
    master: str | None,
    options: Mapping[str, str],
    configured: Mapping[str, str],
    submitted: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return the settings of a new session, `spark.master` among them.

    The nearer to the command, the stronger: `master`, then `options`, then what spark-submit was told, then what the
    configuration says, then our defaults. `submitted` is None without spark-submit; it always has a master.
    """
    given = {_MASTER: LOCAL, **configured, **(submitted or {}), **options}
    if master is not None:
        given[_MASTER] = master
    values = {**_DEFAULTS, **(_OF_ONE_MACHINE if is_local(given[_MASTER]) else {}), **given}
    if any(f"#{PACKAGES}" in values.get(key, "") for key in _ARCHIVES):
        values.setdefault("spark.executorEnv.PYTHONPATH", PACKAGES)
    return values


def master_for(master: str | None, options: Mapping[str, str], configured: Mapping[str, str]) -> str:
    """Return the master of a new session that spark-submit has not started."""
    return settings(master, options, configured, None)[_MASTER]


def create_session(
    master: str | None = None,
    options: Mapping[str, str] | None = None,
    configured: Mapping[str, str] | None = None,
    archive: Path | None = None,
) -> Any:
    """Return a new session, with the settings of `settings`. `archive`: where Java writes its classes as it ends.

    Raises ConfigError for settings that Java or Spark calls wrong. What else keeps it from starting may pass, as a
    machine that is short of memory, processes or descriptors: EngineFailed, or EngineLost if only another process can
    try again.

    Workers run this interpreter, with the same cache of kernels, if nothing else is said.
    """
    values = settings(master, options or {}, configured or {}, _submitted())
    check_master(values[_MASTER])
    try:
        with _interrupt_kept():
            return _create(values, archive)
    except Exception as error:  # Java's and py4j's too, which have nothing else in common
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if "stopped SparkContext" in str(error):
            raise EngineFailed(
                "Spark does not start: its master does not answer, or has ended the application",
                remedy="stderr has what it says; is the master's address right, and can its workers reach this host "
                "(--conf spark.driver.host=…)?",
            ) from error
        reason = next((line[2:] for line in lines if line.startswith(": ")), next(iter(lines), type(error).__name__))
        said = error.said if isinstance(error, LaunchError) else ()
        lost = EngineFailed if isinstance(error, LaunchError) else EngineLost
        if (number := _killed_by(error)) is not None:
            raise lost(f"Spark does not start: its Java was ended by signal {number}") from error
        if wrong := next(filter(_WRONG_SETTING.search, (*said, *lines)), None):
            remedy = "stderr has what Java says; see --master, --conf, the configuration's `spark` and `java -version`"
            raise ConfigError(f"Spark does not start: {_OF_JAVA.sub('', wrong)[:_LONGEST]}", remedy=remedy) from error
        if said:
            reason = _OF_JAVA.sub("", next(filter(_SHORT.search, said), said[0]))[:_LONGEST]
        raise lost(f"Spark does not start: {reason}", remedy=_MAY_PASS) from error


@contextmanager
def _interrupt_kept() -> Iterator[None]:
    """Keep what the command has said should happen at Ctrl-C: a SparkContext puts a handler of its own in its place."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _submitted() -> dict[str, str] | None:
    """Return the settings that spark-submit was given, on its command line and in spark-defaults.conf."""
    if not is_submitted():
        return None
    from pyspark import SparkConf, SparkContext

    SparkContext.getSystemProperty(_MASTER)  # without the connection to Java, which this makes, a SparkConf is empty
    return dict(SparkConf().getAll())


def _create(values: dict[str, str], archive: Path | None) -> Any:
    master = values[_MASTER]
    if python := values.get(_PYTHON):  # pyspark itself looks at the environment alone
        os.environ["PYSPARK_PYTHON"] = python
    archived = values.get("spark.executorEnv.PYTHONPATH") == PACKAGES
    os.environ.setdefault("PYSPARK_PYTHON", "python{}.{}".format(*sys.version_info) if archived else sys.executable)
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    if is_local(master):  # executors on other hosts have to find the driver
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    if is_connect(master):  # the server has been started with settings of its own
        return SparkSession.builder.remote(master).getOrCreate()
    _launch(values, archive)
    builder = SparkSession.builder
    for key, value in values.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _launch(values: dict[str, str], archive: Path | None) -> None:
    """Start Java and its context, if they are not there; the session is then made on them."""
    from pyspark import SparkConf, SparkContext

    if is_submitted() or SparkContext._gateway is not None:
        return
    if values[_JAVA_OPTIONS] == _DEFAULTS[_JAVA_OPTIONS]:
        values[_JAVA_OPTIONS] += java.options(archive)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    conf = SparkConf().setAll(list(values.items()))
    SparkContext(conf=conf, gateway=launch(conf))


def _killed_by(error: Exception) -> int | None:
    """Return the signal that has ended the session's Java, None if none has.

    pyspark tells nobody how a Java has ended that it waited for in vain: it only has the process in that frame.
    """
    from pyspark import SparkContext

    began = error.__cause__ if isinstance(error, LaunchError) else error
    assert began is not None
    waiting = [frame.f_locals.get("proc") for frame, _ in traceback.walk_tb(began.__traceback__)]
    for process in (*waiting, getattr(SparkContext._gateway, "proc", None)):
        if isinstance(process, subprocess.Popen):
            with suppress(subprocess.TimeoutExpired):  # its connections are gone a moment before it is
                code = process.wait(_ENDS_WITHIN)
                # A shell has started it, and reports the signal as 128 + its number.
                return -code if code < 0 else code - 128 if code > 128 else None
    return None
