"""Compares the copies of the nodes in a run, and keeps for the next one what they have not yet done alike."""

import json
from functools import partial

from binlog_merge.config.merge_config import topology_of
from binlog_merge.errors import MergeError, ShardsInDoubt
from binlog_merge.pipeline.base.bound import GREATEST_KEY, Bound
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, stored_note
from binlog_merge.pipeline.copies.changes import changes_in
from binlog_merge.pipeline.copies.ledger import Ledger, Name, texts
from binlog_merge.pipeline.values import Run
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.model import Table
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

COPIES = "copies"

_REMEDY = (
    "make the copies alike; what is published is right for the node that comes out. With `shard-doubts: warn` a merge "
    "says so and goes on"
)


def compare_copies(run: Run, bound: Bound, next_floor: OrderKey) -> MergeError | None:
    """Take the run's changes of copies below a bound; return the error for those that differ when no more input comes.

    While more may come it is a warning, of what others have not done for 10 minutes of the log; with `shard-doubts:
    warn` also then. `next_floor` is where the next run continues.
    """
    config, topology = run.job.config, topology_of(run.job.config)
    if not topology.copies:
        return None
    kept = _kept(run)
    ledger = Ledger.from_json(kept) if kept is not None else Ledger()
    _take(run, topology, ledger, bound.key)
    last = run.job.end_of_input and bound.key == GREATEST_KEY
    strict = last and config.shard_doubts == "error"
    untold = ledger.to_json()
    told = texts(ledger, None if last else bound.key)
    _keep(run, next_floor, untold if strict else ledger.to_json())
    if strict and told:
        return ShardsInDoubt("; ".join(told), remedy=_REMEDY)
    run.job.warnings += told
    return None


def _take(run: Run, topology: Topology, ledger: Ledger, end: OrderKey) -> None:
    """Count the changes of this run that are not counted yet."""
    nodes = [node.source_id for node in run.scanned]
    for node in run.scanned:
        source_id, floor = node.source_id, max(run.floor, ledger.until.get(node.source_id, run.floor))
        definition = partial(_definition, run, source_id)
        for change in changes_in(node, partial(_is_copy, topology), floor, end, definition):
            source = topology.copy_from(*change.table) or source_id
            logical = topology.referenced_name(source_id, *change.table) or change.table
            step, others = (1, nodes) if source_id == source else (-1, [source_id])
            for other in others:
                if other != source:
                    ledger.take(Name(*logical, source, other), change.digest, step, change.key, change.what)
            ledger.until[source_id] = change.key._replace(node_seq=change.key.node_seq + 1)


def _is_copy(topology: Topology, table: tuple[str, str]) -> bool:
    return topology.copy_from(*table) is not None


def _definition(run: Run, node: str, name: tuple[str, str], key: OrderKey) -> Table | None:
    version = run.coordination.history.at(*name, key, node)
    return None if version is None else version.table


def _kept(run: Run) -> str | None:
    """Return what the runs before have left: also one that was killed before its end, whose entry is not the last."""
    path = run.job.directory / STORE_NAME
    if run.inputs.manifest.state.last is None or not path.exists():
        return None
    with as_merge_errors(path):
        text = run.store.cache.note(COPIES, lambda: stored_note(path, COPIES)) or "[]"
    return next((entry for since, entry in reversed(json.loads(text)) if since <= run.known.floor.text()), None)


def _keep(run: Run, end: OrderKey, text: str) -> None:
    from snapshot_store.store.db import Store

    path, floor = run.job.directory / STORE_NAME, run.known.floor.text()
    with as_merge_errors(path):
        noted = json.loads(run.store.cache.note(COPIES, lambda: stored_note(path, COPIES)) or "[]")
        if noted and noted[-1][0] <= floor and noted[-1][1] == text:
            return
        with Store.open(path) as store:
            entries = [entry for entry in noted if entry[0] <= floor < end.text()]
            store.set_note(COPIES, json.dumps([*entries[-1:], [end.text(), text]]))
