"""A replica with several workers: the same transactions by writesets and by commit order, applied in turns.

    python -m benchmarks.parallel [--transactions 12000] [--rounds 1] [--workers 4] [--out build/bench]

Two shards, whose transactions change two of 2,000 accounts each, are merged both ways; a real server applies the logs
as relay logs. `slow` is one that waits 5 ms at each of its group commits, as on a disk or in a cloud, and gets a
quarter of the transactions.
"""

import argparse
import json
import random
import shutil
import statistics
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import spread
from benchmarks.runner import InlineRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge
from tests.merge_e2e.parallel_replica import begin_to_apply, relaying, wait_until_applied
from tools.mysql_server import MySqlServer

ACCOUNTS = 2000
_SESSIONS = 4
_FAST = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0")
REPLICAS = {
    "no binlog": ("--log-replica-updates=OFF",),
    "sync_binlog=1": ("--log-replica-updates=ON", "--sync-binlog=1"),
    "slow": ("--log-replica-updates=ON", "--sync-binlog=1", "--binlog-group-commit-sync-delay=5000"),
}
_TABLE = (
    "CREATE DATABASE bank; CREATE TABLE bank.accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(60))"
)


def record(folder: Path, transactions: int) -> dict[str, Path]:
    """Let two shards carry out so many transactions together; returns the folders of their binlogs."""
    found = {}
    for number in range(2):
        with MySqlServer(folder / f"shard-{number}", server_id=number + 1, options=_FAST) as shard:
            shard.execute(_TABLE)
            rows = ", ".join(f"({n}, 1000, REPEAT('x', 40))" for n in range(number, ACCOUNTS, 2))
            shard.execute(f"INSERT INTO bank.accounts VALUES {rows}")
            threads = [
                threading.Thread(target=_session, args=(shard, number, thread, transactions // 2 // _SESSIONS))
                for thread in range(_SESSIONS)
            ]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            found[f"dn-{number + 1}"] = folder / f"binlogs-{number}"
            found[f"dn-{number + 1}"].mkdir()
            for file in shard.binlog_files():
                shutil.copy(file, found[f"dn-{number + 1}"])
    return found


def _session(shard: MySqlServer, shard_number: int, thread: int, transactions: int) -> None:
    chance = random.Random(f"{shard_number} {thread}")
    connection = shard.connect("bank")
    with connection.cursor() as cursor:
        for _ in range(transactions):
            pair = sorted(2 * chance.randrange(ACCOUNTS // 2) + shard_number for _ in range(2))
            cursor.execute("BEGIN")
            for sign, account in zip("-+", pair, strict=True):
                cursor.execute(f"UPDATE accounts SET balance = balance {sign} 1 WHERE id = {account}")
            cursor.execute("COMMIT")
    connection.close()


def merged(folder: Path, nodes: dict[str, Path], dependencies: str) -> list[Path]:
    """Merge the shards' binlogs; returns the files of the log."""
    values = {
        "version": 1, "name": "parallel", "commit-tso": {"carrier": "gtid-time"}, "shard-mode": "optimistic",
        "nodes": [{"source-id": node, "files": f"{path}/binlog.[0-9]*"} for node, path in nodes.items()],
        "output": {"dependencies": dependencies},
    }  # fmt: skip
    config = folder / f"{dependencies}.yaml"
    config.write_text(yaml.safe_dump(values))
    run_merge(InlineRunner(), MergeConfig.load(config), folder / dependencies, end_of_input=True)
    return sorted((folder / dependencies).glob("binlog.0*"))


def applied(folder: Path, files: Sequence[Path], workers: int, options: Sequence[str]) -> tuple[float, list[Any]]:
    """Let a server apply a log; returns the seconds that it takes, and the balances."""
    settings = (f"--replica-parallel-workers={workers}", *options)
    with relaying(folder, files, *settings) as server:
        begun = time.perf_counter()
        begin_to_apply(server)
        wait_until_applied(server)
        seconds = time.perf_counter() - begun
        rows = server.query("SELECT id, balance FROM bank.accounts ORDER BY id")
    shutil.rmtree(folder, ignore_errors=True)
    return seconds, rows


def run(folder: Path, transactions: int, rounds: int, workers: int = 4) -> dict[str, Any]:
    """Measure; returns the seconds of each kind of replica both ways, and how many times as fast it is by writesets."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        logs: dict[str, dict[str, list[Path]]] = {}
        for size, count in (("all", transactions), ("few", transactions // 4)):
            (folder / size).mkdir()
            nodes = record(folder / size, count)
            ways = ("commit-order", "writeset")
            logs[size] = {way: merged(folder / size, nodes, way) for way in ways}
        found: dict[str, Any] = {"transactions": transactions, "workers": workers}
        for name, options in REPLICAS.items():
            seconds: dict[str, list[float]] = {"commit-order": [], "writeset": []}
            for number in range(rounds):
                for way in sorted(seconds, reverse=bool(number % 2)):
                    files = logs["few" if name == "slow" else "all"][way]
                    taken, rows = applied(folder / "replica", files, workers, options)
                    seconds[way].append(taken)
                    if len(rows) != ACCOUNTS or sum(balance for _, balance in rows) != ACCOUNTS * 1000:
                        raise AssertionError(f"the replica has {len(rows)} accounts, or another sum")
            times = [a / b for a, b in zip(seconds["commit-order"], seconds["writeset"], strict=True)]
            found[name] = {way: spread(each) for way, each in seconds.items()}
            found[name]["times"] = round(statistics.median(times), 2)
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parallel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transactions", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    out = arguments.out.resolve() / "parallel"
    print(json.dumps(run(out, arguments.transactions, arguments.rounds, arguments.workers), indent=1))


if __name__ == "__main__":
    main()
