"""The logical table of each physical table over time: one immutable value that is sent to executors.

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
    """A physical table belongs to a logical one for transactions with `after` < key <= `until` (None: forever)."""

    after: OrderKey
    until: OrderKey | None
    logical: Logical

    def holds(self, key: OrderKey) -> bool:
        """Return whether the span covers a transaction with this key."""
        return self.after < key and (self.until is None or key <= self.until)


@dataclass(frozen=True, slots=True)
class Places:
    """The spans of every physical table.

    `schemas` are the physical schemas, as (node, schema), whose tables all have spans. Tables in other schemas are
    mapped by an explicit route of `routes`, if one matches.
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
        """Return the logical (schema, table) of a physical table at a key; None if its rows do not come out."""
        found = self._index.get((node, schema.lower(), table.lower()))
        if found is None:
            return self._routed(node, schema, table)
        i = bisect_left(found[0], key) - 1
        return found[1][i].logical if i >= 0 and found[1][i].holds(key) else None

    def of(self, node: str, schema: str, table: str) -> tuple[Span, ...] | None:
        """Return the spans of a physical table, in order; None if it is mapped by a route, the same at all times."""
        found = self._index.get((node, schema.lower(), table.lower()))
        return None if found is None else found[1]

    def _routed(self, node: str, schema: str, table: str) -> Logical | None:
        if (node, schema.lower()) in self.schemas or self.routes.is_ignored(schema):
            return None
        if not any(route.matches(node, schema, table) for route in self.routes.routes):
            return None
        return self.routes.logical_name(node, schema, table)

    def boundaries(self) -> tuple[OrderKey, ...]:
        """Return the keys after which some physical table belongs to another logical table."""
        keys = {key for _, spans in self.spans for s in spans for key in (s.after, s.until) if key is not None}
        return tuple(sorted(keys))


@dataclass(frozen=True, slots=True)
class Rename:
    """A RENAME that a node ran itself: pairs of (schema, old name) and (schema, new name) of one statement."""

    key: OrderKey
    node: str
    pairs: tuple[tuple[Logical, Logical], ...]


def follow_renames(places: Places, renames: Iterable[Rename]) -> Places:
    """Return the places with renamed physical tables followed to their new names, until a marker places them.

    A cluster renames physical tables before its marker records that. A table whose name is taken over by another table
    in the same statement keeps its span: this is how a table is replaced by a copy of it.
    """
    spans = {physical: list(known) for physical, known in places.spans}
    for rename in sorted(renames, key=lambda r: r.key):
        taken = {new for _, new in rename.pairs}
        for old, new in rename.pairs:
            if old not in taken:
                _follow(spans, rename.key, (rename.node, *old), (rename.node, *new))
    return Places(tuple((p, tuple(spans[p])) for p in sorted(spans) if spans[p]), places.schemas, places.routes)


def _follow(spans: dict[Physical, list[Span]], key: OrderKey, old: Physical, new: Physical) -> None:
    of_new = spans.get(new, [])
    after = key._replace(node_seq=key.node_seq + 1)
    current = next((span for span in spans.get(old, ()) if span.holds(after)), None)
    if current is None or any(span.holds(after) for span in of_new):
        return
    i = spans[old].index(current)
    spans[old][i : i + 1] = [replace(current, until=key)] if current.after < key else []
    ends = [span.after for span in of_new if span.after >= key]
    ends += [current.until] if current.until is not None else []
    spans[new] = sorted([*of_new, Span(key, min(ends, default=None), current.logical)], key=lambda span: span.after)


class PlacesBuilder:
    """Collects the spans of physical tables from a cluster's states. `nodes` maps storage instances to nodes."""

    def __init__(self, nodes: Mapping[str, str], routes: Topology) -> None:
        self.state = ClusterState()
        self._nodes = nodes
        self._routes = routes
        self._open: dict[Physical, tuple[OrderKey, Logical]] = {}
        self._spans: dict[Physical, list[Span]] = {}
        self._schemas: set[tuple[str, str]] = set()
        self._states: list[tuple[OrderKey, ClusterState]] = []

    def state_before(self, key: OrderKey) -> ClusterState:
        """Return the state in force for a transaction with this key: the last one set below it."""
        return next((state for when, state in reversed(self._states) if when < key), ClusterState())

    def advance(self, key: OrderKey, state: ClusterState) -> None:
        """Set the state that takes effect after `key`.

        Raises PlacementError, and changes nothing, if a storage instance has no node or two logical tables would share
        a physical one.
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
        """Return all spans so far; the open ones hold forever."""
        spans = {physical: list(known) for physical, known in self._spans.items()}
        for physical, (since, logical) in self._open.items():
            spans.setdefault(physical, []).append(Span(since, None, logical))
        return Places(tuple((p, tuple(spans[p])) for p in sorted(spans)), frozenset(self._schemas), self._routes)
