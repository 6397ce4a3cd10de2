"""`binlog-merge ddl`: shows the DDL for which shards are awaited, and records an operator's decisions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.ddl_text import decided_text, decision_values, locks_text, locks_values
from binlog_merge.cli.ddl_transaction import resolve_transaction, transactions_text
from binlog_merge.cli.options import LocalMerged, Merged, Output, local_path, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema.store import STORE_NAME, floor_of, moment_of, opened, store_name, store_path
from binlog_merge.cli.verbs import Verb
from binlog_merge.errors import ConfigError, StoreUnusable
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.pipeline.coordinate.shards.notes import Lock, Locks
    from binlog_merge.pipeline.coordinate.shards.values import Decided, Shard
    from snapshot_store.store.db import Store
    from snapshot_store.tso import OrderKey

HELP = """What shards' DDL waits for, where no marker says that all shards have it: look, and decide.

With `shard-mode: pessimistic` or `optimistic` a shard's DDL may have to wait for the other shards, and its rows wait
with it. `locks` shows what waits for whom since when; where a shard will never follow, `resolve` says what to do.

\b
  binlog-merge ddl locks --merged merged/
  binlog-merge ddl resolve shop.orders --merged merged/ --as-if-done n2/shop_2/orders_3
  binlog-merge ddl resolve shop.orders --merged merged/ --emit 'ALTER TABLE orders ADD COLUMN note TEXT'

Both work on what the last merge left in its output directory; no server is asked."""

LOCKS_HELP = """Show every coordination of shards' DDL that is under way, as the last merge left it.

For each: the statement, which shards have run it (where, when, in which words), which are awaited, and the
transactions held back because of it. Stages:

\b
  waiting    the shards awaited have to do the same
  conflict   the shards awaited have done, or may do, something that contradicts it
  queued     stands behind another statement of its shards that waits
  spreading  has taken effect; the shards awaited lag behind, and nothing is held
  behind     is written; a shard that was made later has yet to run it, and its rows wait until it has

\b
  binlog-merge ddl locks --merged merged/
  binlog-merge ddl locks --merged merged/ -o json | jq '.locks[] | {id, awaited}'"""

RESOLVE_HELP = """Decide about a DDL that waits for shards: the next merge carries it out, later ones repeat it.

\b
  --as-if-done SHARD  The shard counts as having run it; others are still awaited. For a shard that follows late, or
                      never: its rows are written as if it had, and when it runs the DDL, nothing more changes.
  --emit SQL          Write SQL in its place, and await nobody. For shards that have been changed, but not alike.
  --skip              Write nothing, and await nobody. The logical table stays as it is; rows are written in its shape.
  --withdraw          Take back what was decided and is not carried out yet.

A transaction that stops the merge may be decided about: ID is then its GTID, or NODE/FILE:POSITION, as the error says.

\b
  --skip              Leave out all of it, on this node. What it changed has to be brought to the target by hand.
  --as ROWS.JSON      It wrote these rows, on this node. A JSON object a line, or an array of them:
                      {"table": "app.t", "op": "update", "before": {"id": 7, "v": 1}, "after": {"id": 7, "v": 2}}
                      An insert has no before, a delete no after; an image has every column of the node's table there.
                      They come out in its place, under its GTID, as if the node had logged them.

The result names it, and so does `ddl locks`.

A TRUNCATE or DROP TABLE that waits is written when all shards awaited count as having run it; what such a shard writes
until it does run it is held, and goes with it. Of TRUNCATE and DROP PARTITION nothing is held: rows that it writes to
the partitions until then stay, which is a doubt when it runs it. With --skip the logical table keeps the rows of all
shards, those that have run it included. A shard that runs a skipped TRUNCATE later waits anew: --skip that, too.

ID is what `ddl locks` shows, or the table's name where only one of its statements can be decided about. The decision
takes effect in the order of the log, after what the shards have run so far and where the next merge goes on (or later,
at --at-tso; never below what is published), so merging everything anew with the same store gives the same log.

\b
  binlog-merge ddl resolve shop.orders --merged merged/ --skip
  binlog-merge ddl resolve shop.orders@7507…0002 --merged merged/ --as-if-done n2/shop_2/orders_3
  binlog-merge ddl resolve 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 --merged merged/ --skip
  binlog-merge ddl resolve n2/binlog.000007:81220 --merged merged/ --skip
  binlog-merge ddl resolve n2/binlog.000007:81220 --merged merged/ --as rows.json"""

HERE = "."


def locks(merged: Merged = HERE, output: Output = OutputFormat.text) -> None:
    """Show what is under way."""
    from binlog_merge.pipeline.coordinate.shards.notes import transactions_in

    out = merged or HERE
    with opened(out) as store:
        transactions = transactions_in(store.note)
        found, decisions = _read(store, empty=bool(transactions))
    if output is not OutputFormat.text:
        decided = {"transactions": [{"id": id, "action": do, "rows": list(rows)} for id, do, rows in transactions]}
        print_document({"store": store_name(out), **locks_values(found, decisions), **decided}, output, "locks")
    else:
        print(printable("\n".join([locks_text(found, decisions, redacted(out)), *transactions_text(transactions)])))


def resolve(
    id: Annotated[
        str, typer.Argument(help="The id that `ddl locks` shows, schema.table, or a transaction.", metavar="ID")
    ],
    emit: Annotated[str | None, option("--emit", "Write this statement in its place.", "SQL")] = None,
    skip: Annotated[bool, option("--skip", "Write nothing in its place.")] = False,
    as_if_done: Annotated[
        str | None,
        option("--as-if-done", "This shard counts as having run it.", "NODE/SCHEMA/TABLE"),
    ] = None,
    rows: Annotated[
        Path | None,
        option("--as", "It wrote the rows in this JSON file.", "ROWS.JSON", local_path),
    ] = None,
    withdraw: Annotated[bool, option("--withdraw", "Take back what is not carried out yet.")] = False,
    at_tso: Annotated[
        str | None,
        option("--at-tso", "Not before this commit TSO or order key."),
    ] = None,
    merged: LocalMerged = Path(HERE),
    output: Output = OutputFormat.text,
) -> None:
    """Record a decision."""
    from binlog_merge.files.lock import OutputLock
    from binlog_merge.pipeline.base.decided import is_transaction
    from binlog_merge.pipeline.coordinate.shards.notes import DECISIONS, decisions_to_json, note_decisions

    out = merged or Path(HERE)
    if [emit is not None, skip, as_if_done is not None, rows is not None, withdraw].count(True) != 1:
        raise ConfigError("give one of --emit SQL, --skip, --as-if-done SHARD, --as ROWS and --withdraw")
    if is_transaction(id):
        if not store_path(out).parent.is_dir():
            raise _nothing(store_path(out))
        resolve_transaction(id, out, skip, rows, withdraw, output)
        return
    if rows is not None:
        raise ConfigError(f"{id} is no transaction: --as says what rows one wrote, given by GTID or NODE/FILE:POSITION")
    if not store_path(out).exists():
        raise _nothing(store_path(out))
    # A merge that is under way has read the decisions already.
    with OutputLock(store_path(out).parent), opened(out, read_only=False) as store:
        found, decisions = _read(store)
        floor = floor_of(store.path)
        if withdraw:
            left, made = _withdrawn(id, found, decisions, floor, store.path)
        else:
            made = [_decided(store, id, found, decisions, emit, as_if_done, _from(at_tso, floor, store.path))]
            left = (*decisions, *made)
        store.set_note(DECISIONS, decisions_to_json(left))
        note_decisions(store_path(out).parent, store.note)
    if output is not OutputFormat.text:
        key = "withdrawn" if withdraw else "decided"
        print_document({"store": str(store_path(out)), key: [decision_values(d) for d in made]}, output, key)
    else:
        print(printable("\n".join(("withdrawn: " if withdraw else "") + decided_text(d) for d in made)))


def _read(store: "Store", empty: bool = False) -> "tuple[Locks, tuple[Decided, ...]]":
    """Return what is under way, and what is decided about it. `empty`: nothing is, if no merge has coordinated."""
    from binlog_merge.pipeline.coordinate.shards.notes import (
        DECISIONS,
        LOCKS,
        Locks,
        decisions_from_json,
        locks_from_json,
    )

    text = store.note(LOCKS)
    if text is None and empty:
        return Locks(store.last_key()), ()
    if text is None:
        raise _nothing(store.path)
    found = locks_from_json(text)
    if found.stop is None:  # later rounds that found the same have published, and have not written the note again
        found = replace(found, known=max(found.known, floor_of(store.path)))
    return found, decisions_from_json(store.note(DECISIONS) or "[]")


def _nothing(path: Path) -> StoreUnusable:
    return StoreUnusable(
        "no merge has coordinated shards here",
        file=str(path),
        remedy=f"give --merged, the directory of a merge with `shard-mode`; it has {STORE_NAME}",
    )


def _from(at_tso: str | None, floor: "OrderKey", path: Path) -> "OrderKey":
    """Return the key from which a decision applies. Raises SchemaConflict for a key below what is published."""
    from binlog_merge.pipeline.coordinate.stores import below_published

    if at_tso is None:
        return floor
    key = moment_of("--at-tso", at_tso).first
    if key < floor.previous():
        raise below_published(key, floor, path)
    return key


def _decided(
    store: "Store",
    id: str,
    found: "Locks",
    decisions: "Sequence[Decided]",
    emit: str | None,
    as_if_done: str | None,
    floor: "OrderKey",
) -> "Decided":
    from binlog_merge.pipeline.coordinate.shards.notes import Refused, checked, lock_named, place_for, statement_for
    from binlog_merge.pipeline.coordinate.shards.values import Decided

    try:
        lock = lock_named(found, decisions, id)
        key = place_for(lock, decisions, floor, found.stop)
        if as_if_done is not None:
            shard = _shard(as_if_done, lock)
            checked(lock, found, decisions, "as-if-done", shard)
            return Decided(key, lock.id, "as-if-done", "", shard)
        checked(lock, found, decisions, "skip" if emit is None else "emit", None)
        if emit is None:
            return Decided(key, lock.id, "skip")
        return Decided(key, lock.id, "emit", statement_for(lock, emit, _logical(store, lock)))
    except Refused as refused:
        raise ConfigError(refused.message, remedy=refused.remedy) from None


def _shard(text: str, lock: "Lock") -> "Shard":
    """Return the shard with this name, as `locks` prints it; names may hold any characters."""
    from binlog_merge.pipeline.coordinate.shards.values import Shard

    known = {str(shard): shard for shard in (*lock.awaited, *lock.done)}
    parts = text.split("/")
    if text not in known and len(parts) != 3:
        raise ConfigError(
            f"--as-if-done: {text!r} is no shard", remedy="write it as `ddl locks` does: NODE/SCHEMA/TABLE"
        )
    return known.get(text) or Shard(parts[0], parts[1], parts[2])


def _logical(store: "Store", lock: "Lock") -> Any:
    """Return the current logical table of a lock, None if there is none."""
    from binlog_merge.pipeline.coordinate.shards.notes import table_of
    from snapshot_store.names import LAST

    parts = table_of(lock.id).split(".")  # a name may have dots of its own
    names = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
    versions = store.lookup([(*name, LAST, None) for name in names])
    return next((version.table for version in versions if version is not None), None)


def _withdrawn(
    id: str, found: "Locks", decisions: "Sequence[Decided]", floor: "OrderKey", path: Path
) -> "tuple[tuple[Decided, ...], list[Decided]]":
    """Return the remaining decisions, and the withdrawn ones."""
    from binlog_merge.pipeline.coordinate.shards.notes import Refused, lock_named
    from binlog_merge.pipeline.coordinate.stores import below_published

    try:
        name = id if any(d.id == id for d in decisions) else lock_named(found, decisions, id).id
    except Refused as refused:
        raise ConfigError(refused.message, remedy=refused.remedy) from None
    mine = [decided for decided in decisions if decided.id == name]
    pending = [decided for decided in mine if decided.key >= floor]
    if not mine:
        raise ConfigError(f"nothing is decided about {name}", remedy="`ddl locks` shows what is")
    if not pending:
        raise below_published(mine[-1].key, floor, path)
    return tuple(decided for decided in decisions if decided not in pending), pending


app = typer.Typer(
    name="ddl",
    help=HELP,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("locks", cls=Verb, help=LOCKS_HELP)(locks)
app.command("resolve", cls=Verb, help=RESOLVE_HELP)(resolve)


@app.callback(invoke_without_command=True)
def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
