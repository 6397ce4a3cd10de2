"""Nodes that fail over: the log of a made-up node as its servers would have written it, one after the other.

the log       1 2 3 4 5 6 7 8 9
server 1      1 2 3 4 5 | half of 6
server 2        . 3 2 5 6 4 7 | half of 8         begins earlier, in an order of its own, in files of its own
server 1            4 5 6 7 8 9                   and back: its first files come a second time
"""

import json
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from binlog_merge.binlog.gtid_set import GtidSet
from tests.merge_e2e.editing import (
    FORMAT_DESCRIPTION,
    GTIDS,
    PREVIOUS_GTIDS,
    ROTATE,
    STOP,
    Log,
    Piece,
    in_use,
)
from tests.simulator.wire import previous_gtids

Group = tuple[Piece, ...]
Gtid = tuple[bytes, int]
Place = tuple[int, int, int]  # part, file, offset


@dataclass(frozen=True)
class Part:
    """The files that one server wrote, and the line of the index for it; none for the first."""

    folder: str
    files: tuple[tuple[str, bytes], ...]
    line: str


def gtid_of(group: Group) -> Gtid:
    event = next(e for e in group if e.type in GTIDS)
    return event.body[1:17], int.from_bytes(event.body[17:25], "little")


def groups_of(log: Log) -> list[Group]:
    ends = [i for i, e in enumerate(log.events) if e.type in (ROTATE, STOP)] or [len(log.events)]
    return [log.events[first : min(behind, ends[0])] for first, behind in log.groups()]


def text_of(gtids: Sequence[Gtid]) -> str:
    return ",".join(f"{uuid.UUID(bytes=sid)}:{gno}" for sid, gno in gtids)


def previous_of(gtids: Sequence[Gtid]) -> bytes:
    by_source: dict[tuple[bytes, str], set[int]] = {}
    for sid, gno in gtids:
        by_source.setdefault((sid, ""), set()).add(gno)
    return previous_gtids(by_source)


def written_anew(
    head: Piece, groups: Sequence[Group], before: Sequence[Gtid], number: int, rng: random.Random
) -> list[tuple[str, bytes]]:
    """Return files with these groups as another server writes them, which executed others before."""
    files, done, left = [], list(before), list(groups)
    while left or not files:
        count = rng.randint(0, len(left)) if rng.random() < 0.7 else len(left)
        own, left = left[:count], left[count:]
        # Its files are its own: another server id, another time.
        created = head.timestamp + 7 * number
        body = head.body[:52] + created.to_bytes(4, "little") + head.body[56:]
        events = [replace(head, server_id=head.server_id + 100, timestamp=created, body=body)]
        events.append(replace(head, type=PREVIOUS_GTIDS, flags=0x80, body=previous_of(done)))
        events += [event for group in own for event in group]
        if left:
            body = (4).to_bytes(8, "little") + b"mysql-bin.%06d" % (number + 1)
            events.append(replace(head, type=ROTATE, body=body))
        log = Log(tuple(events), True).renumbered().with_transaction_lengths()
        files.append((f"mysql-bin.{number:06d}", log.pack()))
        done += [gtid_of(group) for group in own]
        number += 1
    return files


def forgetting(files: Sequence[tuple[str, bytes]], rng: random.Random) -> list[tuple[str, bytes]]:
    """Return files as a server leaves them that crashed: from one on, none names what was committing when it began."""
    logs = [Log.load(data) for _, data in files]
    begun = [index for index in range(1, len(logs)) if groups_of(logs[index - 1])]
    if not begun:
        return list(files)
    index = rng.choice(begun)
    last = [gtid_of(group) for group in groups_of(logs[index - 1])[-rng.randint(1, 3) :]]
    forgotten = GtidSet.parse_text(text_of(last))
    told = list(files[:index])
    for (name, _), log in zip(files[index:], logs[index:], strict=True):
        events = [replace(e, body=_without(e.body, forgotten)) if e.type == PREVIOUS_GTIDS else e for e in log.events]
        told.append((name, log.with_events(events).renumbered().with_transaction_lengths().pack()))
    return told


def _without(body: bytes, gtids: GtidSet) -> bytes:
    return GtidSet.parse(body).minus(gtids).pack()


def interleaved(known: Sequence[Group], new: Sequence[Group], rng: random.Random) -> list[Group]:
    """Return groups of which those that are known may stand anywhere; the new ones stay in order."""
    order = [True] * len(known) + [False] * len(new)
    if rng.random() < 0.5:
        rng.shuffle(order)
    mixed = rng.sample(known, len(known)) if rng.random() < 0.5 else list(known)
    sources = {True: iter(mixed), False: iter(new)}
    return [next(sources[which]) for which in order]


def torn(
    files: list[tuple[str, bytes]], following: Group | None, rng: random.Random
) -> tuple[list[tuple[str, bytes]], int]:
    """Return files as a server leaves them that dies while it sends, and where the last whole group ends."""
    name, data = files[-1]
    log = Log.load(data)
    whole = log.events[-1].type in (ROTATE, STOP) and rng.random() < 0.5
    if not whole:
        log = log.with_events([e for e in log.events if e.type not in (ROTATE, STOP)])
        data = in_use(log.pack())
    end = len(data)
    if following is not None and not whole and rng.random() < 0.7:
        more = log.with_events([*log.events, *following]).renumbered().with_transaction_lengths().pack()
        data = in_use(more[: rng.randrange(end, len(more))])
    return [*files[:-1], (name, data)], end


def failed_over(files: Sequence[tuple[str, bytes]], times: int, rng: random.Random) -> list[Part]:
    """Return the parts of a node's log, which is `files`, that its servers wrote, and that were captured of each."""
    files = forgetting(files, rng) if rng.random() < 0.3 else files
    logs = [Log.load(data) for _, data in files]
    groups = [group for log in logs for group in groups_of(log)]
    head = logs[0].events[0]
    assert head.type == FORMAT_DESCRIPTION
    gtids = [gtid_of(group) for group in groups]
    ends = sorted(rng.choices(range(len(groups) + 1), k=times))
    own, left = [], ends[0]
    for (name, _), log in zip(files, logs, strict=True):
        mine = groups_of(log)
        if own and left == 0 and rng.random() < 0.5:
            break
        behind = len(log.events) if len(mine) <= left else next(log.groups())[0] + sum(map(len, mine[:left]))
        own.append((name, log.with_events(log.events[:behind]).pack()))
        left -= min(left, len(mine))
        if behind < len(log.events) or left == 0:
            break
    following = groups[ends[0]] if ends[0] < len(groups) else None
    own, end = torn(own, following, rng)
    parts = [Part("", tuple(own), "")]
    for number, (begin, until) in enumerate(zip(ends, [*ends[1:], len(groups)], strict=True), 2):
        start = rng.randint(0, begin)
        folder = f"{number:06d}-{uuid.UUID(int=number)}"
        order = interleaved(groups[start:begin], groups[begin:until], rng)
        own = written_anew(head, order, gtids[:start], rng.choice([1, 2, 900]), rng)
        line = {
            "version": 1, "folder": folder, "server_uuid": str(uuid.UUID(int=number)), "server": "mysql://b", "at": 1.0,
            "ended": {"folder": parts[-1].folder, "file": parts[-1].files[-1][0], "position": end},
            "captured": text_of(gtids[:begin]), "begins_in": own[0][0],
        }  # fmt: skip
        if until < len(groups):
            own, end = torn(own, groups[until], rng)
        else:
            end = len(own[-1][1])
        parts.append(Part(folder, tuple(own), json.dumps(line)))
    return parts


def places(parts: Sequence[Part]) -> list[Place]:
    """Return how far the node may have been captured: behind the first file's head, in any event."""
    head = Log.load(parts[0].files[0][1]).events
    first = head[2].at if len(head) > 2 else len(parts[0].files[0][1])
    return [
        (number, index, offset)
        for number, part in enumerate(parts)
        for index, (_, data) in enumerate(part.files)
        for offset in range(first if number == index == 0 else 0, len(data) + 1)
    ]


def grow(home: Path, parts: Sequence[Part], to: Place, gone: frozenset[str] = frozenset()) -> None:
    """Write what is captured of a node up to a place."""
    home.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts[: to[0] + 1]):
        (home / part.folder).mkdir(exist_ok=True)
        files = part.files if number < to[0] else part.files[: to[1] + 1]
        for index, (name, data) in enumerate(files):
            if (number, index) == to[:2] and to[2] < len(data):
                data = in_use(data[: to[2]]) if to[2] > 22 else data[: to[2]]
            if str(Path(part.folder) / name) not in gone:
                (home / part.folder / name).write_bytes(data)
    lines = [part.line for part in parts[1 : to[0] + 1]]
    if lines:
        (home / "servers.index").write_text("".join(f"{line}\n" for line in lines))
