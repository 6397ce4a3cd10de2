"""Why rows of a physical table could not be written in the shape of its logical table, told without any row.

What the merge itself plans for each column is asked, so that the two never differ.
"""

from typing import Final

from binlog_merge.errors import MergeError
from binlog_merge.reshape.metadata import from_definition
from binlog_merge.reshape.pads import compute_pad, encode_now
from binlog_merge.reshape.plan_of import ColumnPlan, plan_column
from binlog_merge.values.binlog_types import binlog_column
from binlog_merge.values.convert import ConversionError
from binlog_merge.values.evaluate.row import Computed, Row
from snapshot_store.diff import column_map
from snapshot_store.model import Column, Table

_MOMENTS: Final = (1_709_210_096_789_012, 1_795_371_263_000_001)
"""Commit times, in microseconds, at which a pad of the clock is tried: a 29th of February, and another day."""


def refusals(physical: Table, logical: Table) -> tuple[str, ...]:
    """Return the reasons for which a merge stops at any row of the one table, in the other's order of columns.

    None does not mean that every value fits: a long text in a short column shows only when it comes.
    """
    found = []
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
            found.append(error.message)
        except ConversionError as error:
            found.append(str(error) if column.name in str(error) else f"column {column.name}: {error}")
    return tuple(found)


def _try_clock(column: Column, plan: ColumnPlan) -> None:
    """Make the pad for some moments, if the commit time is all it depends on; raise what each of them raises."""
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
