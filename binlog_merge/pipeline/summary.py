"""Builds the result of a merge from the results of its stages, and the state note of its last run.

The state note of a merge's last run, for `status`: what the manifest does not say.

Per node its watermark and open branches; what is held, the last DDL, warnings, the error that stopped the run, and the
output's growth over the last minutes. A note that cannot be written is logged, and stops no merge.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import IoError, ManifestError, MergeError
from binlog_merge.files.manifest import Gone
from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER, read_state_note, samples_of, write_state_note
from binlog_merge.pipeline.assemble.nodes import why
from binlog_merge.pipeline.base.state import GREATEST_KEY
from binlog_merge.pipeline.coordinate.read_again import tables_of
from binlog_merge.pipeline.coordinate.row_counts import rows_hidden
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows, lock_values
from binlog_merge.pipeline.gather.collisions import Collided, collision_warnings, looked_at
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.publish import totals_of
from binlog_merge.pipeline.values import MergeResult, NodeResult, Run, WrittenRun
from binlog_merge.redaction import redacted
from snapshot_store.topology import Hidden
from snapshot_store.tso import ORIGIN, OrderKey


def result_of(run: Run, written: WrittenRun) -> MergeResult:
    """Return the result of a run."""
    job, inputs, scanned, coordination = run.job, run.inputs, run.scanned, run.coordination
    ordered, kept, limit, watermarks = written.ordered, written.kept, written.bound.key, run.watermarks
    bounds = {n: w or ORIGIN for n, w in watermarks.items() if n not in run.gone}
    least = min(bounds.values(), default=ORIGIN)
    holders = sorted(n for n, w in bounds.items() if w == least)
    totals = totals_of(kept)
    held = sum(r.held for r in ordered.parts)
    transactions = sum(g.transactions for g in kept)
    # Below the watermarks of all nodes it is a marker or a statement that holds back, or --stop-tso.
    holding = holders if held and not job.end_of_input and limit[:3] >= least[:3] else []
    nodes = {
        n.source_id: NodeResult(
            watermark=_text(watermarks[n.source_id]),
            holds_back=n.source_id in holding,
            why=why(n, watermarks[n.source_id]) if n.source_id in holding else None,
            files=len(n.input.files),
            read_to=f"{n.input.files[n.end[0]].name}:{n.end[1]}",
            open_branches=len(n.carry.open),
        )
        for n in scanned
    }
    in_doubt = tuple(
        {
            "node": n.source_id,
            "file": n.input.files[p.file_index].name if p.file_index >= 0 else "",
            "position": p.start,
            "transaction_id": str(p.transaction),
        }
        for n in scanned
        for p in n.carry.open.values()
    )
    return MergeResult(
        files=tuple(
            {"name": g.name, "size": g.size, "closed": g.closed, "path": str(job.directory / g.name)} for g in kept
        ),
        watermark=None if limit == GREATEST_KEY else limit.text(),
        end_of_input=limit == GREATEST_KEY,
        first_key=_text(next((g.first_key for g in kept if g.first_key is not None), None)),
        last_key=_text(written.last_key),
        transactions=transactions,
        branches=totals["branches"],
        events=totals["events"],
        row_events=sum(g.row_events for g in kept),
        rows_reshaped=totals["rows_reshaped"],
        ddl=totals["ddl"],
        input_bytes=totals["input_bytes"],
        output_bytes=sum(g.size for g in kept),
        held=held,
        held_bytes=sum(r.held_bytes for r in ordered.parts),
        held_back_by=holding[0] if holding else None,
        in_doubt=in_doubt,
        nodes=nodes,
        carrier=inputs.header.carrier,
        hidden=tuple(_hidden_tables(run, limit)),
        ignored={
            "events": sum(p.ignored for n in scanned for p in n.pieces),
            "branches": sum(r.empty for r in ordered.parts),
            "transactions": (left_out := sum(r.left_out for r in ordered.parts)),
            "transactions_of": sorted(_left_out(run)) if left_out else [],
            "ddl": coordination.ignored.count,
            "markers": coordination.swallowed,
            "statements": coordination.ignored.to_list(),
        },
        warnings=tuple(map(redacted, job.warnings)),
        locks=tuple(lock_values(lock) for lock in coordination.locks),
        waiting=ordered.waiting_branches,
        waiting_shards=tuple(_held(held) for held in ordered.waiting),
        left_out=tuple({"node": f.node, "file": redacted(f.path), "reason": f.reason} for f in inputs.left_out),
        read_again=inputs.read_again,
        keys=looked_at(g.keys for g in kept),
        dependencies=_dependencies(kept),
        stages=dict(job.seconds),
    )


def _left_out(run: Run) -> set[str]:
    """Return the logical tables of which transactions are left out by `ignore-transactions`."""
    topology, found = run.coordination.topology, set[str]()
    for node in run.scanned:
        for tables in (tables for tables in tables_of(node) if topology.ignores_transaction(tables)):
            names = (topology.logical_name(node.source_id, *table) for table in tables)
            found |= {".".join(name) for name in names if name is not None}
    return found


def _hidden_tables(run: Run, limit: OrderKey) -> Iterator[dict[str, Any]]:
    """Yield the tables of tools that change schemas online, with the rows that this run has left out because of it."""
    found = [
        one
        for one in run.coordination.shards.log.tools.tables
        if one.since < limit and (one.until is None or one.until >= run.floor)
    ]
    times = [Hidden(one.node, *one.name, one.since, one.until) for one in found]
    rows = rows_hidden(run.job.engine, run.scanned, times, run.floor, limit, run.coordination.topology)
    for one, hidden in zip(found, times, strict=True):
        yield {
            "node": one.node,
            "schema": one.name[0],
            "table": one.name[1],
            "tool": one.tool or None,
            "of": None if one.of is None else one.of[1],
            "since": one.since.text(),
            "until": _text(one.until if one.until is not None and one.until < limit else None),
            "rows": rows[hidden],
        }


def _held(held: HeldRows) -> dict[str, Any]:
    values = {"transactions": held.transactions, "bytes": held.bytes, "since": held.since.text()}
    return {**held.shard._asdict(), **values}


def _dependencies(kept: Sequence[GatherResult]) -> dict[str, Any]:
    dependencies = [g.dependencies for g in kept if g.dependencies is not None]
    if not dependencies:
        return {}
    from binlog_merge.reshape.writesets import added

    return added(dependencies).to_dict()


def _text(key: OrderKey | None) -> str | None:
    return None if key is None else key.text()


_LOG = logging.getLogger(__name__)
_MOST_LISTED: Final = 20
_MOST_SHARDS: Final = 100
_LONGEST_TEXT: Final = 2000
_SAMPLE_SECONDS: Final = 2.0
_SAMPLES_SECONDS: Final = 180.0


def note_run(run: Run, written: WrittenRun, result: MergeResult, collided: Sequence[Collided]) -> None:
    """Write the note of a run that is published, in which these keys were found to collide."""
    directory = run.job.directory
    earlier = _earlier(directory)
    values = result.to_dict()
    kept = ("held", "held_bytes", "held_back_by", "waiting", "end_of_input", "carrier", "stages")
    state = run.inputs.manifest.state
    _write(
        directory,
        {
            **{name: values[name] for name in kept},
            "run": state.run,
            "began": time.time() - sum(result.stages.values()),
            "nodes": {node: {**found, "gone": node in run.gone} for node, found in values["nodes"].items()},
            "locks": len(result.locks),
            "waiting_ddl": [_short(lock) for lock in result.locks[:_MOST_LISTED]],
            "open_branches": [dict(found) for found in result.in_doubt[:_MOST_LISTED]],
            "warnings": [text[:_LONGEST_TEXT] for text in result.warnings[:_MOST_LISTED]],
            "warnings_count": len(result.warnings),
            "collisions": _collisions(earlier, state.gone, collided),
            "last_ddl": _last_ddl(run, written) or earlier.get("last_ddl"),
            "puts_an_hour": None if (store := run.inputs.manifest.elsewhere) is None else store.puts_an_hour,
            "samples": _samples(earlier, state.rank, dict(state.last.totals) if state.last is not None else {}),
            "error": None,
        },
    )


def _short(lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return a DDL that waits, with as much as a note may hold of it."""
    shards = {name: lock[name][:_MOST_SHARDS] for name in ("done", "awaited")}
    return {**lock, **shards, "sql": lock["sql"][:_LONGEST_TEXT]}


def note_error(directory: Path, error: MergeError) -> None:
    """Add the error that stopped a run to the note."""
    earlier = {name: value for name, value in _earlier(directory).items() if name not in ("version", "at")}
    values = error.to_dict()
    values["message"] = str(values["message"])[:_LONGEST_TEXT]
    _write(directory, {**earlier, "error": values})


def _earlier(directory: Path) -> dict[str, Any]:
    try:
        return read_state_note(directory / NOTES_FOLDER / MERGE_NOTE) or {}
    except (IoError, ManifestError):
        return {}  # it is made anew


def _write(directory: Path, values: Mapping[str, Any]) -> None:
    try:
        write_state_note(directory / NOTES_FOLDER / MERGE_NOTE, values)
    except IoError as error:
        _LOG.warning("the state note for `status` cannot be written: %s (%s)", error.message, error.file)


def _collisions(
    earlier: Mapping[str, Any], gone: Gone | None, collided: Sequence[Collided]
) -> dict[str, dict[str, str]]:
    """Return what is known of keys that collide in the log, by table: a place that is still there, and words."""
    known = dict(earlier.get("collisions") or {})
    for table, text in collision_warnings(collided).items():
        place = min(one.second.place for one in collided if str(one.key) == table)
        known.setdefault(table, {"place": place, "text": text[:_LONGEST_TEXT]})
    removed = "" if gone is None or gone.last_key is None else gone.last_key
    return {table: one for table, one in sorted(known.items())[:_MOST_LISTED] if one["place"] > removed}


def _last_ddl(run: Run, written: WrittenRun) -> dict[str, Any] | None:
    """Return the last logical DDL that this run wrote, None if it wrote none."""
    out = [ddl for ddl in run.coordination.ddl if ddl.key < written.bound.key]
    if not out or not any(g.ddl for g in written.kept):
        return None
    last = max(out, key=lambda ddl: ddl.key)
    return {"key": last.key.text(), "schema": last.schema, "sql": (last.text or last.sql)[:_LONGEST_TEXT]}


def _samples(earlier: Mapping[str, Any], rank: int, totals: Mapping[str, int]) -> list[list[float]]:
    """Return (time, transactions, input bytes) of the last minutes, at most one for every two seconds, and now."""
    now = time.time()
    recent = [sample for sample in samples_of(earlier) if sample[0] > now - _SAMPLES_SECONDS]
    if len(recent) > 1 and recent[-1][0] - recent[-2][0] < _SAMPLE_SECONDS:
        recent.pop()
    return [*recent, [now, rank, totals.get("input_bytes", 0)]]
