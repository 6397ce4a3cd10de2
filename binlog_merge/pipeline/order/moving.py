"""The schema that applies to a row which comes out later than its own key: its logical table and column names there.

A row that stays sees the DDL that took effect before its own key. A moved row also sees those that took effect at its
place.
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
    """Looks up the schema that applies to rows at their places."""

    def __init__(self, holds: Holds, history: SchemaHistory) -> None:
        self._waits = Waits(holds.effects)
        self._history = history
        self._versions: dict[tuple[str, str], tuple[list[Place], list[TableVersion]]] = {}

    def logical(self, name: tuple[str, str], key: OrderKey, moved_to: OrderKey | None) -> TableVersion | None:
        """Return the logical table in force for a row at its own key, or at the key of the place it was moved to."""
        if name not in self._versions:
            versions = sorted(self._history.versions_for(*name), key=lambda v: place_of(v.key))
            self._versions[name] = [place_of(v.key) for v in versions], versions
        places, versions = self._versions[name]
        count = bisect_left(places, Place(key)) if moved_to is None else bisect_right(places, place_of(moved_to))
        return versions[count - 1] if count else self._history.at(*name, key)

    def renames(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> Renames:
        """Return the column renames of a shard between a row's own key and the place at which it comes out."""
        return self._waits.renames(shard, key, Place(key) if moved_to is None else place_of(moved_to))

    def gone(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> bool:
        """Return whether a row's table has been dropped or truncated before the row comes out."""
        return moved_to is not None and self._waits.gone(shard, key, place_of(moved_to))

    def name(self, shard: Shard, key: OrderKey, moved_to: OrderKey | None) -> tuple[str, str] | None:
        """Return the logical table of a row where it comes out, None if it is the usual one of its shard."""
        return self._waits.name(shard, key, Place(key) if moved_to is None else place_of(moved_to))


def renamed(table: Table, renames: Renames) -> Table:
    """Return a table with columns renamed, one rename after the other."""
    for old, new in renames:
        at = table.index_of(old)
        if at is not None:
            columns = (*table.columns[:at], replace(table.columns[at], name=new), *table.columns[at + 1 :])
            table = replace(table, columns=columns)
    return table
