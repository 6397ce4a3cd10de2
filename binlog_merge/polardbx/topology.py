"""Which physical tables make a logical table, as the cluster's own markers tell it: a state that changes with each.

A database's record places its groups on nodes; a table's record names its physical tables, group by group. A later
database record moves groups, and the tables in them, to other nodes. Index tables (GSI) place nothing, of a broadcast
table only the copy in the group with the smallest name counts: what no record places does not come out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from binlog_merge.polardbx.meta import DatabaseMeta, Group, Placement, TableMeta, TableType
from binlog_merge.polardbx.names import is_cdc_schema

Physical = tuple[str, str, str]
"""(node, schema, table), the names lower-cased."""

Logical = tuple[str, str]


class PlacementError(ValueError):
    """A record places tables where there is nothing."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All logical databases and tables at one moment. A storage instance is mapped to its node by `nodes`."""

    databases: Mapping[str, DatabaseMeta] = field(default_factory=dict)
    tables: Mapping[Logical, TableMeta] = field(default_factory=dict)

    def with_snapshot(self, databases: Iterable[DatabaseMeta]) -> "ClusterState":
        """Return the state that a snapshot of everything gives; what it does not name is gone."""
        found, tables = dict[str, DatabaseMeta](), dict[Logical, TableMeta]()
        for database in databases:
            if is_cdc_schema(database.name):
                continue
            found[database.name] = replace(database, tables=())
            for table in database.tables:
                tables[database.name, table.name] = table
        return ClusterState(found, tables)

    def with_database(self, database: DatabaseMeta) -> "ClusterState":
        """Return the state with a database's groups where its record says, and its tables with them."""
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
        """Return the state with a table as its record says, in the place of the one it was renamed from.

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
    """Yield the physical tables whose rows come out as a logical table's; `nodes` gives storage instances their nodes.

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
