"""Checks an operator's decision about a waiting DDL, and gives it a key in the merged order."""

from collections.abc import Sequence

from binlog_merge.pipeline.coordinate.shards.clauses import applied, routed
from binlog_merge.pipeline.coordinate.shards.notes import Lock, Locks, table_of
from binlog_merge.pipeline.coordinate.shards.values import WRITTEN, Decided, Shard
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.ddl.statements import AlterTable
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

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
