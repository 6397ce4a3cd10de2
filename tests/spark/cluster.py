"""A standalone Spark cluster of real processes on this machine: a master, and workers that share nothing but its disk.

Everything comes from the jars of the installed pyspark. What workers start gets a bare environment: it finds no package
of ours unless a test sends it there, but compiled kernels.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
BARE_PYTHON = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
"""This Python without the packages of its virtual environment."""
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A short start counts more than the best code."""

_STARTS_WITHIN = 300.0
_HOST = "127.0.0.1"


@dataclass
class Cluster:
    """`with Cluster(directory) as cluster: … cluster.master`; workers are added by `add_worker`."""

    directory: Path
    master: str = ""
    workers: int = 0
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        port = _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        try:
            self._start("master.Master", "--port", str(port))
            _until(lambda: _listens(port))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
            process.wait()

    def add_worker(self, cores: int = 4, host: str = _HOST) -> None:
        """Start a worker, with a working directory of its own, and wait until it is registered."""
        name = f"worker-{len(self._processes)}"
        log = self._start(
            "worker.Worker", "--cores", str(cores), "--memory", "2g", "--work-dir", str(self.directory / name),
            self.master, host=host,
        )  # fmt: skip
        _until(lambda: b"Successfully registered with master" in log.read_bytes())
        self.workers += 1

    def processes(self) -> list[psutil.Process]:
        """Return the master and the workers that live."""
        return [psutil.Process(process.pid) for process in self._processes if process.poll() is None]

    def kill_executors(self) -> int:
        """Kill what the workers have started for applications; returns how many executors there were."""
        executors = [child for process in self.processes() for child in process.children()]
        for one in executors:
            one.kill()
        return len(executors)

    def _start(self, name: str, *arguments: str, host: str = _HOST) -> Path:
        log = self.directory / f"{len(self._processes)}-{name}.log"
        bare = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "JAVA_HOME", "LANG", "NUMBA_CACHE_DIR")
        }
        own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
        own["SPARK_DAEMON_JAVA_OPTS"] = QUICK_JAVA
        command = [f"{SPARK_HOME}/bin/spark-class", f"org.apache.spark.deploy.{name}", "--host", host]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                cwd=self.directory, stdout=output, stderr=output, env={**bare, **own},
            )  # fmt: skip
        self._processes.append(process)
        return log


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + _STARTS_WITHIN
    while not true():
        assert time.monotonic() < end, "Spark's processes do not start"
        time.sleep(0.1)
