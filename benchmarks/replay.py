"""Replay into a real server: rows a second beside `mysqlbinlog | mysql`, and what a slow ALTER does to other tables.

    python -m benchmarks.replay [--rounds 3] [--transactions 3000] [--alter-rows 1000000 or more]

Both sides of each comparison run in turn, in one run, into the same server. The server is durable (sync_binlog and
innodb_flush_log_at_trx_commit 1). The source is a server's own binlog.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import spread
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import replay
from binlog_merge.targets.server.transactions import Transaction
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.targets.server.workload import as_output

DURABLE = ("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--max-binlog-size=1G")
TABLE = "(id BIGINT PRIMARY KEY, a INT, s VARCHAR(60), d DECIMAL(12,2), ts DATETIME(3), KEY (a))"
TABLES = 16
SLOW = 20  # seconds that the ALTER takes at least; its table grows until it does
FLOW = 90  # seconds for which rows come
RATE = 150  # transactions a second


def run(folder: Path, rounds: int, transactions: int = 3000, alter_rows: int = 1_000_000) -> dict[str, Any]:
    """Return both comparisons."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"speed": speed(folder, rounds, transactions), "slow_ddl": slow_ddl(folder, alter_rows)}


def apply(server: MySqlServer, binlog: Log, applied: Any = lambda done: None, **options: Any) -> None:
    """Replay all of a log."""
    target = MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)
    replay(binlog, target, ReplayOptions(**options), applied=applied)


def speed(folder: Path, rounds: int, transactions: int) -> dict[str, Any]:
    """Rows a second: ten rows a transaction, then one."""
    with server_in(folder) as server:
        return {
            f"rows_per_transaction_{size}": _speed_of(server, folder, rounds, transactions * size, size)
            for size in (10, 1)
        }


def _speed_of(server: MySqlServer, folder: Path, rounds: int, rows: int, size: int) -> dict[str, Any]:
    fresh(server)
    with quick(server) as session, session.cursor() as cursor:
        for i in range(0, rows, size):
            values = (f"({n}, {n}, 'some text {n}', {n}.5, '2026-01-01')" for n in range(i, i + size))
            cursor.execute(f"INSERT INTO t{i // size % TABLES} VALUES {','.join(values)}")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        binlog = as_output(server, Path(place))
        file = binlog.directory / "binlog.000001"
        sides: dict[str, Callable[[], Any]] = {
            "mysqlbinlog | mysql": lambda: piped(server, file),
            "replay": lambda: apply(server, binlog),
            "replay --batch 1": lambda: apply(server, binlog, batch=1),
            "replay --workers 4": lambda: apply(server, binlog, workers=4),
            "replay --workers 4 --batch 1": lambda: apply(server, binlog, workers=4, batch=1),
            "replay --workers 4 --commit-order relaxed": lambda: apply(server, binlog, workers=4, keep_order=False),
        }
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, side in sides.items():
                fresh(server)
                begun = time.perf_counter()
                side()
                seconds[name].append(time.perf_counter() - begun)
                assert server.query("SELECT SUM(id) FROM b.t0") == server.query("SELECT SUM(a) FROM b.t0")
    speeds = {name: spread([rows / s for s in taken], 0) for name, taken in seconds.items()}
    base = speeds["mysqlbinlog | mysql"]["median"]
    ratios = {name: round(value["median"] / base, 2) for name, value in speeds.items()}
    return {"rows_per_second": speeds, "times_mysqlbinlog": ratios}


def piped(server: MySqlServer, file: Path) -> None:
    """Apply a file as the manual says: mysqlbinlog FILE | mysql."""
    server.apply(mysqlbinlog([file]))


def slow_ddl(folder: Path, alter_rows: int) -> dict[str, Any]:
    """How late rows of fifteen tables come while an ALTER of the sixteenth runs: without it, with it, and with a
    global barrier."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch, server_in(folder) as server:
        while (alone := alter_alone(server, alter_rows)) < SLOW:
            alter_rows = larger(alter_rows, alone)
        logs = {name: rows_in_turn(server, Path(scratch) / name, FLOW * RATE, name) for name in ("plain", "with-ddl")}

        def measured(log: str, barrier: bool = False) -> dict[str, Any]:
            make_large(server, alter_rows)
            return delays(server, logs[log], RATE, barrier)

        # What one ALTER takes depends on what the machine's disk did before it: the replay's own must be slow.
        while (took := (beside := measured("with-ddl"))["ddl_seconds"][0]) < SLOW:
            alter_rows = larger(alter_rows, took)
        return {
            "alter_rows": alter_rows,
            "alter_alone_seconds": round(alone, 1),
            "transactions_per_second": RATE,
            "without": measured("plain"),
            "with": beside,
            "global_barrier": measured("with-ddl", barrier=True),
        }


def larger(rows: int, seconds: float) -> int:
    """Return how many rows a table needs, of which so many took too few seconds."""
    return int(rows * 1.2 * SLOW / seconds)


def alter_alone(server: MySqlServer, rows: int) -> float:
    """Return how long the ALTER takes on so many rows, with nothing beside it."""
    make_large(server, rows)
    begun = time.perf_counter()
    server.execute("ALTER TABLE b.t0 ADD COLUMN probe INT, ALGORITHM=COPY")
    return time.perf_counter() - begun


def delays(server: MySqlServer, binlog: Log, rate: float, barrier: bool) -> dict[str, Any]:
    """Replay at a steady rate; return how late, in seconds, rows were committed, and how long the DDL took."""
    late: list[float] = []
    took: list[float] = []
    begun = time.monotonic()
    clock: list[float] = []

    def applied(done: Sequence[Transaction]) -> None:
        now = time.monotonic()
        for transaction in done:
            clock[:] = clock or [now - transaction.rank / rate]
            if transaction.plans:
                took.append(now - clock[0] - transaction.rank / rate)
            elif ("b", "t0") not in transaction.tables:
                late.append(now - clock[0] - transaction.rank / rate)

    apply(server, binlog, applied, rate=rate, workers=2, batch=20, global_barrier=barrier)
    late.sort()
    return {
        "ddl_seconds": [round(value, 2) for value in took],
        "delay_seconds": {
            "median": round(statistics.median(late), 3),
            "p99": round(late[int(len(late) * 0.99)], 3),
            "max": round(late[-1], 3),
        },
        "rows": len(late),
        "seconds": round(time.monotonic() - begun, 1),
    }


def rows_in_turn(server: MySqlServer, folder: Path, count: int, name: str) -> Log:
    """Return a log of one row a transaction, of all tables in turn, with an ALTER of the first a sixth into it."""
    fresh(server)
    with quick(server) as session, session.cursor() as cursor:
        for n in range(count):
            if n == count // 6 and name == "with-ddl":
                cursor.execute("ALTER TABLE t0 ADD COLUMN more INT DEFAULT 7, ALGORITHM=COPY")
            cursor.execute(f"INSERT INTO t{n % TABLES} (id, a) VALUES ({n + 10**9}, {n})")
    return as_output(server, folder)


def make_large(server: MySqlServer, rows: int) -> None:
    """Give the server the tables, the first of them with many rows."""
    fresh(server)
    with quick(server) as session, session.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("SET SESSION cte_max_recursion_depth = 1000000000")
        for low in range(0, rows, 250_000):
            numbers = (
                f"WITH RECURSIVE n (n) AS (SELECT {low + 1} UNION ALL SELECT n + 1 FROM n WHERE n < "
                f"{min(rows, low + 250_000)}) "
            )
            cursor.execute(f"INSERT INTO t0 {numbers} SELECT n, n, REPEAT('x', 60), n, '2026-01-01' FROM n")


def fresh(server: MySqlServer) -> None:
    """Give the server empty tables."""
    server.drop_databases()
    server.execute("CREATE DATABASE b; USE b; " + "".join(f"CREATE TABLE t{i} {TABLE};" for i in range(TABLES)))
    server.execute("RESET BINARY LOGS AND GTIDS")


@contextmanager
def quick(server: MySqlServer) -> Iterator[Any]:
    """Give a session in the tables' database, and a server that does not sync while it is used."""
    server.execute("SET GLOBAL sync_binlog = 0; SET GLOBAL innodb_flush_log_at_trx_commit = 0")
    session = server.connect("b")
    try:
        yield session
    finally:
        session.close()
        server.execute("SET GLOBAL sync_binlog = 1; SET GLOBAL innodb_flush_log_at_trx_commit = 1")


@contextmanager
def server_in(folder: Path) -> Iterator[MySqlServer]:
    """Start a durable server with a folder of its own."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        MySqlServer(Path(place) / "server", 101, (*DURABLE, "--innodb-buffer-pool-size=256M")) as server,
    ):
        yield server


def main() -> None:
    """Run both and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=3000)
    parser.add_argument("--alter-rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("speed", "slow-ddl"))
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    if arguments.only != "slow-ddl":
        found["speed"] = speed(arguments.out, arguments.rounds, arguments.transactions)
    if arguments.only != "speed":
        found["slow_ddl"] = slow_ddl(arguments.out, arguments.alter_rows)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
