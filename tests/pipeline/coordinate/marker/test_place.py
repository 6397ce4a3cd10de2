"""Where logical DDL stands: at its marker, alike on every node, up to the first that is not."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.errors import ChecksumMismatch, MarkerDisagreement, MarkerIncomplete
from binlog_merge.pipeline.base.state import GREATEST_KEY, NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.marker.markers import PUBLIC, Marker, MarkerCopy
from binlog_merge.pipeline.coordinate.marker.sightings import NodeMarkers, Sighting, coordinate, markers_below
from snapshot_store.tso import OrderKey

NODES = [(1, "a"), (2, "b"), (3, "c")]
ANY_COPY: Any = None


def key(tso: int) -> OrderKey:
    return OrderKey(tso, 0, 0, 0)


def sighting(tso: int, node: int, sql: str = "DROP TABLE t", visibility: int = PUBLIC) -> Sighting:
    copy = MarkerCopy(Marker(None, "DDL", "d", "t", sql, visibility, ""), SessionVariables())
    return Sighting(key(tso), node, "abc"[node - 1], "f", tso, copy)


MARKERS = st.dictionaries(st.integers(1, 20), st.sampled_from(["whole", "missing", "differs", "private"]), max_size=8)


@given(MARKERS, st.randoms(use_true_random=False))
def test_ddl_comes_out_up_to_the_first_marker_that_is_not_alike(kinds: dict[int, str], rng: random.Random) -> None:
    shown = []
    for tso, kind in kinds.items():
        for node, _ in NODES[: 2 if kind == "missing" else 3]:
            sql = "DROP TABLE u" if kind == "differs" and node == 2 else "DROP TABLE t"
            shown.append(sighting(tso, node, sql, 1 - PUBLIC if kind == "private" else PUBLIC))
    rng.shuffle(shown)
    found = coordinate(shown, NODES)
    bad = min((tso for tso, kind in kinds.items() if kind in ("missing", "differs")), default=None)
    below = sorted(tso for tso in kinds if bad is None or tso < bad)
    assert [ddl.key.commit_tso for ddl in found.ddl] == [tso for tso in below if kinds[tso] == "whole"]
    assert found.swallowed == sum(kinds[tso] == "private" for tso in below)
    if bad is None:
        assert found.stopped is None and found.error is None
    else:
        kind, place = (MarkerIncomplete, "c") if kinds[bad] == "missing" else (MarkerDisagreement, "b")
        assert found.stopped == key(bad) and isinstance(found.error, kind)
        assert (found.error.node, found.error.position) == ("a", bad) and place in found.error.message


def test_who_is_not_in_the_cluster_need_not_show_a_marker() -> None:
    joins = lambda at: NODES if at >= key(10) else NODES[:2]  # noqa: E731
    shown = [sighting(tso, node) for tso in (5, 10) for node in (1, 2)]
    found = coordinate(shown, joins)
    assert [ddl.key for ddl in found.ddl] == [key(5)] and found.stopped == key(10)
    assert coordinate([*shown, sighting(10, 3)], joins).stopped is None


def stop(tso: int, message: str = "") -> Bound:
    return Bound.of(ChecksumMismatch(message, order_key=key(tso)))


def shown(*tsos: int, node: int = 1, bound: Bound = NO_BOUND) -> NodeMarkers:
    return NodeMarkers(tuple(Sighting(key(t), node, f"dn-{node}", "f", 4, ANY_COPY) for t in tsos), bound)


def test_markers_below_a_limit() -> None:
    nodes = [shown(1, 5, 9), shown(1, 5, node=2, bound=stop(7))]
    found, bound = markers_below(nodes, key(6))
    assert [(s.key.commit_tso, s.node) for s in found] == [(1, 1), (5, 1), (1, 2), (5, 2)] and bound == NO_BOUND


def test_markers_before_the_first_that_cannot_be_read() -> None:
    nodes = [shown(1, 5, bound=stop(7, "later")), shown(1, node=2, bound=stop(5, "here"))]
    found, bound = markers_below(nodes, GREATEST_KEY)
    assert [s.key.commit_tso for s in found] == [1, 1]
    assert bound.error is not None and bound.error.message == "here"
    assert nodes[1].shows_any and shown(bound=stop(1)).shows_any and not shown().shows_any
