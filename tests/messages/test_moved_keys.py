"""Rows whose key changes or is none, and rows of which the log does not hold all, from a real server's binlog."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import command_line
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages.messages import made
from tests.mysql_server import MySqlServer
from tests.targets.server.workload import as_output


@pytest.mark.mysql
def test_a_changed_key_is_a_delete_a_tombstone_and_a_create(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Source: "Primary key updates" of the manual of Debezium's MySQL connector."""
    mysql_server.execute(
        "RESET BINARY LOGS AND GTIDS; CREATE DATABASE m; CREATE TABLE m.t (a INT, b VARCHAR(9), c INT, "
        "PRIMARY KEY (a, b)); CREATE TABLE m.n (x INT); INSERT INTO m.t VALUES (1, 'é', 1), (2, 'q\"', 2), (3, '', 3);"
        "UPDATE m.t SET a = a + 10, c = NULL WHERE a = 2; UPDATE m.t SET c = 9; INSERT INTO m.n VALUES (7), (7);"
        "DELETE FROM m.n"
    )
    as_output(mysql_server, tmp_path)
    found = [(t, k, v and (v["op"], v["before"], v["after"])) for t, k, v in made(tmp_path, "debezium") if t != "ddl"]
    first, second, third = {"a": 1, "b": "é", "c": 1}, {"a": 2, "b": 'q"', "c": 2}, {"a": 3, "b": "", "c": 3}
    moved = {"a": 12, "b": 'q"', "c": None}

    def key(row: dict[str, Any]) -> dict[str, Any]:
        return {"a": row["a"], "b": row["b"]}

    assert [m for m in found if m[0] == "m.t"] == [
        *(("m.t", key(row), ("c", None, row)) for row in (first, second, third)),
        ("m.t", key(second), ("d", second, None)),
        ("m.t", key(second), None),
        ("m.t", key(moved), ("c", None, moved)),
        *(("m.t", key(row), ("u", row, row | {"c": 9})) for row in (first, third, moved)),
    ]
    # Without a primary key there is no key, and no tombstone.
    assert [m for m in found if m[0] == "m.n"] == [
        *[("m.n", None, ("c", None, {"x": 7}))] * 2,
        *[("m.n", None, ("d", {"x": 7}, None))] * 2,
    ]
    values = [v for t, _, v in made(tmp_path, "maxwell", tables=("t", "n"), output_nulls="false") if t != "ddl"]
    assert [v["data"] for v in values if v.get("old") == {"a": 2, "c": 2}] == [{"a": 12, "b": 'q"'}]


@pytest.mark.parametrize("form", ["debezium", "canal", "maxwell", "open-protocol", "simple"])
def test_rows_that_are_not_whole_stop_it(form: str, tmp_path: Path) -> None:
    merge(case_named("row-image-minimal") / "cluster.yaml", tmp_path)
    tables = json.loads((case_named("row-image-minimal") / "expected" / "tables.json").read_text())
    results = [command_line(["changes", tmp_path, "--table", table, "-o", form]) for table in tables]
    stopped = [result for result in results if result.returncode]
    assert stopped and {result.returncode for result in stopped} == {29}
    assert all("has no value" in result.stderr and "binlog.000001" in result.stderr for result in stopped)


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    merge(case_named("two-nodes") / "cluster.yaml", tmp_path)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    result = command_line(["replay", "--merged", tmp_path, "--to", "kafka://127.0.0.1:1", "--format", "canal"])
    assert result.returncode == 2 and "pip install '.[kafka]'" in result.stderr
