"""The columns of a log's tables while the log grows: what `log.shapes` has read is read again when there is more."""

from pathlib import Path

from binlog_merge.log.shapes import Shapes
from snapshot_store.history import TableVersion
from snapshot_store.model import Catalog
from snapshot_store.tso import OrderKey


class LatestShapes:
    """Answers as `Shapes` does, of the store as it is since `renew`; without a store nothing is known."""

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
