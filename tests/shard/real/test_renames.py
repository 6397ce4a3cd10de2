"""Tables that are renamed, on real servers: rows go with their tables, and the target has what all nodes have."""

import os
import random
from pathlib import Path

import pytest

from binlog_merge.errors import ShardDdlStopped
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, written
from tests.shard.real.renames import CARRIED, IN_DOUBT, Story, Teller, check
from tests.shard.real.stage import Played, Stage

pytestmark = [pytest.mark.mysql]

Told = dict[str, tuple[int, Played]]
ERROR = {"shard-doubts": "error"}


@pytest.fixture(scope="module")
def told(stage: Stage) -> Told:
    """All stories, told once."""
    found = {}
    for number, story in enumerate(CARRIED, 1):
        found[story.name] = (number, Teller(stage, story, number).tell())
    return found


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("story", CARRIED, ids=lambda story: str(story.id))
def test_the_target_has_what_the_nodes_have(stage: Stage, told: Told, story: Story, mode: str) -> None:
    number, played = told[story.name]
    stage.target.drop_databases()
    path = stage.configuration(f"{mode}-{story.id}", [played], mode, sections={**ERROR, **story.sections})
    out = path.parent / "out"
    result = merge(path, out)
    assert [w for w in result.warnings if not story.warned or story.warned not in w] == []
    assert (result.waiting_shards, result.locks) == ((), ())
    stage.carry_out(out)
    check(stage, played, number, not story.sections.get("online-ddl", True))


def grown(path: Path, whole: dict[str, bytes], rng: random.Random, rounds: int) -> dict[str, bytes]:
    """Merge a copy of a case while its nodes write; returns what comes out at last, of which all before is a part."""
    nodes = {home.name: GrowingNode.of(home) for home in sorted(path.parent.iterdir()) if home.is_dir()}
    out = path.parent / "out"
    for number, places in enumerate(schedule(nodes, rounds, False, rng), 1):
        for name, place in places.items():
            nodes[name].grow(place, False)
        merge(path, out, end_of_input=number == rounds, partitions=rng.choice([None, 2, 5]))
        assert_prefix(written(out), whole)
    return written(out)


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("RENAME_SEEDS", "1"))))
def test_merges_cut_into_runs_come_to_the_same(stage: Stage, told: Told, mode: str, seed: int) -> None:
    played = [told[story.name][1] for story in CARRIED if not story.sections]
    one = stage.configuration(f"{mode}-{seed}-whole", played, mode, sections=ERROR)
    merge(one, one.parent / "out", partitions=3)
    whole = written(one.parent / "out")
    rng = random.Random(seed)
    path = stage.configuration(f"{mode}-{seed}-cut", played, mode, sections=ERROR)
    assert grown(path, whole, rng, 12) == whole


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("story", IN_DOUBT, ids=lambda story: str(story.id))
def test_what_no_statement_says_stops_the_merge_or_is_told(stage: Stage, story: Story, mode: str) -> None:
    number = 100 + 2 * IN_DOUBT.index(story) + (mode == "optimistic")
    played = Teller(stage, story, number).tell()
    stage.target.drop_databases()
    path = stage.configuration(f"doubt-{mode}-{story.id}", [played], mode, sections={**ERROR, **story.sections})
    out = path.parent / "out"
    with pytest.raises(ShardDdlStopped) as raised:
        merge(path, out)
    error, wanted = raised.value, story.fill(story.doubt, number)
    assert error.exit_code == 42 and wanted in error.message
    assert error.node and error.file and error.position
    assert "shard-doubts: warn" in (error.remedy or "") and "by hand" in (error.remedy or "")
    before = written(out)
    with pytest.raises(ShardDdlStopped):
        merge(path, out)
    assert written(out) == before  # a prefix, as far as it goes
    stage.configuration(f"doubt-{mode}-{story.id}", [played], mode, sections=story.sections)  # which may go on
    result = merge(path, out)
    told = [warning for warning in result.warnings if wanted in warning]
    assert told and f"{Path(error.file).name}:{error.position}; " in told[0] and "by hand" in told[0]
    stage.carry_out(out)
