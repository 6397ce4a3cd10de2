"""Steps as the binlogs that data nodes would write of them, without a server."""

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby

from tests.merge_e2e.editing import GTIDS, Log
from tests.polardbx.columns import ROW_ID, hidden_key, stored
from tests.polardbx.splice import CONSENSUS, GCN, PREVIOUS_CONSENSUS, Dialect, Stamp, splice
from tests.polardbx.steps import (
    Commit,
    Ddl,
    Local,
    OnePhase,
    Prepare,
    Rollback,
    Rotate,
    Step,
    Write,
    Xid,
    counted,
)
from tests.polardbx.world import LOCAL
from tests.simulator import wire
from tests.simulator.columns import Table, table_map
from tests.simulator.nodes import Manner, Node
from tests.simulator.rows import pack_image
from tests.simulator.wire import Event

START = 1_790_000_000


def write_nodes(
    steps: list[Step],
    stamps: dict[bytes, Stamp],
    numbers: dict[str, int],
    rng: random.Random,
    dialects: Sequence[Dialect] | Mapping[str, Dialect],
) -> dict[str, dict[str, bytes]]:
    """Return every node's files; `dialects` are by node, or what is chosen from, node by node."""
    nodes = {name: Node(_manner(rng, name, number), rng, START) for name, number in numbers.items()}
    for node in nodes.values():
        node.begin_file()
    for number, step in enumerate(steps):
        _take(nodes[step.node], step, number, rng)
    own = {i: s.tso for i, s in enumerate(steps) if isinstance(s, Local) and s.tso is not None}
    found = {}
    for name, node in nodes.items():
        dialect = dialects[name] if isinstance(dialects, Mapping) else rng.choice(dialects)
        logs = [Log.load(bytes(data)) for data in node.files]
        mine = counted(steps, stamps, name)
        local = Stamp(LOCAL) if dialect.local_tso else None
        told = own if dialect.local_tso else {}
        found[name] = {node.name(i): splice(log, mine, dialect, local, told).pack() for i, log in enumerate(logs)}
    return found


def ends(data: bytes) -> list[int]:
    """Return the offsets of a file at which a group ends, its head too: where it may be cut."""
    log, found = Log.load(data), []
    before = False  # this event belongs to what follows
    for event in log.events:
        opens = event.type in (*GTIDS, GCN, CONSENSUS)
        if opens and not before and event.at > 200:
            found.append(event.at)
        before = event.type in (GCN, CONSENSUS) or (event.type == PREVIOUS_CONSENSUS)
    return [*found, len(data)]


def _manner(rng: random.Random, name: str, number: int) -> Manner:
    return Manner(
        source_id=name, number=number, server_id=100 + number, sid=rng.randbytes(16),
        version=rng.choice(("8.0.32-X-Cluster-8.4.20", "8.0.36", "9.7.4")), checksum=rng.random() < 0.9,
        gtids=rng.choice(("on", "on", "off")), image="FULL", full_metadata=rng.random() < 0.5, compression=0.0,
        rows_query=False,
    )  # fmt: skip


def _take(node: Node, step: Step, number: int, rng: random.Random) -> None:
    match step:
        case Prepare(_, xid, writes):
            node.group([*_opened(xid), *_rows(node, writes, rng), _verb("END", xid), _prepare(xid, False)])
        case OnePhase(_, xid, writes):
            node.group([*_opened(xid), *_rows(node, writes, rng), _verb("END", xid), _prepare(xid, True)])
        case Local(_, writes, _):
            node.group([wire.query("BEGIN"), *_rows(node, writes, rng), wire.xid(number)])
        case Commit(_, xid):
            node.group([_verb("COMMIT", xid)])
        case Rollback(_, xid):
            node.group([_verb("ROLLBACK", xid)])
        case Ddl(_, schema, sql):
            node.group([wire.query(sql, schema)], ddl=True)
        case Rotate():
            node.begin_file()
        case _:
            raise TypeError(step)


def _opened(xid: Xid) -> list[Event]:
    return [_verb("START", xid)]


def _verb(verb: str, xid: Xid) -> Event:
    return wire.query(f"XA {verb} {xid.text}")


def _prepare(xid: Xid, one_phase: bool) -> Event:
    head = struct.pack("<BIII", one_phase, xid.format_id, len(xid.gtrid), len(xid.bqual))
    return Event(wire.XA_PREPARE, head + xid.gtrid + xid.bqual)


def _rows(node: Node, writes: tuple[Write, ...], rng: random.Random) -> list[Event]:
    """Return the events of rows: one statement for neighbours on one table."""
    events: list[Event] = []
    for _, group in groupby(writes, key=lambda w: (w.schema, w.name, w.kind, w.sequence, w.hint, _present(w))):
        rows = [_with_row_id(write) for write in group]
        first = rows[0]
        if first.hint:
            events.append(wire.rows_query(f"{first.hint}{first.kind.upper()} {first.name}"))
        node.table_ids += rng.random() < 0.3
        full = node.manner.full_metadata
        events.append(table_map(first.table, first.schema, first.name, node.table_ids, full, rng))
        events.append(_rows_event(first.table, node.table_ids, rows))
    return events


def _present(write: Write) -> list[list[str]]:
    """Return the columns in each image: one event has the same in all its rows."""
    return [sorted(image) for image in write.images if image is not None]


def _with_row_id(write: Write) -> Write:
    """Return the row as a data node writes it that has given the table a key."""
    table = stored(write.table)
    if table is write.table:
        return write
    image = write.before or write.after or {}
    number = image["id"]
    assert isinstance(number, int)
    key = {ROW_ID: hidden_key(number)}
    before, after = ({**values, **key} if values is not None else None for values in (write.before, write.after))
    return replace(write, table=table, before=before, after=after)


def _rows_event(table: Table, table_id: int, rows: list[Write]) -> Event:
    kind = rows[0].kind
    body = table_id.to_bytes(6, "little") + b"\1\0\2\0" + wire.lenenc(len(table.columns))
    images = [[values for values in row.images if values is not None] for row in rows]
    for image in images[0]:
        body += wire.to_bits([c.name in image for c in table.columns])
    for values in chain.from_iterable(images):
        body += pack_image([c for c in table.columns if c.name in values], values)
    return Event({"insert": wire.WRITE, "update": wire.UPDATE, "delete": wire.DELETE}[kind], body)
