"""What grows with the number of transactions, nodes and files, and what does not; prints one JSON object.

    python -m benchmarks.scale [--clusters 4x1x250MB,4x8x250MB,100x20x1MB] [--exchange spark] [--out build/bench]

A cluster is NODESxFILESxSIZE: so many files of about that size on each node, of small transactions, of which one in
twenty is distributed. Each is merged twice on one session; the second is measured. Driver memory is that of
this Python process, with what the clusters before have left: the first should be the smallest.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks import measure
from benchmarks.generate import generate, parse_size
from benchmarks.schedule import Workload
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge
from binlog_merge.spark.exchange import OPTION
from binlog_merge.spark.runner import SparkRunner
from binlog_merge.spark.session import create_session
from binlog_merge.spark.tasks import pickled

Task = TypeVar("Task")
Result = TypeVar("Result")


class Weighing(SparkRunner):
    """Notes of each stage how many tasks it has, and how many bytes they are: what all share, and the largest one."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark)
        self.stages: dict[str, dict[str, int]] = {}
        self.driver_bytes = 0

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run a stage, and note its sizes."""
        common, own = pickled(tasks) if tasks else (b"", [b""])
        self.stages[name] = {"tasks": len(tasks), "common_bytes": len(common), "task_bytes": max(map(len, own))}
        results = super().run(name, function, tasks)
        self.driver_bytes = max(self.driver_bytes, psutil.Process().memory_info().rss)
        return results


def measured(spark: Any, folder: Path, nodes: int, files: int, size: int) -> dict[str, Any]:
    """Generate a cluster, merge it twice, and return what the second merge took."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        workload = Workload(
            size=nodes * files * size, nodes=nodes, shapes=("counters",), file_size=size, tables_per_shape=1,
            distributed=0.05,
        )  # fmt: skip
        made = generate(folder / "cluster", workload)
        for _ in range(2):
            shutil.rmtree(folder / "merged", ignore_errors=True)
            runner = Weighing(spark)
            before, begun = measure.cpu_seconds(), time.perf_counter()
            done = run_merge(runner, MergeConfig.load(made.config), folder / "merged", end_of_input=True)
            seconds, after = time.perf_counter() - begun, measure.cpu_seconds()
        cpu = {name: after[name] - before[name] for name in after}
        return {
            "nodes": nodes, "files": len(made.files), "bytes": made.bytes, "transactions": done.transactions,
            "seconds": round(seconds, 2), "cpu_seconds": {name: round(value, 2) for name, value in cpu.items()},
            "cpu_us_per_transaction": round(sum(cpu.values()) / done.transactions * 1e6, 3),
            "driver_mib": runner.driver_bytes // measure.MIB, "stages": runner.stages,
        }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cluster(text: str) -> tuple[int, int, int]:
    """Read NODESxFILESxSIZE."""
    nodes, files, size = text.split("x")
    return int(nodes), int(files), parse_size(size)


def main() -> None:
    """Measure the clusters one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clusters", default="4x1x250MB,4x8x250MB,100x20x1MB")
    parser.add_argument("--exchange", choices=("spark", "files"), default="spark")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--out", default="build/bench", type=lambda path: str(Path(path).resolve()))
    arguments = parser.parse_args()
    spark = create_session(arguments.master, {OPTION: arguments.exchange})
    try:
        clusters = (cluster(text) for text in arguments.clusters.split(","))
        found = [measured(spark, Path(arguments.out) / "scale", *one) for one in clusters]
    finally:
        spark.stop()
    print(json.dumps({"exchange": arguments.exchange, "clusters": found}, indent=1))


if __name__ == "__main__":
    main()
