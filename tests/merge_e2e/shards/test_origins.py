"""The schema history says whose a version of a logical table is: a marker's, or what shards have in common."""

import json
from pathlib import Path

import pytest

from tests.command_line import command_line
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge


@pytest.mark.parametrize(("case", "origin"), [("shards-pessimistic", "shards"), ("three-nodes-online-ddl", "marker")])
def test_versions_say_what_made_them(case: str, origin: str, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    merge(copy_case(case_named(case), tmp_path / "case"), merged)
    done = command_line(["schema", "history", "shop.orders", "--merged", merged, "-o", "jsonl"])
    versions = [json.loads(line) for line in done.stdout.splitlines()]
    assert {version["origin"] for version in versions if version["node"] is None and version["ddl"]} == {origin}
    ddl = [version for version in versions if version["ddl"]]
    for version in ddl:
        place = json.loads(command_line(["position-of", merged, "--tso", version["order_key"], "-o", "json"]).stdout)
        assert place["last"]["ddl"] is not None and place["last"]["order_key"] == version["order_key"]
