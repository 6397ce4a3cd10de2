"""What nodes contradict each other in, and what is still open between them."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.config.sections import CommitTso
from binlog_merge.errors import MissingCommitTso
from binlog_merge.pipeline.assemble.checkpoints import MOST_KEPT, note_gtids
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.order_faults import (
    check_clocks,
    check_ordered,
    check_without_tso,
    clock_steps,
    split_transactions,
    tso_conflict,
)
from binlog_merge.pipeline.assemble.several_tsos import with_several_tsos
from binlog_merge.pipeline.assemble.sync_points import windows
from binlog_merge.pipeline.assemble.undecided import logged_elsewhere, undecided, with_rows
from binlog_merge.pipeline.assemble.values import Patch, local_keys
from binlog_merge.pipeline.base import pieces
from binlog_merge.pipeline.base.blocks import Held, holding
from binlog_merge.pipeline.base.branches import KeptBranch
from binlog_merge.pipeline.base.clock import Clocked, time_tso
from binlog_merge.pipeline.base.logged import Logged, NodeGtids
from binlog_merge.pipeline.base.state import Job
from binlog_merge.pipeline.scan.task import LOCAL_COLUMNS, ROW_COLUMNS, TIMED_COLUMNS
from binlog_merge.pipeline.scan.values import PieceBlock
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.logs import assembled, block_of, columns, node_input, scan, words

SID = bytes(16)


def conflict(*texts: str, unique: bool = True, floor: OrderKey = ORIGIN) -> tuple[str | None, ...] | None:
    """Return (node, order key) of the first transaction that would come out torn."""
    nodes = [assembled(text, number) for number, text in enumerate(texts, 1)]
    suspects = with_several_tsos(cast(Job, None), nodes)  # so few that no task is needed
    found = tso_conflict(nodes, suspects, unique, floor)
    return None if found is None else (found.node, found.order_key)


def test_a_transaction_with_two_commit_tsos_is_torn() -> None:
    at = {tso: OrderKey(tso, 1, 0, 0).text() for tso in (5, 6)}
    assert conflict("P1 C1=5", "P1 C1=5", "P2 C2=6") is None
    assert conflict("P1 C1=6", "P1 C1=5") == ("b", at[5]), "the least of its keys is where the merge stops"
    assert conflict("P1 | C1=6", "P1 C1=5") == ("b", at[5]), "branches that end in another piece count too"
    assert conflict("P1 C1=6", "P1 C1=5", floor=OrderKey(6, 0, 0, 0)) == ("b", at[6]), "what is out is out"
    assert conflict("P1 C1=6", "P1 C1=5", floor=OrderKey(7, 0, 0, 0)) is None
    assert conflict("P2 C2=3 P1 C1=6", "P1 C1=5 P2 C2=4") == ("a", OrderKey(3, 2, 0, 0).text())


def test_an_id_that_is_used_again_is_not_torn() -> None:
    again = "P1 C1=5 P1 C1=6"
    assert conflict(again, again, unique=False) is None
    assert conflict(again, again) is not None
    assert conflict("P1 C1=5", "P1 C1=6", unique=False) is not None


def test_transactions_without_any_order_between_nodes() -> None:
    check_without_tso({"a": [((1, 1), 4), ((1, 1), 14)], "b": [((2, 1), 4)]})
    with pytest.raises(MissingCommitTso) as raised:
        check_without_tso({"a": [((2, 1), 4)], "b": [((1, 1), 4), ((2, 1), 14)]})
    assert (raised.value.node, raised.value.position) == ("b", 14)
    check_ordered({"a": 0, "b": 7}, {"a": 3, "b": 3})
    check_ordered({"a": 0, "b": 0}, {"a": 3, "b": 0})
    with pytest.raises(MissingCommitTso, match="a, b"):
        check_ordered({"a": 0, "b": 0}, {"a": 1, "b": 1})
    assert not split_transactions({"a": [((1, 1), 4)], "b": [((2, 1), 4)]})
    assert "1 XA transactions on nodes a, b" in split_transactions({"a": [((1, 1), 4)], "b": [((1, 1), 4)]})[0]


def test_commit_rows_of_other_nodes_are_found_where_they_are_needed() -> None:
    logs = {"rows": "W1=5 P9 W9=8 C9", "needs": "P1 C1 | P9 C9=8", "rolls back": "P2 | R2"}
    pieces = {name: [scan(part) for part in words(text)[0]] for name, text in logs.items()}
    every: Any = [pair for found in pieces.values() for pair in found]
    told = logged_elsewhere(every, [{(2, 1): 7, (3, 1): 7}], polardbx=True)
    assert told == {(1, 1): 5}
    assert logged_elsewhere(every, [{(1, 1): 4}], polardbx=False) == {}
    assert logged_elsewhere(every[1:], [{(1, 1): 4}], polardbx=True) == {(1, 1): 4}, "from an earlier run"
    result = with_rows(pieces["needs"][0][0], told)
    assert result.commit_rows == ((1, 1, 5),)
    assert with_rows(result, told) is result and with_rows(every[0][0], told) is every[0][0]


def test_a_branch_waits_until_all_nodes_have_shown_what_came_behind_it() -> None:
    def by_number(node: ScannedNode) -> ScannedNode:
        for i, block in enumerate(node.blocks):
            kept = tuple(replace(branch, gtrid=(branch.gtrid[0], k.BY_NUMBER)) for branch in block.patch.kept)
            node.blocks[i] = replace(block, patch=replace(block.patch, kept=kept))
        return node

    waits = by_number(assembled("P1 C1=3 P2 C2 P3 C3=9"))
    for shown, found in (("P5 C5=8", {"a"}), ("P5 C5=9", set()), ("L", {"a"})):
        open_ = undecided([waits, assembled(shown, 2)])
        assert set(open_) == found
        if found:
            assert open_["a"] == (OrderKey(3, 1, 1, 1), frozenset({(2, k.BY_NUMBER)}))
    assert undecided([waits]) == {}, "nobody else could have the row"
    assert undecided([assembled("P1 C1=3 P2 C2"), assembled("L", 2)]) == {}, "no row can name it"


def test_windows_of_sync_points() -> None:
    def found(text: str) -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
        return [(window.start, window.end, window.greatest) for window in windows(assembled(text))]

    assert found("P1 C1=7 S2 P3 C3=9 C2=10") == [((0, 24), (0, 54), (7, 1))]
    assert found("P1 C1=7 | S2 | P3 C3=9 | C2=10") == [((1, 4 + 20), (3, 4 + 50), (7, 1))]
    assert found("S2 R2") == found("S2") == found("P2 C2=4") == []
    assert [end for _, end, _ in found("S1 S2 C1=5 C2=6")] == [(0, 14), (0, 24)], "one inside another ends it"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12), st.data())
def test_local_keys_follow_the_greatest_commit(own: list[tuple[int, int]], data: st.DataObject) -> None:
    own = [max(own[: i + 1]) for i in range(len(own))]  # what a piece has committed only grows
    index = st.integers(0, len(own))
    raised = data.draw(st.lists(st.tuples(index, st.integers(0, 4), st.integers(0, 2)), max_size=3).map(sorted))
    dropped = tuple(data.draw(st.frozensets(st.sampled_from(range(len(own))))) if own else ())
    came = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5)))
    table = columns(LOCAL_COLUMNS, [(0, 0, 0, 0, 0, *key) for key in own])
    keys = local_keys(table["max_tso"], table["max_transaction"], Patch(*came, tuple(raised), dropped))
    greatest, seq = came[:2], came[2]
    for i, key in enumerate(own):
        now = max(greatest, key, *(found[1:] for found in raised if found[0] <= i))
        greatest, seq = now, (seq if now == greatest else 0) + (i not in dropped)
        assert bool(keys.alive[i]) == (i not in dropped)
        if keys.alive[i]:
            assert (keys.tso[i], keys.transaction[i], keys.seq[i]) == (*greatest, seq)


@given(st.data())
def test_local_keys_of_some_pieces_are_those_of_the_block(data: st.DataObject) -> None:
    """A task that sorts the transactions between two TSOs has no more pieces of the block than it needs."""
    own = sorted(data.draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=20)))
    raises = st.tuples(st.integers(0, len(own)), st.integers(0, 8), st.integers(0, 2))
    dropped = tuple(data.draw(st.frozensets(st.sampled_from(range(len(own))))) if own else ())
    came = data.draw(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 5)))
    patch = Patch(*came, tuple(data.draw(st.lists(raises, max_size=3).map(sorted))), dropped)
    table = columns(LOCAL_COLUMNS, [(i, 0, 0, 0, 0, *key) for i, key in enumerate(own)])
    low = data.draw(st.integers(-1, 9))
    high = low + data.draw(st.integers(0, 9))
    with mock.patch.object(pieces, "PIECE_ROWS", data.draw(st.integers(1, 8))):
        cut = pieces.in_pieces(table)
    block = replace(assembled("L").blocks[0], patch=patch)
    part = block.local_between(low, high).part
    some = [cut[number] for number in pieces.needed([pieces.extent_of(piece) for piece in cut], part)]
    with holding(Held({"held:x.local.arrow": some})):
        first, found, keys = replace(block, scanned=PieceBlock("held:x")).local_part()
    whole = local_keys(table["max_tso"], table["max_transaction"], patch)
    assert len(some) == 1 or all(part.meets(pieces.extent_of(piece)) for piece in some)
    assert first == (int(found["start"][0]) if own else 0)
    at = [i for i in range(len(own)) if low <= whole.tso[i] < high]
    a, b = np.searchsorted(keys.tso, [low, high])
    assert (found["start"][a:b].tolist(), (first + np.arange(len(keys.tso))[a:b]).tolist()) == (at, at)
    for name in ("tso", "transaction", "seq", "alive"):
        assert getattr(keys, name)[a:b].tolist() == getattr(whole, name)[at].tolist(), name


def by_time(*pieces: list[int]) -> ScannedNode:
    """Return a node whose clock gives the order: the times of its commits, in microseconds, piece by piece."""
    node = assembled(" | ".join("L" for _ in pieces) or "L")
    greatest = 0
    for i, times in enumerate(pieces):
        own = [max(times[: j + 1]) for j in range(len(times))]
        local = [
            (j * 10, j * 10 + 10, us, 0, 0, time_tso(most), 0)
            for j, (us, most) in enumerate(zip(times, own, strict=True))
        ]
        clock = Clocked(max(most - us for most, us in zip(own, times, strict=True)), min(times))
        node.pieces[i] = replace(node.pieces[i], clock=clock)
        node.carries[i] = replace(node.carries[i], max_tso=time_tso(greatest))
        scanned = block_of(columns(TIMED_COLUMNS, []), columns(LOCAL_COLUMNS, local), columns(ROW_COLUMNS, []))
        node.blocks[i] = replace(node.blocks[i], scanned=scanned, patch=Patch(time_tso(greatest), 0, 0))
        greatest = max(greatest, *own)
    return node


def steps(node: ScannedNode, most: int) -> Iterator[tuple[int, int | None]]:
    return ((us, error.position) for us, error in clock_steps(node, most, ORIGIN))


def test_a_clock_that_steps_back_is_one_place_wherever_the_log_is_cut() -> None:
    times = [1000, 9000, 2000, 3000, 9500, 8000]
    whole = [(7000, 20), (1500, 50)]
    assert list(steps(by_time(times), 1000)) == whole
    assert list(steps(by_time(times), 1500)) == whole[:1] and not list(steps(by_time(times), 7000))
    rng = random.Random(3)
    for _ in range(20):
        at = sorted(rng.sample(range(1, len(times)), rng.randint(1, 3)))
        node = by_time(*(times[a:b] for a, b in zip([0, *at], [*at, len(times)], strict=True)))
        assert [us for us, _ in steps(node, 1000)] == [us for us, _ in whole]


def test_the_first_step_back_is_the_bound_where_it_is_to_be_an_error() -> None:
    nodes = [by_time([5000, 9000, 3000]), by_time([4000, 1000])]
    bound, said = check_clocks(nodes, CommitTso(on_step_back="error", max_step_back="1ms"), ORIGIN)
    assert bound.key[:1] == (time_tso(4000),) and not said
    bound, said = check_clocks(nodes, CommitTso(on_step_back="warn", max_step_back="1ms"), ORIGIN)
    assert bound.error is None and len(said) == 2 and "0.006 s" in said[0]
    assert check_clocks([assembled("L")], CommitTso(on_step_back="error"), ORIGIN)[0].error is None


def shown(*numbers: int, told: str = "", seen: str = "") -> ScannedNode:
    """Return a node whose log has these GTIDs of one source."""
    gtids = NodeGtids(seen=GtidSet.parse_text(seen), warned=GtidSet.parse_text(told))
    node = assembled("L", source=node_input("L", gtids=gtids))
    logged = Logged(gtids=GtidSet.of((SID, "", n, n + 1) for n in numbers))
    node.pieces[0] = replace(node.pieces[0], logged=logged)
    return node


def test_a_gap_in_gtids_is_told_once_and_when_nothing_can_fill_it() -> None:
    name = "00000000-0000-0000-0000-000000000000"
    node = shown(1, 2, 5)
    assert not note_gtids(node, end_of_input=False), "appliers in parallel may log it later"
    assert note_gtids(node, end_of_input=True) and str(node.gtids.warned) == f"{name}:3-4"
    assert not note_gtids(shown(1, 2, 5, told=f"{name}:3-4"), end_of_input=True)
    later = shown(3, 4, seen=f"{name}:1-2:5")
    assert not note_gtids(later, end_of_input=True) and str(later.gtids.seen) == f"{name}:1-5"


def test_gtids_that_are_too_scattered_are_given_up_with_a_word() -> None:
    node = shown(*range(1, 2 * MOST_KEPT + 4, 2))
    said = note_gtids(node, end_of_input=False)
    assert len(said) == 1 and "scattered" in said[0] and node.gtids.seen is None
    again = assembled("L", source=node_input("L", gtids=node.gtids))
    assert not note_gtids(again, end_of_input=True) and again.gtids.seen is None


def test_a_branch_that_is_kept_comes_out_with_its_own_bytes() -> None:
    node = assembled("P1:x | C1 L")
    assert node.blocks[1].patch.kept == (KeptBranch(0, 0, 4, 14, (("d", "x"),), 0, (1, 1), 14, 0),)
    assert node.without_tso == [((1, 1), 14)]
