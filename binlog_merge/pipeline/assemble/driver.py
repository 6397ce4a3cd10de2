"""Scan and assemble: one task for a file or a part of it, then the pieces of each node joined."""

from binlog_merge.pipeline.assemble.gaps import note_gtids
from binlog_merge.pipeline.assemble.node import assemble_node, misread
from binlog_merge.pipeline.assemble.nodes import ScannedNode, half_committed
from binlog_merge.pipeline.assemble.shared_rows import logged_elsewhere, with_rows
from binlog_merge.pipeline.assemble.whole_logs import check_logs
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.scan.carriers import POLARDBX
from binlog_merge.pipeline.scan.inputs import scan_tasks
from binlog_merge.pipeline.scan.task import scan
from binlog_merge.pipeline.scan.values import ScanResult


def scan_nodes(job: Job, inputs: Inputs) -> list[ScannedNode]:
    """Scan the nodes' files and return the nodes as they are listed; what is odd about them the job warns of."""
    tasks = scan_tasks(inputs.nodes, job.config, inputs.carrier, str(job.work), job.partitions, frozenset())
    with job.stage("scan", len(tasks)):
        results: list[ScanResult] = job.runner.run("scan", scan, tasks)
        wrong = misread(results, {(t.node, t.file_index): t.size for t in tasks})
        if wrong:
            # A row image that holds a binlog of its own, at just its own place: scan such a file in one piece.
            paths = frozenset(t.file.path for t in tasks if (t.node, t.file_index) in wrong)
            tasks = scan_tasks(inputs.nodes, job.config, inputs.carrier, str(job.work), job.partitions, paths)
            results = job.runner.run("scan", scan, tasks)
    with job.stage("assemble"):
        by_node = check_logs(job, inputs, tasks, results)
        scanned = []
        carried = [node.carry.commit_rows for node in inputs.nodes]
        all_pieces = [(result, task.block) for pairs in by_node.values() for task, result in pairs]
        told = logged_elsewhere(all_pieces, carried, inputs.carrier == POLARDBX)
        for node in inputs.nodes:
            pairs = by_node[node.source_id]
            results, blocks = [with_rows(result, told) for _, result in pairs], [task.block for task, _ in pairs]
            scanned.append(assemble_node(node, results, blocks, job.end_of_input))
    for one in scanned:
        job.warnings += [*one.warnings, *note_gtids(one, job.end_of_input)]
    if job.end_of_input and all(one.error is None for one in scanned):
        job.warnings += half_committed(scanned)
    return scanned
