"""Builds the result of a merge from the results of its stages."""

from collections.abc import Iterator, Sequence
from typing import Any

from binlog_merge.pipeline.assemble.holding import why
from binlog_merge.pipeline.base.bound import GREATEST_KEY
from binlog_merge.pipeline.coordinate.row_counts import rows_hidden
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows, lock_values
from binlog_merge.pipeline.gather.collisions import looked_at
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.publish import totals_of
from binlog_merge.pipeline.result import MergeResult, NodeResult
from binlog_merge.pipeline.values import Run, WrittenRun
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


def _hidden_tables(run: Run, limit: OrderKey) -> Iterator[dict[str, Any]]:
    """Yield the tables of tools that change schemas online, with the rows that this run has left out because of it."""
    found = [
        one
        for one in run.coordination.shards.log.tools.tables
        if one.since < limit and (one.until is None or one.until >= run.floor)
    ]
    times = [Hidden(one.node, *one.name, one.since, one.until) for one in found]
    rows = rows_hidden(run.job.engine, run.scanned, times, run.floor, limit, run.coordination.topology)
    for one, time in zip(found, times, strict=True):
        yield {
            "node": one.node,
            "schema": one.name[0],
            "table": one.name[1],
            "tool": one.tool or None,
            "of": None if one.of is None else one.of[1],
            "since": one.since.text(),
            "until": _text(one.until if one.until is not None and one.until < limit else None),
            "rows": rows[time],
        }


def _held(held: HeldRows) -> dict[str, Any]:
    values = {"transactions": held.transactions, "bytes": held.bytes, "since": held.since.text()}
    return {**held.shard._asdict(), **values}


def _dependencies(kept: Sequence[GatherResult]) -> dict[str, Any]:
    found = [g.dependencies for g in kept if g.dependencies is not None]
    if not found:
        return {}
    from binlog_merge.reshape.writesets import added

    return added(found).to_dict()


def _text(key: OrderKey | None) -> str | None:
    return None if key is None else key.text()
