"""Replaces partial JSON updates, which the kernels that cut rows do not know, by updates with whole values."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.json_diff import whole_row
from binlog_merge.binlog.rows import PartialJson, Row, RowsEvent, iter_rows, join_rows
from binlog_merge.binlog.table_map import TableMap

_PARTIAL: Final = int(EventType.PARTIAL_UPDATE_ROWS_EVENT)


def with_whole_json(table_map: TableMap, source: Any, places: Any, wanted: frozenset[int]) -> tuple[Any, Any]:
    """Return the events with partial JSON updates replaced by whole values in the columns wanted, by NULL in others.

    `places` are (begin, end, type) of the events' bodies in `source`.
    """

    def whole(row: Row) -> Row:
        before, after = row
        assert after is not None
        cells = (None if isinstance(c, PartialJson) and i not in wanted else c for i, c in enumerate(after))
        return whole_row((before, tuple(cells)), table_map)

    bodies = []
    for begin, end, kind in places.tolist():
        body = source[begin:end].tobytes()
        if kind == _PARTIAL:
            event = RowsEvent.parse(kind, body)
            rows = [whole(row) for row in iter_rows(event, table_map)]
            body = join_rows(replace(event, type_code=int(EventType.UPDATE_ROWS_EVENT)), rows, table_map).pack()
        bodies.append(body)
    ends = np.cumsum([len(body) for body in bodies])
    kinds = np.where(places[:, 2] == _PARTIAL, int(EventType.UPDATE_ROWS_EVENT), places[:, 2])
    return np.frombuffer(b"".join(bodies), np.uint8), np.stack([ends - [len(b) for b in bodies], ends, kinds], axis=1)
