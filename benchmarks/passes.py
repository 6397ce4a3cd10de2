"""The passes that are measured: each runs once over a generated cluster and returns what it took."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import measure, others
from benchmarks.generate import Generated
from benchmarks.profile import ProfilingRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.base.runner import Runner
from binlog_merge.pipeline.run import run_merge
from binlog_merge.pipeline.values import MergeResult

SAMPLE = 128 << 20  # bytes that mysqlbinlog reads
# As it comes; checking checksums, as a merge does; and taking the rows apart too, as a merge does where it reshapes.
MYSQLBINLOG_OPTIONS = {
    "mysqlbinlog": (),
    "mysqlbinlog_verify": ("--verify-binlog-checksum",),
    "mysqlbinlog_rows": ("--verify-binlog-checksum", "-v", "--base64-output=DECODE-ROWS"),
}
DECODED_SAMPLE = 4 << 20  # bytes that mysql-replication decodes


@dataclass
class Times:
    """What the passes over one cluster took, pass by pass."""

    size: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    stages: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    cpu: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    parts: list[dict[str, dict[str, float]]] = field(default_factory=list)
    output: dict[str, int] = field(default_factory=dict)
    rows_decoded: int = 0

    def add(self, name: str, seconds: float, size: int | None = None) -> None:
        """Note one pass."""
        self.seconds.setdefault(name, []).append(seconds)
        self.sizes[name] = self.size if size is None else size

    def rate(self, name: str) -> float:
        """Return the median MB/s of a pass."""
        return float(measure.rate(self.sizes[name], self.seconds[name])["mb_per_s"]["median"])


@dataclass
class Bench:
    """One cluster, and the places and runners to measure it with."""

    cluster: Generated
    folder: Path
    spark: Any
    native: Runner
    master: str
    mysqlbinlog: str | None
    times: Times
    sample: int = SAMPLE

    @property
    def out(self) -> Path:
        return self.folder / "merged"

    @property
    def copies(self) -> Path:
        return self.folder / "copies"

    def fresh(self) -> None:
        """Bring the machine into the same state before every pass that writes: nothing left to write back, and the
        pages of what the pass before it wrote just freed. A virtual machine gives free pages back to its host within
        seconds, and whoever then writes first would pay for getting them again, at a tenth of the speed.
        """
        os.sync()
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.rmtree(self.copies, ignore_errors=True)

    def merge(self, name: str, runner: Runner) -> None:
        """Merge by a runner, into an empty directory."""
        self.fresh()
        config = MergeConfig.load(self.cluster.config)
        before, begun = measure.cpu_seconds(), time.perf_counter()
        result = run_merge(runner, config, self.out, end_of_input=True)
        seconds, after = time.perf_counter() - begun, measure.cpu_seconds()
        self.times.add(name, seconds)
        self.times.stages.setdefault(name, []).append(dict(result.stages))
        self.times.cpu.setdefault(name, []).append({k: after[k] - before[k] for k in after})
        self._check(result)

    def _check(self, result: MergeResult) -> None:
        """All runners must have written the same."""
        output = {"transactions": result.transactions, "bytes": result.output_bytes, "events": result.events}
        output |= {"branches": result.branches, "rows_reshaped": result.rows_reshaped, "files": len(result.files)}
        if self.times.output and self.times.output != output:
            raise AssertionError(f"two merges of one input differ: {self.times.output} and {output}")
        self.times.output = output

    def warm(self) -> None:
        """Merge on the session, which has merged before."""
        from binlog_merge.spark.runner import SparkRunner

        self.merge("merge_warm", SparkRunner(self.spark))

    def shuffled(self) -> None:
        """Merge on the session, with the index blocks sent through Spark's shuffle, as on a cluster."""
        from binlog_merge.spark.exchange import OPTION
        from binlog_merge.spark.runner import SparkRunner

        self.spark.conf.set(OPTION, "spark")
        try:
            self.merge("merge_shuffled", SparkRunner(self.spark))
        finally:
            self.spark.conf.unset(OPTION)

    def ceiling(self) -> None:
        """Merge by plain processes, one per core."""
        self.merge("native", self.native)

    def one_process(self) -> None:
        """Merge in this process, and take the stages apart."""
        runner = ProfilingRunner()
        self.merge("one_process", runner)
        self.times.parts.append(runner.parts)

    def cold(self) -> None:
        """Merge by the command line, in a new process: Python, Java and Spark start first."""
        self.fresh()
        command = [
            sys.executable, "-m", "binlog_merge.cli.main", "merge", "--config", self.cluster.config,
            "--merged", str(self.out), "--end-of-input", "--master", self.master, "-o", "json",
        ]  # fmt: skip
        begun = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
        self.times.add("merge_cold", time.perf_counter() - begun)
        self.times.stages.setdefault("merge_cold", []).append(_stages_in(json.loads(done.stdout)))

    def copy(self) -> None:
        """Copy the input, without and with fsync."""
        for name, sync in (("cp", False), ("cp_fsync", True)):
            self.fresh()
            self.times.add(name, others.copy_files(self.cluster.files, self.copies, sync=sync))

    def read_by_mysqlbinlog(self) -> None:
        """Let mysqlbinlog read a sample."""
        if self.mysqlbinlog is None:
            return
        file = self.cluster.files[0]
        stop = others.sample_end(file, self.sample)
        for name, options in MYSQLBINLOG_OPTIONS.items():
            size, seconds, cpu = others.mysqlbinlog(self.mysqlbinlog, file, stop, options)
            self.times.add(name, seconds, size)
            self.times.cpu.setdefault(name, []).append({"processes": cpu})

    def decode_by_mysql_replication(self) -> None:
        """Let mysql-replication decode a sample."""
        file = self.cluster.files[0]
        size, rows, seconds = others.mysql_replication(file, DECODED_SAMPLE)
        self.times.add("mysql_replication", seconds, size)
        self.times.rows_decoded = rows

    def passes(self, number: int) -> list[Callable[[], None]]:
        """Return the passes of a round; the merges take turns at being first."""
        merges = [self.warm, self.ceiling, self.shuffled]
        merges = merges if number % 2 == 0 else merges[::-1]
        return [
            *merges, self.one_process, self.read_by_mysqlbinlog, self.decode_by_mysql_replication, self.copy,
        ]  # fmt: skip


def _stages_in(document: dict[str, Any]) -> dict[str, float]:
    found = document.get("stages") or document.get("result", {}).get("stages", {})
    return {name: float(seconds) for name, seconds in found.items()}
