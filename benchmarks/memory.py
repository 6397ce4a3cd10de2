"""What giant transactions take: merges them on Spark and watches the memory of all Python processes.

    python -m benchmarks.memory [--only NAME,...] [--scale 1.0] [--out build/bench]

The limit is 1.5 GiB for the driver's Python and all workers together, by RSS, which counts shared pages in each.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.giants import Giant, make
from benchmarks.measure import MIB, Memory
from binlog_merge.config.merge_config import MergeConfig

LIMIT_MIB = 1536
GIANTS = {
    g.name: g
    for g in (
        Giant("large-events", rows=128, row_bytes=8 << 20),
        Giant("small-events", rows=131072, row_bytes=8000),
        Giant("distributed-300000-rows", rows=150_000, row_bytes=1000, per_event=8, nodes=2),
        Giant("one-event-of-300-mb", rows=1, row_bytes=300_000_000),
    )
}
KINDS = ("identity", "pad")


def run_giant(spark: Any, giant: Giant, folder: Path, *, pad: bool) -> dict[str, Any]:
    """Merge one giant; returns seconds and peaks."""
    from binlog_merge.spark.job import merge

    shutil.rmtree(folder, ignore_errors=True)
    try:
        config = MergeConfig.load(make(folder, giant, extra=pad))
        begun = time.perf_counter()
        with Memory(interval=0.05) as memory:
            result = merge(spark, config, folder / "merged", end_of_input=True)
        seconds = time.perf_counter() - begun
        found: dict[str, Any] = {
            "giant": asdict(giant), "pad": pad, "input_mib": result.input_bytes // MIB, "seconds": round(seconds, 2),
            "transactions": result.transactions, "rows_reshaped": result.rows_reshaped, "stages": dict(result.stages),
            **memory.mib(), "checksums": _verified(folder / "merged"),
        }  # fmt: skip
        found["within_limit"] = found["python_rss_mib"] < LIMIT_MIB
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _verified(merged: Path) -> str:
    program = Path("build/mysql/bin/mysqlbinlog")
    if not program.exists():
        return "not checked"
    for file in sorted(merged.glob("binlog.0*")):
        command = [str(program), "--verify-binlog-checksum", "--base64-output=never", str(file)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode and "base64" not in done.stderr.lower():
            return done.stderr.strip()[:300]
    return "ok"


def scaled(giant: Giant, scale: float) -> Giant:
    """Return the same kind of giant, so many times as large."""
    if giant.rows == 1:
        return replace(giant, row_bytes=int(giant.row_bytes * scale))
    return replace(giant, rows=max(1, int(giant.rows * scale)))


def run_all(spark: Any, out: Path, names: Mapping[str, Giant], scale: float) -> dict[str, Any]:
    """Measure all giants, unchanged and reshaped."""
    results = {}
    for name, giant in names.items():
        for kind in KINDS:
            found = run_giant(spark, scaled(giant, scale), out / f"giant-{name}", pad=kind == "pad")
            results[f"{name} {kind}"] = found
            print(f"{name} {kind}: {found['seconds']} s, Python {found['python_rss_mib']} MiB", file=sys.stderr)
    return {"limit_mib": LIMIT_MIB, "giants": results, "met": all(r["within_limit"] for r in results.values())}


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(GIANTS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--out", default="build/bench")
    arguments = parser.parse_args()
    from binlog_merge.spark.session import create_session

    spark = create_session(arguments.master)
    try:
        names = {name: GIANTS[name] for name in arguments.only.split(",")}
        print(json.dumps(run_all(spark, Path(arguments.out), names, arguments.scale), indent=1))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
