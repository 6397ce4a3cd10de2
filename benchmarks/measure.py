"""Clocks and scales: medians with their spread, CPU seconds and memory of the JVM and of Python."""

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import psutil

MIB = 1 << 20


def spread(values: Sequence[float], digits: int = 3) -> dict[str, Any]:
    """Return median, min, max and count."""
    return {
        "median": round(statistics.median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
        "n": len(values),
    }


def rate(size: int, seconds: Sequence[float]) -> dict[str, Any]:
    """Return seconds and MB/s (1 MB = 1e6 bytes) of passes over `size` bytes."""
    return {"seconds": spread(seconds), "mb_per_s": spread([size / s / 1e6 for s in seconds], 1)}


def bytecode() -> str:
    """Return whether the processes that are measured keep the bytecode of what they import, as a user's do."""
    return "compiled anew by each process" if sys.dont_write_bytecode else "kept"


def is_jvm(process: psutil.Process) -> bool:
    """Tell a JVM from a Python process; False for one that is gone."""
    try:
        return "java" in process.name()
    except psutil.Error:
        return False


def spark_processes() -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Return (JVMs, Python workers) of this process's Spark session: Spark's Python daemon is the JVM's child."""
    jvms = [p for p in psutil.Process().children(recursive=True) if is_jvm(p)]
    python = {p.pid: p for jvm in jvms for p in _children(jvm)}
    return jvms, list(python.values())


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [p for p in process.children(recursive=True) if not is_jvm(p)]
    except psutil.Error:
        return []


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds so far of the driver, the JVM, its Python workers (with those that have ended), and this
    process's other children.
    """
    jvms, python = spark_processes()
    spark = {p.pid for p in (*jvms, *python)}
    others = [p for p in psutil.Process().children(recursive=True) if p.pid not in spark]
    own = os.times()
    return {"driver": own.user + own.system, "jvm": _cpu(jvms), "python": _cpu(python), "processes": _cpu(others)}


def _cpu(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
        if not is_jvm(process):
            total += times.children_user + times.children_system
    return total


@dataclass
class Memory:
    """Samples, while it is entered, what the JVM and all Python processes of the session hold, and keeps the peaks.

    RSS counts shared pages once per process, PSS shares them out. The driver's own memory counts as Python.
    """

    interval: float = 0.1
    pss_every: int = 5
    peaks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        number = 0
        while not self._stop.is_set():
            self.sample(pss=number % self.pss_every == 0)
            number += 1
            time.sleep(self.interval)

    def sample(self, *, pss: bool) -> None:
        """Take one sample; PSS takes milliseconds per process."""
        jvms, workers = spark_processes()
        driver = psutil.Process()
        now = {"jvm_rss": _rss(jvms), "driver_rss": _rss([driver]), "workers_rss": _rss(workers)}
        now["python_rss"] = now["driver_rss"] + now["workers_rss"]
        now["all_rss"] = now["python_rss"] + now["jvm_rss"]
        if pss:
            now["python_pss"] = _pss([driver, *workers])
            now["all_pss"] = now["python_pss"] + _pss(jvms)
        for name, value in now.items():
            self.peaks[name] = max(self.peaks.get(name, 0), value)

    def mib(self) -> dict[str, int]:
        """Return the peaks in MiB."""
        return {f"{name}_mib": value // MIB for name, value in sorted(self.peaks.items())}


def _rss(processes: Iterable[psutil.Process]) -> int:
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def _pss(processes: Iterable[psutil.Process]) -> int:
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total
