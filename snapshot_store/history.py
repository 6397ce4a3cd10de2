"""Schema history: every version of every table, as one immutable value that can be sent to executors.

A version takes effect *after* its key: a transaction whose key is less than or equal to it still uses the version
before. (No row shares a logical DDL's key, so "strictly less" is the whole rule.) Lookup is a binary search.

The logical history and each node's physical history are kept apart: `node=None` means the logical one.

Each of them may be *folded* at a checkpoint: of the versions below it, only those in force at the checkpoint are kept,
with their numbers. Lookups above it return what they returned before. A lookup below it that can no longer be answered
raises BeforeBase.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from snapshot_store.errors import BeforeBase, HistoryConflict
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.tso import ORIGIN, OrderKey

OPAQUE = "opaque"
GIVEN = ("base", "operator")
"""Origins of versions that people provide; versions of all other origins are derived from binlogs."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One table's definition from `key` on; `table` is None where the table was dropped or renamed away.

    `version_id` is assigned by the history (0 before that): logical versions are numbered 1, 2, 3… in (key, schema,
    name) order, and the number is the table id in the output. It never changes when versions are added at greater keys.
    `origin` is "base", "ddl" (a node's own), "marker", "shards" (what shards without markers have in common),
    "operator" or "opaque"; `node`, `file` and `position` locate the DDL in the input. Opaque: the DDL was not
    understood, and the columns are taken from table maps; `table` is then only the likely definition, None if nothing
    is known. `folded`: the versions before this one are gone, and its number is
    stored instead of counted.
    """

    key: OrderKey
    version_id: int
    schema: str
    name: str
    table: Table | None
    ddl: str = ""
    node: str | None = None
    file: str = ""
    position: int = 0
    origin: str = "ddl"
    folded: bool = False

    @property
    def opaque(self) -> bool:
        """Return whether the columns are known from table maps only."""
        return self.origin == OPAQUE


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One database's defaults from `key` on; `value` is None where the database was dropped."""

    key: OrderKey
    name: str
    value: Schema | None
    ddl: str = ""
    node: str | None = None
    file: str = ""
    position: int = 0
    origin: str = "ddl"
    folded: bool = False


def versions_of(
    catalog: Catalog,
    tables: Iterable[tuple[str, str]],
    schemas: Iterable[str],
    key: OrderKey,
    *,
    ddl: str = "",
    node: str | None = None,
    file: str = "",
    position: int = 0,
    origin: str = "ddl",
) -> tuple[tuple[TableVersion, ...], tuple[SchemaVersion, ...]]:
    """Return versions at `key` that define these tables and databases as in `catalog`; those it lacks are dropped."""
    where = (ddl, node, file, position, origin)
    return (
        tuple(TableVersion(key, 0, schema, name, catalog.get(schema, name), *where) for schema, name in sorted(tables)),
        tuple(SchemaVersion(key, name, catalog.schemas.get(name), *where) for name in sorted(schemas)),
    )


_Version = TypeVar("_Version", TableVersion, SchemaVersion)
HistoryKey = tuple[str | None, str, str]
"""A table in the histories: (node, None for a logical table; database; table, "" for the database itself)."""


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """All versions, sorted by (node, key, schema, name) with the logical history first.

    Build one with `with_versions`, which sorts, numbers and checks; the constructor takes versions as it returns them.
    A store may return a part of its history, with the numbers of the whole: such a value is complete for the tables it
    was loaded for, and no versions may be added to it with `with_versions`.
    """

    versions: tuple[TableVersion, ...] = ()
    schema_versions: tuple[SchemaVersion, ...] = ()
    _tables: dict[HistoryKey, tuple[list[OrderKey], list[TableVersion]]] = field(
        init=False, repr=False, compare=False, hash=False
    )
    _schemas: dict[tuple[str | None, str], tuple[list[OrderKey], list[SchemaVersion]]] = field(
        init=False, repr=False, compare=False, hash=False
    )
    _floors: dict[str | None, OrderKey] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        tables: dict[HistoryKey, tuple[list[OrderKey], list[TableVersion]]] = {}
        floors: dict[str | None, OrderKey] = {}
        for version in self.versions:
            keys, found = tables.setdefault((version.node, version.schema, version.name), ([], []))
            keys.append(version.key)
            found.append(version)
            if version.folded:
                floors[version.node] = version.key
        schemas: dict[tuple[str | None, str], tuple[list[OrderKey], list[SchemaVersion]]] = {}
        for change in self.schema_versions:
            keys, changes = schemas.setdefault((change.node, change.name), ([], []))
            keys.append(change.key)
            changes.append(change)
        object.__setattr__(self, "_tables", tables)
        object.__setattr__(self, "_schemas", schemas)
        object.__setattr__(self, "_floors", floors)

    def __reduce__(self) -> tuple[type["SchemaHistory"], tuple[object, ...]]:
        # The indexes are rebuilt after unpickling: they are larger than the versions they point at.
        return (SchemaHistory, (self.versions, self.schema_versions))

    def at(self, schema: str, name: str, key: OrderKey, node: str | None = None) -> TableVersion | None:
        """Return the latest version with a key strictly less than `key`, or None if no version of the table is older.

        The version's `table` is None if the table had been dropped by then. Raises BeforeBase if the versions in force
        at `key` have been folded.
        """
        found = self._tables.get((node, schema, name))
        place = 0 if found is None else bisect_left(found[0], key)
        if found is None or not place:
            if node in self._floors and key <= self._floors[node]:
                raise folded_away(f"{schema}.{name}", key, self._floors[node], node)
            return None
        return found[1][place - 1]

    def floor(self, node: str | None = None) -> OrderKey:
        """Return the key up to which a history is folded, ORIGIN if it is not.

        Above that key, every lookup is answered; below it, only those for tables that have not changed since.
        """
        return self._floors.get(node, ORIGIN)

    def schema_at(self, name: str, key: OrderKey, node: str | None = None) -> SchemaVersion | None:
        """Return the latest version of a database's defaults with a key strictly less than `key`, or None."""
        found = self._schemas.get((node, name))
        if found is None:
            return None
        keys, versions = found
        place = bisect_left(keys, key)
        return versions[place - 1] if place else None

    def versions_for(self, schema: str, name: str, node: str | None = None) -> tuple[TableVersion, ...]:
        """Return all versions of one table, oldest first."""
        found = self._tables.get((node, schema, name))
        return () if found is None else tuple(found[1])

    def between(self, a: OrderKey, b: OrderKey, node: str | None = None) -> tuple[TableVersion, ...]:
        """Return the versions of one history with `a` <= key < `b`, in (key, schema, name) order."""
        return tuple(v for v in self.versions if v.node == node and a <= v.key < b)

    def boundaries(self, *nodes: str | None) -> tuple[OrderKey, ...]:
        """Return the distinct keys after ORIGIN at which tables change, in all histories or those of `nodes`."""
        return tuple(sorted({v.key for v in self.versions if v.key > ORIGIN and (not nodes or v.node in nodes)}))

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that have a physical history, sorted."""
        return tuple(sorted({v.node for v in self.versions if v.node is not None}))

    def names(self, node: str | None = None) -> tuple[tuple[str, str], ...]:
        """Return every (schema, table) that ever existed in one history, sorted."""
        return tuple(sorted((schema, name) for owner, schema, name in self._tables if owner == node))

    def tables(self, key: OrderKey, node: str | None = None) -> list[tuple[str, str]]:
        """Return the (schema, table) names that exist for a transaction with this key, sorted."""
        return [(t.schema, t.name) for t in self._alive(key, node)]

    def catalog(self, key: OrderKey, node: str | None = None) -> Catalog:
        """Return the schemas and tables that exist for a transaction with this key."""
        schemas = {}
        for owner, name in self._schemas:
            change = self.schema_at(name, key, node) if owner == node else None
            if change is not None and change.value is not None:
                schemas[name] = change.value
        tables = {(t.schema, t.name): t for t in self._alive(key, node)}
        return Catalog(schemas, tables)

    def _alive(self, key: OrderKey, node: str | None) -> Iterator[Table]:
        if node in self._floors and key <= self._floors[node]:
            raise folded_away("all tables", key, self._floors[node], node)
        for schema, name in self.names(node):
            version = self.at(schema, name, key, node)
            if version is not None and version.table is not None:
                yield version.table

    def with_versions(self, versions: Iterable[TableVersion], schemas: Iterable[SchemaVersion] = ()) -> "SchemaHistory":
        """Return this history with versions added and all versions renumbered, except folded ones.

        A version that exists already with the same content is ignored. Raises HistoryConflict if the content differs,
        or if the version is older than the fold.
        """
        tables = _merge([*self.versions, *versions])
        return SchemaHistory(_numbered(tables), tuple(_merge([*self.schema_versions, *schemas])))

    def continued(
        self, versions: Iterable[TableVersion], schemas: Iterable[SchemaVersion], last: Mapping[str | None, int]
    ) -> "SchemaHistory":
        """Return a part of a history with later versions added, numbered on from `last`.

        `last` maps each node (None: the logical history) to the number of its last version before those added, which
        may belong to a table that this part does not have.
        Raises HistoryConflict as `with_versions` does.
        """
        numbers = dict(last)
        added = []
        for version in _merge(list(versions)):
            numbers[version.node] = numbers.get(version.node, 0) + 1
            added.append(replace(version, version_id=numbers[version.node]))
        tables = sorted([*self.versions, *added], key=_order)
        return SchemaHistory(tuple(tables), tuple(_merge([*self.schema_versions, *schemas])))


def _order(version: TableVersion | SchemaVersion) -> tuple[str, OrderKey, str, str]:
    schema = version.schema if isinstance(version, TableVersion) else ""
    # No node is named "", so the logical history sorts first and apart.
    return (version.node or "", version.key, schema, version.name)


def _merge(versions: list[_Version]) -> list[_Version]:
    merged: dict[tuple[str, OrderKey, str, str], _Version] = {}
    for version in versions:
        place = _order(version)
        known = merged.setdefault(place, version)
        if _content(known) != _content(version):
            what = ".".join(part for part in place[2:] if part)
            raise HistoryConflict(
                f"two definitions of {what} at order key {version.key.text()} in {history_name(version.node)}: "
                f"{known.ddl!r} (from {known.file}:{known.position}) and {version.ddl!r} "
                f"(from {version.file}:{version.position}); remove the wrong one, or start a new store"
            )
    return [merged[place] for place in sorted(merged)]


def _content(version: TableVersion | SchemaVersion) -> object:
    return version.table if isinstance(version, TableVersion) else version.value


def _numbered(versions: list[TableVersion]) -> tuple[TableVersion, ...]:
    last: dict[str | None, TableVersion] = {}
    numbered = []
    for version in versions:
        before = last.get(version.node)
        if version.folded and before is not None and not before.folded:
            raise older_than_fold(f"{before.schema}.{before.name}", before.key, version.key, version.node)
        number = version.version_id if version.folded else (before.version_id if before is not None else 0) + 1
        version = version if version.version_id == number else replace(version, version_id=number)
        last[version.node] = version
        numbered.append(version)
    return tuple(numbered)


def folded_away(table: str, key: OrderKey, floor: OrderKey, node: str | None) -> BeforeBase:
    """Return the error for a lookup below the fold."""
    return BeforeBase(
        f"what there was of {table} at order key {key.text()} in {history_name(node)} is not known any more: the "
        f"history was folded up to {floor.text()}; ask for a later moment, or a copy of the store made before"
    )


def older_than_fold(table: str, key: OrderKey, floor: OrderKey, node: str | None) -> HistoryConflict:
    """Return the error for a version that would be added below the fold."""
    return HistoryConflict(
        f"a version of {table} at order key {key.text()} is older than the fold of {history_name(node)} at "
        f"{floor.text()}: nothing can be added there any more; start anew from a copy made before the fold"
    )


def history_name(node: str | None) -> str:
    """Return the name of a history, for error messages."""
    return f"node {node}" if node else "the logical history"
