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
