"""Finds the reasons why rows of a physical table cannot be reshaped to its logical table, without having any row.

It runs the merge's own planning for each column, so the two always agree.
"""

from typing import Final

from binlog_merge.errors import MergeError
from binlog_merge.reshape.metadata import from_definition
from binlog_merge.reshape.pads import compute_pad, encode_now
from binlog_merge.reshape.plan_of import ColumnPlan, plan_column
from binlog_merge.values.convert.cells import ConversionError
from binlog_merge.values.evaluate.row import Computed, Row
from binlog_merge.values.types import binlog_column
from snapshot_store.diff import column_map
from snapshot_store.model import Column, Table

_MOMENTS: Final = (1_709_210_096_789_012, 1_795_371_263_000_001)
"""Commit times, in microseconds, for which a pad that depends on the clock is tried: a 29th of February, and another
day.
"""


def refusals(physical: Table, logical: Table) -> tuple[str, ...]:
    """Return the reasons why a merge would stop at any row of `physical`, in the order of the logical columns.

    An empty result does not mean that every value fits: a text too long for its column shows only when it occurs.
    """
    reasons = []
    actual = [binlog_column(column) for column in physical.columns]
    columns = column_map(physical, logical)
    for entry in columns.entries:
        column = logical.columns[entry.logical_index]
        at = -1 if entry.physical_index is None else entry.physical_index
        try:
            plan = plan_column(physical, logical, entry.logical_index, at, actual)
            if not plan.kept:
                from_definition(column)
                _try_clock(column, plan)
        except MergeError as error:
            reasons.append(error.message)
        except ConversionError as error:
            reasons.append(str(error) if column.name in str(error) else f"column {column.name}: {error}")
    return tuple(reasons)


def _try_clock(column: Column, plan: ColumnPlan) -> None:
    """Compute the pad for several commit times if it depends on nothing else; raises the error if it fails for all of
    them.
    """
    failed: ConversionError | MergeError | None = None
    for moment in _MOMENTS:
        try:
            if plan.pads_now:
                encode_now(column, moment)
            elif isinstance(plan.pad, Computed) and not plan.pad.columns:
                compute_pad(column, plan.pad, Row({}, moment, 0))
            return
        except (ConversionError, MergeError) as error:
            failed = error
    if failed is not None:
        raise failed
