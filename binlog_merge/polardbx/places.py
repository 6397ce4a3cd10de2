"""Where physical tables belong, moment by moment: one immutable value that travels to executors.

A state takes effect *after* its key, as schema versions do: a transaction with a greater key sees it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from binlog_merge.polardbx.topology import ClusterState, Logical, Physical, PlacementError, physical_tables
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Span:
    """A physical table belongs to a logical one for transactions with `after` < key <= `until` (None: for good)."""

    after: OrderKey
    until: OrderKey | None
    logical: Logical

    def holds(self, key: OrderKey) -> bool:
        """Tell whether a transaction with this key is in the span."""
        return self.after < key and (self.until is None or key <= self.until)


@dataclass(frozen=True, slots=True)
class Places:
    """The spans of every physical table. `schemas` are the physical schemas, as (node, schema), of which all is known;
    tables elsewhere go where `routes` explicitly send them.
    """

    spans: tuple[tuple[Physical, tuple[Span, ...]], ...] = ()
    schemas: frozenset[tuple[str, str]] = frozenset()
    routes: Topology = field(default_factory=Topology)
    _index: dict[Physical, tuple[list[OrderKey], tuple[Span, ...]]] = field(
        init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        index = {physical: ([span.after for span in spans], spans) for physical, spans in self.spans}
        object.__setattr__(self, "_index", index)

    def __reduce__(self) -> tuple[type["Places"], tuple[object, ...]]:
        return (Places, (self.spans, self.schemas, self.routes))

    def logical_name(self, node: str, schema: str, table: str, key: OrderKey) -> Logical | None:
        """Return the logical (schema, table) of a physical one for a transaction, or None if it does not come out."""
        found = self._index.get((node, schema.lower(), table.lower()))
        if found is None:
            return self._routed(node, schema, table)
        place = bisect_left(found[0], key) - 1
        return found[1][place].logical if place >= 0 and found[1][place].holds(key) else None

    def of(self, node: str, schema: str, table: str) -> tuple[Span, ...] | None:
        """Return the spans of a physical table, in order; None where it is the same at all times."""
        found = self._index.get((node, schema.lower(), table.lower()))
        return None if found is None else found[1]

    def _routed(self, node: str, schema: str, table: str) -> Logical | None:
        if (node, schema.lower()) in self.schemas or self.routes.is_ignored(schema):
            return None
        if not any(route.matches(node, schema, table) for route in self.routes.routes):
            return None
        return self.routes.logical_name(node, schema, table)

    def boundaries(self) -> tuple[OrderKey, ...]:
        """Return the keys behind which some table belongs elsewhere."""
        keys = {key for _, spans in self.spans for s in spans for key in (s.after, s.until) if key is not None}
        return tuple(sorted(keys))


@dataclass(frozen=True, slots=True)
class Rename:
    """A node's own RENAME: physical tables of one statement, as (schema, old name), (schema, new name)."""

    key: OrderKey
    node: str
    pairs: tuple[tuple[Logical, Logical], ...]


def follow_renames(places: Places, renames: Iterable[Rename]) -> Places:
    """Return the places with tables followed under their new names, until a marker tells of them.

    A cluster renames physical tables before it tells so. A table whose name another one gets in the same statement
    stays where it is: that is how a table is exchanged for a copy of it.
    """
    spans = {physical: list(known) for physical, known in places.spans}
    for rename in sorted(renames, key=lambda r: r.key):
        taken = {new for _, new in rename.pairs}
        for old, new in rename.pairs:
            if old not in taken:
                _follow(spans, rename.key, (rename.node, *old), (rename.node, *new))
    return Places(tuple((p, tuple(spans[p])) for p in sorted(spans) if spans[p]), places.schemas, places.routes)


def _follow(spans: dict[Physical, list[Span]], key: OrderKey, old: Physical, new: Physical) -> None:
    there = spans.get(new, [])
    behind = key._replace(node_seq=key.node_seq + 1)
    here = next((span for span in spans.get(old, ()) if span.holds(behind)), None)
    if here is None or any(span.holds(behind) for span in there):
        return
    place = spans[old].index(here)
    spans[old][place : place + 1] = [replace(here, until=key)] if here.after < key else []
    ends = [span.after for span in there if span.after >= key] + ([here.until] if here.until is not None else [])
    spans[new] = sorted([*there, Span(key, min(ends, default=None), here.logical)], key=lambda span: span.after)


class PlacesBuilder:
    """Follows a cluster's states and keeps the spans that they give. `nodes`: the node of each storage instance."""

    def __init__(self, nodes: Mapping[str, str], routes: Topology) -> None:
        self.state = ClusterState()
        self._nodes = nodes
        self._routes = routes
        self._open: dict[Physical, tuple[OrderKey, Logical]] = {}
        self._spans: dict[Physical, list[Span]] = {}
        self._schemas: set[tuple[str, str]] = set()
        self._states: list[tuple[OrderKey, ClusterState]] = []

    def state_before(self, key: OrderKey) -> ClusterState:
        """Return the state when everything below `key` has happened."""
        return next((state for when, state in reversed(self._states) if when < key), ClusterState())

    def advance(self, key: OrderKey, state: ClusterState) -> None:
        """Take the state that holds behind `key`.

        Raises PlacementError, with nothing taken, for a storage instance without a node and where two logical tables
        would share a physical one.
        """
        before, after = self.state.tables, state.tables
        changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        gone = {p for name in changed if name in before for p in physical_tables(before[name], name, self._nodes)}
        new: dict[Physical, Logical] = {}
        for name in changed:
            for physical in physical_tables(after[name], name, self._nodes) if name in after else ():
                other = new.setdefault(physical, name)
                if other == name and physical not in gone and physical in self._open:
                    other = self._open[physical][1]
                if other != name:
                    raise PlacementError(
                        f"{physical[1]}.{physical[2]} on {physical[0]} is said to belong to {'.'.join(other)} and to "
                        f"{'.'.join(name)}"
                    )
        for physical in gone:
            if new.get(physical) != self._open[physical][1]:
                since, logical = self._open.pop(physical)
                self._spans.setdefault(physical, []).append(Span(since, key, logical))
        for physical, name in new.items():
            self._open.setdefault(physical, (key, name))
        self._schemas |= state.schemas(self._nodes)
        self.state = state
        self._states.append((key, state))

    def places(self) -> Places:
        """Return the spans so far; those that are open hold for good."""
        spans = {physical: list(known) for physical, known in self._spans.items()}
        for physical, (since, logical) in self._open.items():
            spans.setdefault(physical, []).append(Span(since, None, logical))
        return Places(tuple((p, tuple(spans[p])) for p in sorted(spans)), frozenset(self._schemas), self._routes)
