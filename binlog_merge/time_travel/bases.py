"""What a table is made of: a dump, a kept DuckDB file, a folder of snapshots, or nothing; the nearest one first.

A DuckDB file that knows its place in the log may stand before the moment, and is carried on, or behind it, and is
carried back. A dump can only be carried on. `Made` is the table that is made of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from binlog_merge.config.uri import is_uri, local_path
from binlog_merge.errors import ConfigError, MergeError, UnknownTable
from binlog_merge.log.checkpoint import Checkpoint, checkpoints_of
from binlog_merge.log.log import Log
from binlog_merge.tables.load import Base
from binlog_merge.tables.snapshot_places import SnapshotFolder, SnapshotPlace, place_of, rank_in
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.tables.types import qualified
from binlog_merge.verification.base import DuckdbBase, Empty, is_duckdb
from binlog_merge.verification.base_dump import DumpBase
from snapshot_store.model import Catalog, Table

Name = tuple[str, str]


class Nothing:
    """No base: only what the log itself creates is known."""

    rank = 0

    def fill(self, target: DuckdbTarget, tables: Mapping[Name, Table]) -> set[Name]:
        """Return no table."""
        return set()


@dataclass(frozen=True)
class Found:
    """A base: its rows; `path` as the user knows it; `catalog` are the log's tables where it stands, if known.

    `only`: it has rows of these tables alone. `doubts` are what the file itself says it lacks.
    """

    rows: Base
    path: str | None = None
    catalog: Catalog | None = None
    only: frozenset[Name] = field(default_factory=frozenset)
    doubts: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Return the number of the log's transactions that the base has."""
        return self.rows.rank


def bases_of(text: str | None, binlog: Log, rank: int, work: Path) -> list[Found]:
    """Return the bases of `--base` for a moment, the nearest one first: of a folder the ones on its two sides.

    "empty" are tables without rows, where the log begins. `work` is a folder for copies of what is elsewhere. Raises
    ConfigError for a base of another log, IoError, and ObjectStoreUnreachable.
    """
    if text is None:
        return [Found(Nothing())]
    if text == "empty":
        return [Found(Empty(), text)]
    text = text.removeprefix("duckdb://").removeprefix("duckdb:")
    if is_uri(text) and local_path(text) is None:
        return _nearest(place_of(text), binlog, rank, work, text)
    path = Path(local_path(text) or text)
    if path.is_dir():
        files = {file: rank_in(file.name) for file in path.iterdir() if file.name[:1] != "." and is_duckdb(file)}
        if files and None not in files.values():
            return _nearest(SnapshotFolder(path), binlog, rank, work, str(path))
        if files:
            return _around([kept(file, binlog) for file in files], rank)
    if is_duckdb(path):
        return [kept(path, binlog)]
    dump = DumpBase.of(path, binlog.cluster_uuid)
    if dump.rank > rank:
        raise ConfigError(
            f"--base stands at transaction {dump.rank} of the log, after transaction {rank}",
            file=str(path),
            remedy="give an earlier one, or a DuckDB file: a dump can be carried on, not back",
        )
    return [Found(dump, str(path))]


def _nearest(place: SnapshotPlace, binlog: Log, rank: int, work: Path, shown: str) -> list[Found]:
    """Return the snapshots on the two sides of a moment, by their names; others are not opened."""
    ranks = {number: name for name in place.names() if (number := rank_in(name)) is not None}
    if not ranks:
        raise ConfigError(
            "--base: there is no snapshot", file=shown, remedy="`replay --to duckdb:///… --snapshots DIR` makes them"
        )
    early = max((number for number in ranks if number <= rank), default=None)
    late = min((number for number in ranks if number > rank), default=None)
    found = []
    for number in (early, late):
        if number is None:
            continue
        one = kept(place.brought(ranks[number], work), binlog)
        if one.rank != number:
            raise ConfigError(
                f"--base: by its name the snapshot stands at transaction {number}, and is at {one.rank}",
                file=one.path,
                remedy="somebody has written to it: remove it, and use others",
            )
        found.append(one)
    return _around(found, rank)


def _around(bases: Sequence[Found], rank: int) -> list[Found]:
    """Return the last base that is not behind a moment and the first one that is, the nearer one first."""
    early = max((base for base in bases if base.rank <= rank), key=lambda base: base.rank, default=None)
    late = min((base for base in bases if base.rank > rank), key=lambda base: base.rank, default=None)
    found = [base for base in (early, late) if base is not None]
    return sorted(found, key=lambda base: abs(base.rank - rank))


def kept(path: Path, binlog: Log) -> Found:
    """Return a DuckDB file as a base. Raises ConfigError for one of another log, and IoError."""
    try:
        with DuckdbTarget(path, binlog.cluster_uuid, None, read_only=True) as file:
            rank, place, catalog, only = file.rank, file.place, file.catalog, file.only()
            doubts = _doubts(file)
    except MergeError as error:
        error.message = f"--base: {error.message}"
        error.remedy = _REMEDIES.get(error.code, "") or error.remedy
        raise
    if rank is None:
        return Found(DuckdbBase(path), str(path))
    _check(path, place or Checkpoint(rank), binlog)
    return Found(DuckdbBase(path, rank), str(path), catalog, only, doubts)


_REMEDIES = {
    "config": "give a file that a replay of this log keeps, or a snapshot of it",
    "target-busy": "a replay has it open: give its snapshots (`replay --snapshots DIR`), or wait until it has ended",
    "io": "give a whole DuckDB file; a copy that was made while a replay wrote to it is none",
}


def _doubts(file: DuckdbTarget) -> tuple[str, ...]:
    doubts = []
    if file.filtered() and not file.only():
        doubts.append(f"{file.path} was filled with a filter, so rows may not be in it, nor in the table")
    if skipped := file.skipped_ranks():
        doubts.append(f"{file.path}: a replay skipped transactions {', '.join(map(str, skipped))[:200]}")
    return tuple(doubts)


def _check(path: Path, place: Checkpoint, binlog: Log) -> None:
    """Raise ConfigError unless the log has the file's last transaction, as far as that can be told."""
    if place.rank > binlog.last_rank:
        raise ConfigError(
            f"--base stands at transaction {place.rank}, and the log ends with {binlog.last_rank}",
            file=str(path),
            remedy="give the log that the file was kept up with, or an earlier file",
        )
    here = checkpoints_of(binlog, {place.rank})[place.rank]
    if place.key is not None and here.key is not None and place.key != here.key:
        raise ConfigError(
            f"--base: its transaction {place.rank} has the order key {place.key}, this log's {here.key}",
            file=str(path),
            remedy="this is another output of the cluster: give the one that the file was kept up with",
        )


@dataclass(frozen=True, slots=True)
class Made:
    """A table as it was behind transaction `rank`, in an open file, whose catalog are the log's tables then.

    `doubts` are what the log and the base leave open, `notes` how it was made.
    """

    target: DuckdbTarget
    table: Table
    base: Found
    rank: int
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        name = qualified(self.table.schema, self.table.name)
        return int(self.target.connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0])


def not_there(name: Name, catalog: Catalog) -> UnknownTable:
    """Return the error for a table that was not there."""
    known = ", ".join(sorted(".".join(each) for each in catalog.tables)[:5])
    return UnknownTable(f"there was no table {'.'.join(name)} then; there were {known or 'none'}")
