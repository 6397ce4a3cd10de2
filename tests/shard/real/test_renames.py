"""Tables that are renamed, on real servers: rows go with their tables, and the target has what all nodes have."""

import pytest

from tests.merge_e2e.local import merge
from tests.shard.real.renames import CARRIED, Story, Teller, check
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
