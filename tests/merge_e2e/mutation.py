"""Damage to binlog files, by sort: bytes changed where they lie, events and their parts changed, whole groups moved.

raw      the file's own bytes, checksums and positions as they were: bits, bytes, ranges, the file's end
events   bodies, lengths, types, table maps, bitmaps, what a compressed payload holds; positions and checksums are
         made right, and, half the time, the transactions' lengths
groups   whole groups taken away, doubled, exchanged, moved; positions and checksums are made right
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import zstandard

from tests.merge_e2e.editing import PAYLOAD, ROWS, TABLE_MAP, Log, Piece
from tests.oracle.binlog import OracleError, pack, packed

_INTERESTING = (0, 1, 2, 4, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
Edit = Callable[[Log, random.Random], Log]


@dataclass(frozen=True)
class Mutation:
    """A file with faults in it, and what was done to it."""

    data: bytes
    sort: str  # raw, events, groups
    names: tuple[str, ...]


def mutated(data: bytes, rng: random.Random, sort: str | None = None) -> Mutation:
    """Return a file with a few faults in it, of any sort unless one is named."""
    sort = rng.choice(["raw", "events", "events", "events", "events", "groups"] if sort is None else [sort])
    if sort == "raw":
        return _raw(data, rng)
    if sort == "groups":
        moved = groups_moved(data, rng)
        return _raw(data, rng) if moved is None else Mutation(moved, "groups", ("groups-moved",))
    log, names = Log.load(data), list[str]()
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        edit = rng.choice(_EVENTS)
        names.append(edit.__name__.strip("_"))
        log = edit(log, rng)
    if rng.random() < 0.5:
        names.append("lengths-mended")
        log = log.with_transaction_lengths()
    packed_again = log.pack()
    if rng.random() < 0.05:
        names.append("cut")
        packed_again = packed_again[: rng.randrange(len(packed_again))]
    return Mutation(packed_again, sort, tuple(names))


def _raw(data: bytes, rng: random.Random) -> Mutation:
    at = rng.randrange(len(data))
    span = rng.choice([1, 2, 4, 19, 100])
    name = rng.choice(["bit", "byte", "byte", "cut", "insert", "delete", "zero", "append"])
    new = {
        "bit": lambda: data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :],
        "byte": lambda: data[:at] + bytes([rng.choice(_INTERESTING)]) + data[at + 1 :],
        "cut": lambda: data[:at],
        "insert": lambda: data[:at] + rng.randbytes(span) + data[at:],
        "delete": lambda: data[:at] + data[at + span :],
        "zero": lambda: data[:at] + bytes(len(data[at : at + span])) + data[at + span :],
        "append": lambda: data + rng.randbytes(span),
    }[name]()
    return Mutation(new, "raw", (name,))


def _any(log: Log, rng: random.Random, *types: int) -> int | None:
    """Choose an event behind the format description, of these types where some are named."""
    chosen = [i for i, e in enumerate(log.events) if i > 0 and (not types or e.type in types)]
    return rng.choice(chosen) if chosen else None


def _with_bytes(body: bytes, places: Sequence[int], rng: random.Random) -> bytes:
    changed = bytearray(body)
    for place in places:
        if place < len(changed):
            changed[place] = rng.choice(
                [rng.randrange(256), rng.choice(_INTERESTING), changed[place] ^ (1 << rng.randrange(8))]
            )
    return bytes(changed)


def _edit(log: Log, rng: random.Random, change: Callable[[bytes], bytes], *types: int) -> Log:
    at = _any(log, rng, *types)
    if at is None or not log.events[at].body:
        return log
    return log.changed(at, replace(log.events[at], body=change(log.events[at].body)))


def _body(log: Log, rng: random.Random) -> Log:
    """Change bytes of a body; rather near its beginning, where lengths and counts stand."""

    def change(body: bytes) -> bytes:
        count = rng.choice([1, 1, 2, 5])
        return _with_bytes(body, [rng.randrange(min(len(body), rng.choice([8, 30, 100, 10_000])))] * count, rng)

    return _edit(log, rng, change)


def _row_bytes(log: Log, rng: random.Random) -> Log:
    """Change bytes of row images, lengths of cells among them."""
    return _edit(log, rng, lambda body: _with_bytes(body, [rng.randrange(len(body))], rng), *ROWS)


def _bitmaps(log: Log, rng: random.Random) -> Log:
    """Change the column count, a bitmap of columns present, or the first null bitmap."""

    def change(body: bytes) -> bytes:
        extra = int.from_bytes(body[8:10], "little") if len(body) > 10 else 2
        at = 8 + extra
        return _with_bytes(body, [at + rng.randrange(6)], rng)

    return _edit(log, rng, change, *ROWS)


def _table_map(log: Log, rng: random.Random) -> Log:
    """Change the types, their metadata, or what follows them in a table map."""

    def change(body: bytes) -> bytes:
        schema = body[8] if len(body) > 8 else 0
        table = body[10 + schema] if len(body) > 10 + schema else 0
        columns = 12 + schema + table
        return _with_bytes(body, [rng.randrange(min(columns, len(body) - 1), len(body))], rng)

    return _edit(log, rng, change, TABLE_MAP)


def _length(log: Log, rng: random.Random) -> Log:
    """Cut a body, or make it longer."""

    def change(body: bytes) -> bytes:
        cut = rng.randrange(len(body) + 1)
        longer = body + rng.randbytes(rng.randrange(1, 40))
        return rng.choice([body[:cut], longer, body[:cut] + rng.randbytes(9) + body[cut:], body[:-1], body + b"\0"])

    return _edit(log, rng, change, *rng.choice([(), ROWS]))


def _kind(log: Log, rng: random.Random) -> Log:
    """Make an event one of another type, or with other flags."""
    at = _any(log, rng)
    if at is None:
        return log
    kinds = [e.type for e in log.events]
    event = replace(log.events[at], type=rng.choice([rng.randrange(256), rng.choice(kinds), rng.choice(kinds)]))
    return log.changed(at, replace(event, flags=rng.choice([event.flags, 0x80, rng.randrange(65536)])))


def _header(log: Log, rng: random.Random) -> Log:
    """Give an event another time, server id or flags."""
    at = _any(log, rng)
    if at is None:
        return log
    event = log.events[at]
    changed = [
        replace(event, timestamp=rng.choice([0, 1, 2**32 - 1, rng.randrange(2**32)])),
        replace(event, server_id=rng.choice([0, 2**32 - 1, rng.randrange(2**32)])),
        replace(event, flags=event.flags ^ (1 << rng.randrange(16))),
    ]
    return log.changed(at, rng.choice(changed))


def _move(log: Log, rng: random.Random) -> Log:
    """Take an event away, write it again, or swap two."""
    at, other = _any(log, rng), _any(log, rng)
    if at is None or other is None:
        return log
    events = list(log.events)
    choice = rng.randrange(3)
    if choice == 0:
        del events[at]
    elif choice == 1:
        events.insert(other, events[at])
    else:
        events[at], events[other] = events[other], events[at]
    return log.with_events(events)


def _body_of_another(log: Log, rng: random.Random) -> Log:
    """Give an event the body of another one of its type, or part of it."""
    at = _any(log, rng)
    if at is None:
        return log
    alike = [e.body for e in log.events if e.type == log.events[at].type]
    body, cut = rng.choice(alike), rng.randrange(len(log.events[at].body) + 1)
    return log.changed(at, replace(log.events[at], body=rng.choice([body, log.events[at].body[:cut] + body[cut:]])))


def _stranger(log: Log, rng: random.Random) -> Log:
    """Put in an event that no server wrote."""
    at = _any(log, rng)
    if at is None:
        return log
    like = log.events[at]
    event = Piece(
        like.timestamp, rng.randrange(256), like.server_id, rng.choice([0, 0x80]), rng.randbytes(rng.randrange(60))
    )
    return log.inserted(at, event)


def _payload(log: Log, rng: random.Random) -> Log:
    """Change what a compressed payload holds, or how it tells it."""
    at = _any(log, rng, PAYLOAD)
    if at is None:
        return _body(log, rng)
    body = log.events[at].body
    try:
        head, inside = unpacked(body)
    except (OracleError, KeyError, IndexError, zstandard.ZstdError):
        return log
    choice = rng.randrange(5)
    if choice == 0:
        return log.changed(at, replace(log.events[at], body=_with_bytes(body, [rng.randrange(head)], rng)))
    inner = Log.of_events(inside)
    if choice < 4 and len(inner.events) > 1:
        inner = rng.choice((_row_bytes, _bitmaps, _table_map, _move, _length, _kind))(inner, rng)
        inside = inner.pack_events()
    else:
        inside = _with_bytes(inside, [rng.randrange(len(inside))], rng)
    return log.changed(at, replace(log.events[at], body=payload_of(inside)))


def unpacked(body: bytes) -> tuple[int, bytes]:
    """Return how long a payload's head is, and what the payload holds."""
    at, fields = 0, dict[int, int]()
    while True:
        kind, at = packed(body, at)
        if kind == 0:
            break
        length, at = packed(body, at)
        fields[kind] = packed(body, at)[0]
        at += length
    inside = body[at : at + fields[1]]
    if fields.get(2, 0) == 0:
        inside = zstandard.ZstdDecompressor().decompressobj().decompress(inside)
    return at, inside


def payload_of(inside: bytes) -> bytes:
    compressed = zstandard.ZstdCompressor().compress(inside)
    fields = [(2, pack(0)), (3, pack(len(inside))), (1, pack(len(compressed)))]
    return b"".join(pack(kind) + pack(len(value)) + value for kind, value in fields) + b"\0" + compressed


def groups_moved(data: bytes, rng: random.Random) -> bytes | None:
    """Return a file with whole groups taken out, doubled, exchanged or moved; None where it has fewer than two.

    No server writes such a file: its sequence numbers tell. Its last group is not taken out, for a file without that
    is one that ends earlier.
    """
    log = Log.load(data)
    spans = list(log.groups())
    if len(spans) < 2:
        return None
    head, tail = log.events[: spans[0][0]], log.events[spans[-1][1] :]
    groups = [log.events[first:end] for first, end in spans]
    return log.with_events([*head, *chain.from_iterable(_moved(groups, rng)), *tail]).pack()


def _moved(groups: list[tuple[Piece, ...]], rng: random.Random) -> list[tuple[Piece, ...]]:
    at, other = rng.sample(range(len(groups)), 2)
    moved = list(groups)
    choice = rng.randrange(4)
    if choice == 0:
        at = rng.randrange(len(groups) - 1)
        del moved[at : rng.randint(at + 1, min(at + 3, len(groups) - 1))]
    elif choice == 1:
        moved.insert(rng.randrange(len(groups) + 1), groups[at])
    elif choice == 2:
        moved[at], moved[other] = moved[other], moved[at]
    else:
        moved.insert(other, moved.pop(at))
    return moved


_EVENTS: tuple[Edit, ...] = (
    _body, _body, _row_bytes, _row_bytes, _bitmaps, _bitmaps, _table_map, _table_map, _length, _length, _kind, _header,
    _move, _body_of_another, _stranger, _payload,
)  # fmt: skip
