"""From run to run: how far a node's log is final, and where the next run begins to read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.errors import LateTransaction
from binlog_merge.pipeline.assemble.checkpoints import checkpoint
from binlog_merge.pipeline.assemble.nodes import check_late
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.node_input import Resume
from binlog_merge.pipeline.base.state import GREATEST_KEY
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.logs import SIZE, Row, assembled, cut, logs, node_input, rows, rows_of


def split(data: st.DataObject) -> tuple[str, str]:
    """Return what a first run sees of a log, and the whole of it."""
    found = data.draw(logs())
    before = data.draw(cut(found[: data.draw(st.integers(0, len(found)))]))
    rest = found[len(before.replace("|", " ").replace("/", " ").split()) :]
    return before, before + "".join(f" {data.draw(st.sampled_from('| /'))} {word}" for word in rest)


@given(st.data())
def test_what_comes_later_is_not_below_the_watermark(data: st.DataObject) -> None:
    before, whole = split(data)
    mark = assembled(before, end_of_input=False).watermark(0)
    later = set(rows(whole)) - set(rows(before))
    if mark is not None:
        assert all(row.key >= mark for row in later)
        assert (assembled(before).watermark(3) or mark) <= mark


@given(logs())
def test_the_watermark_is_no_lower_than_it_must_be(found: list[str]) -> None:
    text = " ".join(found)
    node = assembled(text)
    mark = node.watermark(0)
    if mark is not None and not node.carry.open:
        assert set(rows(f"{text} L")) - set(rows(text)) == {Row(mark, 1, 0, 4 + 10 * len(found), 14 + 10 * len(found))}


@given(st.data())
def test_a_run_goes_on_without_losing_or_doubling_anything(data: st.DataObject) -> None:
    before, whole = split(data)
    first = assembled(before, end_of_input=False)
    floors = [row.key for row in rows(before)]
    mark = first.watermark(0) or ORIGIN
    floor = data.draw(st.sampled_from([ORIGIN, *(key for key in floors if key < mark), mark]))
    found = checkpoint(first, floor, GREATEST_KEY)
    names = [file.name for file in node_input(whole).files]
    carry = Carry.from_dict(found.carry.to_dict(names), names)
    resume = Resume.from_dict(found.resume.to_dict())
    source = node_input(whole, first=found.file, carry=carry, seen=first.end, resume=resume)
    again = assembled(whole, source=source)
    assert found.oldest <= found.file
    out = [row for row in rows_of(again) if row.key >= floor]
    assert out == [row for row in rows(whole) if row.key >= floor]
    assert again.error is None
    check_late(again, floor)


def begins(text: str, floor: OrderKey, waiting: int | None = None) -> tuple[int, int, int]:
    """Return the oldest file that the next run reads, and the file and event with which its scan begins."""
    found = checkpoint(assembled(text, end_of_input=False), floor, GREATEST_KEY, waiting)
    return found.oldest, found.file, (found.resume.start - 4) // SIZE


def test_a_run_begins_with_the_first_piece_that_still_holds_something() -> None:
    text = "P1 C1=3 / P2 / L / P3 C3=9 / L"
    assert begins(text, ORIGIN) == (0, 0, 0)
    assert begins(text, OrderKey(3, 1, 1, 0)) == (1, 2, 0), "a branch is open in the second file"
    text = "P1 C1=3 / P2 C2=5 / L / P3 C3=9 / L"
    firsts = [begins(text, OrderKey(tso, 99, 0, 0)) for tso in (2, 3, 5, 9)]
    assert firsts == [(0, 0, 0), (1, 1, 0), (3, 3, 0), (4, 4, 1)]
    assert begins(text, OrderKey(9, 99, 0, 0), waiting=2) == (2, 2, 0), "rows that shards hold are read again"


def test_a_run_begins_inside_a_file() -> None:
    text = "P1 C1=3 | P2 L C2=5 | L P3 | C3=9"
    firsts = [begins(text, OrderKey(tso, 99, 0, 0)) for tso in (2, 3, 5, 9)]
    assert firsts == [(0, 0, 0), (0, 0, 2), (0, 0, 5), (0, 0, 8)]


def test_a_run_begins_with_ddl_that_is_not_in_the_history() -> None:
    node = assembled("P1 C1=3 | D | P2 C2=5 | L", end_of_input=False)
    place = lambda done: (checkpoint(node, OrderKey(9, 0, 0, 0), done).resume.start - 4) // SIZE  # noqa: E731
    assert [place(done) for done in (ORIGIN, OrderKey(3, 1, 1, 1))] == [2, 6]


def test_the_carry_has_commit_rows_of_other_nodes_that_are_needed_again() -> None:
    text = "P1 C1=3 | P2 | C2 | P3"
    node = assembled(text, end_of_input=False)
    node.pieces[2] = replace(node.pieces[2], commit_rows=((2, 1, 7),))  # as `shared_rows` adds them
    again = checkpoint(node, OrderKey(3, 1, 1, 0), GREATEST_KEY)
    assert (again.resume.start - 4) // SIZE == 2, "the branch that is not published is scanned again"
    assert again.carry.commit_rows == {(2, 1): 7}


def test_without_a_known_carrier_a_run_begins_with_a_file() -> None:
    node = assembled("P1 C1=3 | L / P2 C2=5 | L", end_of_input=False)
    places = [checkpoint(node, OrderKey(tso, 99, 0, 0), GREATEST_KEY, inside=False) for tso in (2, 3, 9)]
    assert [(found.file, found.resume.start) for found in places] == [(0, 4), (1, 4), (1, 4)]


def test_a_run_does_not_begin_in_the_window_of_a_sync_point() -> None:
    text = "P1 C1=3 | S2 | L | C2=5 | P3 C3=9 | L"
    assert begins(text, OrderKey(4, 0, 0, 0))[2] == 2
    assert begins(text, OrderKey(9, 0, 0, 0))[2] >= 5


def test_what_commits_below_what_is_published() -> None:
    text, seen = "P1 C1=9 P2 C2=4", (0, 24)
    late = assembled(text, source=node_input(text, seen=seen))
    assert late.least_new == (4, 2) and late.begins == (4, 2)
    with pytest.raises(LateTransaction, match="TSO 4"):
        check_late(late, OrderKey(9, 0, 0, 0))
    check_late(late, OrderKey(4, 2, 0, 0))
    check_late(replace(late, input=node_input(text)), OrderKey(9, 0, 0, 0))  # a first run has published nothing
