"""Where target and shards come to hold different data, although their schemas agree in the end.

What a DDL does to existing rows is not in any row event. The target's rows of all shards get it once, when the logical
DDL is carried out; if it does not do the same for a shard's rows as the shard's own DDL did, they differ from then on,
and nothing later shows it.
"""

from collections.abc import Iterator

from binlog_merge.shard.composed import Composed
from binlog_merge.shard.rounds import Dropping
from binlog_merge.shard.values import Doubt, Finding, ShardDdl
from snapshot_store.lattice import Incomparable
from snapshot_store.lattice_columns import compare_columns, filled
from snapshot_store.model import Column, Table


def doubts_of(ddl: ShardDdl, change: Composed, logical: Table, dropping: Dropping) -> Iterator[Finding]:
    """Yield what is to be said of a statement that takes effect, while the logical table is still as before it."""
    freed = {old.lower() for old, _ in change.renames}  # by a swap of names
    for old, new in change.renames:
        if logical.index_of(new) is not None and new.lower() not in freed:
            yield Finding(
                Doubt.RENAME_BY_DROP, ddl.key, ddl.shard, new,
                f"column {old} is renamed to {new} here, but {new} is already in the logical table: the values of "
                f"existing rows stay in {old}",
            )  # fmt: skip
    added = {name.lower(): name for step in ddl.steps for name in step.adds}
    for name in added.values():
        yield from _added(ddl, change, logical, dropping, name)


def _added(ddl: ShardDdl, change: Composed, logical: Table, dropping: Dropping, name: str) -> Iterator[Finding]:
    column, there = _column(ddl.after, name), _column(logical, name)
    if column is None or column.generated is not None:
        return
    if column.auto_increment or _depends_on_moment(column):
        if there is not None or column.auto_increment:
            yield Finding(
                Doubt.MOMENT, ddl.key, ddl.shard, name,
                f"existing rows get a value in {name} that differs from shard to shard",
            )  # fmt: skip
        return
    if there is None:
        return
    if dropping.has(ddl.shard, name) or name.lower() in {n.lower() for n in change.replaced}:
        yield Finding(
            Doubt.READDED, ddl.key, ddl.shard, name,
            f"column {name} was dropped here and is added again, while the logical table has kept it: existing rows "
            "keep the old values there",
        )  # fmt: skip
    elif not _fills_alike(column, there):
        yield Finding(
            Doubt.FILL, ddl.key, ddl.shard, name,
            f"existing rows get another value in {name} here than they got in the logical table",
        )  # fmt: skip


def _fills_alike(a: Column, b: Column) -> bool:
    try:
        findings = compare_columns(filled(a), filled(b))
    except Incomparable:
        return False
    return all(finding.verdict == 0 for finding in findings if finding.aspect == "default")


def _depends_on_moment(column: Column) -> bool:
    default = column.default
    if default is None or default.kind in ("literal", "null"):
        return False
    return default.kind == "now" or not default.text.strip("()").startswith(("'", '"', "_"))


def _column(table: Table, name: str) -> Column | None:
    place = table.index_of(name)
    return None if place is None else table.columns[place]
