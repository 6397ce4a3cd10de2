"""A table carried back: the rows of a base made after the moment, and the log's changes undone, last one first.

A row that was inserted goes, one that was deleted comes back, one that was updated becomes its image before. So images
must be whole (binlog_row_image FULL), and a statement on the table is passed over only if it leaves every row as it is,
as with `flashback --across-ddl`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from binlog_merge.binlog.json_diff import NoDocument
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import ConfigError, UndoRefused
from binlog_merge.log.changes import Changes, changes_of
from binlog_merge.log.log import Log
from binlog_merge.log.rows import TableShapes
from binlog_merge.log.segments import Segment, StatementAt, segments
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.log.versions import versions_between
from binlog_merge.tables.load import catalog_at, unlogged_changes
from binlog_merge.tables.rows import RowRefused, TableWriter
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.time_travel.bases import Found, Made, Name, not_there
from binlog_merge.time_travel.blocks import Waiting
from binlog_merge.time_travel.passable_ddl import Written
from binlog_merge.time_travel.selection import Reader, Selected
from binlog_merge.time_travel.statements import check_undoable
from binlog_merge.values.types import facts_of
from snapshot_store.model import Catalog, Table


@dataclass(frozen=True, slots=True)
class _Inverse:
    """Changes of a table with this definition, the last one first and their images swapped."""

    changes: Changes
    table: Table


def carried_back(binlog: Log, target: DuckdbTarget, history: TableShapes, name: Name, rank: int, base: Found) -> Made:
    """Make a table as it was behind transaction `rank` of a base that stands behind it, in a new file.

    Raises UndoRefused if the log does not hold enough for that, UnknownTable, and as reading the log does.
    """
    first = rank + 1
    binlog.check_there(first)
    versions = versions_between(binlog, *name, first, base.rank)
    selected = Selected((versions,), first, base.rank, across_ddl=True, written=Written.KEPT)
    reader = Reader(binlog, selected)
    try:
        return _made(binlog, target, history, reader, base)
    except (UndoRefused, NoDocument) as error:
        raise UndoRefused(
            f"{'.'.join(name)} cannot be carried back from transaction {base.rank} to {rank}: {error.message}",
            file=error.file,
            position=error.position,
            order_key=error.order_key,
            remedy="give --base a file, a snapshot or a dump from before the moment; none if the log creates it",
        ) from None


def _made(binlog: Log, target: DuckdbTarget, history: TableShapes, reader: Reader, base: Found) -> Made:
    first, (versions,) = reader.selected.first, reader.selected.tables
    name = (versions.schema, versions.name)
    with Waiting[list[_Inverse]]() as waiting:
        doubts, statements = [*base.doubts], 0
        for piece in segments(binlog, first, base.rank):
            if isinstance(piece, StatementAt):
                statements += 1
                reader.pass_over(piece)
                continue
            doubts += [text for text in _unlogged(piece, name, base.catalog) if text not in doubts]
            for chosen in reader.chosen_in(piece):
                waiting.add([_inverse(each) for each in chosen])
        table = _begin(binlog, target, history, name, first - 1, base, statements)
        for inverses in waiting.backwards():
            for inverse in reversed(inverses):
                _write(target, table, inverse)
    passed = tuple(f"passed over, for it leaves the rows as they are: {text}" for text in reader.passed)
    return Made(target, target.as_kept(table), base, first - 1, tuple(doubts), passed)


def _unlogged(segment: Segment, name: Name, catalog: Catalog | None) -> Iterator[str]:
    """Yield what servers have changed in the table by foreign keys without logging it."""
    table = None if catalog is None else catalog.get(*name)
    if table is None or catalog is None or not table.foreign_keys:
        return
    for changes in changes_of(segment):
        own = f"{'.'.join(name)}:"
        yield from (text for text in unlogged_changes(changes, catalog) if text.startswith(own))


def _inverse(chosen: TableChanges) -> _Inverse:
    """Return what undoes rows, with no more bytes than it takes. Raises UndoRefused if their images are not whole."""
    check_undoable(chosen)
    changes, cut = chosen.changes, chosen.cut
    bodies = changes.segment.events[changes.events]
    begins, ends = bodies[:, k.E_BODY], bodies[:, k.E_END]
    buffer = np.concatenate([cut.buffer[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])
    moved = begins - (np.cumsum(ends - begins) - (ends - begins))
    starts = (cut.starts - moved[cut.events]).astype(cut.starts.dtype)
    backwards = replace(
        cut,
        buffer=buffer,
        starts=np.ascontiguousarray(starts[::-1, :, ::-1]),
        sizes=np.ascontiguousarray(cut.sizes[::-1, :, ::-1]),
        events=np.ascontiguousarray(cut.events[::-1]),
    )
    without_bytes = replace(changes.segment, buffer=np.empty(0, np.uint8))
    return _Inverse(changes.with_cut(without_bytes, backwards), chosen.table)


def _begin(
    binlog: Log,
    target: DuckdbTarget,
    history: TableShapes,
    name: Name,
    rank: int,
    base: Found,
    statements: int,
) -> Table:
    """Begin the file with the table as it was defined at the moment, and the base's rows; return the table."""
    known = base.catalog is not None and not statements
    catalog = base.catalog if known and base.catalog is not None else catalog_at(binlog, history, rank, None)
    table = catalog.get(*name)
    if table is None:
        raise not_there(name, catalog)
    target.start_at(rank, catalog, lambda *each: each == name)
    if (base.only and name not in base.only) or name not in base.rows.fill(target, {name: table}):
        raise ConfigError(
            f"--base: the file does not have {'.'.join(name)}",
            file=base.path,
            remedy="give a file of all tables, or of this one",
        )
    return table


def _write(target: DuckdbTarget, table: Table, inverse: _Inverse) -> None:
    """Undo changes in the file. Raises UndoRefused if its rows are not what the log has made of them."""
    changes, then = inverse.changes, inverse.table
    here = {column.name.lower(): column.type for column in target.as_kept(table).columns}
    kept = [i for i, c in enumerate(then.columns) if here.get(c.name.lower()) == c.type]
    if len(kept) < len(here):
        raise UndoRefused("its columns were others when its rows were written")
    writer = TableWriter(target.connection, then, facts_of(then, temporal_text=True), kept, True)
    target.begin()
    try:
        writer.write(changes, np.ones(len(changes.cut), bool))
    except RowRefused as error:
        raise UndoRefused(f"the base's rows are not what the log has made of them: {error.reason}") from None
    target.connection.execute("COMMIT")
