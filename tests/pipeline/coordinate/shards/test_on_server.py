"""Coordination on a real server: none of its statements fails there, and target and shards have one schema and rows."""

import json
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, assume, given, settings

from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import order
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Default, Table
from tests.effort import effort
from tests.mysql_server import MySqlServer
from tests.pipeline.coordinate.shards import on_server
from tests.pipeline.coordinate.shards.test_scenario_vectors import CASES, is_smooth
from tests.pipeline.coordinate.shards.test_termination import TABLE, Story, after, start, stories

pytestmark = [pytest.mark.mysql]


def check(server: MySqlServer, way: str, statements: list[tuple[str, str]], alike: bool) -> None:
    """Run statements on the nodes, merge, and compare; `alike` if all is to come out."""
    on_server.run(server, statements)
    log = on_server.read(server)
    outcome = on_server.coordinate(log, way)
    held = on_server.carry_out(server, log, outcome)
    if outcome.table is None:
        return
    (made,) = parse_dump(server.dump_schema(on_server.TARGET[0])).tables.values()
    assert order(made, as_shown(outcome.table)) == 0, "the server's table is another than coordination's"
    assert [c.name for c in made.columns] == [c.name for c in outcome.table.columns]
    if not alike or outcome.findings:
        return
    assert outcome.stop is None
    assert not held
    shards = on_server.shards_of(log)
    common = [c.name for c in made.columns if all(t.index_of(c.name) is not None for t in shards.values())]
    theirs = on_server.contents(server, [(s.schema, s.table) for s in shards], common)
    assert on_server.contents(server, [on_server.TARGET], common) == theirs


def as_shown(table: Table) -> Table:
    """Return a table as SHOW CREATE TABLE tells of it: a nullable column without DEFAULT is read as one with NULL."""
    columns = [
        replace(c, default=Default("null")) if c.nullable and c.default is None and c.generated is None else c
        for c in table.columns
    ]
    return replace(table, columns=tuple(columns))


def statements_of(case: dict[str, Any]) -> list[tuple[str, str]]:
    steps = [*case["init"], *(s for s in case["steps"] if s["op"] == "sql" and not s.get("conditional"))]
    return [(s["node"], s["sql"]) for s in steps if s["node"].startswith("source")]


# One of each kind; `make soak` runs them all.
KINDS = (
    "ADD_DROP_COLUMNS", "COLUMN_INDEX/opt", "RENAME_TABLE", "DROP_COLUMN_ALL_DONE", "DIFFERENT_SCHEMA_FULL",
    "CREATE_DROP_TABLE", "/031/", "/035/", "/036/", "/040/opt", "/049/", "/057/", "/063/", "/066/opt", "/073/",
    "/103/opt", "/116/", "/118/opt", "/126/", "/130/", "/131/", "/132/opt", "/150/", "/151/", "/152/",
)  # fmt: skip


def params(chosen: bool) -> list[Any]:
    # Loops of the shell are not unrolled in some of them.
    whole = [c for c in CASES if "$" not in json.dumps([s.get("sql") for s in c["steps"]])]
    found = [c for c in whole if any(kind in c["id"] for kind in KINDS) == chosen]
    return [pytest.param(case, id=case["id"]) for case in found]


# Their shards hold equal values in a column that is made unique, so no table can take the rows of all.
EQUAL_VALUES = ("/034/optimistic", "/034/pessimistic", "/080/pessimistic")


def check_case(server: MySqlServer, case: dict[str, Any]) -> None:
    if case["id"].endswith(EQUAL_VALUES):
        with pytest.raises(pymysql.err.IntegrityError, match="Duplicate entry"):
            check(server, case["mode"], statements_of(case), False)
        return
    dropped = any("drop table" in s.get("sql", "").lower() for s in case["steps"])
    decided = any("unlock" in s.get("cmd", "") for s in case["steps"])  # by whom the server is not told
    check(server, case["mode"], statements_of(case), is_smooth(case) and not dropped and not decided)


@pytest.mark.skipif(not CASES, reason="no scenarios beside the repository")
@pytest.mark.parametrize("case", params(True))
def test_scenarios_of_each_kind(mysql_server: MySqlServer, case: dict[str, Any]) -> None:
    check_case(mysql_server, case)


@pytest.mark.soak
@pytest.mark.parametrize("case", params(False))
def test_all_other_scenarios(mysql_server: MySqlServer, case: dict[str, Any]) -> None:
    check_case(mysql_server, case)


@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_a_story(mysql_server: MySqlServer, way: str) -> None:
    one = (
        "ADD COLUMN c INT NOT NULL",
        "row",
        "RENAME COLUMN a TO d",
        "row",
        "MODIFY d BIGINT",
        "row",
        "DROP COLUMN b",
        "row",
    )
    check(mysql_server, way, told(Story((one, one), (0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0))), True)


@pytest.mark.soak
@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_random_stories(mysql_server: MySqlServer, way: str) -> None:
    @settings(deadline=None, max_examples=effort(25, 60), database=None, suppress_health_check=list(HealthCheck))
    @given(stories(detours=way == "optimistic"))
    def run(story: Story) -> None:
        # What is unique in each shard need not be so in all.
        assume("UNIQUE" not in repr(story))
        mysql_server.drop_databases()
        mysql_server.execute("RESET BINARY LOGS AND GTIDS")
        statements = told(story)
        try:
            on_server.run(mysql_server, statements)
        except pymysql.err.MySQLError:
            assume(False)  # a shard's own rows do not let it
        check(mysql_server, way, [], True)

    run()


def told(story: Story) -> list[tuple[str, str]]:
    """Return a story as statements; each row has values of its own in all columns."""
    statements = [(f"n{i}", TABLE.replace("TABLE t ", f"TABLE shardddl1.tb{i} ")) for i in range(len(story.shards))]
    clauses: list[list[str]] = [[] for _ in story.shards]
    for number, (shard, text) in enumerate(story.in_turn()):
        table = f"shardddl1.tb{shard}"
        if text == "row":
            shape = after(start(), clauses[shard])
            assert shape is not None
            names = [c.name for c in shape.columns]
            values = ", ".join(str(100 + number * 10 + i) for i in range(len(names)))
            statements.append((f"n{shard}", f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"))
        else:
            clauses[shard].append(text)
            statements.append((f"n{shard}", f"ALTER TABLE {table} {text}"))
    return statements
