"""A day of readers of schema.duckdb in ten minutes: none fails or sees half of a change, and no writer waits.

Long: `SOAK_SECONDS=600 python -m pytest -s -m soak tests/soak/test_readers_of_schemas.py`.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey

ROOT = Path(__file__).resolve().parents[2]
READERS = {
    "reads": """
while True:
    with Store.open(path, True, wait_seconds=0) as store:
        keys = [version.key.commit_tso for version in store.load_history().versions]
    assert keys == list(range(1, len(keys) + 1)) and len(keys) % 2 and len(keys) >= seen, (seen, keys)
    seen = len(keys)
    print(seen, flush=True)
""",
    "reads long": """
while True:
    with Store.open(path, True, wait_seconds=0) as store:
        first = len(store.load_history().versions)
        time.sleep(random.uniform(0, 10))
        assert len(store.load_history().versions) == first >= seen
    seen = first
    print(seen, flush=True)
""",
    "asks": """
while True:
    with Store.open(path, True, wait_seconds=0) as store:
        ((count, last),) = store.query("SELECT count(*), max(order_key) FROM table_versions").rows
    assert OrderKey.parse(last).commit_tso == count >= seen
    seen = count
    print(seen, flush=True)
""",
    "has it open": """
while True:
    with duckdb.connect(str(path), read_only=True):
        time.sleep(random.uniform(0, 5))
    print(0, flush=True)
""",
}
BEGINS = """
import random, sys, time
from pathlib import Path
import duckdb
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
path, seen = Path(sys.argv[1]), 0
"""


@dataclass
class Reader:
    """A process that reads again and again, and prints a line each time."""

    name: str
    process: "subprocess.Popen[bytes]"
    lines: Path

    @classmethod
    def started(cls, name: str, code: str, path: Path, lines: Path) -> "Reader":
        with lines.open("wb") as stream:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [sys.executable, "-c", BEGINS + code, str(path)]
            return cls(name, subprocess.Popen(command, stdout=stream, stderr=stream, env=environment), lines)

    def end(self) -> tuple[str, int | None, int]:
        """Return its name, its exit code, None if it has read until now, and how often it has read."""
        code = self.process.poll()
        self.process.kill()
        self.process.wait()
        return self.name, code, self.lines.read_bytes().count(b"\n")


def _version(number: int) -> TableVersion:
    table = Table("d", f"t{number % 50}", (Column(f"c{number}", ColumnType("int")),))
    return TableVersion(OrderKey(number, 0, 0, 0), 0, "d", table.name, table)


@pytest.mark.soak
def test_a_day_of_readers(tmp_path: Path) -> None:
    path, end = tmp_path / "schema.duckdb", time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600"))
    with Store.open(path) as store:
        store.append_versions([_version(1)])
    names = ["reads", "reads", "reads long", "asks", "has it open"]
    readers = [Reader.started(name, READERS[name], path, tmp_path / f"{n}.txt") for n, name in enumerate(names)]
    number = 1
    try:
        while time.monotonic() < end:
            with Store.open(path, wait_seconds=0) as store:
                assert store.append_versions([_version(number + 1), _version(number + 2)]) == 2
            number += 2
    finally:
        done = [reader.end() for reader in readers]
        print(f"{number // 2} changes;", done)
    said = [reader.lines.read_text()[-2000:] for reader, (_, code, _) in zip(readers, done, strict=True) if code]
    assert not said, said
    assert all(times for _, _, times in done)
