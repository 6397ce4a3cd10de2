"""Proposes the `routes` and `copies` of a configuration for what the shards of logical tables have in common.

| shards | proposal |
|---|---|
| have the same rows, which no counter gives their keys | `copies`: of one node |
| have rows with the same keys, or count alike with no rows yet | a column with the shard, `key: true`, in their route |
| refer to such rows with a foreign key | the same column, which keeps each row with its own shard's |
| of these, where the foreign key is SET NULL | a table for each shard |

What loses no row, whatever the shards mean, is what is proposed; the other way stands beside it as a comment.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations
from typing import Any, Final

import yaml

from binlog_merge.bootstrap.overlap import Kind, Overlap
from binlog_merge.bootstrap.values import Name, Shard
from binlog_merge.config.merge_config import MergeConfig, route_of, topology_of
from snapshot_store.model import Catalog
from snapshot_store.topology import Topology

Rule = dict[str, Any]
"""A route, or a copy, in the words of the configuration."""
_PARTS: Final = ("source", "table", "schema")


class _Way(IntEnum):
    """What becomes of a table; of two ways it is the greater one."""

    column = 1
    key = 2
    apart = 3
    copy = 4


@dataclass(frozen=True)
class Proposal:
    """The sections of a configuration: their values, and as YAML with comments."""

    sections: Mapping[str, Sequence[Rule]]
    text: str


Item = Rule | str
"""What stands in a section: a rule, or a comment."""


def proposal(
    config: MergeConfig,
    written: Mapping[str, Any],
    overlaps: Sequence[Overlap],
    logical: Catalog,
    shards: Mapping[Name, Sequence[Shard]],
) -> Proposal | None:
    """Return what is proposed, None if nothing is; `written` is the configuration as it was read.

    `shards` are those of all logical tables.
    """
    topology = topology_of(config)
    known = [one for one in overlaps if mode_of(config, topology, one.shards[0]) != "marker"]
    ways = _ways(config, known, logical)
    if not ways:
        return None
    columns = _Columns(ways, logical, shards)
    made = _Maker(config, topology, written, columns, shards, {one.name: one for one in known})
    for name, way in sorted(ways.items()):
        made.take(name, way)
    return made.proposal()


def mode_of(config: MergeConfig, topology: Topology, shard: Shard) -> str:
    """Return the `shard-mode` of a shard's table."""
    route = topology.route(*shard)
    return next((r.shard_mode for r in config.routes if r.shard_mode and route_of(r, config) == route), None) or (
        config.shard_mode
    )


def _ways(config: MergeConfig, overlaps: Iterable[Overlap], logical: Catalog) -> dict[Name, _Way]:
    ways = {}
    for one in overlaps:
        if one.kind is Kind.copy and not one.counts and _once_a_node(config, one.shards):
            ways[one.name] = _Way.copy
        elif one.kind is not Kind.counters or not one.rows:
            ways[one.name] = _Way.key
    while True:
        before = dict(ways)
        for name, table in logical.tables.items():
            for key in table.foreign_keys:
                parent = key.target(name[0])
                way = ways.get(parent)
                if way is None or way is _Way.copy or ways.get(name) is _Way.copy:
                    continue
                if way is _Way.apart or key.sets_null:
                    own = _Way.apart
                    ways[parent] = max(way, own)
                else:
                    own = _Way.column if way is _Way.key else way
                # A column that only a parent needs is part of no key, and no child needs it for that table's sake.
                if way is not _Way.column:
                    ways[name] = max(ways.get(name, _Way.column), own)
        if ways == before:
            return ways


def _once_a_node(config: MergeConfig, shards: Sequence[Shard]) -> bool:
    return sorted(shard.node for shard in shards) == sorted(node.source_id for node in config.nodes)


class _Columns:
    """Which parts of the shards' names tell them apart, and the columns for these; the same for all tables."""

    def __init__(self, ways: Mapping[Name, _Way], logical: Catalog, shards: Mapping[Name, Sequence[Shard]]) -> None:
        tables = [name for name, way in ways.items() if way in (_Way.column, _Way.key)]
        tried = (parts for count in (1, 2, 3) for parts in combinations(_PARTS, count))
        self.parts = next((parts for parts in tried if all(_apart(shards[name], parts) for name in tables)), _PARTS)
        taken = {column.name.lower() for name in tables for column in logical.tables[name].columns}
        wanted = {part: "c_shard" if len(self.parts) == 1 else f"c_{part}" for part in self.parts}
        self.names = {part: _free(name, taken) for part, name in wanted.items()}


def _apart(shards: Sequence[Shard], parts: Sequence[str]) -> bool:
    values = [tuple(_part(shard, part) for part in parts) for shard in shards]
    return len(set(values)) == len(values)


def _part(shard: Shard, part: str) -> str:
    return {"source": shard.node, "table": shard.table, "schema": shard.schema}[part]


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number, free = number + 1, f"{name}_{number + 1}"
    return free


class _Maker:
    """Writes the rules of one table after the other beside those that are there."""

    def __init__(
        self,
        config: MergeConfig,
        topology: Topology,
        written: Mapping[str, Any],
        columns: _Columns,
        shards: Mapping[Name, Sequence[Shard]],
        overlaps: Mapping[Name, Overlap],
    ) -> None:
        self._config, self._topology, self._columns = config, topology, columns
        self._shards, self._overlaps = shards, overlaps
        self._there: list[Rule] = [dict(rule) for rule in written.get("routes") or []]
        self._before: dict[int, list[str]] = {}
        self._after: dict[int, list[str]] = {}
        self._routes: list[Item] = []
        self._copies: list[Item] = []
        self._copied_there: list[Item] = [dict(rule) for rule in written.get("copies") or []]

    def take(self, name: Name, way: _Way) -> None:
        """Write what becomes of a table."""
        shown, overlap = ".".join(name), self._overlaps.get(name)
        if way is _Way.copy:
            self._copies += [f"{shown}: each node has the same rows; those of one come out", *self._copied(name)]
            self._copies += ["if they are not to be the same, leave it out here, and give it a route:"]
            self._copies += map(_line, self._keyed(name, True))
        elif way is _Way.apart:
            self._routes += [f"{shown}: a foreign key with SET NULL cannot have the shard in it: a table for each"]
            self._routes += self._apart(name)
        elif way is _Way.column:
            self._take_keyed(name, f"{shown}: with the shard, as it refers to rows of its own", False)
        else:
            others = ["or a table for each shard, also of tables that refer to it:", *map(_line, self._apart(name))]
            if overlap is not None and overlap.kind is Kind.copy and _once_a_node(self._config, overlap.shards):
                others = ["or, if each node is to have the same rows, no route, but under copies:"]
                others += map(_line, self._copied(name))
            self._take_keyed(name, f"{shown}: the shard becomes part of its keys", True, others)

    def _take_keyed(self, name: Name, said: str, key: bool, others: Sequence[str] = ()) -> None:
        numbers = {self._changeable(shard) for shard in self._shards[name]}
        there = sorted(number for number in numbers if number is not None)
        for number in there:
            self._there[number] = self._with_columns(self._there[number], key)
            self._before.setdefault(number, []).append(said)
        if None in numbers:
            self._routes += [said, *self._keyed(name, key), *others]
        else:
            self._after.setdefault(there[-1], []).extend(others)

    def _keyed(self, name: Name, key: bool) -> list[Rule]:
        """Return new routes, with the columns, of the shards of a table that have none of their own."""
        rules: dict[tuple[str, str], Rule] = {}
        for shard in self._shards[name]:
            if self._changeable(shard) is None:
                number = self._rule(shard)
                there = {} if number is None else self._there[number]
                schema = str(there.get("schema-pattern", _pattern(shard.schema)))
                target = {"target-schema": name[0], "target-table": name[1]}
                rule = {**there, "schema-pattern": schema, "table-pattern": _pattern(shard.table), **target}
                rules[schema, shard.table] = self._with_columns(rule, key)
        return list(rules.values())

    def _with_columns(self, rule: Rule, key: bool) -> Rule:
        changed = dict(rule)
        for part, column in self._columns.names.items():
            name = f"extract-{part}"
            there = changed.get(name) or {f"{part}-regexp": _regexp(rule, part), "target-column": column}
            changed[name] = {**there, "key": True} if key else there
        return changed

    def _apart(self, name: Name) -> list[Rule]:
        shards = self._shards[name]
        suffixes = [f"_{suffix}" for suffix in _suffixes(shards)]
        if any((name[0], name[1] + suffix) in self._shards for suffix in suffixes):
            suffixes = [f"_of{suffix}" for suffix in suffixes]
        return [
            {
                "source-pattern": shard.node,
                "schema-pattern": _pattern(shard.schema),
                "table-pattern": _pattern(shard.table),
                "target-schema": name[0],
                "target-table": name[1] + suffix,
            }
            for shard, suffix in zip(shards, suffixes, strict=True)
        ]

    def _copied(self, name: Name) -> list[Rule]:
        places = dict.fromkeys((shard.schema, shard.table) for shard in self._shards[name])
        return [{"schema-pattern": _pattern(s), "table-pattern": _pattern(t)} for s, t in places]

    def _rule(self, shard: Shard) -> int | None:
        """Return the number of a shard's route."""
        route = self._topology.route(*shard)
        return next((i for i, rule in enumerate(self._config.routes) if route_of(rule, self._config) == route), None)

    def _changeable(self, shard: Shard) -> int | None:
        """Return the number of a shard's route if that is of one logical table alone."""
        number = self._rule(shard)
        return number if number is not None and self._config.routes[number].target_table is not None else None

    def proposal(self) -> Proposal:
        """Return all sections that are other than they were."""
        sections: dict[str, list[Item]] = {}
        if self._routes or self._before:
            sections["routes"] = list(self._routes)
            for number, rule in enumerate(self._there):
                sections["routes"] += [*self._before.get(number, ()), rule, *self._after.get(number, ())]
        if self._copies:
            sections["copies"] = [*self._copied_there, *self._copies]
        lines = [line for name, items in sections.items() for line in (f"{name}:", *map(_in_section, items))]
        values = {name: [item for item in items if not isinstance(item, str)] for name, items in sections.items()}
        return Proposal(values, "\n".join(lines) + "\n")


def _regexp(rule: Rule, part: str) -> str:
    """Return the expression of what tells shards apart: of a pattern that ends with `*` only what that stands for."""
    pattern = str(rule.get(f"{part}-pattern", ""))
    plain = pattern.removesuffix("*")
    return f"{plain}(.*)" if part != "source" and plain != pattern and re.fullmatch(r"\w+", plain) else "(.*)"


def _suffixes(shards: Sequence[Shard]) -> list[str]:
    """Return short names of shards, by what differs: 1, 2, 3 of shard-1, shard-2, shard-3."""
    parts = next(p for c in (1, 2, 3) for p in combinations(_PARTS, c) if _apart(shards, p))
    whole = ["_".join(re.sub(r"\W+", "_", _part(shard, part)) for part in parts) for shard in shards]
    words = [text.rpartition("_")[2] for text in whole]
    numbers = [str(number) for number in range(1, len(shards) + 1)]
    tried = (words, whole, numbers)
    return next(c for c in tried if all(c) and len({text.casefold() for text in c}) == len(c))


def _pattern(name: str) -> str:
    """Return a pattern that matches a name alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _in_section(item: Item) -> str:
    return f"  # {item}" if isinstance(item, str) else f"  {_line(item)}"


def _line(rule: Rule) -> str:
    """Return a rule as one line of YAML."""
    return (
        "- " + yaml.safe_dump(rule, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20).strip()
    )
