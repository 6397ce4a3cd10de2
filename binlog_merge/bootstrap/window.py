"""Which tables' rows, read while the log went on, cannot be made right by applying it: a new round reads them again.

A statement on the table: rows that were read before and after it are not of one table.

    INSERT k …, DELETE k …            in one transaction, where what is taken away is not what was given
    UPDATE j -> k, UPDATE k -> l      or DELETE and INSERT for either

And a row that moved to another shard, if the log has its new place first: the branches of a transaction for which the
merge found no order that keeps keys unique stand in the order of nodes (`key-doubts: warn`). A target
that has the row would refuse the INSERT; one that takes every row as it comes would lose it.

    INSERT k …, DELETE k …            where both are the same to the byte; or UPDATE for either, as above

That is a row that came and went on one shard, or one that moved unchanged. It is taken to be gone, and is `doubted` if
several shards may have had a part in the transaction.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.bootstrap.values import Name
from binlog_merge.log.changes import Changes, changes_of
from binlog_merge.log.log import Log
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.log.statement import StatementSession
from binlog_merge.tables.ddl import understood
from binlog_merge.tables.rows import keys_of
from binlog_merge.targets.server.statements import plan_statement
from snapshot_store.model import Catalog


@dataclass(frozen=True, slots=True)
class Window:
    """The tables that are to be copied again, and the others of which a row is taken to be gone that may have moved."""

    again: frozenset[Name]
    doubted: frozenset[Name]


def judged(binlog: Log, low: int, high: int, copied: Iterable[Name], catalog: Catalog, zone: str | None) -> Window:
    """Return what of the log behind `low` and up to `high` does not let tables be made right.

    `copied` are those that are being copied, `catalog` has all as they are at `low`, `zone` is the nodes' time zone.
    What statements make of copied tables is in the answer, too, under its new name.
    """
    concerned, found, doubted = set(copied), set[Name](), set[Name]()
    for piece in segments(binlog, low + 1, high) if high > low else ():
        if isinstance(piece, StatementAt):
            named = plan_statement(piece.statement, None).tables
            whole = {schema for schema, table in named if not table}
            changed = {name for name in concerned if name in named or name[0] in whole}
            if changed:
                changed |= {(schema, table) for schema, table in named if table}
                concerned |= changed
                found |= changed
            ddl = piece.statement.ddl_in(StatementSession.of(piece.statement, zone).ddl)
            _, catalog = understood(catalog, ddl, piece.statement.schema)
            continue
        for changes in changes_of(piece):
            name = (changes.table.schema, changes.table.table)
            table = catalog.get(*name)
            key = None if table is None or name in found else next(keys_of(table), None)
            if key is not None:
                moved = key_moves(changes, key)
                found |= {name} if moved.certain else set()
                doubted |= {name} if moved.possible else set()
    return Window(frozenset(found), frozenset(doubted - found))


class KeyMoves(NamedTuple):
    """Whether a transaction gives a key to a row, and then takes it from another one, or may have done so."""

    certain: bool
    possible: bool


def key_moves(changes: Changes, key: list[int]) -> KeyMoves:
    """Return whether keys move between rows within transactions; `key` are the indexes of the key's columns."""
    inserts, deletes = changes.rows_of("insert"), changes.rows_of("delete")
    given = inserts | _keys_changed(changes, key, ~(inserts | deletes))
    of_row = changes.segment.events[changes.events, k.E_TRANSACTION][changes.cut.events]
    both = np.intersect1d(of_row[given], of_row[~inserts])
    unclear = False
    for rows in _rows_of(of_row, both):
        moved, same = _given_first(changes, key, inserts, deletes, rows)
        if moved:
            return KeyMoves(True, False)
        order = changes.segment.key(int(of_row[rows[0]]))
        unclear |= same and (order is None or not order.seq)  # a `seq` is that of a transaction of one shard
    return KeyMoves(False, unclear)


def _keys_changed(changes: Changes, key: list[int], updates: Any) -> Any:
    changed = np.zeros(len(updates), bool)
    for row in np.flatnonzero(updates).tolist():
        changed[row] = _image(changes, key, BEFORE, row) != _image(changes, key, AFTER, row)
    return changed


def _rows_of(of_row: Any, transactions: Any) -> Iterator[list[int]]:
    """Yield the rows of each of some transactions, in order."""
    rows = np.flatnonzero(np.isin(of_row, transactions))
    ordered = rows[np.argsort(of_row[rows], kind="stable")]
    if len(ordered):
        for part in np.split(ordered, np.flatnonzero(np.diff(of_row[ordered])) + 1):
            yield part.tolist()


def _given_first(changes: Changes, key: list[int], inserts: Any, deletes: Any, rows: list[int]) -> tuple[bool, bool]:
    """Return whether one of a transaction's rows contradicts those before it, and whether one goes as it was given."""
    every, same = list(range(changes.cut.sizes.shape[1])), False
    written: dict[Any, Any] = {}
    for row in rows:
        if not inserts[row]:
            image, known = _image(changes, every, BEFORE, row), _image(changes, key, BEFORE, row)
            if written.get(known, image) != image:
                return True, same
            goes = deletes[row] or _image(changes, key, AFTER, row) != known
            same |= bool(goes) and known in written
            written.pop(known, None)
        if not deletes[row]:
            written[_image(changes, key, AFTER, row)] = _image(changes, every, AFTER, row)
    return False, same


def _image(changes: Changes, columns: list[int], side: int, row: int) -> tuple[Any, ...]:
    cut = changes.cut
    cells = []
    for column in columns:
        start, size = int(cut.starts[side, column, row]), int(cut.sizes[side, column, row])
        cells.append((size, bytes(cut.buffer[start : start + size]) if size > 0 else b""))
    return tuple(cells)
