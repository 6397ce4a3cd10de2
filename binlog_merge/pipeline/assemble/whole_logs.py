"""Checks that the nodes' logs are complete: no transaction is in them twice and none is missing.

The check uses GTIDs and sequence numbers. A node with a fault is read up to the group before it: that piece is scanned
again with an earlier stop. With `log-doubts: warn` it is read on, and every fault is a warning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from binlog_merge.pipeline.assemble.log_faults import Fault, log_faults
from binlog_merge.pipeline.assemble.shared_gtids import shared_faults
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.scan.carriers import POLARDBX
from binlog_merge.pipeline.scan.task import scan
from binlog_merge.pipeline.scan.values import Piece, ScanResult


def check_logs(job: Job, inputs: Inputs, scanned: Mapping[str, Sequence[Piece]]) -> dict[str, list[Piece]]:
    """Return each node's pieces up to the first fault of its log."""
    pieces = {node.source_id: list(scanned[node.source_id]) for node in inputs.nodes}
    polardbx = inputs.carrier == POLARDBX
    for node in inputs.nodes:
        found = pieces[node.source_id]
        for fault in log_faults(node, _results(found), polardbx):
            if fault.certain and job.config.log_doubts == "error":
                pieces[node.source_id] = _cut(job, node, found, fault)
                break
            job.warnings.append(_warning(node, found, fault))
    shared = shared_faults(inputs.nodes, {name: _results(pairs) for name, pairs in pieces.items()})
    for node in inputs.nodes:
        repeats = shared.get(node.source_id)
        if repeats is not None and job.config.log_doubts == "error":
            pieces[node.source_id] = _cut(job, node, pieces[node.source_id], repeats)
        elif repeats is not None:
            job.warnings.append(_warning(node, pieces[node.source_id], repeats))
    return pieces


def _results(pieces: Sequence[Piece]) -> list[ScanResult]:
    return [result for _, result in pieces]


def _cut(job: Job, node: NodeInput, pieces: Sequence[Piece], fault: Fault) -> list[Piece]:
    """Return a node's pieces up to the fault, which becomes the error of the last one."""
    task = replace(pieces[fault.piece][0], stop=fault.position)
    again: list[ScanResult] = job.runner(task.length).run("scan", scan, [task])
    error = fault.error.located(node=node.source_id, file=task.file.path, position=fault.position)
    return [*pieces[: fault.piece], Piece(task, replace(again[0], error=error.to_dict()))]


def _warning(node: NodeInput, pieces: Sequence[Piece], fault: Fault) -> str:
    return f"log-doubts: {node.source_id}, {pieces[fault.piece][0].file.path}:{fault.position}: {fault.error.message}"
