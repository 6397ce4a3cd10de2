"""Made-up clusters: random histories of local and distributed transactions, written as binlog files byte by byte.

A history keeps the rules of a real cluster and no others: a commit TSO is drawn once all branches are prepared, commits
reach the nodes in any order and at any time, branches may be rolled back or stay prepared. It needs no server, so there
can be as many as wanted; the oracle says what must come of each.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.merge_e2e.editing import (
    FORMAT_DESCRIPTION,
    GTID,
    PREVIOUS_GTIDS,
    QUERY,
    ROTATE,
    ROWS_QUERY,
    STOP,
    TABLE_MAP,
    XA_PREPARE,
    XID,
    Log,
    Piece,
)
from tests.simulator.wire import previous_gtids

FIRST_TSO = 1_790_000_000_000 << 22
POST_HEADER_LENGTHS = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)
COMMIT_TABLE, MARKERS = ("__cdc__", "__commit_ts__"), ("__cdc__", "__cdc_heartbeat__")


@dataclass(frozen=True)
class Style:
    """What kind of cluster is made up. `reshaped` gives the logical table another column order and one column more."""

    nodes: int = 2
    steps: int = 200
    carrier: str = "commit-table"
    reshaped: bool = False
    rotate: float = 0.01
    max_size: int = 1 << 29
    large: float = 0.0  # share of rows with 3000 bytes
    altering: bool = False  # shards get, lose and rename columns


INT, TEXT = b"\x03", b"\x0f"
Columns = tuple[tuple[str, bytes], ...]
PLAIN: Columns = (("id", INT), ("name", TEXT))


@dataclass(frozen=True)
class Alteration:
    """What a shard ran, where it stands in its node's log (by GTID number), and the columns it renamed."""

    node: int
    table: tuple[str, str]
    gno: int
    renames: tuple[tuple[str, str], ...] = ()


@dataclass
class _Node:
    """One node's log as it grows; files that are finished, and the one being written."""

    number: int
    rng: random.Random
    files: list[Log] = field(default_factory=list)
    events: list[Piece] = field(default_factory=list)
    gno: int = 0
    sequence: int = 0
    logged: set[int] = field(default_factory=set)  # the numbers of its GTIDs
    clock: int = 1_790_000_000
    rows: int = 0
    unsteady: bool = False

    def event(self, kind: int, body: bytes, flags: int = 0) -> None:
        self.events.append(Piece(self.clock, kind, self.number, flags, body))

    def begin_file(self) -> None:
        number = len(self.files) + 1
        body = struct.pack("<H50sIB", 4, b"9.7.4", self.clock + number, 19) + POST_HEADER_LENGTHS + b"\x01"
        self.event(FORMAT_DESCRIPTION, body)
        self.event(PREVIOUS_GTIDS, previous_gtids({(bytes([self.number]) * 16, ""): self.logged}), 0x80)
        self.sequence = 0

    def end_file(self) -> None:
        if self.rng.random() < 0.8:
            self.event(ROTATE, struct.pack("<Q", 4) + b"binlog.%06d" % (len(self.files) + 2))
        else:
            self.event(STOP, b"")
        self.files.append(Log(tuple(self.events), True).with_transaction_lengths())
        self.events = []

    def gtid(self, original_us: int | None = None, gno: int | None = None) -> None:
        self.clock += self.rng.choice([0, 0, 1])
        self.gno += 1
        immediate = self.clock * 1_000_000 + self.gno
        if self.unsteady:  # transactions of one microsecond, a clock that steps back, the time of a replica's source
            immediate = self.clock * 1_000_000 + self.rng.choice([0, 0, 1, 999, 1000, -2_000_000, -30_000_000])
            original_us = self.rng.choice([None, None, 0, immediate - 5_000_000])
        times = immediate.to_bytes(7, "little")
        if original_us is not None:
            times = (immediate | 1 << 55).to_bytes(7, "little") + original_us.to_bytes(7, "little")
        self.sequence += 1
        self.logged.add(gno or self.gno)
        head = struct.pack("<B16sQBQQ", 1, bytes([self.number]) * 16, gno or self.gno, 2, 0, self.sequence)
        self.event(GTID, head + times + b"\xfc\x00\x04" + struct.pack("<I", 90704))

    def query(self, text: str, schema: str = "") -> None:
        body = struct.pack("<IIBHH", 1, 0, len(schema), 0, 0) + schema.encode() + b"\0" + text.encode()
        self.event(QUERY, body)


@dataclass
class _Branch:
    node: _Node
    xid: str
    gtrid: bytes


@dataclass
class _Transaction:
    gtrid: bytes
    unprepared: list[_Branch]
    prepared: list[_Branch] = field(default_factory=list)
    tso: int | None = None
    rows_written: set[int] = field(default_factory=set)
    rolled_back: bool = False


class Simulator:
    """Plays one random history; `write` leaves it as a case folder with its cluster.yaml."""

    def __init__(self, seed: int, style: Style | None = None) -> None:
        self.style = style or Style()
        self.rng = random.Random(seed)
        unsteady = self.style.carrier == "gtid-time"
        self.nodes = [_Node(n + 1, self.rng, unsteady=unsteady) for n in range(self.style.nodes)]
        self.running: list[_Transaction] = []
        self.tso = FIRST_TSO
        self.count = 0
        self.columns: dict[tuple[int, tuple[str, str]], Columns] = {}  # of tables that were altered
        self.alterations: list[Alteration] = []
        for node in self.nodes:
            node.begin_file()
        for _ in range(self.style.steps):
            self._step()

    def _step(self) -> None:
        rng = self.rng
        steps: list[Callable[[], None]] = [self._begin, self._local, self._local, *[self._go_on] * 14, self._ddl]
        rng.choice(steps)()
        if rng.random() < self.style.rotate:
            node = rng.choice(self.nodes)
            node.end_file()
            node.begin_file()

    # --- transactions

    def _local(self) -> None:
        node = self.rng.choice(self.nodes)
        kind = self.rng.random()
        node.gtid()
        if kind < 0.1:
            gtrid = self._new_gtrid()
            xid = self._xid(gtrid, 0)
            node.query(f"XA START {xid}")
            self._statements(node)
            node.query(f"XA END {xid}")
            node.event(XA_PREPARE, b"\x01" + self._xid_body(gtrid, 0))
            return
        node.query("BEGIN")
        self._statements(node)
        if kind < 0.2:
            node.query("COMMIT")
        else:
            node.event(XID, struct.pack("<Q", node.gno))

    def _ddl(self) -> None:
        if self.style.altering:
            self._alter(self.rng.choice(self.nodes), (f"s_{self.rng.randrange(2)}", f"t_{self.rng.randrange(2)}"))
        elif self.rng.random() < 0.3:
            node = self.rng.choice(self.nodes)
            node.gtid()
            node.query(f"CREATE TABLE `hidden`.`d{node.gno}` (id INT)", "hidden")

    def _alter(self, node: _Node, table: tuple[str, str]) -> None:
        """Give a shard another column, take one away, or rename one; prepared transactions would not let it."""
        if any(branch.node is node for running in self.running for branch in running.prepared):
            return
        columns = list(self.columns.get((node.number, table), PLAIN))
        at = self.rng.randrange(len(columns))
        old, kind = columns[at]
        names = [name for name in ("a0", "a1", "a2", "a3") if all(name != known for known, _ in columns)]
        new = self.rng.choice(names or ["a4"])
        renames: tuple[tuple[str, str], ...] = ()
        action = self.rng.choice(["ADD", "ADD", "DROP", "RENAME"])
        if action == "ADD" and names:
            columns.insert(at + 1, (new, INT))
            action = f"ADD COLUMN `{new}` int DEFAULT '5' AFTER `{old}`"
        elif action == "RENAME" and names and kind == INT:
            columns[at], renames = (new, kind), ((old, new),)
            action = f"RENAME COLUMN `{old}` TO `{new}`"
        elif len(columns) > 2 and kind == INT:
            del columns[at]
            action = f"DROP COLUMN `{old}`"
        else:
            return
        node.gtid()
        node.query(f"ALTER TABLE `{table[1]}` {action}", table[0])
        self.columns[node.number, table] = tuple(columns)
        self.alterations.append(Alteration(node.number, table, node.gno, renames))

    def _begin(self) -> None:
        gtrid = self._new_gtrid()
        branches = []
        for node in self.rng.sample(self.nodes, self.rng.randint(1, len(self.nodes))):
            for part in range(1 if self.style.carrier == "gtid" else self.rng.choice([1, 1, 2, 3])):
                branches.append(_Branch(node, self._xid(gtrid, part), gtrid))
        self.rng.shuffle(branches)
        self.running.append(_Transaction(gtrid, branches))

    def _go_on(self) -> None:
        """Take one running transaction one event group further."""
        if not self.running:
            return
        transaction = self.rng.choice(self.running)
        if transaction.unprepared:
            branch = transaction.unprepared.pop()
            branch.node.gtid()
            branch.node.query(f"XA START {branch.xid}")
            self._statements(branch.node)
            branch.node.query(f"XA END {branch.xid}")
            branch.node.event(XA_PREPARE, b"\x00" + self._xid_body_of(branch))
            transaction.prepared.append(branch)
        elif transaction.rolled_back or (transaction.tso is None and self.rng.random() < 0.12):
            transaction.rolled_back = True
            branch = transaction.prepared.pop(self.rng.randrange(len(transaction.prepared)))
            branch.node.gtid()
            branch.node.query(f"XA ROLLBACK {branch.xid}")
        elif transaction.tso is None:
            self._decide(transaction)
        else:
            self._commit(transaction)
        if not transaction.unprepared and not transaction.prepared:
            self.running.remove(transaction)

    def _decide(self, transaction: _Transaction) -> None:
        """Draw the commit TSO; now and then two transactions draw the same, but where it is their GTID."""
        self.tso += self.rng.choice([1, 7, 1 << 22, 3 << 22]) << (9 if self._by_timestamp else 0)
        transaction.tso = self.tso
        for other in self.running if self.style.carrier != "gtid" else ():
            if other.tso is None and not other.unprepared and not other.rolled_back and self.rng.random() < 0.15:
                other.tso = self.tso

    def _commit(self, transaction: _Transaction) -> None:
        assert transaction.tso is not None
        branch = self.rng.choice(transaction.prepared)
        node = branch.node
        if self.style.carrier == "commit-table" and node.number not in transaction.rows_written:
            self._commit_row(node, transaction)
            if self.rng.random() < 0.5:
                return
        original = transaction.tso >> 9 if self._by_timestamp else None
        node.gtid(original, transaction.tso if self.style.carrier == "gtid" else None)
        node.query(f"XA COMMIT {branch.xid}")
        transaction.prepared.remove(branch)

    @property
    def _by_timestamp(self) -> bool:
        return self.style.carrier == "original-commit-timestamp"

    def _commit_row(self, node: _Node, transaction: _Transaction) -> None:
        """Write the commit row, sometimes together with those of other transactions that commit on this node."""
        together = [transaction]
        for other in self.running:
            waits = other.tso is not None and any(b.node is node for b in other.prepared)
            if other is not transaction and waits and node.number not in other.rows_written and self.rng.random() < 0.3:
                together.append(other)
        node.gtid()
        node.query("BEGIN")
        if self.rng.random() < 0.3:
            node.event(ROWS_QUERY, b"\x05# row")
        table_id = struct.pack("<Q", 77)[:6]
        node.event(TABLE_MAP, self._table_map(table_id, COMMIT_TABLE, b"\x0f\x08", struct.pack("<H", 64)))
        rows = b""
        for one in together:
            assert one.tso is not None
            rows += b"\x00" + bytes([len(one.gtrid)]) + one.gtrid + struct.pack("<Q", one.tso)
            one.rows_written.add(node.number)
        node.event(30, table_id + struct.pack("<HHB", 1, 2, 2) + b"\xff" + rows)
        node.event(XID, struct.pack("<Q", node.gno))

    def _new_gtrid(self) -> bytes:
        self.count += 1
        if self.rng.random() < 0.5:
            return b"drds-%x@%x" % (self.rng.getrandbits(62), self.count)
        return b"trx-%d" % self.count

    def _xid(self, gtrid: bytes, part: int) -> str:
        return f"X'{gtrid.hex()}',X'{b'part-%d'.hex() if part < 0 else (b'part-%d' % part).hex()}',1"

    def _xid_body(self, gtrid: bytes, part: int) -> bytes:
        bqual = b"part-%d" % part
        return struct.pack("<III", 1, len(gtrid), len(bqual)) + gtrid + bqual

    def _xid_body_of(self, branch: _Branch) -> bytes:
        return self._xid_body(branch.gtrid, int(bytes.fromhex(branch.xid.split("'")[3])[5:]))

    # --- rows

    def _table_map(self, table_id: bytes, name: tuple[str, str], types: bytes, metadata: bytes) -> bytes:
        schema, table = (part.encode() for part in name)
        names = bytes([len(schema)]) + schema + b"\0" + bytes([len(table)]) + table + b"\0"
        nulls = b"\xff" * ((len(types) + 7) // 8)
        return table_id + b"\x01\x00" + names + bytes([len(types)]) + types + bytes([len(metadata)]) + metadata + nulls

    def _statements(self, node: _Node) -> None:
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            if self.rng.random() < 0.15:
                node.query("SAVEPOINT `s`")
            self._statement(node)

    def _statement(self, node: _Node) -> None:
        """Write a statement on one to three tables, some of which never come out; its last rows event says so."""
        rng = self.rng
        names = [
            rng.choice([(f"s_{rng.randrange(2)}", f"t_{rng.randrange(2)}"), ("hidden", "h"), MARKERS, ("s_0", "t_0")])
            for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        if rng.random() < 0.3:
            node.event(ROWS_QUERY, b"\x0a# by users")
        ids = [struct.pack("<Q", 100 + i + node.gno % 3)[:6] for i in range(len(names))]
        shapes: dict[bytes, Columns] = {}
        for table_id, name in zip(ids, names, strict=True):
            shapes[table_id] = columns = self.columns.get((node.number, name), PLAIN)
            types = b"".join(kind for _, kind in columns)
            metadata = b"".join(struct.pack("<H", 4000) for _, kind in columns if kind == TEXT)
            node.event(TABLE_MAP, self._table_map(table_id, name, types, metadata))
        parts = [rng.choice(ids) for _ in range(rng.choice([1, 1, 2, 4]))]
        for i, table_id in enumerate(parts):
            self._rows(node, table_id, shapes[table_id], ends=i == len(parts) - 1)

    def _rows(self, node: _Node, table_id: bytes, columns: Columns, ends: bool) -> None:
        rng = self.rng
        kind = rng.choice([30, 30, 31, 32, 23, 24, 25])
        images = 2 if kind in (24, 31) else 1
        present = [rng.choice([0xFF, 0xFF, 0xFD, 0xFE]) for _ in range(images)]
        if kind in (23, 30) or self.style.altering:
            present = [0xFF] * images
        body = table_id + struct.pack("<H", int(ends)) + (b"\x02\x00" if kind >= 30 else b"")
        body += bytes([len(columns), *present])
        for _ in range(rng.choice([1, 1, 2, 5])):
            for bitmap in present:
                body += self._image(node, columns, bitmap)
        node.event(kind, body)

    def _image(self, node: _Node, columns: Columns, bitmap: int) -> bytes:
        node.rows += 1
        cells, nulls, place = b"", 0, 0
        for column, (_, kind) in enumerate(columns):
            if not bitmap >> column & 1:
                continue
            if self.rng.random() < 0.15:
                nulls |= 1 << place
            elif kind == INT:
                cells += struct.pack("<i", self.rng.getrandbits(31))
            else:
                length = 3000 if self.rng.random() < self.style.large else self.rng.randrange(60)
                cells += struct.pack("<H", length) + self.rng.randbytes(1) * length
            place += 1
        return bytes([nulls | 0xFF << place & 0xFF]) + cells

    # --- files

    def write(self, folder: Path) -> Path:
        """Write the case; returns the path of its configuration."""
        shard = (
            "CREATE TABLE `{}` (`id` int DEFAULT NULL, `name` varchar(1000) DEFAULT NULL) DEFAULT CHARSET=utf8mb4;\n"
        )
        logical = "`name` varchar(1000) DEFAULT NULL, `extra` int NOT NULL DEFAULT '7', `id` int DEFAULT NULL"
        (folder / "base").mkdir(parents=True, exist_ok=True)
        base = "CREATE DATABASE `s`;\nUSE `s`;\n"
        base += f"CREATE TABLE `t` ({logical}) DEFAULT CHARSET=utf8mb4;\n" if self.style.reshaped else shard.format("t")
        (folder / "base" / "logical.sql").write_text(base)
        physical = "".join(
            f"CREATE DATABASE `s_{s}`;\nUSE `s_{s}`;\n" + "".join(shard.format(f"t_{t}") for t in range(2))
            for s in range(2)
        )
        for node in self.nodes:
            files = [*node.files, Log(tuple(node.events), True).with_transaction_lengths()]
            home = folder / "nodes" / f"dn-{node.number}"
            home.mkdir(parents=True, exist_ok=True)
            for number, log in enumerate(files, 1):
                log.save(home / f"binlog.{number:06d}")
            (folder / "base" / f"dn-{node.number}.sql").write_text(physical)
        ids = [f"dn-{node.number}" for node in self.nodes]
        values = {
            "version": 1,
            "name": "made-up",
            "nodes": [{"source-id": i, "files": [f"nodes/{i}/binlog.*"]} for i in ids],
            "routes": [
                {"schema-pattern": "s_*", "table-pattern": "t_*", "target-schema": "s", "target-table": "t"},
            ],
            "ignore-schemas": ["hidden"],
            "commit-tso": {"carrier": self.style.carrier},
            "markers": {"missing": "warn"},  # its DDL never reaches the logical table, or by a test's own reckoning
            "base": {"logical": "base/logical.sql", "physical": {i: f"base/{i}.sql" for i in ids}},
            "output": {"max-size": self.style.max_size, "server-id": 4711, "dependencies": "commit-order"},
        }
        path = folder / "cluster.yaml"
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        return path
