"""The notes that merges and operators exchange through the schema store: waiting DDL, and decisions about DDL and about
transactions, which are checked and get a key in the merged order.

Both are named texts (`Store.note`). LOCKS is written by every merge that coordinates shards, with the state at its end.
DECISIONS is written by `ddl resolve`, and every later merge applies its decisions as events. So the output still
depends only on the logs and these two.

`status` reads no store, so decisions are written beside it as a state note.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from binlog_merge.errors import IoError, ManifestError
from binlog_merge.files.state_notes import DECISIONS_NOTE, NOTES_FOLDER, read_state_note, write_state_note
from binlog_merge.pipeline.base.decided import read_decided, read_skipped
from binlog_merge.pipeline.coordinate.shards.clauses import applied, routed
from binlog_merge.pipeline.coordinate.shards.values import WRITTEN, Decided, Open, Shard
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.ddl.statements import AlterTable
from snapshot_store.errors import SnapshotStoreError, StoreError
from snapshot_store.model import Table
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


WAITING = ("waiting", "conflict", "behind")
"""The stages in which a decision is possible."""

ENDS = ("emit", "skip")
"""The actions after which no shard is awaited any more."""


_NO_OTHER = {
    "RENAME": (
        "the shards awaited have to be renamed, and no other statement comes to that",
        "--as-if-done for each shard awaited renames the table, --skip leaves it its name",
    ),
    "TRUNCATE": (
        "the shards awaited have to be emptied, and no other statement comes to that",
        "--as-if-done for each shard awaited empties the table, --skip keeps all its rows",
    ),
    "DROP": (
        "the shards awaited have to be dropped, and no other statement comes to that",
        "--as-if-done for each shard awaited drops the table, --skip keeps it and all its rows",
    ),
}


class Refused(Exception):  # noqa: N818 (it is what becomes of a question)
    """A decision that is not possible; `remedy` says which is."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def lock_named(locks: Locks, decisions: Sequence[Decided], name: str) -> Lock:
    """Return the open coordination with an id, or the only one of a table that can be decided. Raises Refused."""
    by_id = [lock for lock in locks.locks if lock.id == name]
    by_table = [lock for lock in locks.locks if table_of(lock.id) == name]
    found = [lock for lock in by_id or by_table if lock.stage in WAITING] or by_id or by_table
    if len({lock.id for lock in found}) == 1:
        return found[0]
    if found:
        raise Refused(
            f"{name} has {len(found)} statements that wait",
            f"give the id of one: {', '.join(lock.id for lock in found)}",
        )
    if any(decided.id == name for decided in decisions):
        raise Refused(f"{name} is resolved: nothing waits for it any more", "`ddl locks` shows what is open")
    ids = [lock.id for lock in locks.locks if lock.stage in WAITING]
    remedy = f"open are: {', '.join(ids)}" if ids else "nothing is open as far as has been merged"
    raise Refused(f"{name} is no coordination that is open", remedy)


def checked(lock: Lock, locks: Locks, decisions: Sequence[Decided], action: str, shard: Shard | None) -> None:
    """Raise Refused if it is too late or too early for a decision."""
    if lock.stage == "spreading":
        raise Refused(f"{lock.sql!r} has taken effect already: nothing is held for it", "there is nothing to resolve")
    if lock.stage == "queued":
        before = next((other for other in locks.locks if other.stage in WAITING and _is_before(other, lock)), None)
        first = "what it waits for" if before is None else before.id
        raise Refused(f"{lock.id} waits behind another statement", f"resolve {first} first, and merge")
    if lock.stage == "behind" and action != "as-if-done":
        raise Refused(
            f"{lock.sql!r} is written already: the shards awaited have yet to run it",
            "run it on them, or let each count as having run it: --as-if-done SHARD",
        )
    mine = [decided for decided in decisions if decided.id == lock.id]
    ended = next((decided for decided in mine if decided.action in ENDS), None)
    if ended is not None:
        raise Refused(
            f"{lock.id} is resolved already, by {ended.action} from order key {ended.key.text()} on",
            "merge: the decision is carried out when that key is reached; or take it back with --withdraw",
        )
    if action == "emit" and (kind := alone_of_its_kind(lock.sql)) is not None:
        raise Refused(*_NO_OTHER[kind])
    if action != "as-if-done":
        return
    if any(decided.shard == shard for decided in mine):
        raise Refused(f"{shard} counts as having run {lock.id} already", "merge, or take it back with --withdraw")
    if shard not in lock.awaited:
        raise Refused(
            f"{shard} is not awaited for {lock.id}", f"awaited: {', '.join(map(str, lock.awaited)) or 'none'}"
        )


def alone_of_its_kind(sql: str) -> str | None:
    """Return the first word of a waiting statement instead of which no other can be written, None for all others."""
    return next((kind for kind in _NO_OTHER if sql.startswith(f"{kind} TABLE ")), None)


def _is_before(first: Lock, second: Lock) -> bool:
    return table_of(first.id) == table_of(second.id) and bool(set(first.done) & set(second.done))


def statement_for(lock: Lock, sql: str, table: Table | None) -> str:
    """Return a statement to write instead of a lock's, with the logical table's qualified name. Raises Refused.

    `table` is the logical table as it is now.
    """
    remedy = f"give one ALTER TABLE (or CREATE or DROP INDEX) of {table_of(lock.id)} as it stands"
    if table is None:
        raise Refused(f"{table_of(lock.id)} is not there", "there is nothing that a statement could change")
    try:
        statement = parse_statement(sql, WRITTEN)
        named = statement.table if isinstance(statement, AlterTable) else None
        if named is None or (named[0] or table.schema, named[1]) != (table.schema, table.name):
            raise Refused(f"{sql!r} is no statement on {table_of(lock.id)}", remedy)
        text = routed(sql, table.schema, table.name, WRITTEN)
        applied(table, text, WRITTEN)
    except SnapshotStoreError as error:
        raise Refused(f"{sql!r} cannot be run on {table_of(lock.id)}: {error}", remedy) from None
    return text


def place_for(lock: Lock, decisions: Sequence[Decided], least: OrderKey, stop: OrderKey | None) -> OrderKey:
    """Return the key of a decision: at or above `least`, after all that the shards have run, and different from any
    row's.

    It is `least` itself if coordination stopped there, so that the decision precedes the statement at that key.
    Otherwise it also differs from other decisions' keys. No row has it: transactions without a commit TSO have a node
    number in their keys, and all others have no `seq`.
    """
    if least == stop:
        return least
    last = max([least, *(ran.key for ran in lock.ran)])
    key = OrderKey(last.commit_tso, last.transaction_id, last.seq + 1, 0)
    taken = [d.key.seq for d in decisions if d.key[:2] == key[:2]]
    return key._replace(seq=max([key.seq, *(seq + 1 for seq in taken)]))


_LOG = logging.getLogger(__name__)
_LONGEST_TEXT: Final = 2000
_MOST_LISTED: Final = 100

Note = Callable[[str], str | None]
"""Reads a note of the schema store."""


class DecidedTransaction(NamedTuple):
    """A transaction as it was named, `skip` or `as`, and the rows that were given for it."""

    id: str
    action: str
    rows: tuple[str, ...] = ()


def transactions_in(note: Note) -> list[DecidedTransaction]:
    """Return what is decided about transactions."""
    transactions = [DecidedTransaction(id, "skip") for id in read_skipped(note).ids]
    decided = (DecidedTransaction(d.id, "as" if d.given else "skip", d.rows) for d in read_decided(note))
    return sorted([*transactions, *decided])


def note_decisions(directory: Path, note: Note) -> None:
    """Write what is decided as a state note, if that says something else."""
    shards = [
        {"id": d.id, "action": d.action, "of": d.sql[:_LONGEST_TEXT] or ("" if d.shard is None else str(d.shard))}
        for d in decisions_from_json(note(DECISIONS) or "[]")
    ]
    transactions = [
        {"id": d.id, "action": d.action, "of": "; ".join(d.rows)[:_LONGEST_TEXT]} for d in transactions_in(note)
    ]
    _write(directory / NOTES_FOLDER / DECISIONS_NOTE, [*shards, *transactions])


def _write(path: Path, decisions: Sequence[dict[str, str]]) -> None:
    values = {"decisions": decisions[-_MOST_LISTED:], "count": len(decisions)}
    try:
        earlier = read_state_note(path) or {"decisions": [], "count": 0}
        if {name: earlier.get(name) for name in values} == values:
            return
    except (IoError, ManifestError):
        pass  # it is made anew
    try:
        write_state_note(path, values)
    except IoError as error:
        _LOG.warning("the state note for `status` cannot be written: %s (%s)", error.message, error.file)
