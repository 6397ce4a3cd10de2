"""Of several bounds the one with the least key holds; markers are taken up to it."""

from typing import Any

from binlog_merge.errors import ChecksumMismatch
from binlog_merge.pipeline.base.bound import GREATEST_KEY, NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.marker.place import Sighting
from binlog_merge.pipeline.coordinate.marker.sightings import NodeMarkers, markers_below
from snapshot_store.tso import OrderKey

ANY_COPY: Any = None


def key(tso: int) -> OrderKey:
    return OrderKey(tso, 0, 0, 0)


def stop(tso: int, message: str = "") -> Bound:
    return Bound.of(ChecksumMismatch(message, order_key=key(tso)))


def shown(*tsos: int, node: int = 1, bound: Bound = NO_BOUND) -> NodeMarkers:
    return NodeMarkers(tuple(Sighting(key(t), node, f"dn-{node}", "f", 4, ANY_COPY) for t in tsos), bound)


def test_the_least_key_holds_and_of_one_key_the_first() -> None:
    first, again = stop(5, "first"), stop(5, "again")
    assert min(NO_BOUND, stop(7), first, again) is first
    assert min(NO_BOUND, Bound(key(3)), first) == Bound(key(3))
    assert Bound.of(None) == NO_BOUND == Bound.at(None, None) and NO_BOUND.key == GREATEST_KEY


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
