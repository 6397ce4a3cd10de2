"""Stops for one transaction's rows, found when they are written: other rows in their place, or none, and the merge goes
on.
"""

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.constants import DELETE_TYPES, ROWS_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.rows import RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.cli import main
from binlog_merge.errors import ConversionFailed
from binlog_merge.pipeline.base.group_at import group_at, transaction_events
from binlog_merge.pipeline.values import MergeResult
from binlog_merge.reshape.given_rows import Logging, events_of, read_rows
from binlog_merge.values.convert.text import text_of
from binlog_merge.values.value import decode_cell
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.names import LAST
from snapshot_store.store.db import Store
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.editing import ROWS, ROWS_QUERY, TABLE_MAP, Log
from tests.merge_e2e.local import HeldRunner, merge, written
from tests.merge_e2e.test_unconvertible import policy
from tests.pipeline.gather.test_giant import SIZES, shrink

CASE = case_named("reshape-clamp")
FITS = {"datetime": "2024-02-29", "date": "2024-02-29", "timestamp": "2024-02-29", "json": "1"}


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
            assert error.file and error.position
            decide(name, error)
            names.append(name)


def given_rows(out: Path, error: ConversionFailed, ones: set[str]) -> list[dict[str, Any]]:
    """Return the rows of the transaction that stopped the merge, with 1 in some columns and NULL wherever it may be."""
    group = group_at(error.file or "", error.position or 0)
    assert group is not None and group.start == error.position
    maps, rows = dict[int, TableMap](), []
    for event in transaction_events(group.data, group.checksum):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            maps[table_map.table_id] = table_map
        elif event.type_code in ROWS_TYPES:
            code = event.type_code
            found = RowsEvent.parse(code, event.body)
            table_map = maps[found.table_id]
            columns = definition(out, error, (table_map.schema, table_map.table)).columns
            op = "insert" if code in WRITE_TYPES else "delete" if code in DELETE_TYPES else "update"
            for sides in split_rows(found, table_map):
                row: dict[str, Any] = {"schema": table_map.schema, "table": table_map.table, "op": op}
                for side, image in zip(("before", "after"), sides, strict=True):
                    cells = zip(columns, image or (), strict=image is not None)
                    values = {c.name: shown(c.type, cell) for c, cell in cells if not c.nullable}
                    values |= {
                        c.name: FITS.get(c.type.name, 1) if c.name in ones else None for c in columns if c.nullable
                    }
                    row[side] = values if image is not None else None
                rows.append(row)
    return rows


def definition(out: Path, error: ConversionFailed, name: tuple[str, str]) -> Table:
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        (version,) = store.lookup([(*name, LAST, error.node)])
    assert version is not None and version.table is not None
    return version.table


def not_null(out: Path) -> set[str]:
    """Return the columns that are NOT NULL in a logical table."""
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        tables = [v.table for v in store.load_history().versions if v.node is None and v.table is not None]
    return {c.name for table in tables for c in table.columns if not c.nullable}


def shown(kind: ColumnType, cell: Any) -> Any:
    if cell is None:
        return None
    value = decode_cell(kind, bytes(cell))
    if kind.name in ("bit", "year"):
        return value
    return f"0x{value.hex()}" if isinstance(value, bytes) else text_of(kind, value)


def edited(error: ConversionFailed, events: list[tuple[int, bytes]]) -> None:
    """Put events in the place of a transaction's rows, in the node's file: as if the node had logged them."""
    path = Path(error.file or "")
    log = Log.load(path)
    first, behind = next((f, b) for f, b in log.groups() if log.events[f].at >= (error.position or 0))
    rows = [i for i in range(first, behind) if log.events[i].type in (TABLE_MAP, ROWS_QUERY, *ROWS)]
    like = log.events[rows[0]]
    made = [replace(like, type=kind, body=body, flags=0) for kind, body in events]
    log.inserted(rows[0], *made).without(*(i + len(made) for i in rows)).with_transaction_lengths().save(path)


def test_rows_that_fit_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = copy_case(CASE, tmp_path / "case", policy("error"))
    out, file = tmp_path / "out", tmp_path / "rows.json"
    stops, given, ones = dict[str, ConversionFailed](), dict[str, str](), set[str]()

    def give(name: str, error: ConversionFailed) -> None:
        if not stops:
            ones.update(not_null(out) - {"c61"})
        if name in stops:  # also what is given has to fit
            (column,) = re.findall(r"column (\w+), \w+ to \w+: NULL", error.message)
            ones.add(column)
            decided(out, name, "--withdraw")
        stops[name] = error
        given[name] = json.dumps(given_rows(out, error, ones))
        file.write_text(given[name])
        decided(out, name, "--as", str(file))

    assert len(to_the_end(config, out, give, partitions=4)) > len(stops) > 1
    result = anew(tmp_path, config, out)
    (kind,) = (each for each in result.ignored["statements"] if each["kind"] == "transaction")
    assert kind["count"] == len(stops) and "ddl resolve --as" in kind["why"]
    with monkeypatch.context() as streamed:
        shrink(streamed, *SIZES[0])  # no transaction fits a window
        anew(tmp_path, config, out)
    for name, error in sorted(stops.items(), key=lambda stop: -(stop[1].position or 0)):
        group = group_at(error.file or "", error.position or 0)
        assert group is not None
        logging = Logging.like(group.table_map, group.rows_flags, group.server_version)
        edited(error, list(events_of(read_rows(given[name]), partial(definition, out, error), logging)))
    merge(config, tmp_path / "edited")
    assert written(tmp_path / "edited") == written(out)


def test_without_its_rows_a_transaction_keeps_its_place(tmp_path: Path) -> None:
    config = copy_case(CASE, tmp_path / "case", policy("error"))
    out, stops = tmp_path / "out", dict[str, ConversionFailed]()

    def skip(name: str, error: ConversionFailed) -> None:
        stops[name] = error
        decided(out, name, "--skip")

    assert len(to_the_end(config, out, skip)) == len(stops) > 1
    result = anew(tmp_path, config, out)
    (kind,) = (each for each in result.ignored["statements"] if each["kind"] == "transaction")
    assert kind["count"] == len(stops) and "left out, as `ddl resolve --skip` says" in kind["why"]
    assert {first["sql"] for first in kind["first"]} <= set(stops)
    assert main.run(["ddl", "resolve", next(iter(stops)), "--withdraw", "--merged", str(out)]) == 38
    for error in sorted(stops.values(), key=lambda stop: -(stop.position or 0)):
        edited(error, [])
    merge(config, tmp_path / "edited")
    assert written(tmp_path / "edited") == written(out)


def anew(folder: Path, config: Path, out: Path) -> MergeResult:
    """Merge everything with what is decided, by tasks that share nothing, and assert that it comes to the same."""
    shutil.rmtree(folder / "anew", ignore_errors=True)
    (folder / "anew").mkdir()
    shutil.copyfile(out / "schema.duckdb", folder / "anew" / "schema.duckdb")
    result = merge(config, folder / "anew", runner=HeldRunner(), partitions=3)
    assert written(folder / "anew") == written(out)
    return result
