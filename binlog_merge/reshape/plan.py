"""The plan by which rows of one physical table become rows of the logical one, worked out once per table map."""

from dataclasses import dataclass

from binlog_merge.values.convert import Converter
from binlog_merge.values.evaluate.row import Computed
from snapshot_store.model import Column


@dataclass(frozen=True, slots=True)
class ReshapePlan:
    """What to do with each column of every rows event behind one table map; a plain value, so it travels.

    `identity`: row images pass as they are, only the table id changes. Else, for each logical column: `source` is the
    physical column its cell comes from or -1 for a pad, `pads` is the pad's cell (None = NULL; None too where there is
    a source), `convert` changes the cell on its way. `pad_now` are the padded columns whose value is the commit time:
    their pad is `encode_now(logical[i], commit_us, offset)`, `offset` being the time zone's in minutes.
    `computed` are the padded columns whose value an expression gives, row by row. `needs_slow_path`: some cell depends
    on more than its own bytes.

    `schema` and `table` are the physical names; `column_types` and `column_metas` are the physical table map's,
    `out_types` and `out_metas` the logical one's.
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
