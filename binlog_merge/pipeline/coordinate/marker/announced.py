"""Compares the nodes' DDL with markers: stops or warns if no marker takes up a DDL that changes rows. Without a marker
the logical table does not change, whatever the nodes run.

A cluster that has never shown a marker may not write any: then the first DDL that changes rows stops the merge before
it. In a cluster with markers the coordinator may have forgotten one: then a warning says what happens to the rows, as
soon as the marker is overdue (`markers.overdue`) or the input ends. PolarDB-X announces each of its jobs, so it is not
checked.

    shape   a table gets another shape: rows are cut, padded or converted until a marker has the same change
    make    a table is created for which there is no logical table
    drop    a table is dropped, and the logical table keeps its rows
    rows    rows are removed or moved without a row event: TRUNCATE, RENAME TABLE, EXCHANGE PARTITION

A change is *taken up* by a later logical version, from a marker or given by an operator. A statement that changes
neither rows nor their shape (indexes, defaults, comments) is not a change: schema queries show those.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.config.modes import Modes
from binlog_merge.config.sections import Markers
from binlog_merge.errors import UnannouncedDdl
from binlog_merge.pipeline.base.state import GREATEST_KEY, Bound, Inputs, Job, filter_settings, key_after
from binlog_merge.pipeline.coordinate.histories import Applied
from binlog_merge.pipeline.coordinate.marker.driver import ClusterView
from binlog_merge.pipeline.coordinate.shards.clauses import steps_of, with_charset
from binlog_merge.pipeline.coordinate.shards.driver import modes_of
from binlog_merge.pipeline.coordinate.shards.net_change import net_change
from snapshot_store.ask.skew import Skew, compare
from snapshot_store.ddl.effects import Verb
from snapshot_store.diff import column_map
from snapshot_store.errors import AmbiguousRoute, SnapshotStoreError
from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey

if TYPE_CHECKING:
    from binlog_merge.filters.filter import Filter


Name = tuple[str, str]
Kind = Literal["shape", "make", "drop", "rows"]
Logical = Callable[[str, str, str], Name | None]
"""Returns the logical table of a node's table, if it is coordinated by markers and comes out, else None."""

MayHold = Callable[[str, str, Name], Name | None]
"""Returns a table of a node's database that such a logical table may have, with `Logical`'s conditions."""

_FALLEN_BEHIND = {
    "make": "the logical table is never made",
    "drop": "the logical table keeps its rows",
    "rows": "the logical table keeps the rows that it has",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What a node's statement did to one of its tables, and the logical table that should follow.

    `like` is equal for equal changes of several physical tables; `sql`, `file` and `position` are the statement's.
    `warned`: a run has warned that no marker takes it up.
    """

    key: OrderKey
    node: str
    table: Name
    logical: Name
    kind: Kind
    like: str
    sql: str
    file: str
    position: int
    warned: bool = field(default=False, compare=False)

    @property
    def where(self) -> str:
        """Return text with the change's node, file and position."""
        return f"{self.node}, {self.file}:{self.position}"

    def to_json(self) -> list[Any]:
        """Return plain values, for `from_json`."""
        return [self.key.text(), *astuple(self)[1:]]

    @staticmethod
    def from_json(values: Sequence[Any]) -> "Change":
        """Return the change that `to_json` has encoded."""
        key, node, table, logical, *others = values
        return Change(OrderKey.parse(key), node, (table[0], table[1]), (logical[0], logical[1]), *others)


def changes_of(
    node: str, applied: Applied, logical: Logical, may_hold: MayHold, history: SchemaHistory
) -> Iterator[Change]:
    """Yield a statement's changes to tables whose logical table does not follow by itself.

    `history` has the versions of the node and the logical ones.
    """
    ddl = applied.ddl
    effects = ddl.effects()
    moved = {new: old for new, old in effects.origins.items() if new in applied.effect.catalog.tables}
    went = {old: new for new, old in moved.items()}
    emptied = (*effects.having(Verb.EMPTY, Verb.FILE, Verb.EXCHANGE), *effects.others(Verb.EXCHANGE))
    altered = applied.effect.tables[:1] if applied.effect.kind == "ALTER TABLE" else ()
    for name in dict.fromkeys((*applied.effect.changed, *altered, *moved, *emptied)):
        target = logical(node, *name)
        # A shard may be renamed within its route.
        stays = [other for other in (moved.get(name), went.get(name)) if other is not None]
        if target is None or (stays and all(logical(node, *other) == target for other in stays)):
            continue
        changed = name in emptied or name in moved
        found = _kind_of(applied, name, history.at(*target, ddl.key), changed)
        if found is not None:
            yield Change(ddl.key, node, name, target, *found, ddl.sql, ddl.file, ddl.position)
    for database in applied.effect.changed_schemas if applied.effect.kind == "DROP DATABASE" else ():
        # Tables that only the logical base has are dropped with the database too.
        for schema, table in history.names():
            version = history.at(schema, table, ddl.key)
            if version is None or (version.table is None and not version.opaque):
                continue
            shard = may_hold(node, database, (schema, table))
            if shard is not None and shard not in applied.before.tables:
                yield Change(ddl.key, node, shard, (schema, table), "drop", "", ddl.sql, ddl.file, ddl.position)


def _kind_of(applied: Applied, name: Name, version: TableVersion | None, others: bool) -> tuple[Kind, str] | None:
    """Return the kind of change and its `like`, compared with the logical table; None if that need not follow.

    `others`: the table has other rows after the statement, without a row event.
    """
    was, now = applied.before.get(*name), applied.effect.catalog.get(*name)
    if version is None or (version.table is None and not version.opaque):
        return ("make", "") if now is not None and now != was else None
    if now is None:
        return "drop", ""
    if others:
        return "rows", ""
    if version.table is None or _fits(now, version.table):
        return ("rows", "") if was is not None and _replaced(applied, was) else None
    return ("shape", shape_of(now)) if was is None or not _fits(was, now) else None


def _fits(physical: Table, logical: Table) -> bool:
    """Return whether rows of one table are rows of the other, except for the order of columns."""
    columns = column_map(physical, logical)
    return not columns.trimmed and all(e.same_type and e.physical_index is not None for e in columns.entries)


def shape_of(table: Table) -> str:
    """Return a short text that is equal for tables with the same columns."""
    columns = ", ".join(f"{column.name.lower()} {column.type}" for column in table.columns)
    return hashlib.sha256(columns.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _replaced(applied: Applied, before: Table) -> bool:
    """Return whether a statement drops a column and adds one with the same name, which loses the column's values."""
    with suppress(SnapshotStoreError):
        ddl = applied.ddl
        sql = with_charset(ddl.sql, ddl.session, applied.before.schemas.get(ddl.schema or ""))
        return bool(net_change(before, steps_of(sql, before, ddl.session)).replaced)
    return False


def taken_up(change: Change, history: SchemaHistory, limit: OrderKey) -> bool:
    """Return whether the logical table has followed below `limit`, or no longer needs to."""
    now = _at(history, change.table, limit, change.node)
    target = _at(history, change.logical, limit, None)
    if target is not None and target.opaque:
        return True
    later = [v for v in history.versions_for(*change.logical) if change.key <= v.key < limit]
    if change.kind == "drop":
        return bool(later) or target is None or target.table is None
    if change.kind == "rows":
        return bool(later)
    if now is None or (now.table is None and not now.opaque):
        return True  # dropped again
    if change.kind == "make":
        return bool(later)
    then = history.at(*change.table, key_after(change.key), change.node)
    shapes = [v.table for v in (now, then) if v is not None and v.table is not None]
    tables = [v.table for v in (*later, target) if v is not None and v.table is not None]
    return any(_fits(shape, table) for shape in shapes for table in tables)


def _at(history: SchemaHistory, name: Name, limit: OrderKey, node: str | None) -> TableVersion | None:
    return history.at(*name, limit, node)


def alike(change: Change, changes: Collection[Change], shards: Collection[tuple[str, Name]]) -> bool:
    """Return whether all physical tables of the logical one, `shards`, have the same change."""
    about = (change.logical, change.kind, change.like)
    return set(shards) <= {(c.node, c.table) for c in changes if (c.logical, c.kind, c.like) == about}


def consequence(change: Change, history: SchemaHistory, limit: OrderKey) -> str:
    """Return text on what happens to rows, column by column, until the change is taken up."""
    if change.kind != "shape":
        return _FALLEN_BEHIND[change.kind]
    physical = history.at(*change.table, limit, change.node)
    logical = history.at(*change.logical, limit)
    skew = None if physical is None else compare(physical, change.logical, logical)
    return "rows come out in the old shape" if skew is None else describe_skew(skew)


def describe_skew(skew: Skew) -> str:
    """Return text on how rows are reshaped, naming the columns."""
    parts = []
    for words, columns in (
        ("is left out of every row", [c.name for c in skew.trimmed]),
        ("is filled with its default in every row", [c.name for c in skew.padded]),
        ("comes out in its old type", [physical.name for physical, _ in skew.converted]),
    ):
        parts += [f"column {name} {words}" for name in columns]
    return ", ".join(parts or ["columns come out in their old order" if skew.reordered else "rows are as they were"])


Shards = Callable[[], Collection[tuple[str, Name]]]
"""The nodes' physical tables that exist."""


Applications = Sequence[tuple[str, Applied]]
"""The DDL that nodes ran, each with the node's name."""


@dataclass(frozen=True)
class Announced:
    """The state with which a run compares the nodes' DDL with markers.

    `kept` are changes of earlier runs that no marker has taken up; `seen`: earlier runs saw a marker. `begins` is the
    lowest key of the output: rows that were removed before it do not concern this log. `partial`: the run stops early
    on request, so markers may follow.
    """

    markers: Markers
    modes: Modes
    begins: OrderKey
    kept: tuple[Change, ...] = ()
    seen: bool = False
    active: bool = True
    partial: bool = False
    filter: "Filter | None" = None

    def history_keys(self) -> set[HistoryKey]:
        """Return the history keys that earlier runs' changes need."""
        keys: set[HistoryKey] = {(c.node, *c.table) for c in self.kept}
        return keys | {(None, *c.logical) for c in self.kept}

    def logical(self, node: str, schema: str, table: str) -> Name | None:
        """Return the logical table of a physical one; None if it does not come out or is not coordinated by markers."""
        with suppress(AmbiguousRoute):  # routing the rows raises it
            name = self.modes.topology.logical_name(node, schema, table)
            if name is None or self.modes.of(node, schema, table) != "marker":
                return None
            if self.filter is not None and self.filter.table(*name).action != "Do":
                return None
            return name
        return None

    def may_hold(self, node: str, schema: str, logical: Name) -> Name | None:
        """Return a table that a physical database may have of a logical one, as far as `logical` returns this."""
        with suppress(AmbiguousRoute):
            name = self.modes.topology.may_hold(node, schema, logical)
            return (schema, name) if name is not None and self.logical(node, schema, name) == logical else None
        return None

    def _changes(self, applied: Applications, history: SchemaHistory) -> list[Change]:
        """Return all changes that a marker must announce, in order, without rows removed before the log begins."""
        changes = list(self.kept)
        for node, ddl in applied:
            for change in changes_of(node, ddl, self.logical, self.may_hold, history):
                if change.kind == "shape" or change.key >= self.begins:
                    changes.append(change)
        return sorted(dict.fromkeys(changes), key=lambda c: (c.key, c.node, c.table))

    def first_unannounced(
        self, applied: Applications, history: SchemaHistory, limit: OrderKey, shards: Shards
    ) -> tuple[Bound, str] | None:
        """Return the bound at the first change below the limit, in a cluster without any marker so far, and a message
        about it.

        The bound has no error yet if more input may come and the marker is not overdue. None if there is no such
        change.
        """
        if self.markers.missing == "warn":
            return None
        changes = [c for c in self._changes(applied, history) if c.key < limit]
        change = next((c for c in changes if not taken_up(c, history, GREATEST_KEY)), None)
        if change is None:
            return None
        version = history.at(*change.logical, change.key)
        where = ".".join(change.logical)
        text = (
            f"{change.sql[:200]!r} changes {'rows of ' if version is not None else ''}{where}, and no marker has ever "
            "been seen that would say when the logical table does: without one, "
            f"{consequence(change, history, key_after(change.key))}"
        )
        error = UnannouncedDdl(text, node=change.node, file=change.file, position=change.position, order_key=change.key)
        if limit == GREATEST_KEY or self._overdue(change, changes, limit, shards):
            return Bound(change.key, error), text
        held = f"{change.where}: {text}; what stands behind it is held back until a marker comes"
        return Bound(change.key), held

    def unannounced(
        self, applied: Applications, history: SchemaHistory, limit: OrderKey, shards: Shards
    ) -> tuple[list[str], list[Change]]:
        """Return warnings about changes that no marker takes up below the limit, and the changes to check again in the
        next run.
        """
        changes = [c for c in self._changes(applied, history) if c.key < limit]
        open_ = [c for c in changes if not taken_up(c, history, limit)]
        overdue = [c for c in open_ if limit == GREATEST_KEY or self._overdue(c, open_, limit, shards)]
        # Rows are reshaped in every run, but removed only once.
        told = [c for c in overdue if c.kind == "shape" or not c.warned]
        warnings = [_warning(same, history, limit) for same in _groups(told)]
        taken = [c for c in changes if c.warned and c not in open_]
        warnings += [_taken_back(same) for same in _groups(taken)]
        pending = [replace(c, warned=True) if c in overdue else c for c in open_]
        return warnings, _without_earlier(pending)

    def _overdue(self, change: Change, changes: Sequence[Change], limit: OrderKey, shards: Shards) -> bool:
        """Return whether the marker of a change is overdue, given that everything below `limit` is known."""
        if self.partial:
            return False
        overdue = self.markers.overdue
        if overdue is None:
            return alike(change, changes, [s for s in shards() if self.logical(s[0], *s[1]) == change.logical])
        distance = (limit.commit_tso >> LOGICAL_BITS) - (change.key.commit_tso >> LOGICAL_BITS)
        return distance * 1000 > overdue

    def state(self, seen: bool, pending: Sequence[Change], next_floor: OrderKey) -> dict[str, Any]:
        """Return the state for the next run, for the manifest; empty if markers are not compared."""
        if not self.active:
            return {}
        kept = [c.to_json() for c in pending if c.key < next_floor]
        return {"markers": seen, **({"unannounced": kept} if kept else {})}


def announced_of(job: Job, inputs: Inputs, cluster: ClusterView, floor: OrderKey) -> Announced:
    """Return the state with which a run begins."""
    last = inputs.manifest.state.last
    state = {} if last is None else last.state
    modes = modes_of(job.config, topology_of(job.config))
    by_marker = {job.config.shard_mode, *(modes.routes.values())} & {"marker"}
    return Announced(
        job.config.markers,
        modes,
        ORIGIN if last is not None else floor,
        tuple(Change.from_json(values) for values in state.get("unannounced", ())),
        active=bool(by_marker) and not cluster.polardbx and not cluster.by_markers,
        partial=job.stop_tso is not None,
        # Outputs begun before this was recorded did not stop for missing markers.
        seen=bool(state.get("markers", last is not None)),
        filter=_filter(job.config),
    )


def _filter(config: MergeConfig) -> "Filter | None":
    settings = filter_settings(config.filter)
    if settings is None:
        return None
    from binlog_merge.filters.filter import Filter  # imports DuckDB

    return Filter(settings)


def physical_tables(known: Iterable[tuple[str, Name]], coming: Iterable[TableVersion]) -> set[tuple[str, Name]]:
    """Return the nodes' tables that exist, from those known before and the versions that this run adds."""
    tables = set(known)
    for version in sorted((v for v in coming if v.node is not None), key=lambda v: v.key):
        table = (version.node or "", (version.schema, version.name))
        if version.table is None and not version.opaque:
            tables.discard(table)
        else:
            tables.add(table)
    return tables


def _groups(changes: Iterable[Change]) -> Iterable[list[Change]]:
    """Return the changes that are alike, in groups."""
    groups = dict[tuple[Name, str, str], list[Change]]()
    for change in changes:
        groups.setdefault((change.logical, change.kind, change.like), []).append(change)
    return groups.values()


def _without_earlier(pending: Sequence[Change]) -> list[Change]:
    """Leave out changes that were warned of and reshape no rows, but for a table's last: what takes it up takes up all.

    So the state does not grow with the statements of a cluster whose coordinator announces none.
    """
    last = set({(c.node, c.table, c.logical, c.kind): c for c in pending}.values())
    return [c for c in pending if c.kind == "shape" or not c.warned or c in last]


def _statements(same: Sequence[Change]) -> str:
    """Return the statement of changes that are alike, and where the first is, for people."""
    more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
    return f"{same[0].sql[:200]!r} ({same[0].where}){more}"


def _taken_back(same: Sequence[Change]) -> str:
    return (
        f"{'.'.join(same[0].logical)}: the warning that no marker tells of {_statements(same)} holds no longer: the "
        "table has been changed since, or no longer needs to be"
    )


def _warning(same: Sequence[Change], history: SchemaHistory, limit: OrderKey) -> str:
    first, name = same[0], ".".join(same[0].logical)
    return (
        f"{name}: no marker tells of {_statements(same)}: "
        f"{consequence(first, history, limit)}. If the nodes write no markers, set shard-mode; if this one was "
        f"forgotten, say what the table is: `binlog-merge schema set {name} --sql FILE --merged DIR --at-tso KEY`, or "
        "have the marker written"
    )
