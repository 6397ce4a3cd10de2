"""Coordination on a real server: none of its statements fails there, and target and shards have one schema and rows."""

import json
from typing import Any

import pytest

from binlog_merge.shard.joined import order
from snapshot_store.ddl import parse_dump
from tests.mysql_server import MySqlServer
from tests.shard import on_server
from tests.shard.test_scenario_vectors import CASES, is_smooth

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
    assert order(made, outcome.table) == 0, "the server's table is another than coordination's"
    assert [c.name for c in made.columns] == [c.name for c in outcome.table.columns]
    if not alike or outcome.findings:
        return
    assert outcome.stop is None
    assert not held
    shards = on_server.shards_of(log)
    common = [c.name for c in made.columns if all(t.index_of(c.name) is not None for t in shards.values())]
    theirs = on_server.contents(server, [(s.schema, s.table) for s in shards], common)
    assert on_server.contents(server, [on_server.TARGET], common) == theirs


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
    whole = [c for c in CASES if "${" not in json.dumps([s.get("sql") for s in c["steps"]])]
    found = [c for c in whole if any(kind in c["id"] for kind in KINDS) == chosen]
    return [pytest.param(case, id=case["id"]) for case in found]


def check_case(server: MySqlServer, case: dict[str, Any]) -> None:
    dropped = any("drop table" in s.get("sql", "").lower() for s in case["steps"])
    check(server, case["mode"], statements_of(case), is_smooth(case) and not dropped)


@pytest.mark.skipif(not CASES, reason="no scenarios beside the repository")
@pytest.mark.parametrize("case", params(True))
def test_scenarios_of_each_kind(mysql_server: MySqlServer, case: dict[str, Any]) -> None:
    check_case(mysql_server, case)


@pytest.mark.soak
@pytest.mark.parametrize("case", params(False))
def test_all_other_scenarios(mysql_server: MySqlServer, case: dict[str, Any]) -> None:
    check_case(mysql_server, case)
