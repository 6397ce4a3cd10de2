"""Rows as gather takes them: where schemas change between them, and windows of whole transactions."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.moved_keys import DdlPlace, key_of, moved_key
from binlog_merge.pipeline.coordinate.shards.values import Holds
from binlog_merge.pipeline.gather import input_reader
from binlog_merge.pipeline.gather.driver import key_after_last, written_to
from binlog_merge.pipeline.gather.input_reader import window_end
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.order.ordered import COLUMNS, KEY, OWN, transactions
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.logs import columns

KEYS = st.builds(OrderKey, st.integers(0, 5), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1))


def rows_at(keys: list[OrderKey], sizes: list[int]) -> Rows:
    """Return rows with these keys, in order, and so many bytes each."""
    of = columns(KEY, keys) | columns(("start", "end", "commit_us"), [(0, size, 0) for size in sizes])
    of = {name: of.get(name, of["start"] * 0) for name in COLUMNS} | of
    of |= transactions(of, KEY)
    return Rows(of, *(of[name] for name in ("first", "start", "end", "node", "file", "flags", "commit_us", "before")))


@given(st.lists(KEYS, min_size=1).map(sorted), st.lists(KEYS, unique=True).map(sorted))
def test_an_epoch_ends_where_a_boundary_is_passed(keys: list[OrderKey], boundaries: list[OrderKey]) -> None:
    found = rows_at(keys, [1] * len(keys)).edges(boundaries)
    passed = [i for i, (a, b) in enumerate(pairwise(keys), 1) if any(a <= at < b for at in boundaries)]
    assert sorted(set(found)) == passed


@given(st.lists(st.tuples(KEYS, KEYS, st.booleans()), min_size=1), st.lists(KEYS, unique=True).map(sorted))
def test_moved_rows_are_read_by_their_own_keys(
    found: list[tuple[OrderKey, OrderKey, bool]], boundaries: list[OrderKey]
) -> None:
    # Rows that stay are in order; those moved behind one of them are in order of their own keys.
    out: list[tuple[OrderKey, OrderKey]] = []
    for at, own, moves in sorted(found):
        out.append((moved_key(DdlPlace(at)), min(at, own)) if moves else (at, at))
    out.sort()
    of = columns(KEY, [at for at, _ in out]) | columns(OWN, [own for _, own in out])
    of |= columns(("start", "end", "commit_us", "ddl"), [(0, 1, 0, 0)] * len(out))
    of = {name: of.get(name, of["start"] * 0) for name in COLUMNS} | of
    rows = Rows(of, *(of[name] for name in ("first", "start", "end", "node", "file", "flags", "commit_us", "before")))
    edges = {0, *rows.edges(boundaries)}
    assert [rows.is_moved(i) for i in range(len(out))] == [at != own for at, own in out]
    for i, ((before, earlier), (at, own)) in enumerate(pairwise(out), 1):
        if i not in edges:  # what decodes the row before decodes this one too
            assert not any(min(earlier, own) <= boundary < max(earlier, own) for boundary in boundaries)
            assert (before != earlier) == (at != own) and before in (earlier, at)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1).map(sorted), st.integers(1, 6))
def test_windows_are_whole_transactions(found: list[tuple[int, int]], most: int) -> None:
    rows = rows_at([OrderKey(tso, 0, 0, 0) for tso, _ in found], [size for _, size in found])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_reader, "WINDOW_ROWS", most)
        patch.setattr(input_reader, "WINDOW_BYTES", 10)
        at = 0
        while at < len(rows):
            end = window_end(rows, at, len(rows))
            assert end > at and rows.first[at] and (end == len(rows) or rows.first[end])
            several = len({tso for tso, _ in found[at:end]}) > 1
            assert not several or (end - at <= most and sum(size for _, size in found[at:end]) <= 20)
            at = end
    assert all(
        rows.transaction_end(i) == i + sum(tso == found[i][0] for tso, _ in found[i:]) for i in range(len(found))
    )


def wrote(last: OrderKey | None, failed: OrderKey | None = None) -> GatherResult:
    return GatherResult("", "", 0, 0, 0, 0, None, last, 0, 0, 0, 0, 0, 0, 0, 0, False, failed=failed)


def test_how_far_everything_has_come_out() -> None:
    key, last = OrderKey(5, 1, 0, 0), OrderKey(7, 1, 2, 3)
    assert key_after_last(None, None) == ORIGIN and key_after_last(key, None) == OrderKey(5, 1, 0, 1)
    assert written_to([], None) is None and written_to([wrote(None)], None) is None
    assert written_to([wrote(key), wrote(last), wrote(None)], None) == OrderKey(7, 1, 2, 4)


def test_a_place_of_which_something_is_missing_has_not_come_out() -> None:
    here, holds = DdlPlace(OrderKey(7, 1, 0, 3), 1), Holds()
    assert key_after_last(moved_key(here), holds) == OrderKey(7, 1, 0, 4), "ranks are no part of the next floor"
    assert written_to([wrote(key_of(here), failed=moved_key(here))], holds) == here.key
    assert written_to([wrote(key_of(here), failed=OrderKey(8, 0, 0, 0))], holds) == OrderKey(7, 1, 0, 4)
