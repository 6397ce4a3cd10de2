"""The global order on values: every row once, wherever the ranges are cut, and nothing outside floor and limit."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.blocks import read_block
from binlog_merge.pipeline.order.driver import edges_in, in_ranges
from binlog_merge.pipeline.order.ordered import OrderResult, OrderTask, in_order, transactions
from binlog_merge.pipeline.order.task import GREATEST, LEAST, order, ranges
from snapshot_store.topology import Hidden, Topology
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey
from tests.pipeline.logs import SIZE, Row, assembled, columns, cut, logs, rows

END = OrderKey((1 << 63) - 1, 0, 0, 0)
HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example writes the files anew
KEY = ("tso", "transaction", "seq", "node_seq")


def ordered(
    nodes: list[ScannedNode], path: Path, low: int = LEAST, high: int = GREATEST, **changes: Any
) -> OrderResult:
    """Order a range of some nodes' rows into a file."""
    blocks, edges = tuple(b for n in nodes for b in n.blocks), tuple(e for n in nodes for e in n.edges)
    values: dict[str, Any] = {"floor": ORIGIN, "limit": END, "topology": Topology(), "ddl": frozenset(), "seen": {}}
    task = OrderTask(0, low, high, blocks=blocks, edges=edges, path=str(path / f"{low}.arrow"), **(values | changes))
    return order(task)


def rows_in(found: OrderResult) -> list[Row]:
    """Return the rows of an order file."""
    of = {name: values.tolist() for name, values in read_block(found.path).items()}
    keys = [OrderKey(*key) for key in zip(*(of[name] for name in KEY), strict=True)]
    places = zip(*(of[name] for name in ("node", "file", "start", "end")), strict=True)
    return [Row(key, *place) for key, place in zip(keys, places, strict=True)]


@given(st.data())
def test_a_range_gets_the_blocks_and_edges_that_may_have_rows_in_it(data: st.DataObject) -> None:
    texts = [data.draw(cut(data.draw(logs()))) for _ in range(data.draw(st.integers(1, 3)))]
    nodes = [assembled(text, number) for number, text in enumerate(texts, 1)]
    blocks, edges = [b for n in nodes for b in n.blocks], [e for n in nodes for e in n.edges]
    spans = list(pairwise([LEAST, *sorted(data.draw(st.sets(st.integers(0, 12), max_size=4))), GREATEST]))
    assert in_ranges(blocks, spans) == [
        tuple(b for b in blocks if b.has_timed(low, high) or b.has_local(low, high)) for low, high in spans
    ]
    assert edges_in(edges, spans) == [tuple(e for e in edges if low <= e.tso < high) for low, high in spans]


@HERE
@given(st.data())
def test_every_row_comes_out_once_in_the_order_of_keys(tmp_path: Path, data: st.DataObject) -> None:
    texts = [data.draw(cut(data.draw(logs()))) for _ in range(data.draw(st.integers(1, 3)))]
    nodes = [assembled(text, number) for number, text in enumerate(texts, 1)]
    every = sorted(row for number, text in enumerate(texts, 1) for row in rows(text, number))
    bounds = sorted({LEAST, GREATEST, *data.draw(st.lists(st.integers(0, 12), max_size=3))})
    keys = st.sampled_from([ORIGIN, END, *(row.key for row in every)])
    floor, limit = sorted((data.draw(keys), data.draw(keys)))
    parts = [ordered(nodes, tmp_path, *pair, floor=floor, limit=limit) for pair in pairwise(bounds)]
    assert [row for part in parts for row in rows_in(part)] == [row for row in every if floor <= row.key < limit]
    assert sum(part.held for part in parts) == sum(row.key >= limit for row in every)
    assert sum(part.held_bytes for part in parts) == SIZE * sum(part.held for part in parts)
    for part in parts:
        out = rows_in(part)
        assert (part.rows, part.bytes) == (len(out), SIZE * len(out))
        assert part.transactions == len({row.key for row in out})
        assert part.last == (out[-1].key if out else None)
        begins = [i == 0 or out[i - 1].key != row.key for i, row in enumerate(out)]
        assert read_block(part.path)["first"].tolist() == begins


def test_branches_of_one_transaction_stand_together(tmp_path: Path) -> None:
    nodes = [assembled("P1 P2 C2=5 C1=7", 1), assembled("P3 P1 C1=7 C3=7", 2)]
    found = ordered(nodes, tmp_path)
    assert [(row.key[:2], row.node) for row in rows_in(found)] == [((5, 2), 1), ((7, 1), 1), ((7, 1), 2), ((7, 3), 2)]
    assert (found.rows, found.transactions) == (4, 3)


def test_what_has_no_logical_table_is_counted_and_does_not_come_out(tmp_path: Path) -> None:
    nodes = [assembled("P1:x C1=3 P2 C2=4 L:x L | P3:x | C3=5")]
    hidden = Hidden(nodes[0].source_id, "d", "x", ORIGIN, None)
    found = ordered(nodes, tmp_path, topology=Topology(hidden=(hidden,)))
    assert [row.key[:3] for row in rows_in(found)] == [(4, 2, 0), (4, 2, 2)]
    assert found.empty == 3
    # A table that is hidden for a time comes out before and after it.
    hidden = replace(hidden, since=OrderKey(4, 0, 0, 0), until=OrderKey(5, 0, 0, 0))
    found = ordered(nodes, tmp_path, topology=Topology(hidden=(hidden,)))
    assert [row.key[:3] for row in rows_in(found)] == [(3, 1, 0), (4, 2, 0), (4, 2, 2), (5, 3, 0)]
    assert found.empty == 1


def test_a_marker_comes_out_where_a_logical_ddl_stands(tmp_path: Path) -> None:
    nodes = [assembled("M1 C1=3 M2 C2=4 | M3 | C3=5 M4 | C4=6")]
    found = ordered(nodes, tmp_path, ddl=frozenset({(4, 2), (6, 4)}))
    assert [row.key[:2] for row in rows_in(found)] == [(4, 2), (6, 4)]
    assert (found.ddl, found.empty) == (2, 2)


def test_a_ddl_of_a_node_does_not_come_out_but_keeps_its_place(tmp_path: Path) -> None:
    assert [row.key.seq for row in rows_in(ordered([assembled("L D L")], tmp_path))] == [1, 3]


@pytest.mark.parametrize("text", ["H1 H2 C1={0} C2={1}", "H1 H2 | C1={0} C2={1}"])
def test_a_heartbeat_comes_out_every_so_many_seconds(text: str, tmp_path: Path) -> None:
    text = text.format(30_000 << LOGICAL_BITS, 31_000 << LOGICAL_BITS)
    found = ordered([assembled(text)], tmp_path, topology=Topology(ignored=("d",)), heartbeat=30)
    assert [row.key.transaction_id for row in rows_in(found)] == [1]
    assert read_block(found.path)["flags"].tolist() == [k.HEARTBEAT | k.MARKER] and found.ddl == 0
    assert ordered([assembled(text)], tmp_path, topology=Topology(ignored=("d",))).rows == 0


def test_a_local_below_the_floor_that_no_run_has_seen(tmp_path: Path) -> None:
    node = [assembled("P1 C1=3 L L", 2)]
    floor = OrderKey(9, 0, 0, 0)
    assert ordered(node, tmp_path, floor=floor).late is None, "a first run has published nothing"
    assert ordered(node, tmp_path, floor=floor, seen={2: (0, 44)}).late is None
    assert ordered(node, tmp_path, floor=floor, seen={2: (0, 34)}).late == (OrderKey(3, 1, 2, 2), 2, 0, 34)
    assert ordered(node, tmp_path, seen={2: (0, 34)}).late is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9))), st.integers(1, 6))
def test_ranges_hold_every_tso_once(points: list[tuple[int, int]], count: int) -> None:
    found = ranges(points, count)
    assert found[0][0] == LEAST and found[-1][1] == GREATEST and len(found) <= count
    assert all(low < high for low, high in found) and all(a[1] == b[0] for a, b in pairwise(found))
    weights = Counter[int]()
    for tso, weight in points:
        weights[tso] += weight
    # No range holds more than its share, but for the points with the one TSO that takes it over.
    share, most = sum(weights.values()) / count, max(weights.values(), default=0)
    assert all(sum(w for tso, w in weights.items() if low <= tso < high) <= 2 * max(share, most) for low, high in found)


@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 7), max_size=40))
def test_rows_sort_as_tuples_do(found: list[tuple[int, ...]]) -> None:
    names = (*KEY, "node", "file", "start")
    place = in_order(columns(names, found))
    assert list(zip(*(place[name].tolist() for name in names), strict=True)) == sorted(found)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 99)), min_size=1).map(sorted))
def test_a_transaction_has_one_commit_time(found: list[tuple[int, int, int]]) -> None:
    of = columns(("tso", "end", "commit_us"), found)
    of["start"] = of["end"] * 0
    joined = transactions(of, ("tso",))
    assert joined["commit_us"].tolist() == [max(us for tso, _, us in found if tso == row[0]) for row in found]
    assert joined["before"].tolist() == [sum(size for _, size, _ in found[:i]) for i in range(len(found))]
