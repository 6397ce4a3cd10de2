"""Measure the schema store with long histories; prints one JSON object.

    python -m benchmarks.schema_store [--versions 10000,100000,1000000] [--out build/bench/schema-store]

A cluster of 10 nodes: every logical table is five physical ones, and every physical table has two versions. Each
question is asked by a process of its own; CPU and memory are that process's from its first instruction on, the
interpreter and DuckDB included. So is a small merge (`benchmarks.schema_merge`). Medians of `--rounds`.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.schema_merge import MERGE
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table
from snapshot_store.model_json import table_to_json
from snapshot_store.store.db import Store
from snapshot_store.store.migrations import MIGRATIONS
from snapshot_store.store.settings import topology_to_json
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey

NODES = 10
SHARDS = 5
BATCH = 20_000
SIZES = "10000,100000,1000000"
FIRST_MILLIS = 1_790_000_000_000
LIMITS = {"cpu_seconds": 1.0, "rss_mb": 500.0}
TOPOLOGY = Topology((Route("shop_*", "", "shop", ""),))

COLUMNS = """CREATE TABLE t (
    id BIGINT NOT NULL PRIMARY KEY, customer VARCHAR(20) NOT NULL, quantity INT NOT NULL DEFAULT 1,
    price DECIMAL(12,2) NOT NULL, state ENUM('new','paid','sent','returned') NOT NULL DEFAULT 'new',
    placed_at DATETIME(3) NOT NULL, KEY by_customer (customer))"""

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("node", "order_key", "schema_name", "table_name", "definition", "ddl", "file")]
    + [("position", pa.uint64()), ("origin", pa.string()), ("version_id", pa.uint64()), ("folded", pa.bool_())]
)

# What is asked, each in a process of its own. {path}, {node}, {schema}, {table}, {key} and {names} are filled in.
QUESTIONS = {
    "lookup": """
from pathlib import Path
from snapshot_store.store import Store
from snapshot_store.tso import OrderKey
with Store.open(Path({path!r}), read_only=True) as store:
    (found,) = store.lookup([({schema!r}, {table!r}, OrderKey.parse({key!r}), {node!r})])
assert found is not None and found.table is not None and found.version_id""",
    "history_of_one": """
from pathlib import Path
from snapshot_store.store import Store
from snapshot_store.tso import OrderKey
with Store.open(Path({path!r}), read_only=True) as store:
    history = store.history_of([({node!r}, {schema!r}, {table!r})])
assert history.at({schema!r}, {table!r}, OrderKey.parse({key!r}), {node!r}) is not None""",
    "show_on_the_command_line": """
from binlog_merge.cli.main import run
assert run(["schema", "show", "shop." + {table!r}, "--physical", "--store", {path!r}, "-o", "json"]) == 0""",
    "show_a_pattern": """
from binlog_merge.cli.main import run
assert run(["schema", "show", {table!r} + "*", "--node", {node!r}, "--store", {path!r}, "-o", "json"]) == 0""",
    "append_100": """
from pathlib import Path
from snapshot_store.history import TableVersion
from snapshot_store.store import Store
from snapshot_store.tso import OrderKey
key = OrderKey((1 << 62), 1, 0, {nonce})
with Store.open(Path({path!r})) as store:
    assert store.append_versions(TableVersion(key, 0, "shop", f"new_{{n}}", None) for n in range(100)) == 100""",
}
BROADCAST = """
import time
from pathlib import Path
from snapshot_store.store import Store
with Store.open(Path({path!r}), read_only=True) as store:
    begun = time.process_time()
    history = store.history_of({lines})
    print(time.process_time() - begun, len(history.versions))"""


def key_of(number: int) -> OrderKey:
    """Return the key of the version with this number, in the order in which they are made."""
    return OrderKey((FIRST_MILLIS + number) << LOGICAL_BITS, number, 0, 0)


def line_of(table: int) -> tuple[str, str, str]:
    """Return node, schema and name of a physical table."""
    logical, shard = divmod(table, SHARDS)
    return f"dn-{table % NODES}", f"shop_{shard}", f"orders_{logical}"


def rows(versions: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of the store's table: logical bases, physical bases, logical and physical changes."""
    (old,) = parse_dump(COLUMNS, "d").tables.values()
    (new,) = parse_dump(COLUMNS.replace("price", "note VARCHAR(40), price"), "d").tables.values()
    tables = versions // 2
    logical = tables // SHARDS
    numbers: dict[str, int] = {}

    def row(node: str, key: OrderKey, schema: str, name: str, table: Table, ddl: str) -> tuple[Any, ...]:
        numbers[node] = numbers.get(node, 0) + 1
        made = table_to_json(table.renamed(schema, name))
        file = f"{node}/binlog.{numbers[node] // 1000:06d}" if ddl else f"base/{node}.sql"
        origin = "ddl" if ddl else "base"
        return (node, key.text(), schema, name, made, ddl, file, numbers[node], origin, numbers[node], False)

    for n in range(logical):
        yield row("", ORIGIN, "shop", f"orders_{n}", old, "")
    for n in range(tables):
        yield row(*line_of(n)[:1], ORIGIN, *line_of(n)[1:], old, "")
    for n in range(tables):
        node, schema, name = line_of(n)
        yield row(node, key_of(n), schema, name, new, f"ALTER TABLE {name} ADD COLUMN note VARCHAR(40) AFTER quantity")
        if n % SHARDS == SHARDS - 1:
            yield row(
                "", key_of(n)._replace(seq=1), "shop", name, new, f"ALTER TABLE {name} ADD COLUMN note VARCHAR(40)"
            )


def make(path: Path, versions: int) -> dict[str, float]:
    """Make a store with so many physical versions, by way of Parquet; return what that took."""
    folder = path.with_suffix(".parquet")
    shutil.rmtree(folder, ignore_errors=True)
    path.unlink(missing_ok=True)
    folder.mkdir(parents=True)
    with pq.ParquetWriter(folder / "table_versions.parquet", SCHEMA, compression="zstd") as writer:
        batch: list[tuple[Any, ...]] = []
        for one in rows(versions):
            batch.append(one)
            if len(batch) == BATCH:
                writer.write_table(table_of(batch))
                batch.clear()
        writer.write_table(table_of(batch))
    texts = {name: pa.array([], pa.string()) for name in ("node", "order_key", "schema_name", "ddl", "file", "origin")}
    empty = {**texts, "definition": pa.array([], pa.string()), "position": pa.array([], pa.uint64())}
    pq.write_table(pa.table({**empty, "folded": pa.array([], pa.bool_())}), folder / "schema_versions.parquet")
    pq.write_table(pa.table({"version": pa.array([len(MIGRATIONS)], pa.int32())}), folder / "store_info.parquet")
    settings = {"name": ["topology"], "value": [topology_to_json(TOPOLOGY)]}
    pq.write_table(pa.table(settings), folder / "settings.parquet")
    begun = time.perf_counter()
    with Store.open(path) as store:
        count = store.import_parquet(folder)
    took = time.perf_counter() - begun
    shutil.rmtree(folder)
    return {"versions": count, "import_seconds": round(took, 2), "file_mb": round(path.stat().st_size / 1e6, 1)}


def table_of(batch: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.table(
        [list(column) for column in zip(*batch, strict=True)] if batch else [[]] * len(SCHEMA), schema=SCHEMA
    )


def asked(code: str) -> dict[str, float]:
    """Return what a process takes that runs this code."""
    # Not ru_maxrss: a new process begins with its parent's.
    tail = """
import re, sys
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_seconds": cpu, "wall_seconds": wall, "rss_mb": int(done.stderr.split()[-1]) / 1024}


def measure(path: Path, versions: int, rounds: int) -> dict[str, Any]:
    """Return the medians of all questions."""
    result: dict[str, Any] = {}
    tables = versions // 2
    for name, code in QUESTIONS.items():
        took = []
        for n in range(rounds):
            node, schema, table = line_of((tables * (2 * n + 1) // (2 * rounds)) % tables)
            filled = code.format(
                path=str(path), node=node, schema=schema, table=table, key=key_of(versions).text(), nonce=n
            )
            took.append(asked(filled))
        result[name] = {key: round(statistics.median(t[key] for t in took), 3) for key in took[0]}
    result["merge"] = measure_merge(path, rounds)
    result["broadcast"] = {}
    for count in (10, 100, 1000, 10_000):
        if count <= tables:
            lines = [line_of(n) for n in range(0, tables, tables // count)][:count]
            done = subprocess.run(
                [sys.executable, "-c", BROADCAST.format(path=str(path), lines=lines)] if count < 1000 else
                [sys.executable, "-"],
                input=BROADCAST.format(path=str(path), lines=lines), capture_output=True, text=True, check=True,
            )  # fmt: skip
            seconds, found = done.stdout.split()
            result["broadcast"][str(count)] = {
                "cpu_seconds": round(float(seconds), 3),
                "cpu_microseconds_per_table": round(float(seconds) / count * 1e6, 1),
                "versions": int(found),
            }
    return result


def measure_merge(store: Path | None, rounds: int) -> dict[str, Any]:
    """Return the medians of a small merge's two runs, with a store as base, or without one."""
    result: dict[str, list[dict[str, float]]] = {"first_run": [], "goes_on": []}
    with tempfile.TemporaryDirectory() as folder:
        for n in range(-1, rounds):
            for name, took in result.items():
                code = MERGE.format(
                    store=None if store is None else str(store.absolute()),
                    out=f"{folder}/{n}",
                    first=name == "first_run",
                )
                measured = asked(code)
                took += [measured] if n >= 0 else []  # the first of all loads kernels
            shutil.rmtree(f"{folder}/{n}")
    return {
        name: {key: round(statistics.median(t[key] for t in took), 3) for key in took[0]}
        for name, took in result.items()
    }


def run(sizes: Iterable[int], rounds: int, out: Path) -> dict[str, Any]:
    """Measure stores of some sizes, each removed again, and return the result."""
    result: dict[str, Any] = {"limits": LIMITS, "merge_without_store": measure_merge(None, rounds), "sizes": {}}
    for versions in sizes:
        path = out / f"{versions}.duckdb"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            made = make(path, versions)
            print(f"schema store of {versions} versions: {made}", file=sys.stderr, flush=True)
            result["sizes"][str(versions)] = {**made, **measure(path, versions, rounds)}
        finally:
            path.unlink(missing_ok=True)
    result["targets"] = {
        f"{size} {question} {what}": measured[question][what] < limit
        for size, measured in result["sizes"].items()
        for question in ("lookup", "history_of_one", "show_on_the_command_line")
        for what, limit in LIMITS.items()
    }
    return result


def main() -> None:
    """Run everything and print the result."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.schema_store", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--versions", default=SIZES, help="physical versions, several with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench/schema-store"))
    arguments = parser.parse_args()
    result = run(map(int, arguments.versions.split(",")), arguments.rounds, arguments.out)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
