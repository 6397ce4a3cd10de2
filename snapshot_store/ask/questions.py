"""The queries of a schema history, as functions from values to values.

    find     which tables a pattern matches    show     a table's definition at a moment
    history  its versions, and what changed    diff     what changed between two moments
    skew     which physical tables differ from their logical table at a moment (skew.py)
    check    where they differed over the whole history (check.py)

A table is identified by (node, schema, name), with node None for a logical table. The history may be a part of a
store's (`Store.history_of`), as long as it has the tables asked for.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from snapshot_store.ask.alter import change_sql
from snapshot_store.ask.renames import Renames, lineage, named_by, origin_of, renames_of, taken_over
from snapshot_store.diff import ColumnChanged, IndexChanged, TableChange, diff_tables
from snapshot_store.errors import BeforeBase, SnapshotStoreError, UnknownTable, shorten
from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion, history_name
from snapshot_store.model import Table
from snapshot_store.names import Moment, NamePattern, since, unknown_table
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
    """One table at two moments (None if it did not exist), what changed, and the statements that change it.

    `table` is its name at the earlier moment if it existed then. `unsafe` says which values the statements may lose
    that the table has kept: no statement of the history tells.
    """

    table: HistoryKey
    before: TableVersion | None
    after: TableVersion | None
    changes: tuple[TableChange, ...]
    statements: tuple[str, ...]
    unsafe: tuple[str, ...] = ()


def diff(
    history: SchemaHistory, tables: Sequence[HistoryKey], begin: Moment, end: Moment, beginning: OrderKey = ORIGIN
) -> tuple[TableDiff, ...]:
    """Return what changed between two moments, for each table that existed at one of them.

    What the history's statements rename stays what it is: columns, indexes, and a table whose other name the history
    has too (`renamed`). Raises BeforeBase if a moment is before the history begins, and like `table_at` if no table
    existed at either.
    """
    diffs: dict[tuple[HistoryKey, bool], TableDiff] = {}
    absent: SnapshotStoreError | None = None
    for table in tables:
        first = origin_of(history, table, begin.key, end.key)
        was = history.at(first[1], first[2], begin.key, first[0])
        pairs = [table] if first == table or was is None or was.table is None else [first, table]
        for at in pairs:
            try:
                before = table_at(history, at, begin, beginning)
            except UnknownTable as error:
                absent, before = error, None
            versions = tuple(lineage(history, at, begin.key, end.key)) if before is not None else ()
            last = (at[0], versions[-1].schema, versions[-1].name) if versions else at
            after, gone = _at_end(history, last, end, beginning)
            absent = gone or absent
            if before is not None or (after is not None and len(pairs) == 1):
                diffs[at, before is None] = diff_versions(at, before, after, versions)
            new = None if last == at else _at_end(history, at, end, beginning)[0]
            if new is not None and origin_of(history, at, begin.key, end.key) == at:
                diffs[at, True] = diff_versions(at, None, new)  # another table has the name since
    if absent is not None and not diffs:
        raise absent
    return tuple(diffs.values())


def _at_end(
    history: SchemaHistory, table: HistoryKey, end: Moment, beginning: OrderKey
) -> tuple[TableVersion | None, UnknownTable | None]:
    try:
        return table_at(history, table, end, beginning), None
    except UnknownTable as error:
        return None, error


def renamed(history: SchemaHistory, tables: Sequence[HistoryKey], begin: Moment, end: Moment) -> set[HistoryKey]:
    """Return further names of tables between two moments, as far as the history has their statements."""
    found: set[HistoryKey] = set()
    for node, schema, name in tables:
        versions = [v for v in history.versions_for(schema, name, node) if begin.key <= v.key < end.key]
        found |= {(node, *other) for other in named_by(versions)}
    return found - set(tables)


def diff_versions(
    table: HistoryKey, before: TableVersion | None, after: TableVersion | None, between: Sequence[TableVersion] = ()
) -> TableDiff:
    """Return the difference between two versions; `between` are the versions after `before`, up to `after`."""
    a, b = (None if version is None else version.table for version in (before, after))
    if a is None or b is None:
        return TableDiff(table, before, after, (), change_sql(a, b), _dropped(a, b, between))
    names = renames_of(a, between)
    try:
        named, sql = names.applied(a, b)
    except SnapshotStoreError:
        named, sql, names = a, "", Renames(untold=(*names.untold, *(old for old, _ in names.columns)))
    statements = (*([sql] if sql else []), *change_sql(named, b))
    changes = (*renamed_changes(a, named, names), *diff_tables(named, b, whole=True))
    return TableDiff(table, before, after, changes, statements, (*_others_rows(between), *_may_lose(a, b, names)))


def _others_rows(between: Sequence[TableVersion]) -> Iterator[str]:
    """Yield that a table has got another's rows under its name: by a swap, while its own went elsewhere."""
    before = between[0] if between else None
    for version, (schema, name) in taken_over(between):
        if before is not None and (version.schema, version.name) == (before.schema, before.name):
            what = f"{version.schema}.{version.name}"
            yield f"table {what}: it was {schema}.{name} until {shorten(version.ddl)}; these statements move no rows"


def renamed_changes(before: Table, named: Table, names: Renames) -> Iterator[TableChange]:
    """Yield the changes that are renames."""
    columns = {column.name.lower(): column for column in named.columns}
    indexes = {index.name.lower(): index for index in named.indexes}
    for old, new in names.columns:
        i = before.index_of(old)
        if i is not None and new.lower() in columns:
            yield ColumnChanged(before.columns[i], columns[new.lower()])
    for old, new in names.indexes:
        index = next((i for i in before.indexes if i.name.lower() == old.lower()), None)
        if index is not None and new.lower() in indexes:
            yield IndexChanged(index, indexes[new.lower()])


def _may_lose(before: Table, after: Table, names: Renames) -> tuple[str, ...]:
    gone = {name.lower() for name in names.untold}
    return tuple(
        f"column {column.name}: no statement tells where its values are from here on; dropped, they are lost"
        for column in before.columns
        if column.name.lower() in gone and after.index_of(column.name) is None
    )


def _dropped(before: Table | None, after: Table | None, between: Sequence[TableVersion]) -> tuple[str, ...]:
    """Return that a table may have got another name, if no statement says that it was dropped."""
    if before is None or after is not None or (between and between[-1].ddl):
        return ()
    return (f"table {before.schema}.{before.name}: no statement tells what became of its rows; dropped, they are lost",)


def name_of(table: HistoryKey) -> str:
    """Return a table's name as users read it."""
    node, schema, name = table
    return f"{schema}.{name}" + (f" of {history_name(node)}" if node else "")
