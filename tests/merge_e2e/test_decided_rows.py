"""Stops for one transaction's rows, found when they are written: other rows in their place, or none, and the merge goes
on.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import DELETE_TYPES, ROWS_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.rows import RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.cli import main
from binlog_merge.errors import ConversionFailed
from binlog_merge.pipeline.base.group_at import group_at
from binlog_merge.pipeline.base.transaction_events import transaction_events
from binlog_merge.values.convert.text import text_of
from binlog_merge.values.value import decode_cell
from snapshot_store.names import LAST
from snapshot_store.store.db import Store
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.local import HeldRunner, merge, written
from tests.merge_e2e.test_unconvertible import policy

CASE = case_named("reshape-clamp")
TINY = (-128, 127)


def decided(out: Path, *arguments: str) -> None:
    assert main.run(["ddl", "resolve", *arguments, "--merged", str(out)]) == 0


def to_the_end(config: Path, out: Path, decide: Any, **options: Any) -> list[str]:
    """Merge until nothing stops it, deciding about each transaction that does; returns their names."""
    names = list[str]()
    while True:
        try:
            merge(config, out, **options)
            return names
        except ConversionFailed as error:
            (name,) = re.findall(r"ddl resolve (\S+) --skip", error.remedy or "")
            assert name not in names and error.file and error.position
            decide(name, error)
            names.append(name)


def clamped(out: Path, error: ConversionFailed) -> list[dict[str, Any]]:
    """Return the rows of the transaction that stopped the merge, its numbers within those of a TINYINT."""
    group = group_at(error.file or "", error.position or 0)
    assert group is not None and group.start == error.position
    maps, rows = dict[int, TableMap](), []
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        for event in transaction_events(group.data, group.checksum):
            if event.type_code == EventType.TABLE_MAP_EVENT:
                table_map = TableMap.parse(event.body)
                maps[table_map.table_id] = table_map
            elif event.type_code in ROWS_TYPES:
                found = RowsEvent.parse(event.type_code, event.body)
                table_map = maps[found.table_id]
                (version,) = store.lookup([(table_map.schema, table_map.table, LAST, error.node)])
                assert version is not None and version.table is not None
                op = (
                    "insert"
                    if event.type_code in WRITE_TYPES
                    else "delete"
                    if event.type_code in DELETE_TYPES
                    else "update"
                )
                for sides in split_rows(found, table_map):
                    row: dict[str, Any] = {"schema": table_map.schema, "table": table_map.table, "op": op}
                    for side, image in zip(("before", "after"), sides, strict=True):
                        cells = zip(version.table.columns, image or (), strict=image is not None)
                        row[side] = {c.name: shown(c.type, cell) for c, cell in cells} if image is not None else None
                    rows.append(row)
    return rows


def shown(kind: Any, cell: Any) -> Any:
    if cell is None:
        return None
    value = decode_cell(kind, bytes(cell))
    if kind.name == "int" and isinstance(value, int):
        return min(max(value, TINY[0]), TINY[1])
    return f"0x{value.hex()}" if isinstance(value, bytes) else text_of(kind, value)


def test_rows_that_fit_are_given(tmp_path: Path) -> None:
    config = copy_case(CASE, tmp_path / "case", policy("error"))
    out, file = tmp_path / "out", tmp_path / "rows.json"

    def give(name: str, error: ConversionFailed) -> None:
        file.write_text(json.dumps(clamped(out, error)))
        decided(out, name, "--as", str(file))

    names = to_the_end(config, out, give)
    assert names
    # What is given is what `clamp` makes of them.
    assert written(out) == whole(CASE / "cluster.yaml")


@pytest.mark.parametrize("partitions", [1, 4])
def test_without_its_rows_a_transaction_keeps_its_place(tmp_path: Path, partitions: int) -> None:
    config = copy_case(CASE, tmp_path / "case", policy("error"))
    out = tmp_path / "out"
    names = to_the_end(config, out, lambda name, error: decided(out, name, "--skip"), partitions=partitions)
    assert names
    whole_log = written(out)
    for number, runner in enumerate((None, HeldRunner())):
        anew = tmp_path / f"anew-{number}"
        anew.mkdir()
        shutil.copyfile(out / "schema.duckdb", anew / "schema.duckdb")
        result = merge(config, anew, runner=runner)
        (kind,) = (each for each in result.ignored["statements"] if each["kind"] == "transaction")
        assert kind["count"] == len(names) and "left out, as `ddl resolve --skip` says" in kind["why"]
        assert {first["sql"] for first in kind["first"]} <= set(names)
        assert written(anew) == whole_log
    assert main.run(["ddl", "resolve", names[0], "--withdraw", "--merged", str(out)]) == 38
