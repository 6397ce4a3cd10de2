"""Reading back what a real server wrote: the row images of its binlog, as cells."""

from pathlib import Path

from binlog_merge.binlog.constants import ROWS_TYPES, EventType
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.rows import Cell, RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap


def rows_of(path: Path) -> dict[str, list[list[bytes | None]]]:
    """Return the row images of each table in the order they were written, before and after images alike."""
    found: dict[str, list[list[bytes | None]]] = {}
    maps: dict[int, TableMap] = {}
    for event in walk(path.read_bytes(), path.name):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            maps[table_map.table_id] = table_map
        elif event.type_code in ROWS_TYPES:
            rows = RowsEvent.parse(event.type_code, event.body)
            table_map = maps[rows.table_id]
            images = [image for row in split_rows(rows, table_map) for image in row if image is not None]
            found.setdefault(table_map.table, []).extend([_plain(cell) for cell in image] for image in images)
    return found


def _plain(cell: Cell) -> bytes | None:
    return None if cell is None else bytes(cell)  # type: ignore[arg-type]
