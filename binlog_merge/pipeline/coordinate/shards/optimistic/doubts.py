"""Finds columns in which target and shards hold different data from a DDL on, although their schemas agree in the end:
those that some shards have dropped and others still have (DM: `Lock.columns`), and those that a DDL changes otherwise.

No row event records what a DDL does to existing rows. On the target the logical DDL changes the rows of all shards
once. If it does not change a shard's rows as the shard's own DDL did, they differ from then on, and nothing later shows
it.

If a shard adds such a column again, the target still holds the old values, as if the column had never been dropped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from binlog_merge.pipeline.coordinate.shards.net_change import NetChange, net_change_of
from binlog_merge.pipeline.coordinate.shards.values import Doubt, Finding, Shard, ShardDdl
from snapshot_store.lattice.columns import compare_columns, filled
from snapshot_store.lattice.tables import Incomparable
from snapshot_store.model import Column, Table
from snapshot_store.mysql.sql.functions import function


class Progress(Enum):
    """How far a shard's DROP COLUMN is: not written out, written out by another shard, or by this one."""

    NOT_DONE = "NotDone"
    PARTIALLY_DONE = "PartiallyDone"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class Dropping:
    """Columns that some shards have dropped, by lower-case name, with the progress of each of those shards."""

    columns: Mapping[str, Mapping[Shard, Progress]] = field(default_factory=dict)

    def has(self, shard: Shard, column: str) -> bool:
        """Return whether a shard has dropped a column that not all shards have dropped."""
        return shard in self.columns.get(column.lower(), {})

    def begun(self, shard: Shard, column: str) -> "Dropping":
        """Return this after a shard has dropped a column."""
        name = column.lower()
        return Dropping({**self.columns, name: {**self.columns.get(name, {}), shard: Progress.NOT_DONE}})

    def done(self, shard: Shard, columns: Sequence[str], written: bool) -> "Dropping":
        """Return this after a shard has finished dropping columns; `written`: a DDL was written out for it.

        A column is forgotten once all shards that dropped it have finished and a DDL was written out for one of them.
        """
        known = dict(self.columns)
        for name in (column.lower() for column in columns):
            if name not in known:
                continue
            shards = {**known[name], shard: Progress.DONE if written else Progress.PARTIALLY_DONE}
            over = Progress.NOT_DONE not in shards.values() and Progress.DONE in shards.values()
            known = {n: s for n, s in known.items() if n != name} | ({} if over else {name: shards})
        return Dropping(known)

    def gone(self, columns: Sequence[str]) -> "Dropping":
        """Return this without columns that the target no longer has."""
        names = {column.lower() for column in columns}
        return Dropping({n: s for n, s in self.columns.items() if n not in names})

    def moved(self, shard: Shard, to: Shard) -> "Dropping":
        """Return this with a shard renamed."""
        return Dropping(
            {n: {to if s == shard else s: p for s, p in shards.items()} for n, shards in self.columns.items()}
        )

    def without(self, shard: Shard) -> tuple["Dropping", tuple[str, ...]]:
        """Return this without a shard, and the columns that no shard is dropping any more."""
        remaining = {n: {s: p for s, p in shards.items() if s != shard} for n, shards in self.columns.items()}
        kept = {n: shards for n, shards in remaining.items() if shards or n not in self.columns}
        return Dropping(kept), tuple(n for n in remaining if n not in kept)


def doubts_of(
    ddls: Sequence[ShardDdl], logical: NetChange, dropping: Dropping, author: bool, alone: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each column in which a shard's existing rows differ from the target's after its DDL.

    `logical` is the change of the logical table. `author`: its statement, and the session with its clock, are this
    shard's. `alone`: the shard has all rows of the logical table.
    """
    change = net_change_of(ddls)
    for column in change.after.columns:
        there = _column(logical.after, column.name)
        if there is None or column.generated is not None:
            continue
        ddl = next((ddl for ddl in reversed(ddls) if _makes(ddl, column.name)), None)
        source, kept = change.source(column.name), logical.source(column.name)
        if ddl is not None and source is None and depends_on_moment(column):
            text = _moment(column, change.before, kept, author, alone)
            text = text or (_of_database(column) if ddl.elsewhere else "")
            if text:
                yield Finding(Doubt.MOMENT, ddl.key, ddl.shard, column.name, text)
            continue
        readded = dropping.has(ddls[0].shard, column.name) or column.name in change.replaced
        filled_as = there if kept is None else _column(logical.before, kept)
        found = _difference(column, filled_as or there, source, kept, readded)
        if found is not None:
            ddl = ddl or ddls[-1]
            yield Finding(found[0], ddl.key, ddl.shard, column.name, found[1])


def _moment(column: Column, before: Table, kept: str | None, author: bool, alone: bool) -> str:
    """Return why existing rows get other values on the target in a column whose default depends on time or session.

    Returns "" if they do not: the statement then runs there with its shard's clock and counter.
    """
    if not alone and (column.auto_increment or kept is not None or not author):
        return f"existing rows get a value in {column.name} that differs from shard to shard"
    if column.auto_increment and not _has_order(before):
        return (
            f"existing rows are numbered in {column.name} in the order in which they are stored, since the table has "
            "no key that orders them; on the target that may be another"
        )
    return ""


def _of_database(column: Column) -> str:
    """Return why existing rows get other values if the session's database has another name on the target, "" if they
    do not.
    """
    if not {"database", "schema"} & set(_words(column.default.text if column.default is not None else "")):
        return ""
    return (
        f"existing rows get the name of the session's database in {column.name}, which has another name there, or none"
    )


def _has_order(table: Table) -> bool:
    """Return whether a key orders the rows as servers read them: the primary key, or a unique one without NULL."""
    nullable = {column.name.lower() for column in table.columns if column.nullable}
    for index in table.indexes:
        whole = [part.column or "" for part in index.parts if part.length is None]
        if index.unique and len(whole) == len(index.parts) and not {"", *nullable} & {name.lower() for name in whole}:
            return True
    return False


def _difference(
    column: Column, there: Column, source: str | None, kept: str | None, readded: bool
) -> tuple[Doubt, str] | None:
    """Return how the values of existing rows in a shard's column differ from those in the logical table, None if they
    do not.

    `source` and `kept` are the columns that the values come from, in the shard and the logical table, None for a new
    column. `there` is the logical column as it was added. `readded`: the shard dropped a column of this name.
    """
    name = column.name
    if source is not None and kept is not None and source.lower() != kept.lower():
        return Doubt.RENAME_BY_DROP, (
            f"column {source} is renamed to {name} here, but {name} is already in the logical table: the values of "
            f"existing rows stay in {source}"
        )
    if source is not None and kept is None:
        return Doubt.RENAME_BY_DROP, (
            f"existing rows have the values of {source} in {name} here, but {name} is a new column in the logical table"
        )
    if source is None and kept is not None and kept.lower() != name.lower():
        return Doubt.RENAME_BY_DROP, (
            f"{name} is a new column here, but in the logical table it is {kept} under another name: existing rows "
            "have its values there"
        )
    if source is None and kept is not None and readded:
        return Doubt.READDED, (
            f"column {name} was dropped here and is added again, while the logical table has kept it: existing rows "
            "keep the old values there"
        )
    if source is None and not _fills_alike(column, there):
        return Doubt.FILL, f"existing rows get another value in {name} here than they got in the logical table"
    return None


def _makes(ddl: ShardDdl, name: str) -> bool:
    """Return whether a statement adds a column with this name, or renames one to it."""
    made = (new for step in ddl.steps for new in (*step.adds, *(new for _, new in step.renames)))
    return name.lower() in (new.lower() for new in made)


def _fills_alike(a: Column, b: Column) -> bool:
    try:
        findings = compare_columns(filled(a), filled(b))
    except Incomparable:
        return False
    return all(finding.verdict == 0 for finding in findings if finding.aspect == "default")


def depends_on_moment(column: Column) -> bool:
    """Return whether the values of existing rows in a new column depend on when, where and in which session it is
    added.
    """
    default = column.default
    if column.auto_increment:
        return True
    if default is None or default.kind in ("literal", "null"):
        return False
    return default.kind == "now" or any(map(_changes, _words(default.text)))


def _words(expression: str) -> list[str]:
    """Return the words of an expression that may be functions, in lower case."""
    return _WORD.findall(_QUOTED.sub("", expression).lower())


def _changes(name: str) -> bool:
    called = function(name)
    return called.allowed == "default" or called.depends == "settings"


_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`""", re.DOTALL)
_WORD = re.compile(r"[a-z_][a-z0-9_]*")


def _column(table: Table, name: str) -> Column | None:
    i = table.index_of(name)
    return None if i is None else table.columns[i]
