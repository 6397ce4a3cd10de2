"""Where nothing is under way coordination can be cut: what comes behind comes to the same, whatever came before."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_merge.pipeline.coordinate.shards.values import Outcome, Start
from tests.effort import effort, keeping
from tests.pipeline.coordinate.shards.scenario import SESSION, WAYS, Cluster, ran
from tests.pipeline.coordinate.shards.test_termination import LOGICAL, Story, stories

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"


def check_cut(made: Cluster, way: str, until: int | None = None) -> Outcome:
    """Fail if the events behind the last quiet one come to something else by themselves than behind all others."""
    members, events = made.members[LOGICAL], made.events.get(LOGICAL, [])[:until]
    whole = WAYS[way](members, None, events, SESSION)
    if whole.quiet is None:
        return whole
    key, start = whole.quiet
    before = WAYS[way](members, None, [e for e in events if e.key <= key], SESSION)
    behind = WAYS[way](start.members, start.table, [e for e in events if e.key > key], SESSION, start)
    assert whole.logical == (*before.logical, *behind.logical)
    assert sorted(whole.effects, key=repr) == sorted((*before.effects, *behind.effects), key=repr)
    assert whole.findings == (*before.findings, *behind.findings)
    assert all(waiting.stage == "spreading" for waiting in before.open) and before.stop is None
    assert (whole.open, whole.members, whole.table, whole.stop) == (
        behind.open,
        behind.members,
        behind.table,
        behind.stop,
    )
    assert behind.quiet in (None, whole.quiet)
    return whole


@pytest.mark.parametrize(
    ("way", "detours"),
    keeping(
        [("optimistic", True), ("pessimistic", False)],
        [(way, detours) for way in ("optimistic", "pessimistic") for detours in (False, True)],
    ),
)
def test_any_story_may_be_cut_where_it_is_quiet(way: str, detours: bool) -> None:
    @given(stories(detours), st.integers(0, 30))
    @settings(max_examples=effort(25, 60), deadline=None, suppress_health_check=list(HealthCheck))
    def check(story: Story, until: int) -> None:
        made = story.cluster()
        check_cut(made, way)
        check_cut(made, way, until)

    check()


@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_what_stays_when_shards_come_and_go(way: str) -> None:
    made = ran(
        CREATE, "t1 t2", "t1 ADD COLUMN c INT", "t2 ADD COLUMN c INT", "t1 COMMENT='x'", "t2 DROP TABLE t2",
        "t1 TRUNCATE TABLE t1", "t3 CREATE TABLE t3 (id INT PRIMARY KEY, a INT, c INT)", "t3 COMMENT='x'",
        "t1 DROP TABLE t1", "t3 TRUNCATE TABLE t3", "t3 ADD COLUMN d INT",
    )  # fmt: skip
    count = len(made.events[LOGICAL])
    for until in range(1, count + 1):
        outcome = check_cut(made, way, until)
    assert outcome.quiet is not None and isinstance(outcome.quiet[1], Start)
    assert not outcome.quiet[1].rows_left  # the last TRUNCATE was of all that there were


@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_nothing_is_quiet_while_shards_differ(way: str) -> None:
    made = ran(CREATE, "t1 t2", "t1 ADD COLUMN c INT", "t2 ADD COLUMN c INT", "t1 DROP COLUMN a")
    outcome = check_cut(made, way)
    assert outcome.quiet is not None and outcome.quiet[0] == made.events[LOGICAL][1].key
    assert check_cut(made, way, 1).quiet is None
