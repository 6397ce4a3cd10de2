"""Damage that a checksum does not show: events changed, moved and made up, with positions and sums made right."""

import random
from dataclasses import replace
from itertools import chain

from tests.merge_e2e.editing import Log, Piece

_INTERESTING = (0, 1, 2, 4, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file with a few faults in it."""
    log = Log.load(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        log = rng.choice(_MUTATIONS)(log, rng)
    packed = log.pack()
    if rng.random() < 0.1:
        packed = packed[: rng.randrange(len(packed))]
    return packed


def _any(log: Log, rng: random.Random) -> int:
    return rng.randrange(1, len(log.events)) if len(log.events) > 1 else 0


def _body(log: Log, rng: random.Random) -> Log:
    """Change bytes of a body; rather near its beginning, where lengths and counts stand."""
    at = _any(log, rng)
    body = bytearray(log.events[at].body)
    if not body:
        return log
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(min(len(body), rng.choice([8, 30, 100, 10_000])))
        body[place] = rng.choice([rng.randrange(256), rng.choice(_INTERESTING)])
    return log.changed(at, replace(log.events[at], body=bytes(body)))


def _length(log: Log, rng: random.Random) -> Log:
    """Cut a body, or make it longer."""
    at = _any(log, rng)
    body = log.events[at].body
    cut = rng.randrange(len(body) + 1)
    body = rng.choice([body[:cut], body + rng.randbytes(rng.randrange(40)), body[:cut] + rng.randbytes(9) + body[cut:]])
    return log.changed(at, replace(log.events[at], body=body))


def _kind(log: Log, rng: random.Random) -> Log:
    """Make an event one of another type, or with other flags."""
    at = _any(log, rng)
    kinds = [e.type for e in log.events]
    event = replace(log.events[at], type=rng.choice([rng.randrange(256), rng.choice(kinds), rng.choice(kinds)]))
    return log.changed(at, replace(event, flags=rng.choice([event.flags, 0x80, rng.randrange(65536)])))


def _move(log: Log, rng: random.Random) -> Log:
    """Take an event away, write it again, or swap two."""
    at, other = _any(log, rng), _any(log, rng)
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
    alike = [e.body for e in log.events if e.type == log.events[at].type]
    body, cut = rng.choice(alike), rng.randrange(len(log.events[at].body) + 1)
    return log.changed(at, replace(log.events[at], body=rng.choice([body, log.events[at].body[:cut] + body[cut:]])))


def _stranger(log: Log, rng: random.Random) -> Log:
    """Put in an event that no server wrote."""
    at = _any(log, rng)
    like = log.events[at]
    event = Piece(
        like.timestamp, rng.randrange(256), like.server_id, rng.choice([0, 0x80]), rng.randbytes(rng.randrange(60))
    )
    return log.inserted(at, event)


_MUTATIONS = (_body, _body, _body, _length, _kind, _move, _body_of_another, _stranger)


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
