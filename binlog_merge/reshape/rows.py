"""Rewrites rows events in the logical table's shape; cells are copied as bytes and decoded only to be converted.

    present bitmaps   mapped: a column the image does not hold stays absent
    padded columns    held by every after image of WRITE_ROWS, by another image only if it holds all physical columns;
                      those of the logical table's key by every before image, which tells the row by them
    null bitmaps      rebuilt; bits after the last column are 0
    partial JSON      differences stay as they are, their bits go to the logical JSON columns

This is the Python twin of the compiled kernel: it yields the same bytes, one row at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from binlog_merge.binlog.constants import WRITE_TYPES
from binlog_merge.binlog.rows import ABSENT, Cell, PartialJson, RowImage, RowsEvent, iter_rows, join_rows
from binlog_merge.binlog.rows import present_columns as bits_of
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import Civil
from binlog_merge.binlog.wire import pack_uint
from binlog_merge.reshape.pads import compute_pad, encode_now
from binlog_merge.values.convert.cells import Converter
from binlog_merge.values.convert.time import shifted
from binlog_merge.values.evaluate.row import Computed, Row
from binlog_merge.values.value import ConversionError, Value, decode_cell
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


def rewrite_rows(plan: ReshapePlan, type_code: int, body: bytes, commit_us: int) -> bytes:
    """Return the body of a rows event in the logical shape; `commit_us` fills CURRENT_TIMESTAMP pads.

    Raises BinlogFormatError for bytes that are no rows event of the plan's table, ConversionError for a value that
    its new type cannot hold.
    """
    if plan.identity:
        RowsEvent.parse(type_code, body)
        return pack_uint(plan.table_id, 6) + body[6:]
    return reshape_rows(plan, type_code, body, commit_us)[0]


def reshape_rows(plan: ReshapePlan, type_code: int, body: bytes, commit_us: int) -> tuple[bytes, int]:
    """Return the body that `rewrite_rows` returns, and the number of rows, for a plan that is not the identity."""
    try:
        return _reshape_rows(plan, type_code, body, commit_us)
    except ConversionError as error:
        raise ConversionError(f"{plan.schema}.{plan.table}: {error}") from None


def _reshape_rows(plan: ReshapePlan, type_code: int, body: bytes, commit_us: int) -> tuple[bytes, int]:
    event = RowsEvent.parse(type_code, body)
    pads = _pads(plan, commit_us)
    before, after = event.present_before, event.present_after
    out = RowsEvent(
        type_code,
        plan.table_id,
        event.flags,
        event.extra,
        len(plan.source),
        None if before is None else _mapped(plan, before, event.column_count, False, plan.tells),
        None if after is None else _mapped(plan, after, event.column_count, type_code in WRITE_TYPES),
        b"",
    )
    _check_rows_remain(plan, event, out)
    rows = [
        (
            _image(plan, row[0], out.present_before, pads, commit_us),
            _image(plan, row[1], out.present_after, pads, commit_us),
        )
        for row in iter_rows(event, _table_map(plan, plan.column_types, plan.column_metas))
    ]
    return join_rows(out, rows, _table_map(plan, plan.out_types, plan.out_metas)).pack(), len(rows)


def _table_map(plan: ReshapePlan, types: bytes, metas: tuple[int, ...]) -> TableMap:
    # Cutting and joining need types and metadata only, and the name for errors.
    return TableMap(0, 0, plan.schema, plan.table, types, metas, b"")


def _pads(plan: ReshapePlan, commit_us: int) -> list[bytes | None]:
    pads = list(plan.pads)
    for i in plan.pad_now:
        pads[i] = encode_now(plan.logical[i], commit_us, plan.offset)
    return pads


def _mapped(plan: ReshapePlan, present: bytes, count: int, insert: bool, tells: Sequence[int] = ()) -> bytes:
    """Return the columns-present bitmap of the logical image; the padded columns `tells` are in it anyway."""
    held = set(bits_of(present, count))
    padded = set(range(len(plan.source))) if insert or len(held) == count else set(tells)
    bits = sum(1 << i for i, source in enumerate(plan.source) if (i in padded if source < 0 else source in held))
    return bits.to_bytes((len(plan.source) + 7) // 8, "little")


def _check_rows_remain(plan: ReshapePlan, event: RowsEvent, out: RowsEvent) -> None:
    # With MINIMAL images a row may be identified by trimmed columns alone (a generated key, say). Without them it would
    # match any row (or any of its shard), and an insert without any cell could not even be counted.
    before = () if out.present_before is None else bits_of(out.present_before, len(plan.source))
    inserted = event.present_after if event.type_code in WRITE_TYPES else None
    for image, held, remains in (
        ("before", event.present_before, set(before) - set(plan.tells)),
        ("after", inserted, any(out.present_after or b"")),
    ):
        if held is not None and bits_of(held, event.column_count) and not remains:
            raise ConversionError(
                f"the {image} images hold only columns that the logical table lacks; "
                "set binlog_row_image=FULL on the nodes while such a column exists"
            )


def _image(
    plan: ReshapePlan, image: RowImage | None, present: bytes | None, pads: Sequence[bytes | None], commit_us: int
) -> RowImage | None:
    if image is None or present is None:
        return None
    cells: list[Cell] = [ABSENT] * len(plan.source)
    for i in bits_of(present, len(plan.source)):
        source = plan.source[i]
        cells[i] = pads[i] if source < 0 else _cell(plan, i, image[source])
    for i, expression in plan.computed:
        if cells[i] is not ABSENT:
            row = Row(_values(plan, cells, expression.columns), commit_us, plan.offset)
            cells[i] = compute_pad(plan.logical[i], expression, row)
    return tuple(cells)


def _values(plan: ReshapePlan, cells: Sequence[Cell], names: frozenset[str]) -> dict[str, Value | None]:
    """Return the values of the named columns that the image holds, by lower-cased name."""
    values: dict[str, Value | None] = {}
    for column, cell in zip(plan.logical, cells, strict=True):
        if column.name.lower() in names and isinstance(cell, bytes | bytearray | memoryview | None):
            value = None if cell is None else decode_cell(column.type, bytes(cell))
            if column.type.name == "timestamp" and isinstance(value, Civil):
                value = shifted(value, plan.offset)
            values[column.name.lower()] = value
    return values


def _cell(plan: ReshapePlan, i: int, cell: Cell) -> Cell:
    converter = plan.convert[i]
    if converter is None or cell is ABSENT:
        return cell
    if isinstance(cell, PartialJson):
        if converter.bytes_pass:
            return cell
        raise ConversionError(
            f"column {plan.logical[i].name}: a partial JSON update cannot be converted to "
            "another type; set binlog_row_value_options='' on the nodes while the column is modified"
        )
    assert not isinstance(cell, type(ABSENT))
    return converter(None if cell is None else bytes(cell))
