"""Runs the order stage: one task per range of TSOs, or the four steps of `held_rows` if DDL of shards hold rows."""

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from binlog_merge.errors import LateTransaction
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import Block, EdgeRow, TableSet
from binlog_merge.pipeline.base.runner import Runner
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows
from binlog_merge.pipeline.coordinate.shards.values import Effect, Holds, Shard
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.order.held_rows import (
    HoldTask,
    Range,
    Settled,
    SettleTask,
    SplitTask,
    Stood,
    hold,
    settle,
    split,
    stand,
)
from binlog_merge.pipeline.order.ordered import OrderResult, OrderTask
from binlog_merge.pipeline.order.task import order, ranges
from binlog_merge.pipeline.order.waits import all_held, first_files, linked_tables, live, shares, waiting_components
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)

RANGE_BYTES = 256 << 20
SMALL_BYTES = 8 << 20  # one task sorts them before a second has begun


@dataclass(frozen=True, slots=True)
class Ordered:
    """The rows below the limit in global order, part by part, and the rows that DDL of shards hold back.

    `waiting` has the rows held back per shard, `waiting_files` maps a node's number to its first file with such rows.
    """

    parts: Sequence[OrderResult]
    waiting: tuple[HeldRows, ...] = ()
    waiting_files: Mapping[int, int] = field(default_factory=dict)
    waiting_branches: int = 0


def order_all(
    job: Job,
    inputs: Inputs,
    scanned: Sequence[ScannedNode],
    coordination: Coordination,
    floor: OrderKey,
    limit: OrderKey,
) -> Ordered:
    """Sort the rows with floor <= key < limit into the global order.

    Raises LateTransaction if one lies below what is published, even though its node's watermark had passed it.
    """
    points = [q for n in scanned for p in n.pieces for q in p.quantiles]
    total = sum(weight for _, weight in points)
    large = total > SMALL_BYTES
    runner = job.runner(total)
    wanted = job.partitions or (max(runner.slots, -(-total // RANGE_BYTES)) if large else 1)
    blocks = tuple(b for n in scanned for b in n.blocks)
    edges = tuple(e for n in scanned for e in n.edges)
    seen = {n.number: n.seen for n in inputs.nodes if n.seen is not None}
    ddl = frozenset(d.key[:2] for d in coordination.ddl if d.key[2:] == (0, 0))
    spans, begin = ranges(points, wanted), job.scratch("order")
    tasks = [
        OrderTask(
            i, low, high, floor, limit, own, own_edges, coordination.topology, ddl, seen,
            f"{begin}-{i:06d}.arrow", coordination.places, job.config.output.heartbeat,
        )
        for i, ((low, high), own, own_edges) in enumerate(
            zip(spans, in_ranges(blocks, spans), edges_in(edges, spans), strict=True)
        )
    ]  # fmt: skip
    branches = sum(piece.timed + piece.local for node in scanned for piece in node.pieces)
    with job.stage("order", len(tasks), branches=branches):
        if coordination.holds is not None:
            ordered = _with_holds(runner, tasks, blocks, _sets(blocks, edges), coordination, coordination.holds)
        else:
            ordered = Ordered(runner.run("order", order, tasks))
    for part in ordered.parts:
        values = {"range": part.number, "rows": part.rows, "transactions": part.transactions, "bytes": part.bytes}
        _LOG.debug("range ordered", extra={**values, "ddl": part.ddl, "held": part.held})
    _check_late(scanned, ordered)
    return ordered


def _check_late(scanned: Sequence[ScannedNode], ordered: Ordered) -> None:
    late = next((r.late for r in ordered.parts if r.late is not None), None)
    if late is not None:
        key, number, file_index, position = late
        source = next(n for n in scanned if n.input.number == number)
        raise LateTransaction(
            "a transaction stands below the published watermark",
            node=source.source_id, file=source.input.files[file_index].path, position=position, order_key=key,
        )  # fmt: skip


def in_ranges(blocks: Sequence[Block], spans: Sequence[tuple[int, int]]) -> list[tuple[Block, ...]]:
    """Return the blocks that may have rows in each range of TSOs. The ranges follow each other without a gap."""
    lows, found = [low for low, _ in spans], [list[Block]() for _ in spans]
    for block in blocks:
        there = set[int]()
        for span in (block.timed_span, block.local_span):
            if span is not None and span.greatest >= lows[0]:
                there.update(range(max(0, bisect_right(lows, span.least) - 1), bisect_right(lows, span.greatest)))
        for number in there:
            found[number].append(block)
    return [tuple(each) for each in found]


def edges_in(edges: Sequence[EdgeRow], spans: Sequence[tuple[int, int]]) -> list[tuple[EdgeRow, ...]]:
    """Return the branches completed on the driver that are in each range of TSOs."""
    lows, found = [low for low, _ in spans], [list[EdgeRow]() for _ in spans]
    for edge in edges:
        found[bisect_right(lows, edge.tso) - 1].append(edge)
    return [tuple(each) for each in found]


def _with_holds(
    runner: Runner,
    tasks: Sequence[OrderTask],
    blocks: Sequence[Block],
    sets: Sequence[tuple[str, TableSet]],
    coordination: Coordination,
    holds: Holds,
) -> Ordered:
    floor, limit = tasks[0].floor, tasks[0].limit
    effects = live(holds.effects, floor, limit)
    ddl = tuple(sorted(place for place in holds.ddl if floor <= place.key < limit))
    tables = tuple(_coming_out(coordination.topology, *known) for known in sets)
    numbers = {known: number for number, known in enumerate(sets)}
    apart = frozenset(number for number, touched in enumerate(tables) if not touched)
    standing: list[Stood] = runner.run(
        "stand", stand, [replace(task, holds=Holds(effects, ddl), sets=numbers, apart=apart) for task in tasks]
    )
    ranges = tuple((task.low, task.path, stood.result.rows) for task, stood in zip(tasks, standing, strict=True))
    linked = linked_tables(tables, coordination.history)
    share_of, count = _shares(standing, tables, effects, linked, runner.slots)
    holding = [HoldTask(share, ranges, tables, effects, linked) for share in range(count)]
    sources = _judge(runner, ranges, share_of, holding)
    places = list(enumerate(sorted({e.place for e in effects if e.place is not None}), 1))
    anywhere = next(((b.node, b.file_index) for b in blocks), (0, 0))
    settled: list[Settled] = runner.run(
        "settle",
        settle,
        [
            SettleTask(
                task.number, ranges, count, tables, floor,
                tuple(place for place in ddl if task.low <= place.key.commit_tso < task.high),
                tuple((n, place) for n, place in places if task.low <= place.key.commit_tso < task.high),
                anywhere, sources[task.number],
            )
            for task in tasks
        ],
    )  # fmt: skip
    parts: list[OrderResult] = []
    for stood, found in zip(standing, settled, strict=True):
        own = stood.result
        counted = replace(found.parts[0], empty=own.empty, left_out=own.left_out, late=own.late)
        counted = replace(counted, held=own.held, held_bytes=own.held_bytes)
        parts += [counted, *found.parts[1:]]
    return Ordered(
        parts,
        all_held(held for found in settled for held in found.waiting),
        first_files(found.files for found in settled),
        sum(found.branches for found in settled),
    )


def _judge(
    runner: Runner, ranges: Sequence[Range], share_of: tuple[int, ...], tasks: Sequence[HoldTask]
) -> list[frozenset[int]]:
    """Run `split` and `hold`; return, for each range, the indexes of those from which rows are moved into it."""
    sources = [frozenset[int]() for _ in ranges]
    if tasks:
        runner.run("split", split, [SplitTask(path, share_of, len(tasks)) for _, path, _ in ranges])
        for found in runner.run("hold", hold, tasks):
            sources = [before | more for before, more in zip(sources, found, strict=True)]
    return sources


def _shares(
    standing: Sequence[Stood],
    tables: Sequence[frozenset[Shard]],
    effects: Sequence[Effect],
    linked: Sequence[frozenset[Shard]],
    slots: int,
) -> tuple[tuple[int, ...], int]:
    """Return the number of the task of `hold` that judges each table set, -1 for none, and how many tasks there are."""
    together = {pair for stood in standing for pair in stood.together}
    rows = Counter[int]()
    for stood in standing:
        rows.update(dict(stood.rows))
    waiting = waiting_components(tables, together, effects, linked)
    components = [c for c in waiting if any(rows[number] for number in c)]
    found = shares([sum(rows[number] for number in component) for component in components], slots)
    share_of = [-1] * len(tables)
    for share, indexes in enumerate(found):
        for number in (number for index in indexes for number in components[index]):
            share_of[number] = share
    return tuple(share_of), len(found)


def _sets(blocks: Sequence[Block], edges: Sequence[EdgeRow]) -> tuple[tuple[str, TableSet], ...]:
    """Return the distinct (node, table set) pairs that branches touch."""
    found = {(block.source_id, tables) for block in blocks for tables in block.sets}
    found |= {(block.source_id, kept.tables) for block in blocks for kept in block.patch.kept}
    found |= {(edge.source_id, edge.tables) for edge in edges}
    return tuple(sorted(found))


def _coming_out(topology: Topology, node: str, tables: TableSet) -> frozenset[Shard]:
    """Return the tables of a set that come out at any time: only their rows need to keep their order."""
    named = () if topology.ignores_transaction(tables) else (topology.named(node, *table) for table in tables)
    return frozenset(Shard(node, *table) for table in named if topology.logical_name(node, *table) is not None)
