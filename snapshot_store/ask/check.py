"""Compare logical and physical tables over a whole history: when did a physical table not fit its logical one?

    physical  ──A────────B──────────     ahead    the node changed first, the cluster's DDL came after: an online DDL
    logical   ──A─────────────B─────     behind   the cluster's DDL came first: the node was late
                         └────┘          lasting  it has not ended

Only differences that matter to row images count. The kind of a span that begins with the base depends on its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from snapshot_store.ask.skew import Skew, compare, rows_pass
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

PROBLEMS = ("behind", "lasting", "no-logical-table", "no-physical-table")
"""Kinds of findings that need attention; "ahead" is normal for an online DDL."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A span of history in which a physical table does not fit its logical one: `begins` to `ends` (None: not ended).

    `skew` is the difference at the beginning of the span, or at its end if it has not ended. `stages` are all
    differences within the span, in order.
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
        """Return whether the finding needs attention."""
        return self.kind in PROBLEMS


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of `check`: how much was compared, and the findings."""

    logical_tables: int
    physical_tables: int
    versions: int
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Return the findings that need attention."""
        return tuple(finding for finding in self.findings if finding.is_problem)


def check(history: SchemaHistory, topology: Topology) -> Checked:
    """Return where physical tables do not fit their logical tables, over the whole history."""
    findings: list[Finding] = []
    made: set[tuple[str, str]] = set()
    tables = 0
    for node in history.nodes():
        for schema, name in history.names(node):
            logical = topology.logical_name(node, schema, name)
            if logical is None:
                continue
            times = topology.hidden_times(node, schema, name)
            versions = history.versions_for(schema, name, node)
            physical = tuple(v for v in versions if not any(time.holds(v.key) for time in times))
            if times and all(version.table is None for version in physical):
                continue  # it never came out
            tables += 1
            made.add(logical)
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
    """Yield both tables' versions in order; at the same key (ORIGIN too) the physical one comes first."""
    steps = [(v.key, 0, "physical", v) for v in physical] + [(v.key, 1, "logical", v) for v in logical]
    for key, _, cause, version in sorted(steps, key=lambda step: step[:2]):
        yield key, cause, version


def _apart(a: TableVersion | None, b: TableVersion | None) -> bool:
    """Return whether both tables exist and their row images differ."""
    physical: Table | None = None if a is None else a.table
    logical: Table | None = None if b is None else b.table
    return physical is not None and logical is not None and not rows_pass(physical, logical)


def _kind(begun_by: str, ended_by: str) -> str:
    if begun_by == "base":
        return "ahead" if ended_by == "logical" else "behind"
    return "ahead" if begun_by == "physical" else "behind"
