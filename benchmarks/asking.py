"""How fast a merged log's rows come as data, beside mysql-replication and `mysqlbinlog -v` on the same file.

    python -m benchmarks.asking [--size 500MB] [--rounds 3] [--spark yes]

All run in turn, in one run. Rows a CPU second, which a busy machine hardly changes; the data source on one core, on
local[1] and on local[2] reads all columns, in seconds of the clock, and `flashback` writes, in seconds of CPU.
`sparse`: questions by key and by time as whole processes, without a sparse index, while it is made, and with it.
`targets` says which figures reach what is wanted of them.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import binlog_merge
from benchmarks.generate import generate, parse_size
from benchmarks.measure import spread
from benchmarks.messages import rates
from benchmarks.others import mysql_replication, mysqlbinlog, sample_end
from benchmarks.runner import InlineRunner
from benchmarks.schedule import Workload
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.sidecar import FOLDER
from binlog_merge.log.log import Log
from binlog_merge.pipeline.run import run_merge

MYSQLBINLOG = Path("build/mysql/bin/mysqlbinlog")
TARGETS = {"times_mysql_replication": 300, "times_mysqlbinlog_v": 15, "source_two_cores_times_one": 1.7,
           "debezium_per_cpu_second": 100_000}  # fmt: skip
MOST = {"flashback_as_sql_seconds_per_million_rows": 20, "flashback_as_binlog_seconds_per_million_rows": 20}
"""Figures of which less is better."""
SAMPLE = 16 << 20
"""Bytes that the slow ones read."""
_PROGRAM = "from binlog_merge.cli.main import main; main()"
_WITHOUT = "from binlog_merge.files.log_folder import LogFolder; LogFolder.sidecars = None; "
"""What makes a program neither use nor keep a sparse index."""


def run(folder: Path, size: int, rounds: int, with_spark: bool = True) -> dict[str, Any]:
    """Merge a cluster of `size` bytes, and return how fast it is read."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        generate(folder / "cluster", Workload(size=size, nodes=2))
        merged = folder / "merged"
        run_merge(InlineRunner(), MergeConfig.load(folder / "cluster" / "cluster.yaml"), merged, end_of_input=True)
        found = measured(merged, rounds) | {"sparse": sparse(merged, rounds)}
        found |= spark_read(merged, rounds) if with_spark else {}
        return found | {"targets": verdicts(found)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(merged: Path, rounds: int) -> dict[str, Any]:
    """Return rows a CPU second of each, and the CPU seconds of narrow questions."""
    binlog = Log(merged)
    (schema, table), *_ = _tables(merged)
    file = str(merged / binlog.state.files[0].name)
    stop = sample_end(file, SAMPLE)
    rows = _rows(binlog_merge.changes(merged, (schema, table), fields=["row"]))
    of_sample = _rows(binlog_merge.changes(merged, (schema, table), stop=f"{Path(file).name}:{stop}", fields=["row"]))
    last, middle = binlog.last_rank, f"{binlog.cluster_uuid}:{binlog.last_rank // 2}"

    def printed() -> float:
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        mysqlbinlog(str(MYSQLBINLOG), file, stop, ["-v", "--base64-output=decode-rows"])
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of_sample / (ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime)

    def decoded() -> float:
        begun = time.process_time()
        _, found, _ = mysql_replication(file, stop)
        return found / (time.process_time() - begun)

    def asked(**options: Any) -> float:
        begun = time.process_time()
        _rows(binlog_merge.changes(merged, (schema, table), **options))
        return time.process_time() - begun

    sides: dict[str, Callable[[], float]] = {
        "mysql_replication": decoded,
        "mysqlbinlog_v": printed,
        "changes_all_columns": lambda: rows / asked(),
        "changes_two_columns": lambda: rows / asked(columns=["id"], fields=["op", "after"]),
    }
    seconds: dict[str, Callable[[], float]] = {
        "by_key": lambda: asked(where="id = 4711"),
        "hundred_transactions": lambda: asked(start=middle, stop=f"{binlog.cluster_uuid}:{last // 2 + 99}"),
    }
    asked()  # what compiles the kernels is not measured
    speeds = {name: [side() for _ in range(rounds)] for name, side in sides.items()}
    times = {name: [side() for _ in range(rounds)] for name, side in seconds.items()}
    median = {name: spread(values, 0) for name, values in speeds.items()}
    ours = median["changes_all_columns"]["median"]
    return {
        "bytes": sum(file.size for file in binlog.state.files),
        "rows": rows,
        "rows_per_second": median,
        "times_mysql_replication": round(ours / median["mysql_replication"]["median"]),
        "times_mysqlbinlog_v": round(ours / median["mysqlbinlog_v"]["median"], 1),
        "seconds": {name: spread(values, 2) for name, values in times.items()},
        "messages_per_cpu_second": rates(merged, rounds),
        "flashback_seconds_per_million_rows": flashback_seconds(
            merged, f"{schema}.{table}", f"{binlog.cluster_uuid}:{last}", rows, rounds
        ),
    }


def flashback_seconds(merged: Path, table: str, last: str, rows: int, rounds: int) -> dict[str, Any]:
    """Return the CPU seconds in which `flashback` writes what undoes all rows, for each million of them."""
    command = [sys.executable, "-m", "binlog_merge", "flashback", "--merged", str(merged), "--table", table,
               "--start", last.rpartition(":")[0] + ":1", "--stop", last, "-o"]  # fmt: skip

    def asked(form: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, form], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000_000 / rows

    return {form: spread([asked(form) for _ in range(rounds)], 1) for form in ("sql", "binlog")}


def verdicts(found: dict[str, Any]) -> dict[str, Any]:
    """Return each target with what was found, and whether that reaches it."""
    found = found | {
        "debezium_per_cpu_second": found["messages_per_cpu_second"]["debezium"]["median"],
        **{
            f"flashback_as_{form}_seconds_per_million_rows": seconds["median"]
            for form, seconds in found["flashback_seconds_per_million_rows"].items()
        },
    }
    least = {name: (target, found[name] >= target) for name, target in TARGETS.items() if name in found}
    most = {name: (target, found[name] <= target) for name, target in MOST.items() if name in found}
    return {
        name: {"target": target, "found": found[name], "met": met} for name, (target, met) in (least | most).items()
    }


def sparse(merged: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds, of the clock and of CPU, of questions as whole processes, and what the index takes."""
    binlog = Log(merged)
    (schema, table), *_ = _tables(merged)
    middle = binlog.last_rank // 2
    rows = binlog_merge.changes(
        merged, (schema, table), start=f"{binlog.cluster_uuid}:{middle}", stop=f"{binlog.cluster_uuid}:{middle + 99}"
    ).read_all()
    of_row = rows.column("after").combine_chunks().drop_null().field("id")[0].as_py()
    time_of_row = rows.column("commit_time")[0].as_py().isoformat()
    kept = merged / FOLDER

    def asked(verb: str, *more: str, program: str = _PROGRAM) -> dict[str, float]:
        command = [sys.executable, "-c", program, verb, "--merged", str(merged), *more]
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"clock": time.perf_counter() - begun, "cpu": cpu}

    by_key = ("changes", "--table", f"{schema}.{table}", "--where", f"id = {of_row}")
    questions = {
        "changes_by_key": by_key,
        "changes_by_key_from_a_time": (*by_key, "--start", time_of_row),
        "history": ("history", f"{schema}.{table}", f"id={of_row}"),
        "position_of_a_time": ("position-of", "--at", time_of_row),
        "changes_of_nothing": (*by_key, "--start", f"{binlog.cluster_uuid}:1", "--stop", f"{binlog.cluster_uuid}:1"),
    }
    shutil.rmtree(kept, ignore_errors=True)
    without = asked(*by_key, program=_WITHOUT + _PROGRAM)
    made = asked(*by_key)
    found = {name: [asked(*question) for _ in range(rounds)] for name, question in questions.items()}
    return {
        "without": {name: round(value, 2) for name, value in without.items()},
        "while_it_is_made": {name: round(value, 2) for name, value in made.items()},
        "index_bytes": sum(path.stat().st_size for path in kept.iterdir()),
        "with": {
            name: {kind: spread([one[kind] for one in values], 2) for kind in ("clock", "cpu")}
            for name, values in found.items()
        },
    }


def _rows(reader: Any) -> int:
    return sum(len(batch) for batch in reader)


def _tables(merged: Path) -> list[tuple[str, str]]:
    from snapshot_store.names import NamePattern
    from snapshot_store.store.db import Store

    with Store.open(merged / "schema.duckdb", True) as store:
        return [(schema, table) for _, schema, table in store.find([NamePattern.parse("*.*")])]


def spark_read(merged: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds in which the data source reads all rows, by Spark master, each in its own process.

    Java and the Python worker of local[1] keep two cores busy by turns: what one core does is told by a process that is
    kept on one.
    """
    schema, table = _tables(merged)[0]
    found = {}
    for name, cores, kept_on in (("one_core", 1, 1), ("local[1]", 1, 0), ("local[2]", 2, 0)):
        command = [sys.executable, "-m", "benchmarks.asking", "--spark-read", str(merged), f"{schema}.{table}",
                   str(cores), str(rounds), str(kept_on)]  # fmt: skip
        found[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {
        "source_seconds": {name: spread(values, 2) for name, values in found.items()},
        "source_two_cores_times_one": round(min(found["one_core"]) / min(found["local[2]"]), 2),
        "source_local_2_times_local_1": round(min(found["local[1]"]) / min(found["local[2]"]), 2),
    }


def _spark_seconds(merged: str, table: str, cores: str, rounds: str, kept_on: str) -> list[float]:
    if kept_on != "0":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(kept_on)])
    from binlog_merge.spark.session import create_session

    spark = create_session(f"local[{cores}]")
    seconds = []
    for _ in range(int(rounds) + 1):
        begun = time.perf_counter()
        frame = spark.read.format("binlog").option("table", table).option("partitionBytes", 16 << 20).load(merged)
        frame.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begun)
    spark.stop()
    return seconds[1:]  # the first one starts workers


def main() -> None:
    """Run it and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.asking", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("500MB"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", choices=("yes", "no"), default="yes")
    parser.add_argument("--out", default="build/bench/asking", type=Path)
    parser.add_argument("--spark-read", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.spark_read:
        print(json.dumps(_spark_seconds(*arguments.spark_read)))
        return
    print(json.dumps(run(arguments.out, arguments.size, arguments.rounds, arguments.spark == "yes"), indent=1))


if __name__ == "__main__":
    main()
