"""A merged binlog into DuckDB, beside mysql-replication that only decodes it: rows a second of each, in turns.

The log is a real server's: small transactions that insert, change and delete rows of one table, merged alone.
"""

import random
import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks import measure, others
from benchmarks.runner import InlineRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.pipeline.run import run_merge
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget

DATABASE = "CREATE DATABASE shop; USE shop"
TABLE = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT UNSIGNED NOT NULL, note VARCHAR(200), "
    "amount DECIMAL(18,4) NOT NULL, created DATETIME(3) NOT NULL, code VARCHAR(50), qty INT NOT NULL)"
)
DECODED_BYTES = 4 << 20
_WORDS = ("paid", "sent", "waiting for", "customer", "returned", "über", "gift", "express", "address")


def statements(transactions: int, seed: int) -> list[str]:
    """Return transactions over one table, as SQL: inserts of one to eight rows, updates and deletes of ranges."""
    r, made, last = random.Random(seed), [], 0
    for _ in range(transactions):
        kind = r.random()
        if kind < 0.6 or last < 100:
            rows = []
            for _ in range(r.randint(1, 8)):
                last += 1
                note = " ".join(r.choice(_WORDS) for _ in range(r.randint(1, 12)))
                rows.append(
                    f"({last}, {r.randrange(1 << 40)}, '{note}', {r.randrange(10**9) / 10**4}, "
                    f"'2026-11-{r.randint(1, 28):02d} 12:00:00.{r.randrange(1000):03d}', 'c{r.randrange(10**6)}', 1)"
                )
            made.append(f"INSERT INTO orders VALUES {', '.join(rows)}")
        else:
            first = r.randrange(1, last)
            where = f"WHERE id BETWEEN {first} AND {first + r.randint(0, 6)}"
            made.append(
                f"UPDATE orders SET qty = qty + 1, amount = amount + 1.5 {where}"
                if kind < 0.9
                else f"DELETE FROM orders {where}"
            )
    return made


def record(folder: Path, transactions: int, seed: int) -> Path:
    """Let a server carry out the transactions; returns the configuration that merges its binlog."""
    from tests.mysql_server import MySqlServer

    (folder / "node").mkdir(parents=True)
    options = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--binlog-row-metadata=FULL")
    with MySqlServer(folder / "server", server_id=1, options=options) as server:
        server.execute(f"RESET BINARY LOGS AND GTIDS; SET sql_log_bin = 0; {DATABASE}; {TABLE}")
        connection = server.connect("shop")
        with connection.cursor() as cursor:
            for statement in statements(transactions, seed):
                cursor.execute(statement)
        connection.close()
        for file in server.binlog_files():
            shutil.copy(file, folder / "node" / file.name)
    config = folder / "cluster.yaml"
    files = folder / "node" / "*.0*"
    (folder / "base.sql").write_text(f"{DATABASE}; {TABLE};")
    nodes = f'nodes:\n  - {{source-id: n, files: "{files}"}}\nbase: {{logical: base.sql}}\n'
    config.write_text("version: 1\nname: load\n" + nodes)
    return config


def run(folder: Path, rounds: int, transactions: int = 30_000, seed: int = 1) -> dict[str, Any]:
    """Measure; returns rows a second of both, and the ratio of the rounds' own ratios."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        config = record(folder, transactions, seed)
        run_merge(InlineRunner(), MergeConfig.load(config), folder / "merged", end_of_input=True)
        binlog = Log(folder / "merged")
        file = str(binlog.directory / binlog.state.files[0].name)
        stop = others.sample_end(file, DECODED_BYTES)
        _load(binlog, folder / "warm.db")
        rates: dict[str, list[float]] = {"duckdb": [], "mysql_replication": [], "ratio": []}
        for number in range(rounds):
            rows, seconds = _load(binlog, folder / f"{number}.db")
            _, decoded, needed = others.mysql_replication(file, stop)
            rates["duckdb"].append(rows / seconds)
            rates["mysql_replication"].append(decoded / needed)
            rates["ratio"].append(rates["duckdb"][-1] / rates["mysql_replication"][-1])
        found = {f"{name}_rows_per_s": measure.spread(rates[name], 0) for name in ("duckdb", "mysql_replication")}
        return {"transactions": transactions, "rows": rows, **found, "ratio": measure.spread(rates["ratio"], 1)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _load(binlog: Log, path: Path) -> tuple[int, float]:
    begun = time.perf_counter()
    with DuckdbTarget(path, binlog.cluster_uuid) as target:
        result = load(binlog, target, history_of(binlog.directory), ReplayOptions())
    return sum(result.selector.applied.values()), time.perf_counter() - begun


if __name__ == "__main__":
    import json

    print(json.dumps(run(Path("build/bench/load"), 3), indent=1))
