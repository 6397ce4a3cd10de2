"""Finds what a merge into an empty directory would put out, up to the point at which it would write.

    discover → scan → assemble → coordinate → order

What is left is a task for each part of the order (`gather.listing`), or for each file, which whoever asks may run, or
not.

`find_branch` finds the transaction to which a place in a node's own binlog belongs. The merged log does not say where
in the nodes' files its transactions were, and the key of a transaction without a commit TSO depends on what its node
committed before. So the nodes' files are scanned as for a merge.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.files.manifest import Header
from binlog_merge.pipeline.assemble.driver import assemble
from binlog_merge.pipeline.base.runner import Files, InDriver, Progress, Runner, silent
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.coordinated import coordinate_nodes
from binlog_merge.pipeline.discover import discover
from binlog_merge.pipeline.gather.driver import gather_task, input_files, schemas_of
from binlog_merge.pipeline.gather.listing import ListTask, listed
from binlog_merge.pipeline.gather.values import GatherTask
from binlog_merge.pipeline.order.cutting import Cut, cut_files
from binlog_merge.pipeline.order.driver import Ordered, order_all
from binlog_merge.pipeline.scan.driver import scan
from binlog_merge.pipeline.summary import result_of
from binlog_merge.pipeline.values import MergeResult, RoundState, Run, WrittenRun
from snapshot_store.history import SchemaHistory
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Transactions:
    """The tasks that list a cluster's transactions, in order; what a merge would say of them, without files; and the
    error that would stop it behind them, if one would.

    `blocks` are the beginnings of the paths of the blocks that the tasks read.
    """

    tasks: tuple[ListTask, ...]
    result: MergeResult
    error: MergeError | None
    blocks: frozenset[str]


@contextmanager
def found_transactions(
    runner: Runner,
    config: MergeConfig,
    *,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    end_of_input: bool = False,
    partitions: int | None = None,
    counts: bool = True,
    progress: Progress | None = None,
) -> Iterator[Transactions]:
    """Find the transactions that `run_merge` would put out into an empty directory. Nothing is written but scratch.

    Index blocks that are files are there while the context lasts. `counts`: the tasks read the transactions' rows, too.
    Raises MergeError where nothing could be put out.
    """
    with _scratch() as directory:
        job = Job(runner, config, directory, start_tso, stop_tso, end_of_input, partitions, progress or silent)
        yield _found(job, lambda run, ordered: _listed(run, ordered, counts))


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The files that `run_merge` would write into an empty directory, as the tasks that render them, in order.

    `history` has all versions of logical tables; the rest is as in `Transactions`.
    """

    tasks: tuple[GatherTask, ...]
    header: Header
    history: SchemaHistory
    result: MergeResult
    error: MergeError | None
    blocks: frozenset[str]


@contextmanager
def found_files(runner: Runner, config: MergeConfig, *, end_of_input: bool = False) -> Iterator[Unwritten]:
    """Find the files that `run_merge` would write, as `found_transactions` finds its transactions."""
    with _scratch() as directory:
        yield _found(Job(runner, config, directory, None, None, end_of_input, None, silent), _unwritten)


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="binlog-merge-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class _Found(Protocol):
    @property
    def blocks(self) -> frozenset[str]: ...


Found = TypeVar("Found", bound=_Found)


def _found(job: Job, made: Callable[[Run, Ordered], Found]) -> Found:
    """Return what is made of the cluster's transactions in order. The blocks that it names are left."""
    try:
        with job.stage("discover"):
            nothing = RoundState.of(job.config, job.directory)
            inputs = discover(job, nothing)
        job.engine.start(job.progress)
        with job.engine.exchange.opened():
            nodes = assemble(job, inputs, scan(job, inputs, nothing.pieces))
            run = coordinate_nodes(job, inputs, nodes, nothing.schemas)
            found = made(run, order_all(job, inputs, nodes, run.coordination, run.floor, run.bound.key))
            job.clear_work(found.blocks)
    except BaseException:
        job.clear_work()
        raise
    return found


def _listed(run: Run, ordered: Ordered, counts: bool) -> Transactions:
    tasks = tuple(_tasks(run.job, run.inputs, run.coordination, ordered, counts))
    return Transactions(tasks, _result(run, ordered), run.bound.error, _blocks(ordered))


def _unwritten(run: Run, ordered: Ordered) -> Unwritten:
    job, inputs, coordination = run.job, run.inputs, run.coordination
    schemas, ddl = schemas_of(job, inputs, coordination), {d.key: d for d in coordination.ddl}
    files, cuts = input_files(inputs), cut_files(inputs.manifest.state, job.config.output.max_size, ordered.parts)
    tasks = tuple(
        gather_task(job, inputs, schemas, ddl, files, rows, number, None, closes=number < len(cuts))
        for number, rows in enumerate(cuts, 1)
    )
    result = _result(run, ordered)
    return Unwritten(tasks, inputs.header, coordination.history, result, run.bound.error, _blocks(ordered))


def _blocks(ordered: Ordered) -> frozenset[str]:
    return frozenset(_beginning(part.path) for part in ordered.parts)


def _beginning(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('.')[0]}"


def _tasks(job: Job, inputs: Inputs, coordination: Coordination, ordered: Ordered, counts: bool) -> Iterator[ListTask]:
    schemas, ddl = schemas_of(job, inputs, coordination), {d.key: d for d in coordination.ddl}
    files = input_files(inputs)
    names = {(node.number, i): file.name for node in inputs.nodes for i, file in enumerate(node.files)}
    rank = inputs.manifest.state.rank + 1
    for part in ordered.parts:
        if part.rows:
            rows = Cut(rank, False, [(part.path, 0, part.rows)])
            task = gather_task(job, inputs, schemas, ddl, files, rows, 1, None, closes=False)
            values = {field.name: getattr(task, field.name) for field in fields(task)}
            yield ListTask(**values, names=names, counts=counts)
        rank += part.transactions


def _result(run: Run, ordered: Ordered) -> MergeResult:
    """Return the result of a merge that has written no file: with the counts that stand in the order."""
    last = next((part.last for part in reversed(ordered.parts) if part.last is not None), None)
    return replace(
        result_of(run, WrittenRun(run.bound, ordered, [])),
        last_key=None if last is None else last.text(),
        transactions=sum(part.transactions for part in ordered.parts),
        branches=sum(part.rows for part in ordered.parts),
        ddl=sum(part.ddl for part in ordered.parts),
        input_bytes=sum(part.bytes for part in ordered.parts),
    )


@dataclass(frozen=True, slots=True)
class FoundBranch:
    """A branch in a node's binlog, from its first event to the end of its last, and its transaction's order key."""

    node: str
    file: str
    start: int
    end: int
    key: OrderKey

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "node": self.node,
            "file": self.file,
            "start": self.start,
            "end": self.end,
            "order_key": self.key.text(),
        }


def find_branch(config: MergeConfig, node: str, file: str, position: int) -> FoundBranch:
    """Return the branch at a position of a node's file. Raises ConfigError if no committed branch stands there.

    Raises what a merge raises for files that it cannot read.
    """
    names = [each.source_id for each in config.nodes]
    if node not in names:
        raise ConfigError(f"the configuration has no node {node}: its nodes are {', '.join(names)}")
    with found_transactions(InDriver(Files()), config, end_of_input=True, counts=False) as transactions:
        found = _branch_at(transactions, node, PurePath(file).name, position)
    if found is None:
        raise ConfigError(
            f"no committed branch that comes out stands at {file}:{position} of node {node}",
            remedy="give a position within the events of a transaction: from its GTID event on, before its end",
        )
    return found


def _branch_at(transactions: Transactions, node: str, file: str, position: int) -> FoundBranch | None:
    for task in transactions.tasks:
        for batch in listed(task):
            for key, branches in zip(batch["order_key"].to_pylist(), batch["branches"].to_pylist(), strict=True):
                for at in branches:
                    here = at["node"] == node and PurePath(at["file"]).name == file
                    if here and at["start"] <= position < at["end"]:
                        return FoundBranch(node, file, at["start"], at["end"], OrderKey.parse(key))
    return None
