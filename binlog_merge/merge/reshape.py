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
from binlog_merge.merge.convert import Converter, make_converter
from binlog_merge.merge.reshape_metadata import MapColumn, from_definition, from_source, logical_metadata
from binlog_merge.merge.reshape_pads import encode_now, pad_cell, pads_now
from binlog_merge.merge.reshape_plan import ReshapePlan
from binlog_merge.merge.reshape_rows import reshape_rows, rewrite_rows
from snapshot_store.diff import ColumnMap, column_map
from snapshot_store.model import Table

__all__ = ["ReshapePlan", "encode_now", "make_plan", "reshape_rows", "rewrite_rows"]


def make_plan(table_map: TableMap, physical: Table, logical: Table, table_id: int) -> ReshapePlan:
    """Return the plan for rows behind `table_map`, which must agree with `physical` (see `witness.check_witness`).

    Raises UnsupportedInput where a pad or a conversion is not possible.
    """
    columns = column_map(physical, logical)
    source = tuple(-1 if e.physical_index is None else e.physical_index for e in columns.entries)
    out = table_map if columns.identity else _reshaped(table_map, logical, columns, source)
    out = replace(out, table_id=table_id, schema=logical.schema, table=logical.name)
    pad_now = tuple(i for i, s in enumerate(source) if s < 0 and pads_now(logical.columns[i]))
    convert = _converters(table_map, physical, logical, columns)
    return ReshapePlan(
        schema=table_map.schema,
        table=table_map.table,
        table_id=table_id,
        identity=columns.identity,
        needs_slow_path=bool(pad_now) or any(convert),
        out_table_map_body=out.pack(),
        column_types=table_map.types,
        column_metas=table_map.metas,
        out_types=out.types,
        out_metas=out.metas,
        source=source,
        pads=tuple(pad_cell(logical.columns[i]) if s < 0 and i not in pad_now else None for i, s in enumerate(source)),
        pad_now=pad_now,
        convert=convert,
        logical=logical.columns,
    )


def _converters(
    table_map: TableMap, physical: Table, logical: Table, columns: ColumnMap
) -> tuple[Converter | None, ...]:
    found: list[Converter | None] = []
    for entry in columns.entries:
        at = entry.physical_index
        if at is None or entry.same_type:
            found.append(None)
        else:
            actual = (table_map.types[at], table_map.metas[at])
            found.append(make_converter(physical.columns[at], logical.columns[entry.logical_index], actual))
    return tuple(found)


def _reshaped(table_map: TableMap, logical: Table, columns: ColumnMap, source: Sequence[int]) -> TableMap:
    """Return the table map of the logical columns, names and id still the source's."""
    known = from_source(table_map)
    out: list[MapColumn] = []
    for entry in columns.entries:
        column = logical.columns[entry.logical_index]
        passes = entry.physical_index is not None and entry.same_type
        out.append(replace(known[source[len(out)]], name=column.name) if passes else from_definition(column))
    nullable = sum(1 << i for i, column in enumerate(out) if column.nullable)
    mapped = replace(
        table_map,
        types=bytes(column.type for column in out),
        metas=tuple(column.meta for column in out),
        null_bitmap=nullable.to_bytes((len(out) + 7) // 8, "little"),
    )
    optional = table_map.optional
    return mapped.with_optional(None if optional is None else logical_metadata(optional, out, source))
