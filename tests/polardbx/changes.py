"""What changes a simulated cluster's tables and nodes, one thing at a time, over many steps.

Each waits for what it needs while transactions go on: for a physical table that nobody holds, for its marker to be
committed on every node.
"""

from collections.abc import Callable

from tests.polardbx.alterations import (
    add_column,
    drop_column,
    global_index,
    local_index,
    modify_column,
    move_column,
)
from tests.polardbx.announce import Change
from tests.polardbx.notices import (
    again,
    create_database,
    flush_logs,
    if_not_exists,
    internal,
    meta_snapshot,
    other_instruction,
    sync_point,
    table_group,
)
from tests.polardbx.placement import move_group, repartition, scale_in, scale_out
from tests.polardbx.tables import create_table, drop_table, rename_table, truncate
from tests.polardbx.under_way import advance
from tests.polardbx.world import World

CHANGES: tuple[Callable[[World], Change | None], ...] = (
    add_column, add_column, drop_column, modify_column, modify_column, move_column, local_index, global_index,
    truncate, create_table, drop_table, rename_table, repartition, repartition, move_group, move_group, scale_out,
    scale_in, create_database, table_group, internal, again, if_not_exists, meta_snapshot, other_instruction,
    flush_logs, sync_point, sync_point, scale_in,
)  # fmt: skip


def step(world: World) -> None:
    """Take one step of the change that is under way, or begin one."""
    if world.change is None:
        change = world.rng.choice(CHANGES)
        if world.knobs.first is not None and not world.did:
            change = CHANGES[world.knobs.first % len(CHANGES)] if world.rng.random() < 0.8 else change
        begun = change(world)
        if begun is None:
            return
        world.change, world.changing = begun, change.__name__
    try:
        next(world.change)
    except StopIteration:
        world.change = None
        world.did[world.changing] += 1
    advance(world)  # what a change waits for is mostly held by what is under way
    advance(world)


def finish(world: World) -> None:
    """Let the change that is under way end, unless it waits for what stays in doubt."""
    for _ in range(600):
        if world.change is None:
            return
        under_way = world.change
        step(world)
        if world.change is not under_way:
            return
        advance(world)
