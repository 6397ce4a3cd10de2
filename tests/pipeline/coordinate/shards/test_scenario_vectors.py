"""DM's integration scenarios (`dm/tests/shardddl*`), on coordination alone: what becomes of their DDL and their rows.

A scenario in which DM ends with consistent data ends here with nothing waiting, and a logical table that is what the
shards come to. In every one, rows find a logical table that takes them, and none is lost.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all
from binlog_merge.pipeline.coordinate.shards.values import Decided, Fault, Outcome, Shard
from tests.pipeline.coordinate.shards.scenario import ROWS, Cluster, check_agreement, merged, placed

FOLDER = Path(__file__).parents[5] / "shared/vectors"
PATHS = [FOLDER / "optimistic_lock.json", FOLDER / "pessimistic.json"]
CASES: list[dict[str, Any]] = [
    case for path in PATHS if path.exists() for case in json.loads(path.read_text()) if case["kind"] == "integration"
]
CASES = [case for case in CASES if case["mode"] in ("optimistic", "pessimistic")]

pytestmark = pytest.mark.skipif(not CASES, reason="no scenarios beside the repository")

LOGICAL = ("shardddl", "tb")
# The target is made to fail, so that DM's lock gets stuck; here a DDL that came out waits for nothing.
TARGET_FAILS = "execute .* error"
# Somebody mends it by hand half-way, other than by a decision about a DDL.
BY_HAND = ("binlog replace", "binlog-schema", "operate-schema", "start-task")

# Where DM gives up, and this does not. Keys are ends of ids.
BETTER = {
    "STRICT_OPTIMISTIC_DOUBLE_SOURCE/optimistic": "NOT NULL without DEFAULT has one while shards differ",
}


def of_way(way: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["mode"] == way]


def run(case: dict[str, Any]) -> Cluster:
    cluster = Cluster(default_schema="shardddl1")
    for step in case["init"]:
        cluster.begin(step["node"], step["sql"])
    for step in case["steps"]:
        unlocked = UNLOCK.search(step.get("cmd", ""))
        if unlocked is not None:
            decide(cluster, case["mode"], *unlocked.groups())
        elif step["op"] == "sql" and step["node"].startswith("source") and not step.get("conditional"):
            cluster.run(step["node"], step["sql"])
    return cluster


# DM's `shard-ddl-lock unlock`: of which shard, and whether its DDL is written or skipped.
UNLOCK = re.compile(r"unlock .* -s \$\{SOURCE_ID(\d)\} -d (\w+) -t (\w+) --action (exec|skip)")


def decide(cluster: Cluster, way: str, source: str, schema: str, table: str, action: str) -> None:
    shard = Shard(f"source{source}", schema, table)
    waiting = next((o for o in cluster.outcome(way, LOGICAL).open if o.ddl.shard == shard), None)
    if waiting is not None:
        said = Decided(cluster.key(), waiting.id, "skip" if action == "skip" else "emit", waiting.ddl.sql)
        cluster.events[LOGICAL].append(said)


def is_smooth(case: dict[str, Any]) -> bool:
    """Tell whether all is well in the end, behind the last DDL, and nobody had to see to it."""
    steps = case["steps"]
    ddl = [i for i, step in enumerate(steps) if step["op"] == "sql" and not ROWS.match(step["sql"])]
    said = [step["value"] for step in steps[max(ddl, default=0) :] if step["op"] == "expect_data_consistent"]
    mended = [step for step in steps if any(word in step.get("cmd", "") for word in BY_HAND)]
    return case["outcome_hint"] == "ok" and said[-1:] == [True] and not mended


def is_better(case: dict[str, Any]) -> bool:
    fails = any(told["contains"] == TARGET_FAILS for step in case["steps"] for told in step.get("expect", ()))
    return fails or case["id"].endswith(tuple(BETTER))


def is_open(outcome: Outcome) -> bool:
    return bool(outcome.stop or outcome.findings or any(o.stage != "queued" for o in outcome.open))


def check_rows(cluster: Cluster, outcome: Outcome) -> None:
    rows = cluster.rows.get(LOGICAL, [])
    out = placed(rows, outcome)
    merged(rows, outcome, join_all(cluster.members.get(LOGICAL, {}).values()))
    held = {row.shard for row, place in out if place is None}
    assert held <= {shard for o in outcome.open for shard in (o.ddl.shard, *o.done)}


@pytest.mark.parametrize("case", of_way("optimistic"))
def test_optimistic_scenarios(case: dict[str, Any]) -> None:
    cluster = run(case)
    outcome = cluster.outcome("optimistic", LOGICAL)
    check_rows(cluster, outcome)
    if is_smooth(case):
        assert all(effect.place is not None for effect in outcome.effects)
        if not any("unlock" in step.get("cmd", "") for step in case["steps"]):
            check_agreement(outcome)
    elif case["outcome_hint"].startswith("error") and not is_better(case):
        assert is_open(outcome)
    if is_better(case):
        assert outcome.stop is None
        assert all(effect.place is not None for effect in outcome.effects)


@pytest.mark.parametrize("case", of_way("pessimistic"))
def test_pessimistic_scenarios(case: dict[str, Any]) -> None:
    cluster = run(case)
    outcome = cluster.outcome("pessimistic", LOGICAL)
    check_rows(cluster, outcome)
    if "DDLs differ" in case["outcome_hint"]:
        assert outcome.stop is not None
        assert outcome.stop.fault is Fault.DIFFERENT_DDL
    elif is_smooth(case):
        check_agreement(outcome)


def test_what_is_better_is_there() -> None:
    assert all(any(case["id"].endswith(key) for case in CASES) for key in BETTER)
