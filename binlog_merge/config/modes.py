"""The coordination mode of each physical table, and the extra columns of its route."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from binlog_merge.config.extract import Extract
from snapshot_store.topology import Route, Topology

ShardMode = Literal["marker", "pessimistic", "optimistic"]


def key_columns(extracts: Mapping[Route, Extract], name: tuple[str, str]) -> tuple[str, ...]:
    """Return the extracted columns that are part of the keys of a logical table: all its shards have the same."""
    found = (extract.keys for route, extract in extracts.items() if extract.keys and route.makes(*name))
    return next(found, ())


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes and extra columns of routes; routes that are not in `routes` have the mode `default`.

    `online_ddl`: tables of tools that change schemas online are recognized (`shards.tools`).
    """

    topology: Topology = field(default_factory=Topology)
    default: ShardMode = "marker"
    routes: Mapping[Route, ShardMode] = field(default_factory=dict)
    extracts: Mapping[Route, Extract] = field(default_factory=dict)
    online_ddl: bool = True

    def of(self, node: str, schema: str, table: str) -> ShardMode:
        """Return the mode in which a physical table is coordinated. Raises AmbiguousRoute."""
        route = self.topology.route(node, schema, table)
        return self.default if route is None else self.routes.get(route, self.default)

    @property
    def without_markers(self) -> bool:
        """Return whether there may be tables that are coordinated without markers."""
        return self.default != "marker" or any(mode != "marker" for mode in self.routes.values())

    def coordinates(self, node: str, schema: str) -> bool:
        """Return whether a physical schema has tables that are coordinated without markers."""
        if self.topology.is_ignored(schema):
            return False
        found = [self.routes.get(r, self.default) for r in self.topology.routes if r.matches_schema(node, schema)]
        return any(mode != "marker" for mode in found or [self.default])

    def key_columns(self, name: tuple[str, str]) -> tuple[str, ...]:
        """Return the extracted columns that are part of the keys of a logical table."""
        return key_columns(self.extracts, name)

    def extract(self, node: str, schema: str, table: str) -> Extract | None:
        """Return the extractors of a table's route, None if it has none. Raises AmbiguousRoute."""
        if not self.extracts:
            return None
        route = self.topology.route(node, schema, table)
        return None if route is None else self.extracts.get(route)
