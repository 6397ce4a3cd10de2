"""Logical against physical over a whole history: when did a physical table not have the shape of its logical one?

    physical  ──A────────B──────────     ahead    the node changed first, the cluster's DDL came after: an online DDL
    logical   ──A─────────────B─────     behind   the cluster's DDL came first: the node was late
                         └────┘          lasting  it has not ended

Only what rows are made of counts. A stretch that begins with the base counts by how it ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from snapshot_store.ask.skew import Skew, compare, rows_pass
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

PROBLEMS = ("behind", "lasting", "no-logical-table", "no-physical-table")
"""Kinds of findings that somebody should look into; "ahead" is what an online DDL does."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A stretch of history in which tables do not fit: `kind`, from `begins` until `ends` (None: not ended).

    `skew` is how the tables stand to each other at the beginning of the stretch, or, where it lasts, at its end;
    `stages` are all the ways in which they stand to each other in it, in order.
    """

    kind: str
    logical: tuple[str, str]
    node: str | None
    physical: tuple[str, str] | None
    begins: OrderKey
    ends: OrderKey | None
    skew: Skew | None = None
    stages: tuple[Skew, ...] = ()

    @property
    def is_problem(self) -> bool:
        """Tell whether somebody should look into it."""
        return self.kind in PROBLEMS


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer of `check`: what was looked at, and what was found."""

    logical_tables: int
    physical_tables: int
    versions: int
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Return the findings that somebody should look into."""
        return tuple(finding for finding in self.findings if finding.is_problem)


def check(history: SchemaHistory, topology: Topology) -> Checked:
    """Return where logical and physical tables do not fit, over the whole history."""
    findings: list[Finding] = []
    made: set[tuple[str, str]] = set()
    tables = 0
    for node in history.nodes():
        for schema, name in history.names(node):
            logical = topology.logical_name(node, schema, name)
            if logical is None:
                continue
            tables += 1
            made.add(logical)
            physical = history.versions_for(schema, name, node)
            findings += _pair(node, (schema, name), physical, logical, history.versions_for(*logical))
    if history.nodes():
        findings += _without_physical(history, made)
    order = {kind: i for i, kind in enumerate(PROBLEMS)}
    findings.sort(
        key=lambda f: (f.logical, order.get(f.kind, len(order)), f.begins, f.node or "", f.physical or ("", ""))
    )
    return Checked(len(history.names()), tables, len(history.versions), tuple(findings))


def _without_physical(history: SchemaHistory, made: set[tuple[str, str]]) -> Iterator[Finding]:
    for name in history.names():
        last = history.versions_for(*name)[-1]
        if name not in made and last.table is not None:
            yield Finding("no-physical-table", name, None, None, last.key, None)


def _pair(
    node: str,
    name: tuple[str, str],
    physical: tuple[TableVersion, ...],
    logical_name: tuple[str, str],
    logical: tuple[TableVersion, ...],
) -> Iterator[Finding]:
    begun: tuple[OrderKey, str] | None = None
    stages: list[Skew] = []
    a: TableVersion | None = None
    b: TableVersion | None = None
    for key, cause, version in _steps(physical, logical):
        if cause == "physical":
            a = version
        else:
            b = version
        apart = _apart(a, b)
        if apart and begun is None:
            begun = (key, "base" if version.origin == "base" or version.folded else cause)
            stages = []
        elif not apart and begun is not None:
            kind, skew = _kind(begun[1], cause), stages[0] if stages else None
            yield Finding(kind, logical_name, node, name, begun[0], key, skew, (*stages,))
            begun = None
        skew = compare(a, logical_name, b) if apart and a is not None else None
        stages += [] if skew is None else [skew]
    if begun is not None and a is not None:
        skew = stages[-1] if stages else None
        yield Finding("lasting", logical_name, node, name, begun[0], None, skew, (*stages,))
    elif a is not None and a.table is not None and (b is None or b.table is None):
        yield Finding("no-logical-table", logical_name, node, name, a.key if b is None else b.key, None)


def _steps(
    physical: tuple[TableVersion, ...], logical: tuple[TableVersion, ...]
) -> Iterator[tuple[OrderKey, str, TableVersion]]:
    """Yield both tables' versions in order; at one key, the origin too, the physical table's comes first."""
    steps = [(v.key, 0, "physical", v) for v in physical] + [(v.key, 1, "logical", v) for v in logical]
    for key, _, cause, version in sorted(steps, key=lambda step: step[:2]):
        yield key, cause, version


def _apart(a: TableVersion | None, b: TableVersion | None) -> bool:
    """Tell whether both tables are there and their rows differ."""
    one: Table | None = None if a is None else a.table
    other: Table | None = None if b is None else b.table
    return one is not None and other is not None and not rows_pass(one, other)


def _kind(begun_by: str, ended_by: str) -> str:
    if begun_by == "base":
        return "ahead" if ended_by == "logical" else "behind"
    return "ahead" if begun_by == "physical" else "behind"
