"""The class attack: random stories of whole tables that are renamed, swapped, copied, exchanged and emptied.

What the target holds in the end is the nodes' union; or the merge stops, at a documented error, with a prefix that can
be applied; or, with `shard-doubts: warn`, a warning names every table that differs.
"""

import os
import time
from pathlib import Path

import pytest

from binlog_merge.errors import MergeError
from binlog_merge.pipeline.values import MergeResult
from tests.effort import effort, keeping
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Stage
from tests.merge_e2e.shards.stories import Held, Story, differences, held, named, play, union

pytestmark = [pytest.mark.mysql]

STOPS = {"shard-ddl", "shard-doubt", "unannounced-ddl", "ddl-not-understood", "unknown-table-schema", "conversion"}
# How a merge is asked to stop where it cannot be sure, and how to go on.
STRICT = {mode: {"shard-doubts": "error"} for mode in ("pessimistic", "optimistic")} | {"marker": {}}
LENIENT = {mode: {"shard-doubts": "warn"} for mode in STRICT} | {"marker": {"markers": {"missing": "warn"}}}


class UnequalError(AssertionError):
    """What the target holds is not what the nodes do, and nothing says so."""


def attack(stage: Stage, seed: int, length: int = 5) -> dict[str, int]:
    """Play a story, merge it in every mode and apply it; where it stops, also as one who goes on nevertheless.

    Returns how often it was equal, stopped, and warned of. Without markers the mode that needs them always stops, so
    few stories try it.
    """
    story, played = play(stage, seed, length)
    theirs = union(stage, story)
    counts = {"equal": 0, "stopped": 0, "warned": 0}
    for mode in STRICT if seed % 4 == 0 else ("pessimistic", "optimistic"):
        for name, sections in (("strict", STRICT[mode]), ("lenient", LENIENT[mode])):
            path = stage.configuration(f"story-{seed}-{mode}-{name}", [played], mode, sections=sections)
            found = _one_way(stage, story, theirs, path)
            counts[found] += 1
            if found != "stopped":
                break
    return counts


def _one_way(stage: Stage, story: Story, theirs: Held, path: Path) -> str:
    out = path.parent / "out"
    lenient = "warn" in path.read_text()
    where = f"seed {story.seed}, {path.read_text().splitlines()[-4:]}, {out}\n{story.text()}\n"
    result: MergeResult | None
    try:
        result, stopped = merge(path, out), None
    except MergeError as error:
        if error.code not in STOPS or not error.remedy or error.position is None:
            raise UnequalError(f"{where}stopped: {error}") from error
        result, stopped = error.result, error
    stage.target.drop_databases()
    try:
        stage.carry_out(out)
    except RuntimeError as error:
        if lenient and result is not None and result.warnings:
            return "warned"  # what collides is what was warned of
        raise UnequalError(f"{where}the target refuses it: {error}") from error
    if stopped is not None:
        return "stopped"
    assert result is not None
    found = differences(story, theirs, held(stage))
    silent = {name: how for name, how in found.items() if not named(result, name)}
    if silent:
        raise UnequalError(f"{where}differs, and nothing says so: {silent}\nwarnings: {result.warnings}")
    return "warned" if found else "equal"


@pytest.mark.parametrize(
    "seeds",
    keeping([range(2)], [range(2), *(range(first, first + 5) for first in range(2, effort(5, 60), 5))]),
    ids=str,
)
def test_stories(stage: Stage, seeds: range) -> None:
    counts = [attack(stage, seed) for seed in seeds]
    assert sum(one["equal"] for one in counts) > len(counts)  # most are no stops


@pytest.mark.soak
def test_stories_for_as_long_as_wanted(stage: Stage) -> None:
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600"))
    first = int(os.environ.get("SOAK_SEED", "1000"))
    failed: list[str] = []
    count = 0
    while time.monotonic() < end and count < 1000:
        try:
            attack(stage, first + count, 3 + count % 8)
        except UnequalError as error:
            failed.append(str(error))
        count += 1
    assert not failed, f"{len(failed)} of {count} stories:\n\n" + "\n\n".join(failed[:20])
