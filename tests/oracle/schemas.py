"""Schemas through time: a list of versions per table, looked up by order key."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.oracle.binlog import QUERY, OracleError, parse_query
from tests.oracle.config import Cluster
from tests.oracle.ddl import (
    COLLATION_NAMES,
    DEFAULT_COLLATION,
    Catalog,
    Name,
    Table,
    UnknownTableError,
    apply_text,
)
from tests.oracle.holding import LogicalPlace, PlacedDdl
from tests.oracle.order import ORIGIN, Branch, Key, Marker, NodeOrder
from tests.oracle.reshape import TableMap, check_witness, table_of_map


@dataclass(frozen=True)
class Version:
    key: Key | LogicalPlace
    name: Name
    table: Table | None  # None where the table is dropped
    number: int = 0


@dataclass
class History:
    versions: list[Version] = field(default_factory=list)

    def record(self, key: Key | LogicalPlace, catalog: Catalog, names: list[Name]) -> None:
        """Add what tables look like after a statement, numbered on in name order."""
        for name in sorted(set(names)):
            self.versions.append(Version(key, name, catalog.tables.get(name), len(self.versions) + 1))

    def at(self, name: Name, key: Key, own: bool = False) -> Version | None:
        """Return the latest version with a key less than `key`, or, if `own`, with `key` itself."""
        found = [v for v in self.versions if v.name == name and (v.key < key or (own and v.key == key))]
        return max(found, key=lambda v: (v.key, v.number), default=None)

    def seen(self, name: Name, place: Key | LogicalPlace) -> Version | None:
        """Return what a row at a key sees, or one that was moved to a place: there also what was done there."""
        found = [v for v in self.versions if v.name == name and (v.key < place or (len(place) == 5 and v.key == place))]
        return max(found, key=lambda v: (v.key, v.number), default=None)


def logical_history(cluster: Cluster, markers: list[Marker], placed: Iterable[PlacedDdl] = ()) -> History:
    """Apply the visible markers, and DDL that no marker gives, in the order of their places, to the logical base."""
    history, catalog = History(), cluster.logical
    history.record(ORIGIN, catalog, list(catalog.tables))
    steps: list[tuple[LogicalPlace, int, str, str]] = [
        ((*m.key, 0), m.server_collation, m.sql, m.schema) for m in markers if m.visible
    ]
    steps += [((*d.place[0], d.place[1]), 255, d.sql, d.schema) for d in placed]
    for place, collation, sql, schema in sorted(steps):
        catalog.server_collation = COLLATION_NAMES.get(collation, DEFAULT_COLLATION)
        history.record(place, catalog, apply_text(catalog, sql, schema))
    return history


@dataclass
class PhysicalSchemas:
    """One node's tables: its dump, its DDL, else what the table map or the logical base says."""

    cluster: Cluster
    history: History
    base: dict[Name, Table]  # the logical tables before any marker

    def at(self, tmap: TableMap, branch: Branch, where: str) -> Table:
        """Return the shape of a row's physical table; raises where the table map contradicts it.

        The rows of a CREATE TABLE ... SELECT see the table that it creates itself.
        """
        name = (tmap.schema, tmap.table)
        version = self.history.at(name, branch.key, own=branch.rows.creates)
        known = version.table if version is not None else None
        if known is None and tmap.named:
            return table_of_map(tmap)
        table = known or derived(self.cluster, self.base, name)
        if table is None:
            raise OracleError(f"{where}: nothing is known of table {name}")
        check_witness(tmap, table, where)
        return table


def derived(cluster: Cluster, base: dict[Name, Table], name: Name) -> Table | None:
    """Return the logical base table a physical table belongs to."""
    target = cluster.logical_name(name)
    return base.get(target) if target is not None else None


def physical_schemas(cluster: Cluster, order: NodeOrder, base: dict[Name, Table]) -> PhysicalSchemas:
    """Apply a node's own DDL to its dump, or, where it has none, to tables derived from the logical base."""
    dump = order.node.physical
    catalog = dump or Catalog(fallback=lambda name: derived(cluster, base, name))
    history = History()
    history.record(ORIGIN, catalog, list(catalog.tables))
    for ddl in order.ddl:
        for event in ddl.rows.events:
            if event.type != QUERY:
                continue
            query = parse_query(event)
            if query.text == "BEGIN":
                continue
            catalog.server_collation = COLLATION_NAMES.get(query.collation_server or 255, DEFAULT_COLLATION)
            try:
                names = apply_text(catalog, query.text, query.schema)
            except UnknownTableError:
                continue  # such a table is known by its table maps, or an error when a row comes
            history.record(ddl.key, catalog, names)
    return PhysicalSchemas(cluster, history, {} if dump else base)
