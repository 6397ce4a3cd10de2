"""Starts and ends Spark's Java, and reads what it prints: so that it stands between other lines, not in them.

With an archive of the classes that it loads, a session starts in half the time. Java calls it AppCDS (JEP 350): made
once, at the end of a Java that has run a merge, and tied to the same Java and the same Spark. It lies beside the
folders of compiled kernels, 150 MB.
"""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
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


_QUIET: Final = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"


def name() -> Path | None:
    """Return what the archive's path for this Java and this Spark begins with; None if one of them is missing."""
    from binlog_merge.binlog.kernels import cache  # numba, which takes longer to import than to look for Java

    home, spark = os.environ.get("JAVA_HOME"), _spark()
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None or spark is None:
        return None
    parts = [_stamp(Path(java).resolve()), _stamp(spark / "jars")]
    return cache.folder().parent / f"java-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"


def archive() -> Path | None:
    """Return the archive for this Java and this Spark, if it is there. A damaged one is removed.

    Java maps the file and trusts its size: one that was cut short would end it with SIGBUS. So the size is in the name.
    """
    begins = name()
    for path in [] if begins is None else sorted(begins.parent.glob(f"{begins.name}-*.jsa")):
        with suppress(OSError):
            if f"{begins}-{path.stat().st_size}.jsa" == str(path):
                return path
            path.unlink()
    return None


def _spark() -> Path | None:
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _stamp(path: Path) -> str:
    try:
        return f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}"
    except OSError:
        return str(path)


def options(made: Path | None = None) -> str:
    """Return Java's options: to take the archive, if it is there; to write one to `made` at its end, if given."""
    if made is not None:
        return f' "-XX:ArchiveClassesAtExit={made}" {_QUIET}'
    path = archive()
    return "" if path is None else f' "-XX:SharedArchiveFile={path}" -XX:+VerifySharedSpaces {_QUIET}'


@contextmanager
def making() -> Iterator[Path | None]:
    """Yield the path at which Java is to write the archive; what is there at the end becomes the archive.

    Yields None where it cannot be made, or another process is making it.
    """
    begins = name()
    lock = None if begins is None else _locked(begins.with_suffix(".lock"))
    if begins is None or lock is None:
        yield None
        return
    # A name of this process's own: the Java of one that was killed may still be writing to that one's.
    part = begins.with_suffix(f".{os.getpid()}.part")
    try:
        for left in begins.parent.glob(f"{begins.name}.*.part"):
            left.unlink(missing_ok=True)
        yield part
        if part.is_file():
            with part.open("rb") as file:
                os.fsync(file.fileno())
            made = Path(f"{begins}-{part.stat().st_size}.jsa")
            part.replace(made)
            for other in set(begins.parent.glob(f"{begins.name}-*.jsa")) - {made}:
                other.unlink(missing_ok=True)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        os.close(lock)


def _locked(path: Path) -> int | None:
    """Return the descriptor of a locked file; None if another process has it, or it cannot be made."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def make_beside() -> None:
    """Let a process of its own make the archive, at the lowest priority, if it is missing and can be kept.

    It outlives this process, unless that is the first one of a container, with which all others end.
    """
    begins = name()
    if begins is None or archive() is not None or os.getpid() == 1 or begins.is_relative_to(tempfile.gettempdir()):
        return
    with making() as part:
        if part is None:
            return
    command = ["nice", "-n", "19", sys.executable, "-m", "binlog_merge", "warm", "--java-only"]
    with suppress(OSError):
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
