"""Whether the copy that a tool puts in a table's place has all its rows.

gh-ost and pt-online-schema-change copy with INSERT IGNORE and REPLACE. Where the new table does not take a row, or
takes two rows for one, the copy loses rows without a word, whereas a target refuses the ALTER of the output.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from binlog_merge.pipeline.coordinate.shards.values import Doubt, Finding, Name, Shard
from snapshot_store.lattice.types import Comparison, compare_types
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Swap:
    """A node's table, which is `logical` in the output, is replaced by its copy; with both definitions."""

    key: OrderKey
    shard: Shard
    logical: Name
    copy: Name
    before: Table
    after: Table
    file: str
    position: int


Counted = Callable[[Swap], tuple[int, int] | None]
"""How many rows the table and its copy have, None if that is unknown."""


def not_counted(swap: Swap) -> None:
    """Return None: the numbers are unknown."""


def losses(swap: Swap, counted: Counted) -> tuple[Finding | None, str | None]:
    """Return the finding about a copy that has lost rows, and the warning about one that may have changed some."""
    dropping, changing = list(_drops_rows(swap)), list(_changes_values(swap))
    if not dropping and not changing:
        return None, None
    why, table, copy = " and ".join([*dropping, *changing]), ".".join(swap.logical), ".".join(swap.copy)
    rows = counted(swap)
    if rows is not None and rows[0] != rows[1]:
        detail = (
            f"its copy {copy} has {rows[1]} rows where it has {rows[0]}: it {why}, and what does not fit was not "
            f"copied; the ALTER of {table} is refused where these rows are"
        )
        remedy = f"delete the rows of {table} that {swap.shard} no longer has on the target, before the ALTER"
        return Finding(Doubt.ROWS, swap.key, swap.shard, "", detail, remedy=remedy, tables=(swap.logical,)), None
    if rows is not None and not changing:
        return None, None
    told = "whether the copy has all rows is not known" if rows is None else "the copy may have other values in them"
    return None, (
        f"{swap.shard} is replaced by its copy {copy}, which {why}: {told}, and the ALTER of {table} may be refused on "
        f"the target: {swap.file}:{swap.position}"
    )


def _drops_rows(swap: Swap) -> Iterator[str]:
    """Yield what makes a copy lose rows."""
    before, after = swap.before, swap.after
    known = [index for index in before.indexes if index.unique or index.name == "PRIMARY"]
    for index in after.indexes:
        if (index.unique or index.name == "PRIMARY") and not any(_holds(index, had, swap) for had in known):
            name = "a primary key" if index.name == "PRIMARY" else f"the unique key {index.name}"
            yield f"has {name} that other rows may be equal in"
    if {text for _, text in after.checks} - {text for _, text in before.checks}:
        yield "has a CHECK more"
    if len(after.foreign_keys) > len(before.foreign_keys):
        yield "has a foreign key more"
    if after.partitioning != before.partitioning and after.partitioning:
        yield "has other partitions"


def _holds(index: Index, had: Index, swap: Swap) -> bool:
    """Return whether rows that differ in an index of the table before differ in this one of the copy, too."""
    there = {(part.column or "").lower(): part for part in index.parts}
    for part in had.parts:
        column = None if part.column is None else there.get(part.column.lower())
        if column != part or part.column is None:
            return False
        old, new = (_column(table, part.column) for table in (swap.before, swap.after))
        if old is None or new is None or not _keeps_apart(old, new):
            return False
    return True


def _keeps_apart(old: Column, new: Column) -> bool:
    return not _narrower(old, new) and old.type.collation == new.type.collation and old.nullable >= new.nullable


def _changes_values(swap: Swap) -> Iterator[str]:
    """Yield what makes a copy change values that a server in strict mode refuses to change."""
    for new in swap.after.columns:
        old = _column(swap.before, new.name)
        if old is None or old.generated is not None:
            continue
        if old.nullable and not new.nullable:
            yield f"has {new.name} NOT NULL"
        if _narrower(old, new):
            yield f"has another type of {new.name}, which does not take all values"


def _column(table: Table, name: str) -> Column | None:
    i = table.index_of(name)
    return None if i is None else table.columns[i]


def _narrower(old: Column, new: Column) -> bool:
    """Return whether a column's new type may not take all values that it has."""
    a, b = new.type, old.type
    if a.family is b.family is Family.TEXT and a.charset == b.charset:
        return _room(a) < _room(b)
    return any(_less(comparison, a.charset == b.charset) for comparison in compare_types(new.name, a, b))


def _less(comparison: Comparison, same_charset: bool) -> bool:
    if comparison.aspect == "zerofill" or (comparison.aspect == "character set" and same_charset):
        return False
    return isinstance(comparison.verdict, str) or comparison.verdict < 0


_BYTES_OF_A_CHARACTER = 4


def _room(type: ColumnType) -> int:
    """Return how many bytes a text may have; of CHAR and VARCHAR, so many that no shorter TEXT counts as wider."""
    return type.facts.most_bytes + 1 if type.is_lob else (type.length or 1) * _BYTES_OF_A_CHARACTER
