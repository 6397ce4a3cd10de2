"""What expressions on rows cost a merge: single-row transactions, every one looked at, half of them left out.

    python -m benchmarks.filtered [--transactions 1000000] [--out build/bench]

The same transactions are merged without a filter, and with one whose expression DuckDB evaluates on every row. Such
transactions are the hardest for it: their rows lie in as many events.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.held import make
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.base.runner import Runner
from binlog_merge.pipeline.run import run_merge

EXPRESSION = "id % 2 = 0 OR name LIKE 'never%'"


def run_one(runner: Runner, folder: Path, transactions: int, expression: str | None) -> float:
    """Merge once; returns seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        config = MergeConfig.load(make(folder, transactions, held=False))
        if expression is not None:
            rule = f"[[filter.event-filters]]\nmatcher = ['*.*']\nignore-insert-value-expr = \"{expression}\"\n"
            (folder / "filter.toml").write_text(rule)
            config = config.model_copy(update={"filter": str(folder / "filter.toml")})
        begun = time.perf_counter()
        result = run_merge(runner, config, folder / "merged", end_of_input=True)
        seconds = time.perf_counter() - begun
        if result.transactions != transactions + 1:
            raise RuntimeError(f"{result.transactions} transactions came out")
        return seconds
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(runner: Runner, out: Path, transactions: int) -> dict[str, Any]:
    """Measure both."""
    run_one(runner, out / "filtered", 1000, EXPRESSION)  # loads kernels and wakes workers
    plain = run_one(runner, out / "filtered", transactions, None)
    filtered = run_one(runner, out / "filtered", transactions, EXPRESSION)
    return {
        "transactions": transactions, "plain_s": round(plain, 2), "filtered_s": round(filtered, 2),
        "plain_rows_per_s": round(transactions / plain), "filtered_rows_per_s": round(transactions / filtered),
    }  # fmt: skip


def main() -> None:
    """Run and print one JSON object."""
    from benchmarks.runner import ProcessRunner

    parser = argparse.ArgumentParser(prog="python -m benchmarks.filtered", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", default="build/bench")
    arguments = parser.parse_args()
    with ProcessRunner(arguments.processes) as runner:
        print(json.dumps(run(runner, Path(arguments.out).resolve(), arguments.transactions), indent=1))
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main()
