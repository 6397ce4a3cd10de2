"""Finds where a node's clock stepped back further than allowed, for nodes whose clocks give the order."""

from collections.abc import Iterator, Sequence

import numpy as np

from binlog_merge.config.sections import CommitTso
from binlog_merge.errors import ClockStep
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.bound import NO_BOUND, Bound
from binlog_merge.pipeline.base.clock import steps_back
from snapshot_store.tso import OrderKey


def clock_steps(node: ScannedNode, most: int, floor: OrderKey) -> Iterator[tuple[int, ClockStep]]:
    """Yield each step back from `floor` on by more than `most` microseconds, in order: its size and the error.

    Until the clock has caught up again it counts as a single step.
    """
    stepped_back = False
    for piece, block, carry in zip(node.pieces, node.blocks, node.carries, strict=True):
        if piece.clock is None:
            continue
        if piece.clock.furthest(carry.max_tso) <= most:
            stepped_back = False
            continue
        columns, keys = block.local()
        steps = steps_back(columns["max_tso"], columns["commit_us"], carry.max_tso)
        far = steps > most
        begins = far & ~np.concatenate([[stepped_back], far[:-1]])
        stepped_back = bool(far[-1])
        for i in np.flatnonzero(begins).tolist():
            key = OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node)
            if key < floor:
                continue
            file = node.input.files[piece.file_index]
            yield (
                int(steps[i]),
                ClockStep(
                    f"the clock stepped back by {steps[i] / 1e6:g} s: what follows sorts behind what the node had "
                    "committed before, as in its log, but that much too late among other nodes' transactions",
                    node=node.source_id,
                    file=file.path,
                    position=int(columns["start"][i]),
                    order_key=key,
                ),
            )


def check_clocks(nodes: Sequence[ScannedNode], config: CommitTso, floor: OrderKey) -> tuple[Bound, list[str]]:
    """Return the bound at the first step back, if `on_step_back` is "error"; otherwise a warning per node."""
    first, warnings = NO_BOUND, list[str]()
    for node in nodes:
        if not node.by_time:
            continue
        found = clock_steps(node, config.max_step_back, floor)
        if config.on_step_back == "error":
            first = min(first, Bound.of(next((error for _, error in found), None)))
            continue
        steps = sorted(found, key=lambda pair: -pair[0])
        if steps:
            more = f" (and {len(steps) - 1} smaller steps)" if len(steps) > 1 else ""
            warnings.append(f"{node.source_id}: {steps[0][1].message}{more}: {steps[0][1].file}:{steps[0][1].position}")
    return first, warnings
