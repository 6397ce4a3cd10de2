"""What is to be said where rows go into or out of a logical table and no statement on the target says it truly."""

from collections.abc import Callable, Iterator

from binlog_merge.shard.values import Doubt, Finding, Name, Renamed, Shard
from snapshot_store.ddl.effects import Effects, Verb
from snapshot_store.tso import OrderKey


def told(event: Renamed, instead: Renamed | None, alone: bool) -> Finding | None:
    """Return what is to be said of a shard that goes out of its logical table, None where the target is right.

    `instead` is the table that takes its place, `alone` tells that it was the only shard.
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
            return None  # a table that does not come out any more is dropped
        detail = f"{goes}{into}: rows that are in {old} so far go with it, as it is dropped"
        return _finding(event, detail, f"copy the rows of {_physical(event)} into {new} by hand")
    detail = f"{goes}{into}: the rows it has written so far stay in {old}, among those of the other shards"
    remedy = f"delete them from {old} by hand, by their keys" + (
        "" if event.new is None else f", and copy the rows of {_physical(event)} into {new}"
    )
    if instead is not None:
        detail = (
            f"{goes}{into}, and {instead.shard} takes its place in {old}: there the rows of the one stay, and those of "
            "the other do not come"
        )
    return _finding(event, detail, f"{remedy}; or rename all shards of {old} alike")


def brought(event: Renamed) -> Finding:
    """Return what is to be said of a table that comes into a logical one with rows that never came out."""
    new = _text(event.new)
    detail = f"it is {_physical(event)} from here on, of {new}, which gets none of the rows that it has"
    return _finding(event, detail, f"copy the rows of {_physical(event)} into {new} by hand")


def taken_elsewhere(
    effects: Effects,
    node: str,
    key: OrderKey,
    logical: Callable[[str, str], Name | None],
    shards: Callable[[Name], int],
) -> Iterator[Finding]:
    """Yield what is to be said of rows that go from table to table, or to files, other than by RENAME.

    `logical` names the logical table of one of the node's, None where it does not come out; `shards` says how many such
    a table has.
    """
    for effect in effects.all:
        if effect.verb is Verb.FILE and (name := logical(*effect.table)) is not None:
            detail = f"its rows go or come with a file, and the binlog has none of them: {_text(name)} stays as it was"
            remedy = f"bring the rows of {_text(name)} to what the node has by hand"
            yield _told(key, Shard(node, *effect.table), detail, remedy)
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
            yield _told(key, Shard(node, *here[0]), detail, f"bring the rows of {'.'.join(here[0])} there by hand")
        elif own and theirs and shards(own) == 1 and shards(theirs) > 1:  # `doubts.rows_stay` tells of several itself
            detail = (
                f"rows of a partition change places with those of {'.'.join(effect.other)} here, but {_text(theirs)} "
                "has those of other shards too"
            )
            remedy = f"bring the rows of {_text(own)} and {_text(theirs)} to what the nodes have by hand"
            yield _told(key, Shard(node, *effect.table), detail, remedy)


def _told(key: OrderKey, shard: Shard, detail: str, remedy: str) -> Finding:
    return Finding(Doubt.ROWS, key, shard, "", detail, remedy=f"begin anew behind it, or {remedy}")


def _finding(event: Renamed, detail: str, remedy: str) -> Finding:
    return _told(event.key, event.shard, detail, remedy)


def _physical(event: Renamed) -> str:
    return f"{event.to.schema}.{event.to.table}"


def _text(name: Name | None) -> str:
    return "" if name is None else ".".join(name)
