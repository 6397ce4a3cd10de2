"""Rows of many tables: each as `changes -o jsonl` has it of its table, in the order of the log."""

import json
from pathlib import Path
from typing import Any

import pytest

import binlog_merge
from binlog_merge.errors import ConfigError, UnknownTable
from tests.command_line import command_line
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as jsonl has it."""
    sides = {side: None if row[side] is None else json.loads(row[side]) for side in ("before", "after")}
    tso = None if row["commit_tso"] is None else str(row["commit_tso"])
    return {**row, **sides, "commit_tso": tso, "commit_time": row["commit_time"].timestamp()}


def said(line: str) -> dict[str, Any]:
    """Return what a line of jsonl says, its time as a number."""
    from datetime import datetime

    found = json.loads(line)
    found["commit_time"] = datetime.fromisoformat(found["commit_time"]).timestamp()
    return {name: value for name, value in found.items() if name != "schema_version"}


# In `shards-optimistic` a shard's column has another name for a while, and the versions of a table differ.
@pytest.mark.parametrize("name", ["all-types", "shards-optimistic", "strange-names", "row-image-minimal"])
def test_every_row_is_as_in_jsonl_and_in_order(name: str, tmp_path: Path) -> None:
    merge(case_named(name) / "cluster.yaml", tmp_path)
    rows = [plain(row) for row in binlog_merge.changes(tmp_path).read_all().to_pylist()]
    places = [(row["file"], row["position"], row["row"]) for row in rows]
    assert places == sorted(places) and len(set(places)) == len(places) > 0
    tables = sorted({(row["schema"], row["table"]) for row in rows})
    lines = [
        said(line)
        for schema, table in tables
        for line in command_line(["changes", tmp_path, "--table", f"`{schema}`.`{table.replace('`', '``')}`",
                                  "-o", "jsonl"]).stdout.splitlines()
    ]  # fmt: skip
    assert rows == sorted(lines, key=lambda line: (line["file"], line["position"], line["row"]))


def test_some_tables_and_columns_are_asked_for(tmp_path: Path) -> None:
    merge(case_named("all-types") / "cluster.yaml", tmp_path)
    every = binlog_merge.changes(tmp_path, fields=["table", "op", "after"]).read_all().to_pylist()
    some = binlog_merge.changes(tmp_path, "types.i*,reals", op="update", fields=["op", "table"]).read_all()
    assert some.to_pylist() == [
        {"op": row["op"], "table": row["table"]}
        for row in every
        if row["table"] in ("ints", "reals") and row["op"] == "update"
    ]
    with pytest.raises(ConfigError, match="where is for one table"):
        binlog_merge.changes(tmp_path, where="id = 1")
    with pytest.raises(UnknownTable, match=r"no table types\.x\*; it has types\."):
        binlog_merge.changes(tmp_path, "types.ints,types.x*")
