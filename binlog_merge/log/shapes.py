"""The columns of tables along a merged binlog: the versions at the reader's position, and the next few.

    now    t1: id, name   t2: id, more   …     the current version of each table
    next   t2 at 5: id    t1 at 9: id …        a limited number of later versions, in order

When the reader passes a version, that version replaces the one before. So memory holds the current tables and a few
later versions, however many DDL statements there are. Source: the schema storage of pingcap/tiflow,
which keeps what its checkpoint may still need and collects the rest.
"""

from collections import deque
from pathlib import Path
from typing import Final

from binlog_merge.store_errors import as_merge_errors
from snapshot_store.history import TableVersion, folded_away
from snapshot_store.model import Catalog
from snapshot_store.store.db import Store
from snapshot_store.tso import ORIGIN, OrderKey

AHEAD: Final = 500


class Shapes:
    """Answers which columns a table had at an order key, for keys that mostly grow; reads a merged binlog's store."""

    def __init__(self, store: Path, ahead: int = AHEAD) -> None:
        self._store = store
        self._ahead = ahead
        self._now: dict[tuple[str, str], TableVersion] = {}
        self._next: deque[TableVersion] = deque()
        self._all_read = False
        self._passed: OrderKey | None = None
        self._folded = ORIGIN

    def __len__(self) -> int:
        """Return the number of versions in memory."""
        return len(self._now) + len(self._next)

    def at(self, schema: str, name: str, key: OrderKey) -> TableVersion | None:
        """Return the latest version with a key less than `key`, None if the table did not exist or was never known.

        Raises BeforeBase if the versions at `key` have been folded away.
        """
        if self._passed is None or key <= self._passed:
            self._begin(key)
        self._advance(key)
        version = self._now.get((schema, name))
        if version is None and key <= self._folded:
            with as_merge_errors(self._store):
                raise folded_away(f"{schema}.{name}", key, self._folded, None)
        return version

    def catalog(self, key: OrderKey) -> Catalog:
        """Return all tables that a transaction with this key sees. Raises BeforeBase as `at` does."""
        with as_merge_errors(self._store), Store.open(self._store, True) as store:
            if key <= (floor := store.floor()):
                raise folded_away("all tables", key, floor, None)
            return store.logical_at(key).catalog(key)

    def _begin(self, key: OrderKey) -> None:
        with as_merge_errors(self._store), Store.open(self._store, True) as store:
            self._folded = store.floor()
            self._now = {(v.schema, v.name): v for v in store.logical_at(key).versions}
            self._next.clear()
            self._passed, self._all_read = key.previous(), False
            self._read(store, self._passed)

    def _advance(self, key: OrderKey) -> None:
        while self._next or not self._all_read:
            if not self._next:
                with as_merge_errors(self._store), Store.open(self._store, True) as store:
                    self._read(store, self._passed or ORIGIN)
                continue
            version = self._next[0]
            if version.key >= key:
                return
            self._next.popleft()
            self._passed = version.key
            if version.table is None and not version.opaque:
                self._now.pop((version.schema, version.name), None)
            else:
                self._now[version.schema, version.name] = version

    def _read(self, store: Store, after: OrderKey) -> None:
        changes = store.logical_changes(after, self._ahead)
        self._all_read = len(changes) < self._ahead
        self._next.extend(changes)


class LatestShapes:
    """Answers as `Shapes` does while a log grows: of the store as it is since `renew`; without one nothing is known."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._shapes: Shapes | None = None

    def renew(self) -> None:
        """Read the store anew when the next question comes."""
        self._shapes = Shapes(self._store) if self._store.exists() else None

    def at(self, schema: str, name: str, key: OrderKey) -> TableVersion | None:
        """Return the latest version with a key less than `key`; None if there is none."""
        return None if self._shapes is None else self._shapes.at(schema, name, key)

    def catalog(self, key: OrderKey) -> Catalog:
        """Return all tables that a transaction with this key sees."""
        return Catalog() if self._shapes is None else self._shapes.catalog(key)
