"""Coordination: from physical DDL and markers to logical DDL with order keys, and holds. One interface, three ways.

`marker` is the first of them; it holds nothing back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from binlog_merge.errors import MergeError
from binlog_merge.merge.render import LogicalDdl
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Hold:
    """Moves a branch to a later order key."""

    node: int
    file_index: int
    start: int
    until: OrderKey


@dataclass(frozen=True, slots=True)
class Coordinated:
    """The logical DDLs in order, the holds, and, where coordination stopped, the key before which all is well and
    why.
    """

    ddl: tuple[LogicalDdl, ...]
    holds: tuple[Hold, ...] = ()
    swallowed: int = 0
    stopped: OrderKey | None = None
    error: MergeError | None = None


__all__ = ["Coordinated", "Hold", "LogicalDdl", "Sequence"]
