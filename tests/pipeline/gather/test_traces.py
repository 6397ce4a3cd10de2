"""Trace hints: what a hint tells, and how branches are put together by it."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import trace as t
from binlog_merge.errors import UnsupportedInput
from binlog_merge.pipeline.gather.traces import Window, traced
from tests.simulator import wire


def _hint(text: str) -> tuple[int, int, int] | None:
    """Return what the kernel reads from a statement's comment."""
    found: Any = np.zeros(4, np.int64)
    data = np.frombuffer(text.encode() + b"\0", np.uint8).copy()
    return tuple(found[:3].tolist()) if t.read_hint(data, 0, len(data) - 1, found) else None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/*DRDS /11.196.59.141/1322a3c35bc01000/0/1390188355/ */", (0, 0, 1390188355)),
        ("/*DRDS /11.196.49.49/1322a3c37f401001-3/1// */", (3, 1, 0)),
        ("/*DRDS /11.196.49.49/1322a3c37f401001-100/128// */ UPDATE t SET a = 1/2", (100, 128, 0)),
        ("  /*DRDS /::1/abc-7/2/3/ */", (7, 2, 3)),
        ("/*DRDS /1.2.3.4/abc/ */", (0, 0, 0)),
        ("/*DRDS /1.2.3.4/abc-9*/", (9, 0, 0)),
        ("/*DRDS /1.2.3.4/abc-x/y/z/ */", (0, 0, 0)),
        ("/* DRDS /1.2.3.4/abc-1/2/3/ */", None),
        ("UPDATE t SET a = '/*DRDS /1/2-3/4/5/ */'", None),
        ("", None),
        ("/*DRDS ", None),
    ],
)
def test_what_a_hint_tells(text: str, told: tuple[int, int, int] | None) -> None:
    assert _hint(text) == told


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.none() | st.integers(1, 2**32 - 1), st.text("0123456789.:"))
def test_hints_of_any_numbers(seq: int, sub: int, server: int | None, client: str) -> None:
    text = f"/*DRDS /{client}/1f{'-' + str(seq) if seq else ''}/{sub}/{server or ''}/ */ SELECT 1"
    assert _hint(text) == (seq, sub, server or 0)


def _branch(statements: list[tuple[int, int, bytes] | bytes], server: int | None = None) -> bytes:
    """Return a branch's events: for each statement its hint (none for bare bytes), a table map and a rows event."""
    events = [wire.query("XA START X'00',X'00',1")]
    for statement in statements:
        name = statement if isinstance(statement, bytes) else statement[2]
        if not isinstance(statement, bytes):
            hint = f"/*DRDS /1.1.1.1/ab-{statement[0]}/{statement[1]}/{server or ''}/ */ "
            events.append(wire.rows_query(hint + name.decode()))
        events += [wire.Event(wire.TABLE_MAP, b"map:" + name), wire.Event(wire.WRITE, bytes(6) + b"\1\0" + name)]
    return b"".join(wire.frame(event, 0, 1, 0, False) for event in events)


def _window(transactions: list[list[bytes]]) -> tuple[Any, Window]:
    data, rows = b"", []
    for number, branches in enumerate(transactions):
        for i, branch in enumerate(branches):
            rows.append((len(data), len(data) + len(branch), i == 0, i == len(branches) - 1, number))
            data += branch
    segments = np.zeros((len(rows), k.S_COLUMNS), np.int64)
    for i, (start, end, first, last, _) in enumerate(rows):
        segments[i, k.S_POS], segments[i, k.S_END], segments[i, k.S_FIRST], segments[i, k.S_LAST] = (
            start,
            end,
            first,
            last,
        )
    keys = np.zeros((len(rows), k.K_COLUMNS), np.int64)
    keys[:, k.K_TSO] = [row[4] for row in rows]
    place = np.arange(len(rows))
    begins = np.maximum.accumulate(np.where(segments[:, k.S_FIRST] != 0, place, 0))
    return np.frombuffer(data, np.uint8).copy(), Window(segments, keys, place, begins)


def _tables(data: Any, window: Window) -> list[tuple[int, list[bytes]]]:
    """Return, for each segment in order, its transaction and the table maps in it."""
    found = []
    for segment, key in zip(window.segments, window.keys, strict=True):
        part = bytes(data[segment[k.S_POS] : segment[k.S_END]])
        found.append((int(key[k.K_TSO]), re.findall(rb"map:(\w+?)(?=\x00|\xff|$)", part)))
    return found


def _order(transactions: list[list[bytes]]) -> list[bytes]:
    data, window = _window(transactions)
    return [name for _, names in _tables(data, traced(data, window)) for name in names]


def test_branches_are_put_together_statement_by_statement() -> None:
    one = _branch([(1, 0, b"a1"), (3, 0, b"a3"), (10, 0, b"a10")])
    two = _branch([(2, 0, b"b2"), (3, 1, b"b31"), (9, 0, b"b9")])
    assert _order([[one, two]]) == [b"a1", b"b2", b"a3", b"b31", b"b9", b"a10"]


def test_equal_traces_stay_in_the_order_of_branches() -> None:
    branches = [_branch([(1, 0, name + b"1"), (2, 0, name + b"2")]) for name in (b"a", b"b", b"c")]
    assert _order([branches]) == [b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]


def test_without_hints_branches_stay_whole() -> None:
    assert _order([[_branch([b"a1", b"a2"]), _branch([b"b1", b"b2"])]]) == [b"a1", b"a2", b"b1", b"b2"]


def test_a_table_map_without_a_hint_goes_with_the_statement_before() -> None:
    one, two = _branch([(1, 0, b"a1"), b"a1x", (4, 0, b"a4")]), _branch([(2, 0, b"b2"), b"b2x"])
    assert _order([[one, two]]) == [b"a1", b"a1x", b"b2", b"b2x", b"a4"]


def test_transactions_stay_apart_and_tell_their_server_ids() -> None:
    transactions = [
        [_branch([(2, 0, b"a2")]), _branch([(1, 0, b"a1")], server=77)],
        [_branch([(1, 0, b"b1")])],
        [_branch([(5, 0, b"c5")], server=88)],
    ]
    data, window = _window(transactions)
    result = traced(data, window)
    assert _tables(data, result) == [(0, [b"a1"]), (0, [b"a2"]), (1, [b"b1"]), (2, [b"c5"])]
    assert result.keys[:, k.K_SERVER].tolist() == [77, 77, 0, 88]
    assert result.segments[:, k.S_FIRST].tolist() == [1, 0, 1, 1]
    assert result.segments[:, k.S_LAST].tolist() == [0, 1, 1, 1]
    assert (result.row.tolist(), result.begins.tolist()) == ([1, 0, 2, 3], [0, 0, 2, 3])


def test_traces_that_go_back_are_refused() -> None:
    with pytest.raises(UnsupportedInput, match="go back to 1/0"):
        _order([[_branch([(2, 0, b"a2"), (1, 0, b"a1")]), _branch([(3, 0, b"b3")])]])


_statements = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=5).map(sorted)


@given(st.lists(st.lists(_statements, min_size=1, max_size=4), min_size=1, max_size=4))
def test_it_is_a_stable_merge(shape: list[list[list[tuple[int, int]]]]) -> None:
    transactions, wanted = [], []
    for x, branches in enumerate(shape):
        named = [
            [(*trace, f"t{x}b{i}s{j}".encode()) for j, trace in enumerate(statements)]
            for i, statements in enumerate(branches)
        ]
        transactions.append([_branch(list(statements)) for statements in named])
        wanted += [name for *_, name in sorted((s for b in named for s in b), key=lambda s: s[:2])]
    assert _order(transactions) == wanted
