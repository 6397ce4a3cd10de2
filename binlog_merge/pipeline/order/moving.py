"""What a row sees that comes out at another place than its own: the logical table there, and its columns' names there.

A row that stays sees what took effect before its own key, and one that was moved also what did at its place.
"""

from bisect import bisect_left, bisect_right
from dataclasses import replace

from binlog_merge.pipeline.coordinate.holds import Holds
from binlog_merge.pipeline.coordinate.shards.values import Shard
from binlog_merge.pipeline.order.waits import Waits
from binlog_merge.places import Place, place_of
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

Renames = tuple[tuple[str, str], ...]


class Moving:
    """Looks up what rows see by their places."""

    def __init__(self, holds: Holds, history: SchemaHistory) -> None:
        self._waits = Waits(holds.effects)
        self._history = history
        self._lines: dict[tuple[str, str], tuple[list[Place], list[TableVersion]]] = {}

    def logical(self, name: tuple[str, str], key: OrderKey, moved_to: OrderKey | None) -> TableVersion | None:
        """Return the logical table in force for a row with a key, or at the key of the place it was moved to."""
        if name not in self._lines:
            versions = sorted(self._history.versions_for(*name), key=lambda v: place_of(v.key))
            self._lines[name] = [place_of(v.key) for v in versions], versions
        places, versions = self._lines[name]
        found = bisect_left(places, Place(key)) if moved_to is None else bisect_right(places, place_of(moved_to))
        return versions[found - 1] if found else self._history.at(*name, key)

    def renames(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> Renames:
        """Return how a shard renamed columns between a row's own key and the place it comes out at."""
        return self._waits.renames(shard, key, Place(key) if moved_to is None else place_of(moved_to))

    def gone(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> bool:
        """Tell whether a row's table has been dropped or emptied by the time it comes out."""
        return moved_to is not None and self._waits.gone(shard, key, place_of(moved_to))

    def name(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> tuple[str, str] | None:
        """Return of which logical table a row is where it comes out, if it is not what its shard's name says."""
        return self._waits.name(shard, key, Place(key) if moved_to is None else place_of(moved_to))


def renamed(table: Table, renames: Renames) -> Table:
    """Return a table with other names for some columns, one after the other."""
    for old, new in renames:
        at = table.index_of(old)
        if at is not None:
            columns = (*table.columns[:at], replace(table.columns[at], name=new), *table.columns[at + 1 :])
            table = replace(table, columns=columns)
    return table
