"""The plan for rewriting rows of one physical table as rows of the logical table, made once per table map."""

from dataclasses import dataclass

from binlog_merge.values.convert.cells import Converter
from binlog_merge.values.evaluate.row import Computed
from snapshot_store.model import Column


@dataclass(frozen=True, slots=True)
class ReshapePlan:
    """What to do with each column of the rows events that use one table map; a plain value, sent to executors.

    `identity`: row images pass unchanged, only the table id changes. Otherwise, per logical column: `source` is the
    physical column its cell comes from, -1 for a pad; `pads` is the pad's cell (None is NULL, and also used where there
    is a source); `convert` converts the cell, None if it is copied. `pad_now` are the padded columns whose value is the
    commit time: their pad is `encode_now(logical[i], commit_us, offset)`, `offset` being the time zone's offset in
    minutes. `computed` are the padded columns whose value an expression gives, row by row. `needs_slow_path`: some cell
    depends on more than its own bytes. `tells` are the padded columns of the logical table's key: every before image
    holds them.

    `schema` and `table` are the physical names. `column_types` and `column_metas` are those of the physical table map,
    `out_types` and `out_metas` those of the logical one.
    """

    schema: str
    table: str
    table_id: int
    identity: bool
    needs_slow_path: bool
    out_table_map_body: bytes
    column_types: bytes
    column_metas: tuple[int, ...]
    out_types: bytes
    out_metas: tuple[int, ...]
    source: tuple[int, ...]
    pads: tuple[bytes | None, ...]
    pad_now: tuple[int, ...]
    convert: tuple[Converter | None, ...]
    logical: tuple[Column, ...]
    offset: int = 0
    computed: tuple[tuple[int, Computed], ...] = ()
    tells: tuple[int, ...] = ()
