"""Physical DDL that no marker takes up: without a marker the logical table does not change, whatever the nodes run.

    shape   a table gets another shape: rows are cut, padded or converted until a marker has the same change
    make    a table is created for which there is no logical table
    drop    a table is dropped, and the logical table keeps its rows
    rows    rows are removed or moved without a row event: TRUNCATE, RENAME TABLE, EXCHANGE PARTITION

A change is *taken up* by a later logical version, from a marker or given by an operator. A statement that changes
neither rows nor their shape (indexes, defaults, comments) is not a change: schema queries show those.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

from binlog_merge.pipeline.base.state import key_after
from binlog_merge.pipeline.coordinate.histories import Applied
from binlog_merge.pipeline.coordinate.shards.clauses import steps_of, with_charset
from binlog_merge.pipeline.coordinate.shards.net_change import net_change
from snapshot_store.ask.skew import Skew, compare
from snapshot_store.ddl.effects import Verb
from snapshot_store.diff import column_map
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

Name = tuple[str, str]
Kind = Literal["shape", "make", "drop", "rows"]
Logical = Callable[[str, str, str], Name | None]
"""Returns the logical table of a node's table, if it is coordinated by markers and comes out, else None."""

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


def changes_of(node: str, applied: Applied, logical: Logical, history: SchemaHistory) -> Iterator[Change]:
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
            exists = version is not None and (version.table is not None or version.opaque)
            name = (database, table)
            if exists and name not in applied.before.tables and logical(node, *name) == (schema, table):
                yield Change(ddl.key, node, name, (schema, table), "drop", "", ddl.sql, ddl.file, ddl.position)


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
