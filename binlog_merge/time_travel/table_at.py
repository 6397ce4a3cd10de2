"""A table as it was behind a transaction: the rows of a base, and the log between, in a DuckDB file.

A base that stands before the moment is carried on: changes are applied, statements carried out. Rows of other tables
are left out, unless a statement brings them into the table (RENAME, EXCHANGE PARTITION, CREATE … SELECT). A base that
stands behind it is carried back (`carried_back`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from binlog_merge.errors import ConfigError, OutsideLog, ReplayStopped, UndoRefused
from binlog_merge.files.log_folder import STORE_NAME
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.log.rows import TableShapes
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.tables.found_there import FoundThere
from binlog_merge.tables.load import Base, load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.time_travel.bases import Found, Made, not_there
from binlog_merge.time_travel.carried_back import carried_back
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Table
from snapshot_store.store.db import Store

Name = tuple[str, str]


@contextmanager
def table_at(
    binlog: Log, name: Name, rank: int, bases: Sequence[Found], folder: Path, system_zone: str | None = None
) -> Iterator[Made]:
    """Make a table as it was behind transaction `rank`, in a new DuckDB file; dates and times are MySQL's text there.

    If it cannot be made of the first base, the next one is tried. Raises UnknownTable if it was not there, ConfigError
    if the base lacks it, UndoRefused if a base cannot be carried back, and what a replay raises.
    """
    history = history_of(binlog.directory)
    if history is None:
        raise ConfigError(f"{binlog.folder} has no schema.duckdb, which says what the tables are")
    notes: list[str] = []
    for number, base in enumerate(bases, 1):
        with ExitStack() as opened:
            file = folder / f"made-{number}.db"
            target = opened.enter_context(DuckdbTarget(file, binlog.cluster_uuid, temporal_text=True))
            try:
                if base.rank > rank:
                    made = carried_back(binlog, target, history, name, rank, base)
                else:
                    made = _carried_on(binlog, target, history, name, rank, base, system_zone)
            except _NOT_OF_THIS as error:
                if number == len(bases):
                    raise
                notes.append(f"not made of {base.path}, which is nearer: {error.message}")
                continue
            yield replace(made, notes=(*notes, *made.notes))
            return


_NOT_OF_THIS: Final = (UndoRefused, OutsideLog, ReplayStopped)


def _carried_on(
    binlog: Log,
    target: DuckdbTarget,
    history: TableShapes,
    name: Name,
    rank: int,
    base: Found,
    system_zone: str | None,
) -> Made:
    first = base.rank + 1
    alone = not _mixes(binlog, name, first, rank)
    options = ReplayOptions(
        first_rank=first if base.rank else None,
        last_rank=rank,
        without=_others(binlog, name) if alone else frozenset(),
        system_zone=system_zone,
    )
    there = FoundThere()
    given = _OnlyOf(base.rows, name) if alone else base.rows
    result = load(binlog, target, history, options, there, given, base.catalog)
    if name in there.names:
        raise ConfigError(
            f"the rows that {'.'.join(name)} had before {'the log' if not base.rank else 'the base'} are not known",
            remedy="give --base: a dump from where the log begins, or a DuckDB file that a replay keeps",
        )
    table = target.catalog.get(*name)
    if table is None:
        raise not_there(name, target.catalog)
    doubts = (*base.doubts, *result.left_out)
    return Made(target, target.as_kept(table), base, rank, doubts)


def _others(binlog: Log, name: Name) -> frozenset[Name]:
    """Return the other logical tables that the log's schema history knows."""
    with Store.open(binlog.directory / STORE_NAME, True) as store:
        versions = store.load_history().versions
    return frozenset((v.schema, v.name) for v in versions if v.node is None) - {name}


@dataclass(frozen=True)
class _OnlyOf:
    """A base of which only one table is asked; the rows of the others are taken for given, as nobody reads them."""

    base: Base
    name: Name

    @property
    def rank(self) -> int:
        """Return the base's position."""
        return self.base.rank

    def fill(self, target: DuckdbTarget, tables: Mapping[Name, Table]) -> set[Name]:
        """Insert the table's rows."""
        others = {name for name in tables if name != self.name}
        if self.name not in tables:
            return others
        return others | self.base.fill(target, {self.name: tables[self.name]})


def _mixes(binlog: Log, name: Name, first: int, last: int) -> bool:
    """Return whether a statement of a range is about the table and others together, or was not understood."""
    if first > last:
        return False
    for piece in segments(binlog, first, last):
        if not isinstance(piece, StatementAt) or piece.statement.is_comment:
            continue
        try:
            events = piece.statement.parts
        except DdlNotUnderstood:
            return True
        for names in ({*event.tables, *event.effects.tables, *event.together.tables} for event in events):
            if len(_lower(names)) > 1 and _lower([name]) <= _lower(names):
                return True
    return False


def _lower(names: Iterable[Name]) -> set[Name]:
    return {(schema.lower(), table.lower()) for schema, table in names}
