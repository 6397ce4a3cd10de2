"""What stands in a cluster's binlogs and never comes out: work that is to be ignored, tables that no topology names."""

from dataclasses import replace

from tests.polardbx.cluster import HEARTBEAT, REDO_LOG, SHARDED, Shard
from tests.polardbx.splice import Stamp
from tests.polardbx.steps import Commit, Ddl, Local, Prepare, Rollback, Write, Xid
from tests.polardbx.under_way import hold
from tests.polardbx.world import WHEN, Branch, Effect, Running, World
from tests.simulator.columns import Value


def ignored(world: World) -> None:
    """Write a branch of a recovery task, of the cluster's own group, or one that asks to be ignored.

    It takes no place in the order at all.
    """
    node = world.rng.choice(world.nodes)
    write = Write(world.cdc[node][0], f"__cdc_heartbeat___{world.suffix}", HEARTBEAT, None, {
        "id": world.serial + 10**6, "sname": "x", "gmt_modified": WHEN})  # fmt: skip
    world.serial += 1
    xid = world.rng.choice(
        (
            Xid(b"POLARDB-X-RECOVER-TASK@%x" % world.serial, b"X_GROUP", 2),
            Xid(world.gtrid(), b"SHOP_000000_GROUP@0000", 4),
            Xid(world.gtrid(), b"__CDC___SINGLE_GROUP@0001"),
        )
    )
    if xid.format_id == 1:
        world.stamps[xid.gtrid] = Stamp(world.next_tso())
    world.do(Prepare(node, xid, (write,)))
    world.do(Rollback(node, xid) if world.rng.random() < 0.5 else Commit(node, xid))


def make_shadow(world: World) -> None:
    """Make the shadow of a table, for stress tests: physical tables of which no marker tells."""
    table = next(t for t in world.tables if t.kind == SHARDED)
    first = table.shards[0].group  # another node can leave all the same
    world.shadows = [replace(s, group=first) for s in world.sharded(table, f"__test_{table.name}", 2)]
    for shard in world.shadows:
        world.create_shard(shard)


def shadow(world: World) -> None:
    """Write into a shadow table, alone or beside the branches of a transaction under way."""
    world.serial += 1
    shard = world.rng.choice(world.shadows)
    write, _ = _row(world, shard)
    waiting = [r for r in world.running if not (r.hidden or r.tso) and all(b.state == "new" for b in r.branches)]
    if waiting and world.rng.random() < 0.5:
        running = world.rng.choice(waiting)
        xid = Xid(running.gtrid, b"SHADOW_GROUP", running.branches[0].xid.format_id)
        if all(b.xid.bqual != xid.bqual or b.node != shard.node for b in running.branches):
            running.branches.append(Branch(shard.node, xid, [(write, None)]))
        return
    key = world.follow_inside(shard.node) if world.moved(shard.node) else world.follow(shard.node)
    world.effects.append(Effect(key, world.do(Local(shard.node, (write,))), write, shard))


def _row(world: World, shard: Shard) -> tuple[Write, Running]:
    values = {c.name: world.serial if c.name == "id" else c.random(world.rng, 60) for c in shard.table.columns}
    write = Write(shard.group.schema, shard.name, shard.table, None, values, 99, world.hint(99))
    holder = Running(b"", [])
    hold(holder, [(write, shard)])
    shard.held = 0
    return write, holder


def machinery(world: World) -> None:
    """Add a row of the transaction machinery to a branch that is not prepared yet."""
    new = [b for r in world.running if not r.hidden for b in r.branches if b.state == "new" and b is not r.primary]
    if new:
        branch = world.rng.choice(new)
        world.serial += 1
        name = world.rng.choice(("__drds_redo_log", "polarx_global_trx_log"))
        schema = branch.rows[0].schema
        row: dict[str, Value] = {"TXID": world.serial, "INFO": "{}"}
        branch.writes.append((Write(schema, name, REDO_LOG, None, row, 99, world.hint(99)), None))


def internal(world: World) -> None:
    """Let a node run statements of its own; they take a place like any other, and change nothing."""
    node = world.rng.choice(world.nodes)
    world.follow(node)
    sql = "/* rds internal mark */ CREATE TABLE IF NOT EXISTS `ha_health_check` (`id` int)"
    world.do(Ddl(node, world.cdc[node][0], sql))
