"""The rows of a merged binlog as a change log in Arrow: a record for each row, with its values before and after.

| column | type |
|---|---|
| `op` | string: insert, update, delete |
| `rank` | int64: the rank of the transaction |
| `gtid` | string |
| `commit_tso`, `order_key` | uint64, string; null if the output does not have them |
| `committed_at` | timestamp[us, UTC] |
| `before`, `after` | struct of the table's columns (types: `binlog.arrow`), null if the row did not exist |

A column that an image does not hold (binlog_row_image MINIMAL) is null in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.rows import Row, RowImage
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.whole_rows import whole_row
from binlog_merge.binlog.zero_dates import REMEDY, STOP, ZeroDates
from binlog_merge.errors import ConversionFailed
from binlog_merge.filters.tables import ColumnFilter
from binlog_merge.log.reader import Begin
from snapshot_store.tso import OrderKey


@dataclass
class ChangeBuffer:
    """Collects changes of a table with the same columns, until there are enough for a file.

    `names` are the columns' names; `columns` selects some of them; `temporal_text`: dates and times are MySQL's text,
    else `zero_dates` says what becomes of dates that no calendar has.
    """

    table: TableMap
    names: Sequence[str]
    columns: ColumnFilter | None = None
    temporal_text: bool = False
    zero_dates: ZeroDates = STOP
    facts: list[tuple[str, int, str, int | None, str | None, int]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add(self, op: str, begin: Begin, key: OrderKey | None, rows: Sequence[Row]) -> None:
        """Add the rows of an event."""
        tso, text = (None, None) if key is None else (key.commit_tso, key.text())
        self.facts += [(op, begin.rank, begin.gtid, tso, text, begin.commit_us)] * len(rows)
        self.rows += [whole_row(row, self.table) for row in rows]

    def to_arrow(self) -> Any:
        """Return the changes as a table. Raises ConversionFailed for a date that Arrow cannot represent."""
        types = (pa.string(), pa.int64(), pa.string(), pa.uint64(), pa.string(), pa.timestamp("us", tz="UTC"))
        names = ("op", "rank", "gtid", "commit_tso", "order_key", "committed_at")
        facts = [pa.array(values, kind) for values, kind in zip(zip(*self.facts, strict=True), types, strict=True)]
        sides = [self._side([row[side] for row in self.rows]) for side in (0, 1)]
        return pa.table([*facts, *sides], names=[*names, "before", "after"])

    def _side(self, images: Sequence[RowImage | None]) -> Any:
        nothing: RowImage = (None,) * len(self.names)
        try:
            batch = rows_to_batch(
                [nothing if image is None else image for image in images],
                self.table,
                self.names,
                temporal_text=self.temporal_text,
                zero_dates=self.zero_dates,
            )
        except (CellValueError, BinlogFormatError) as error:
            raise ConversionFailed(
                f"{self.table.schema}.{self.table.table}: {error}",
                remedy=REMEDY,
            ) from None
        chosen = [i for i, name in enumerate(self.names) if self.columns is None or self.columns.matches(name)]
        return pa.StructArray.from_arrays(
            [batch.column(i) for i in chosen],
            fields=[batch.schema.field(i) for i in chosen],
            mask=pa.array([image is None for image in images]),
        )
