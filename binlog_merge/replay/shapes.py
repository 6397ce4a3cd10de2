"""The shapes of tables through a merged binlog, for what is decoded: each table's versions from where the walk stands.

A table's versions are read when its rows first come; those that its rows have left behind are dropped, and the tables
that were not asked for longest are forgotten. So memory holds what lies above the walk, of tables in use, however many
DDL there are. Source: the schema storage of pingcap/tiflow, which keeps what its checkpoint may still need and collects
the rest.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from binlog_merge.job.store_errors import told
from snapshot_store.history import TableVersion
from snapshot_store.store import Store
from snapshot_store.tso import OrderKey

MOST_TABLES: Final = 500


@dataclass(slots=True)
class _Table:
    """Versions from the one in force at `since` on; None stands for "never heard of"."""

    since: OrderKey
    versions: deque[TableVersion | None] = field(default_factory=deque)


class Shapes:
    """Answers what a table looked like at a key, for keys that mostly grow; reads the store of a merged binlog."""

    def __init__(self, store: Path, most_tables: int = MOST_TABLES) -> None:
        self._store = store
        self._most = most_tables
        self._tables: OrderedDict[tuple[str, str], _Table] = OrderedDict()

    def __len__(self) -> int:
        """Return how many versions are held."""
        return sum(len(table.versions) for table in self._tables.values())

    def at(self, schema: str, name: str, key: OrderKey) -> TableVersion | None:
        """Return the latest version with a key less than `key`, None if the table was never heard of."""
        found = self._tables.pop((schema, name), None)
        if found is None or key < found.since:
            found = self._read(schema, name, key)
        self._tables[schema, name] = found
        if len(self._tables) > self._most:
            self._tables.popitem(last=False)
        versions = found.versions
        while len(versions) > 1 and (after := versions[1]) is not None and after.key < key:
            versions.popleft()
            found.since = key
        return versions[0]

    def _read(self, schema: str, name: str, key: OrderKey) -> _Table:
        with told(self._store), Store.open(self._store, True) as store:
            history = store.history_of([(None, schema, name)])
        now = history.at(schema, name, key)
        later = (version for version in history.versions_for(schema, name) if version.key >= key)
        return _Table(key, deque((now, *later)))
