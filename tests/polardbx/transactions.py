"""Transactions of a simulated cluster's users: which rows they change, on which physical tables, by which branches."""

from collections.abc import Callable

from tests.polardbx.cluster import Group, Key, Logical, Shard
from tests.polardbx.columns import IMPLICIT, Keyless, filled, hidden_key
from tests.polardbx.steps import Local, OnePhase, Step, Write, Xid
from tests.polardbx.under_way import hold, release, settle
from tests.polardbx.world import FIRST_TSO, LOCAL, Branch, Effect, Running, Wanted, World
from tests.simulator.columns import Value

BALANCE = 1000
ACCOUNTS = 12
MOST = 8  # transactions under way at a time


def pick(world: World) -> Logical | None:
    """Return a table that may be written, but the accounts."""
    found = [t for t in world.tables if t.open and not t.bank]
    return world.rng.choice(found) if found else None


def begin(world: World) -> None:
    """Begin a transaction; its branches are prepared later."""
    if len(world.running) > MOST:
        return
    archive = world.rng.random() < 0.05
    running = begin_with(world, changes_of(world, world.rng.choice((1, 2, 3, 5))), 3 if archive else 1)
    fate = world.rng.random()
    running.fate = "rollback" if fate < 0.1 else "doubt" if fate < 0.13 else "commit"
    if running.fate == "commit" and world.knobs.extras and world.rng.random() < 0.05:
        untimed(running)
    elif world.knobs.log and not archive and world.rng.random() < 0.3 and running.branches:
        running.primary = running.branches[0]


def untimed(running: Running) -> None:
    """Let a transaction be of a kind without commit TSO, unless some row of it counts on one of two nodes."""
    running.untimed = not any(t.mirror for t, _ in running.held)


def transfer(world: World) -> None:
    """Begin a transaction that moves money between accounts."""
    bank = world.tables[0]
    if len(world.running) > MOST or not bank.open:
        return
    free = sorted({r for s in bank.shards for r in s.rows} - bank.locked)
    if len(free) < 2:
        return
    payer, payee = world.rng.sample(free, 2)
    amount, wanted = world.rng.randrange(1, 500), list[Wanted]()
    for row, sign in ((payer, -1), (payee, 1)):
        balance = bank.homes(row)[0].rows[row]["balance"]
        assert isinstance(balance, int)
        wanted.append((bank, row, {**values(world, bank, row), "balance": balance + sign * amount}))
        bank.locked.add(row)
    running = begin_with(world, wanted)
    running.fate = "rollback" if world.rng.random() < 0.1 else "commit"


def open_accounts(world: World) -> None:
    """Give every account its money, in one transaction."""
    bank = world.tables[0]
    wanted: list[Wanted] = []
    for row in range(1, ACCOUNTS + 1):
        wanted.append((bank, row, {**values(world, bank, row), "balance": BALANCE}))
        bank.locked.add(row)
    bank.next_row = ACCOUNTS + 1
    begin_with(world, wanted)
    settle(world)
    world.heartbeat()  # nothing that comes later may have an earlier place, on whichever node
    settle(world)


def local(world: World) -> None:
    """Write a transaction that only one node knows of.

    Where a sync point is under way it may get a place before others, so it then only brings new rows.
    """

    def place(node: str, found: list[tuple[Write, Shard]]) -> tuple[Key, Step] | None:
        visible = world.dialects[node].local_tso and world.dialects[node].name in ("gcn", "sequence")
        own = world.rng.choice((world.tso, world.tso - (1 << 22), FIRST_TSO, None)) if visible else None
        step = Local(node, tuple(w for w, _ in found), own)
        if not world.moved(node) or (own or LOCAL) > world.windows[node][0]:
            return world.follow(node), step
        new = all(w.kind == "insert" for w, _ in found)
        return (world.follow_inside(node), step) if new and world.knobs.windows else None

    _alone(world, place)


def one_phase(world: World) -> None:
    """Write an XA transaction that is committed without being prepared."""

    def place(node: str, found: list[tuple[Write, Shard]]) -> tuple[Key, Step]:
        xid = Xid(world.gtrid(), b"SHOP_000000_GROUP@0001")
        return world.follow(node), OnePhase(node, xid, tuple(w for w, _ in found))

    _alone(world, place)


def _alone(world: World, place: Callable[[str, list[tuple[Write, Shard]]], tuple[Key, Step] | None]) -> None:
    """Write a transaction whose rows are all on one node; others than that are not made."""
    wanted = changes_of(world, world.rng.choice((1, 1, 2)))
    nodes = {s.node for t, row, _ in wanted for s in t.homes(row)}
    if len(nodes) == 1:
        found = writes(world, wanted)
        placed = place(nodes.pop(), found) if found else None
        if placed is not None:
            key, step = placed
            holder = Running(b"", [], held=[])
            hold(holder, found)
            at = world.do(step)
            world.effects += [Effect(key, at, w, s) for w, s in found]
            release(holder)
    for table, row, _ in wanted:
        table.locked.discard(row)


# -- rows


def changes_of(world: World, count: int) -> list[Wanted]:
    """Make up what a transaction does: rows and what they become, each row once."""
    wanted: list[Wanted] = []
    for _ in range(count):
        table = pick(world)
        if table is None:
            break
        row, choice = _row(world, table), world.rng.random()
        if row is None or choice < 0.5 or world.windows:
            row, table.next_row = table.next_row, table.next_row + 1
            wanted.append((table, row, values(world, table, row)))
        else:
            wanted.append((table, row, values(world, table, row) if choice < 0.85 else None))
        table.locked.add(row)
    return wanted


def _row(world: World, table: Logical) -> int | None:
    free = sorted({r for s in table.shards for r in s.rows} - table.locked)
    return world.rng.choice(free) if free else None


def values(world: World, table: Logical, row: int) -> dict[str, Value]:
    """Return values for every column that any of the row's physical tables has.

    A table without a key of its own has nothing in columns of which its user does not know yet: where a copy looks for
    a row by all its values, they must be those that the copy has.
    """
    columns = {c.name: c for shard in table.homes(row) for c in shard.table.columns}
    found = {n: c.random(world.rng, 60) if n != "id" else row for n, c in columns.items()}
    if isinstance(table.table, Keyless):
        found |= {n: filled(c) for n, c in columns.items() if table.table.named(n) is None}
        found[IMPLICIT] = hidden_key(row)
    return found


def writes(world: World, wanted: list[Wanted]) -> list[tuple[Write, Shard]]:
    """Return the physical rows of logical changes, statement by statement."""
    found, server = [], world.server()
    for sequence, (table, row, values) in enumerate(wanted, 1):
        for sub, shard in enumerate(table.homes(row)):
            names = [c.name for c in shard.table.columns]
            before = shard.rows.get(row)
            after = None if values is None else {n: values[n] for n in names}
            if before is None and after is None:
                continue
            part = sub if world.knobs.extras else 0
            hint, own = world.hint(sequence, server, part), before and dict(before)
            image = world.images[shard.node]
            write = Write(
                shard.group.schema, shard.name, shard.table, own, after, sequence, hint, server, part, image
            )  # fmt: skip
            found.append((write, shard))
    return found


def begin_with(world: World, wanted: list[Wanted], format_id: int = 1) -> Running:
    """Begin a distributed transaction: one branch or several for every group it writes."""
    gtrid = world.gtrid()
    by_group: dict[tuple[Group, int], list[tuple[Write, Shard | None]]] = {}
    views = world.rng.choice((1, 1, 1, 2))
    for write, shard in writes(world, wanted):
        by_group.setdefault((shard.group, world.rng.randrange(views)), []).append((write, shard))
    numbered = world.rng.random() < 0.7 or views > 1
    branches = [
        Branch(group.node, Xid(gtrid, group.branch(view if numbered else None), format_id), mine)
        for (group, view), mine in by_group.items()
    ]
    running = Running(gtrid, branches, held=[(t, row) for t, row, _ in wanted])
    hold(running)
    if branches:
        world.running.append(running)
    else:
        release(running)
    return running
