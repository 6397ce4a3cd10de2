"""The figures that the docs have, in one run, each beside what a user would compare it with.

    python -m benchmarks.figures [--against COMMIT] [--only merge,scale,replica,live] [--rounds 5] [--size 800MB]
                                 [--volume-seconds 300] [--out build/bench]

| part | minutes | what |
|---|---|---|
| merge | 5 | CPU of a warm merge beside that of another commit's tree; seconds beside plain processes, `cp` with
  fsync and `mysqlbinlog`; through the shuffle; what writesets cost |
| scale | 2 | CPU a transaction of 100 nodes and 2,000 files beside 4 nodes and 4 files |
| replica | 2 | a replica with four workers by writesets and by commit order |
| live | 3, with `--against` 6 | from commit to replica, and what it takes at rest |

Passes that are compared stand side by side, so ratios are to be believed where seconds are not. Prints a table, and
writes everything to figures.json.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import parallel, scale
from benchmarks.generate import generate, parse_size
from benchmarks.passes import Bench, Times
from benchmarks.report import machine, summary
from benchmarks.runner import ProcessRunner
from benchmarks.schedule import Workload
from benchmarks.tables import MODES
from benchmarks.trees import ROOT, Merger, configured, environment, in_turns, mergers, tree_of

MYSQLBINLOG: Final = ROOT / "build/mysql/bin/mysqlbinlog"
_SAMPLE: Final = 32 << 20
_CLUSTERS: Final = ((4, 1, 250_000_000), (100, 20, 500_000))


class Figure(NamedTuple):
    """A line of the table: what was measured, what is wanted ("": no more than to know it), and what was found."""

    what: str
    goal: str
    found: str


@dataclass(frozen=True)
class Asked:
    """What the command line asks for. `against` is the tree of another commit, None: there is none."""

    out: Path
    rounds: int
    size: int
    against: Path | None
    seconds: float
    volume_seconds: float | None


def _ratio(ours: Sequence[float], others: Sequence[float]) -> str:
    """Return the median of the rounds' own ratios, and their least and greatest."""
    each = [a / b for a, b in zip(ours, others, strict=True)]
    return f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


@contextmanager
def _session(out: Path) -> "Iterator[tuple[Any, ProcessRunner]]":
    """Yield a Spark session and plain processes, on two cores each."""
    with ProcessRunner(2) as native:
        from binlog_merge.spark.session import create_session

        spark = create_session("local[2]", {"spark.ui.showConsoleProgress": "false"})
        try:
            yield spark, native
        finally:
            spark.stop()


def merge(asked: Asked, details: dict[str, Any]) -> list[Figure]:
    """Measure warm merges of each mode, and what writesets cost."""
    trees = {"writeset": ROOT, "commit-order": ROOT}
    if asked.against is not None:
        trees["against"] = asked.against
    found: list[Figure] = []
    with _session(asked.out) as (spark, native), mergers(trees, asked.out) as processes:
        for mode in MODES:
            workload = replace(Workload(size=asked.size), mode=mode)
            found += _mode(workload, asked, details, (spark, native), processes)
    return found


def _mode(
    workload: Workload,
    asked: Asked,
    details: dict[str, Any],
    engines: tuple[Any, ProcessRunner],
    processes: Mapping[str, Merger],
) -> list[Figure]:
    mode, folder = workload.mode, asked.out / f"figures-{workload.mode}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        made = generate(folder / "cluster", workload)
        config = Path(made.config)
        configs = {name: config if name == "against" else configured(config, name) for name in processes}
        cpu = in_turns(processes, configs, asked.rounds)
        program = str(MYSQLBINLOG) if MYSQLBINLOG.exists() else None
        bench = Bench(made, folder, *engines, "local[2]", program, Times(made.bytes), _SAMPLE)
        for _ in range(2):  # kernels are loaded, workers awake
            bench.ceiling()
            bench.warm()
        bench.times = Times(made.bytes, output=bench.times.output)
        for number in range(asked.rounds):
            passes: list[Callable[[], None]] = [bench.warm, bench.ceiling, bench.shuffled]
            others = [bench.copy, bench.read_by_mysqlbinlog] if number < 3 else [bench.copy]
            for one in [*(passes if number % 2 == 0 else passes[::-1]), *others]:
                one()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured = summary(bench.times)
    details[mode] = {"cpu_seconds": cpu, "workload_bytes": made.bytes, **measured}
    ratios = measured["ratios"]
    found = []
    if "against" in cpu:
        goal = "0.70" if mode == "identity" else "0.75"
        for way in ("commit-order", "writeset"):
            what = f"{mode}: CPU of a warm merge, {way}, against the other tree's default"
            found.append(Figure(what, goal, _ratio(cpu[way], cpu["against"])))
    costs = [100 * (a / b - 1) for a, b in zip(cpu["writeset"], cpu["commit-order"], strict=True)]
    least = 100 * (min(cpu["writeset"]) / min(cpu["commit-order"]) - 1)
    per_gb = statistics.median(cpu["writeset"]) / made.bytes * 1e9
    goal = "6 %" if mode == "identity" else ""
    found += [
        Figure(f"{mode}: CPU seconds a GB, one process", "", f"{per_gb:.2f}"),
        Figure(f"{mode}: what writesets cost", goal, f"{statistics.median(costs):.0f} %, of minima {least:.0f} %"),
    ]
    rows = {
        "warm_to_native": ("against plain processes", "0.9"),
        "warm_to_native_by_cpu": ("the same, by CPU seconds", ""),
        "warm_to_cp_fsync": ("against `cp` with fsync", "0.75"),
        "warm_to_mysqlbinlog_verify": ("against `mysqlbinlog --verify-binlog-checksum`", "10"),
        "warm_to_mysqlbinlog_verify_by_cpu": ("CPU seconds of that `mysqlbinlog` to those of a merge", ""),
        "warm_to_mysqlbinlog_rows": ("the same with rows (-v)", "10" if mode != "identity" else ""),
        "warm_to_mysqlbinlog_rows_by_cpu": ("CPU seconds of `mysqlbinlog -v` to those of a merge", ""),
        "shuffled_to_native": ("through the shuffle, against plain processes", "0.9"),
        "shuffled_to_native_by_cpu": ("the same, by CPU seconds", ""),
    }
    found += [
        Figure(f"{mode}: {text}", goal, f"{ratios[name]:.2f}") for name, (text, goal) in rows.items() if name in ratios
    ]
    return found


def nodes(asked: Asked, details: dict[str, Any]) -> list[Figure]:
    """Measure what many nodes and files cost."""
    from binlog_merge.spark.exchange import OPTION

    with _session(asked.out) as (spark, _):
        spark.conf.set(OPTION, "spark")
        found = [scale.measured(spark, asked.out / "scale", *one) for one in _CLUSTERS]
    details["scale"] = found
    few, many = (one["cpu_us_per_transaction"] for one in found)
    sizes = " and ".join(f"{one['nodes']} nodes, {one['files']} files" for one in found[::-1])
    return [
        Figure(f"CPU a transaction, {sizes}", "1.3", f"{many / few:.2f} ({many:.1f} and {few:.1f} µs)"),
        Figure("driver, MiB", "1024", " and ".join(str(one["driver_mib"]) for one in found[::-1])),
    ]


def replicas(asked: Asked, details: dict[str, Any]) -> list[Figure]:
    """Measure a replica with four workers."""
    rounds = max(1, asked.rounds // 2)
    details["replica"] = found = parallel.run(asked.out / "parallel", 12_000, rounds)
    goals = {"no binlog": "1.5", "sync_binlog=1": "1.5", "slow": "3"}
    texts = {"slow": "sync_binlog=1 and 5 ms at each group commit"}
    return [
        Figure(
            f"replica with 4 workers, {texts.get(name, name)}: times as fast as by commit order", goal,
            f"{found[name]['times']:.2f} ({found[name]['commit-order']['median']:.1f} s, "
            f"{found[name]['writeset']['median']:.1f} s)",
        )
        for name, goal in goals.items()
    ]  # fmt: skip


def running(asked: Asked, details: dict[str, Any]) -> list[Figure]:
    """Measure a running cluster and its replica, of this tree and of the other."""
    trees = {"": ROOT} if asked.against is None else {"": ROOT, "the other tree: ": asked.against}
    found: list[Figure] = []
    for name, tree in trees.items():
        command = ["-m", "benchmarks.live", "--seconds", str(asked.seconds), "--rest", "20"]
        command += ["--out", str(asked.out)]
        if tree == ROOT and asked.volume_seconds is not None:
            command += ["--volume-seconds", str(asked.volume_seconds)]
        done = subprocess.run(
            [sys.executable, *command], cwd=tree, env=environment(tree), text=True, stdout=subprocess.PIPE, check=True
        )
        details[f"live {name}".strip(": ")] = live = json.loads(done.stdout)
        found += [
            Figure(f"{name}200 transactions a second, p50 / p99", "0.3 / 0.8", _lag(live["steady"])),
            Figure(f"{name}while a column is added", "- / 1.5", _lag(live["ddl"])),
            Figure(f"{name}10 MB/s", "- / 1.5", f"{_lag(live['volume'])}, halves {_halves(live['volume'])}"),
            Figure(f"{name}cores at rest", "0.01", str(live["rest"]["cores"])),
            Figure(f"{name}cores at 200 a second", "", str(live["steady"]["cores"])),
        ]
    return found


def _lag(phase: Mapping[str, Any]) -> str:
    ours, plain = phase["ours"], phase["plain"]
    spent = phase["seconds_in"]
    nodes = f"a replica of the nodes {plain['p50']} / {plain['p99']}"
    where = f"on average {spent['merge']} in the merge, {spent['serve_and_apply']} in serve and the replica"
    return f"{ours['p50']} / {ours['p99']} s ({nodes}; {where})"


def _halves(phase: Mapping[str, Any]) -> str:
    return " and ".join(str(half) for half in phase["ours_halves"])


PARTS: Final[dict[str, Callable[[Asked, dict[str, Any]], list[Figure]]]] = {
    "merge": merge,
    "scale": nodes,
    "replica": replicas,
    "live": running,
}


def as_table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table."""
    rows = [("", "wanted", "found"), ("---", "---", "---"), *figures]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure all parts, print the table, and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", default="", help="a commit whose tree is measured side by side; empty: none")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=parse_size, default=parse_size("800MB"), help="bytes of a merge's input")
    parser.add_argument("--seconds", type=float, default=30, help="of each phase of a live run")
    parser.add_argument("--volume-seconds", type=float, help="of the phase of 10 MB/s: 300 shows that it stays level")
    parser.add_argument("--out", default="build/bench", type=lambda path: Path(path).resolve())
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    against = tree_of(given.against, given.out) if given.against else None
    asked = Asked(given.out, given.rounds, given.size, against, given.seconds, given.volume_seconds)
    details: dict[str, Any] = {"machine": machine(), "against": given.against or None}
    figures: list[Figure] = []
    for name in given.only.split(","):
        begun = time.perf_counter()
        figures += PARTS[name](asked, details)
        print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    details["figures"] = [figure._asdict() for figure in figures]
    (given.out / "figures.json").write_text(json.dumps(details, indent=1) + "\n")
    print(as_table(figures))


if __name__ == "__main__":
    main()
