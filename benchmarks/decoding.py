"""How fast one core makes Arrow columns of the rows of a log, by the types of the columns.

    python -m benchmarks.decoding [--rows 200000] [--rounds 5] [--out build/bench]

A real MySQL writes the rows, all columns of each are read, and both images of each row count. `mb` are megabytes of
the file with the merged log; `raw_mb` are those of the rows as Arrow. Seconds are those of the processor.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import binlog_merge
from benchmarks.measure import spread
from benchmarks.runner import InlineRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge
from tools.mysql_server import MySqlServer

TABLES: Final = {
    "integers and texts": (
        "a BIGINT, b INT UNSIGNED, c SMALLINT, name VARCHAR(60), city CHAR(20), state ENUM('new','paid','sent')",
        "n * 1000003, n, n % 1000, CONCAT('customer number ', n), CONCAT('city ', n % 977), 1 + n % 3",
    ),
    "decimals and times": (
        "amount DECIMAL(18,4), tax DECIMAL(9,2), made DATETIME(6), day DATE, at TIMESTAMP(3) NULL, took TIME, x DOUBLE",
        "n * 1.0001, n % 10000, '2026-01-01' + INTERVAL n SECOND, '2026-01-01' + INTERVAL n % 900 DAY, "
        "'2026-01-01' + INTERVAL n SECOND, SEC_TO_TIME(n % 86400), n / 7",
    ),
    "JSON and blobs": (
        "document JSON, picture BLOB",
        "JSON_OBJECT('id', n, 'tags', JSON_ARRAY('a', n % 7, CAST(n / 4 AS DOUBLE)), 'who', "
        "JSON_OBJECT('name', CONCAT('user ', n), 'active', n % 2 = 0)), REPEAT(SHA2(n, 256), 4)",
    ),
}
_MANY: Final = (
    "INSERT INTO {} WITH RECURSIVE r (n) AS (SELECT {} UNION ALL SELECT n + 1 FROM r WHERE n < {}) SELECT n, {} FROM r"
)
_AT_ONCE: Final = 20_000


def run(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Return MB, rows and values a second of one core, for each kind of columns."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return {name: _measured(folder / str(n), name, rows, rounds) for n, name in enumerate(TABLES)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(folder: Path, name: str, rows: int, rounds: int) -> dict[str, Any]:
    columns, values = TABLES[name]
    with MySqlServer(folder / "server", 1) as server:
        server.execute(f"CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, {columns})")
        (folder / "base.sql").write_text(server.dump_schema("d"))
        server.execute("FLUSH BINARY LOGS")
        for first in range(1, rows, _AT_ONCE):
            last = min(rows, first + _AT_ONCE - 1)
            server.execute(f"SET cte_max_recursion_depth = 1000000; {_MANY.format('t', first, last, values)}", "d")
        (folder / "node").mkdir()
        shutil.copy(server.binlog_files()[-1], folder / "node")
    config = {"version": 1, "name": "one", "base": {"logical": "base.sql"}, "commit-tso": {"carrier": "gtid-time"},
              "nodes": [{"source-id": "dn-1", "files": "node/binlog.*"}]}  # fmt: skip
    (folder / "cluster.yaml").write_text(json.dumps(config))
    merged = folder / "merged"
    run_merge(InlineRunner(), MergeConfig.load(folder / "cluster.yaml"), merged, end_of_input=True)
    size = sum(path.stat().st_size for path in merged.glob("binlog.0*"))
    seconds, wide = list[float](), 0

    def read() -> None:
        nonlocal wide
        found = list(binlog_merge.changes(merged, ("d", "t")))
        assert sum(batch.num_rows for batch in found) == rows
        wide = sum(batch.nbytes for batch in found)

    for number in range(rounds + 1):
        used = _processor(read)
        seconds += [used] if number else []  # the first one loads the kernels
    return {
        "bytes": size, "rows": rows, "seconds": spread(seconds, 3),
        "mb_per_s": spread([size / s / 1e6 for s in seconds], 0),
        "arrow_mb_per_s": spread([wide / s / 1e6 for s in seconds], 0),
        "rows_per_s": spread([rows / s for s in seconds], 0),
    }  # fmt: skip


def _processor(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    given = parser.parse_args()
    print(json.dumps(run(given.out.resolve() / "decoding", given.rows, given.rounds), indent=1))


if __name__ == "__main__":
    main()
