"""Findings about rows that enter or leave a logical table when no statement on the target does the same."""

from collections.abc import Callable, Iterator
from dataclasses import replace

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
