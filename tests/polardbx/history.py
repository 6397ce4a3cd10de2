"""A random history of a cluster: it is made, its users work, its tables and nodes change, at some moment it ends."""

from collections.abc import Callable

from tests.polardbx import changes, strangers
from tests.polardbx.cluster import BROADCAST, SHARDED, SINGLE, snapshot
from tests.polardbx.steps import Rotate
from tests.polardbx.tables import new_table
from tests.polardbx.transactions import begin, local, one_phase, open_accounts, transfer
from tests.polardbx.under_way import advance, settle
from tests.polardbx.world import World
from tests.simulator.columns import Column, Table

LONG_NAME = "a_schema_whose_groups_have_names_longer_than_a_branch_may_have"


def run(world: World) -> None:
    """Play a history, from its first node to where it ends, with transactions under way or without."""
    start(world)
    open_accounts(world)
    actions: list[tuple[Callable[[World], None], int]] = [
        (local, 20), (begin, 20), (transfer, 16), (advance, 90), (one_phase, 3), (World.heartbeat, 4), (rotate, 2),
        (strangers.ignored, 2), (changes.step, world.knobs.ddl),
    ]  # fmt: skip
    if world.knobs.extras:
        actions += [(strangers.shadow, 3), (strangers.machinery, 2), (strangers.internal, 2)]
    verbs, weights = zip(*actions, strict=True)
    for _ in range(world.knobs.steps):
        world.rng.choices(verbs, weights)[0](world)
    changes.finish(world)
    settle(world, begun_only=world.rng.random() < 0.5)


def rotate(world: World) -> None:
    """Begin a new file on one of the nodes."""
    world.do(Rotate(world.rng.choice(world.nodes)))


def start(world: World) -> None:
    """Make the cluster, and announce what it is."""
    rng = world.rng
    world.suffix = world.word()
    world.nodes = [world.add_node() for _ in range(world.knobs.nodes)]
    _schema(world, "bank", rng.randrange(2, 5))
    _schema(world, "shop", rng.randrange(2, 6))
    world.tables.append(world.new_logical("bank", "account", SHARDED, bank_table()))
    world.tables[0].bank = True
    for i, kind in enumerate((SHARDED, BROADCAST, SINGLE)[: rng.randrange(1, 4)]):
        world.tables.append(world.new_logical("shop", f"t{i}", kind, new_table(world)))
    for logical in world.tables:
        for shard in logical.all_shards:
            world.create_shard(shard)
    if rng.random() < 0.5:
        world.add_index(world.tables[-1])
    if world.knobs.extras:
        strangers.make_shadow(world)
    for logical in world.tables:
        logical.versions.append(((0, 0, 0, 0), logical.name, logical.table))
    world.base = [(f"{t.schema}.{t.name}", t.table) for t in world.tables]
    told = "MetaSnapshot" if world.knobs.extras and rng.random() < 0.2 else "CdcStart"
    world.instruct(told, snapshot(world.schemas, world.tables), lambda key: None)
    settle(world)
    for logical in world.tables:
        for shard in logical.shards:
            shard.joins(logical, (0, 0, 0, 0))


def _schema(world: World, schema: str, count: int) -> None:
    auto = world.rng.random() < 0.5  # partition mode names its physical schemas otherwise
    long = world.knobs.extras and world.rng.random() < 0.3
    group = LONG_NAME.upper() if long else schema.upper()
    for i in range(count):
        part = f"p{i:05d}" if auto else f"{i:06d}"
        node = world.nodes[i % len(world.nodes)]
        world.new_group(schema, node, f"{group}_{part.upper()}_GROUP", f"{schema}_{part}")
    world.new_group(schema, world.nodes[0], f"{group}_SINGLE_GROUP", f"{schema}_single")


def bank_table() -> Table:
    """Return the table whose balances always have the same sum."""
    return Table(
        (
            Column("id", "bigint", nullable=False),
            Column("owner", "varchar", 40),
            Column("balance", "bigint", nullable=False),
        )
    )
