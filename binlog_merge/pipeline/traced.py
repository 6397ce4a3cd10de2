"""Spans of rounds, where they are asked for: see `binlog_merge.tracing`."""

from collections.abc import Callable

from binlog_merge.errors import MergeError
from binlog_merge.pipeline.base.state import Job
from binlog_merge.pipeline.values import MergeResult, RoundState
from binlog_merge.tracing import Span, Step, Tracer, captured_to, now, published_by

Merged = tuple[MergeResult, RoundState]


def traced(tracer: Tracer, job: Job, earlier: RoundState, merge: Callable[[Job, RoundState], Merged]) -> Merged:
    """Merge, and record a span of it with its stages. Raises what `merge` raises."""
    begun, run = now(), None if earlier.manifest is None else earlier.manifest.state.run
    try:
        result, state = merge(job, earlier)
    except MergeError as error:
        published = {} if error.result is None else _counts(error.result)
        tracer.record(
            Span("merge.round", begun, now(), {**published, "error.type": error.code}, None, (), tuple(job.steps),
                 error.message)
        )  # fmt: skip
        raise
    tracer.record(_round(begun, run, job.steps, result, state))
    return result, state


def _round(begun: int, run_before: int | None, steps: list[Step], result: MergeResult, state: RoundState) -> Span:
    assert state.manifest is not None
    published, attributes = state.manifest.state, dict(_counts(result))
    about = None
    if published.header is not None and (published.run != run_before if run_before is not None else result.files):
        about = published_by(published.header.cluster_uuid, published.run)
        attributes |= {"binlog_merge.cluster": published.header.cluster_uuid, "binlog_merge.run": published.run}
        attributes["binlog_merge.rank"] = published.rank
    links = []
    for node, found in result.nodes.items():
        file, _, position = found.read_to.rpartition(":")
        links.append(captured_to(node, file, int(position)))
    return Span("merge.round", begun, now(), attributes, about, tuple(links), tuple(steps))


def _counts(result: MergeResult) -> dict[str, str | int]:
    held = {} if result.held_back_by is None else {"binlog_merge.held_back_by": result.held_back_by}
    return {
        "binlog_merge.transactions": result.transactions,
        "binlog_merge.input_bytes": result.input_bytes,
        "binlog_merge.held": result.held,
        **held,
    }
