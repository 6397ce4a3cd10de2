"""The notes that merges and operators exchange through the schema store: waiting DDL, and decisions about it.

Both are named texts (`Store.note`). LOCKS is written by every merge that coordinates shards, with the state at its end.
DECISIONS is written by `ddl resolve`, and every later merge applies its decisions as events. So the output still
depends only on the logs and these two.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from binlog_merge.pipeline.coordinate.shards.values import Decided, Open, Shard
from snapshot_store.errors import StoreError
from snapshot_store.tso import OrderKey

LOCKS = "shards"
DECISIONS = "decisions"

Mode = Literal["pessimistic", "optimistic"]


class NodeStatement(NamedTuple):
    """A statement as a node wrote it, with its file and position."""

    sql: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class ShardStatement:
    """A statement that a shard ran, with its file and position in the node's binlog."""

    shard: Shard
    key: OrderKey
    sql: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Lock:
    """An open coordination. `sql` is the statement for the logical table; `done` are the shards that have it.

    `ran` are the statements they ran; a shard of `done` without an entry counts as having run it, or was created with
    it. `stage` is that of `values.Open`.
    """

    id: str
    mode: Mode
    stage: str
    sql: str
    done: tuple[Shard, ...]
    awaited: tuple[Shard, ...]
    ran: tuple[ShardStatement, ...]


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Transactions with rows of one shard that wait, from `since` on; one that touches two shards counts for both.

    `bytes` are those of their events in the node's binlog.
    """

    shard: Shard
    transactions: int
    bytes: int
    since: OrderKey


@dataclass(frozen=True, slots=True)
class Locks:
    """The open coordinations at the end of a merge that knew everything below `known`.

    `stop` is the key of the shard's statement at which coordination stopped, None if it did not.
    """

    known: OrderKey
    locks: tuple[Lock, ...] = ()
    held: tuple[HeldRows, ...] = ()
    stop: OrderKey | None = None


def lock_of(waiting: Open, mode: Mode, source: Callable[[str, OrderKey], NodeStatement]) -> Lock:
    """Return an open coordination in the form that operators see; `source` finds the statement of a node at a key."""
    ran = tuple(ShardStatement(ddl.shard, ddl.key, *source(ddl.shard.node, ddl.key)) for ddl in waiting.ran)
    return Lock(waiting.id, mode, waiting.stage, waiting.ddl.sql, waiting.done, waiting.awaited, ran)


def since(lock: Lock) -> OrderKey:
    """Return the key at which a shard ran the DDL first."""
    return min((ran.key for ran in lock.ran), default=OrderKey.parse(lock.id.rpartition("@")[2]))


def lock_values(lock: Lock) -> dict[str, Any]:
    """Return a DDL that waits as plain values: what it is, since when, which shards have it, and which are awaited."""
    return {
        "id": lock.id,
        "table": table_of(lock.id),
        "mode": lock.mode,
        "stage": lock.stage,
        "sql": lock.sql,
        "since": since(lock).text(),
        "done": [str(shard) for shard in lock.done],
        "awaited": [str(shard) for shard in lock.awaited],
    }


def table_of(id: str) -> str:
    """Return the logical table of a coordination, as schema.table."""
    return id.rpartition("@")[0]


def decisions_about(table: tuple[str, str], decisions: Iterable[Decided]) -> tuple[Decided, ...]:
    """Return the decisions about one logical table, in the order of their keys."""
    found = [decided for decided in decisions if table_of(decided.id) == ".".join(table)]
    return tuple(sorted(found, key=lambda decided: decided.key))


def says_the_same(text: str | None, locks: Locks) -> bool:
    """Return whether a note says what these locks do, but for how far it was known: of that the manifest tells."""
    if text is None:
        return False
    try:
        return replace(locks_from_json(text), known=locks.known) == locks
    except StoreError:
        return False


def locks_to_json(locks: Locks) -> str:
    """Return open coordinations as JSON text."""
    return json.dumps(asdict(locks))


def locks_from_json(text: str) -> Locks:
    """Return what `locks_to_json` wrote. Raises StoreError if it did not write this."""
    try:
        values = json.loads(text)
        return Locks(
            OrderKey(*values["known"]),
            tuple(
                Lock(
                    **{
                        **lock,
                        "done": _shards(lock["done"]),
                        "awaited": _shards(lock["awaited"]),
                        "ran": tuple(ShardStatement(**_placed(ran, "key")) for ran in lock["ran"]),
                    }
                )
                for lock in values["locks"]
            ),
            tuple(HeldRows(**_placed(held, "since")) for held in values["held"]),
            None if values["stop"] is None else OrderKey(*values["stop"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged("open coordination", text, error) from None


def decisions_to_json(decisions: Iterable[Decided]) -> str:
    """Return decisions as JSON text."""
    return json.dumps([asdict(decided) for decided in decisions])


def decisions_from_json(text: str) -> tuple[Decided, ...]:
    """Return what `decisions_to_json` wrote. Raises StoreError if it did not write this."""
    try:
        return tuple(
            Decided(**{**v, "key": OrderKey(*v["key"]), "shard": None if v["shard"] is None else Shard(*v["shard"])})
            for v in json.loads(text)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged("decisions", text, error) from None


def _shards(values: Iterable[list[str]]) -> tuple[Shard, ...]:
    return tuple(Shard(*value) for value in values)


def _placed(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {**values, "shard": Shard(*values["shard"]), key: OrderKey(*values[key])}


def _damaged(what: str, text: str, error: Exception) -> StoreError:
    return StoreError(f"not the JSON of {what}: {text[:100]!r} ({error}); the store is damaged")
