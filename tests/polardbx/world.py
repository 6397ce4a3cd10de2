"""A simulated PolarDB-X cluster: its nodes, its schemas and tables, and what it writes of its own accord.

Steps on data nodes are made here and elsewhere, each at once; what they mean logically is kept beside them.
Transactions that go on for longer are in `under_way`, changes of tables and nodes in `changes`.
"""

import random
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.polardbx.cluster import (
    BROADCAST,
    MACHINERY,
    OWN,
    SHARDED,
    SINGLE,
    SYNC_POINT,
    Group,
    Key,
    Logical,
    Shard,
)
from tests.polardbx.columns import keyed
from tests.polardbx.knobs import Knobs
from tests.polardbx.splice import Dialect, Stamp
from tests.polardbx.steps import Ddl, Step, Values, Write, Xid
from tests.simulator.columns import Table, Value

T = TypeVar("T")
FIRST_TSO = 1_790_000_000_000 << 22
LOCAL = FIRST_TSO - 77  # what data nodes give transactions of their own, where nothing else is said
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
WHEN = (2026, 9, 21, 1, 2, 3, 0)


@dataclass(eq=False)
class Branch:
    node: str
    xid: Xid
    writes: list[tuple[Write, Shard | None]]
    state: str = "new"  # new, prepared, ended
    place: tuple[int, int] = (0, 0)

    @property
    def rows(self) -> tuple[Write, ...]:
        return tuple(write for write, _ in self.writes)


@dataclass(eq=False)
class Running:
    """A transaction under way. `held` and `shards` are what it holds, `done` is for what follows its commit.

    The `primary` branch, where there is one, is not prepared: it commits with its row of the transaction log.
    """

    gtrid: bytes
    branches: list[Branch]
    tso: int = 0
    fate: str = "commit"  # commit, rollback, doubt
    held: list[tuple[Logical, int]] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    done: Callable[[Key], None] = lambda key: None
    hidden: bool = False  # it never comes out: a message of the cluster
    window: bool = False  # a sync point
    untimed: bool = False  # it gets no commit TSO
    primary: Branch | None = None

    @property
    def number(self) -> int:
        return int(self.gtrid[5 : self.gtrid.index(b"@")], 16) & (2**63 - 1)

    @property
    def key(self) -> Key:
        return (self.tso, self.number, 0, 0)


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

    `apply` changes the tables that are there, by name, as MySQL does. `server` is the server id its client asked for.
    """

    key: Key
    sql: str
    visibility: int
    apply: Callable[[dict[str, "State"]], None]
    server: int | None = None


Wanted = tuple[Logical, int, Mapping[str, Value] | None]  # a row, and what it becomes
State = dict[int, dict[str, Value]]


@dataclass
class World:
    rng: random.Random
    knobs: Knobs
    nodes: list[str] = field(default_factory=list)  # of the cluster now
    numbers: dict[str, int] = field(default_factory=dict)  # of all that ever were in it
    images: dict[str, str] = field(default_factory=dict)  # node -> its binlog_row_image
    dialects: dict[str, Dialect] = field(default_factory=dict)
    windows: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # node -> greatest at a sync point's prepare
    cdc: dict[str, list[str]] = field(default_factory=dict)  # node -> its schemas with the markers' tables
    suffix: str = ""
    schemas: dict[str, list[Group]] = field(default_factory=dict)
    tables: list[Logical] = field(default_factory=list)
    shadows: list[Shard] = field(default_factory=list)  # of stress tests: tables that no topology names
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
    changing: str = ""  # its name
    last_marker: dict[str, Value] | None = None
    beats: dict[tuple[str, str], Values] = field(default_factory=dict)  # (node, schema) -> the heartbeat's row there
    heartbeats: list[Key] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)  # by name: changes that came to their end, and what is rare

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

    def moved(self, node: str) -> bool:
        """Tell whether a sync point is under way on a node, behind whose prepare the greatest key has risen."""
        return self.windows.get(node, self.greatest[node])[:2] != self.greatest[node][:2]

    def follow_inside(self, node: str) -> Key:
        """Return the key of a transaction without a TSO in such a window: it follows what was greatest before."""
        self.did["local_in_window"] += 1
        tso, transaction, followers = self.windows[node]
        self.windows[node] = (tso, transaction, followers + 1)
        return (tso, transaction, followers + 1, self.numbers[node])

    def saw(self, node: str, key: Key) -> None:
        old = self.greatest[node]
        if key[:2] > old[:2]:
            if node in self.windows and self.windows[node][:2] == old[:2]:
                self.windows[node] = old
            self.greatest[node] = (*key[:2], 0)

    def do(self, step: Step) -> tuple[int, int]:
        self.steps.append(step)
        return self.numbers[step.node], len(self.steps)

    def ddl(self, node: str, schema: str, sql: str) -> None:
        """Run a physical DDL: it takes a place in its node's order like any transaction without a TSO."""
        self.follow(node)
        self.do(Ddl(node, schema, sql))

    def hint(self, sequence: int, server: int | None = None, sub: int = 0) -> str:
        if not self.knobs.hints:
            return ""
        return f"/*DRDS /11.196.59.141/{self.serial:x}1000-{sequence}/{sub}/{server or ''}/ */ "

    def server(self) -> int | None:
        """Return the server id that a transaction's client asks for; mostly it does not."""
        return self.rng.randrange(1, 2**32) if self.knobs.hints and self.rng.random() < 0.1 else None

    def _any(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices) if len(choices) > 1 else choices[0]

    # -- nodes, schemas, tables

    def add_node(self) -> str:
        """Make a node with the cluster's own tables, which all exist before anything is announced on it."""
        node = f"dn-{len(self.numbers) + 1}"
        self.numbers[node] = len(self.numbers) + 1
        self.greatest[node] = (0, 0, 0)
        self.images[node] = self._any(self.knobs.images)
        self.dialects[node] = self._any(self.knobs.dialects)
        used = sum(map(len, self.cdc.values()))
        self.cdc[node] = [f"__cdc___{used + i:06d}" for i in range(self.rng.choice((1, 1, 1, 2)))]
        for schema in self.cdc[node]:
            self.create_schema(node, schema)
            for name, table in OWN.items():
                self.ddl(node, schema, table.create(f"`{name}_{self.suffix}`"))
            if self.knobs.extras:
                self.ddl(node, schema, SYNC_POINT.create(f"`__polardbx_sync_point___{self.suffix}`"))
        return node

    def create_schema(self, node: str, schema: str, again: str = "") -> None:
        """Make a physical schema; with `again` ("IF NOT EXISTS ") one that may have been there before."""
        self.ddl(node, "", f"CREATE DATABASE {again}`{schema}`")
        if self.knobs.extras or self.knobs.log:
            for name, table in MACHINERY.items():
                self.ddl(node, schema, table.create(f"{again}`{name}`"))

    def new_group(self, schema: str, node: str, name: str, physical: str) -> Group:
        self.create_schema(node, physical)
        group = Group(name, node, physical)
        self.schemas.setdefault(schema, []).append(group)
        return group

    def new_logical(self, schema: str, name: str, kind: int, table: Table) -> Logical:
        """Return a logical table with its shards, which nobody has made yet."""
        logical = Logical(schema, name, kind, table, [])
        groups, physical = self.schemas[schema], keyed(table)
        if kind == SINGLE:
            logical.shards = [Shard(groups[-1], f"{name}_{self.word()}", physical)]
        elif kind == BROADCAST:
            shards = [Shard(group, f"{name}_{self.word()}", physical) for group in groups[:-1]]
            logical.shards, logical.copies = shards[:1], shards[1:]
            logical.listed = self.knobs.extras and self.rng.random() < 0.5
        else:
            logical.shards = self.sharded(logical, name, self.rng.randrange(2, 7))
        return logical

    def sharded(self, logical: Logical, name: str, count: int) -> list[Shard]:
        """Return physical tables, as the logical table's are now, spread over its groups."""
        groups, word = self.schemas[logical.schema][:-1], self.word()
        shape = logical.shards[0].table if logical.shards else keyed(logical.table)
        return [Shard(groups[i % len(groups)], f"{name}_{word}_{i:05d}", shape) for i in range(count)]

    def create_shard(self, shard: Shard) -> None:
        self.ddl(shard.node, shard.group.schema, shard.table.create(f"`{shard.name}`"))

    def add_index(self, table: Logical) -> None:
        """Make a global secondary index of a table without rows; it is as wide as the table here."""
        if table.kind == SHARDED and not table.index:
            table.index = self.sharded(table, f"g_{table.name}", 2)
            for shard in table.index:
                self.create_shard(shard)

    # -- what the cluster tells

    def everywhere(
        self, name: str, values: dict[str, Value], nodes: Sequence[str] = (), table: Table | None = None, most: int = 9
    ) -> Running:
        """Begin a transaction that writes a row into every copy, or `most` a node, of one of the cluster's own tables.

        It holds nothing, and nothing of it comes out.
        """
        gtrid = self.gtrid()
        branches = []
        for node in nodes or self.nodes:
            for schema in self.cdc[node][:most]:
                write = Write(schema, f"{name}_{self.suffix}", table or OWN[name], None, values, 1, self.hint(1))
                xid = Xid(gtrid, schema.upper().encode() + b"_GROUP@0001")
                branches.append(Branch(node, xid, [(write, None)]))
        running = Running(gtrid, branches, hidden=True)
        self.running.append(running)
        return running

    def instruct(self, kind: str, content: str, done: Callable[[Key], None], nodes: Sequence[str] = ()) -> None:
        """Begin a transaction that tells the readers of the binlogs something."""
        self.serial += 1
        values: dict[str, Value] = {
            "ID": self.serial, "INSTRUCTION_TYPE": kind, "INSTRUCTION_CONTENT": content, "GMT_CREATED": WHEN,
            "INSTRUCTION_ID": f"{kind}:{self.serial}",
        }  # fmt: skip
        self.everywhere("__cdc_instruction__", values, nodes).done = done

    def heartbeat(self) -> None:
        """Begin a transaction on every node that only advances time: REPLACE of one row."""
        if len(self.running) > 8 or any(r.branches[0].xid.bqual[:5] == b"__CDC" for r in self.running):
            return
        self.serial += 1
        when = (2026, 9, 21, 1, 2, 3, self.serial % 1000 * 1000)
        values: dict[str, Value] = {"id": 1, "sname": "heartbeat", "gmt_modified": when}
        running = self.everywhere("__cdc_heartbeat__", values)
        running.done = self.heartbeats.append
        for branch in running.branches:
            ((write, _),) = branch.writes
            place = (branch.node, write.schema)
            branch.writes = [(replace(write, before=self.beats.get(place)), None)]
            self.beats[place] = values
