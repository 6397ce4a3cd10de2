"""A random history of a PolarDB-X cluster: steps on its data nodes, and what they mean logically.

The rules are a real cluster's: a commit TSO is fetched once all branches are prepared, so what is prepared behind a
commit gets a greater one; commits reach nodes in any order and at any time; a row is held by whoever writes it until
that transaction has ended on every node; a table is altered where no prepared branch holds it.
"""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.polardbx.cluster import (
    BROADCAST,
    HEARTBEAT,
    OWN,
    SHARDED,
    SINGLE,
    Group,
    Key,
    Logical,
    Shard,
    snapshot,
)
from tests.polardbx.columns import new_column
from tests.polardbx.splice import Stamp
from tests.polardbx.steps import Commit, Ddl, Local, OnePhase, Prepare, Rollback, Rotate, Step, Write, Xid
from tests.simulator.columns import Column, Table, Value

BALANCE = 1000
FIRST_TSO = 1_790_000_000_000 << 22
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class Knobs:
    """What is decided once for a history; weights are against 20 for a local transaction."""

    steps: int = 120
    nodes: int = 2
    ddl: int = 12
    hints: bool = True  # every statement has its trace id
    scale: bool = True  # nodes may join and leave


@dataclass(eq=False)
class Branch:
    node: str
    xid: Xid
    writes: list[tuple[Write, Shard | None]]
    state: str = "new"  # new, prepared, ended
    place: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class Running:
    """A transaction under way. `release` ends what it holds, `done` is for what follows its commit."""

    gtrid: bytes
    branches: list[Branch]
    tso: int = 0
    fate: str = "commit"  # commit, rollback, doubt
    held: list[tuple[Logical, int]] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    done: Callable[[Key], None] = lambda key: None
    hidden: bool = False  # it never comes out: ignored, or a marker

    @property
    def key(self) -> Key:
        return (self.tso, int(self.gtrid[5 : self.gtrid.index(b"@")], 16) & (2**63 - 1), 0, 0)


@dataclass(frozen=True)
class Effect:
    """A committed branch's row on a physical table: its key decides what it means."""

    key: Key
    place: tuple[int, int]  # node number, step
    write: Write
    shard: Shard
    archive: bool = False


@dataclass(frozen=True)
class Announced:
    """A logical DDL that must come out; a protected one (visibility 2) is nothing that MySQL executes.

    `apply` changes the tables that are there, by name, as MySQL does.
    """

    key: Key
    sql: str
    visibility: int
    apply: Callable[[dict[str, "State"]], None]


Wanted = tuple[Logical, int, Mapping[str, Value] | None]  # a row, and what it becomes
State = dict[int, dict[str, Value]]


@dataclass
class World:
    rng: random.Random
    knobs: Knobs
    nodes: list[str] = field(default_factory=list)  # of the cluster now
    numbers: dict[str, int] = field(default_factory=dict)  # of all that ever were in it
    cdc: dict[str, list[str]] = field(default_factory=dict)  # node -> its schemas with the markers' tables
    suffix: str = ""
    schemas: dict[str, list[Group]] = field(default_factory=dict)
    tables: list[Logical] = field(default_factory=list)
    base: list[tuple[str, Table]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stamps: dict[bytes, Stamp] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    announced: list[Announced] = field(default_factory=list)
    greatest: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # tso, transaction, followers
    tso: int = FIRST_TSO
    serial: int = 0
    job: int = 100
    change: Generator[None, None, None] | None = None
    last_marker: dict[str, Value] | None = None

    # -- TSOs, names, keys

    def next_tso(self) -> int:
        self.tso += self.rng.choice((1, 5, 1 << 22, 300 << 22))
        return self.tso

    def gtrid(self) -> bytes:
        self.serial += 1
        return b"drds-%x@%016x" % (self.rng.getrandbits(50) << 12 | self.serial, self.rng.getrandbits(64))

    def word(self) -> str:
        return "".join(self.rng.choices(LETTERS, k=4))

    def follow(self, node: str) -> Key:
        """Return the key of a transaction on `node` that has no TSO of its own."""
        tso, transaction, followers = self.greatest[node]
        self.greatest[node] = (tso, transaction, followers + 1)
        return (tso, transaction, followers + 1, self.numbers[node])

    def saw(self, node: str, key: Key) -> None:
        if key[:2] > self.greatest[node][:2]:
            self.greatest[node] = (*key[:2], 0)

    def do(self, step: Step) -> tuple[int, int]:
        self.steps.append(step)
        return self.numbers[step.node], len(self.steps)

    def ddl(self, node: str, schema: str, sql: str) -> None:
        """Run a physical DDL: it takes a place in its node's order like any transaction without a TSO."""
        self.follow(node)
        self.do(Ddl(node, schema, sql))

    def hint(self, sequence: int, server: int | None = None) -> str:
        if not self.knobs.hints:
            return ""
        return f"/*DRDS /11.196.59.141/{self.serial:x}1000-{sequence}/0/{server or ''}/ */ "

    def server(self) -> int | None:
        """Return the server id that a transaction's client asks for; mostly it does not."""
        return self.rng.randrange(1, 2**32) if self.knobs.hints and self.rng.random() < 0.1 else None

    # -- the cluster's own

    def add_node(self) -> str:
        """Make a node with the cluster's own tables, which all exist before anything is announced on it."""
        node = f"dn-{len(self.numbers) + 1}"
        self.numbers[node] = len(self.numbers) + 1
        self.greatest[node] = (0, 0, 0)
        used = sum(map(len, self.cdc.values()))
        self.cdc[node] = [f"__cdc___{used + i:06d}" for i in range(self.rng.choice((1, 1, 1, 2)))]
        for schema in self.cdc[node]:
            self.ddl(node, "", f"CREATE DATABASE `{schema}`")
            for name, table in OWN.items():
                self.ddl(node, schema, table.create(f"`{name}_{self.suffix}`"))
        return node

    def new_group(self, schema: str, node: str, name: str, physical: str) -> Group:
        self.ddl(node, "", f"CREATE DATABASE `{physical}`")
        group = Group(name, node, physical)
        self.schemas.setdefault(schema, []).append(group)
        return group

    def everywhere(self, name: str, values: dict[str, Value], nodes: Sequence[str] = ()) -> Running:
        """Begin a transaction that writes one row into every copy of one of the cluster's own tables."""
        gtrid = self.gtrid()
        branches = []
        for node in nodes or self.nodes:
            for schema in self.cdc[node]:
                write = Write(schema, f"{name}_{self.suffix}", OWN[name], None, values, 1, self.hint(1))
                xid = Xid(gtrid, schema.upper().encode() + b"_GROUP@0001")
                branches.append(Branch(node, xid, [(write, None)]))
        running = Running(gtrid, branches, hidden=True)
        self.running.append(running)
        return running

    def instruct(self, kind: str, content: str, done: Callable[[Key], None], nodes: Sequence[str] = ()) -> None:
        """Begin a transaction that tells the readers of the binlogs something."""
        self.serial += 1
        values: dict[str, Value] = {
            "ID": self.serial, "INSTRUCTION_TYPE": kind, "INSTRUCTION_CONTENT": content,
            "GMT_CREATED": (2026, 9, 21, 1, 2, 3, 0), "INSTRUCTION_ID": f"{kind}:{self.serial}",
        }  # fmt: skip
        self.everywhere("__cdc_instruction__", values, nodes).done = done

    def heartbeat(self) -> None:
        """Begin a transaction on every node that only advances time."""
        if len(self.running) > 8 or any(r.branches[0].xid.bqual[:5] == b"__CDC" for r in self.running):
            return
        self.serial += 1
        values: dict[str, Value] = {
            "id": self.serial, "sname": "heartbeat", "gmt_modified": (2026, 9, 21, 1, 2, 3, 4000),
        }  # fmt: skip
        self.everywhere("__cdc_heartbeat__", values)

    def start(self) -> None:
        """Make the cluster, and announce what it is."""
        rng = self.rng
        self.suffix = self.word()
        self.nodes = [self.add_node() for _ in range(self.knobs.nodes)]
        self._schema("bank", rng.randrange(2, 5))
        self._schema("shop", rng.randrange(2, 6))
        self.tables.append(self.new_logical("bank", "account", SHARDED, bank_table()))
        self.tables[0].bank = True
        for i, kind in enumerate((SHARDED, BROADCAST, SINGLE)[: rng.randrange(1, 4)]):
            table = Table((Column("id", "bigint", nullable=False), *(new_column(rng, f"c{j}") for j in range(3))))
            self.tables.append(self.new_logical("shop", f"t{i}", kind, table))
        for logical in self.tables:
            for shard in logical.all_shards:
                self.create_shard(shard)
        if rng.random() < 0.5:
            self.add_index(self.tables[-1])
        for logical in self.tables:
            logical.versions.append(((0, 0, 0, 0), logical.name, logical.table))
        self.base = [(f"{t.schema}.{t.name}", t.table) for t in self.tables]
        self.instruct("CdcStart", snapshot(self.schemas, self.tables), lambda key: None)
        self.settle()
        for logical in self.tables:
            for shard in logical.shards:
                shard.joins(logical, (0, 0, 0, 0))

    def _schema(self, schema: str, count: int) -> None:
        auto = self.rng.random() < 0.5  # partition mode names its physical schemas otherwise
        for i in range(count):
            part = f"p{i:05d}" if auto else f"{i:06d}"
            node = self.nodes[i % len(self.nodes)]
            self.new_group(schema, node, f"{schema.upper()}_{part.upper()}_GROUP", f"{schema}_{part}")
        self.new_group(schema, self.nodes[0], f"{schema.upper()}_SINGLE_GROUP", f"{schema}_single")

    def new_logical(self, schema: str, name: str, kind: int, table: Table) -> Logical:
        """Return a logical table with its shards, which nobody has made yet."""
        logical = Logical(schema, name, kind, table, [])
        groups = self.schemas[schema]
        if kind == SINGLE:
            logical.shards = [Shard(groups[-1], f"{name}_{self.word()}", table)]
        elif kind == BROADCAST:
            shards = [Shard(group, f"{name}_{self.word()}", table) for group in groups[:-1]]
            logical.shards, logical.copies = shards[:1], shards[1:]
        else:
            logical.shards = self.sharded(logical, name, self.rng.randrange(2, 7))
        return logical

    def sharded(self, logical: Logical, name: str, count: int) -> list[Shard]:
        groups, word = self.schemas[logical.schema][:-1], self.word()
        return [Shard(groups[i % len(groups)], f"{name}_{word}_{i:05d}", logical.table) for i in range(count)]

    def create_shard(self, shard: Shard) -> None:
        self.ddl(shard.node, shard.group.schema, shard.table.create(f"`{shard.name}`"))

    def add_index(self, table: Logical) -> None:
        """Make a global secondary index of a table without rows; it is as wide as the table here."""
        if table.kind == SHARDED and not table.index:
            table.index = self.sharded(table, f"g_{table.name}", 2)
            for shard in table.index:
                self.create_shard(shard)

    # -- steps

    def run(self) -> None:
        from tests.polardbx import changes

        self.start()
        self.open_accounts()
        actions: list[tuple[Callable[[], None], int]] = [
            (self.local, 20), (self.begin, 20), (self.transfer, 16), (self.advance, 90), (self.one_phase, 3),
            (self.heartbeat, 4), (self.rotate, 2), (self.stranger, 2), (lambda: changes.step(self), self.knobs.ddl),
        ]  # fmt: skip
        verbs, weights = zip(*actions, strict=True)
        for _ in range(self.knobs.steps):
            self.rng.choices(verbs, weights)[0]()
        changes.finish(self)
        if self.rng.random() < 0.5:
            self.settle()
        else:
            self.settle(begun_only=True)

    def settle(self, begun_only: bool = False) -> None:
        """Go on until nothing is under way but what stays in doubt; or nothing that has begun to commit."""
        while any(r.fate != "doubt" and (r.hidden or r.tso or not begun_only) for r in self.running):
            self.advance()

    def rotate(self) -> None:
        self.do(Rotate(self.rng.choice(self.nodes)))

    def pick(self) -> Logical | None:
        found = [t for t in self.tables if t.open and not t.bank]
        return self.rng.choice(found) if found else None

    def row(self, table: Logical) -> int | None:
        free = sorted({r for s in table.shards for r in s.rows} - table.locked)
        return self.rng.choice(free) if free else None

    def changes_of(self, count: int) -> list[Wanted]:
        """Make up what a transaction does: rows and what they become, each row once."""
        wanted: list[Wanted] = []
        for _ in range(count):
            table = self.pick()
            if table is None:
                break
            row, choice = self.row(table), self.rng.random()
            if row is None or choice < 0.5:
                row, table.next_row = table.next_row, table.next_row + 1
                wanted.append((table, row, self.values(table, row)))
            else:
                wanted.append((table, row, self.values(table, row) if choice < 0.85 else None))
            table.locked.add(row)
        return wanted

    def values(self, table: Logical, row: int) -> dict[str, Value]:
        """Return values for every column that any of the row's physical tables has."""
        columns = {c.name: c for shard in table.homes(row) for c in shard.table.columns}
        return {n: c.random(self.rng, 60) if n != "id" else row for n, c in columns.items()}

    def writes(self, wanted: list[Wanted]) -> list[tuple[Write, Shard]]:
        """Return the physical rows of logical changes, statement by statement, and make them in the shards' rows."""
        found, server = [], self.server()
        for sequence, (table, row, values) in enumerate(wanted, 1):
            for shard in table.homes(row):
                names = [c.name for c in shard.table.columns]
                before = shard.rows.get(row)
                after = None if values is None else {n: values[n] for n in names}
                if before is None and after is None:
                    continue
                hint, own = self.hint(sequence, server), before and dict(before)
                write = Write(shard.group.schema, shard.name, shard.table, own, after, sequence, hint, server)
                found.append((write, shard))
        return found

    def begin_with(self, wanted: list[Wanted], format_id: int = 1) -> Running:
        """Begin a distributed transaction: one branch or several for every group it writes."""
        gtrid = self.gtrid()
        by_group: dict[tuple[Group, int], list[tuple[Write, Shard | None]]] = {}
        views = self.rng.choice((1, 1, 1, 2))
        for write, shard in self.writes(wanted):
            by_group.setdefault((shard.group, self.rng.randrange(views)), []).append((write, shard))
        numbered = self.rng.random() < 0.7 or views > 1
        branches = []
        for (group, view), writes in by_group.items():
            bqual = group.name.encode() + (b"@%04d" % view if numbered else b"")
            branches.append(Branch(group.node, Xid(gtrid, bqual, format_id), writes))
        running = Running(gtrid, branches, held=[(t, row) for t, row, _ in wanted])
        self._hold(running)
        if branches:
            self.running.append(running)
        else:
            self._release(running)
        return running

    def begin(self) -> None:
        """Begin a transaction; its branches are prepared later."""
        if len(self.running) > 8:
            return
        archive = self.rng.random() < 0.05
        running = self.begin_with(self.changes_of(self.rng.choice((1, 2, 3, 5))), 3 if archive else 1)
        fate = self.rng.random()
        running.fate = "rollback" if fate < 0.1 else "doubt" if fate < 0.13 else "commit"

    def transfer(self) -> None:
        """Begin a transaction that moves money between accounts."""
        if len(self.running) > 8:
            return
        bank = self.tables[0]
        if not bank.open:
            return
        free = sorted({r for s in bank.shards for r in s.rows} - bank.locked)
        if len(free) < 2:
            return
        payer, payee = self.rng.sample(free, 2)
        amount, wanted = self.rng.randrange(1, 500), list[Wanted]()
        for row, sign in ((payer, -1), (payee, 1)):
            old = bank.homes(row)[0].rows[row]
            balance = old["balance"]
            assert isinstance(balance, int)
            wanted.append((bank, row, {**self.values(bank, row), "balance": balance + sign * amount}))
            bank.locked.add(row)
        running = self.begin_with(wanted)
        running.fate = "rollback" if self.rng.random() < 0.1 else "commit"

    def open_accounts(self) -> None:
        bank = self.tables[0]
        wanted: list[Wanted] = []
        for row in range(1, 13):
            wanted.append((bank, row, {**self.values(bank, row), "balance": BALANCE}))
            bank.locked.add(row)
        bank.next_row = 13
        self.begin_with(wanted)
        self.settle()

    def local(self) -> None:
        """Write a transaction that only one node knows of."""
        self._alone(lambda node, writes: Local(node, writes))

    def one_phase(self) -> None:
        """Write an XA transaction that is committed without being prepared."""
        self._alone(lambda node, writes: OnePhase(node, Xid(self.gtrid(), b"SHOP_000000_GROUP@0001"), writes))

    def _alone(self, step: Callable[[str, tuple[Write, ...]], Step]) -> None:
        """Write a transaction whose rows are all on one node; others than that are not made."""
        wanted = self.changes_of(self.rng.choice((1, 1, 2)))
        nodes = {s.node for t, row, _ in wanted for s in t.homes(row)}
        if len(nodes) == 1:
            found = self.writes(wanted)
            holder = Running(b"", [], held=[])
            self._hold(holder, found)
            node, key = nodes.pop(), None
            if found:
                key = self.follow(node)
                place = self.do(step(node, tuple(w for w, _ in found)))
                self.effects += [Effect(key, place, w, s) for w, s in found]
            self._release(holder)
        for table, row, _ in wanted:
            table.locked.discard(row)

    def stranger(self) -> None:
        """Write what never comes out: of a recovery task, of the cluster's own group, or what asks to be ignored."""
        node = self.rng.choice(self.nodes)
        schema = self.cdc[node][0]
        write = Write(schema, f"__cdc_heartbeat___{self.suffix}", HEARTBEAT, None, {
            "id": self.serial + 10**6, "sname": "x", "gmt_modified": (2026, 9, 21, 1, 2, 3, 0)})  # fmt: skip
        self.serial += 1
        xid = self.rng.choice(
            (
                Xid(b"POLARDB-X-RECOVER-TASK@%x" % self.serial, b"X_GROUP", 2),
                Xid(self.gtrid(), b"SHOP_000000_GROUP@0000", 4),
                Xid(self.gtrid(), b"__CDC___SINGLE_GROUP@0001"),
            )
        )
        if xid.format_id == 1:
            self.stamps[xid.gtrid] = Stamp(self.next_tso())
        self.do(Prepare(node, xid, (write,)))
        self.do(Rollback(node, xid) if self.rng.random() < 0.5 else Commit(node, xid))

    # -- transactions under way

    def advance(self) -> None:
        """Take one step of one transaction under way."""
        if not self.running:
            return
        running = self.rng.choice(self.running)
        new = [b for b in running.branches if b.state == "new"]
        if running.fate == "rollback" and (not new or self.rng.random() < 0.2):
            self._rollback(running)
        elif new:
            branch = self.rng.choice(new)
            branch.state = "prepared"
            branch.place = self.do(Prepare(branch.node, branch.xid, tuple(w for w, _ in branch.writes)))
        elif running.fate == "doubt":
            return
        elif not running.tso:
            self._decide(running)
        else:
            self._commit(running)

    def _decide(self, running: Running) -> None:
        """Fetch the commit TSO; at times two transactions get the same."""
        running.tso = self.next_tso()
        ready = [
            r for r in self.running
            if not r.tso and r.fate == "commit" and not r.hidden and all(b.state == "prepared" for b in r.branches)
        ]  # fmt: skip
        if ready and not running.hidden and self.rng.random() < 0.2:
            ready[0].tso = running.tso
        for one in (running, *ready[:1]):
            if one.tso:
                self.stamps[one.gtrid] = Stamp(one.tso, one.tso - 1)

    def _commit(self, running: Running) -> None:
        branch = self.rng.choice([b for b in running.branches if b.state == "prepared"])
        branch.state = "ended"
        self.do(Commit(branch.node, branch.xid))
        self.saw(branch.node, running.key)
        archive = branch.xid.format_id == 3
        self.effects += [Effect(running.key, branch.place, w, s, archive) for w, s in branch.writes if s is not None]
        self._finish(running)

    def _rollback(self, running: Running) -> None:
        prepared = [b for b in running.branches if b.state == "prepared"]
        if prepared:
            branch = self.rng.choice(prepared)
            branch.state = "ended"
            self.do(Rollback(branch.node, branch.xid))
        for branch in running.branches:
            branch.state = "ended" if branch.state == "new" else branch.state
        if all(b.state == "ended" for b in running.branches):
            for undo in reversed(running.undo):
                undo()
        self._finish(running)

    def _finish(self, running: Running) -> None:
        if all(b.state == "ended" for b in running.branches):
            self.running.remove(running)
            self._release(running)
            if running.tso:
                running.done(running.key)

    def _hold(self, running: Running, writes: list[tuple[Write, Shard]] | None = None) -> None:
        """Make the rows, and hold the tables they are in."""
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

    def _release(self, running: Running) -> None:
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


def bank_table() -> Table:
    """Return the table whose balances always have the same sum."""
    return Table(
        (
            Column("id", "bigint", nullable=False),
            Column("owner", "varchar", 40),
            Column("balance", "bigint", nullable=False),
        )
    )
