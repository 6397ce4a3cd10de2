"""Markers and instructions that change no table: databases, table groups, internal work, jobs told of twice."""

from tests.polardbx.announce import PRIVATE, PROTECTED, PUBLIC, Change, announce, marked, nothing, untouched
from tests.polardbx.cluster import SYNC_POINT, Key, db_meta, snapshot
from tests.polardbx.transactions import local, pick
from tests.polardbx.world import WHEN, Announced, World
from tests.simulator.columns import Value


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
    table = pick(world)
    if table is None:
        return None
    sql = f"ALTER TABLE `{table.name}` ADD COLUMN `internal` int"
    return announce(world, "ALTER_TABLE", table.schema, table.name, sql, nothing, None, PRIVATE)


def again(world: World) -> Change | None:
    """Write the last marker once more: its job has been told of."""
    if world.last_marker is None:
        return None
    world.job += 1
    return marked(world, {**world.last_marker, "ID": world.job}, nothing)


def if_not_exists(world: World) -> Change | None:
    """Tell of a CREATE TABLE IF NOT EXISTS that found the table there: it has no job, and nothing comes out."""
    table = pick(world)
    if table is None:
        return None
    world.job += 1
    sql = f"CREATE TABLE IF NOT EXISTS `{table.name}` (`other` int)"
    values: dict[str, Value] = {
        "ID": world.job, "JOB_ID": None, "SQL_KIND": "CREATE_TABLE", "SCHEMA_NAME": table.schema,
        "TABLE_NAME": table.name, "GMT_CREATED": WHEN, "DDL_SQL": sql, "META_INFO": None,
        "VISIBILITY": PUBLIC, "EXT": "{}",
    }  # fmt: skip
    return marked(world, values, nothing)


def sync_point(world: World) -> Change | None:
    """Mark a moment, on every node, at which the cluster can be compared with a copy."""
    return _sync_point(world) if world.knobs.extras else None


def _sync_point(world: World) -> Change:
    def done(key: Key) -> None:
        world.announced.append(Announced(key, "CALL trigger_sync_point_trx()", PROTECTED, untouched))

    world.serial += 1
    values: dict[str, Value] = {"ID": world.serial, "GMT_CREATED": WHEN}
    running = world.everywhere("__polardbx_sync_point__", values, table=SYNC_POINT, most=1)
    running.done, running.window = done, True
    running.fate = "rollback" if world.rng.random() < 0.1 else "commit"
    while running in world.running:
        if world.windows and world.rng.random() < 0.5:
            local(world)
        yield


def meta_snapshot(world: World) -> Change | None:
    """Tell once more of everything there is."""
    return _instruction(world, "MetaSnapshot", snapshot(world.schemas, world.tables)) if world.knobs.extras else None


def other_instruction(world: World) -> Change | None:
    """Tell what concerns the readers of the cluster's own."""
    kind = world.rng.choice(("CdcEnvConfigChange", "FlushLogs"))
    return _instruction(world, kind, "{}") if world.knobs.extras else None


def _instruction(world: World, kind: str, content: str) -> Change:
    keys: list[Key] = []
    world.instruct(kind, content, keys.append)
    while not keys:
        yield


def flush_logs(world: World) -> Change | None:
    """Let the readers begin a new file: a marker that nobody is shown."""
    if not world.knobs.extras:
        return None
    return announce(world, "FLUSH_LOGS", "shop", None, "FLUSH LOGS", nothing, None, PRIVATE)
