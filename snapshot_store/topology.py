"""Topology: which physical tables make a logical table, on which nodes.

Routes have the form of DM's table router (pingcap/tiflow `pkg/router`): `*` matches any run of characters, `?` matches
one, `[a-z]` and `[!a-z]` match one of a set. A route without a table pattern is a schema route and renames the schema
only. Names are case-sensitive unless the route has `fold`, as in DM by default.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from snapshot_store.errors import AmbiguousRoute
from snapshot_store.mysql.sql.names import folded
from snapshot_store.tso import OrderKey

SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""Schemas that are never part of the output."""


@dataclass(frozen=True, slots=True)
class Route:
    """Sends the physical tables that match both patterns to one logical table.

    An empty `target_table` keeps the table's own name. `node` is a pattern that limits the route to some nodes, whose
    names are case-sensitive. `fold`: names and patterns of schemas and tables are compared case-insensitively.
    """

    schema_pattern: str
    table_pattern: str = ""
    target_schema: str = ""
    target_table: str = ""
    node: str = "*"
    fold: bool = False

    def matches_schema(self, node: str, schema: str) -> bool:
        """Return whether the route applies to this schema at all."""
        return _matches(self.node, node) and _matches(self.schema_pattern, schema, self.fold)

    def matches(self, node: str, schema: str, table: str) -> bool:
        """Return whether the route matches this table."""
        return self.matches_schema(node, schema) and (
            not self.table_pattern or _matches(self.table_pattern, table, self.fold)
        )

    def makes(self, schema: str, table: str) -> bool:
        """Return whether some table that the route matches becomes this logical one."""
        own = not self.table_pattern or _matches(self.table_pattern, table, self.fold)
        return self.target_schema == schema and (self.target_table == table if self.target_table else own)

    @property
    def example(self) -> str:
        """Return a name that the table pattern matches, for most patterns."""
        return _WILDCARD.sub(
            lambda found: "" if found[0] == "*" else "x" if found[0] == "?" else found[1], self.table_pattern
        )

    @property
    def rank(self) -> tuple[bool, bool, bool, bool]:
        """Return how specific the route is.

        A table route beats a schema route, then plain names beat wildcards, then a route for some nodes beats one for
        all, and one for a single node beats a pattern.
        """
        plain = not _WILD.search(self.schema_pattern + self.table_pattern)
        return (bool(self.table_pattern), plain, self.node != "*", not _WILD.search(self.node))


_WILD = re.compile(r"[*?\[]")
_WILDCARD = re.compile(r"[*?]|\[!?(.)[^\]]*\]")


def matches_pattern(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern of DM, case-sensitively. Raises ValueError for an impossible pattern."""
    return _matches(pattern, name)


@dataclass(frozen=True, slots=True)
class Copy:
    """Tables that every node has in full: only those of `node` come out."""

    schema_pattern: str
    table_pattern: str
    node: str
    fold: bool = False

    def matches(self, schema: str, table: str) -> bool:
        """Return whether a table is such a one, whichever node it is on."""
        return _matches(self.schema_pattern, schema, self.fold) and _matches(self.table_pattern, table, self.fold)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A physical table that is left out for transactions with `since` <= key < `until` (None: forever)."""

    node: str
    schema: str
    table: str
    since: OrderKey
    until: OrderKey | None

    def holds(self, key: OrderKey) -> bool:
        """Return whether a transaction with this key finds the table hidden."""
        return self.since <= key and (self.until is None or key < self.until)


@dataclass(frozen=True, slots=True)
class Topology:
    """The routes of a cluster, its copies, and the schemas and tables that are left out of the output.

    `ignored` are patterns of schemas; it must include the marker schema if the cluster has one. `fold`: these are
    compared case-insensitively, except those of system schemas. `hidden` are tables that are left out for a time: those
    of tools that change schemas online. `folding` are the nodes whose names of tables and databases are in lower case,
    however they are written (lower_case_table_names is not 0). `ignored_transactions` are patterns of tables, as
    "schema.table": a transaction that changes one of these is left out with all its rows.
    """

    routes: tuple[Route, ...] = ()
    ignored: frozenset[str] = SYSTEM_SCHEMAS
    hidden: tuple[Hidden, ...] = ()
    fold: bool = False
    copies: tuple[Copy, ...] = ()
    folding: frozenset[str] = frozenset()
    ignored_transactions: frozenset[str] = frozenset()
    _hidden: dict[tuple[str, str, str], tuple[Hidden, ...]] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        found: dict[tuple[str, str, str], tuple[Hidden, ...]] = {}
        for one in self.hidden:
            name = (one.node, one.schema, one.table)
            found[name] = (*found.get(name, ()), one)
        object.__setattr__(self, "_hidden", found)

    def hidden_times(self, node: str, schema: str, table: str) -> tuple[Hidden, ...]:
        """Return the times for which a table is hidden."""
        return self._hidden.get((node, *self.named(node, schema, table)), ())

    def named(self, node: str, schema: str, table: str) -> tuple[str, str]:
        """Return the names by which a node knows a table."""
        return (folded(schema), folded(table)) if node in self.folding else (schema, table)

    def copy_from(self, schema: str, table: str) -> str | None:
        """Return the node from which a table comes out that all have in full, None if it is no such table.

        Raises AmbiguousRoute for one that comes from two.
        """
        found = {copy.node for copy in self.copies if copy.matches(schema, table)}
        if len(found) > 1:
            raise AmbiguousRoute(f"table {schema}.{table} is a copy from {_listed(found)}: make one pattern narrower")
        return found.pop() if found else None

    def is_ignored(self, schema: str) -> bool:
        """Return whether a schema is left out of the output."""
        return any(_matches(pattern, schema, self.fold and pattern not in SYSTEM_SCHEMAS) for pattern in self.ignored)

    def ignores_transaction(self, tables: Iterable[tuple[str, str]]) -> bool:
        """Return whether a transaction that changes these tables is left out."""
        if not self.ignored_transactions:
            return False
        names = {f"{schema}.{table}" for schema, table in tables}
        return any(_matches(pattern, name, self.fold) for pattern in self.ignored_transactions for name in names)

    def logical_name(self, node: str, schema: str, table: str, key: OrderKey | None = None) -> tuple[str, str] | None:
        """Return the logical (schema, table) of a physical one, or None if it is left out of the output.

        The most specific route wins; without a route a table keeps its name. `key` is that of the transaction for which
        this is asked; without it the table counts as one that is not `hidden`. Raises AmbiguousRoute when routes of one
        rank disagree.
        """
        schema, table = self.named(node, schema, table)
        if self.is_ignored(schema):
            return None
        if key is not None and any(one.holds(key) for one in self.hidden_times(node, schema, table)):
            return None
        if self.copies and self.copy_from(schema, table) not in (None, node):
            return None
        return self._routed(node, schema, table)

    def may_hold(self, node: str, schema: str, logical: tuple[str, str]) -> str | None:
        """Return a name by which a physical database may have a table of a logical one, None if there is none.

        Under a pattern it is one of many. Raises AmbiguousRoute.
        """
        examples = (
            route.example for route in self.routes if route.matches_schema(node, schema) and route.makes(*logical)
        )
        names = dict.fromkeys((logical[1], *filter(None, examples)))
        return next((name for name in names if self.logical_name(node, schema, name) == logical), None)

    def referenced_name(self, node: str, schema: str, table: str) -> tuple[str, str] | None:
        """Return the logical table that a foreign key of a node refers to: `logical_name`, also for a copy that comes
        out from another node.
        """
        return self.logical_name((self.copies and self.copy_from(schema, table)) or node, schema, table)

    def _routed(self, node: str, schema: str, table: str) -> tuple[str, str]:
        route = self.route(node, schema, table)
        if route is None:
            return (schema, table)
        return (route.target_schema or schema, route.target_table or table)

    def logical_schema(self, node: str, schema: str) -> str | None:
        """Return the logical schema of a physical one, or None if it is left out of the output.

        Schema routes decide. Without one, the table routes that match the schema do, if they agree on the target.
        Raises AmbiguousRoute otherwise.
        """
        schema, _ = self.named(node, schema, "")
        if self.is_ignored(schema):
            return None
        matching = [r for r in self.routes if r.matches_schema(node, schema)]
        chosen = [r for r in matching if not r.table_pattern] or matching
        best = max((r.rank for r in chosen), default=None)
        targets = {r.target_schema or schema for r in chosen if r.rank == best}
        if len(targets) > 1:
            raise AmbiguousRoute(f"schema {schema} of node {node} is sent to {_listed(targets)}: add one schema route")
        return targets.pop() if targets else schema

    def physical_tables(
        self, tables: Mapping[str, Iterable[tuple[str, str]]]
    ) -> dict[tuple[str, str], tuple[tuple[str, str, str], ...]]:
        """Return, for each logical table, its physical (node, schema, table) names; all sorted."""
        groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
        for node, names in tables.items():
            for schema, table in names:
                logical = self.logical_name(node, schema, table)
                if logical is not None:
                    groups.setdefault(logical, []).append((node, schema, table))
        return {logical: tuple(sorted(groups[logical])) for logical in sorted(groups)}

    def route(self, node: str, schema: str, table: str) -> Route | None:
        """Return the route that applies to a table, or None. Raises AmbiguousRoute."""
        schema, table = self.named(node, schema, table)
        matching = [r for r in self.routes if r.matches(node, schema, table)]
        if not matching:
            return None
        best = max(r.rank for r in matching)
        chosen = [r for r in matching if r.rank == best]
        targets = {f"{r.target_schema or schema}.{r.target_table or table}" for r in chosen}
        if len(targets) > 1:
            raise AmbiguousRoute(
                f"table {schema}.{table} of node {node} matches {len(chosen)} routes that send it to "
                f"{_listed(targets)}: make one of their patterns narrower, or limit it to some nodes"
            )
        return chosen[0]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _matches(pattern: str, name: str, fold: bool = False) -> bool:
    if fold:
        pattern, name = pattern.lower(), name.lower()
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        close = pattern.find("]", i + 2) if char == "[" else -1
        if close > 0:
            body = pattern[i + 1 : close]
            negated = body.startswith("!")
            members = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[negated:])
            out.append(f"[{'^' if negated else ''}{members}]")
            i = close + 1
            continue
        out.append({"*": ".*", "?": "."}.get(char, re.escape(char)))
        i += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        raise ValueError(f"{pattern!r} is not a pattern: use *, ?, [a-z] or [!a-z]") from None
