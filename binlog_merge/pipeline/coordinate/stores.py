"""The schema store of an output directory: takes in base schemas, and is read and written by each run. What a round has
read of it the next need not read again, as long as nobody writes to it.
"""

import shutil
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, SchemaConflict, io_error
from binlog_merge.files.disk import sync_directory, sync_file
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.intact import Stamp, stamp_of
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.source import open_source
from binlog_merge.pipeline.coordinate.histories import base_versions
from binlog_merge.pipeline.coordinate.touched import HistoryQueries
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.ddl.apply.statement import with_folded_names
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import HistoryKey, SchemaVersion, TableVersion
from snapshot_store.model import Catalog
from snapshot_store.store.merge import StoredSchemas, StoreEnd
from snapshot_store.store.settings import Stop, topology_to_json
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

if TYPE_CHECKING:
    from snapshot_store.store.db import Store


Stamps = tuple[Stamp | None, ...]

MOST_KEYS = 10_000


class StoreIsAsked(Exception):  # noqa: N818 - control flow, not an error
    """Which tables a run needs depends on a query to the store."""


class NoQueries:
    """Stands for a store that is not open; every query raises StoreIsAsked."""

    def names(self) -> list[HistoryKey]:
        """Raise StoreIsAsked."""
        raise StoreIsAsked

    def names_in(self, node: str | None, schema: str) -> list[HistoryKey]:
        """Raise StoreIsAsked."""
        raise StoreIsAsked

    def referencing(self, node: str | None, tables: Iterable[str]) -> list[HistoryKey]:
        """Raise StoreIsAsked."""
        raise StoreIsAsked


@dataclass(frozen=True, slots=True)
class KnownPart:
    """The histories of the tables `wanted` as read for a run from `floor` on, and how the store ends."""

    wanted: frozenset[HistoryKey]
    floor: OrderKey
    part: StoredSchemas
    end: StoreEnd

    def serves(self, wanted: set[HistoryKey], floor: OrderKey) -> bool:
        """Return whether a run from `floor` on that needs the tables `wanted` would read the same."""
        return wanted <= self.wanted and self.floor <= floor and self.end.last < self.floor.previous()


@dataclass
class SchemaCache:
    """Values read from stores while their files had some stamps (size, time, inode); forgotten when these change."""

    paths: tuple[Path, ...]
    known: KnownPart | None = None
    notes: dict[str, str | None] = field(default_factory=dict)
    _stamps: Stamps | None = None

    def clear(self) -> None:
        """Forget everything."""
        self.known, self._stamps = None, None
        self.notes.clear()

    def fresh(self) -> bool:
        """Return whether the files are as they were when they were read; forget what is known if not."""
        if self._stamps is not None and self._stamps == _stamps(self.paths):
            return True
        self.clear()
        return False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read the files within the block. What was read is forgotten if anybody, we too, wrote to them meanwhile."""
        self.fresh()
        before = _stamps(self.paths)
        yield
        if before == _stamps(self.paths):
            self._stamps = before
        else:
            self.clear()

    def note(self, name: str, read: Callable[[], str | None]) -> str | None:
        """Return a note of the store, read if it is not known."""
        if self.fresh() and name in self.notes:
            return self.notes[name]
        with self.reading():
            text = self.notes[name] = read()
        return text


def _stamps(paths: Iterable[Path]) -> Stamps:
    """Return the stamps of stores: of their files, and of the logs beside them."""
    return tuple(stamp_of(Path(f"{path}{suffix}")) for path in paths for suffix in ("", ".wal"))


STORE_NAME = "schema.duckdb"


@dataclass(frozen=True, slots=True)
class Made:
    """What a run writes to the store.

    `floor` is the key it continued from. `beginning` is where its binlogs begin, None unless it is the first run.
    """

    floor: OrderKey
    tables: Sequence[TableVersion]
    schemas: Sequence[SchemaVersion]
    topology: Topology
    stop: Stop | None
    beginning: OrderKey | None


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """The store of one output directory. It is opened only for single operations.

    `cache` has what earlier rounds of this process have read; a round that finds all it needs there opens nothing.
    """

    config: MergeConfig
    directory: Path
    manifest: Manifest
    cache: SchemaCache

    @property
    def path(self) -> Path:
        """Return the store's path."""
        return self.directory / STORE_NAME

    def read(
        self, keys: Callable[[HistoryQueries], Iterable[HistoryKey]], floor: OrderKey, joined: Sequence[str]
    ) -> StoredSchemas:
        """Return the part of the histories that a run from `floor` on needs; `joined` are nodes new in this run.

        Adds base schemas to the store first. Raises SchemaConflict if a definition was given for a key that is
        published already.
        """
        if not joined and self.manifest.state.last is not None:
            known = self._known(keys, floor)
            if known is not None:
                self._check(known.end.number)
                return known.part
        with self.cache.reading():
            found = self._read(keys, floor, joined)
            self.cache.known = found
        return found.part

    def _known(self, keys: Callable[[HistoryQueries], Iterable[HistoryKey]], floor: OrderKey) -> KnownPart | None:
        """Return what an earlier round has read, if this one would read the same."""
        if not self.cache.fresh() or self.cache.known is None:
            return None
        with suppress(StoreIsAsked):
            if self.cache.known.serves(set(keys(NoQueries())), floor):
                return self.cache.known
        return None

    def _read(
        self, keys: Callable[[HistoryQueries], Iterable[HistoryKey]], floor: OrderKey, joined: Sequence[str]
    ) -> KnownPart:
        first = self.manifest.state.last is None
        base = self.config.base
        copied = Path(base.store) if first and base.store is not None and not self.path.exists() else None
        sources: list[tuple[str | None, str | None]] = [(node, base.physical.get(node)) for node in joined]
        sources = [(None, base.logical), *sorted(base.physical.items())] if first else sources
        dumps = list(_dumps(sources, self.config.folding()))
        with self._opened(copied) as store:
            merging = store.merging()
            if first:
                merging.forget_derived()
            store.append_versions(
                [version for tables, _ in dumps for version in tables],
                [version for _, schemas in dumps for version in schemas],
            )
            if base.store is not None and copied is None:
                self._take_given(Path(base.store), store, floor)
            self._check(merging.last_number(floor.previous()))
            wanted = set(keys(merging))
            before = self.cache.known
            if before is not None and len(before.wanted) < MOST_KEYS:
                wanted |= before.wanted
            if self.config.output.dependencies == "writeset":
                wanted.update(merging.with_foreign_keys())  # whose changes reach which other tables
            return KnownPart(frozenset(wanted), floor, merging.part(wanted, floor), merging.end())

    def physical_tables(self, below: OrderKey) -> list[tuple[str, tuple[str, str]]]:
        """Return the nodes' tables that exist after everything below a key."""
        from snapshot_store.store.db import Store

        with as_merge_errors(self.path), Store.open(self.path, read_only=True) as store:
            return store.merging().physical_tables(below)

    def save(self, made: Made, next_floor: OrderKey) -> int | None:
        """Save what a run made. Returns the number of logical versions that the next run can no longer change.

        Returns None if the history is folded: then no version can be inserted among those.
        """
        known = self.cache.known if self.cache.fresh() else None
        if known is not None and _changes_nothing(made, known.end):
            return known.end.number
        with self._opened() as store:
            merging = store.merging()
            merging.save(made.floor, made.tables, made.schemas, made.topology, made.stop, made.beginning)
            failpoint("store-after-commit")
            return merging.last_number(next_floor.previous())

    def fold(self, checkpoint: OrderKey) -> int:
        """Remove the versions that only lookups below a key need; return how many were removed."""
        with self._opened() as store:
            return store.fold(checkpoint)

    @contextmanager
    def _opened(self, copied: Path | None = None) -> "Iterator[Store]":
        """Open the store to write to it, first as a copy of another one. Raises IoError if it was a copy of one
        elsewhere, and is gone: it would be made anew, with nothing.
        """
        from snapshot_store.store.db import Store

        if self.manifest.elsewhere is not None:
            self.manifest.elsewhere.check_copy(self.directory)
        if copied is not None:
            with as_merge_errors(copied):
                _copy(copied, self.path)
        with as_merge_errors(self.path), Store.open(self.path) as store:
            yield store

    def _check(self, number: int | None) -> None:
        """Raise SchemaConflict if versions were inserted among those by which tables were numbered in
        published files.
        """
        last = self.manifest.state.last
        known = None if last is None else last.state.get("logical_versions")
        if None not in (known, number) and known != number:
            raise SchemaConflict(
                f"the schema history below what is published has {number} logical versions, and had {known} when the "
                "published files were written: what is published cannot be changed any more",
                file=str(self.path),
                remedy="restore the store from a copy made before it was changed, or merge into an empty directory",
            )

    def _take_given(self, path: Path, store: "Store", floor: OrderKey) -> None:
        """Copy definitions that operators have added, since the last run, to the store that base schemas come from."""
        from snapshot_store.store.db import Store as Opened

        with as_merge_errors(path), Opened.open(path, read_only=True) as other:
            tables, schemas = other.merging().provided(everything=self.manifest.state.last is None)
        tables, schemas = store.merging().not_stored(tables, schemas)
        late = [key for key in (*(v.key for v in tables), *(v.key for v in schemas)) if key < floor.previous()]
        if late:
            raise below_published(min(late), floor, path)
        store.append_versions(tables, schemas)


def _changes_nothing(made: Made, end: StoreEnd) -> bool:
    """Return whether a store that ends so has what a run made, and nothing that the run did not make again."""
    return (
        not (made.tables or made.schemas or made.stop or end.stop or made.beginning)
        and end.last < made.floor.previous()
        and topology_to_json(made.topology) == end.topology
    )


def below_published(key: OrderKey, floor: OrderKey, path: Path) -> SchemaConflict:
    """Return the error for a definition given for a key that is published already."""
    return SchemaConflict(
        f"what is said of order key {key.text()} comes too late: everything below {floor.text()} is published, and a "
        "published file cannot be changed any more",
        file=str(path),
        order_key=key,
        remedy=f"say it from TSO {floor.commit_tso + (1 if floor[1:] > (0, 0, 1) else 0)} or order key {floor.text()} "
        "on; or merge again from the start, into an empty directory with `base.store` set to a corrected store",
    )


def cache_of(config: MergeConfig, directory: Path) -> SchemaCache:
    """Return an empty cache of what an output directory's store has, and the store that base schemas come from."""
    base = config.base.store
    return SchemaCache((directory / STORE_NAME, *([] if base is None else [Path(base)])))


def stored_note(path: Path, name: str) -> str | None:
    """Return the note of a store with this name, None if there is none."""
    from snapshot_store.store.db import Store

    with as_merge_errors(path), Store.open(path, read_only=True) as store:
        return store.note(name)


def published_floor(directory: Path) -> OrderKey:
    """Return the key below which the output in a directory is published; ORIGIN if there is no output."""
    last = Manifest.load(directory).state.last
    return ORIGIN if last is None else OrderKey.parse(last.state["floor"])


def _copy(source: Path, target: Path) -> None:
    """Copy a store, completely or not at all."""
    from snapshot_store.store.db import Store

    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with Store.open(source, read_only=True):  # keeps writers out
            for suffix in ("", ".wal"):
                if Path(f"{source}{suffix}").exists():
                    shutil.copyfile(f"{source}{suffix}", f"{work / target.name}{suffix}")
        with Store.open(work / target.name):
            pass  # replays the WAL that a killed writer has left
        sync_file(work / target.name)
        (work / target.name).replace(target)
        sync_directory(target.parent)
    except OSError as error:
        raise io_error(error, str(source)) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _dumps(
    sources: Iterable[tuple[str | None, str | None]], folding: Container[str | None]
) -> Iterator[tuple[list[TableVersion], list[SchemaVersion]]]:
    for node, path in sources:
        if path is not None:
            catalog = _read_dump(path)
            yield base_versions(with_folded_names(catalog) if node in folding else catalog, node, path)


def _read_dump(path: str) -> Catalog:
    from snapshot_store.ddl import parse_dump

    with open_source(path) as source:
        data = bytearray(source.size)
        source.read_into(memoryview(data), 0)
    try:
        return parse_dump(data.decode("utf-8"))
    except (SnapshotStoreError, UnicodeDecodeError) as error:
        raise ConfigError(f"the base schema cannot be read: {error}", file=path) from None
