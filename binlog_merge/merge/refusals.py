"""Why rows of a physical table could not be written in the shape of its logical table, told without any row."""

from binlog_merge.errors import MergeError
from binlog_merge.merge.binlog_types import binlog_column
from binlog_merge.merge.convert import ConversionError, make_converter
from binlog_merge.merge.reshape_pads import encode_now, pad_cell, pads_now
from snapshot_store.diff import column_map
from snapshot_store.model import Table


def refusals(physical: Table, logical: Table) -> tuple[str, ...]:
    """Return the reasons for which a merge stops at any row of the one table, in the other's order of columns.

    None does not mean that every value fits: a long text in a short column shows only when it comes.
    """
    found = []
    for entry in column_map(physical, logical).entries:
        column = logical.columns[entry.logical_index]
        try:
            if entry.physical_index is not None:
                if not entry.same_type:
                    before = physical.columns[entry.physical_index]
                    make_converter(before, column, binlog_column(before))
            elif pads_now(column):
                encode_now(column, 0)
            else:
                pad_cell(column, logical.columns)
        except MergeError as error:
            found.append(error.message)
        except ConversionError as error:
            found.append(f"column {column.name}: {error}")
    return tuple(found)
