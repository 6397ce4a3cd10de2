"""What a run reads: every byte of every file in one piece, from where the run before ended."""

from dataclasses import replace
from itertools import groupby, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import MissingFile, WrongNode
from binlog_merge.files.manifest import Header, ManifestState, NodeState, Publish
from binlog_merge.files.node_file import Discovery
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.logged import Logged
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.scan.inputs import (
    BUNDLE_BYTES,
    BUNDLES_A_SLOT,
    GREATEST_BUNDLE,
    bundles,
    node_inputs,
    nothing_is_missing,
    scan_tasks,
)
from binlog_merge.pipeline.scan.task import FEWEST_QUANTILES, QUANTILES, _quantiles
from tests.pipeline.coordinate.test_coordinating import config_of
from tests.pipeline.logs import node_file, node_input, scan, words
from tests.simulator import wire

SID = bytes(16)


@given(st.lists(st.integers(100, 500), min_size=1, max_size=4), st.none() | st.integers(1, 9), st.data())
def test_every_byte_is_in_one_piece(sizes: list[int], partitions: int | None, data: st.DataObject) -> None:
    files = tuple(node_file(i, size) for i, size in enumerate(sizes))
    first = data.draw(st.integers(0, len(sizes) - 1))
    node = replace(node_input(), files=files, first=first)
    whole = frozenset(data.draw(st.sets(st.sampled_from([f.path for f in files]))))
    tasks = scan_tasks([node, replace(node, source_id="b")], config_of(), "commit-table", "/work", partitions, whole)
    assert [task.piece for task in tasks] == list(range(len(tasks)))
    assert len({task.block.path for task in tasks}) == len(tasks)
    by_file = [(key, list(found)) for key, found in groupby(tasks, lambda task: (task.node, task.file_index))]
    assert [key for key, _ in by_file] == [(name, i) for name in "ab" for i in range(first, len(sizes))]
    for (_, index), found in by_file:
        assert found[0].start == 4 and found[-1].stop >= sizes[index]
        assert all(a.stop == b.start for a, b in pairwise(found))
        assert len(found) == 1 or found[0].file.path not in whole


def test_what_an_earlier_run_has_seen_is_not_new() -> None:
    node = replace(node_input("L / L / L"), seen=(1, 70))
    seen = [task.seen for task in scan_tasks([node], config_of(), "commit-table", "", None, frozenset())]
    assert seen[1:] == [70, -1] and seen[0] > 1 << 60
    assert scan_tasks([replace(node, seen=None)], config_of(), "commit-table", "", None, frozenset())[0].seen == -1


def state_after(file: int, end_file: int, end: int) -> ManifestState:
    """Return the state of an output whose last run ended here, and goes on in `file`."""
    names = [node_file(i).name for i in range(9)]
    checkpoint = {
        "file": names[file], "identity": names[file], "end_identity": names[end_file], "carry": Carry(7).to_dict(names),
    }  # fmt: skip
    record = Publish(1, (), None, None, 0, {}, {"a": NodeState(names[end_file], end, checkpoint)})
    header: Any = Header("", "", {}, "", "", {})
    return ManifestState(header, record)


def inputs(state: ManifestState, *files: Any) -> NodeInput:
    return node_inputs(Discovery({"a": files, "b": (node_file(0),)}, ()), {"a": 2, "b": 1}, state)[1]


def test_a_run_goes_on_where_the_one_before_ended() -> None:
    files = [node_file(i, 100) for i in range(4)]
    fresh = inputs(ManifestState(), *files)
    assert (fresh.source_id, fresh.first, fresh.seen, fresh.carry) == ("a", 0, None, Carry())
    later = inputs(state_after(1, 2, 60), *files[1:])
    assert (later.first, later.seen, later.carry) == (0, (1, 60), Carry(7)), "files before it may be gone"
    assert inputs(state_after(1, 2, 100), *files).first == 1


def test_files_that_are_not_those_of_the_run_before() -> None:
    state, files = state_after(1, 2, 60), [node_file(i, 100) for i in range(4)]
    with pytest.raises(MissingFile, match="000002 is gone"):
        inputs(state, *files[2:])
    with pytest.raises(MissingFile, match="000003 is gone"):
        inputs(state, *files[:2])
    for index in (1, 2):
        with pytest.raises(WrongNode, match="not the file"):
            inputs(state, *files[:index], replace(files[index], identity="another"), *files[index + 1 :])
    with pytest.raises(WrongNode, match="shorter"):
        inputs(state, *files[:2], replace(files[2], size=59))


def quantiles(tso: Any, weight: Any) -> list[tuple[int, int]]:
    """Return the quantiles of rows with TSOs and sizes in bytes."""
    return _quantiles(np.stack([tso, np.zeros_like(weight), weight], axis=1), 0, 1, 2)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), max_size=600).map(sorted))
def test_quantiles_weigh_what_the_piece_weighs(found: list[tuple[int, int]]) -> None:
    tso, weight = (np.array([pair[i] for pair in found], np.int64) for i in (0, 1))
    points = quantiles(tso, weight)
    assert len(points) <= QUANTILES and [tso for tso, _ in points] == sorted(tso for tso, _ in points)
    reached = 0
    for at, bytes_ in points:  # up to each point there are at least as many bytes with TSOs as great, and no more
        reached += bytes_
        assert sum(w for t, w in found if t < at) < reached <= sum(w for t, w in found if t <= at)
    assert reached == sum(weight)


def test_the_driver_gets_few_quantiles_of_small_pieces() -> None:
    tso = np.arange(100_000)
    for size, expected in ((20_000_000, 19), (100_000, FEWEST_QUANTILES), (1 << 40, QUANTILES)):
        assert len(quantiles(tso, np.full(len(tso), size // len(tso)))) == expected


@pytest.mark.parametrize("slots", [1, 2, 100])
@pytest.mark.parametrize("size", [50_000, 3_000_000, 200_000_000])
def test_small_pieces_are_scanned_together(slots: int, size: int) -> None:
    tasks: list[Any] = [SimpleNamespace(length=size, number=number) for number in range(500)]
    found = bundles(tasks, slots)
    assert [task for bundle in found for task in bundle] == tasks
    assert all(sum(task.length for task in bundle) <= GREATEST_BUNDLE for bundle in found if len(bundle) > 1)
    total = size * len(tasks)
    if size < BUNDLE_BYTES:
        assert len(found) <= 2 * (slots * BUNDLES_A_SLOT + total // GREATEST_BUNDLE) + 1, "few tasks, for many files"
    if total > slots * BUNDLE_BYTES:
        assert len(found) >= slots, "each slot has one"


def executed(*numbers: int) -> bytes:
    return wire.previous_gtids({(SID, ""): numbers})


def logged(*numbers: int, **values: Any) -> Logged:
    return Logged(gtids=GtidSet.of((SID, "", n, n + 1) for n in numbers), **values)


NOTHING = GtidSet()


def test_gtids_tell_a_crash_from_a_copy_that_was_cut() -> None:
    def whole(first: bytes | None, then: bytes | None, *found: Logged, skipped: GtidSet | None = NOTHING) -> bool:
        files = [node_file(0, previous_gtids=first), node_file(1, previous_gtids=then)]
        piece = scan(words("L")[0][0])[0]
        return nothing_is_missing(files, [replace(piece, logged=one) for one in found], 0, skipped)

    assert whole(executed(1), executed(1, 2, 3), logged(2), logged(3))
    assert not whole(executed(1), executed(1, 2, 3), logged(2))
    assert not whole(executed(1), executed(1, 2), logged(2), logged(3)), "the next file must have executed it"
    assert whole(executed(1), executed(1, 2, 3), logged(3), skipped=logged(2).gtids)
    assert not whole(executed(1), executed(1, 2), logged(2), skipped=None)
    assert not whole(None, executed(2), logged(2)) and not whole(executed(1), None, logged(2))
    assert not whole(executed(1), executed(1, 2), logged(2, without=1))
    assert not whole(executed(1), executed(1, 2), logged(2, scattered=True))
    assert not whole(executed(), executed()), "two empty sets say nothing"


def test_what_no_list_names_may_stand_in_an_earlier_file() -> None:
    """What is committing while a file is begun is not in its PREVIOUS_GTIDS; after a crash in none that follow."""

    def whole(then: bytes, *found: tuple[int, int]) -> bool:
        files = [node_file(i, previous_gtids=executed(1)) for i in (0, 1)] + [node_file(2, previous_gtids=then)]
        piece = scan(words("L")[0][0])[0]
        pieces = [replace(piece, file_index=index, logged=logged(number)) for index, number in found]
        return nothing_is_missing(files, pieces, 1, NOTHING)

    assert whole(executed(1, 3), (0, 2), (1, 3))
    assert not whole(executed(1, 3, 4), (0, 2), (1, 3)), "the file was cut"
    assert not whole(executed(1, 2), (0, 2), (1, 3)), "the next file must have executed what is in this one"
