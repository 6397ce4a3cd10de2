"""The watermark of a node: the least order key that may still arrive from it."""

from binlog_merge.binlog.kernels.scan_layout import SYNC_POINT
from binlog_merge.files.as_of import AsOf
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.clock import time_tso
from snapshot_store.tso import OrderKey


def node_watermark(
    carry: Carry, node_seq: int, max_disorder: int = 0, prepared_earlier: bool = True
) -> OrderKey | None:
    """Return the least order key that may still arrive from a node, or None if it has shown no commit TSO yet.

    The next transaction without a TSO sorts right after the greatest commit. A branch that is still prepared may commit
    with any TSO greater than those committed before its prepare, and a branch not yet prepared with any TSO greater
    than all. `prepared_earlier` False: a transaction's order depends only on its commit, whenever it was prepared.
    """
    if carry.max_tso == 0 and carry.max_transaction == 0:
        return None
    least = OrderKey(carry.max_tso, carry.max_transaction, carry.seq + 1, node_seq)
    for prepared in carry.open.values() if prepared_earlier else ():
        # Locals in a sync point's window follow right after the commits before it.
        next_tso = prepared.max_tso + (0 if prepared.flags & SYNC_POINT else 1)
        least = min(least, OrderKey(next_tso, 0, 0, 0))
    if max_disorder:
        least = min(least, OrderKey(max(0, carry.max_tso - max_disorder), 0, 0, 0))
    return least


def as_of_watermark(note: AsOf | None, max_disorder: int, max_step_back: int) -> OrderKey | None:
    """Return the least order key that may still arrive from a node whose log was read to where its note says.

    Later commits have the note's time or a later one, unless the clock steps back: steps of up to `max_step_back`
    microseconds are allowed for, so that they make no transaction late.
    """
    if note is None:
        return None
    tso: int = time_tso(max(0, note.clock_us - max_step_back))
    return OrderKey(max(0, tso - max_disorder), 0, 0, 0)
