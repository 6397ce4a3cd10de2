"""What is to be said where rows go into or out of a logical table and no statement on the target says it truly."""

from binlog_merge.shard.values import Doubt, Finding, Name, Renamed


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


def _finding(event: Renamed, detail: str, remedy: str) -> Finding:
    return Finding(Doubt.ROWS, event.key, event.shard, "", detail, remedy=f"begin anew behind it, or {remedy}")


def _physical(event: Renamed) -> str:
    return f"{event.to.schema}.{event.to.table}"


def _text(name: Name | None) -> str:
    return "" if name is None else ".".join(name)
