"""Columns and indexes changed: on every physical table at its own moment, then by a marker."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.polardbx.announce import PUBLIC, Change, announce, nothing, on_rows, untouched
from tests.polardbx.cluster import SHARDED, Key, Logical, Shard, settled
from tests.polardbx.columns import WIDER, Keyless, changed, filled, new_column, placed, without
from tests.polardbx.steps import Local, Write
from tests.polardbx.world import World
from tests.simulator.columns import Column, Table, Value


def physically(world: World, shards: Sequence[Shard], sql: str, apply: Callable[[Shard], None]) -> Change:
    """Run a DDL on physical tables, each when nobody holds it; {t} is its name."""
    todo = list(shards)
    while todo:
        free = [s for s in todo if not s.held]
        if free:
            shard = world.rng.choice(free)
            todo.remove(shard)
            world.ddl(shard.node, shard.group.schema, sql.replace("{t}", f"`{shard.name}`"))
            apply(shard)
        yield


def alter(
    world: World, table: Logical, clause: str, shape: Callable[[Table], Table], row: Callable[[dict[str, Value]], None]
) -> Change:
    """Change columns: on every physical table at its own moment, then by a marker."""

    def on_shard(shard: Shard) -> None:
        shard.table = shape(shard.table)
        for values in shard.rows.values():
            row(values)

    yield from physically(world, [*table.shards, *table.copies], f"ALTER TABLE {{t}} {clause}", on_shard)
    for _ in range(world.rng.randrange(4)):
        yield

    def done(key: Key) -> None:
        table.table = settled(shape(table.table))
        table.versions.append((key, table.name, table.table))
        for shard in (*table.shards, *table.copies):
            shard.table = settled(shard.table)

    sql = f"ALTER TABLE `{table.name}` {clause}"
    applied = on_rows(f"{table.schema}.{table.name}", row)
    yield from announce(world, "ALTER_TABLE", table.schema, table.name, sql, done, None, PUBLIC, applied)


def altered(world: World) -> Logical | None:
    """Return a table that may be changed."""
    found = [t for t in world.tables if t.open]
    return world.rng.choice(found) if found else None


def add_column(world: World) -> Change | None:
    table = altered(world)
    if table is None or len(table.table.columns) > 10:
        return None
    table.serial += 1
    column = new_column(world.rng, f"n{table.serial}")
    after = None if world.rng.random() < 0.4 else world.rng.choice(table.table.columns).name
    words = "" if after is None else f" AFTER `{after}`"
    return alter(
        world, table, f"ADD COLUMN {column.sql()}{words}", lambda t: placed(t, column, after),
        lambda values: values.update({column.name: filled(column)}),
    )  # fmt: skip


def drop_column(world: World) -> Change | None:
    table = altered(world)
    names = [c.name for c in table.table.columns if c.name not in ("id", "balance")] if table else []
    if table is None or len(names) < 2 or isinstance(table.table, Keyless):
        return None  # a copy finds rows without a key by all their values, and some would be filled in
    name = world.rng.choice(names)
    return alter(world, table, f"DROP COLUMN `{name}`", lambda t: without(t, name), lambda v: v.__delitem__(name))


def modify_column(world: World) -> Change | None:
    table = altered(world)
    columns = [c for c in table.table.columns if c.type in WIDER and c.length < 900] if table else []
    if table is None or not columns:
        return None
    old = world.rng.choice(columns)
    new = replace(WIDER[old.type](old), safe=old)
    return alter(world, table, f"MODIFY COLUMN {new.sql()}", lambda t: changed(t, new), lambda values: None)


def move_column(world: World) -> Change | None:
    table = altered(world)
    if table is None or len(table.table.columns) < 3:
        return None
    moved, behind = world.rng.sample(table.table.columns[1:], 2)
    return alter(
        world, table, f"MODIFY COLUMN {moved.sql()} AFTER `{behind.name}`",
        lambda t: placed(without(t, moved.name), moved, behind.name), lambda values: None,
    )  # fmt: skip


def _indexed(table: Logical, world: World) -> Column:
    """Return a column that an index may have."""
    return world.rng.choice([c for c in table.table.columns if not c.is_blob and c.length < 200])


def local_index(world: World) -> Change | None:
    table = altered(world)
    if table is None:
        return None
    table.serial += 1
    name = _indexed(table, world).name
    sql = f"CREATE INDEX `i{table.serial}` ON {{t}} (`{name}`)"
    return _index(world, table, sql, [*table.shards, *table.copies], lambda shard: None)


def _index(world: World, table: Logical, sql: str, shards: Sequence[Shard], apply: Callable[[Shard], None]) -> Change:
    yield from physically(world, shards, sql, apply)
    text = sql.replace("{t}", f"`{table.name}`").replace("CREATE INDEX", "CREATE LOCAL INDEX", world.rng.randrange(2))
    yield from announce(world, "CREATE_INDEX", table.schema, table.name, text, nothing, None, PUBLIC, untouched)


def global_index(world: World) -> Change | None:
    """Add a global secondary index: physical tables of its own, which never come out."""
    table = altered(world)
    if table is None or table.kind != SHARDED or table.index:
        return None
    table.serial += 1
    return _global_index(world, table, f"g{table.serial}", _indexed(table, world).name)


def _global_index(world: World, table: Logical, index: str, column: str) -> Change:
    while any(s.held for s in table.shards):
        yield
    table.index = world.sharded(table, f"{index}_{table.name}", 2)
    for shard in table.index:
        world.create_shard(shard)
    backfill(world, table, table.index)
    yield
    sql = (
        f"ALTER TABLE `{table.name}` ADD GLOBAL INDEX `{index}` (`{column}`) PARTITION BY KEY(`{column}`) PARTITIONS 2"
    )
    yield from announce(world, "ALTER_TABLE", table.schema, table.name, sql, nothing, None, PUBLIC, untouched)


def backfill(world: World, table: Logical, shards: Sequence[Shard]) -> None:
    """Copy a table's rows, of which nobody holds any, to physical tables that are not part of it yet."""
    old = {row: values for shard in table.shards for row, values in shard.rows.items()}
    for number, shard in enumerate(shards):
        mine = {row: dict(values) for row, values in old.items() if row % len(shards) == number}
        shard.rows = mine
        if mine:
            hint = world.hint(1)
            writes = [Write(shard.group.schema, shard.name, shard.table, None, dict(v), 1, hint) for v in mine.values()]
            world.follow(shard.node)
            world.do(Local(shard.node, tuple(writes)))
