"""`binlog-merge warm`: prepares a machine or an image, so that the first merge there begins at once."""

import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from binlog_merge.cli.example import cluster
from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log
from binlog_merge.cli.merge import Session, check_engine
from binlog_merge.cli.options import Output, option
from binlog_merge.cli.output import OutputFormat, print_document
from binlog_merge.cli.progress import progress
from binlog_merge.errors import ConfigError

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig

HELP = """Compile the kernels for this machine, and archive the classes that Spark's Java loads, so that later commands
start at once. The first merge does it too, while it runs: this is for images of containers, and for executors' hosts.

\b
  binlog-merge warm
  RUN binlog-merge warm                                     in a Containerfile, as the user that runs it
  NUMBA_CACHE_DIR=/var/cache/binlog-merge binlog-merge warm

It merges the demo's binlogs in a temporary folder, verifies and replays them, and asks for their changes. What is kept
lies in NUMBA_CACHE_DIR, else in ~/.cache/binlog-merge/kernels: 10 MB of kernels and 150 MB of Java's classes. It is
read where it cannot be written. Kernels are for the kind of processor on which they were compiled, Java's classes for
the same Java and Spark: elsewhere, they are made anew. Without Java there are kernels alone."""

JavaOnly = Annotated[bool, option("--java-only", "As a merge starts it in the background.", hidden=True)]


def warm(
    output: Output = OutputFormat.text,
    java_only: JavaOnly = False,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Prepare this machine, so that later commands start at once."""
    start_log(log_level, log_format)
    from binlog_merge.config.merge_config import MergeConfig

    begun = time.monotonic()
    config = MergeConfig.load(cluster())
    lacking = None
    try:
        check_engine(config, _MASTER, None)
    except ConfigError as error:
        if java_only:
            raise
        lacking = error.message
    with tempfile.TemporaryDirectory(prefix="binlog-merge-warm-") as folder:
        out = Path(folder) / "merged"
        classes = None
        if lacking is None:
            classes = _merge(config, out, anew=not java_only)
        else:
            _merge_here(config, out)
        if not java_only:
            _read(Path(folder))
    from binlog_merge.binlog.kernels import cache

    seconds = round(time.monotonic() - begun, 1)
    if output is not OutputFormat.text:
        found = {"kernels": str(cache.folder()), "classes": None if classes is None else str(classes)}
        print_document({**found, "seconds": seconds}, output)
        return
    print(f"kernels: {cache.folder()}")
    why = f"{lacking}, which merge, demo and run need" if lacking else "Java starts as before"
    print(f"Java's classes: {classes or f'not archived: {why}'}")


_MASTER = "local[1]"
_TABLE = ("shop", "orders")
"""A table of the demo."""


def _merge(config: "MergeConfig", out: Path, anew: bool) -> Path | None:
    """Merge the demo, and archive Java's classes if they are missing or wanted `anew`; return the archive, if any."""
    from binlog_merge.spark import java
    from binlog_merge.spark.job import merge

    missing = anew or java.archive() is None
    with (
        java.making() if missing else nullcontext() as part,
        progress() as report,
        Session(config, _MASTER, None, report, part) as session,
    ):
        merge(session, config, out, end_of_input=True, progress=report)
        if part is not None:
            say("Java: its classes are archived as it ends")
            if not session.ends_well():
                part.unlink(missing_ok=True)
    return java.archive()


def _merge_here(config: "MergeConfig", out: Path) -> None:
    """Merge the demo in this process, for a machine without Java, which reads logs that others merge."""
    from binlog_merge.pipeline.base.runner import Files, InDriver
    from binlog_merge.pipeline.compiling import compiling
    from binlog_merge.pipeline.run import run_merge

    with progress() as report:
        with compiling(report):
            pass
        run_merge(InDriver(Files()), config, out, end_of_input=True, progress=report)


def _read(folder: Path) -> None:
    """Run what reads a merged log, which loads the kernels of those commands."""
    from binlog_merge.ask.changes import changes
    from binlog_merge.ask.life import life_of
    from binlog_merge.binlog_server.stream import warm as load_packets
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions, history_of
    from binlog_merge.tables.load import load
    from binlog_merge.tables.target import DuckdbTarget
    from binlog_merge.verification.whole import verify

    load_packets()
    binlog = Log(folder / "merged")
    history = history_of(binlog.directory)
    verify(binlog, history)
    for table in (None, ".".join(_TABLE)):
        for _ in changes(binlog.directory, table):
            pass
    life_of(binlog, _TABLE, {"id": "12"})
    with DuckdbTarget(folder / "demo.db", binlog.cluster_uuid, False, lambda schema, table: None) as target:
        load(binlog, target, history, ReplayOptions())
