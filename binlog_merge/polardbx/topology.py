"""The physical tables of each logical table, as the cluster's markers record them: a state that each marker changes.

A database's record places its groups on nodes; a table's record names its physical tables, group by group. A later
database record moves groups, and the tables in them, to other nodes. Index tables (GSI) are ignored, and of a broadcast
table only the copy in the group with the smallest name counts. Tables that no record places do not come out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from binlog_merge.polardbx.meta import DatabaseMeta, Group, Placement, TableMeta, TableType
from binlog_merge.polardbx.names import is_cdc_schema

Physical = tuple[str, str, str]
"""(node, schema, table), with lower-cased names."""

Logical = tuple[str, str]


class PlacementError(ValueError):
    """A record places tables in a group or on a storage instance that does not exist."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All logical databases and tables at one moment.

    Methods that take `nodes` need the node of each storage instance.
    """

    databases: Mapping[str, DatabaseMeta] = field(default_factory=dict)
    tables: Mapping[Logical, TableMeta] = field(default_factory=dict)

    def with_snapshot(self, databases: Iterable[DatabaseMeta]) -> "ClusterState":
        """Return the state that a full snapshot describes; what it does not name no longer exists."""
        found, tables = dict[str, DatabaseMeta](), dict[Logical, TableMeta]()
        for database in databases:
            if is_cdc_schema(database.name):
                continue
            found[database.name] = replace(database, tables=())
            for table in database.tables:
                tables[database.name, table.name] = table
        return ClusterState(found, tables)

    def with_database(self, database: DatabaseMeta) -> "ClusterState":
        """Return the state with the groups of a database record, and with the database's tables moved along with their
        groups.
        """
        known = self.databases.get(database.name)
        groups = {g.group: g for g in (known.groups if known is not None else ())}
        groups |= {g.group: g for g in database.groups}
        charset = database.charset or (known.charset if known is not None else None)
        merged = DatabaseMeta(database.name, charset, tuple(groups[name] for name in sorted(groups)))
        tables = {
            name: replace(table, placements=tuple(_moved(p, groups) for p in table.placements))
            if name[0] == database.name
            else table
            for name, table in self.tables.items()
        }
        return ClusterState({**self.databases, database.name: merged}, tables)

    def with_table(self, schema: str, table: TableMeta, renamed_from: str | None = None) -> "ClusterState":
        """Return the state with the table of a table record, which replaces the table it was renamed from.

        Raises PlacementError for a group that its database does not have.
        """
        database = self.databases.get(schema)
        groups = {g.group for g in database.groups} if database is not None else set()
        strange = sorted({p.group for p in table.placements} - groups) if groups else []
        if strange:
            raise PlacementError(f"table {schema}.{table.name} lies in group {', '.join(strange)}, not one of {schema}")
        tables = {**self.tables}
        if renamed_from is not None and renamed_from != table.name:
            tables.pop((schema, renamed_from), None)
        tables[schema, table.name] = table
        return ClusterState(self.databases, tables)

    def without_table(self, schema: str, table: str) -> "ClusterState":
        """Return the state without a table."""
        return ClusterState(self.databases, {k: v for k, v in self.tables.items() if k != (schema, table)})

    def without_database(self, schema: str) -> "ClusterState":
        """Return the state without a database and its tables."""
        return ClusterState(
            {k: v for k, v in self.databases.items() if k != schema},
            {k: v for k, v in self.tables.items() if k[0] != schema},
        )

    def schemas(self, nodes: Mapping[str, str]) -> frozenset[tuple[str, str]]:
        """Return the physical schemas as (node, schema)."""
        groups = {(g.storage, g.schema) for d in self.databases.values() for g in d.groups}
        groups |= {(p.storage, p.schema) for t in self.tables.values() for p in t.placements}
        return frozenset((nodes[storage], schema) for storage, schema in groups if storage in nodes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "databases": [asdict(self.databases[name]) for name in sorted(self.databases)],
            "tables": [[name[0], asdict(self.tables[name])] for name in sorted(self.tables)],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ClusterState":
        """Read what `to_dict` wrote."""
        databases = [
            DatabaseMeta(d["name"], d["charset"], tuple(Group(**g) for g in d["groups"])) for d in values["databases"]
        ]
        tables = {(schema, t["name"]): _table_from(t) for schema, t in values["tables"]}
        return cls({d.name: d for d in databases}, tables)


def _table_from(values: Mapping[str, Any]) -> TableMeta:
    placements = tuple(
        Placement(p["storage"], p["group"], p["schema"], tuple(p["tables"])) for p in values["placements"]
    )
    return TableMeta(**{**values, "type": TableType(values["type"]), "placements": placements})


def _moved(placement: Placement, groups: Mapping[str, Group]) -> Placement:
    group = groups.get(placement.group)
    if group is None:
        return placement
    return replace(placement, storage=group.storage, schema=group.schema)


def physical_tables(table: TableMeta, logical: Logical, nodes: Mapping[str, str]) -> Iterator[Physical]:
    """Yield the physical tables whose rows come out as the logical table's. `nodes` maps storage instances to nodes.

    Raises PlacementError for a storage instance without a node.
    """
    if table.type is TableType.GSI:
        return
    placements = [p for p in table.placements if p.tables]
    if table.type is TableType.BROADCAST and placements:
        first = min(placements, key=lambda p: (p.group, p.schema))
        placements = [replace(first, tables=first.tables[:1])]
    for placement in placements:
        node = nodes.get(placement.storage)
        if node is None:
            raise PlacementError(
                f"table {'.'.join(logical)} lies on storage instance {placement.storage} (group {placement.group}), "
                "which is no node of this cluster"
            )
        for name in placement.tables:
            yield node, placement.schema, name
