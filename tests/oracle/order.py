"""From groups to branches with order keys, per node: carriers, inheritance, watermarks (design: "Order")."""

import json
from dataclasses import dataclass, field

from tests.oracle.binlog import TABLE_MAP, WRITE, Event, Group, OracleError, Xid, groups_of, parse_query, read_file
from tests.oracle.config import Cluster, Node
from tests.oracle.ddl import Name, databases_listed
from tests.oracle.reshape import Image, Reshape, TableMap, parse_table_map, table_of_map

Key = tuple[int, int, int, int]
ORIGIN: Key = (0, 0, 0, 0)


def key_text(key: Key) -> str:
    """Return the 54 digits of an order key."""
    return f"{key[0]:019d}{key[1]:019d}{key[2]:010d}{key[3]:06d}"


@dataclass(frozen=True)
class Branch:
    """One node's part of a transaction: where its rows are, and when it committed."""

    key: Key
    node: Node
    rows: Group
    commit_us: int

    def place(self) -> tuple[int, int, int]:
        return self.node.number, self.rows.file_number, self.rows.start

    def maps(self) -> "list[tuple[Name, TableMap]]":
        """Return the table maps of its rows."""
        return table_maps(self.rows)


@dataclass
class NodeOrder:
    """Everything one node's binlog says."""

    node: Node
    version: str
    branches: list[Branch] = field(default_factory=list)
    ddl: list[Branch] = field(default_factory=list)
    in_doubt: list[tuple[Xid, Key]] = field(default_factory=list)  # with the greatest key committed before the prepare
    without_tso: list[bytes] = field(default_factory=list)  # gtrids of XA COMMITs that inherit
    greatest: tuple[int, int] = (0, 0)
    counter: int = 0
    by_time: bool = False

    def watermark(self) -> Key | None:
        """Return the least key that may still arrive; None while the node has shown no commit TSO."""
        if self.greatest == (0, 0):
            return None
        marks: list[Key] = [(*self.greatest, self.counter + 1, self.node.number)]
        if self.in_doubt and not self.by_time:
            marks.append((self.in_doubt[0][1][0] + 1, 0, 0, 0))
        return min(marks)


def table_maps(group: Group) -> list[tuple[Name, TableMap]]:
    """Return the table maps of a group."""
    found = [parse_table_map(e) for e in group.events if e.type == TABLE_MAP]
    return [((t.schema, t.table), t) for t in found]


def written_rows(group: Group, schema: str, table: str, exact: bool) -> list[tuple[TableMap, Image]]:
    """Return the after images that a group inserts into a table; `exact` false also takes names that only begin so."""
    maps: dict[int, TableMap] = {}
    found: list[tuple[TableMap, Image]] = []
    for event in group.events:
        if event.type == TABLE_MAP:
            tmap = parse_table_map(event)
            maps[tmap.table_id] = tmap
        elif event.type in WRITE:
            table_id = int.from_bytes(event.body[:6], "little")
            if table_id not in maps:
                continue  # the dummy that ends a statement
            tmap = maps[table_id]
            hit = (tmap.schema, tmap.table) == (schema, table)
            if hit or (not exact and tmap.schema.startswith(schema) and tmap.table.startswith(table)):
                found += [(tmap, image) for image in _after_images(event, tmap)]
    return found


def _after_images(event: Event, tmap: TableMap) -> list[Image]:
    shape = table_of_map(tmap)
    return [c.after for c in Reshape(tmap, shape, shape, 0).rows(event, 0, "", "")[1]]


def _commit_rows(group: Group, cluster: Cluster) -> dict[bytes, int]:
    """Return gtrid -> commit TSO of the rows a group adds to the commit table (first two columns)."""
    found = {}
    for tmap, image in written_rows(group, *cluster.commit_table, exact=True):
        gtrid, tso = image[0], image[1]
        assert isinstance(gtrid, bytes) and isinstance(tso, bytes)
        width = 2 if int.from_bytes(tmap.columns[0].meta, "little") > 255 else 1
        found[gtrid[width:]] = int.from_bytes(tso, "little")
    return found


def transaction_id(gtrid: bytes) -> int:
    """Return the number a gtrid carries (PolarDB-X: drds-<hex>@…), else its FNV-1a hash; 63 bits either way."""
    if gtrid.startswith(b"drds-") and b"@" in gtrid:
        return int(gtrid[5 : gtrid.index(b"@")], 16) & (2**63 - 1)
    value = 0xCBF29CE484222325
    for byte in gtrid:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value & (2**63 - 1)


def read_node(node: Node) -> tuple[str, list[Group]]:
    """Return the server version of the first file and all groups of a node."""
    versions, groups = [], list[Group]()
    for number, path in enumerate(node.files):
        version, events = read_file(path)
        versions.append(version)
        groups += groups_of(path, number, events)
    return versions[0], groups


def choose_carrier(cluster: Cluster, groups: list[Group]) -> str:
    """Return the carrier in force; `auto` looks at all inputs."""
    if cluster.carrier != "auto":
        return cluster.carrier
    if any(name == cluster.commit_table for g in groups if g.kind == "local" for name, _ in table_maps(g)):
        return "commit-table"
    for g in groups:
        if g.kind == "commit" and g.gtid and g.gtid.original_us not in (None, g.gtid.immediate_us):
            # Microseconds stay below 2**52 until 2112; a TSO of our time >> 9 is above.
            large = g.gtid.original_us is not None and g.gtid.original_us >= 1 << 52
            return "original-commit-timestamp" if large else "original-commit-timestamp-us"
    return "inherit"


def _commit_tso(carrier: str, group: Group, rows: dict[bytes, int]) -> int | None:
    assert group.xid is not None
    if carrier == "commit-table":
        return rows.get(group.xid.gtrid)
    if carrier in ("inherit", "gtid-time") or group.gtid is None:
        return None
    if carrier == "gtid":
        return group.gtid.gno or None
    if group.gtid.original_us is None:
        return None
    if carrier == "original-commit-timestamp":
        return group.gtid.original_us << 9
    millis, micros = divmod(group.gtid.original_us, 1000)
    return millis << 22 | micros  # a TSO that carries the same time


def _commit_time(group: Group) -> int:
    """Return when a group was committed where it ran first, in microseconds."""
    times = ((group.gtid and group.gtid.original_us) or 0, group.commit_us(), group.events[0].timestamp * 1_000_000)
    return next(us for us in times if 0 < us < 1_000_000 << 32)


def order_node(cluster: Cluster, node: Node, version: str, groups: list[Group], carrier: str) -> NodeOrder:
    """Walk a node's groups in file order and give every committed one its key."""
    state = NodeOrder(node, version)
    rows: dict[bytes, int] = {}
    prepared: dict[Xid, tuple[Group, Key]] = {}

    def follow() -> Key:
        state.counter += 1
        return (*state.greatest, state.counter, node.number)

    for group in groups:
        if group.kind == "undone":
            continue
        committed = _commit_time(group) if carrier == "gtid-time" else group.commit_us()
        if carrier == "gtid-time" and group.kind not in ("prepare", "rollback"):
            millis, micros = divmod(committed, 1000)
            if (millis << 22 | micros, 0) > state.greatest:
                state.greatest, state.counter = (millis << 22 | micros, 0), 0
        if group.kind == "prepare":
            assert group.xid is not None
            if group.xid in prepared:
                raise OracleError(f"{group.where()}: {group.xid} is prepared twice")
            prepared[group.xid] = (group, (*state.greatest, 0, 0))
        elif group.kind == "rollback":
            assert group.xid is not None
            prepared.pop(group.xid, None)
        elif group.kind == "commit":
            assert group.xid is not None
            tso = _commit_tso(carrier, group, rows)
            if tso is None:
                key = follow()
                if carrier != "gtid-time":
                    state.without_tso.append(group.xid.gtrid)
            else:
                key = (tso, transaction_id(group.xid.gtrid), 0, 0)
                if key[:2] > state.greatest:
                    state.greatest, state.counter = key[:2], 0
            if group.xid not in prepared:
                raise OracleError(f"{group.where()}: {group.xid} is committed but was never prepared in these files")
            state.branches.append(Branch(key, node, prepared.pop(group.xid)[0], committed))
        elif group.kind == "ddl":
            state.ddl.append(Branch(follow(), node, group, committed))
        else:
            names = {name for name, _ in table_maps(group)}
            fed = carrier != "gtid-time"  # else the commit table is a table like others
            if fed and group.kind == "local" and cluster.commit_table in names:
                for gtrid, tso in _commit_rows(group, cluster).items():
                    if rows.setdefault(gtrid, tso) != tso:
                        raise OracleError(f"{group.where()}: {gtrid!r} has two commit TSOs, {rows[gtrid]} and {tso}")
            if fed and names == {cluster.commit_table} and group.kind == "local":
                continue
            state.branches.append(Branch(follow(), node, group, committed))
            if group.creates:
                state.ddl.append(state.branches[-1])
    state.by_time = carrier == "gtid-time"
    state.in_doubt = [(xid, key) for xid, (_, key) in prepared.items()]
    return state


@dataclass(frozen=True)
class Marker:
    """A DDL that the cluster announced, as its marker row and its XA START say."""

    key: Key
    schema: str
    sql: str
    server_collation: int
    visible: bool
    status: bytes
    commit_us: int
    size: int


def read_marker(cluster: Cluster, branches: list[Branch], nodes: int) -> Marker | None:
    """Return what a transaction announces if it is a DDL marker. Raises where the nodes do not agree on it."""
    copies = [
        (b, rows)
        for b in branches
        if (rows := written_rows(b.rows, cluster.marker_schema, cluster.ddl_record, exact=False))
    ]
    if not copies:
        return None
    key = copies[0][0].key
    if key[2:] != (0, 0):
        raise OracleError(f"{copies[0][0].rows.where()}: a marker without a commit TSO")
    missing = nodes - len({b.node.number for b, _ in copies})
    values = [_marker_row(*rows[0]) for _, rows in copies]
    if missing or any(v != values[0] for v in values):
        raise OracleError(f"marker {key_text(key)}: {missing} nodes lack it, or its copies differ")
    kept = [n for b in branches for n, _ in table_maps(b.rows) if cluster.logical_name(n) is not None]
    if kept:
        raise OracleError(f"marker {key_text(key)} also writes {kept}")
    shown = [b for b, _ in copies]
    return _marker(shown[0], values[0], sum(b.rows.size for b in shown), max(b.commit_us for b in shown))


_RECORD = (
    "ID", "JOB_ID", "SQL_KIND", "SCHEMA_NAME", "TABLE_NAME", "GMT_CREATED", "DDL_SQL", "META_INFO", "VISIBILITY", "EXT",
)  # fmt: skip


def _marker_row(tmap: TableMap, image: Image) -> dict[str, str | int | None]:
    """Decode what matters of a marker row, by column name where the table map has names, else by PolarDB-X's order."""
    names = [c.name.upper() for c in tmap.columns] if tmap.named else list(_RECORD)
    values: dict[str, str | int | None] = {}
    for name, column, cell in zip(names, tmap.columns, image, strict=True):
        if name not in ("SCHEMA_NAME", "DDL_SQL", "VISIBILITY", "EXT"):
            continue
        if not isinstance(cell, bytes):
            values[name] = None
        elif name == "VISIBILITY":
            values[name] = int.from_bytes(cell, "little")
        else:
            width = column.meta[0] if column.type == 252 else 2 if int.from_bytes(column.meta, "little") > 255 else 1
            values[name] = cell[width:].decode()
    return values


def _marker(branch: Branch, row: dict[str, str | int | None], size: int, commit_us: int) -> Marker:
    start = next(parse_query(e) for e in branch.rows.events if e.type == 2)
    ext = json.loads(str(row["EXT"])) if row.get("EXT") else {}
    mode = ext.get("sqlMode")
    if isinstance(mode, str) and mode.isdigit():
        mode = int(mode)
    if not isinstance(mode, int) or isinstance(mode, bool):
        mode = start.sql_mode or 0
    server = 255 if start.collation_server is None else start.collation_server
    databases = databases_listed(str(row["DDL_SQL"]), str(row["SCHEMA_NAME"]))
    status = start.status_of_ddl(start.flags2 or 0, mode, databases)
    visible = row.get("VISIBILITY") in (None, 1)
    return Marker(branch.key, str(row["SCHEMA_NAME"]), str(row["DDL_SQL"]), server, visible, status, commit_us, size)
