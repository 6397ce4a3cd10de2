"""The definitions of tables and databases as of a place in the published log, from the log's schema store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server.log import LogView
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.protocol.packets import Column, Value
from binlog_merge.store_errors import as_merge_errors

if TYPE_CHECKING:
    from snapshot_store.history import TableVersion
    from snapshot_store.model import Schema, Table


@dataclass(frozen=True, slots=True, eq=False)
class Definitions:
    """Users' databases and tables at one moment; `tables` are by (database, table). Equal to itself only.

    A version whose `opaque` is true, or whose `table` is None, is a table whose definition is not known: a statement
    about it was not understood.
    """

    schemas: "Mapping[str, Schema]" = field(default_factory=dict)
    tables: "Mapping[tuple[str, str], TableVersion]" = field(default_factory=dict)

    def of(self, schema: str) -> "list[TableVersion]":
        """Return the tables of a database, sorted by name."""
        return [self.tables[name] for name in sorted(self.tables) if name[0] == schema]

    def known(self) -> "list[Table]":
        """Return the definitions that are known, sorted by database and name."""
        versions = [self.tables[name] for name in sorted(self.tables)]
        return [version.table for version in versions if version.table is not None and not version.opaque]


class DefinitionReader:
    """Reads definitions from a log's schema store; for any thread. What was read last is kept."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._last: tuple[str, Definitions] | None = None

    def at(self, view: LogView) -> Definitions:
        """Return the definitions at the end of a view of the log: each DDL that it has, and none behind it.

        Raises StoreUnusable, StoreInUse, BeforeBase, and what is wrong with an object store.
        """
        last = None if view.state.last is None else view.state.last.last_key
        with self._lock:
            # What is published does not change any more; before anything is, a base may still be added.
            if last is None or self._last is None or self._last[0] != last:
                self._last = last or "", self._read(last)
            return self._last[1]

    def _read(self, last: str | None) -> Definitions:
        from snapshot_store.errors import BeforeBase
        from snapshot_store.model import Schema
        from snapshot_store.names import Moment
        from snapshot_store.store import Store
        from snapshot_store.tso import ORIGIN, OrderKey

        key = Moment.at_key(ORIGIN if last is None else OrderKey.parse(last)).key
        with (
            self._folder.schema_store() as (path, shown),
            as_merge_errors(shown),
            Store.open(path, read_only=True) as store,
        ):
            if key <= store.floor():
                raise BeforeBase(
                    f"what tables were at order key {key.text()} is not known any more: the schema history is folded "
                    "above it; ask once more is published"
                )
            history = store.logical_at(key)
        tables = {(version.schema, version.name): version for version in history.versions}
        schemas = {version.name: version.value for version in history.schema_versions if version.value is not None}
        for schema, _ in tables:
            schemas.setdefault(schema, Schema(schema))
        return Definitions(schemas, tables)


_KINDS: Final = {
    "int": (True, ColumnType.LONG),
    "big": (True, None),
    "null": (True, ColumnType.NULL),
    "time": (True, ColumnType.DATETIME),
    "stamp": (True, ColumnType.TIMESTAMP),
    "text": (False, ColumnType.BLOB),
    "long": (False, ColumnType.LONG_BLOB),
    "char": (False, ColumnType.STRING),
    "": (False, None),
}
Row = tuple[Value, ...]


def columns(text: str) -> tuple[Column, ...]:
    """Return columns of a result, written as `name name:kind`; kinds are those of _KINDS, `~` is a space in a name."""
    parts = (part.partition(":") for part in text.split())
    return tuple(Column(name.replace("~", " "), *_KINDS[kind]) for name, _, kind in parts)


Rows = Callable[[Definitions], Iterable[Row]]
Moment = Mapping[str, Callable[[], Iterable[Sequence[Value]]]]
"""The rows of tables that are a session's own, or of the moment, by the tables' names as in `RELATIONS`."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A system table; texts of its columns `cased` compare with regard to case.

    `kept` are the types of the columns that have another in a result that is sorted or grouped.
    """

    columns: tuple[Column, ...]
    rows: Rows
    cased: frozenset[str] = frozenset()
    kept: Mapping[str, ColumnType] = field(default_factory=dict)
