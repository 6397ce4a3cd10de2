"""What a round costs, at first and after very many; and how fast rounds catch up, beside a merge that ends.

    python -m benchmarks.rounds [--rounds 100000] [--size 100MB] [--behind 8GB] [--master local[2]] [--out build/bench]

Rounds: the nodes' files of a generated cluster grow a little before each round, anywhere, inside an event too. CPU
seconds are the process's own, so that what else the machine does hardly counts. At the end the files must be those of
one merge.

Catching up: a first round of all that is there, and one merge of it, in turn on one warm session.
"""

import argparse
import hashlib
import json
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.generate import generate, parse_size
from benchmarks.measure import MIB
from benchmarks.runner import InlineRunner
from benchmarks.schedule import Workload
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.manifest import Manifest
from binlog_merge.pipeline.rounds import Rounds
from binlog_merge.pipeline.run import run_merge

WARM = 500
"""Rounds that are not counted: caches fill."""
WINDOW = 1000
"""Rounds of a mean."""


class Growing:
    """A copy of a cluster whose nodes' files grow, all in step, file after file."""

    def __init__(self, made: Path, folder: Path) -> None:
        shutil.copytree(made, folder, ignore=lambda at, names: names if Path(at).parent.name == "nodes" else [])
        self.config = MergeConfig.load(folder / "cluster.yaml")
        self._nodes = [_Node(node, folder / "nodes" / node.name) for node in sorted((made / "nodes").iterdir())]

    def grow(self, part: float) -> None:
        """Let each node have this part of its bytes."""
        for node in self._nodes:
            node.grow(part)


class _Node:
    def __init__(self, made: Path, folder: Path) -> None:
        self._folder = folder
        self._files = [(path.name, _in_use(path.read_bytes())) for path in sorted(made.iterdir())]
        self._total = sum(len(data) for _, data in self._files)
        self._size = 0

    def grow(self, part: float) -> None:
        wanted, begins = int(self._total * part), 0
        for name, data in self._files:
            ends = begins + len(data)
            if self._size < ends and wanted > begins:
                with (self._folder / name).open("ab") as file:
                    file.write(data[max(self._size - begins, 0) : wanted - begins])
            begins = ends
        self._size = wanted


def _in_use(data: bytes) -> bytes:
    """Return a file with the flag of one that its server has open, which is no part of its checksum."""
    return data[:21] + bytes([data[21] | 1]) + data[22:]


def run_rounds(out: Path, rounds: int, size: int) -> dict[str, Any]:
    """Merge a cluster in very many rounds; returns CPU seconds of a round, and the memory, as the rounds go by."""
    shutil.rmtree(out, ignore_errors=True)
    generate(out / "made", Workload(size=size, nodes=3))
    growing, merged = Growing(out / "made", out / "growing"), out / "merged"
    growing.grow(0.05)  # something of every table
    costs, walls, memory = list[float](), list[float](), dict[int, int]()
    with Rounds(InlineRunner(), growing.config, merged) as merging:
        merging.merge()
        for number in range(rounds):
            growing.grow(0.05 + 0.95 * (number + 1) / rounds)
            cpu, wall = time.process_time(), time.perf_counter()
            if merging.has_news():
                merging.merge()
            costs.append(time.process_time() - cpu)
            walls.append(time.perf_counter() - wall)
            if number % max(1, rounds // 20) == 0:
                memory[number] = psutil.Process().memory_info().rss // MIB
        merging.merge(end_of_input=True)
    begun = time.perf_counter()
    state = Manifest.load(merged).state
    opened = time.perf_counter() - begun
    same = _digests(merged) == _digests(_one(growing.config, out / "one"))
    first, last = costs[WARM : WARM + WINDOW], costs[-WINDOW:]
    found = {
        "rounds": len(costs),
        "runs_in_manifest": state.run,
        "first_ms": _milliseconds(first),
        "last_ms": _milliseconds(last),
        "last_to_first": round(statistics.median(last) / statistics.median(first), 3),
        "wall_ms": [_milliseconds(walls[WARM : WARM + WINDOW]), _milliseconds(walls[-WINDOW:])],
        "on_the_way_ms": [
            _milliseconds(costs[i : i + WINDOW]) for i in range(WARM, len(costs), max(WINDOW, rounds // 10))
        ],
        "manifest_opens_s": round(opened, 4),
        "memory_mib": memory,
        "same_files": same,
    }
    shutil.rmtree(out, ignore_errors=True)
    return found


def _one(config: MergeConfig, out: Path) -> Path:
    run_merge(InlineRunner(), config, out, end_of_input=True)
    return out


def _milliseconds(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds) * 1000, 2)


def _digests(merged: Path) -> dict[str, str]:
    paths = [merged / file.name for file in Manifest.load(merged).state.files]
    return {path.name: hashlib.file_digest(path.open("rb"), "sha256").hexdigest() for path in paths}


def run_behind(spark: Any, out: Path, size: int, pairs: int = 2) -> dict[str, Any]:
    """Catch up with `size` bytes in rounds, and merge the same files in one, in turn; returns the ratio of speeds."""
    from binlog_merge.spark.runner import SparkRunner

    shutil.rmtree(out, ignore_errors=True)
    made = generate(out / "made", Workload(size=size, nodes=3))
    config, runner = MergeConfig.load(Path(made.config)), SparkRunner(spark)
    _timed(lambda: run_merge(runner, config, out / "warm"))
    shutil.rmtree(out / "warm")
    once, rounds = list[float](), list[float]()
    for _ in range(pairs):
        for kind, seconds in ((_once, once), (_in_rounds, rounds)):
            merged = out / "merged"
            seconds.append(_timed(lambda kind=kind, merged=merged: kind(runner, config, merged)))
            shutil.rmtree(merged)
    shutil.rmtree(out, ignore_errors=True)
    speed = min(once) / min(rounds)
    return {"bytes": made.bytes, "once_s": once, "rounds_s": rounds, "speed_of_rounds": round(speed, 3)}


def _once(runner: Any, config: MergeConfig, merged: Path) -> None:
    run_merge(runner, config, merged)


def _in_rounds(runner: Any, config: MergeConfig, merged: Path) -> None:
    with Rounds(runner, config, merged) as merging:
        while merging.has_news():
            merging.merge()


def _timed(work: Any) -> float:
    begun = time.perf_counter()
    work()
    return round(time.perf_counter() - begun, 3)


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000, help="0: left out")
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"), help="of the cluster for these rounds")
    parser.add_argument("--behind", type=parse_size, default=parse_size("8GB"), help="0: left out")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    given = parser.parse_args()
    out = given.out.resolve() / "rounds"
    found: dict[str, Any] = {}
    if given.rounds:
        found["rounds"] = run_rounds(out, given.rounds, given.size)
    if given.behind:
        from binlog_merge.spark.session import create_session

        spark = create_session(given.master, {"spark.ui.showConsoleProgress": "false"})
        try:
            found["behind"] = run_behind(spark, out, given.behind)
        finally:
            spark.stop()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
