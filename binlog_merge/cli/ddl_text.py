"""Open coordination and decisions as text for people and as values for machines."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from binlog_merge.json_values import utc_text

if TYPE_CHECKING:
    from binlog_merge.pipeline.coordinate.shards.notes import HeldRows, Lock, Locks, ShardStatement
    from binlog_merge.pipeline.coordinate.shards.values import Decided, Shard
    from snapshot_store.tso import OrderKey


def locks_values(found: "Locks", decisions: "Sequence[Decided]") -> dict[str, Any]:
    """Return open locks, held rows and decisions as plain values; `known` is None at the end of the input."""
    return {
        "known": None if at_end(found.known) else moment_values(found.known),
        "locks": [_lock_values(lock, found, decisions) for lock in found.locks],
        "held": [_held_values(held) for held in found.held],
        "decisions": [decision_values(decided) for decided in decisions],
    }


def _lock_values(lock: "Lock", found: "Locks", decisions: "Sequence[Decided]") -> dict[str, Any]:
    from binlog_merge.pipeline.coordinate.shards.notes import lock_values

    ran = {ran.shard: ran for ran in lock.ran}
    return lock_values(lock) | {
        "since": _since_values(lock),
        "done": [_done_values(shard, ran.get(shard)) for shard in lock.done],
        "awaited": [_shard_values(shard) for shard in lock.awaited],
        "held": [_held_values(held) for held in _held_for(lock, found)],
        "decisions": [decision_values(decided) for decided in decisions if decided.id == lock.id],
    }


def _since_values(lock: "Lock") -> dict[str, Any]:
    from binlog_merge.pipeline.coordinate.shards.notes import since

    return moment_values(since(lock))


def _done_values(shard: "Shard", ran: "ShardStatement | None") -> dict[str, Any]:
    """Return the values of a shard that is done; without a statement if an operator marked it as done."""
    place = {} if ran is None else {"sql": ran.sql, "file": ran.file, "position": ran.position}
    return {**_shard_values(shard), "ran": None if ran is None else {**moment_values(ran.key), **place}}


def _shard_values(shard: "Shard") -> dict[str, Any]:
    return {"shard": str(shard), **shard._asdict()}


def _held_values(held: "HeldRows") -> dict[str, Any]:
    numbers = {"transactions": held.transactions, "bytes": held.bytes, "since": moment_values(held.since)}
    return {**_shard_values(held.shard), **numbers}


def decision_values(decided: "Decided") -> dict[str, Any]:
    """Return plain values of a decision."""
    return {
        "id": decided.id,
        "action": decided.action,
        "sql": decided.sql or None,
        "shard": None if decided.shard is None else str(decided.shard),
        **moment_values(decided.key),
    }


def moment_values(key: "OrderKey") -> dict[str, Any]:
    """Return an order key and its time, None where its TSO carries none."""
    from snapshot_store.names import time_of

    time = time_of(key)
    return {
        "order_key": key.text(),
        "commit_tso": str(key.commit_tso),
        "time": None if time is None else utc_text(time),
    }


def _held_for(lock: "Lock", found: "Locks") -> "list[HeldRows]":
    """Return the held rows: of shards that are done, or that are behind; none for locks that are queued, which would
    repeat them.
    """
    waits = lock.awaited if lock.stage == "behind" else lock.done
    return [held for held in found.held if held.shard in waits and lock.stage in ("waiting", "conflict", "behind")]


def at_end(known: "OrderKey") -> bool:
    """Return whether the merge has processed all input, and no more is to come."""
    from snapshot_store.names import LAST

    return known.commit_tso == LAST.commit_tso


def known_text(known: "OrderKey") -> str:
    """Return the moment up to which all input is processed as text."""
    from snapshot_store.names import since

    return "the end of the input" if at_end(known) else since(known)


def locks_text(found: "Locks", decisions: "Sequence[Decided]", out: str) -> str:
    """Return open locks, held rows and decisions as text."""
    if not found.locks:
        return f"nothing is open, up to {known_text(found.known)}"
    number = len(found.locks)
    lines = [
        f"{number} {'coordination' if number == 1 else 'coordinations'} under way, up to {known_text(found.known)}"
    ]
    for lock in found.locks:
        lines += _lock_lines(lock, found, [decided for decided in decisions if decided.id == lock.id])
    lines += _advice(found, decisions, out)
    return "\n".join(lines)


def _lock_lines(lock: "Lock", found: "Locks", decisions: "Iterable[Decided]") -> Iterator[str]:
    from binlog_merge.pipeline.coordinate.shards import notes
    from snapshot_store.names import since

    ran = {ran.shard: ran for ran in lock.ran}
    yield lock.id
    yield f"  {lock.mode}, {lock.stage} since {since(notes.since(lock))}: {lock.sql}"
    yield from _rows("done", [_done_text(shard, ran.get(shard)) for shard in lock.done])
    yield from _rows("awaited", map(str, lock.awaited))
    yield from _rows("held", [_held_text(held) for held in _held_for(lock, found)])
    yield from _rows("decided", [_decision_text(decided) for decided in decisions])


def _rows(title: str, values: Iterable[str]) -> Iterator[str]:
    for number, value in enumerate(values):
        yield f"  {'' if number else title:<8} {value}"


def _done_text(shard: "Shard", ran: "ShardStatement | None") -> str:
    from snapshot_store.names import since

    if ran is None:
        return f"{shard}  counts as having run it"
    return f"{shard}  {since(ran.key)}  {ran.file}:{ran.position}  {ran.sql}"


def _held_text(held: "HeldRows") -> str:
    from snapshot_store.names import since

    number = f"{held.transactions} transaction{'' if held.transactions == 1 else 's'}"
    return f"{held.shard}  {number}, {held.bytes:,} bytes, since {since(held.since)}"


def _decision_text(decided: "Decided") -> str:
    what = {"emit": decided.sql, "skip": "", "as-if-done": str(decided.shard)}[decided.action]
    return f"{decided.action} {what}".rstrip() + f"  from order key {decided.key.text()} on"


def decided_text(decided: "Decided") -> str:
    """Return a decision as text."""
    return f"{decided.id}\n  {_decision_text(decided)}"


def _advice(found: "Locks", decisions: "Sequence[Decided]", out: str) -> list[str]:
    """Return commands that decide about the first lock without a decision."""
    from binlog_merge.pipeline.coordinate.shards.notes import WAITING, alone_of_its_kind, table_of

    known = {decided.id for decided in decisions}
    waiting = [lock for lock in found.locks if lock.stage in WAITING]
    lock = next((lock for lock in waiting if lock.id not in known), None)
    if lock is None:
        return []
    alone = [table_of(one.id) for one in waiting].count(table_of(lock.id)) == 1
    command = f"binlog-merge ddl resolve {table_of(lock.id) if alone else lock.id} --merged {out}"
    ways = [f"--as-if-done {shard}" for shard in lock.awaited[:1]]
    if lock.stage != "behind":
        ways += ["--emit SQL", "--skip"] if alone_of_its_kind(lock.sql) is None else ["--skip"]
    return ["if a shard awaited will never follow:", *(f"  {command} {way}" for way in ways)]
