"""What a round has read of the schema store and the next need not read again, as long as nobody writes to it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from binlog_merge.files.intact import Stamp, stamp_of
from snapshot_store.history import HistoryKey
from snapshot_store.store.merge import StoredSchemas, StoreEnd
from snapshot_store.tso import OrderKey

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
