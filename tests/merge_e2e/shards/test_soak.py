"""Longer runs on real servers: DM's integration scenarios, and random interleavings of DDL that end alike."""

import json
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, assume, given, settings

from binlog_merge.errors import MergeError
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import order
from snapshot_store.ddl import parse_dump
from tests.merge_e2e.shards.scenario import Play, Scenario
from tests.merge_e2e.shards.stage import Name, Played, Route, Stage, columns_of, rows_of, tables
from tests.pipeline.coordinate.shards.test_on_server import EQUAL_VALUES, statements_of
from tests.pipeline.coordinate.shards.test_scenario_vectors import CASES, is_smooth
from tests.pipeline.coordinate.shards.test_termination import TABLE, Story, stories

pytestmark = [pytest.mark.mysql, pytest.mark.soak]

TARGET = Route("shardddl?", "tb*", ("shardddl", "tb"))


def play_case(stage: Stage, case: dict[str, Any]) -> Played:
    nodes = {"source1": "n1", "source2": "n2", "source3": "n2"}
    with stage.scene(case["id"], [TARGET]) as (sessions, played):
        for session in sessions.values():
            for number in (1, 2):
                session.run(f"CREATE DATABASE IF NOT EXISTS shardddl{number}")
        for node, sql in statements_of(case):
            sessions[nodes[node]].run(sql)
    return played[0]


# Loops of the shell are not unrolled in some of them.
WHOLE = [case for case in CASES if "$" not in json.dumps(statements_of(case))]


@pytest.mark.skipif(not CASES, reason="no scenarios beside the repository")
@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in WHOLE])
def test_dm(stage: Stage, case: dict[str, Any]) -> None:
    stage.clear()
    one = play_case(stage, case)
    if case["id"].endswith(EQUAL_VALUES):
        with pytest.raises(RuntimeError, match="Duplicate entry"):
            stage.perform(case["id"], [one], case["mode"])
        return
    dropped = any("drop table" in s.get("sql", "").lower() for s in case["steps"])
    decided = any("unlock" in s.get("cmd", "") for s in case["steps"])  # by whom nobody is told here
    if is_smooth(case) and not dropped and not decided:
        stage.perform(case["id"], [one], case["mode"])
        compare(stage, TARGET)
        return
    try:
        stage.perform(case["id"], [one], case["mode"])
    except MergeError as error:
        assert error.code != "internal", error
        stage.carry_out(stage.folder / case["id"] / "out")


def compare(stage: Stage, route: Route) -> None:
    """Compare what the target has with what the shards have in the columns that all of them have."""
    shards = stage.shards(route)
    if route.target not in tables(stage.target):
        assert not shards
        return
    columns = [c for c in columns_of(stage.target, route.target) if all(_has(stage, s, c) for s in shards)]
    theirs = [row for node, name in shards for row in rows_of(stage.nodes[node], name, columns)]
    assert sorted(map(repr, rows_of(stage.target, route.target, columns))) == sorted(map(repr, theirs))


def _has(stage: Stage, shard: tuple[str, Name], column: str) -> bool:
    node, name = shard
    return column.lower() in {c.lower() for c in columns_of(stage.nodes[node], name)}


@pytest.mark.parametrize("mode", ["optimistic", "pessimistic"])
def test_random_stories(stage: Stage, mode: str) -> None:
    @settings(deadline=None, max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    @given(stories(detours=mode == "optimistic"))
    def run(story: Story) -> None:
        assume("UNIQUE" not in repr(story))  # what is unique in each shard need not be so in all
        stage.clear()
        scenario = Scenario("story", "", "", alike=False)
        routes = scenario.routes(0)
        with stage.scene("story", routes) as (sessions, played):
            one = Play(scenario, 0, dict(sessions))
            try:
                tell(one, story)
            except pymysql.err.MySQLError:
                assume(False)  # a shard's own rows do not let it
        result, _ = stage.perform("story", played, mode)
        if not result.warnings:  # else a shard's rows were filled otherwise than the target's, and it is told
            compare(stage, routes[0])
        (made,) = parse_dump(stage.target.dump_schema(one.schema)).tables.values()
        for node, (schema, table) in stage.shards(routes[0]):
            theirs = parse_dump(stage.nodes[node].dump_schema(schema)).tables[schema, table]
            assert order(made, theirs) == 0, f"{made} is not what {node} has"

    run()


def tell(play: Play, story: Story) -> None:
    """Run a story: shard i is t11, t21 or t12."""
    names = ("t11", "t21", "t12")
    play.run()
    for name in names[: len(story.shards)]:
        play.session(name).run(TABLE.replace("TABLE t ", f"TABLE {name} "))
    for number, text in story.in_turn():
        play.step(names[number], text)
