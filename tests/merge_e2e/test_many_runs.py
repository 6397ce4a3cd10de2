"""The same input cut into many runs: in the end the files are those of one run, byte for byte."""

import itertools
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.errors import UnannouncedDdl
from tests.effort import effort, keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, other_inputs, some_inputs, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, state_of, written


def merge_growing(
    path: Path,
    out: Path,
    good: dict[str, bytes],
    rng: random.Random,
    *,
    rounds: int,
    anywhere: bool,
    remove_old: bool,
) -> None:
    """Merge a case's copy in rounds; after each, what is there is a prefix of `good`, at last it is `good`."""
    values = yaml.safe_load(path.read_text())
    nodes = {n["source-id"]: GrowingNode.of(path.parent / "nodes" / n["source-id"]) for n in values["nodes"]}
    plan = schedule(nodes, rounds, anywhere, rng)
    for number, places in enumerate(plan, 1):
        for name, place in places.items():
            nodes[name].grow(place, anywhere)
        # Before a cluster's first marker nothing tells that there will be one.
        with suppress(*(() if number == rounds else (UnannouncedDdl,))):
            merge(path, out, end_of_input=number == rounds, partitions=rng.choice([None, 1, 3, 8]))
        assert_prefix(written(out), good)
        last = state_of(out).last
        if remove_old and last is not None:
            for name, state in last.nodes.items():
                nodes[name].remove_before(state.checkpoint["file"])
    assert written(out) == good


@some_inputs
def test_any_cuts_give_the_same_files(case: Path, tmp_path: Path) -> None:
    rng = random.Random(f"{case.name} cut")
    anywhere = rng.random() < 0.6
    path = copy_case(case, tmp_path / "case")
    good = whole(case / "cluster.yaml")
    merge_growing(path, tmp_path / "out", good, rng, rounds=5, anywhere=anywhere, remove_old=False)


@other_inputs
def test_small_files_grow_over_runs(case: Path, tmp_path: Path) -> None:
    rng = random.Random(case.name)
    total = sum(map(len, whole(case / "cluster.yaml").values()))
    path = copy_case(case, tmp_path / "case", max_size(max(400, total // rng.choice([3, 9, 30]))))
    good = whole(path)
    merge_growing(path, tmp_path / "out", good, rng, rounds=4, anywhere=rng.random() < 0.5, remove_old=True)


def _split_files(folder: Path, rng: random.Random) -> None:
    """Cut the node's files further: every file into several, as a server with a small max-binlog-size writes them."""
    from tests.merge_e2e.editing import ROTATE, Log, Piece

    paths = sorted(p for p in folder.glob("binlog.*") if p.suffix != ".index")
    logs = [Log.load(p) for p in paths]
    for path in paths:
        path.unlink()
    number = 0
    for log in logs:
        groups = list(log.groups())
        head = list(log.events[: groups[0][0]]) if groups else [e for e in log.events if e.type != ROTATE]
        parts = sorted({0, *rng.choices(range(len(groups) + 1), k=3), len(groups)}) if groups else [0, 0]
        for start, stop in itertools.pairwise(parts):
            number += 1
            events = [e for first, end in groups[start:stop] for e in log.events[first:end]]
            first = head[0]
            created = first.body[:52] + (1_790_000_000 + number).to_bytes(4, "little") + first.body[56:]
            head[0] = Piece(first.timestamp, first.type, first.server_id, first.flags & ~1, created)
            name = b"binlog.%06d" % (number + 1)
            rotate = Piece(first.timestamp, ROTATE, first.server_id, 0, (4).to_bytes(8, "little") + name)
            log.with_events([*head, *events, rotate]).renumbered().save(folder / f"binlog.{number:06d}")


@pytest.mark.parametrize("seed", keeping([1, 2, 3, 4, 5], range(effort(2, 6))))  # 1 has small output files too
def test_many_files_of_which_old_ones_are_removed(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = case_named(rng.choice(["three-nodes-online-ddl", "three-nodes-commit-order", "seed-add-column", "rotation"]))
    path = copy_case(case, tmp_path / "case", _with_small_files if seed % 2 else None)
    for node in yaml.safe_load(path.read_text())["nodes"]:
        _split_files(path.parent / "nodes" / node["source-id"], rng)
    good = whole(path)
    merge_growing(path, tmp_path / "out", good, rng, rounds=8, anywhere=seed % 3 == 0, remove_old=True)


def _with_small_files(values: dict[str, Any]) -> None:
    values["output"]["max-size"] = 5000


@some_inputs
def test_nothing_new_changes_nothing(case: Path, tmp_path: Path) -> None:
    for end_of_input in (False, True):
        merge(case / "cluster.yaml", tmp_path, end_of_input=end_of_input)
        before = written(tmp_path)
        again = merge(case / "cluster.yaml", tmp_path, end_of_input=end_of_input)
        assert (again.transactions, again.events, written(tmp_path)) == (0, 0, before)
    assert written(tmp_path) == whole(case / "cluster.yaml")
