"""Tables spread over other physical tables, groups moved to other nodes, nodes that join and leave."""

import json
from collections.abc import Callable, Sequence

from tests.polardbx.alterations import backfill, physically
from tests.polardbx.announce import PRIVATE, PROTECTED, Change, announce, untouched
from tests.polardbx.cluster import SHARDED, Group, Key, Logical, Shard, db_meta
from tests.polardbx.steps import Local, Write
from tests.polardbx.tables import table_meta_info
from tests.polardbx.world import World

MOST_NODES = 4


def repartition(world: World) -> Change | None:
    found = [t for t in world.tables if t.open and t.kind == SHARDED]
    return _repartition(world, world.rng.choice(found)) if found else None


def _repartition(world: World, table: Logical) -> Change:
    """Spread a table over other physical tables: both are written until the old ones go."""
    while any(s.held for s in table.shards):
        yield
    new = world.sharded(table, table.name, world.rng.randrange(1, 8))
    for shard in new:
        world.create_shard(shard)
    backfill(world, table, new)
    table.mirror = new
    yield
    sql = f"ALTER TABLE `{table.name}` PARTITION BY KEY(`id`) PARTITIONS {len(new)}"
    meta = table_meta_info(table, new)
    done = _switch([(table, new)])
    yield from announce(world, "ALTER_TABLE", table.schema, table.name, sql, done, meta, PROTECTED, untouched)
    yield from _retire(world, [table])


def _switch(moves: Sequence[tuple[Logical, list[Shard]]]) -> Callable[[Key], None]:
    """Return what makes other physical tables the ones that count."""

    def done(key: Key) -> None:
        for table, new in moves:
            for shard in table.shards:
                if shard not in new:
                    shard.leaves(key)
            for shard in new:
                if shard not in table.shards:
                    shard.joins(table, key)
            table.shards, table.mirror = new, table.shards

    return done


def _retire(world: World, tables: Sequence[Logical]) -> Change:
    """Stop writing the old physical tables after a while, and drop them."""
    for _ in range(world.rng.randrange(4)):
        yield
    for table in tables:
        old = [s for s in table.mirror or () if s not in table.shards]
        table.mirror = None
        yield from physically(world, old, "DROP TABLE {t}", lambda shard: None)


def move_group(world: World) -> Change | None:
    schema = world.rng.choice(list(world.schemas))
    group = world.rng.choice(world.schemas[schema])
    others = [n for n in world.nodes if n != group.node]
    return _move_group(world, schema, group, world.rng.choice(others)) if others else None


def _move_group(world: World, schema: str, group: Group, node: str) -> Change:
    """Move a group to another node: its physical tables have the same names there."""
    new_group = Group(group.name, node, group.schema)
    tables = [t for t in world.tables if t.schema == schema and any(s.group == group for s in t.shards)]
    if not all(t.open for t in tables):
        return
    while any(s.held for t in tables for s in t.shards):
        yield
    world.create_schema(node, group.schema, "IF NOT EXISTS ")
    moves = []
    for table in tables:
        new = [Shard(new_group, s.name, s.table) if s.group == group else s for s in table.shards]
        for shard, old in zip(new, table.shards, strict=True):
            if shard is not old:
                world.create_shard(shard)
                copy_rows(world, old, shard)
        table.mirror = new
        moves.append((table, new))
    yield
    groups = [new_group if g == group else g for g in world.schemas[schema]]
    if world.rng.random() < 0.5 or not tables:
        sql = f"MOVE DATABASE ({group.name}) TO '{node}'"
        meta = {"logicDbMeta": db_meta(schema, groups)}
        yield from announce(world, "MOVE_DATABASE", schema, None, sql, _switch(moves), meta, PRIVATE)
    else:
        for table, new in moves:
            sql = f"ALTER TABLEGROUP tg1 MOVE PARTITIONS p1 TO '{node}'"
            meta = table_meta_info(table, new)
            done = _switch([(table, new)])
            yield from announce(world, "ALTER_TABLEGROUP", schema, table.name, sql, done, meta, PRIVATE)
    world.schemas[schema] = groups
    yield from _retire(world, tables)


def copy_rows(world: World, old: Shard, new: Shard) -> None:
    """Fill a physical table, of whose rows nobody holds any, with another's."""
    new.rows = {row: dict(values) for row, values in old.rows.items()}
    if new.rows:
        hint = world.hint(1)
        writes = [Write(new.group.schema, new.name, new.table, None, dict(v), 1, hint) for v in new.rows.values()]
        world.follow(new.node)
        world.do(Local(new.node, tuple(writes)))


def scale_out(world: World) -> Change | None:
    return _scale_out(world) if world.knobs.scale and len(world.numbers) < MOST_NODES else None


def _scale_out(world: World) -> Change:
    node = world.add_node()
    yield
    yield from _storage(world, [*world.nodes, node], [*world.nodes, node])


def scale_in(world: World) -> Change | None:
    if not world.knobs.scale or len(world.nodes) < 3:
        return None
    needed = {s.node for t in world.tables for s in (*t.copies, *t.index)} | {s.node for s in world.shadows}
    free = [node for node in world.nodes if node not in needed]
    return _scale_in(world, world.rng.choice(free)) if free else None


def _scale_in(world: World, node: str) -> Change:
    staying = [n for n in world.nodes if n != node]
    for schema in list(world.schemas):
        for group in [g for g in world.schemas[schema] if g.node == node]:
            while not all(t.open for t in world.tables):
                yield
            yield from _move_group(world, schema, group, world.rng.choice(staying))
    if any(s.node == node for t in world.tables for s in t.all_shards):
        return
    while any(b.node == node and b.state == "prepared" for r in world.running for b in r.branches):
        yield
    world.nodes.remove(node)
    yield from _storage(world, staying, world.rng.choice((staying, [*staying, node])))


def _storage(world: World, nodes: list[str], told: list[str]) -> Change:
    """Announce which nodes there are from now on, on the nodes `told`."""
    keys: list[Key] = []
    world.instruct("StorageInstChange", json.dumps({"storageInstList": nodes}), keys.append, told)
    while not keys:
        yield
    world.nodes = nodes
