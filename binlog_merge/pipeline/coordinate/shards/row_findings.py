"""Findings about rows that no statement on the target treats alike: those that enter or leave a logical table, and
those that the copy lacks which a tool puts in a table's place.

gh-ost and pt-online-schema-change copy with INSERT IGNORE and REPLACE. Where the new table does not take a row, or
takes two rows for one, the copy loses rows without a word, whereas a target refuses the ALTER of the output.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from binlog_merge.pipeline.coordinate.shards.values import (
    WRITTEN,
    Doubt,
    Finding,
    Leaves,
    Name,
    Renamed,
    Shard,
    ShardDdl,
)
from snapshot_store.ddl.effects import Effects, Verb, effects_of
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.lattice.columns import Comparison, compare_types
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.tso import OrderKey

MOVING = (Verb.EMPTY, Verb.FILE, Verb.EXCHANGE)
"""The ways, other than RENAME, in which a statement may change rows without a row event."""


def rows_stay(event: Leaves | ShardDdl, name: str, instead: str = "") -> Finding:
    """Return the finding for a statement that removes or exchanges rows of one shard of several.

    `instead` says that the others do not do the same.
    """
    why = instead or "this says nothing of the other shards' rows"
    detail = (
        f"{why}, and so it is not carried out: {name} keeps the rows that {event.shard} had, and rows that come again "
        "with their keys collide with them"
    )
    remedy = f"where the merge stops, delete the rows of {event.shard} from {name} on the target"
    if isinstance(event, ShardDdl) and moves_rows(event, Verb.EXCHANGE):
        remedy = (
            "let all shards run it, set `shard-doubts: warn`, merge up to there, and run it on the target by hand, "
            "before rows come to this partition or to the other table again"
        )
    if instead:
        remedy = f"decide, `binlog-merge ddl resolve {name} --skip`, and {remedy}"
    return Finding(Doubt.ROWS, event.key, event.shard, "", detail, remedy=remedy)


def rows_since(ddl: ShardDdl, name: str) -> Finding:
    """Return the finding for a shard that empties partitions after it has counted as having done so."""
    detail = (
        f"it has counted as having run this, so {name} was emptied earlier, and keeps the rows that {ddl.shard} has "
        "written to these partitions since then; rows that come again with their keys collide with them"
    )
    remedy = f"where the merge stops, delete the rows of {ddl.shard} in these partitions from {name} on the target"
    return Finding(Doubt.ROWS, ddl.key, ddl.shard, "", detail, remedy=remedy, if_rows=True)


def moves_rows(ddl: ShardDdl, *verbs: Verb) -> bool:
    """Return whether a statement does one of `verbs` to rows of its table, without a row event."""
    if not any(word in ddl.sql.upper() for word in ("PARTITION", "TABLESPACE")):
        return False
    return bool(effects_of(parse_statement(ddl.sql, ddl.session or WRITTEN)).having(*verbs))


def renamed_away(event: Renamed, instead: Renamed | None, alone: bool) -> Finding | None:
    """Return the finding for a shard that is renamed out of its logical table, None if the target is right.

    `instead` is the rename of the table that takes over its name, if any. `alone`: it was the only shard.
    """
    old, new, goes = _text(event.old), _text(event.new), f"it is {_physical(event)} from here on"
    if instead is not None and instead.tool:
        if event.new is None:
            return None
        detail = f"{goes}, of {new}, which gets none of its rows; those of {old} stay"
        return _finding(event, detail, f"copy the rows of {_physical(event)} into {new} by hand")
    into = "" if event.new is None else f", of {new}, which gets none of them"
    if alone:
        if event.new is None:
            return None  # a table that no longer comes out is dropped
        detail = f"{goes}{into}: rows that are in {old} so far go with it, as it is dropped"
        return _finding(event, detail, f"copy the rows that {event.to} has there into {new} by hand", if_rows=True)
    detail = f"{goes}{into}: the rows it has written so far stay in {old}, among those of the other shards"
    remedy = f"delete them from {old} by hand, by their keys" + (
        "" if event.new is None else f", and copy the rows of {_physical(event)} into {new}"
    )
    if instead is not None:
        detail = (
            f"{goes}{into}, and {instead.shard} takes its place in {old}: there the rows of the one stay, and those of "
            "the other do not come"
        )
    return _finding(event, detail, f"{remedy}; or rename all shards of {old} alike", if_rows=instead is None)


def renamed_into(event: Renamed) -> Finding:
    """Return the finding for a table that is renamed into a logical one with rows that were never merged."""
    new = _text(event.new)
    detail = f"it is {_physical(event)} from here on, of {new}, which gets none of the rows that it has"
    return _finding(event, detail, f"copy the rows of {_physical(event)} into {new} by hand", if_rows=True)


def taken_elsewhere(
    effects: Effects,
    node: str,
    key: OrderKey,
    logical: Callable[[str, str], Name | None],
    shards: Callable[[Name], int],
) -> Iterator[Finding]:
    """Yield a finding for rows that move between tables, or to and from files, other than by RENAME.

    `logical` returns the logical table of a node's table, None if it does not come out; `shards` returns how many
    shards a logical table has.
    """
    for effect in effects.all:
        if effect.verb is Verb.FILE and (name := logical(*effect.table)) is not None:
            detail = f"its rows go or come with a file, and the binlog has none of them: {_text(name)} stays as it was"
            remedy = f"bring the rows of {_text(name)} to what the node has by hand"
            yield _rows(key, Shard(node, *effect.table), detail, remedy, name)
        if effect.verb is not Verb.EXCHANGE or effect.other is None:
            continue
        pair = (effect.table, effect.other)
        own, theirs = names = logical(*effect.table), logical(*effect.other)
        here = [physical for physical, name in zip(pair, names, strict=True) if name is not None]
        if len(here) == 1:
            other = effect.other if here[0] == effect.table else effect.table
            detail = (
                f"rows of it change places with those of {'.'.join(other)}, which does not come out: the target has "
                "none of those that come, and keeps those that go"
            )
            yield _rows(
                key, Shard(node, *here[0]), detail, f"bring the rows of {'.'.join(here[0])} there by hand", *names
            )
        elif (
            own and theirs and shards(own) == 1 and shards(theirs) > 1
        ):  # `rows_stay` reports tables with several shards
            detail = (
                f"rows of a partition change places with those of {'.'.join(effect.other)} here, but {_text(theirs)} "
                "has those of other shards too"
            )
            remedy = f"bring the rows of {_text(own)} and {_text(theirs)} to what the nodes have by hand"
            yield _rows(key, Shard(node, *effect.table), detail, remedy, own, theirs)


def _rows(key: OrderKey, shard: Shard, detail: str, remedy: str, *tables: Name | None) -> Finding:
    named = tuple(name for name in tables if name is not None)
    return Finding(Doubt.ROWS, key, shard, "", detail, remedy=f"begin anew after it, or {remedy}", tables=named)


def _finding(event: Renamed, detail: str, remedy: str, if_rows: bool = False) -> Finding:
    return replace(_rows(event.key, event.shard, detail, remedy, event.old, event.new), if_rows=if_rows)


def _physical(event: Renamed) -> str:
    return f"{event.to.schema}.{event.to.table}"


def _text(name: Name | None) -> str:
    return "" if name is None else ".".join(name)


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
    for index in after.unique_keys:
        if not any(_holds(index, had, swap) for had in before.unique_keys):
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
