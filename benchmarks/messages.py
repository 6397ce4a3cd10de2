"""How many rows a second of one core's time become messages, in each format, from a merged log to their bytes.

    python -m benchmarks.messages MERGED [--rounds 3]

CPU time, so that a machine that does other things measures the same. `benchmarks.asking` has the figures too.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import spread
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.messages.message import FORMATS, format_of
from binlog_merge.messages.read import Ddl, Reading

MOST = 400_000
"""Rows that a round makes messages of."""


def rates(merged: Path, rounds: int) -> dict[str, Any]:
    """Return rows a second of CPU time by format; a round goes through all formats in turn."""
    _rate(merged, "debezium", 10_000)  # the kernels are loaded
    found: dict[str, list[float]] = {name: [] for name in FORMATS}
    for _ in range(rounds):
        for name, values in found.items():
            values.append(_rate(merged, name, MOST))
    return {name: spread(values, 0) for name, values in found.items()}


def _rate(merged: Path, form: str, most: int) -> float:
    maker, rows, begun = format_of(form, {}), 0, time.process_time()
    with opened_log(merged) as folder:
        binlog = Log(folder)
        for piece in Reading(binlog, 1, binlog.last_rank).pieces():
            if not isinstance(piece, Ddl):
                rows += sum(len(maker.rows(part, 0).values) for part in piece.tables)
            if rows >= most:
                break
    return rows / (time.process_time() - begun)


def main() -> None:
    """Run it and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.messages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("merged", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(json.dumps(rates(arguments.merged, arguments.rounds), indent=1))


if __name__ == "__main__":
    main()
