"""The queries of a schema history, as functions from values to values.

    find     which tables a pattern matches    show     a table's definition at a moment
    history  its versions, and what changed    diff     what changed between two moments
    skew     which physical tables differ from their logical table at a moment (skew.py)
    check    where they differed over the whole history (check.py)

A table is identified by (node, schema, name), with node None for a logical table. The history may be a part of a
store's (`Store.history_of`), as long as it has the tables asked for.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from snapshot_store.ask.alter import change_sql
from snapshot_store.diff import TableChange, diff_tables
from snapshot_store.errors import SnapshotStoreError, UnknownTable, shorten
from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion, history_name
from snapshot_store.names import Moment, NamePattern, since, unknown_table
from snapshot_store.store_errors import BeforeBase
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey, carries_time


def find(
    history: SchemaHistory,
    patterns: Iterable[NamePattern],
    node: str | None = None,
    physical: bool = False,
    topology: Topology | None = None,
) -> tuple[HistoryKey, ...]:
    """Return the tables that the patterns match, sorted. Raises UnknownTable for a pattern that matches none.

    The patterns are matched with logical tables, or with `node` with that node's tables. With `physical` they are
    matched with logical tables, and the result is the physical tables of these, of all nodes or of `node`.
    `Store.find` does the same without the history.
    """
    routes = topology or Topology()
    nodes = (history.nodes() if node is None else (node,)) if physical else (node,)
    candidates: list[tuple[HistoryKey, tuple[str, str] | None]] = []
    for owner in nodes:
        for schema, name in history.names(owner):
            logical = routes.logical_name(owner, schema, name) if physical and owner is not None else (schema, name)
            candidates.append(((owner, schema, name), logical))
    found: set[HistoryKey] = set()
    for pattern in patterns:
        meant = {table for table, name in candidates if name is not None and pattern.matches(*name)}
        if not meant:
            known = sorted({f"{name[0]}.{name[1]}" for _, name in candidates if name is not None})
            raise unknown_table(pattern, difflib.get_close_matches(str(pattern), known), node, physical)
        found |= meant
    return tuple(sorted(found, key=lambda table: (table[0] or "", *table[1:])))


def table_at(history: SchemaHistory, table: HistoryKey, moment: Moment, beginning: OrderKey = ORIGIN) -> TableVersion:
    """Return the version of one table in force at a moment.

    Raises UnknownTable if the table did not exist then, BeforeBase if that is not known: before the base it was
    imported with or, for a wall-clock time, before the first commit of the binlogs.
    """
    node, schema, name = table
    check_beginning(moment, beginning)
    version = history.at(schema, name, moment.key, node)
    what = f"{schema}.{name}" + (f" of node {node}" if node else "")
    if version is not None and (version.table is not None or version.opaque):
        return version
    if version is not None:
        raise UnknownTable(
            f"table {what} was gone at {moment.text}: {shorten(version.ddl) or 'it was dropped'} "
            f"({since(version.key)}); ask for an earlier moment"
        )
    versions = history.versions_for(schema, name, node)
    if not versions:
        raise unknown_table(NamePattern.exact(schema, name), (), node)
    first = versions[0]
    if first.origin in ("base", "operator") or first.folded:
        raise BeforeBase(
            f"what {what} was at {moment.text} is not known: its history begins with {_source(first)} at "
            f"{since(first.key)} (order key {first.key.text()}); ask for a later moment, or import an earlier base"
        )
    raise UnknownTable(
        f"table {what} did not exist yet at {moment.text}: it was made by {shorten(first.ddl)} at {since(first.key)}"
    )


def check_beginning(moment: Moment, beginning: OrderKey) -> None:
    """Raise BeforeBase for a time before the binlogs begin."""
    # A small TSO is a mere counter, for which the base at ORIGIN is valid; a time before the binlogs is not.
    if moment.key <= beginning and (moment.wall_clock or carries_time(moment.first.commit_tso)):
        raise BeforeBase(
            f"what was at {moment.text} is not known: the binlogs begin at {since(beginning)} (TSO "
            f"{beginning.commit_tso}), and the base is what there was then; ask for a later moment"
        )


def _source(version: TableVersion) -> str:
    what = {"base": "the base", "operator": "a correction"}.get(version.origin, "what was folded")
    return f"{what} from {version.file}" if version.file else what


def show(
    history: SchemaHistory, tables: Sequence[HistoryKey], moment: Moment, beginning: OrderKey = ORIGIN
) -> tuple[TableVersion, ...]:
    """Return the versions in force at a moment, of the tables that existed then; raises like `table_at` if none did."""
    found: list[TableVersion] = []
    absent: SnapshotStoreError | None = None
    for table in tables:
        try:
            found.append(table_at(history, table, moment, beginning))
        except (UnknownTable, BeforeBase) as error:
            absent = absent or error
    if absent is not None and not found:
        raise absent
    return tuple(found)


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version, the one before it (None if there is none, or it was folded), and what changed between them."""

    version: TableVersion
    before: TableVersion | None
    changes: tuple[TableChange, ...]

    @property
    def kind(self) -> str:
        """Return "base", "made", "dropped", "changed", "same" or "opaque"."""
        if self.version.opaque:
            return "opaque"
        was = None if self.before is None else self.before.table
        if self.version.table is None:
            return "dropped"
        if was is None:
            return "base" if self.version.origin == "base" or self.version.folded else "made"
        return "changed" if self.changes else "same"


def history(
    of: SchemaHistory, tables: Sequence[HistoryKey], begin: Moment | None = None, end: Moment | None = None
) -> tuple[VersionChange, ...]:
    """Return the versions of some tables, table by table and oldest first, from `begin` to `end` inclusive."""
    first = ORIGIN if begin is None else begin.first
    after = Moment.latest().key if end is None else end.after
    changes = []
    for node, schema, name in tables:
        before: TableVersion | None = None
        for version in of.versions_for(schema, name, node):
            if first <= version.key < after:
                was = None if before is None else before.table
                both = was is not None and version.table is not None
                changes.append(VersionChange(version, before, diff_tables(was, version.table) if both else ()))  # type: ignore[arg-type]
            before = version
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class TableDiff:
    """One table at two moments (None if it did not exist), what changed, and the statements that change it."""

    table: HistoryKey
    before: TableVersion | None
    after: TableVersion | None
    changes: tuple[TableChange, ...]
    statements: tuple[str, ...]


def diff(
    history: SchemaHistory, tables: Sequence[HistoryKey], begin: Moment, end: Moment, beginning: OrderKey = ORIGIN
) -> tuple[TableDiff, ...]:
    """Return what changed between two moments, for each table that existed at one of them.

    Raises BeforeBase if a moment is before the history begins, and like `table_at` if no table existed at either.
    """
    diffs = []
    absent: SnapshotStoreError | None = None
    for table in tables:
        pair: list[TableVersion | None] = []
        for moment in (begin, end):
            try:
                pair.append(table_at(history, table, moment, beginning))
            except UnknownTable as error:
                absent = error
                pair.append(None)
        before, after = pair
        if before is not None or after is not None:
            diffs.append(diff_versions(table, before, after))
    if absent is not None and not diffs:
        raise absent
    return tuple(diffs)


def diff_versions(table: HistoryKey, before: TableVersion | None, after: TableVersion | None) -> TableDiff:
    """Return the difference between two versions."""
    a, b = (None if version is None else version.table for version in (before, after))
    changes = diff_tables(a, b) if a is not None and b is not None else ()
    return TableDiff(table, before, after, changes, change_sql(a, b))


def name_of(table: HistoryKey) -> str:
    """Return a table's name as users read it."""
    node, schema, name = table
    return f"{schema}.{name}" + (f" of {history_name(node)}" if node else "")
