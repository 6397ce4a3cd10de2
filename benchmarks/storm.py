"""A storm of DDL, replayed: what it takes in memory and in time, with few statements and with many.

    python -m benchmarks.storm [--tables 1000] [--ddl 1000,10000] [--to dry-run,duckdb,…] [--out build/bench]

Every table is made in the log; then columns come and go, table by table, in random order, with rows of two tables
behind each statement. So however many statements there are, what the tables are at any moment is as large. Each replay,
and `verify`, is a process of its own: with more statements, its peak memory (RSS) may not grow, and its seconds only by
what each statement takes.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.runner import InlineRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge
from tests.mysql_server import MySqlServer

KINDS = ("dry-run", "duckdb", "parquet", "mysql", "verify")
QUICK = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M")


def statements(tables: int, ddl: int, seed: int = 1) -> Iterator[str]:
    """Yield the storm: every table once, then `ddl` more statements, each with rows of two tables behind it."""
    r, has = random.Random(seed), [False] * tables
    for number in range(tables):
        yield f"CREATE TABLE t{number} (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(10,2), at DATETIME(3))"
    for number in range(ddl):
        table = r.randrange(tables)
        yield f"ALTER TABLE t{table} " + ("DROP COLUMN more" if has[table] else f"ADD COLUMN more INT DEFAULT {number}")
        has[table] = not has[table]
        for other in (table, r.randrange(tables)):
            yield f"REPLACE INTO t{other} (id, name, amount) VALUES ({number % 100}, 'n{number}', 1.5)"


def record(server: MySqlServer, folder: Path, tables: int, ddl: int) -> Path:
    """Let a server carry out a storm, and merge its log; returns the merge's directory."""
    server.drop_databases()
    server.execute("RESET BINARY LOGS AND GTIDS; CREATE DATABASE s")
    connection = server.connect("s")
    with connection.cursor() as cursor:
        for statement in statements(tables, ddl):
            cursor.execute(statement)
    connection.close()
    node = folder / "node"
    node.mkdir(parents=True)
    for file in server.binlog_files():
        shutil.copy(file, node / file.name)
    nodes = f'version: 1\nname: storm\nnodes:\n  - {{source-id: n, files: "{node}/*.0*"}}\n'
    (folder / "cluster.yaml").write_text(nodes + "shard-mode: pessimistic\n")
    run_merge(InlineRunner(), MergeConfig.load(folder / "cluster.yaml"), folder / "merged", end_of_input=True)
    return folder / "merged"


def measured(arguments: Sequence[str]) -> dict[str, float]:
    """Run `binlog-merge` in a process of its own; return its seconds and its peak memory in MiB."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _CHILD, *arguments], stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"binlog-merge {' '.join(arguments)} ends with {done.returncode}")
    return {"seconds": round(time.perf_counter() - begun, 2), "rss_mib": int(done.stdout.split()[-2]) // 1024}


_CHILD = """
import sys
from binlog_merge.cli.main import run
code = run([*sys.argv[1:], "-o", "json"])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
sys.exit(code)"""


def replays(server: MySqlServer, merged: Path, folder: Path, kinds: Sequence[str]) -> dict[str, Any]:
    """Replay a log to targets of each kind."""
    server.drop_databases()
    targets = {
        "dry-run": ["--dry-run"],
        "duckdb": ["--to", f"duckdb:{folder}/storm.db"],
        "parquet": ["--to", f"parquet:{folder}/changes"],
        "mysql": ["--to", f"mysql://root@localhost/?socket={server.socket}"],
    }
    replay = ["replay", "--merged", str(merged)]
    commands = {"verify": ["verify", str(merged)], **{kind: [*replay, *to] for kind, to in targets.items()}}
    return {kind: measured(commands[kind]) for kind in kinds}


def run(out: Path, tables: int = 1000, sizes: Sequence[int] = (1000, 10_000), kinds: Sequence[str] = KINDS) -> Any:
    """Measure; returns for each kind what each size took, and what a statement more costs in ms and in KiB."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    with tempfile.TemporaryDirectory(dir=out) as place, MySqlServer(Path(place) / "server", 101, QUICK) as server:
        for size in sizes:
            folder = Path(place) / str(size)
            merged = record(server, folder, tables, size)
            for kind, taken in replays(server, merged, folder, kinds).items():
                found[kind][str(size)] = taken
    low, high = str(min(sizes)), str(max(sizes))
    for taken in found.values():
        more = max(int(high) - int(low), 1)
        taken["ms_per_ddl"] = round((taken[high]["seconds"] - taken[low]["seconds"]) / more * 1000, 2)
        taken["kib_per_ddl"] = round((taken[high]["rss_mib"] - taken[low]["rss_mib"]) / more * 1024, 2)
    return {"tables": tables, **found}


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--ddl", default="1000,10000", help="how many statements, with commas")
    parser.add_argument("--to", default=",".join(KINDS), help="what to run, with commas")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.ddl.split(",")]
    print(json.dumps(run(arguments.out.resolve(), arguments.tables, sizes, arguments.to.split(",")), indent=1))


if __name__ == "__main__":
    main()
