"""Makes the reshape plan: physical columns are matched with logical ones by name, then copied, converted or padded.

    physical   id  name  added        trimmed: added      the logical table lacks it
    logical    name  id  dropped      padded:  dropped    the physical table lacks it
                                      order:   name, id   a type that differs is converted

The plan is made once per table map and then only bytes move. Where both tables have the same columns in the same
order, row images pass untouched, and of the table map only id and names change.

Why rows cannot be reshaped is found without having any: the planning is run for each column.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import MergeError
from binlog_merge.reshape.metadata import from_definition, from_source, logical_metadata
from binlog_merge.reshape.pads import compute_pad, constant_pad, encode_now, pad_cell, pads_now
from binlog_merge.reshape.rows import ReshapePlan, reshape_rows, rewrite_rows
from binlog_merge.values.convert.cells import (
    DEFAULT_OPTIONS,
    ConversionError,
    Converter,
    ReshapeOptions,
    make_converter,
    passes,
)
from binlog_merge.values.evaluate.row import Computed, Row
from binlog_merge.values.types import binlog_column
from snapshot_store.diff import column_map
from snapshot_store.model import Column, Table

__all__ = ["ColumnPlan", "ReshapePlan", "encode_now", "make_plan", "plan_column", "reshape_rows", "rewrite_rows"]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How a logical column gets its cells: copied (`kept`), converted, or padded (`pad` None is NULL)."""

    kept: bool = False
    convert: Converter | None = None
    pad: bytes | Computed | None = None
    pads_now: bool = False


def plan_column(
    physical: Table,
    logical: Table,
    i: int,
    at: int,
    actual: Sequence[tuple[int, int]],
    options: ReshapeOptions = DEFAULT_OPTIONS,
) -> ColumnPlan:
    """Return the plan of logical column `i`, made from physical column `at`, or padded if `at` is -1.

    `actual` are (type, metadata) of the physical columns, as the table map records them. Raises UnsupportedInput if a
    conversion is not possible or a pad cannot be determined.
    """
    column = logical.columns[i]
    if at < 0:
        now = pads_now(column)
        return ColumnPlan(pad=None if now else pad_cell(column, logical.columns), pads_now=now)
    if passes(physical.columns[at], column):
        return ColumnPlan(kept=True)
    default = constant_pad(column) if options.policy == "default" else None
    return ColumnPlan(convert=make_converter(physical.columns[at], column, actual[at], options, default))


def make_plan(
    table_map: TableMap,
    physical: Table,
    logical: Table,
    table_id: int,
    options: ReshapeOptions = DEFAULT_OPTIONS,
) -> ReshapePlan:
    """Return the plan for rows that use `table_map`, which must agree with `physical` (see `witness.check_witness`).

    Raises UnsupportedInput if a pad or a conversion is not possible.
    """
    columns = column_map(physical, logical)
    source = tuple(-1 if e.physical_index is None else e.physical_index for e in columns.entries)
    actual = tuple(zip(table_map.types, table_map.metas, strict=True))
    made = [plan_column(physical, logical, i, at, actual, options) for i, at in enumerate(source)]
    kept = tuple(plan.kept for plan in made)
    identity = columns.identity and all(kept)
    key = _key_of(logical)
    out = table_map
    if not (identity and _names_agree(table_map, logical)):
        out = _reshaped(table_map, logical, kept, source, key if logical.primary_key is not None else ())
    out = replace(out, table_id=table_id, schema=logical.schema, table=logical.name)
    pad_now = tuple(i for i, plan in enumerate(made) if plan.pads_now)
    computed = tuple((i, plan.pad) for i, plan in enumerate(made) if isinstance(plan.pad, Computed))
    convert = tuple(plan.convert for plan in made)
    return ReshapePlan(
        schema=table_map.schema,
        table=table_map.table,
        table_id=table_id,
        identity=identity,
        needs_slow_path=bool(pad_now or computed) or any(convert),
        out_table_map_body=out.pack(),
        column_types=table_map.types,
        column_metas=table_map.metas,
        out_types=out.types,
        out_metas=out.metas,
        source=source,
        pads=tuple(plan.pad if isinstance(plan.pad, bytes) else None for plan in made),
        pad_now=pad_now,
        convert=convert,
        logical=logical.columns,
        offset=options.offset,
        computed=computed,
        tells=tuple(i for i in key if source[i] < 0 and isinstance(made[i].pad, bytes)),
    )


def _key_of(table: Table) -> tuple[int, ...]:
    """Return the columns by which MySQL tells a table's rows apart: those of the primary key, or of the first unique
    one without NULL.
    """
    return next(map(table.places, table.row_keys), None) or ()


def _names_agree(table_map: TableMap, logical: Table) -> bool:
    """Return whether the names in a table map are the logical columns': a shard may have renamed one for a while."""
    names = table_map.optional.column_names if table_map.optional else None
    return names is None or all(column.same_name(name) for column, name in zip(logical.columns, names, strict=True))


def _reshaped(
    table_map: TableMap, logical: Table, kept: Sequence[bool], source: Sequence[int], key: Sequence[int]
) -> TableMap:
    """Return the table map with the logical columns; its names and table id are still the source's."""
    known = from_source(table_map)
    out = [
        replace(known[source[i]], name=column.name) if kept[i] else from_definition(column)
        for i, column in enumerate(logical.columns)
    ]
    nullable = sum(1 << i for i, column in enumerate(out) if column.nullable)
    mapped = replace(
        table_map,
        types=bytes(column.type for column in out),
        metas=tuple(column.meta for column in out),
        null_bitmap=nullable.to_bytes((len(out) + 7) // 8, "little"),
    )
    optional = table_map.optional
    return mapped.with_optional(None if optional is None else logical_metadata(optional, out, source, key))


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
