"""Rows that a server changes because of a foreign key without logging it: ON DELETE CASCADE, SET NULL.

Servers from 9.6 on log such changes, and have a flag for that in every rows event. Before, InnoDB makes them without
the binlog, and a replica's InnoDB does the same. A target without foreign keys can only report the tables concerned.
"""

from collections.abc import Iterator
from typing import Final

from binlog_merge.binlog.constants import RowsFlag
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.filters.expressions import Op
from binlog_merge.log.changes import Changes
from snapshot_store.model import Catalog

_FLAGS_AT: Final = 6
_EXCUSED: Final = RowsFlag.USE_SQL_FOREIGN_KEY_F | RowsFlag.NO_FOREIGN_KEY_CHECKS_F
_EVENTS: Final[tuple[tuple[Op, str], ...]] = (("delete", "DELETE"), ("update", "UPDATE"))


def unlogged_changes(changes: Changes, catalog: Catalog) -> Iterator[str]:
    """Yield a text for each table that unlogged changes may concern: the table, the foreign key's action, its cause."""
    events = changes.segment.events[changes.events]
    silent = (changes.segment.buffer[events[:, k.E_BODY] + _FLAGS_AT] & _EXCUSED) == 0
    if not silent.any():
        return
    parent = (changes.table.schema, changes.table.table)
    for op, event in _EVENTS:
        if (changes.rows_of(op) & silent[changes.cut.events]).any():
            yield from _children(catalog, parent, event)


def _children(catalog: Catalog, parent: tuple[str, str], event: str) -> Iterator[str]:
    for (schema, name), table in sorted(catalog.tables.items()):
        for key in table.foreign_keys:
            action = key.on_delete if event == "DELETE" else key.on_update
            if action in ("CASCADE", "SET NULL") and key.target(schema) == parent:
                yield (
                    f"{schema}.{name}: rows that a server changed by ON {event} {action} of {'.'.join(parent)} stand "
                    "in no binlog before MySQL 9.6"
                )
