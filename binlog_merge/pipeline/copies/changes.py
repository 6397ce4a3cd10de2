"""The changes of copies in a node's log: which rows of which table, by digests that do not depend on the node.

Values are compared by column names. What a node's own clock gives is left out (DEFAULT or ON UPDATE CURRENT_TIMESTAMP),
as is a value that is its column's default: a row is the same before and after the node gets a new column.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from binlog_merge.binlog.constants import ROWS_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.rows import ABSENT, Cell, PartialJson, RowImage, RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ChecksumMismatch, UnsupportedInput
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import read_group
from binlog_merge.pipeline.coordinate.read_again import keys_of
from binlog_merge.reshape.pads import constant_pad
from binlog_merge.reshape.witness import check_witness
from binlog_merge.values.from_table_map import table_from_table_map
from binlog_merge.values.value import ConversionError, decode_cell
from snapshot_store.model import Column, Table
from snapshot_store.tso import OrderKey

Name = tuple[str, str]
Definition = Callable[[Name, OrderKey], Table | None]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of one row of a node's table: its digest, and what it is: "update of code='FR'"."""

    table: Name
    key: OrderKey
    digest: str
    what: str


def changes_in(
    node: ScannedNode, chosen: Callable[[Name], bool], floor: OrderKey, end: OrderKey, definition: Definition
) -> Iterator[RowChange]:
    """Yield the changes of a node's chosen tables with floor <= key < end; `definition` gives their definitions."""
    for key, index, start, stop in sorted(set(_groups(node, chosen))):
        if not floor <= key < end:
            continue
        file = node.input.files[index]
        try:
            yield from _changes(
                read_group(node.input, index, start, stop), file.checksum_alg == 1, key, chosen, definition
            )
        except BinlogFormatError as error:
            raise ChecksumMismatch(
                f"rows cannot be read: {error.reason}",
                node=node.source_id,
                file=file.path,
                position=start,
                order_key=key,
            ) from None


def _groups(node: ScannedNode, chosen: Callable[[Name], bool]) -> Iterator[tuple[OrderKey, int, int, int]]:
    """Yield (key, file, start, end) of the branches that change one of the chosen tables."""
    for edge in node.edges:
        if any(map(chosen, edge.tables)):
            yield edge.key, edge.file_index, edge.start, edge.end
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        sets = [number for number, tables in enumerate(block.sets) if any(map(chosen, tables))]
        if not sets:
            continue
        columns, _ = block.local()
        touching = np.flatnonzero(np.isin(columns["set"], sets)).tolist()
        yield from ((key, piece.file_index, start, end) for key, start, end, _ in keys_of(block, touching))
        columns = block.timed()
        for i in np.flatnonzero(np.isin(columns["set"], sets)).tolist():
            key = OrderKey(int(columns["tso"][i]), int(columns["transaction"][i]), 0, 0)
            yield key, piece.file_index, int(columns["start"][i]), int(columns["end"][i])


def _changes(
    data: bytes, checksum: bool, key: OrderKey, chosen: Callable[[Name], bool], definition: Definition
) -> Iterator[RowChange]:
    maps: dict[int, tuple[TableMap, Table | None]] = {}
    for event in transaction_events(data, checksum):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            name = (table_map.schema, table_map.table)
            maps.pop(table_map.table_id, None)
            if chosen(name):
                maps[table_map.table_id] = (table_map, _known(definition(name, key), table_map))
        elif event.type_code in ROWS_TYPES:
            rows = RowsEvent.parse(event.type_code, event.body)
            if rows.table_id in maps:
                table_map, table = maps[rows.table_id]
                for before, after in iter_rows(rows, table_map):
                    yield row_change(table_map, table, key, event.type_code in WRITE_TYPES, before, after)


def _known(table: Table | None, table_map: TableMap) -> Table | None:
    if table is not None and check_witness(table, table_map) is None:
        return table
    return table_from_table_map(table_map)


def row_change(
    table_map: TableMap,
    table: Table | None,
    key: OrderKey,
    inserts: bool,
    before: RowImage | None,
    after: RowImage | None,
) -> RowChange:
    """Return a row's change; without a `table`, columns are told by their numbers and values by their bytes."""
    images = [None if image is None else _values(table, image) for image in (before, after)]
    verb = "insert" if inserts else "delete" if after is None else "update"
    digest = hashlib.blake2b(repr((verb, *images)).encode(), digest_size=12).hexdigest()
    found = before if after is None or not inserts else after
    what = f"{verb} of {_told(table, found or ())}"
    return RowChange((table_map.schema, table_map.table), key, digest, what)


def _values(table: Table | None, image: RowImage) -> list[tuple[str, str]]:
    columns: Sequence[Column | None] = [None] * len(image) if table is None else table.columns
    named = enumerate(zip(columns, image, strict=True))
    return sorted(
        (str(i) if column is None else column.name.lower(), _text(column, cell))
        for i, (column, cell) in named
        if cell is not ABSENT and not (column is not None and _left_out(column, cell))
    )


def _left_out(column: Column, cell: Cell) -> bool:
    """Return whether a value says nothing: it is the node's clock's, computed from others, or the default."""
    clock = column.default is not None and column.default.kind == "now"
    if clock or column.on_update_now or column.generated is not None:
        return True
    try:
        pad = constant_pad(column)
    except UnsupportedInput:
        return False
    return (cell is None) if pad is None else isinstance(cell, bytes | memoryview) and bytes(cell) == pad


def _text(column: Column | None, cell: Cell) -> str:
    if isinstance(cell, PartialJson):
        return repr(bytes(cell.cell))
    if not isinstance(cell, bytes | bytearray | memoryview):
        return "NULL"
    try:
        return bytes(cell).hex() if column is None else repr(decode_cell(column.type, bytes(cell)))
    except ConversionError:
        return bytes(cell).hex()


def _told(table: Table | None, image: RowImage) -> str:
    """Return a row as a reader knows it: by its key, or whole if it has none."""
    if table is None:
        return "a row"
    key = table.primary_key
    names = [part.column.lower() for part in key.parts if part.column is not None] if key is not None else []
    cells = [(c, cell) for c, cell in zip(table.columns, image, strict=True) if cell is not ABSENT]
    shown = [(c, cell) for c, cell in cells if c.name.lower() in names] or cells
    return ", ".join(f"{column.name}={_text(column, cell)[:60]}" for column, cell in shown[:8])
