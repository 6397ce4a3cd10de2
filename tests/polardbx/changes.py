"""What changes a simulated cluster's tables and nodes, one thing at a time, over many steps.

Each is a generator that yields wherever it waits, while transactions go on: for a physical table that nobody holds, for
its marker to be committed on every node.
"""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from tests.polardbx.cluster import BROADCAST, SHARDED, SINGLE, Group, Key, Logical, Shard, db_meta, settled, table_meta
from tests.polardbx.columns import WIDER, changed, filled, new_column, placed, without
from tests.polardbx.steps import Local, Write
from tests.polardbx.world import Announced, State, World
from tests.simulator.columns import Column, Table, Value

Change = Generator[None, None, None]
PRIVATE, PUBLIC, PROTECTED = 0, 1, 2
MOST_NODES = 4


def step(world: World) -> None:
    """Take one step of the change that is under way, or begin one."""
    if world.change is None:
        begun = world.rng.choice(CHANGES)(world)
        if begun is None:
            return
        world.change = begun
    try:
        next(world.change)
    except StopIteration:
        world.change = None
    world.advance()  # what a change waits for is mostly held by what is under way
    world.advance()


def finish(world: World) -> None:
    """Let the change that is under way end, unless it waits for what stays in doubt."""
    for _ in range(600):
        if world.change is None:
            return
        step_of = world.change
        step(world)
        if world.change is not step_of:
            return
        world.advance()


# -- announcing


def announce(
    world: World,
    kind: str,
    schema: str,
    table: str | None,
    sql: str,
    done: Callable[[Key], None],
    meta: dict[str, Any] | None = None,
    visibility: int = PUBLIC,
    apply: Callable[[dict[str, State]], None] | None = None,
) -> Change:
    """Write a marker on every node, and wait until it is committed on all. `apply` is what the DDL does to rows.

    A marker whose `apply` is None is nothing that may come out.
    """  # fmt: skip
    world.job += 1
    ext: dict[str, Any] = {"taskId": 7 * world.job, "ddlScope": 0}
    if world.rng.random() < 0.2:
        ext["sqlMode"] = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES"
    values: dict[str, Value] = {
        "ID": world.job, "JOB_ID": world.job * 1_000_003, "SQL_KIND": kind, "SCHEMA_NAME": schema, "TABLE_NAME": table,
        "GMT_CREATED": (2026, 9, 21, 1, 2, 3, 0), "DDL_SQL": sql, "META_INFO": json.dumps(meta) if meta else None,
        "VISIBILITY": visibility, "EXT": json.dumps(ext),
    }  # fmt: skip
    yield from _marked(world, values, done, sql, visibility, apply)
    if visibility != PRIVATE:
        world.last_marker = values


def _marked(
    world: World, values: dict[str, Value], done: Callable[[Key], None], sql: str = "", visibility: int = PRIVATE,
    apply: Callable[[dict[str, State]], None] | None = None,
) -> Change:  # fmt: skip
    keys: list[Key] = []

    def committed(key: Key) -> None:
        keys.append(key)
        if apply is not None and visibility != PRIVATE:
            world.announced.append(Announced(key, sql, visibility, apply))
        done(key)

    world.everywhere("__cdc_ddl_record__", values).done = committed
    while not keys:
        yield


def nothing(key: Key) -> None:
    """A marker's commit that changes nothing."""


def untouched(tables: dict[str, State]) -> None:
    """A DDL that changes no row."""


def on_rows(name: str, change: Callable[[dict[str, Value]], None]) -> Callable[[dict[str, State]], None]:
    """Return what changes every row of a table."""

    def apply(tables: dict[str, State]) -> None:
        for row in tables[name].values():
            change(row)

    return apply


# -- columns and indexes


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


def _altered(world: World) -> Logical | None:
    found = [t for t in world.tables if t.open]
    return world.rng.choice(found) if found else None


def add_column(world: World) -> Change | None:
    table = _altered(world)
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
    table = _altered(world)
    names = [c.name for c in table.table.columns if c.name not in ("id", "balance")] if table else []
    if table is None or len(names) < 2:
        return None
    name = world.rng.choice(names)
    return alter(world, table, f"DROP COLUMN `{name}`", lambda t: without(t, name), lambda v: v.__delitem__(name))


def modify_column(world: World) -> Change | None:
    table = _altered(world)
    columns = [c for c in table.table.columns if c.type in WIDER and c.length < 900] if table else []
    if table is None or not columns:
        return None
    old = world.rng.choice(columns)
    new = replace(WIDER[old.type](old), safe=old)
    return alter(world, table, f"MODIFY COLUMN {new.sql()}", lambda t: changed(t, new), lambda values: None)


def move_column(world: World) -> Change | None:
    table = _altered(world)
    if table is None or len(table.table.columns) < 3:
        return None
    moved, behind = world.rng.sample(table.table.columns[1:], 2)
    return alter(
        world, table, f"MODIFY COLUMN {moved.sql()} AFTER `{behind.name}`",
        lambda t: placed(without(t, moved.name), moved, behind.name), lambda values: None,
    )  # fmt: skip


def _indexed(table: Logical, world: World) -> Column:
    return world.rng.choice([c for c in table.table.columns if not c.is_blob and c.length < 200])


def local_index(world: World) -> Change | None:
    table = _altered(world)
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
    table = _altered(world)
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


# -- tables


def quiet(table: Logical) -> Change:
    """Close a table, and wait until nobody holds it."""
    table.open = False
    while any(s.held for s in table.all_shards):
        yield


def truncate(world: World) -> Change | None:
    table = world.pick()
    return None if table is None else _truncate(world, table)


def _truncate(world: World, table: Logical) -> Change:
    yield from quiet(table)
    yield from physically(world, table.all_shards, "TRUNCATE TABLE {t}", lambda shard: shard.rows.clear())
    name = f"{table.schema}.{table.name}"
    sql = f"TRUNCATE TABLE `{table.name}`"
    yield from announce(
        world, "TRUNCATE_TABLE", table.schema, table.name, sql, nothing, table_meta_info(table), PUBLIC,
        lambda tables: tables[name].clear(),
    )  # fmt: skip
    table.open = True


def table_meta_info(table: Logical, shards: Sequence[Shard] | None = None, name: str | None = None) -> dict[str, Any]:
    return {"logicTableMeta": table_meta(table, shards, name)}


def create_table(world: World) -> Change | None:
    number = next((i for i in range(9) if all(t.name != f"t{i}" for t in world.tables)), None)
    if number is None or len(world.tables) > 6:
        return None
    schema = world.rng.choice([s for s in world.schemas if s != "bank"])
    kind = world.rng.choice((SHARDED, SHARDED, BROADCAST, SINGLE))
    shape = Table((Column("id", "bigint", nullable=False), *(new_column(world.rng, f"c{i}") for i in range(3))))
    return _create_table(world, world.new_logical(schema, f"t{number}", kind, shape))


def _create_table(world: World, table: Logical) -> Change:
    table.open = False
    world.tables.append(table)
    for shard in table.all_shards:
        world.create_shard(shard)
        yield
    private = {SHARDED: f" PARTITION BY KEY(`id`) PARTITIONS {len(table.shards)}", BROADCAST: " BROADCAST"}
    sql = table.create_sql() + private.get(table.kind, " SINGLE")

    def done(key: Key) -> None:
        table.versions.append((key, table.name, table.table))
        for shard in table.shards:
            shard.joins(table, key)
        table.open = True

    name = f"{table.schema}.{table.name}"
    yield from announce(
        world, "CREATE_TABLE", table.schema, table.name, sql, done, table_meta_info(table), PUBLIC,
        lambda tables: tables.__setitem__(name, {}),
    )  # fmt: skip


def drop_table(world: World) -> Change | None:
    table = world.pick()
    return None if table is None or world.rng.random() < 0.5 else _drop_table(world, table)


def _drop_table(world: World, table: Logical) -> Change:
    yield from quiet(table)
    marker_first = world.rng.random() < 0.3
    drop = "DROP TABLE {t} /* generated by server */"
    if not marker_first:
        yield from physically(world, table.all_shards, drop, lambda shard: None)
    name = f"{table.schema}.{table.name}"

    def done(key: Key) -> None:
        for shard in table.shards:
            shard.leaves(key)

    sql = f"DROP TABLE `{table.name}`" + world.rng.choice(("", " PURGE"))
    yield from announce(
        world, "DROP_TABLE", table.schema, table.name, sql, done, None, PUBLIC, lambda tables: tables.__delitem__(name)
    )
    if marker_first:
        yield from physically(world, table.all_shards, drop, lambda shard: None)
    world.tables.remove(table)


def rename_table(world: World) -> Change | None:
    table = world.pick()
    return None if table is None else _rename_table(world, table)


def _rename_table(world: World, table: Logical) -> Change:
    """Rename: the logical table alone, or the physical ones too, while transactions go on writing them."""
    world.serial += 1
    new = f"{table.name.split('_')[0]}_{world.serial}"
    if world.rng.random() < 0.6:
        for shard in world.rng.sample(table.all_shards, len(table.all_shards)):
            while shard.held:
                yield
            name = f"{new}_{world.word()}"
            world.ddl(shard.node, shard.group.schema, f"RENAME TABLE `{shard.name}` TO `{name}`")
            shard.name = name
            yield
    old = table.name

    def done(key: Key) -> None:
        table.versions.append((key, new, table.table))
        table.name = new

    def apply(tables: dict[str, State]) -> None:
        tables[f"{table.schema}.{new}"] = tables.pop(f"{table.schema}.{old}")

    sql = f"RENAME TABLE `{old}` TO `{new}`"
    meta = table_meta_info(table, name=new)
    yield from announce(world, "RENAME_TABLE", table.schema, old, sql, done, meta, PUBLIC, apply)


# -- topology


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
    world.ddl(node, "", f"CREATE DATABASE IF NOT EXISTS `{group.schema}`")
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
    node = world.rng.choice(world.nodes)
    rest = (s for t in world.tables for s in (*t.copies, *t.index))
    return None if any(s.node == node for s in rest) else _scale_in(world, node)


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


# -- databases, and markers of other kinds


def create_database(world: World) -> Change | None:
    return _create_database(world) if "extra" not in world.schemas else None


def _create_database(world: World) -> Change:
    for i in range(2):
        node = world.rng.choice(world.nodes)
        world.new_group("extra_", node, f"EXTRA_{i:06d}_GROUP", f"extra_{i:06d}")
    world.new_group("extra_", world.nodes[0], "EXTRA_SINGLE_GROUP", "extra_single")
    groups = world.schemas.pop("extra_")
    yield
    meta = {"logicDbMeta": db_meta("extra", groups)}
    sql = "CREATE DATABASE `extra` MODE = 'auto'"
    yield from announce(world, "CREATE_DATABASE", "extra", None, sql, nothing, meta, PUBLIC, untouched)
    world.schemas["extra"] = groups


def table_group(world: World) -> Change | None:
    world.serial += 1
    sql = f"CREATE TABLEGROUP tg{world.serial}"
    return announce(world, "CREATE_TABLEGROUP", "shop", None, sql, nothing, None, PROTECTED, untouched)


def internal(world: World) -> Change | None:
    table = world.pick()
    if table is None:
        return None
    sql = f"ALTER TABLE `{table.name}` ADD COLUMN `internal` int"
    return announce(world, "ALTER_TABLE", table.schema, table.name, sql, nothing, None, PRIVATE)


def again(world: World) -> Change | None:
    """Write the last marker once more: its job has been told of."""
    if world.last_marker is None:
        return None
    world.job += 1
    return _marked(world, {**world.last_marker, "ID": world.job}, nothing)


def if_not_exists(world: World) -> Change | None:
    """Tell of a CREATE TABLE IF NOT EXISTS that found the table there: it has no job, and nothing comes out."""
    table = world.pick()
    if table is None:
        return None
    world.job += 1
    sql = f"CREATE TABLE IF NOT EXISTS `{table.name}` (`other` int)"
    values: dict[str, Value] = {
        "ID": world.job, "JOB_ID": None, "SQL_KIND": "CREATE_TABLE", "SCHEMA_NAME": table.schema,
        "TABLE_NAME": table.name, "GMT_CREATED": (2026, 9, 21, 1, 2, 3, 0), "DDL_SQL": sql, "META_INFO": None,
        "VISIBILITY": PUBLIC, "EXT": "{}",
    }  # fmt: skip
    return _marked(world, values, nothing)


CHANGES: tuple[Callable[[World], Change | None], ...] = (
    add_column, add_column, drop_column, modify_column, modify_column, move_column, local_index, global_index,
    truncate, create_table, drop_table, rename_table, repartition, repartition, move_group, move_group, scale_out,
    scale_in, create_database, table_group, internal, again, if_not_exists,
)  # fmt: skip
