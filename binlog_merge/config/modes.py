"""The coordination mode of each physical table, and the extra columns of its route (DM: `extract-table` and others)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from snapshot_store.topology import Route, Topology


@dataclass(frozen=True, slots=True)
class Extractor:
    """Extracts a value from a name; `key`: the column is part of the table's keys.

    Raises ValueError for a regular expression that is invalid or without a group.
    """

    regexp: str
    target_column: str
    key: bool = False

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.regexp).groups
        except re.error as error:
            raise ValueError(f"{self.regexp!r} is not a regular expression: {error}") from None
        if not groups:
            raise ValueError(f"{self.regexp!r} captures nothing: put what is to be taken in parentheses")
        if not self.target_column:
            raise ValueError("target-column is empty")

    def value(self, name: str) -> str:
        """Return the text captured from a name, '' if the name does not match."""
        match = _compiled(self.regexp).search(name)
        return "" if match is None else "".join(group or "" for group in match.groups())


@dataclass(frozen=True, slots=True)
class Extract:
    """The extractors of a route, in the order of their columns."""

    table: Extractor | None = None
    schema: Extractor | None = None
    source: Extractor | None = None

    def __post_init__(self) -> None:
        names = [column.lower() for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"two extractors of a route write the same column: {', '.join(self.columns)}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the extra columns."""
        return tuple(e.target_column for e in (self.table, self.schema, self.source) if e is not None)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the extra columns that are part of the table's keys."""
        return tuple(e.target_column for e in (self.table, self.schema, self.source) if e is not None and e.key)

    def values(self, node: str, schema: str, table: str) -> tuple[tuple[str, str], ...]:
        """Return (column, value) for the rows of a physical table."""
        pairs = ((self.table, table), (self.schema, schema), (self.source, node))
        return tuple((e.target_column, e.value(name)) for e, name in pairs if e is not None)


@lru_cache(maxsize=256)
def _compiled(regexp: str) -> re.Pattern[str]:
    return re.compile(regexp)


ShardMode = Literal["marker", "pessimistic", "optimistic"]


def key_columns(extracts: Mapping[Route, Extract], name: tuple[str, str]) -> tuple[str, ...]:
    """Return the extracted columns that are part of the keys of a logical table: all its shards have the same."""
    keys_of_routes = (extract.keys for route, extract in extracts.items() if extract.keys and route.makes(*name))
    return next(keys_of_routes, ())


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
        modes = [self.routes.get(r, self.default) for r in self.topology.routes if r.matches_schema(node, schema)]
        return any(mode != "marker" for mode in modes or [self.default])

    def key_columns(self, name: tuple[str, str]) -> tuple[str, ...]:
        """Return the extracted columns that are part of the keys of a logical table."""
        return key_columns(self.extracts, name)

    def extract(self, node: str, schema: str, table: str) -> Extract | None:
        """Return the extractors of a table's route, None if it has none. Raises AmbiguousRoute."""
        if not self.extracts:
            return None
        route = self.topology.route(node, schema, table)
        return None if route is None else self.extracts.get(route)
