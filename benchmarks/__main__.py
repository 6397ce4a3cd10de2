"""Measure the merge beside what it competes with, interleaved, on the same files; prints one JSON object.

    python -m benchmarks [--size 2GB] [--nodes 4] [--mode identity,trim,pad] [--unkind] [--rounds 5] [--large 8GB]
                         [--out build/bench]

Every round makes one pass of each kind, so that a machine whose speed drifts slows all of them alike. Numbers are
medians with minimum and maximum; ratios are medians of the rounds' own ratios.
"""

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import asking, cluster, filtered, first_minute, held, live, load, replay, schema_store, serving, storm
from benchmarks.generate import generate, parse_size, workload_arguments, workload_of
from benchmarks.measure import Memory
from benchmarks.passes import Bench, Times
from benchmarks.report import machine, summary, verdicts
from benchmarks.runner import ProcessRunner
from benchmarks.schedule import Workload
from benchmarks.tables import MODES
from tests.mysql_server import mysql_available

MYSQLBINLOG = Path("build/mysql/bin/mysqlbinlog")


def note(text: str) -> None:
    """Say on stderr how far the run has come."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run_mode(workload: Workload, arguments: argparse.Namespace, spark: Any, native: ProcessRunner) -> dict[str, Any]:
    """Generate a cluster, measure all passes on it, and remove it."""
    folder = Path(arguments.out) / f"{workload.mode}-{workload.size // 10**6}mb"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        made = generate(folder / "cluster", workload)
        note(f"{workload.mode}: {made.bytes / 1e6:.0f} MB, {made.groups} groups, {made.rows} rows in {made.seconds} s")
        program = str(MYSQLBINLOG) if MYSQLBINLOG.exists() else shutil.which("mysqlbinlog")
        bench = Bench(made, folder, spark, native, arguments.master, program, Times(made.bytes))
        bench.ceiling()
        bench.warm()
        bench.one_process()
        bench.times = Times(made.bytes, output=bench.times.output)  # the first ones loaded kernels and woke workers
        with Memory() as memory:
            bench.warm()
        bench.times = Times(made.bytes, output=bench.times.output)
        for number in range(arguments.rounds):
            for one in bench.passes(number):
                one()
            note(
                f"{workload.mode}: round {number + 1}: warm {bench.times.seconds['merge_warm'][-1]:.2f} s, "
                f"native {bench.times.seconds['native'][-1]:.2f} s"
            )
        for _ in range(arguments.cold):
            bench.cold()
        return {"workload": asdict(workload), **summary(bench.times), "memory": memory.mib()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_large(workload: Workload, arguments: argparse.Namespace, spark: Any, native: ProcessRunner) -> dict[str, Any]:
    """Measure what a gigabyte costs when there are more of them."""
    folder = Path(arguments.out) / f"large-{workload.size // 10**6}mb"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        made = generate(folder / "cluster", workload)
        note(f"large: {made.bytes / 1e6:.0f} MB")
        bench = Bench(made, folder, spark, native, arguments.master, None, Times(made.bytes))
        with Memory() as memory:
            for _ in range(max(2, arguments.rounds // 2)):
                bench.warm()
                bench.ceiling()
                bench.shuffled()
                note(f"large: warm {bench.times.seconds['merge_warm'][-1]:.2f} s")
        return {"workload": asdict(workload), **summary(bench.times), "memory": memory.mib()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    workload_arguments(parser)
    parser.add_argument("--mode", default=",".join(MODES), help="identity, trim, pad, or several with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", type=int, default=2, help="merges in a new process, per mode")
    parser.add_argument(
        "--large", type=parse_size, default=parse_size("8GB"), help="the cost per GB at this size; 0: not measured"
    )
    parser.add_argument(
        "--schema-versions", default=schema_store.SIZES, help="sizes of schema stores, with commas; none: not measured"
    )
    parser.add_argument(
        "--replay", choices=("yes", "no"), default="yes", help="replays into a real MySQL server, and into DuckDB"
    )
    parser.add_argument(
        "--first-minute", choices=("yes", "no"), default="yes", help="a demo on a new machine, and what commands import"
    )
    parser.add_argument("--storm", default="200,1000", help="how many DDL a storm has, with commas")
    parser.add_argument(
        "--held", type=int, default=10_000_000, help="transactions held back by a shard's DDL; 0: not measured"
    )
    parser.add_argument(
        "--filtered", type=int, default=1_000_000, help="transactions whose rows an expression judges; 0: not measured"
    )
    parser.add_argument(
        "--serving", type=parse_size, default=parse_size("500MB"), help="what `serve` hands out; 0: not measured"
    )
    parser.add_argument(
        "--asking", type=parse_size, default=parse_size("500MB"), help="rows of a log as data; 0: not measured"
    )
    parser.add_argument(
        "--cluster", type=parse_size, default=parse_size("2GB"), help="what a cluster merges, S3 to S3; 0: not measured"
    )
    parser.add_argument("--live", type=float, default=60, help="seconds of each phase of a live run; 0: not measured")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--out", default="build/bench", type=lambda path: str(Path(path).resolve()))
    return parser.parse_args()


def main() -> None:
    """Run everything and print the result."""
    arguments = parse_arguments()
    workload = workload_of(arguments)
    result: dict[str, Any] = {"machine": machine(), "master": arguments.master}
    if arguments.first_minute == "yes":
        note("the first minute")
        result["first_minute"] = first_minute.apart(arguments.rounds)
    cores = int("".join(c for c in arguments.master if c.isdigit()) or "0")
    with ProcessRunner(cores or machine()["cores"]) as native:
        from binlog_merge.spark.session import create_session

        begun = time.perf_counter()
        spark = create_session(arguments.master, {"spark.ui.showConsoleProgress": "false"})
        result["session_seconds"] = round(time.perf_counter() - begun, 2)
        try:
            modes = {
                mode: run_mode(replace(workload, mode=mode), arguments, spark, native)
                for mode in arguments.mode.split(",")
            }
            result["modes"] = modes
            if arguments.large:
                result["large"] = run_large(replace(workload, size=arguments.large), arguments, spark, native)
            if arguments.held:
                note("held rows")
                result["held"] = held.run(spark, Path(arguments.out), arguments.held)
        finally:
            spark.stop()
        if arguments.filtered:
            note("rows judged by an expression")
            result["filtered"] = filtered.run(native, Path(arguments.out), arguments.filtered)
    if arguments.cluster:
        note("a cluster of two workers that share nothing but an S3 server")
        result["cluster"] = cluster.run(Path(arguments.out) / "s3", arguments.cluster, max(2, arguments.rounds // 2))
    result["targets"] = verdicts(modes, result.get("cluster"))
    sizes = [int(size) for size in arguments.schema_versions.split(",") if size]
    if sizes:
        note("schema stores")
        result["schema_store"] = schema_store.run(sizes, arguments.rounds, Path(arguments.out) / "schema-store")
    if arguments.replay == "yes" and mysql_available():
        note("replays into DuckDB")
        result["duckdb"] = load.run(Path(arguments.out) / "load", arguments.rounds)
        note("replays into a server")
        result["replay"] = replay.run(Path(arguments.out), arguments.rounds)
        note("a storm of DDL")
        result["storm"] = storm.run(Path(arguments.out), 200, [int(size) for size in arguments.storm.split(",")])
    if arguments.asking and MYSQLBINLOG.exists():
        note("rows of a merged log as data")
        result["asking"] = asking.run(Path(arguments.out) / "asking", arguments.asking, arguments.rounds)
    if arguments.serving and mysql_available():
        note("a log handed out beside a server")
        result["serving"] = serving.run(Path(arguments.out) / "serving", arguments.rounds, arguments.serving)
    if arguments.live and mysql_available():
        note("a running cluster and its replica")
        result["live"] = live.run(Path(arguments.out) / "live", arguments.live)
    text = json.dumps(result, indent=1)
    (Path(arguments.out) / "result.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
