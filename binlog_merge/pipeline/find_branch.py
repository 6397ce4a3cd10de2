"""Finds the transaction to which a place in a node's own binlog belongs.

The merged log does not say where in the nodes' files its transactions were, and the key of a transaction without a
commit TSO depends on what its node committed before. So the nodes' files are scanned as for a merge.
"""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.base.runner import Files, InDriver
from binlog_merge.pipeline.gather.listing import listed
from binlog_merge.pipeline.transactions import Transactions, found_transactions
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class FoundBranch:
    """A branch in a node's binlog, from its first event to the end of its last, and its transaction's order key."""

    node: str
    file: str
    start: int
    end: int
    key: OrderKey

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "node": self.node,
            "file": self.file,
            "start": self.start,
            "end": self.end,
            "order_key": self.key.text(),
        }


def find_branch(config: MergeConfig, node: str, file: str, position: int) -> FoundBranch:
    """Return the branch at a position of a node's file. Raises ConfigError if no committed branch stands there.

    Raises what a merge raises for files that it cannot read.
    """
    names = [each.source_id for each in config.nodes]
    if node not in names:
        raise ConfigError(f"the configuration has no node {node}: its nodes are {', '.join(names)}")
    with found_transactions(InDriver(Files()), config, end_of_input=True, counts=False) as transactions:
        found = _branch_at(transactions, node, PurePath(file).name, position)
    if found is None:
        raise ConfigError(
            f"no committed branch that comes out stands at {file}:{position} of node {node}",
            remedy="give a position within the events of a transaction: from its GTID event on, before its end",
        )
    return found


def _branch_at(transactions: Transactions, node: str, file: str, position: int) -> FoundBranch | None:
    for task in transactions.tasks:
        for batch in listed(task):
            for key, branches in zip(batch["order_key"].to_pylist(), batch["branches"].to_pylist(), strict=True):
                for at in branches:
                    here = at["node"] == node and PurePath(at["file"]).name == file
                    if here and at["start"] <= position < at["end"]:
                        return FoundBranch(node, file, at["start"], at["end"], OrderKey.parse(key))
    return None
