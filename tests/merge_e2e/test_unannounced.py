"""Markers that never come: a cluster without any, and one whose coordinator forgot one, in one run and in many."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.errors import UnannouncedDdl
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.editing import TABLE_MAP, WRITE_ROWS, Log, assert_prefix
from tests.merge_e2e.growth import merge_growing
from tests.merge_e2e.local import merge, state_of, written

CASE = case_named("three-nodes-online-ddl")


def forgetting(folder: Path, *statements: bytes) -> Path:
    """Copy a case in which rows of the marker table with one of these texts go into another table."""
    path = copy_case(CASE, folder)
    for file in sorted((folder / "nodes").glob("*/binlog.0*")):
        log = Log.load(file)
        for index, event in enumerate(log.events):
            if event.type == WRITE_ROWS and any(text in event.body for text in statements):
                named = log.events[index - 1]
                assert named.type == TABLE_MAP and b"__cdc_ddl_record__" in named.body
                body = named.body.replace(b"__cdc_ddl_record__", b"__cdc_ddl_secret__")
                log = log.changed(index - 1, replace(named, body=body))
        log.save(file)
    path.write_text(path.read_text() + "reshape: {on-unconvertible: clamp}\n")
    return path


def test_a_marker_that_was_forgotten(tmp_path: Path) -> None:
    path = forgetting(tmp_path / "case", b"MODIFY COLUMN quantity")
    result = merge(path, tmp_path / "out")
    [told] = [w for w in result.warnings if "no marker tells" in w]
    assert told.startswith("shop.orders: ") and "MODIFY COLUMN quantity BIGINT" in told and "(and 8 more)" in told
    assert "column quantity comes out in its old type" in told
    assert "set shard-mode" in told and "schema set shop.orders" in told and "dn-" in told
    assert result.ddl == 1
    merge_growing(path, tmp_path / "grown", written(tmp_path / "out"), 6, random.Random(3))


def test_the_run_that_sees_it_says_it(tmp_path: Path) -> None:
    path = forgetting(tmp_path / "case", b"MODIFY COLUMN quantity")
    result = merge(path, tmp_path / "out", end_of_input=False)
    assert [w for w in result.warnings if "no marker tells" in w]  # all nine tables have changed alike
    assert state_of(tmp_path / "out").last.state["unannounced"]
    again = merge(path, tmp_path / "out")
    assert [w for w in again.warnings if "no marker tells" in w]
    path.write_text(path.read_text().replace("markers:\n", "markers:\n  overdue: 10h\n"))
    quiet = merge(path, tmp_path / "quiet", end_of_input=False)
    assert not [w for w in quiet.warnings if "no marker tells" in w]
    assert [w for w in merge(path, tmp_path / "quiet").warnings if "no marker tells" in w]
    assert written(tmp_path / "quiet") == written(tmp_path / "out")


def test_a_warning_is_taken_back_once_the_marker_has_come(tmp_path: Path) -> None:
    """All nine tables have changed, and a node has not written the marker yet: the run that sees it takes it back."""
    path = copy_case(CASE, tmp_path / "case")
    files = {file: file.read_bytes() for file in (tmp_path / "case" / "nodes" / "dn-3").glob("binlog.0*")}
    for file, data in files.items():
        log = Log.load(data)
        shown = [i for i, e in enumerate(log.events) if e.type == WRITE_ROWS and b"MODIFY COLUMN quantity" in e.body]
        for first, behind in log.groups():
            if any(first < each < behind for each in shown):
                file.write_bytes(data[: log.events[first].at])
    before = merge(path, tmp_path / "out", end_of_input=False).warnings
    assert len(before) == 1 and "no marker tells of" in before[0] and "MODIFY COLUMN quantity" in before[0]
    assert merge(path, tmp_path / "out", end_of_input=False).warnings == before
    for file, data in files.items():
        file.write_bytes(data)
    (told,) = merge(path, tmp_path / "out", end_of_input=False).warnings
    assert told.startswith("shop.orders: the warning that no marker tells of ") and "holds no longer" in told
    assert "MODIFY COLUMN quantity" in told and "(and 8 more)" in told
    assert not merge(path, tmp_path / "out").warnings
    assert written(tmp_path / "out") == whole(CASE / "cluster.yaml")


def test_a_marker_on_its_way_is_not_missed(tmp_path: Path) -> None:
    assert not merge(CASE / "cluster.yaml", tmp_path / "whole").warnings


@pytest.mark.parametrize("missing", ["error", "warn"])
def test_no_marker_at_all(missing: str, tmp_path: Path) -> None:
    path = forgetting(tmp_path / "case", b"ADD COLUMN note", b"MODIFY COLUMN quantity")
    if missing == "warn":
        path.write_text(path.read_text().replace("markers:\n", "markers:\n  missing: warn\n"))
        warnings = merge(path, tmp_path / "out").warnings
        assert len(warnings) == 2 and "column note is left out of every row" in warnings[0]
        return
    with pytest.raises(UnannouncedDdl) as raised:
        merge(path, tmp_path / "out")
    error = raised.value
    assert "column note is left out of every row" in error.message and "shop.orders" in error.message
    assert "shard-mode" in error.remedy and "missing: warn" in error.remedy
    assert error.result.transactions > 0
    assert_prefix(written(tmp_path / "out"), whole(CASE / "cluster.yaml"))
    assert state_of(tmp_path / "out").last.state["floor"] == error.order_key
    path.write_text(path.read_text().replace("markers:\n", "markers:\n  missing: warn\n"))
    merge(path, tmp_path / "out")
    merge(path, tmp_path / "warned")
    assert written(tmp_path / "out") == written(tmp_path / "warned")
