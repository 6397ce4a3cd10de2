"""From passes to the JSON that is printed: medians with their spread, ratios, and whether the targets are met."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure import bytecode, rate, spread
from benchmarks.passes import MYSQLBINLOG_OPTIONS, Times

TARGETS = {
    "warm_to_native": 0.9,
    "shuffled_to_native": 0.78,
    "warm_to_mysqlbinlog_verify": 8.0,
    "warm_to_mysql_replication": 150.0,
}
CLUSTER = 0.65
"""Of what plain processes take on local files, and what the store takes for the same bytes."""
# Like is compared with like: a merge checks every checksum, and where it reshapes it takes the rows apart as well.
_RESHAPING = {"warm_to_mysqlbinlog_verify": "warm_to_mysqlbinlog_rows"}
_RATIOS = (
    ("warm_to_native", "native"),
    ("shuffled_to_native", "native"),
    ("shuffled_to_warm", "merge_warm"),
    ("warm_to_one_process", "one_process"),
    ("warm_to_cp", "cp"),
    ("warm_to_cp_fsync", "cp_fsync"),
    ("warm_to_mysqlbinlog", "mysqlbinlog"),
    ("warm_to_mysqlbinlog_verify", "mysqlbinlog_verify"),
    ("warm_to_mysqlbinlog_rows", "mysqlbinlog_rows"),
    ("warm_to_mysql_replication", "mysql_replication"),
)


def machine() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    packages = ("pyspark", "numba", "numpy", "pyarrow", "mysql-replication")
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "load_before": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        "bytecode": bytecode(),
        **{name: version(name) for name in packages},
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def summary(times: Times) -> dict[str, Any]:
    """Return everything measured on one cluster."""
    result: dict[str, Any] = {name: rate(times.sizes[name], seconds) for name, seconds in times.seconds.items()}
    for name, stages in times.stages.items():
        result[name]["stages"] = _medians(stages)
    for name, cpu in times.cpu.items():
        gigabytes = times.sizes[name] / 1e9
        result[name]["cpu_seconds"] = _medians(cpu)
        result[name]["cpu_seconds_per_gb"] = round(statistics.median(sum(one.values()) for one in cpu) / gigabytes, 3)
        result[name]["seconds_per_gb"] = spread([s / gigabytes for s in times.seconds[name]])
    if times.parts:
        result["one_process"]["parts"] = {
            stage: _medians([p[stage] for p in times.parts if stage in p]) for stage in times.parts[0]
        }
        result["kernels_mb_per_s"] = _kernels(times)
    result["input_bytes"] = times.size
    result["output"] = times.output
    result["ratios"] = ratios(times)
    # Wall time suffers from whatever else runs on the machine, CPU time hardly.
    for name in MYSQLBINLOG_OPTIONS:
        if {"merge_warm", name} <= set(times.cpu):
            by_cpu = result[name]["cpu_seconds_per_gb"] / result["merge_warm"]["cpu_seconds_per_gb"]
            result["ratios"][f"warm_to_{name}_by_cpu"] = round(by_cpu, 3)
    if {"merge_warm", "native"} <= set(times.cpu):
        native = result["native"]["cpu_seconds_per_gb"]
        for name in ("warm", "shuffled"):
            if f"merge_{name}" in times.cpu:
                by_cpu = round(native / result[f"merge_{name}"]["cpu_seconds_per_gb"], 3)
                result["ratios"][f"{name}_to_native_by_cpu"] = by_cpu
    return result


def _medians(many: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(one.get(name, 0.0) for one in many), 3) for name in many[0]}


def _kernels(times: Times) -> dict[str, float]:
    """Return MB/s of input of the stages and of their kernels alone, in one process."""
    found = {}
    for stage in ("scan", "order", "gather"):
        parts = [p[stage] for p in times.parts if stage in p]
        for part in ("total", "kernel"):
            seconds = [p[part] for p in parts if part in p]
            if seconds:
                found[f"{stage}_{'stage' if part == 'total' else part}"] = round(
                    times.size / statistics.median(seconds) / 1e6, 1
                )
    return found


def ratios(times: Times) -> dict[str, float]:
    """Return how many times as fast a merge on Spark is, in MB/s of input, as each of the others.

    Passes of one round stand side by side, so the ratio is taken round by round and the median kept.
    """
    found = {}
    for name, other in _RATIOS:
        merge = f"merge_{name.partition('_')[0]}"
        pairs = zip(times.seconds.get(merge, []), times.seconds.get(other, []), strict=False)
        quotients = [(times.sizes[merge] / m) / (times.sizes[other] / s) for m, s in pairs]
        if quotients:
            found[name] = round(statistics.median(quotients), 3)
    return found


def verdicts(by_mode: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return each target with the modes' ratios, and whether all of them reach it; and that of a cluster."""
    result = {}
    if cluster is not None:
        ratio = cluster["cluster_to_native_and_store"]["median"]
        result["cluster_to_native_and_store"] = {"target": CLUSTER, "found": ratio, "met": ratio >= CLUSTER}
    for name, target in TARGETS.items():
        found = {}
        for mode, one in by_mode.items():
            ratio = name if mode == "identity" else _RESHAPING.get(name, name)
            if ratio in one["ratios"]:
                found[f"{mode}: {ratio}"] = one["ratios"][ratio]
        if found:
            result[name] = {"target": target, "found": found, "met": min(found.values()) >= target}
    return result
