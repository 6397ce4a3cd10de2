"""Skew: physical tables that differ from their logical table, and how a merge changes their rows. A check goes through
a whole history: when did a physical table not fit its logical one?

    physical  ──A────────B──────────     ahead    the node changed first, the cluster's DDL came after: an online DDL
    logical   ──A─────────────B─────     behind   the cluster's DDL came first: the node was late
                         └────┘          lasting  it has not ended

Only differences that matter to row images count. The kind of a span that begins with the base depends on its end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from snapshot_store.ask.alter import alter_sql
from snapshot_store.ask.questions import check_beginning, renamed_changes
from snapshot_store.ask.renames import Renames, renames_of
from snapshot_store.diff import ColumnMap, TableChange, column_map, diff_tables, equivalent
from snapshot_store.errors import SnapshotStoreError, UnknownTable
from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.names import Moment, NamePattern
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

NO_RENAMES = Renames()


@dataclass(frozen=True, slots=True)
class Skew:
    """A physical table that differs from its logical table at a moment, and how its rows are reshaped.

    `logical` and `columns` are None if the logical table does not exist then. A column that one of them has renamed,
    and the other has yet to, is one column.
    """

    physical: TableVersion
    logical_name: tuple[str, str]
    logical: TableVersion | None
    columns: ColumnMap | None
    changes: tuple[TableChange, ...]
    statements: tuple[str, ...]

    @property
    def reshaped(self) -> bool:
        """Return whether the bytes of rows change; if not, only keys, defaults or the like differ."""
        return self.columns is None or not self.columns.identity

    @property
    def trimmed(self) -> tuple[Column, ...]:
        """Return the physical columns that the logical table lacks: their cells are removed."""
        table = self.physical.table
        return () if table is None or self.columns is None else tuple(table.columns[i] for i in self.columns.trimmed)

    @property
    def padded(self) -> tuple[Column, ...]:
        """Return the logical columns that the physical table lacks: their cells are made from their defaults."""
        if self.columns is None or self.logical is None or self.logical.table is None:
            return ()
        columns = self.logical.table.columns
        return tuple(columns[e.logical_index] for e in self.columns.entries if e.physical_index is None)

    @property
    def converted(self) -> tuple[tuple[Column, Column], ...]:
        """Return (physical, logical) columns of different types: their cells are converted."""
        a, b = self.physical.table, None if self.logical is None else self.logical.table
        if a is None or b is None or self.columns is None:
            return ()
        return tuple(
            (a.columns[e.physical_index], b.columns[e.logical_index])
            for e in self.columns.entries
            if e.physical_index is not None and not e.same_type
        )

    @property
    def reordered(self) -> bool:
        """Return whether the columns that both tables have are in another order."""
        indexes = (
            [e.physical_index for e in self.columns.entries if e.physical_index is not None] if self.columns else []
        )
        return indexes != sorted(indexes)


@dataclass(frozen=True, slots=True)
class SkewAt:
    """The result of `skew`: how many physical tables were compared, and those that differ."""

    moment: Moment
    compared: int
    skews: tuple[Skew, ...]


def skew(
    history: SchemaHistory,
    topology: Topology,
    moment: Moment,
    patterns: Sequence[NamePattern] = (),
    beginning: OrderKey = ORIGIN,
    whole: Callable[[Sequence[HistoryKey]], SchemaHistory] | None = None,
) -> SkewAt:
    """Return the physical tables that differ from their logical table at a moment.

    With `patterns`, only those of matching logical tables. `Store.history_at(moment.key)` is enough history; with
    `whole`, which gives that of some tables, columns that are renamed on one side only are known as such.
    """
    check_beginning(moment, beginning)
    compared, skews = 0, []
    for node in history.nodes():
        for schema, name in history.tables(moment.key, node):
            logical_name = topology.logical_name(node, schema, name, moment.key)
            if logical_name is None or (patterns and not any(p.matches(*logical_name) for p in patterns)):
                continue
            compared += 1
            physical = history.at(schema, name, moment.key, node)
            logical = history.at(*logical_name, moment.key)
            found = None if physical is None else compare(physical, logical_name, logical)
            if found is not None and whole is not None and physical is not None and found.logical is not None:
                line: HistoryKey = (node, schema, name)
                own: HistoryKey = (None, *logical_name)
                names = renames_under_way(whole((line, own)), line, own, moment.key)
                found = compare(physical, logical_name, logical, names) if names.columns else found
            if found is not None:
                skews.append(found)
    if patterns and not compared:
        raise UnknownTable(
            f"no physical table makes {' or '.join(map(str, patterns))} at {moment.text}: "
            "check the name and the routes (--config)"
        )
    return SkewAt(moment, compared, tuple(skews))


def renames_under_way(history: SchemaHistory, physical: HistoryKey, logical: HistoryKey, key: OrderKey) -> Renames:
    """Return the names that a physical table's columns have in the logical one, as statements of one of them say that
    it has run since both were alike.
    """
    sides = [
        [v for v in history.versions_for(schema, name, node) if v.key < key]
        for node, schema, name in (physical, logical)
    ]
    for back, (mine, theirs) in ((True, sides), (False, sides[::-1])):
        last = theirs[-1].table if theirs else None
        for number in reversed(range(len(mine) - 1)):
            table = mine[number].table
            if table is not None and last is not None and equivalent(table, last):
                found = renames_of(table, mine[number + 1 :])
                pairs = (found.columns, found.indexes)
                columns, indexes = (tuple((b, a) if back else (a, b) for a, b in names) for names in pairs)
                if columns:
                    return Renames(columns, indexes)
                break
    return NO_RENAMES


def compare(
    physical: TableVersion, logical_name: tuple[str, str], logical: TableVersion | None, names: Renames = NO_RENAMES
) -> Skew | None:
    """Return how a physical table differs from its logical table, or None if it does not.

    `names` are columns and indexes that have another name in the logical table.
    """
    table = physical.table
    if table is None:
        return None
    target = None if logical is None or logical.table is None else logical.table
    if target is None:
        return Skew(physical, logical_name, None, None, (), ())
    wanted = target.renamed(table.schema, table.name)
    named, sql = table, ""
    try:
        named, sql = names.applied(table, wanted)
    except SnapshotStoreError:
        names = Renames()
    if len(named.columns) != len(table.columns):  # another column is in the way
        named, sql, names = table, "", Renames()
    columns = column_map(named, target)
    if columns.identity and equivalent(table, wanted):
        return None
    changes = (*renamed_changes(table, named, names), *diff_tables(named, wanted))
    statements = (*([sql] if sql else []), *alter_sql(named, wanted))
    return Skew(physical, logical_name, logical, columns, changes, statements)


def rows_pass(physical: Table, logical: Table) -> bool:
    """Return whether row images of the physical table need no change for the logical one."""
    return column_map(physical, logical).identity


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
