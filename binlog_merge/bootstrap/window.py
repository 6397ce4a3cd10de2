"""What the log holds between two transactions by which a table's rows, read meanwhile, cannot be made right.

A statement on the table: rows that were read before and after it are not of one table.

    INSERT k …, DELETE k …    in one transaction, where what is deleted is not what was inserted

And a row that moved to another shard, if the log has its new place first: the branches of a transaction whose order
nothing tells stand in the order of nodes. A target that has the row would refuse the INSERT; one that takes every row
as it comes would lose it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.bootstrap.values import Name
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.replay.changes.changes_bulk import Changes, changes_of
from binlog_merge.replay.duckdb.rows import keys_of
from binlog_merge.replay.server.statements import plan_statement
from snapshot_store.model import Catalog


def not_made_right(binlog: MergedBinlog, low: int, high: int, copied: Iterable[Name], catalog: Catalog) -> set[Name]:
    """Return the tables that are to be copied again because of the log behind `low` and up to `high`.

    `copied` are those that are being copied, `catalog` has them as they are at `low`. What statements make of them is
    in the answer, too, under its new name.
    """
    concerned, found = set(copied), set[Name]()
    for piece in segments(binlog, low + 1, high) if high > low else ():
        if isinstance(piece, StatementAt):
            named = plan_statement(piece.statement, None).tables
            whole = {schema for schema, table in named if not table}
            changed = {name for name in concerned if name in named or name[0] in whole}
            if changed:
                changed |= {(schema, table) for schema, table in named if table}
                concerned |= changed
                found |= changed
            continue
        for changes in changes_of(piece):
            name = (changes.table.schema, changes.table.table)
            table = catalog.get(*name)
            if name in concerned and name not in found and table is not None and moved(changes, next(keys_of(table))):
                found.add(name)
    return found


def moved(changes: Changes, key: list[int]) -> bool:
    """Return whether a transaction inserts a key and then deletes another row with this key."""
    inserts, deletes = changes.rows_of("insert"), changes.rows_of("delete")
    of_row = changes.segment.events[changes.events, k.E_TRANSACTION][changes.cut.events]
    both = np.intersect1d(of_row[inserts], of_row[deletes])
    return any(_inserted_first(changes, key, inserts, deletes, rows) for rows in _rows_of(of_row, both))


def _rows_of(of_row: Any, transactions: Any) -> Iterator[list[int]]:
    """Yield the rows of each of some transactions, in order."""
    rows = np.flatnonzero(np.isin(of_row, transactions))
    ordered = rows[np.argsort(of_row[rows], kind="stable")]
    if len(ordered):
        for part in np.split(ordered, np.flatnonzero(np.diff(of_row[ordered])) + 1):
            yield part.tolist()


def _inserted_first(changes: Changes, key: list[int], inserts: Any, deletes: Any, rows: list[int]) -> bool:
    every = list(range(changes.cut.sizes.shape[1]))
    written: dict[Any, Any] = {}
    for row in rows:
        if not inserts[row]:
            image = _image(changes, every, BEFORE, row)
            before = written.pop(_image(changes, key, BEFORE, row), image)
            if deletes[row] and before != image:
                return True
        if not deletes[row]:
            written[_image(changes, key, AFTER, row)] = _image(changes, every, AFTER, row)
    return False


def _image(changes: Changes, columns: list[int], side: int, row: int) -> tuple[Any, ...]:
    cut = changes.cut
    found = []
    for column in columns:
        start, size = int(cut.starts[side, column, row]), int(cut.sizes[side, column, row])
        found.append((size, bytes(cut.buffer[start : start + size]) if size > 0 else b""))
    return tuple(found)
