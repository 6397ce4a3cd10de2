"""Notes that a merge and its operators exchange through the schema store: DDL that waits, and decisions about it.

Both are texts under a name (`Store.note`). LOCKS is written by every merge that coordinates shards, and says how things
stood where it ended; DECISIONS is written by `ddl resolve`, and every merge from then on takes its decisions in as
events. So what comes out still follows from the logs and these two alone.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from binlog_merge.pipeline.coordinate.shards.values import Decided, Open, Shard
from snapshot_store.errors import StoreError
from snapshot_store.tso import OrderKey

LOCKS = "shards"
DECISIONS = "decisions"

Mode = Literal["pessimistic", "optimistic"]


class Source(NamedTuple):
    """A statement as a node wrote it, and its file and position."""

    sql: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A statement that a shard ran, and its file and position in the node's binlog."""

    shard: Shard
    key: OrderKey
    sql: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Lock:
    """A coordination under way. `sql` is the statement for the logical table; `done` are the shards that have it.

    `ran` has what they ran; a shard of `done` without an entry counts as having run it, or was made with it. `stage` is
    that of `values.Open`.
    """

    id: str
    mode: Mode
    stage: str
    sql: str
    done: tuple[Shard, ...]
    awaited: tuple[Shard, ...]
    ran: tuple[Ran, ...]


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
    """How things stood where a merge ended: everything below `known` was taken in.

    `stop` is the key of the shard's statement at which coordination stopped, if it did.
    """

    known: OrderKey
    locks: tuple[Lock, ...] = ()
    held: tuple[HeldRows, ...] = ()
    stop: OrderKey | None = None


def lock_of(waiting: Open, mode: Mode, source: Callable[[str, OrderKey], Source]) -> Lock:
    """Return a coordination as operators see it; `source` finds the statement of a node at a key."""
    ran = tuple(Ran(ddl.shard, ddl.key, *source(ddl.shard.node, ddl.key)) for ddl in waiting.ran)
    return Lock(waiting.id, mode, waiting.stage, waiting.ddl.sql, waiting.done, waiting.awaited, ran)


def table_of(id: str) -> str:
    """Return the logical table of a coordination, as schema.table."""
    return id.rpartition("@")[0]


def decisions_about(table: tuple[str, str], decisions: Iterable[Decided]) -> tuple[Decided, ...]:
    """Return what was decided about one logical table, in the order of the events that it makes."""
    found = [decided for decided in decisions if table_of(decided.id) == ".".join(table)]
    return tuple(sorted(found, key=lambda decided: decided.key))


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
                        "ran": tuple(Ran(**_placed(ran, "key")) for ran in lock["ran"]),
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
