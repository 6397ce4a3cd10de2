"""A node's log assembled from pieces: wherever it is cut, what comes out is what one reading of it gives."""

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.errors import ChecksumMismatch, CommitTsoConflict, TruncatedEvent, UnsupportedInput
from binlog_merge.pipeline.assemble.assemble import assemble_piece
from binlog_merge.pipeline.assemble.driver import assemble_node
from binlog_merge.pipeline.assemble.nodes import ScannedNode, first_lost, half_committed
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.scan.driver import misread
from binlog_merge.pipeline.scan.values import ScanResult
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.logs import SIZE, assembled, cut, logs, node_file, node_input, rows, rows_of, scan, words


def keys(text: str) -> list[tuple[int, ...]]:
    """Return (TSO, transaction, seq) of what comes out."""
    return [row.key[:3] for row in rows_of(assembled(text))]


def test_what_crosses_the_edge_between_two_pieces() -> None:
    assert keys("P1 P2 C1=7 | L C2=9 L") == [(7, 1, 0), (7, 1, 1), (9, 2, 0), (9, 2, 1)]


@given(st.data())
def test_no_cut_changes_what_comes_out(data: st.DataObject) -> None:
    found = data.draw(logs())
    text = data.draw(cut(found))
    whole, node = assembled(" ".join(found)), assembled(text)
    assert whole.error is None and node.error is None
    assert rows_of(node) == rows(text)
    assert [row.key for row in rows_of(node)] == [row.key for row in rows_of(whole)]
    assert replace(node.carry, open={}) == replace(whole.carry, open={})
    assert set(node.carry.open) == set(whole.carry.open)


@given(st.data())
def test_a_carry_is_whole_in_the_manifest(data: st.DataObject) -> None:
    carry = assembled(data.draw(cut(data.draw(logs()), "||"))).carry
    names = ["binlog.000001"]
    assert Carry.from_dict(carry.to_dict(names), names) == carry
    gone = Carry.from_dict(carry.to_dict(names), [])
    assert set(gone.open) == set(carry.open) and all(p.file_index == -1 for p in gone.open.values())


def test_a_branch_that_nobody_prepared_stops_the_log_where_its_rows_would_be() -> None:
    node = assembled("P1 C1=5 | C2=8 L")
    assert node.error is None and [row.key[:3] for row in rows_of(node)] == [(5, 1, 0), (8, 2, 1)]
    lost = first_lost([node], ORIGIN)
    assert lost is not None and lost.order_key == OrderKey(8, 2, 0, 0).text() and lost.position == 24
    assert first_lost([node], OrderKey(8, 2, 0, 1)) is None, "it has come out, or never will"
    # With neither a prepare nor a TSO nobody knows even where.
    node = assembled("P1 C1=5 | C2 L")
    assert isinstance(node.error, UnsupportedInput) and keys("P1 C1=5 | C2 L") == [(5, 1, 0)]


def test_what_contradicts_itself_across_pieces() -> None:
    twice = assembled("P1 | P1")
    assert isinstance(twice.error, UnsupportedInput) and "prepared twice" in twice.error.message
    assert assembled("P1 C1=4 | P1 C1=6").error is None, "an id may be used again when it has ended"
    carry = assemble_piece(scan(words("P1 W1=4")[0][0])[0], Carry()).carry
    with pytest.raises(CommitTsoConflict, match="4 and 5"):
        assemble_piece(scan(words("W1=5")[0][0])[0], carry)


def pieces(text: str, **changes: Any) -> tuple[list[ScanResult], list[Any]]:
    """Return the pieces of a log, the last but one of which a scan found otherwise."""
    found = [scan(part, file, number=n) for file, parts in enumerate(words(text)) for n, part in enumerate(parts)]
    results = [result for result, _ in found]
    results[-2] = replace(results[-2], **changes)
    return results, [block for _, block in found]


def joined(text: str, end_of_input: bool = True, in_use: bool = False, **changes: Any) -> ScannedNode:
    source = node_input(text)
    source = replace(source, files=(*source.files[:-1], node_file(len(source.files) - 1, in_use=in_use)))
    results, blocks = pieces(text, **changes)
    return assemble_node(source, results, cast(Any, blocks), end_of_input)


def test_nothing_behind_damage_is_believed() -> None:
    damage = ChecksumMismatch("damaged", position=9)
    node = joined("P1 C1=3 | P2 C2=4 | P3 C3=5", error=damage.to_dict())
    assert node.error is not None and node.error.position == 9
    assert [row.key[:2] for row in rows_of(node)] == [(3, 1), (4, 2)] and node.carry.max_tso == 4


def test_a_file_must_end_as_files_end() -> None:
    cut_short = joined("P1 C1=3 / P2 C2=4", clean_end=False)
    assert isinstance(cut_short.error, TruncatedEvent) and cut_short.error.position == 4 + 2 * SIZE
    assert [row.key[:2] for row in rows_of(cut_short)] == [(3, 1)], "the next file is not followed"
    for at in ("truncated", "unfinished"):
        inside = joined("P1 C1=3 / L", **{at: 24})
        assert isinstance(inside.error, TruncatedEvent) and inside.error.position == 24
        growing = joined("P1 C1=3 | ", end_of_input=False, in_use=True, **{at: 24})
        assert growing.error is None and len(growing.warnings) == 1 and "held back" in growing.warnings[0]
        assert isinstance(joined("P1 C1=3 | ", in_use=True, **{at: 24}).error, TruncatedEvent)


def test_pieces_that_do_not_join_are_scanned_again() -> None:
    results, _ = pieces("P1 | C1=3 | L")
    sizes = {("", 0): results[-1].reached}
    assert misread(results, sizes) == frozenset()
    assert misread(results, {("", 0): results[-1].reached + 1}) == {("", 0)}, "nobody has read the file's end"
    assert misread([results[0], results[2]], sizes) == {("", 0)}
    elsewhere = replace(results[1], first=results[1].first + 1)
    assert misread([results[0], elsewhere, results[2]], sizes) == {("", 0)}
    # A piece in which no group begins says nothing, and behind damage nothing needs to join.
    assert misread([results[0], replace(elsewhere, first=-1), *results[1:]], sizes) == frozenset()
    damaged = replace(results[0], error={}, reached=results[0].reached - 1)
    assert misread([damaged, results[2]], sizes) == frozenset()


def test_a_branch_in_doubt_whose_others_have_committed_is_told_of() -> None:
    said = half_committed([assembled("P1 P2 C2=3"), assembled("P1 C1=4", 2), assembled("P1 | C1=4", 3)])
    assert len(said) == 1 and "transaction 1 has committed on b, c" in said[0] and "binlog.000001:4" in said[0]
    assert not half_committed([assembled("P1"), assembled("P1", 2)])


def test_a_branch_that_is_prepared_again_in_another_servers_log() -> None:
    """It keeps the bound of its TSO: the commits before it in this log may be later ones than those in the first."""
    first = assemble_piece(scan(words("P1 P2 C2=5")[0][0])[0], Carry()).carry
    gone = Carry.from_dict(first.to_dict(["binlog.000001"]), [])
    assert gone.max_tso == 5 and gone.open[1, 1].max_tso == 0
    (parts,) = words("P1 L | P3")
    piece = replace(scan(parts[0])[0], again=((1, 1),))
    carry = assemble_piece(piece, gone).carry
    assert (carry.open[1, 1].file_index, carry.open[1, 1].max_tso) == (0, 0)
    # It has ended in the same piece: nothing of it stays.
    ended = replace(scan(words("P1 C1=7")[0][0])[0], again=((1, 1),))
    assert not assemble_piece(ended, gone).carry.open
    with pytest.raises(UnsupportedInput, match="prepared twice"):
        assemble_piece(scan(parts[0])[0], gone)
