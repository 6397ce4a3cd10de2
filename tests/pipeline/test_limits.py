"""How far everything is final: the nodes' watermarks, what their logs are damaged at, and what was asked for."""

from pathlib import Path
from typing import Any

from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.state import GREATEST_KEY, NO_BOUND, Bound, Job
from binlog_merge.pipeline.coordinate.marker.driver import cluster_view
from binlog_merge.pipeline.coordinated import Limits, limits_of
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.coordinate.test_coordinating import config_of, key

ANY: Any = None


def node(number: int, max_tso: int, error: MergeError | None = None) -> ScannedNode:
    source = NodeInput("ab"[number - 1], number, (), 0, Carry(), None, NodeGtids())
    return ScannedNode(source, carry=Carry(max_tso=max_tso), error=error)


def limits(*nodes: ScannedNode, stop: int | None = None, end_of_input: bool = False) -> Limits:
    job = Job(ANY, config_of(), Path(), None, stop, end_of_input, None, ANY)
    view = cluster_view(job.config, False, [(n.input.number, n.source_id) for n in nodes], {}, [], {})
    return limits_of(job, nodes, view, ORIGIN)


def test_the_node_that_is_behind_holds_the_others_back() -> None:
    found = limits(node(1, 30), node(2, 20))
    assert found.bound == Bound(OrderKey(20, 0, 1, 2))
    assert found.watermarks == {"a": OrderKey(30, 0, 1, 1), "b": OrderKey(20, 0, 1, 2)}
    assert limits(node(1, 30), node(2, 0)).bound.key == ORIGIN, "nothing is known of a node that has shown no TSO"


def test_at_the_end_of_the_input_only_damage_holds_back() -> None:
    assert limits(node(1, 30), node(2, 20), end_of_input=True).bound == NO_BOUND
    damaged = ChecksumMismatch("damaged")
    found = limits(node(1, 30, damaged), node(2, 20), end_of_input=True)
    assert found.bound == Bound(OrderKey(30, 0, 1, 1), damaged)


def test_a_run_stops_where_it_is_told_to() -> None:
    assert limits(node(1, 30), stop=10).bound == Bound(key(10))
    assert limits(node(1, 30), stop=40, end_of_input=True).bound == Bound(key(40))
    assert limits(node(1, 30), end_of_input=True).bound.key == GREATEST_KEY
