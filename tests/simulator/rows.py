"""Row changes of one branch: made up, packed as a server packs them, and remembered as what they mean logically."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.simulator.columns import Column, Table, Value, table_map
from tests.simulator.keys import Keys
from tests.simulator.nodes import Node
from tests.simulator.wire import DELETE, UPDATE, WRITE, Event, lenenc, rows_query, to_bits

ABSENT = "absent"
Cell = bytes | str | None
Image = tuple[Cell, ...]
Values = Mapping[str, Value]


@dataclass(frozen=True)
class Shard:
    """A physical table. `logical` is None where it never comes out."""

    schema: str
    name: str
    logical: str | None


@dataclass(frozen=True)
class RowChange:
    """One row, by column name; columns that an image does not carry are not in it. `statement` is a number."""

    logical: str
    kind: str
    physical: Table
    before: Values | None
    after: Values | None
    statement: int = 0


def as_logical(change: RowChange, table: Table, commit_us: int) -> tuple[str, str, Image, Image]:
    """Return (table, kind, before, after) in the logical table's columns, as cells."""

    def image(values: Values | None) -> Image:
        if values is None:
            return ()
        padded = change.kind == "insert" or len(values) == len(change.physical.columns)
        cells: list[Cell] = []
        for column in table.columns:
            if change.physical.named(column.name) is None:
                cells.append(column.pad(commit_us) if padded else ABSENT)
            elif column.name not in values:
                cells.append(ABSENT)
            else:
                value = values[column.name]
                cells.append(None if value is None else column.cell(value))
        return tuple(cells)

    return change.logical, change.kind, image(change.before), image(change.after)


def statement(
    node: Node, rng: random.Random, targets: Sequence[tuple[Shard, Table]], large: int, keys: Keys
) -> tuple[list[Event], list[RowChange]]:
    """Return one statement's events: table maps of all targets, then rows of each, the last ending the statement."""
    keys.statements += 1
    events: list[Event] = []
    changes: list[RowChange] = []
    if node.manner.rows_query and rng.random() < 0.7:
        events.append(rows_query("UPDATE something" * rng.randrange(1, 30)))
    ids: list[int] = []
    for shard, table in targets:
        node.table_ids += rng.random() < 0.3
        ids.append(node.table_ids + 1000 * len(ids))
        events.append(table_map(table, shard.schema, shard.name, ids[-1], node.manner.full_metadata, rng))
    rows: list[Event] = []
    order = [i for i in range(len(targets)) for _ in range(rng.choice((1, 1, 1, 2)))]
    rng.shuffle(order)
    for i in order:
        event, made = _rows_event(node, rng, *targets[i], ids[i], large, keys)
        rows.append(event)
        changes += made
    if rng.random() < 0.03:
        # A rows event of the dummy table id ends the statement (LOG_EVENT of a table that is filtered out).
        rows.append(Event(WRITE, (0xFFFFFF).to_bytes(6, "little") + b"\x00\x00\x02\x00\x00"))
    last = rows[-1]
    rows[-1] = Event(last.type, last.body[:6] + b"\x01" + last.body[7:], last.flags)
    return events + rows, changes


def _rows_event(
    node: Node, rng: random.Random, shard: Shard, table: Table, table_id: int, large: int, keys: Keys
) -> tuple[Event, list[RowChange]]:
    kind = rng.choice(("insert", "insert", "update", "delete"))
    blobs = {c.name for c in table.columns if c.is_blob}
    names = [c.name for c in table.columns]
    key, mode = names[:1], node.manner.image
    some = [n for n in names if n in key or rng.random() < 0.6]
    whole = [n for n in names if mode == "FULL" or n not in blobs or (kind == "insert" and rng.random() < 0.7)]
    before = {"MINIMAL": key}.get(mode, [n for n in names if mode == "FULL" or n not in blobs])
    after = {"MINIMAL": some}.get(mode, whole)
    if kind == "update":
        changed = rng.choice(names[1:]) if len(names) > 1 else names[0]
        after = {"MINIMAL": [n for n in some if n not in key] or [changed], "NOBLOB": [*before, changed]}.get(
            mode, names
        )
        after = [n for n in names if n in after]
    images = {"insert": [after], "update": [before, after], "delete": [before]}[kind]
    old = rng.random() < 0.05  # version 1 of the event, as a server before 5.6 writes it
    body = table_id.to_bytes(6, "little") + b"\0\0" + (b"" if old else b"\x02\0")
    body += lenenc(len(names)) + b"".join(to_bits([n in image for n in names], rng.random() < 0.5) for image in images)
    changes = []
    for _ in range(rng.choice((1, 1, 1, 2, 5, rng.randrange(1, 12)))):
        made = []
        for image in images:
            values = {c.name: c.random(rng, large) for c in table.columns if c.name in image}
            if shard.logical is not None and key[0] in image:
                give = keys.new if image is before else keys.taken
                values[key[0]] = give(shard.logical, values[key[0]])
            body += pack_image([c for c in table.columns if c.name in image], values)
            made.append(values)
        if shard.logical is not None:
            pair = {"insert": (None, made[0]), "delete": (made[0], None), "update": (made[0], made[-1])}[kind]
            changes.append(RowChange(shard.logical, kind, table, *pair, keys.statements))
            if kind == "delete" or key[0] in after:
                keys.free += [(shard.logical, values[key[0]]) for values in pair[:1] if values is not None]
    code = {"insert": WRITE, "update": UPDATE, "delete": DELETE}[kind]
    return Event(code - 7 if old else code, body), changes


def pack_image(columns: Sequence[Column], values: Values) -> bytes:
    """Return one row image: null bits, then cells."""
    cells = [(column, values[column.name]) for column in columns]
    return to_bits([v is None for _, v in cells]) + b"".join(c.cell(v) for c, v in cells if v is not None)
