"""A random history of a cluster: what happens on each node, step by step, and what it means logically.

TSOs come from one clock that only rises, and a transaction gets its TSO once all its branches are prepared: so a branch
that is prepared after a commit on its node gets a TSO above that commit's, while commits of a node follow in any order.
"""

import random
from dataclasses import dataclass, field

from tests.simulator import ddl, wire
from tests.simulator.columns import Table, table_map
from tests.simulator.keys import Key as Taken
from tests.simulator.keys import Keys
from tests.simulator.nodes import Manner, Node
from tests.simulator.rows import Shard, pack_image, statement
from tests.simulator.schema import LogicalTable, random_table
from tests.simulator.transactions import COMMIT_ROWS, HEARTBEAT, Branch, Committed, Distributed, Key, Knobs
from tests.simulator.wire import Event


@dataclass
class World:
    rng: random.Random
    knobs: Knobs
    nodes: list[Node]
    tables: list[LogicalTable]
    tso: int = 0
    log: list[Committed] = field(default_factory=list)
    logical: list[tuple[Key, str, Table | None]] = field(default_factory=list)
    running: list[Distributed] = field(default_factory=list)
    changing: LogicalTable | None = None
    serial: int = 0
    used: set[Taken] = field(default_factory=set)
    dropped: list[LogicalTable] = field(default_factory=list)
    shapes: dict[tuple[str, str, str], Table] = field(default_factory=dict)  # (node, schema, name) of ignored tables

    # -- TSOs

    def next_tso(self) -> int:
        """Return the next TSO; its distance to the last is small or large."""
        step = self.rng.choice((1, 1, 2, 700))
        if self.knobs.realistic:
            step = self.rng.choice((1, 5, 1 << 22, 300 << 22))
        self.tso += step
        if self.knobs.carrier == "original-commit-timestamp":
            self.tso = (self.tso + 511) >> 9 << 9
        if self.knobs.carrier == "original-commit-timestamp-us":
            self.tso = ((self.tso >> 22) + 1) << 22 | self.rng.randrange(1000)
        return self.tso

    # -- steps

    def run(self) -> None:
        """Take all steps. What is prepared at the end stays in doubt."""
        actions = (
            (self.local, 20), (self.begin, 16), (self.advance, 70), (self.one_phase, 3), (self.alter, self.knobs.ddl),
            (self.administration, 2), (self.heartbeat, 4), (self.rotate, 3), (self.stray, 3),
        )  # fmt: skip
        verbs, weights = zip(*actions, strict=True)
        for _ in range(self.knobs.steps):
            self.rng.choices(verbs, weights)[0]()
        while any(t.announces for t in self.running):  # a DDL that not every node has seen stops a merge
            self.advance()
        if self.rng.random() < 0.5:
            for _ in range(10 * len(self.running) * len(self.nodes)):
                self.advance()

    def local(self) -> None:
        """Write a local transaction: on tables of ours, on tables that never come out, or on both."""
        node = self.rng.choice(self.nodes)
        branch = self.branch(node)
        events = [wire.query("BEGIN"), *self._body(branch)]
        if self.rng.random() < 0.1:
            events.insert(1, wire.query("SAVEPOINT `s`"))
        events.append(wire.query("COMMIT") if self.rng.random() < 0.1 else wire.xid(self.rng.randrange(10**6)))
        self._local(node, branch, events)

    def _local(self, node: Node, branch: Branch, events: list[Event]) -> None:
        place = self._place(node)
        key = node.key_of_local()
        us = node.group(events, compressible=True)
        self.log.append(Committed(key, place, us, tuple(branch.changes)))

    def one_phase(self) -> None:
        """Write an XA transaction that was committed in one phase; it is a local one."""
        node = self.rng.choice(self.nodes)
        branch = self.branch(node)
        self._local(node, branch, self._xa(self.gtrid(), branch, self._body(branch), True))

    def begin(self) -> None:
        """Begin an XA transaction; its branches are prepared later."""
        if len(self.running) > 8:
            return
        count = self.rng.choice((1, 1, 2, 2, 3, len(self.nodes)))
        nodes = [self.rng.choice(self.nodes) for _ in range(count)]
        keys = Keys(self.rng, self.used)
        branches = [self.branch(node, keys) for node in nodes]
        xa = Distributed(self.gtrid(), branches, self._body)
        if self.rng.random() < 0.1:
            xa.fate = "rollback"
        elif self.knobs.carrier != "gtid" and len({id(n) for n in nodes}) == 1 and self.rng.random() < 0.05:
            xa.fate = "inherit"
        self.running.append(xa)

    def advance(self) -> None:
        """Take one step of one running transaction."""
        if not self.running:
            return
        xa = self.rng.choice(self.running)
        new = [b for b in xa.branches if b.state == "new"]
        if xa.fate == "rollback" and (not new or self.rng.random() < 0.2):
            self._rollback(xa)
        elif new:
            self._prepare(xa, self.rng.choice(new))
        elif not xa.tso and xa.fate != "inherit":
            self._decide(xa)
        else:
            self._commit(xa)

    def _decide(self, xa: Distributed) -> None:
        """Give a TSO; at times one for two transactions, both of which are prepared and neither of which has begun to
        commit.
        """
        xa.tso = self.next_tso()
        ready = [
            t for t in self.running
            if t is not xa and not t.tso and t.fate == "commit" and all(b.state == "prepared" for b in t.branches)
        ]  # fmt: skip
        if ready and self.rng.random() < 0.3:
            ready[0].tso = xa.tso

    def _prepare(self, xa: Distributed, branch: Branch) -> None:
        body = xa.events(branch)
        events = self._xa(xa.gtrid, branch, body, False)
        branch.state = "prepared"
        self._places[id(branch)] = self._place(branch.node)
        branch.node.group(events, compressible=True)

    def _commit(self, xa: Distributed) -> None:
        left = [b for b in xa.branches if b.state == "prepared"]
        branch = self.rng.choice(left)
        node = branch.node
        if self.knobs.carrier == "commit-table" and xa.tso and node.source_id not in xa.told:
            self._tell(xa, node)
            if self.rng.random() < 0.7:
                return
        original, gno = None, None
        if xa.tso and self.knobs.carrier == "original-commit-timestamp":
            original = xa.tso >> 9
        elif xa.tso and self.knobs.carrier == "original-commit-timestamp-us":
            original = (xa.tso >> 22) * 1000 + (xa.tso & ((1 << 22) - 1))
        elif xa.tso and self.knobs.carrier == "gtid":
            gno = xa.tso
        text = wire.query(wire.xa_text("COMMIT", xa.gtrid, branch.bqual))
        key = (xa.tso, xa.transaction, 0, 0) if xa.tso else node.key_of_local()
        us = node.group([text], gno=gno, original_us=original)
        if xa.tso:
            node.committed((xa.tso, xa.transaction))
        branch.state = "ended"
        self.log.append(Committed(key, self._places[id(branch)], us, tuple(branch.changes)))
        self._finish(xa)

    def _tell(self, xa: Distributed, node: Node) -> None:
        """Write the commit row, at times several rows in one transaction."""
        others = [
            t
            for t in self.running
            if t.tso and node.source_id not in t.told and any(b.node is node for b in t.branches)
        ]
        told = [xa] if self.rng.random() < 0.7 else list({id(t): t for t in [xa, *others]}.values())
        node.table_ids += 1
        rng, full = self.rng, node.manner.full_metadata

        body = node.table_ids.to_bytes(6, "little") + b"\1\0\2\0" + b"\2" + rng.choice((b"\x03", b"\xff"))
        for t in told:
            t.told.add(node.source_id)
            body += pack_image(COMMIT_ROWS.columns, {"gtrid": t.gtrid, "tso": t.tso})
        events = [
            wire.query("BEGIN"),
            table_map(COMMIT_ROWS, "__cdc__", "__commit_ts__", node.table_ids, full, rng),
            Event(wire.WRITE, body),
            wire.xid(7),
        ]
        node.group(events, compressible=True)

    def _rollback(self, xa: Distributed) -> None:
        prepared = [b for b in xa.branches if b.state == "prepared"]
        if prepared:
            branch = self.rng.choice(prepared)
            branch.node.group([wire.query(wire.xa_text("ROLLBACK", xa.gtrid, branch.bqual))])
            branch.state = "ended"
        for branch in xa.branches:
            branch.state = "ended" if branch.state == "new" else branch.state
        self._finish(xa)

    def _finish(self, xa: Distributed) -> None:
        if all(b.state == "ended" for b in xa.branches):
            self.running.remove(xa)
            xa.done()

    # -- what transactions hold

    _places: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def _place(self, node: Node) -> tuple[int, int, int]:
        return node.manner.number, len(node.files) - 1, len(node.data)

    def gtrid(self) -> bytes:
        self.serial += 1
        if self.rng.random() < 0.8:
            return b"drds-%x@%016x" % (self.rng.getrandbits(62) << 2 | self.serial % 4, self.serial)
        return self.rng.randbytes(self.rng.randrange(1, 24)) + b"%d" % self.serial

    def branch(self, node: Node, keys: Keys | None = None) -> Branch:
        self.serial += 1
        bqual = b"%d" % self.serial + self.rng.randbytes(self.rng.randrange(10))
        return Branch(node, bqual, keys or Keys(self.rng, self.used))

    def _xa(self, gtrid: bytes, branch: Branch, body: list[Event], one_phase: bool) -> list[Event]:
        start = wire.query(wire.xa_text("START", gtrid, branch.bqual))
        end = wire.query(wire.xa_text("END", gtrid, branch.bqual))
        return [start, *body, end, wire.xa_prepare(gtrid, branch.bqual, one_phase)]

    def _body(self, branch: Branch) -> list[Event]:
        """Make up the statements of a branch."""
        events: list[Event] = []
        node = branch.node
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3, 8))):
            targets = self._targets(node)
            if targets:
                made, changes = statement(node, self.rng, targets, self.knobs.large, branch.keys)
                events += made
                branch.changes += changes
                branch.shards += targets
        return events

    def _targets(self, node: Node) -> list[tuple[Shard, Table]]:
        ours = [s for t in self.tables if t.open for s in t.shards(node.source_id)]
        hidden = [(Shard(s, n, None), t) for (source, s, n), t in self.shapes.items() if source == node.source_id]
        if not ours or self.rng.random() < 0.1:
            return [self.rng.choice(hidden)]
        found = [self.rng.choice(ours)]
        while self.rng.random() < 0.2:
            extra = self.rng.choice(hidden + ours)
            if all(extra[0] != shard for shard, _ in found):
                found.append(extra)
        return found

    # -- everything else

    def heartbeat(self) -> None:
        """Begin a transaction on every node that only advances time."""
        if len(self.running) > 8:
            return

        def body(branch: Branch) -> list[Event]:
            target = (Shard("__cdc__", "__cdc_heartbeat__", None), HEARTBEAT)
            return statement(branch.node, self.rng, [target], 10, branch.keys)[0]

        self.running.append(Distributed(self.gtrid(), [self.branch(n) for n in self.nodes], body))

    def alter(self) -> None:
        ddl.step(self)

    def rotate(self) -> None:
        self.rng.choice(self.nodes).begin_file()

    def stray(self) -> None:
        self.rng.choice(self.nodes).stray()

    def administration(self) -> None:
        """Write a statement that changes no table."""
        node = self.rng.choice(self.nodes)
        text = self.rng.choice(
            (
                "CREATE USER app",
                "GRANT SELECT ON *.* TO app",
                "CREATE VIEW shop_0.v AS SELECT 1",
                "ANALYZE TABLE shop_0.nothing",
                "CREATE PROCEDURE shop_0.p() BEGIN INSERT INTO t VALUES (1); SELECT 1; END",
                "DROP TRIGGER shop_0.g",
                "FLUSH TABLES",
            )
        )
        node.key_of_local()
        node.group([wire.query(text, self.rng.choice(("", "shop_0")))], ddl=True)


def manner(rng: random.Random, number: int, carrier: str) -> Manner:
    """Return how one node is configured."""
    gtids = rng.choice(("on", "on", "tagged", "off", "none"))
    if carrier != "commit-table" and gtids in ("none", "off"):
        gtids = "on"
    return Manner(
        source_id=f"dn-{number}", number=number, server_id=100 + number, sid=rng.randbytes(16),
        version=rng.choice(("9.7.0", "8.4.3", "8.0.36-log", "9.7.0-debug")), checksum=rng.random() < 0.8, gtids=gtids,
        image=rng.choice(("FULL", "FULL", "MINIMAL", "NOBLOB")), full_metadata=rng.random() < 0.6,
        compression=0.0 if gtids == "none" else rng.choice((0.0, 0.0, 0.3, 1.0)), rows_query=rng.random() < 0.5,
        timestamps=gtids != "on" or carrier.startswith("original") or rng.random() < 0.85,
    )  # fmt: skip


def new_world(rng: random.Random, knobs: Knobs, count: int) -> World:
    """Return a cluster before its first step."""
    start = 1_790_000_000
    nodes = [Node(manner(rng, i + 1, knobs.carrier), rng, start + rng.randrange(100)) for i in range(count)]
    tables = [random_table(rng, i, [n.source_id for n in nodes]) for i in range(rng.randrange(1, 5))]
    world = World(rng, knobs, nodes, tables)
    world.tso = (start * 1000 << 22) if knobs.realistic else rng.choice((0, 1, 1000))
    for node in nodes:
        for schema, name in (("ign_1", "a"), ("mysql", "gtid_executed"), ("__cdc__", "notes")):
            world.shapes[node.source_id, schema, name] = HEARTBEAT
        node.begin_file()
    for table in tables:
        world.logical.append(((0, 0, 0, 0), f"{table.schema}.{table.name}", table.logical))
    return world
