"""Every scenario, on real servers: target and shards have one schema and one set of rows, and no statement fails.

All scenarios are played once, each in databases and binlog files of its own, and merged in one go for each mode. Only
if that fails each is merged alone, to tell which.
"""

from typing import Any

import pytest

from binlog_merge.errors import MergeError
from tests.effort import keeping
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.scenario import Play, Scenario, check, play
from tests.merge_e2e.shards.scenarios import BOTH, OPTIMISTIC, PESSIMISTIC
from tests.merge_e2e.shards.stage import Played, Stage

pytestmark = [pytest.mark.mysql]

# In the order played: the files of a mode follow one another.
OF_MODE = {"optimistic": (*OPTIMISTIC, *BOTH), "pessimistic": (*BOTH, *PESSIMISTIC)}
Plays = dict[str, tuple[Play, Played]]


@pytest.fixture(scope="module")
def played(stage: Stage) -> Plays:
    """All scenarios, played."""
    scenarios = {scenario.name: scenario for of_mode in OF_MODE.values() for scenario in of_mode}
    return {name: play(stage, scenario, i) for i, (name, scenario) in enumerate(scenarios.items(), start=1)}


@pytest.fixture(scope="module")
def failures(request: pytest.FixtureRequest, stage: Stage, played: Plays) -> dict[str, Exception]:
    """Merge all scenarios of a mode and carry them out on the target; returns those that fail."""
    mode: str = request.param
    files = {scenario.name: played[scenario.name][1] for scenario in OF_MODE[mode]}
    stage.target.drop_databases()
    try:
        stage.perform(mode, list(files.values()), mode)
        return {}
    except (MergeError, RuntimeError) as error:
        together = error
    stage.target.drop_databases()
    failed: dict[str, Exception] = {}
    for name, one in files.items():
        try:
            stage.perform(f"{mode}-alone-{name}", [one], mode)
        except Exception as error:
            failed[name] = error
    return failed or dict.fromkeys(files, together)


def params() -> list[Any]:
    found = [(mode, scenario) for mode, scenarios in OF_MODE.items() for scenario in scenarios]
    return [pytest.param(mode, scenario, id=f"{mode}-{scenario.id}") for mode, scenario in found]


@pytest.mark.parametrize(("failures", "scenario"), params(), indirect=["failures"], scope="module")
def test_target_and_shards_are_alike(
    stage: Stage, played: Plays, failures: dict[str, Exception], scenario: Scenario
) -> None:
    if scenario.name in failures:
        raise failures[scenario.name]
    check(stage, *played[scenario.name])


@pytest.mark.extended  # test_renames cuts into runs, too
@pytest.mark.parametrize("mode", keeping(["optimistic"], OF_MODE))  # one mode is enough to cut
def test_files_that_come_one_by_one_make_the_same_log(stage: Stage, played: Plays, mode: str) -> None:
    """A run after each few files, without --end-of-input until the last, comes to what one run comes to."""
    chosen = [played[scenario.name][1] for scenario in OF_MODE[mode]][:20]
    whole = stage.configuration(f"{mode}-whole", chosen, mode)
    merge(whole, whole.parent / "out")
    for there in range(3, len(chosen), 6):
        path = stage.configuration(f"{mode}-growing", chosen[:there], mode, chosen)
        merge(path, path.parent / "out", end_of_input=False, partitions=1 + there % 3)
    path = stage.configuration(f"{mode}-growing", chosen, mode)
    merge(path, path.parent / "out")
    assert written(path.parent / "out") == written(whole.parent / "out")
