"""`ddl resolve` of a transaction: it is left out, or others are read in place of its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema.store import opened, store_path
from binlog_merge.errors import ConfigError, IoError, MergeError, SchemaConflict

if TYPE_CHECKING:
    from binlog_merge.files.manifest import ManifestState, NodeState
    from binlog_merge.pipeline.base.decided import Decided
    from binlog_merge.pipeline.base.group_at import Event, Group
    from binlog_merge.pipeline.coordinate.shards.notes import DecidedTransaction
    from binlog_merge.reshape.given_rows import GivenRow
    from snapshot_store.model import Table
    from snapshot_store.store.db import Store

_ANEW = "merge everything anew into an empty directory, with this decision recorded there first"


@dataclass(frozen=True, slots=True)
class Stop:
    """The transaction at which the last merge stopped, as its node's file has it."""

    node: str
    group: "Group"


def resolve_transaction(
    id: str, out: Path, skip: bool, rows: Path | None, withdraw: bool, output: OutputFormat
) -> None:
    """Record what is decided about a transaction, or take that back."""
    from binlog_merge.files.lock import OutputLock
    from binlog_merge.pipeline.base.decided import gtid_of
    from binlog_merge.pipeline.coordinate.shards.notes import note_decisions

    if not (skip or withdraw or rows is not None):
        raise ConfigError(
            f"{id} is a transaction: --skip leaves it out, --as ROWS says what rows it wrote, --withdraw takes back "
            "what is decided"
        )
    id = id.lower() if gtid_of(id) is not None else id
    given = None if rows is None else _given(rows)
    directory = store_path(out).parent
    with OutputLock(directory), opened(out, read_only=False) as store:
        if withdraw:
            done = _withdraw(store, directory, id)
        elif given is None:
            done = (*_skip(store, directory, id), ())
        else:
            done = _replace(store, directory, id, given)
        note_decisions(directory, store.note)
    key = "withdrawn" if withdraw else "decided"
    if output is not OutputFormat.text:
        print_document({"store": str(store_path(out)), key: [transaction_values(*done)]}, output, key)
    else:
        print(printable(("withdrawn: " if withdraw else "") + transaction_text(*done)))


def transaction_values(id: str, action: str, rows: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return plain values of a decision about a transaction."""
    nothing = dict.fromkeys(("sql", "shard", "order_key", "commit_tso", "time"))
    return {"id": id, "action": action, **nothing, "rows": list(rows)}


def transaction_text(id: str, action: str, rows: tuple[str, ...] = ()) -> str:
    """Return a decision about a transaction as text."""
    return f"{id}\n  {action}  " + ("; ".join(rows) or "the whole transaction")


def transactions_text(decided: "Sequence[DecidedTransaction]") -> list[str]:
    """Return decisions about transactions as lines of text."""
    if not decided:
        return []
    number = len(decided)
    title = f"{number} {'transaction is' if number == 1 else 'transactions are'} decided about:"
    return [title, *(transaction_text(*each) for each in decided)]


def _done(decided: "Decided") -> "DecidedTransaction":
    from binlog_merge.pipeline.coordinate.shards.notes import DecidedTransaction

    return DecidedTransaction(decided.id, "as" if decided.given else "skip", decided.rows)


def _given(path: Path) -> "list[GivenRow]":
    from binlog_merge.errors import io_error
    from binlog_merge.reshape.given_rows import read_rows

    try:
        rows = read_rows(path.read_text("utf-8"))
    except OSError as error:
        raise io_error(error, str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the rows are not utf8: {error}", file=str(path)) from None
    except MergeError as error:
        raise error.located(file=str(path)) from None
    if not rows:
        raise ConfigError("no rows are given", file=str(path), remedy="if it wrote none, leave it out: --skip")
    return rows


def _skip(store: "Store", directory: Path, id: str) -> tuple[str, str]:
    """Leave a transaction out: wholly if no merge has read it, else its rows, as others have their places behind it."""
    from binlog_merge.pipeline.base.decided import SKIPPED, read_skipped, skipped_to_json

    _check_undecided(store, id)
    state = _state(directory)
    if not (read := _has_read(id, _nodes(state), False)):
        store.set_note(SKIPPED, skipped_to_json({*read_skipped(store.note).ids, id}))
    elif (stop := _stop(directory, id)) is not None:
        _decide(store, _decided(id, stop, state, ()), lambda: ())
    else:
        raise SchemaConflict(f"{id} comes too late: {read}", remedy=_ANEW)
    return id, "skip"


def _replace(store: "Store", directory: Path, id: str, given: "list[GivenRow]") -> tuple[str, str, tuple[str, ...]]:
    """Record the rows that are read in place of a transaction's."""
    from binlog_merge.reshape.given_rows import Logging, counted, events_of
    from snapshot_store.names import LAST

    _check_undecided(store, id)
    state = _state(directory)
    stop = _stop(directory, id)
    if stop is None:
        if read := _has_read(id, _nodes(state), False):
            raise SchemaConflict(f"{id} comes too late: {read}", remedy=_ANEW)
        raise ConfigError(
            f"the last merge did not stop at {id}",
            remedy="--as is for the transaction at which it stopped; its error names it, as does `status`",
        )

    def definition(name: tuple[str, str]) -> "Table | None":
        (version,) = store.lookup([(*name, LAST, stop.node)])
        return None if version is None else version.table

    rows = counted(given)
    logging = Logging.like(stop.group.table_map, stop.group.rows_flags, stop.group.server_version)
    _decide(store, _decided(id, stop, state, rows), lambda: tuple(events_of(given, definition, logging)))
    return id, "as", rows


def _decided(id: str, stop: Stop, state: "ManifestState", rows: tuple[str, ...]) -> "tuple[Decided, Group]":
    from binlog_merge.pipeline.base.decided import Decided

    group = stop.group
    place = group.file, group.identity, group.start, group.end
    return Decided(id, stop.node, *place, state.run, bool(rows), rows, b""), group


def _decide(store: "Store", made: "tuple[Decided, Group]", events: "Callable[[], Sequence[Event]]") -> None:
    from binlog_merge.pipeline.base.decided import DECIDED, decided_to_json, read_decided
    from binlog_merge.pipeline.base.group_at import NoTransaction, with_rows

    decided, group = made
    try:
        data = with_rows(group, events)
    except NoTransaction as error:
        raise ConfigError(
            f"{decided.id} is no transaction that could have other rows: {error}",
            remedy="a statement that defines tables is decided about as `ddl locks` says",
        ) from None
    store.set_note(DECIDED, decided_to_json([*read_decided(store.note), replace(decided, group=data)]))


def _withdraw(store: "Store", directory: Path, id: str) -> tuple[str, str, tuple[str, ...]]:
    from binlog_merge.pipeline.base.decided import (
        DECIDED,
        SKIPPED,
        decided_to_json,
        read_decided,
        read_skipped,
        skipped_to_json,
    )

    state, decided, skipped = _state(directory), read_decided(store.note), read_skipped(store.note).ids
    mine = next((each for each in decided if each.id == id), None)
    if mine is not None:
        if mine.run != state.run and _stop(directory, id) is None:
            raise SchemaConflict(f"{id} comes too late: merges have published what was decided", remedy=_ANEW)
        store.set_note(DECIDED, decided_to_json(each for each in decided if each is not mine))
        return _done(mine)
    if id not in skipped:
        raise ConfigError(
            f"nothing is decided about {id}", remedy="give it as it was given; `ddl locks` shows what is decided"
        )
    if read := _has_read(id, _nodes(state), True):
        raise SchemaConflict(f"{id} comes too late: {read}", remedy=_ANEW)
    store.set_note(SKIPPED, skipped_to_json({*skipped} - {id}))
    return id, "skip", ()


def _check_undecided(store: "Store", id: str) -> None:
    from binlog_merge.pipeline.coordinate.shards.notes import transactions_in

    known = next((decided.action for decided in transactions_in(store.note) if decided.id == id), None)
    if known is not None:
        raise ConfigError(
            f"{id} is decided already: --{known}", remedy=f"to decide anew, first `ddl resolve {id} --withdraw`"
        )


def _state(directory: Path) -> "ManifestState":
    from binlog_merge.files.manifest import Manifest

    return Manifest.load(directory).state


def _nodes(state: "ManifestState") -> "Mapping[str, NodeState]":
    return {} if state.last is None else state.last.nodes


def _stop(directory: Path, id: str) -> Stop | None:
    """Return the transaction at which the last merge stopped, None if it did not, or at another."""
    from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER, read_state_note
    from binlog_merge.pipeline.base.group_at import group_at

    error = (read_state_note(directory / NOTES_FOLDER / MERGE_NOTE) or {}).get("error") or {}
    node, file, position = (error.get(name) for name in ("node", "file", "position"))
    if node is None or file is None or position is None:
        return None
    try:
        group = group_at(str(file), int(position))
    except (IoError, BinlogFormatError) as failed:
        raise ConfigError(
            f"the file in which the last merge stopped cannot be read: {failed}", node=node, file=file
        ) from None
    return Stop(str(node), group) if group is not None and _names(id, str(node), group) else None


def _names(id: str, node: str, group: "Group") -> bool:
    """Return whether an id names the transaction that a group is, by its GTID or a position in it."""
    from binlog_merge.pipeline.base.decided import place_of

    place = place_of(id)
    if place is None:
        return id == group.gtid
    return (place.node, place.file) == (node, group.file) and group.start <= place.position < group.end


def _has_read(id: str, nodes: "Mapping[str, NodeState]", decided: bool) -> str:
    """Return why it is too late to decide about a transaction: which node's log has been read beyond it; "" if none.

    `decided`: it is decided already, and counts as read by the merges since.
    """
    from binlog_merge.pipeline.base.decided import gtid_of, place_of
    from binlog_merge.pipeline.base.logged import NodeGtids

    gtid, place = gtid_of(id), place_of(id)
    for name, node in nodes.items():
        known = NodeGtids.from_dict(node.checkpoint["gtids"]) if node.checkpoint.get("gtids") else NodeGtids()
        seen = known.seen or GtidSet()
        if gtid is not None and (known.base.union(seen) if decided else seen).intersection(gtid):
            return f"merges have read the log of {name} beyond it"
        if place is not None and place.node == name:
            at, end = (len(place.file), place.file, place.position), (len(node.scan_end_file), node.scan_end_file)
            if at < (*end, node.scan_end_position):
                return f"merges have read the log of {name} up to {node.scan_end_file}:{node.scan_end_position}"
    return ""
