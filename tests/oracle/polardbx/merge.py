"""The merge of a PolarDB-X cluster: its messages, its transactions statement by statement, its DDL in both forms."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tests.oracle import binlog
from tests.oracle.binlog import Event, OracleError
from tests.oracle.config import Cluster, load
from tests.oracle.ddl import (
    COLLATION_NAMES,
    DEFAULT_COLLATION,
    Catalog,
    Column,
    Name,
    Table,
    apply_text,
    databases_listed,
    names_database,
)
from tests.oracle.merge import DUMMY_TABLE_ID, Unit, Writer, begin_event, commit_us, newest
from tests.oracle.order import Branch, Key, key_text
from tests.oracle.polardbx.groups import hint_of, logged, order_node, query_text, read_node
from tests.oracle.polardbx.messages import Message, read_message
from tests.oracle.polardbx.statements import Statement, sql_mode, statement, without_own_key
from tests.oracle.polardbx.topology import Topology
from tests.oracle.reshape import Change, Reshape, TableMap, parse_table_map
from tests.oracle.schemas import History, PhysicalSchemas, physical_schemas

ROW_ID = "__#alibaba_rds_row_id#__"
_RENAME = re.compile(r"RENAME TABLE `([^`]+)` TO `([^`]+)`")


@dataclass(frozen=True)
class PxResult:
    """What a merge has to come to, whole: its files, and its transactions as (key, kind, rows per table)."""

    files: dict[str, bytes]
    transactions: list[tuple[str, str, dict[str, int]]]
    decoded: list[Change]


@dataclass
class _Merge:
    cluster: Cluster
    archive: set[Key]
    topology: Topology = field(default_factory=Topology)
    logical: History = field(default_factory=History)
    catalog: Catalog = field(default_factory=Catalog)
    base: dict[str, dict[Name, Table]] = field(default_factory=dict)  # node -> physical tables of snapshots
    physical: dict[str, PhysicalSchemas] = field(default_factory=dict)
    statements: dict[Key, tuple[Message, Statement]] = field(default_factory=dict)
    told: set[tuple[int, int, int]] = field(default_factory=set)


def merge_polardbx(cluster_yaml: Path, start_tso: int | None = None, stop_tso: int | None = None) -> PxResult:
    """Merge a PolarDB-X cluster's binlogs, to their end. With a range, only start_tso <= commit TSO < stop_tso."""
    cluster = load(Path(cluster_yaml))
    inputs = [(node, *read_node(node)) for node in cluster.nodes]
    log = logged([c for _, _, groups in inputs for c in groups])
    orders = [order_node(node, version, groups, log) for node, version, groups in inputs]
    branches = sorted((b for o in orders for b in o.branches), key=lambda b: (b.key, b.place()))
    transactions = [(key, list(group)) for key, group in groupby(branches, key=lambda b: b.key)]
    work = _Merge(cluster, {key for o in orders for key in o.archive})
    messages = {k: m for k, t in transactions if (m := read_message(k, t)) is not None}
    renames = dict(r for o in orders for b in o.ddl for r in _renames(b))
    for key in sorted({**messages, **renames}):
        if key in messages:
            _take(work, key, messages[key])
        else:
            work.topology.rename(key, *renames[key])
    for order in orders:
        base = work.base.get(order.node.source_id, {})
        work.physical[order.node.source_id] = physical_schemas(_without_routes(cluster), order, base)
    units: list[Unit] = []
    for key, group in transactions:
        if (start_tso is not None and key[0] < start_tso) or (stop_tso is not None and key[0] >= stop_tso):
            continue
        if key in messages and messages[key].kind == "heartbeat":
            units += _beat(cluster, messages[key])
        elif key in messages:
            units += [_ddl_unit(*work.statements[key])] if key in work.statements else []
        elif (unit := _rows_unit(work, key, group)) is not None:
            units.append(unit)
    return PxResult(
        Writer(cluster, newest(orders)).write(units),
        [(key_text(u.key), u.kind, u.counts) for u in units],
        [change for unit in units for change in unit.changes],
    )


def _without_routes(cluster: Cluster) -> Cluster:
    return Cluster(**{**cluster.__dict__, "routes": (), "hidden": ()})


def _renames(ddl: Branch) -> Iterator[tuple[Key, tuple[tuple[str, str, str], tuple[str, str, str]]]]:
    found = _RENAME.match(query_text(ddl.rows))
    if found is not None:
        event = next(e for e in ddl.rows.events if e.type == binlog.QUERY)
        node, schema = ddl.node.source_id, binlog.parse_query(event).schema.lower()
        yield ddl.key, ((node, schema, found[1].lower()), (node, schema, found[2].lower()))


# -- messages


def _take(work: _Merge, key: Key, message: Message) -> None:
    if message.kind == "heartbeat":
        return
    if message.kind == "instruction":
        if message.text("INSTRUCTION_TYPE") in ("CdcStart", "MetaSnapshot"):
            _snapshot(work, key, message.text("INSTRUCTION_CONTENT"))
        return
    if message.kind == "sync-point":
        found = statement(message, None)
        assert found is not None
        work.statements[key] = (message, found)
        return
    task, job = message.ext.get("taskId"), message.values.get("JOB_ID")
    if job is None and re.match(r"(CREATE|DROP)\s.*?\bIF\s+(NOT\s+)?EXISTS\b", message.text("DDL_SQL")):
        if task is not None:
            raise OracleError("a statement that found its work done, with a task, is not modelled")
        return
    if job is not None and task is not None:
        if (identity := (job, task, message.ext.get("taskSubSeq") or 0)) in work.told:
            return
        work.told.add(identity)
    work.topology.take(message)
    schema = message.text("SCHEMA_NAME").lower()
    found = statement(message, work.topology.charsets.get(schema))
    if found is None:
        return
    work.statements[key] = (message, found)
    if found.mysql:
        work.catalog.server_collation = COLLATION_NAMES.get(message.session.collation_server or 255, DEFAULT_COLLATION)
        work.logical.record(key, work.catalog, apply_text(work.catalog, found.mysql, schema))


def _snapshot(work: _Merge, key: Key, content: str) -> None:
    """Take what a snapshot says of tables of which nothing is known yet."""
    new = []
    for name, meta in work.topology.snapshot(key, content):
        stored = _shape(name, meta["createSql"])
        for part in meta["phySchemas"]:
            tables = work.base.setdefault(part["storageInstId"], {})
            for table in part["phyTables"]:
                tables.setdefault((part["schema"], table), stored)
        if name not in work.catalog.tables:
            work.catalog.tables[name] = _shape(name, without_own_key(meta["createSql"]))
            new.append(name)
    work.logical.record(key, work.catalog, new)


def _shape(name: Name, create: str) -> Table:
    catalog = Catalog()
    apply_text(catalog, create, name[0])
    (table,) = catalog.tables.values()
    return table


def _ddl_unit(message: Message, found: Statement) -> Unit:
    session, ext = message.session, message.ext
    flags2 = ext["flags2"] if isinstance(ext.get("flags2"), int) else session.flags2 or 0
    given = "polardbx" if message.kind == "sync-point" else message.text("SCHEMA_NAME").lower()
    status = session.status_of_ddl(flags2, sql_mode(message), databases_listed(found.mysql, given))
    schema = given.encode()
    body = bytes(8) + bytes([len(schema), 0, 0]) + len(status).to_bytes(2, "little") + status + schema + b"\0"
    body += found.text.encode()
    unit = Unit(message.key, commit_us(message.key, message.commit_us), message.size, 1, [], kind="ddl")
    unit.server_id = ext.get("serverId")
    if found.mysql:
        unit.events.append((binlog.QUERY, 8 if names_database(found.mysql) else 0, body))
    else:
        unit.kind = "private"
        unit.events += [begin_event(), _cts(unit.key), (binlog.QUERY, 8, body)]
    return unit


def _beat(cluster: Cluster, message: Message) -> list[Unit]:
    """Return a heartbeat's output, if it is one of those that come out."""
    us = commit_us(message.key, message.commit_us)
    if not cluster.heartbeat or us // 1_000_000 % cluster.heartbeat:
        return []
    events = [begin_event(), _cts(message.key, "\n# TSO HEARTBEAT TXN")]
    return [Unit(message.key, us, message.size, 1, events, kind="heartbeat")]


def _cts(key: Key, tail: str = "") -> tuple[int, int, bytes]:
    text = f"# CTS::{key_text(key)}{tail}".encode()
    return binlog.ROWS_QUERY, 0x80, bytes([len(text)]) + text


# -- rows


@dataclass
class _Piece:
    """A statement's part of a branch: what stands from one trace to the next."""

    branch: Branch
    trace: tuple[int, int]
    server: int | None
    events: list[Event] = field(default_factory=list)


def _pieces(branch: Branch) -> Iterator[_Piece]:
    """Cut a branch where a statement has ended and another begins; a statement without a trace has the one before."""
    piece = _Piece(branch, (0, 0), None)
    ends = has_rows = False
    for event in branch.rows.events:
        if event.type in (binlog.ROWS_QUERY, binlog.TABLE_MAP) and ends and has_rows:
            yield piece
            piece, has_rows = _Piece(branch, piece.trace, None), False
        if event.type == binlog.ROWS_QUERY and not has_rows and (hint := hint_of(event)) is not None:
            piece.trace, piece.server = hint
        if event.type in binlog.ROWS:
            has_rows, ends = True, bool(event.body[6] & 1)
        piece.events.append(event)
    yield piece


def _rows_unit(work: _Merge, key: Key, group: list[Branch]) -> Unit | None:
    """Return a transaction's output; branches none of whose tables comes out count for nothing."""
    kept = [b for b in group if any(_target(work, b, t) for t in _maps(b))]
    if not kept:
        return None
    us = commit_us(key, max(b.commit_us for b in kept))
    unit = Unit(key, us, sum(b.rows.size for b in kept), 0, [begin_event()])
    unit.events.append(_cts(key, "::ARCHIVE" if key in work.archive else ""))
    pieces = [piece for branch in kept for piece in _pieces(branch)]
    pieces.sort(key=lambda p: p.trace)  # stable: else by node, then as they stand
    unit.server_id = next((p.server for p in pieces if p.server is not None), None)
    reshapes: dict[tuple[str, int], tuple[Reshape, int, str] | None] = {}
    for piece in pieces:
        _piece(work, unit, piece, reshapes)
    return unit


def _maps(branch: Branch) -> list[TableMap]:
    return [parse_table_map(e) for e in branch.rows.events if e.type == binlog.TABLE_MAP]


def _target(work: _Merge, branch: Branch, tmap: TableMap) -> Name | None:
    return work.topology.at((branch.node.source_id, tmap.schema, tmap.table), branch.key)


def _piece(
    work: _Merge, unit: Unit, piece: _Piece, reshapes: dict[tuple[str, int], tuple[Reshape, int, str] | None]
) -> None:
    branch, last = piece.branch, None
    node = branch.node.source_id
    for event in piece.events:
        if event.type == binlog.TABLE_MAP:
            tmap = parse_table_map(event)
            target = _target(work, branch, tmap)
            reshapes[node, tmap.table_id] = None
            if target is None:
                continue
            version = work.logical.at(target, branch.key)
            if version is None or version.table is None:
                raise OracleError(f"{branch.rows.where()}: there is no logical table {target}")
            reshape = Reshape(tmap, _physical(work, branch, tmap), version.table, unit.commit_us, work.cluster.clamp)
            reshapes[node, tmap.table_id] = (reshape, version.number, ".".join(target))
            unit.events.append((binlog.TABLE_MAP, 0, reshape.map_body(version.number, *target)))
        elif event.type in binlog.ROWS:
            table_id = int.from_bytes(event.body[:6], "little")
            found = None if table_id == DUMMY_TABLE_ID else reshapes[node, table_id]
            if found is not None:
                reshape, number, name = found
                last, changes = reshape.rows(event, number, key_text(branch.key), name)
                unit.events.append((event.type, 0, last))
                unit.changes += changes
                unit.counts[name] = unit.counts.get(name, 0) + len(changes)
            if event.body[6] & 1 and last is not None:
                last[6] |= 1
                last = None


def _physical(work: _Merge, branch: Branch, tmap: TableMap) -> Table:
    """Return the shape of a row's table; the key that a data node gives a table without one stands in no definition."""
    known = work.physical[branch.node.source_id]
    name = (tmap.schema, tmap.table)
    version = known.history.at(name, branch.key)
    table = (version.table if version is not None else None) or known.base.get(name)
    if table is not None and len(tmap.columns) == len(table.columns) + 1 and tmap.columns[-1].type == 8:
        return Table((*table.columns, Column(ROW_ID, "bigint", nullable=False)), table.collation)
    return known.at(tmap, branch, branch.rows.where())
