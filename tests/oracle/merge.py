"""The merge itself: order all transactions, reshape their rows, pack the output files byte by byte."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from tests.oracle import binlog
from tests.oracle.binlog import OracleError, Packed, pack
from tests.oracle.config import Cluster, load
from tests.oracle.ddl import Name, Table, databases_listed, names_database
from tests.oracle.holding import RANKS, Holding, LogicalPlace, Place, PlacedDdl, arrange, place_key
from tests.oracle.moves import Statement, in_order
from tests.oracle.order import (
    ORIGIN,
    Branch,
    Key,
    Marker,
    NodeOrder,
    choose_carrier,
    key_text,
    order_node,
    read_marker,
    read_node,
)
from tests.oracle.reshape import Change, Reshape, parse_table_map
from tests.oracle.schemas import History, PhysicalSchemas, logical_history, physical_schemas

POST_HEADER_LENGTHS = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)  # of MySQL 9.7, types 1 to 42
DUMMY_TABLE_ID = 0xFFFFFF  # of a rows event that only ends its statement


@dataclass
class Unit:
    """One output transaction: rows, or a DDL."""

    key: Key
    commit_us: int
    input_bytes: int
    gtid_flags: int
    events: list[Packed]
    kind: str = "rows"
    counts: dict[str, int] = field(default_factory=dict)  # rows per logical table
    changes: list[Change] = field(default_factory=list)
    reshaped: bool = False
    server_id: int | None = None  # where it is not the output's


@dataclass(frozen=True)
class OracleResult:
    """What a merge has to come to. Keys are 54 digits of text; `watermark` is None where nothing may come out yet."""

    files: dict[str, bytes]
    transactions: list[tuple[str, str, dict[str, int]]]
    watermark: str | None
    nodes: dict[str, str | None]
    in_doubt: dict[str, list[bytes]]  # source-id -> gtrids
    held: list[str]
    held_by: str | None
    decoded: list[Change]
    reshaped: set[str]  # logical tables with at least one table map that is not the identity
    carrier: str
    physical_ddl: list[tuple[str, str, str]]  # key, source-id, text

    @property
    def index(self) -> bytes:
        """Return the text of the index file."""
        return b"".join(b"./" + name.encode() + b"\n" for name in self.files)


def merge_case(
    cluster_yaml: Path,
    end_of_input: bool = True,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    holding: Holding | None = None,
) -> OracleResult:
    """Merge a case's inputs. With a range, only keys with start_tso <= commit TSO < stop_tso come out.

    `holding` is what the DDL of shards without markers comes to.
    """
    cluster = load(Path(cluster_yaml))
    inputs = [(node, *read_node(node)) for node in cluster.nodes]
    carrier = choose_carrier(cluster, [g for _, _, groups in inputs for g in groups])
    orders = [order_node(cluster, node, version, groups, carrier) for node, version, groups in inputs]

    split = Counter(g for o in orders for g in set(o.without_tso))
    if split and max(split.values()) > 1:
        raise OracleError(f"without a commit TSO on several nodes: {[g for g, n in split.items() if n > 1]}")

    marks = {o.node.source_id: o.watermark() for o in orders}
    known = [m for m in marks.values() if m is not None]
    watermark = min(known) if len(known) == len(orders) else None
    holder = next((s for s, m in marks.items() if m == watermark), None)

    branches = sorted((b for o in orders for b in o.branches), key=lambda b: (b.key, b.place()))
    transactions = [(key, list(group)) for key, group in groupby(branches, key=lambda b: b.key)]
    ready = [(k, t) for k, t in transactions if end_of_input or (watermark is not None and k < watermark)]
    markers = {k: m for k, t in ready if (m := read_marker(cluster, t, len(orders))) is not None}

    holding = holding or Holding()
    if not end_of_input:
        holding = holding.below(watermark or ORIGIN)
    if stop_tso is not None:
        holding = holding.below((stop_tso, 0, 0, 0))
        ready = [(k, t) for k, t in ready if k[0] < stop_tso]
    base = dict(cluster.logical.tables)
    logical = logical_history(cluster, list(markers.values()), holding.ddl)
    physical = {o.node.source_id: physical_schemas(cluster, o, base) for o in orders}
    coming = [(k, t, markers.get(k)) for k, t in ready]
    found: list[tuple[tuple[Key, int, int, Key], Unit]] = []
    for marker in (m for _, _, m in coming if m is not None and m.visible):
        found.append(((marker.key, 0, 0, marker.key), _ddl_unit(marker)))
    for (stands, rank), unit in _placed_ddl_units(
        holding.ddl, [b for o in orders for b in o.ddl if not b.rows.creates]
    ):
        found.append(((stands, rank, 0, stands), unit))
    rows = [(k, shown) for k, t, m in coming if m is None and (shown := _shown(cluster, t))]
    for place, key, group in arrange(rows, holding, lambda name: cluster.logical_name(name) is not None):
        unit = _rows_unit(cluster, key, group, logical, physical, place, holding)
        found.append(((key, RANKS, 2, key) if place is None else (*place, 1, key), unit))
    units = [unit for (key, *_), unit in sorted(found, key=lambda f: f[0]) if start_tso is None or key[0] >= start_tso]
    return OracleResult(
        files=Writer(cluster, newest(orders)).write(units),
        transactions=[(key_text(u.key), u.kind, u.counts) for u in units],
        watermark=key_text(watermark) if watermark else None,
        nodes={s: key_text(m) if m else None for s, m in marks.items()},
        in_doubt={o.node.source_id: [xid.gtrid for xid, _ in o.in_doubt] for o in orders},
        held=[key_text(k) for k, _ in transactions[len(ready) :]],
        held_by=holder if len(ready) < len(transactions) else None,
        decoded=[c for u in units for c in u.changes],
        reshaped={c.table for u in units if u.reshaped for c in u.changes},
        carrier=carrier,
        physical_ddl=[(key_text(b.key), b.node.source_id, _ddl_text(b)) for o in orders for b in o.ddl],
    )


def renamed(table: Table, renames: list[tuple[str, str]]) -> Table:
    """Return a table with other names for some columns."""
    columns = list(table.columns)
    for old, new in renames:
        columns = [replace(c, name=new) if c.name.lower() == old.lower() else c for c in columns]
    return replace(table, columns=tuple(columns))


def _ddl_text(ddl: Branch) -> str:
    texts = (binlog.parse_query(e).text for e in ddl.rows.events if e.type == binlog.QUERY)
    return next(text for text in texts if text != "BEGIN")


def newest(orders: Sequence[NodeOrder]) -> str:
    """Return the greatest server version by its numbers, then as text."""
    return max((o.version for o in orders), key=lambda v: (_numbers(v), v))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split(".")[:3])


def commit_us(key: Key, source_us: int) -> int:
    """Return the commit TSO's time where it carries one, else the source's; one that was made of the source's time says
    it to the microsecond.
    """
    millis, rest = key[0] >> 22, key[0] & 0x3FFFFF
    if millis * 1000 + rest == source_us and rest < 1000:
        return source_us
    return millis * 1000 if 10**12 <= millis < 4_294_967_296_000 else source_us


def begin_event() -> Packed:
    """Return the QUERY event that begins a transaction."""
    return binlog.QUERY, 8, struct.pack("<IIBHH", 0, 0, 0, 0, 0) + b"\0BEGIN"


def _ddl_unit(marker: Marker) -> Unit:
    schema, sql = marker.schema.encode(), marker.sql.encode()
    head = struct.pack("<IIBHH", 0, 0, len(schema), 0, len(marker.status))
    body = head + marker.status + schema + b"\0" + sql
    us = commit_us(marker.key, marker.commit_us)
    # LOG_EVENT_SUPPRESS_USE_F, as servers set it: the default database of CREATE DATABASE does not exist yet.
    flags = 8 if names_database(marker.sql) else 0
    return Unit(marker.key, us, marker.size, 1, [(binlog.QUERY, flags, body)], kind="ddl")


def _placed_ddl_units(ddls: Iterable[PlacedDdl], of_nodes: list[Branch]) -> Iterator[tuple[Place, Unit]]:
    """Yield DDL that no marker gives: with a plain session, and with the time of the node's own DDL at the same key.

    The first at a key has its bytes.
    """
    own = {b.key: b for b in of_nodes}
    sized: set[Key] = set()
    status = b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x04" + struct.pack("<HHH", 45, 45, 255)
    for ddl in sorted(ddls, key=lambda d: d.place):
        node = own.get(ddl.place[0])
        size = 0 if node is None or node.key in sized else node.rows.size
        sized.add(ddl.place[0])
        us = 0 if node is None else node.commit_us
        databases = databases_listed(ddl.sql, ddl.schema)
        own_status = status + (b"\x0c" + binlog.listed(databases) if databases else b"")
        yield (
            ddl.place,
            _ddl_unit(Marker(place_key(ddl.place, False), ddl.schema, ddl.sql, 255, True, own_status, us, size)),
        )


def _shown(cluster: Cluster, group: list[Branch]) -> list[Branch]:
    """Return the branches of which something comes out. The others count for nothing: neither for their bytes nor for
    their commit time.
    """
    return [b for b in group if any(cluster.logical_name(n) is not None for n, _ in b.maps())]


def _rows_unit(
    cluster: Cluster,
    key: Key,
    group: list[Branch],
    logical: History,
    physical: dict[str, PhysicalSchemas],
    place: Place | None,
    holding: Holding,
) -> Unit:
    """Return the output of a transaction, at its own key or at another place."""
    sees: Key | LogicalPlace = key if place is None else (*place[0], place[1])
    key = key if place is None else place_key(place, True)
    cts = f"# CTS::{key_text(key)}".encode()
    us = commit_us(key, max(b.commit_us for b in group))
    unit = Unit(key, us, sum(b.rows.size for b in group), 0, [begin_event()])
    unit.events.append((binlog.ROWS_QUERY, 0x80, bytes([len(cts)]) + cts))
    statements: list[Statement] = []
    for number, branch in enumerate(group):
        names = {
            n: [] if place is None else holding.renames(branch.node.source_id, n, branch.key, place)
            for n, _ in branch.maps()
        }
        statements.append(Statement(number))
        _branch(cluster, unit, branch, logical, sees, physical[branch.node.source_id], names, statements)
    for statement in in_order(statements) if len(group) > 1 else statements:
        unit.events += statement.events
        unit.changes += [change for change, _ in statement.changes]
    return unit


def _branch(
    cluster: Cluster,
    unit: Unit,
    branch: Branch,
    logical: History,
    sees: Key | LogicalPlace,
    physical: PhysicalSchemas,
    renames: dict[Name, list[tuple[str, str]]],
    statements: list[Statement],
) -> None:
    """Append one branch's table maps and rows, statement by statement, beginning with the last one there is."""
    ended = False
    reshapes: dict[int, tuple[Reshape, int, str] | None] = {}
    last: bytearray | None = None  # the last kept rows event of the statement
    for event in branch.rows.events:
        if ended and event.type in (binlog.TABLE_MAP, binlog.ROWS_QUERY):
            statements.append(Statement(statements[-1].branch))
            ended = False
        if event.type == binlog.TABLE_MAP:
            tmap = parse_table_map(event)
            target = cluster.logical_name((tmap.schema, tmap.table))
            reshapes[tmap.table_id] = None
            if target is None:
                continue
            where = f"{branch.node.source_id}: {branch.rows.where()}: key {key_text(branch.key)}"
            version = logical.seen(target, sees)
            if version is None or version.table is None:
                raise OracleError(f"{where}: there is no logical table {target}")
            shape = renamed(physical.at(tmap, branch, where), renames[tmap.schema, tmap.table])
            reshape = Reshape(tmap, shape, version.table, unit.commit_us, cluster.clamp)
            unit.reshaped |= not reshape.identity
            reshapes[tmap.table_id] = (reshape, version.number, ".".join(target))
            statements[-1].events.append((binlog.TABLE_MAP, 0, reshape.map_body(version.number, *target)))
        elif event.type in binlog.ROWS:
            table_id = int.from_bytes(event.body[:6], "little")
            found = None if table_id == DUMMY_TABLE_ID else reshapes[table_id]
            if found is not None:
                reshape, number, name = found
                last, changes = reshape.rows(event, number, key_text(branch.key), name)
                # A dropped event may still set a flag in it.
                statements[-1].events.append((event.type, 0, last))
                statements[-1].changes += [(change, reshape.logical.columns) for change in changes]
                unit.counts[name] = unit.counts.get(name, 0) + len(changes)
            ended = bool(event.body[6] & 1)  # STMT_END_F
            if ended:
                if last is not None:
                    last[6] |= 1
                last = None


class Writer:
    """Packs units into files."""

    def __init__(self, cluster: Cluster, version: str) -> None:
        self.cluster = cluster
        numbers = _numbers(version)
        self.version = numbers[0] * 10000 + numbers[1] * 100 + numbers[2]
        self.version_text = (version[:36] + "-binlog-merge").encode()
        self.files: dict[str, bytes] = {}
        self.out = b""

    def write(self, units: list[Unit]) -> dict[str, bytes]:
        """Return all files. No unit, no file."""
        files: list[list[tuple[int, Unit]]] = []
        full = True
        for rank, unit in enumerate(units, 1):
            if full:
                files.append([])
            files[-1].append((rank, unit))
            full = sum(u.input_bytes for _, u in files[-1]) >= self.cluster.max_size
        names = [f"{self.cluster.basename}.{i + 1:06d}" for i in range(len(files))]
        for i, content in enumerate(files):
            self._file(content, names[i + 1] if i + 1 < len(files) else None)
            self.files[names[i]] = self.out
        return self.files

    def _file(self, units: list[tuple[int, Unit]], following: str | None) -> None:
        self.out = b"\xfebin"
        first, last = (unit.commit_us // 1_000_000 for unit in (units[0][1], units[-1][1]))
        body = struct.pack("<H50sIB", 4, self.version_text, 0, 19) + POST_HEADER_LENGTHS + b"\x01"
        self._event(first, binlog.FORMAT_DESCRIPTION, 0, body)
        rank = units[0][0]
        executed = struct.pack("<Q", 0)
        if rank > 1 and not self.cluster.anonymous:
            executed = struct.pack("<Q16sQQQ", 1, self.cluster.cluster_uuid, 1, 1, rank)
        self._event(first, binlog.PREVIOUS_GTIDS, 0x80, executed)
        for sequence, (rank, unit) in enumerate(units, 1):
            self._unit(rank, sequence, unit)
        if following is not None:
            self._event(last, binlog.ROTATE, 0, struct.pack("<Q", 4) + following.encode())

    def _unit(self, rank: int, sequence: int, unit: Unit) -> None:
        events = list(unit.events)
        if unit.kind != "ddl":
            events.append((binlog.XID, 0, struct.pack("<Q", rank)))
        rest = sum(19 + len(body) + 4 for _, _, body in events)
        anonymous = self.cluster.anonymous
        sid, gno = (bytes(16), 0) if anonymous else (self.cluster.cluster_uuid, rank)
        head = struct.pack("<B16sQBQQ", unit.gtid_flags, sid, gno, 2, sequence - 1, sequence)
        head += unit.commit_us.to_bytes(7, "little")
        length = next(
            pack(total) for width in (1, 3, 4, 9) if len(pack(total := rest + 19 + len(head) + width + 4 + 4)) == width
        )
        gtid = head + length + struct.pack("<I", self.version)
        seconds = unit.commit_us // 1_000_000
        server = self.cluster.server_id if unit.server_id is None else unit.server_id
        self._event(seconds, binlog.ANONYMOUS_GTID if anonymous else binlog.GTID, 0, gtid, server)
        for kind, flags, body in events:
            self._event(seconds, kind, flags, bytes(body), server)

    def _event(self, timestamp: int, kind: int, flags: int, body: bytes, server: int | None = None) -> None:
        size = 19 + len(body) + 4
        position = (len(self.out) + size) % 2**32
        raw = struct.pack("<IBIIIH", timestamp, kind, server or self.cluster.server_id, size, position, flags) + body
        self.out += raw + struct.pack("<I", zlib.crc32(raw))
