"""Transactions under way: prepared, committed and rolled back branch by branch, each at its own moment.

The rules are a real cluster's: a commit TSO is fetched once all branches are prepared, so what is prepared behind a
commit gets a greater one; commits reach nodes in any order and at any time; a row is held by whoever writes it until
that transaction has ended on every node.
"""

from collections.abc import Callable

from tests.polardbx.cluster import TRANSACTION_LOG, Shard
from tests.polardbx.splice import Stamp
from tests.polardbx.steps import Commit, Local, Prepare, Rollback, Write
from tests.polardbx.world import WHEN, Branch, Effect, Running, World
from tests.simulator.columns import Value


def settle(world: World, begun_only: bool = False) -> None:
    """Go on until nothing is under way but what stays in doubt; or nothing that has begun to commit."""
    while any(r.fate != "doubt" and (r.hidden or r.tso or r.untimed or not begun_only) for r in world.running):
        advance(world)


def advance(world: World) -> None:
    """Take one step of one transaction under way."""
    if not world.running:
        return
    running = world.rng.choice(world.running)
    if running.window and world.rng.random() < 0.7:
        return  # a sync point takes its time, so that others come between
    new = [b for b in running.branches if b.state == "new" and b is not running.primary]
    if running.fate == "rollback" and (not new or world.rng.random() < 0.2):
        _roll_back(world, running)
    elif new:
        branch = world.rng.choice(new)
        branch.state = "prepared"
        branch.place = world.do(Prepare(branch.node, branch.xid, branch.rows))
        if running.window and running.fate == "commit":
            world.windows[branch.node] = world.greatest[branch.node]
    elif running.fate == "doubt":
        return
    elif not running.tso and not running.untimed:
        _decide(world, running)
    else:
        _commit(world, running)


def _decide(world: World, running: Running) -> None:
    """Fetch the commit TSO; at times two transactions get the same."""
    running.tso = world.next_tso()
    ready = [
        r for r in world.running
        if not (r.tso or r.untimed or r.hidden or r.primary) and r.fate == "commit"
        and all(b.state == "prepared" for b in r.branches)
    ]  # fmt: skip
    if ready and not running.hidden and world.rng.random() < 0.2:
        ready[0].tso = running.tso
    for one in (running, *ready[:1]):
        if one.tso:
            world.stamps[one.gtrid] = Stamp(one.tso, one.tso - 1)
            if world.knobs.log:
                _log(world, one)


def _log(world: World, running: Running) -> None:
    """Write the commit TSO into the transaction log of one of the nodes; the primary branch commits with it."""
    branch = running.primary or running.branches[0]
    row = log_row(branch.rows[0].schema, running)
    if running.primary is None:
        world.do(Local(branch.node, (row,)))
        world.saw(branch.node, running.key)
        return
    branch.state = "ended"
    branch.place = world.do(Local(branch.node, (*branch.rows, row)))
    _committed(world, running, branch)


def log_row(schema: str, running: Running) -> Write:
    """Return the row of the transaction log that tells a commit TSO."""
    values: dict[str, Value] = {
        "TXID": running.number, "START_TIME": WHEN, "TYPE": "TSO", "STATE": "COMMIT", "RETRIES": 0,
        "COMMIT_TS": running.tso, "PARTICIPANTS": None, "SERVER_ADDR": "11.196.59.141:3306", "CONTEXT": "{}",
    }  # fmt: skip
    return Write(schema, "__drds_global_tx_log", TRANSACTION_LOG, None, values, 0)


def _commit(world: World, running: Running) -> None:
    branch = world.rng.choice([b for b in running.branches if b.state == "prepared"])
    branch.state = "ended"
    world.do(Commit(branch.node, branch.xid))
    if running.window:
        world.windows.pop(branch.node, None)
    _committed(world, running, branch)


def _committed(world: World, running: Running, branch: Branch) -> None:
    key = world.follow(branch.node) if running.untimed else running.key
    world.saw(branch.node, key)
    archive = branch.xid.format_id == 3 and branch is not running.primary
    world.effects += [Effect(key, branch.place, w, s, archive) for w, s in branch.writes if s is not None]
    _finish(world, running)


def _roll_back(world: World, running: Running) -> None:
    prepared = [b for b in running.branches if b.state == "prepared"]
    if prepared:
        branch = world.rng.choice(prepared)
        branch.state = "ended"
        world.do(Rollback(branch.node, branch.xid))
    for branch in running.branches:
        branch.state = "ended" if branch.state == "new" else branch.state
    if all(b.state == "ended" for b in running.branches):
        for undo in reversed(running.undo):
            undo()
    _finish(world, running)


def _finish(world: World, running: Running) -> None:
    if all(b.state == "ended" for b in running.branches):
        world.running.remove(running)
        release(running)
        if running.tso:
            running.done(running.key)


def hold(running: Running, writes: list[tuple[Write, Shard]] | None = None) -> None:
    """Make the rows in the shards, and hold the tables they are in."""
    if writes is None:
        writes = [(w, s) for b in running.branches for w, s in b.writes if s is not None]
    for write, shard in writes:
        image = write.after or write.before
        assert image is not None
        row = image["id"]
        assert isinstance(row, int)
        if write.after is None:
            del shard.rows[row]
        else:
            shard.rows[row] = dict(write.after)
        running.undo.append(_undo(shard, row, write))
        shard.held += 1
        running.shards.append(shard)


def release(running: Running) -> None:
    """Let go of the tables and rows that a transaction holds."""
    for shard in running.shards:
        shard.held -= 1
    for table, row in running.held:
        table.locked.discard(row)


def _undo(shard: Shard, row: int, write: Write) -> Callable[[], None]:
    def undo() -> None:
        if write.before is None:
            shard.rows.pop(row, None)
        else:
            shard.rows[row] = dict(write.before)

    return undo
