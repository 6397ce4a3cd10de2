"""What a status says of outputs that were really merged, whole and held back, and of what is missing or damaged."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.cli.status_text import lines_of
from binlog_merge.errors import MergeError
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.files.state_notes import CAPTURE_NOTE, MERGE_NOTE, NOTES_FOLDER, STALE_SECONDS, write_state_note
from binlog_merge.observe.status.health import Limits, merge_problems
from binlog_merge.observe.status.metrics import exposition
from binlog_merge.observe.status.values import FilePosition
from tests.effort import effort
from tests.merge_e2e.growth import GrowingNode
from tests.merge_e2e.local import merge, state_of
from tests.observe.status.looking import Cluster, codes, fresh, merged

CASE, HELD = "three-nodes-online-ddl", "three-nodes-commit-order"


def test_a_whole_output_is_healthy_and_complete(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    status, state = cluster.look(), state_of(cluster.out)
    assert status.healthy and not status.problems and not status.warnings
    found = status.merged
    assert found is not None and state.last is not None and state.open_file is not None
    assert (found.transactions, found.run, found.totals) == (state.rank, 1, state.last.totals)
    assert found.end == FilePosition(state.open_file.name, state.open_file.size)
    assert found.end_of_input and found.watermark is None and status.lag_seconds is None
    assert (found.last_key, found.output_bytes) == (state.last.last_key, state.open_file.size)
    for name, node in status.nodes.items():
        known = state.last.nodes[name]
        assert node.read == FilePosition(known.scan_end_file, known.scan_end_position)
        path = tmp_path / "case" / "nodes" / name / known.scan_end_file
        assert node.captured == FilePosition(path.name, path.stat().st_size)
        assert node.captured_at == path.stat().st_mtime
        assert node.unread_bytes == path.stat().st_size - known.scan_end_position
        assert node.watermark is not None and node.watermark.time is not None and node.watermark.lag_seconds is not None
        assert abs(node.watermark.time + node.watermark.lag_seconds - status.at) < 0.001
        assert node.holds_back == "" and node.open_branches == 0 and node.needed_from == known.checkpoint["file"]


def test_the_last_ddl_stands_where_the_output_has_it(tmp_path: Path) -> None:
    ddl = merged(CASE, tmp_path).look().last_ddl
    assert ddl is not None and ddl.sql.startswith("ALTER TABLE orders MODIFY COLUMN quantity BIGINT")
    state = state_of(tmp_path / "out")
    assert ddl.file == state.files[-1].name and state.files[-1].first_key <= ddl.key <= state.files[-1].last_key


def test_a_run_without_ddl_keeps_the_last_ddl_that_is_known(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    before = cluster.look().last_ddl
    merge(cluster.path, cluster.out)
    assert before is not None and cluster.look().last_ddl == before


def test_what_is_held_back_is_an_error_only_when_it_is_late(tmp_path: Path) -> None:
    cluster = merged(HELD, tmp_path, end_of_input=False)
    late, patient = cluster.look(), cluster.look(lag_seconds=1e12)
    assert codes(late) == {"watermark-late"} and not late.healthy
    assert patient.healthy and not patient.problems
    found = late.merged
    assert found is not None and found.held > 0 and found.watermark is not None and not found.end_of_input
    holders = {name for name, node in late.nodes.items() if node.holds_back}
    keys = {name: node.watermark.key for name, node in late.nodes.items() if node.watermark is not None}
    assert holders == {name for name in keys if keys[name] == min(keys.values())}
    assert all(name in late.reasons[0].text for name in holders)
    assert late.lag_seconds is not None and late.lag_seconds == found.watermark.lag_seconds
    for node in late.nodes.values():
        assert node.merged is not None and node.watermark is not None and node.watermark.time is not None
        assert node.merged <= node.watermark.time


def test_a_node_that_has_shown_no_tso_is_named_with_the_reason(tmp_path: Path) -> None:
    status = merged("idle-node", tmp_path, end_of_input=False).look()
    holding = {name: node.holds_back for name, node in status.nodes.items() if node.holds_back}
    ends = {"dn-2": 914, "dn-3": 158}
    expected = {name: f"it has shown no commit TSO yet, read to binlog.000001:{end}" for name, end in ends.items()}
    assert holding == expected
    assert codes(status) == {"no-watermark"}


def test_the_node_that_holds_back_is_named_with_the_reason(tmp_path: Path) -> None:
    expected = {
        "equal-tso": ("dn-1", "idle since commit TSO "),
        "half-committed": ("dn-2", "idle since commit TSO .*; 1 branch is prepared, and neither committed nor rolled"),
    }
    for case, (node, why) in expected.items():
        status = merged(case, tmp_path / case, end_of_input=False).look()
        assert [name for name, found in status.nodes.items() if found.holds_back] == [node]
        assert re.match(why, status.nodes[node].holds_back)


def test_a_marker_that_has_not_come_is_no_nodes_fault(tmp_path: Path) -> None:
    """The nodes have run DDL and gone on, and the marker is still to come: the merge stays before the DDL."""
    cluster = fresh(CASE, tmp_path)
    for home in sorted((tmp_path / "case" / "nodes").iterdir()):
        node = GrowingNode.of(home)
        node.grow((len(node.files) - 1, int(0.3 * len(node.files[-1][1]))), anywhere=True)
    merge(cluster.path, cluster.out, end_of_input=False)
    status = cluster.look()
    assert not [name for name, node in status.nodes.items() if node.holds_back]
    assert "no node holds back: a marker or a statement does" in status.reasons[0].text
    assert any("no marker has ever been seen" in warning for warning in status.warnings)


def test_branches_that_are_prepared_are_listed_with_their_places(tmp_path: Path) -> None:
    status = merged("in-doubt", tmp_path, end_of_input=False).look()
    assert status.open_branches_count == len(status.open_branches) > 0
    assert status.open_branches_count == sum(node.open_branches for node in status.nodes.values())
    for branch in status.open_branches:
        path = tmp_path / "case" / "nodes" / branch.node / branch.file
        assert 4 < branch.position < path.stat().st_size


def test_bytes_that_came_after_the_run_are_not_read(tmp_path: Path) -> None:
    cluster = fresh("two-nodes", tmp_path)
    home = sorted((tmp_path / "case" / "nodes").iterdir())[0]
    node = GrowingNode.of(home)
    places = node.places(anywhere=False)
    node.grow(places[len(places) // 2], anywhere=False)
    merge(cluster.path, cluster.out, end_of_input=False)
    assert "merge-late" not in codes(cluster.look(lag_seconds=0))
    node.grow(places[-1], anywhere=False)
    path = home / node.files[places[-1][0]][0]
    now = cluster.look().at
    os.utime(path, (now + 1, now + 1))
    status = cluster.look(lag_seconds=0)
    found = status.nodes[home.name]
    assert found.read is not None and found.unread_bytes > 0 and "merge-late" in codes(status)
    assert status.merged is not None
    nothing_yet = replace(status.merged, files=0)
    for one, last in ((status.merged, "the last one ended"), (nothing_yet, "none has brought anything yet")):
        problems = merge_problems(one, status.nodes, None, status.at, Limits(0))
        (late,) = (problem.text for problem in problems if problem.code == "merge-late")
        assert late.startswith("the merge is late: ") and last in late
    if found.holds_back:
        assert "captured and not merged yet" in found.holds_back
    merge(cluster.path, cluster.out)
    assert cluster.look().nodes[home.name].unread_bytes < found.unread_bytes


def test_an_output_of_two_runs_has_a_rate(tmp_path: Path) -> None:
    cluster = fresh(HELD, tmp_path)
    observer = cluster.observer()
    assert observer.look().rates is None
    merge(cluster.path, cluster.out, end_of_input=False)
    first = observer.look()
    note = json.loads((cluster.out / NOTES_FOLDER / MERGE_NOTE).read_bytes())
    note["samples"][0][0] -= 10  # as if that run had been ten seconds ago
    (cluster.out / NOTES_FOLDER / MERGE_NOTE).write_text(json.dumps(note))
    merge(cluster.path, cluster.out)
    rates = cluster.look().rates
    assert first.merged is not None and rates is not None
    grown = state_of(cluster.out).rank - first.merged.transactions
    assert grown > 0 and round(rates.transactions * rates.seconds) == grown
    assert rates.bytes > 0


# What is missing or damaged


def test_before_the_first_merge(tmp_path: Path) -> None:
    cluster = fresh("two-nodes", tmp_path)
    status = cluster.look()
    assert codes(status) == {"no-output"} and status.merged is None and not status.healthy
    assert all(node.files and node.read is None and node.unread_bytes > 0 for node in status.nodes.values())
    cluster.out.mkdir()
    assert codes(cluster.look()) == {"no-output"}
    shutil.rmtree(cluster.out)
    cluster.out.write_text("a file")
    assert "no-output" in codes(cluster.look())


def test_a_damaged_manifest_leaves_what_was_known(tmp_path: Path) -> None:
    cluster = merged("two-nodes", tmp_path)
    observer = cluster.observer()
    before = observer.look().merged
    path = cluster.out / MANIFEST_NAME
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"X" + whole[101:] + b"{}\n")
    status = observer.look()
    assert codes(status) == {"manifest-unreadable"} and str(path) in status.reasons[0].text
    assert before is not None and status.merged is not None and status.merged.transactions == before.transactions
    assert cluster.look().merged is None
    path.write_bytes(whole)
    assert observer.look().healthy


def test_an_output_that_is_made_anew_is_seen(tmp_path: Path) -> None:
    cluster = merged(HELD, tmp_path)
    observer = cluster.observer(lag_seconds=1e12)
    whole = observer.look().merged
    shutil.rmtree(cluster.out)
    assert codes(observer.look()) == {"no-output"}
    merge(cluster.path, cluster.out, end_of_input=False)
    status = observer.look()
    assert status.healthy and whole is not None and status.merged is not None
    assert status.merged.transactions < whole.transactions


def test_a_merge_that_stopped_says_why(tmp_path: Path) -> None:
    cluster = merged("two-nodes", tmp_path)
    home = sorted((tmp_path / "case" / "nodes").iterdir())[0]
    files = sorted(home.glob("binlog.0*"))
    files[-1].write_bytes(files[-1].read_bytes()[:-60] + bytes(60))
    with pytest.raises(MergeError) as stopped:
        merge(cluster.path, cluster.out)
    status = cluster.look()
    assert "merge-stopped" in codes(status) and not status.healthy
    assert stopped.value.message in status.reasons[0].text and stopped.value.code in status.reasons[0].text


def test_a_node_without_files_is_named(tmp_path: Path) -> None:
    cluster = merged("two-nodes", tmp_path)
    home = sorted((tmp_path / "case" / "nodes").iterdir())[0]
    shutil.rmtree(home)
    status = cluster.look()
    assert codes(status) == {"node-without-files"} and status.nodes[home.name].captured is None
    home.mkdir()
    assert codes(cluster.look()) == {"node-without-files"}
    shutil.rmtree(home)
    home.write_text("no folder")
    assert "node-without-files" in codes(cluster.look())


def test_a_node_that_the_configuration_lacks_is_named(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    config = cluster.config
    fewer = config.model_copy(update={"nodes": config.nodes[1:]})
    observer = cluster.observer()
    observer.config = fewer
    found = [problem for problem in observer.look().problems if problem.code == "node-unknown"]
    assert [problem.node for problem in found] == [config.nodes[0].source_id]


# Notes


def test_an_output_without_a_note_is_shown_from_its_manifest(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    shutil.rmtree(cluster.out / NOTES_FOLDER)
    status = cluster.look()
    assert status.healthy and status.merged is not None and status.merged.transactions == 210
    assert all(node.watermark is None and node.read is not None for node in status.nodes.values())


def test_a_note_that_cannot_be_written_stops_no_merge(tmp_path: Path) -> None:
    cluster = fresh("two-nodes", tmp_path)
    cluster.out.mkdir()
    (cluster.out / NOTES_FOLDER).write_text("no folder")
    assert merge(cluster.path, cluster.out).transactions > 0
    assert cluster.look().healthy


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return merged("two-nodes", tmp_path_factory.mktemp("noted"), end_of_input=False)


@settings(max_examples=effort(75, 150))
@given(data=st.data())
def test_no_note_whatever_it_holds_ends_a_status(noted: Cluster, data: st.DataObject) -> None:
    """A value anywhere in a note is replaced by any other; the status is still JSON, and metrics are still there."""
    path = noted.out / NOTES_FOLDER / MERGE_NOTE
    whole = path.read_bytes()
    values: Any = json.loads(whole)
    holder, key = data.draw(st.sampled_from(list(_places(values))))
    holder[key] = data.draw(_ANY)
    try:
        path.write_text(json.dumps(values))
        status = noted.look(lag_seconds=1e12)
        assert status.merged is not None
        assert json.dumps(status.to_dict(), allow_nan=False)
        assert b"binlog_merge_transactions_total" in exposition(status, "")[0]
    finally:
        path.write_bytes(whole)


def _places(values: Any) -> Any:
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        yield values, key
        yield from _places(value)


@pytest.mark.parametrize("data", [b"", b"\0" * 80, b"[]", b"{}", b'{"version": 9, "at": 1}', b"{" * 100_000])
def test_a_damaged_note_is_a_warning(data: bytes, tmp_path: Path) -> None:
    cluster = merged("two-nodes", tmp_path)
    (cluster.out / NOTES_FOLDER / MERGE_NOTE).write_bytes(data)
    status = cluster.look()
    assert codes(status) == {"note-damaged"} and status.healthy


@pytest.mark.parametrize(
    ("state", "age", "expected"),
    [
        ("connected", 0, set()),
        ("connected", STALE_SECONDS + 1, {"capture-silent"}),
        ("lost", 0, {"capture-lost"}),
        ("full", 0, {"disk-full"}),
        ("complete", STALE_SECONDS + 1, set()),
        ("stopped", STALE_SECONDS + 1, {"capture-stopped"}),
        ("failed", STALE_SECONDS + 1, {"capture-failed"}),
    ],
)
def test_a_capture_says_how_it_is(state: str, age: float, expected: set[str], tmp_path: Path) -> None:
    cluster = merged("two-nodes", tmp_path)
    name = cluster.config.nodes[0].source_id
    folder = Path(cluster.config.capture.dir) / name
    folder.mkdir(parents=True)
    values = {"server": "mysql://c@10.0.0.1:3306", "state": state, "since": 5.0, "text": "why", "error": None}
    write_state_note(folder / CAPTURE_NOTE, values)
    note = json.loads((folder / CAPTURE_NOTE).read_bytes())
    (folder / CAPTURE_NOTE).write_text(json.dumps({**note, "at": note["at"] - age}))
    status = cluster.look()
    assert codes(status) == expected and status.healthy == (expected <= {"capture-lost"})
    assert (next(lines_of(status)) == "two-nodes: STOPPED") == (state == "stopped")
    capture = status.nodes[name].capture
    assert capture is not None and (capture.state, capture.text, capture.since) == (state, "why", 5.0)
