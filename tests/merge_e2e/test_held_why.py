"""Why a node holds the others back, on logs of real servers."""

from pathlib import Path

import pytest

from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge


@pytest.mark.parametrize(
    ("case", "node", "why"),
    [
        (
            "in-doubt", "dn-2",
            "the transaction prepared at binlog.000001:1676 has neither committed nor been rolled back",
        ),
        ("idle-node", "dn-3", "it has shown no commit TSO yet, read to binlog.000001:158"),
        (
            "three-nodes-commit-order", "dn-3",
            "idle since commit TSO 7507804160209715200 (2026-09-21 14:13:20.050000 UTC), read to binlog.000001:17516",
        ),
    ],
)  # fmt: skip
def test_the_result_says_why(case: str, node: str, why: str, tmp_path: Path) -> None:
    result = merge(case_named(case) / "cluster.yaml", tmp_path / "out", end_of_input=False)
    assert result.nodes[node].why == why and result.nodes[node].holds_back
    assert all((found.why is not None) == found.holds_back for found in result.nodes.values())


def test_no_node_holds_back_what_is_left_for_later(tmp_path: Path) -> None:
    config = case_named("three-nodes-commit-order") / "cluster.yaml"
    whole = merge(config, tmp_path / "whole", end_of_input=False)
    part = merge(config, tmp_path / "part", end_of_input=False, stop_tso=int(str(whole.last_key)[:19]))
    assert part.held > whole.held > 0 and part.transactions
    assert whole.held_back_by == "dn-3" and part.held_back_by is None
    assert not any(node.holds_back or node.why for node in part.nodes.values())
