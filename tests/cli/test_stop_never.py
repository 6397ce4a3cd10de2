"""`merge --stop-never` as a process: it follows the nodes, ends cleanly, and can be killed at any moment."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
import yaml

from tests.command_line import command_line
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, state_of, written

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]


def nodes_of(path: Path) -> dict[str, GrowingNode]:
    """Take the files of a case's nodes away; they come back as the nodes grow."""
    names = [node["source-id"] for node in yaml.safe_load(path.read_text())["nodes"]]
    return {name: GrowingNode.of(path.parent / "nodes" / name) for name in names}


def grow(nodes: dict[str, GrowingNode], part: float) -> None:
    """Let the nodes write a part of their last file, and all before it."""
    for node in nodes.values():
        size = len(node.files[-1][1])
        node.grow((len(node.files) - 1, size if part == 1 else int(size * part)), anywhere=part < 1)


def started(path: Path, out: Path, *options: str, log: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "-c", str(path), "--out", str(out)]
    command += ["--stop-never", "--master", "local[1]", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log or subprocess.PIPE)


def await_until(process: subprocess.Popen[bytes], true: Callable[[], bool]) -> None:
    """Wait until something is true, or the process has ended."""
    while not true():
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.05)


def published(out: Path) -> int:
    return state_of(out).rank


@pytest.fixture
def case(tmp_path: Path) -> Iterator[tuple[Path, dict[str, bytes], dict[str, GrowingNode]]]:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(30_000))
    good = whole(path)
    yield path, good, nodes_of(path)


def test_it_follows_through_what_passes_and_ends_cleanly(
    case: tuple[Path, dict[str, bytes], dict[str, GrowingNode]], tmp_path: Path
) -> None:
    """A node's folder is away for a while; SIGTERM ends it."""
    path, good, nodes = case
    out, log = tmp_path / "out", tmp_path / "log"
    grow(nodes, 0.3)
    folder = path.parent / "nodes" / "dn-2"
    with (
        log.open("wb") as stderr,
        started(path, out, "-o", "jsonl", "--log-format", "json", "--in-driver", "20kB", log=stderr) as process,
    ):
        await_until(process, lambda: published(out) > 0)
        before = published(out)
        folder.rename(tmp_path / "away")
        await_until(process, lambda: b"no-files" in log.read_bytes())
        (tmp_path / "away").rename(folder)
        grow(nodes, 0.8)
        await_until(process, lambda: published(out) > before)
        process.terminate()
        stdout, _ = process.communicate()
    assert process.returncode == 0 and b"Traceback" not in log.read_bytes()
    events = [json.loads(line) for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    assert {"recovered"} <= {event["event"] for event in events}
    documents = [json.loads(line) for line in stdout.splitlines()]
    assert sum(document["transactions"] for document in documents) == published(out)
    assert all(document["error"] is None for document in documents)
    assert not (out / ".work").exists()
    grow(nodes, 1)
    merge(path, out)
    assert written(out) == good


# What ends rounds is tests/pipeline/test_follow's, and that a verb exits with an error's code, test_main's.
@pytest.mark.extended
def test_damage_ends_it_with_its_exit_code(
    case: tuple[Path, dict[str, bytes], dict[str, GrowingNode]], tmp_path: Path
) -> None:
    path, good, nodes = case
    out = tmp_path / "out"
    grow(nodes, 0.3)
    with started(path, out) as process:
        await_until(process, lambda: published(out) > 0)
        node = nodes["dn-1"]
        name, data = node.files[-1]
        damaged = bytearray(data)
        damaged[int(len(data) * 0.6)] ^= 0x55
        node.files[-1] = name, bytes(damaged)
        grow(nodes, 0.9)
        _, stderr = process.communicate()
    assert process.returncode == 12, stderr.decode()
    assert_prefix(written(out), good)
    node.files[-1] = name, data
    grow(nodes, 1)
    merge(path, out)
    assert written(out) == good


def killed_at_random(path: Path, out: Path, seed: int, kills: int) -> None:
    """Kill the process, and start it again, while the nodes grow."""
    rng = random.Random(seed)
    good, nodes = whole(path), nodes_of(path)
    plan = schedule(nodes, 3 * kills, True, rng)
    for number in range(kills):
        process = started(path, out)
        if rng.random() < 0.7:
            run = state_of(out).run
            for name, place in plan[3 * number].items():
                nodes[name].grow(place, True)
            deadline = time.monotonic() + rng.uniform(1, 20)
            while state_of(out).run == run and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
        for places in plan[3 * number : 3 * number + 3]:
            for name, place in places.items():
                nodes[name].grow(place, True)
            time.sleep(rng.choice([0, 0.05, 0.3, 0.6]))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert_prefix({f.name: (out / f.name).read_bytes()[: f.size] for f in state_of(out).files}, good)
    for node in nodes.values():
        node.grow((len(node.files) - 1, len(node.files[-1][1])), anywhere=False)
    merge(path, out)
    assert written(out) == good


# A merge that follows is killed by test_run_live too, and in rounds at each step by merge_e2e's test_killed.
@pytest.mark.extended
def test_killed_while_it_follows(tmp_path: Path) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(30_000))
    killed_at_random(path, tmp_path / "out", seed=1, kills=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_killed_twenty_times_while_it_follows(seed: int, tmp_path: Path) -> None:
    name = ["three-nodes-online-ddl", "shards-optimistic", "polardbx-rename", "three-nodes-commit-order"][seed % 4]
    path = copy_case(case_named(name), tmp_path / "case", max_size(20_000))
    killed_at_random(path, tmp_path / "out", seed, kills=20)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--stop-never", "--end-of-input"], "--end-of-input is for a merge that ends"),
        (["--stop-never", "--stop-tso", "7"], "--stop-tso is for a merge that ends"),
        (["--stop-never", "--verify"], "--verify is for a merge that ends"),
        (["--min-interval", "3"], "--min-interval is for --stop-never"),
    ],
)
def test_options_that_contradict_it(options: list[str], says: str, tmp_path: Path) -> None:
    done = command_line(["merge", "-c", case_named("two-nodes") / "cluster.yaml", "--out", tmp_path / "out", *options])
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "out").exists()
