"""Reshape: rows of a physical table in the shape of the logical one, column by column, by name.

    physical   id  name  added        trimmed: added      the logical table lacks it
    logical    name  id  dropped      padded:  dropped    the physical table lacks it
                                      order:   name, id   a type that differs is converted

The plan is made once per table map and then only bytes move. Where both tables have the same columns in the same
order, row images pass untouched, and of the table map only id and names change.
"""

from collections.abc import Sequence
from dataclasses import replace

from binlog_merge.binlog.table_map import TableMap
from binlog_merge.merge.convert import DEFAULT_OPTIONS, Converter, ReshapeOptions, make_converter, passes
from binlog_merge.merge.evaluate import Computed
from binlog_merge.merge.reshape_metadata import from_definition, from_source, logical_metadata
from binlog_merge.merge.reshape_pads import constant_pad, encode_now, pad_cell, pads_now
from binlog_merge.merge.reshape_plan import ReshapePlan
from binlog_merge.merge.reshape_rows import reshape_rows, rewrite_rows
from snapshot_store.diff import column_map
from snapshot_store.model import Column, Table

__all__ = ["ReshapePlan", "encode_now", "make_plan", "reshape_rows", "rewrite_rows"]


def make_plan(
    table_map: TableMap,
    physical: Table,
    logical: Table,
    table_id: int,
    options: ReshapeOptions = DEFAULT_OPTIONS,
) -> ReshapePlan:
    """Return the plan for rows behind `table_map`, which must agree with `physical` (see `witness.check_witness`).

    Raises UnsupportedInput where a pad or a conversion is not possible.
    """
    columns = column_map(physical, logical)
    source = tuple(-1 if e.physical_index is None else e.physical_index for e in columns.entries)
    kept = tuple(at >= 0 and passes(physical.columns[at], logical.columns[i]) for i, at in enumerate(source))
    identity = columns.identity and all(kept)
    out = table_map if identity else _reshaped(table_map, logical, kept, source)
    out = replace(out, table_id=table_id, schema=logical.schema, table=logical.name)
    pad_now = tuple(i for i, s in enumerate(source) if s < 0 and pads_now(logical.columns[i]))
    pads = {
        i: pad_cell(logical.columns[i], logical.columns) for i, s in enumerate(source) if s < 0 and i not in pad_now
    }
    computed = tuple((i, pad) for i, pad in pads.items() if isinstance(pad, Computed))
    convert = tuple(
        None if at < 0 or kept[i] else _converter(table_map, physical.columns[at], at, logical.columns[i], options)
        for i, at in enumerate(source)
    )
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
        pads=tuple(pad if isinstance(pad := pads.get(i), bytes) else None for i in range(len(source))),
        pad_now=pad_now,
        convert=convert,
        logical=logical.columns,
        offset=options.offset,
        computed=computed,
    )


def _converter(
    table_map: TableMap, physical: Column, at: int, logical: Column, options: ReshapeOptions
) -> Converter | None:
    actual = (table_map.types[at], table_map.metas[at])
    default = constant_pad(logical) if options.policy == "default" else None
    return make_converter(physical, logical, actual, options, default)


def _reshaped(table_map: TableMap, logical: Table, kept: Sequence[bool], source: Sequence[int]) -> TableMap:
    """Return the table map of the logical columns, names and id still the source's."""
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
    return mapped.with_optional(None if optional is None else logical_metadata(optional, out, source))
