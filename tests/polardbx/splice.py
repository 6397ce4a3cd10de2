"""Turns the binlog of a plain MySQL server that ran a data node's statements into what a PolarDB-X data node writes.

A data node's binlog is MySQL's and a few things more, above all the commit TSO. `splice` puts them in and corrects what
depends on it: positions, checksums, the transaction lengths of GTID events. Where a TSO stands, by dialect:

* gcn (8.0, current): GCN_LOG_EVENT (105) in front of every group, before its GTID event; flags, then the sequence.
* query (8.0, first): status variables 200 (on XA COMMIT) and 201 (on XA END) of QUERY events.
* sequence (5.7): SEQUENCE_EVENT (80), type 1 behind XA START, type 2 before XA COMMIT, type 3 to keep the time.
* log (the oldest): nowhere; the compute node writes it into a table.

These events, and the consensus layer's (101 to 104), carry LOG_EVENT_IGNORABLE_F. mysqlbinlog passes over them where
the file head also describes that many event types, as a data node's does; else it stops, --force-read or not.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.merge_e2e.editing import (
    FORMAT_DESCRIPTION,
    GTIDS,
    PREVIOUS_GTIDS,
    QUERY,
    ROTATE,
    STOP,
    XA_PREPARE,
    XID,
    Log,
    Piece,
)

SEQUENCE, CONSENSUS, PREVIOUS_CONSENSUS, GCN = 80, 101, 102, 105
SNAPSHOT, COMMIT, HEARTBEAT = 1, 2, 3  # kinds of SEQUENCE
HAVE_GCN, HAVE_SNAPSHOT, HAVE_COMMIT, ASSIGNED, PROPOSAL, BRANCH_COUNT = 1, 2, 4, 8, 16, 32  # flags of GCN
COMMIT_VARIABLE, PREPARE_VARIABLE = 200, 201
IGNORABLE = 0x80


@dataclass(frozen=True)
class Stamp:
    """The TSOs of a transaction; a `commit` of None is one that the coordinator did not give.

    `branches` are the numbers of all its branches and of those on this node.
    """

    commit: int | None
    snapshot: int | None = None
    branches: tuple[int, int] | None = None


@dataclass(frozen=True)
class Dialect:
    """What kind of data node writes; `types` is how many event types the file head describes, None for the server's."""

    name: str = "gcn"
    behind_gtid: bool = False  # the GCN event stands behind the GTID event
    branch_count: bool = False  # GCN events of branches carry how many there are
    consensus: bool = False  # the consensus layer's events are in the file too
    ignorable: bool = True  # its own events carry LOG_EVENT_IGNORABLE_F
    proposals: bool = False  # GCN events at the prepare propose a commit TSO, which is none yet
    bare: bool = False  # GCN events of what is no branch carry flags alone
    local_tso: bool = False  # transactions of a node alone carry a TSO of their own
    heartbeats: int = 0  # in front of every so many groups a SEQUENCE event only keeps the time
    types: int | None = 105
    version: str | None = None  # the server version that the file head announces


def splice(
    log: Log,
    stamps: Mapping[bytes, Stamp],
    dialect: Dialect,
    local: Stamp | None = None,
    own: Mapping[int, int] | None = None,
) -> Log:
    """Return a file of a plain server as a data node writes it.

    `stamps` are by gtrid; branches of a gtrid that is not in it stay without a TSO. `local` is what groups that are no
    branch carry, where the dialect gives them anything: a data node's own sequence by default, which readers ignore.
    `own` are TSOs of transactions of the node alone, by the number in their XID events.
    """
    head = [_head(e, dialect) if e.type == FORMAT_DESCRIPTION else e for e in log.events if _is_head(e)]
    events: list[Piece] = list(head)
    if dialect.consensus:
        events.append(_like(head[0], PREVIOUS_CONSENSUS, struct.pack("<Q", 7), IGNORABLE))
    newest = 0
    for index, group in enumerate(groups(log)):
        text = _first_query(group)
        stamp = stamps.get(gtrid_of(text), _one_phase(group, local)) if text.startswith("XA ") else local
        number = int.from_bytes(group[-1].body, "little") if own and group[-1].type == XID else -1
        if own and number in own:
            stamp = Stamp(own[number])
        if text.startswith("XA COMMIT") and stamp is not None and stamp.commit is not None:
            newest = max(newest, stamp.commit)
        spliced = list(_group(group, text, stamp, dialect, newest))
        if dialect.consensus:
            body = struct.pack("<IQQQQ", 0, 3, 8 + index, sum(len(e.body) + 23 for e in spliced), 0)
            events.append(_like(group[0], CONSENSUS, body, IGNORABLE))
        if dialect.heartbeats and index % dialect.heartbeats == 0:
            events.append(sequence_event(group[0], HEARTBEAT, newest + (1 << 40)))
        events += _measured(spliced, log.checksum)
    events += [e for e in log.events if e.type in (ROTATE, STOP)]
    return log.with_events(events if dialect.ignorable else [_unmarked(e) for e in events])


def _one_phase(group: Sequence[Piece], local: Stamp | None) -> Stamp | None:
    """Return the stamp of a group that is a node's own, though it has the form of a branch."""
    return local if any(e.type == XA_PREPARE and e.body[0] for e in group) else None


def groups(log: Log) -> Iterator[list[Piece]]:
    """Yield the groups of a file, each from its GTID event to what commits, prepares or ends it."""
    body = [e for e in log.events if not _is_head(e) and e.type not in (ROTATE, STOP)]
    starts = [i for i, e in enumerate(body) if e.type in GTIDS]
    if starts[:1] != [0] and body:
        raise ValueError("every group must begin with a GTID event")
    for first, end in pairwise([*starts, len(body)]):
        yield body[first:end]


def gtrid_of(text: str) -> bytes:
    """Return the gtrid of an XA statement as servers log it: XA COMMIT X'<gtrid>',X'<bqual>',<format id>."""
    return bytes.fromhex(text.split("X'")[1].split("'")[0])


def gcn_event(like: Piece, flags: int, sequence: int, branches: tuple[int, int] | None = None) -> Piece:
    """Return GCN_LOG_EVENT: flags, the sequence if there is one, the numbers of all and of this node's branches."""
    body = bytes([flags]) + (struct.pack("<Q", sequence) if flags & HAVE_GCN else b"")
    if branches is not None:
        body = bytes([flags | BRANCH_COUNT]) + body[1:] + struct.pack("<HH", *branches)
    return _like(like, GCN, body, IGNORABLE)


def sequence_event(like: Piece, kind: int, sequence: int) -> Piece:
    """Return SEQUENCE_EVENT."""
    return _like(like, SEQUENCE, bytes([kind]) + struct.pack("<Q", sequence), IGNORABLE)


def with_variable(query: Piece, code: int, value: int) -> Piece:
    """Return a QUERY event with one status variable more, behind all others since readers stop at an unknown one."""
    length = int.from_bytes(query.body[11:13], "little")
    status = query.body[13 : 13 + length] + bytes([code]) + struct.pack("<Q", value)
    head = query.body[:11] + struct.pack("<H", len(status))
    return replace(query, body=head + status + query.body[13 + length :])


def _group(group: Sequence[Piece], text: str, stamp: Stamp | None, dialect: Dialect, newest: int) -> Iterator[Piece]:
    if dialect.name == "gcn":
        own = not text.startswith("XA ") or _one_phase(group, stamp) is not None
        carrier = _gcn_of(group[0], text, stamp, dialect, newest, own)
        yield from (group[0], carrier) if dialect.behind_gtid else (carrier, group[0])
        yield from group[1:]
    else:
        yield group[0]
        for event in group[1:]:
            yield from _older(event, text, stamp, dialect)


def _gcn_of(like: Piece, text: str, stamp: Stamp | None, dialect: Dialect, newest: int, own: bool) -> Piece:
    """Return the GCN event of a group. Every group has one; only a commit TSO that was given from outside is told."""
    if own and stamp is None and dialect.bare:
        return gcn_event(like, 0, 0)
    flags, sequence, branches = HAVE_GCN, newest, None
    if stamp is not None:
        if stamp.snapshot is not None:
            flags |= HAVE_SNAPSHOT
        if stamp.commit is not None and (own or not text.startswith(("XA START", "XA ROLLBACK"))):
            flags |= HAVE_COMMIT | ASSIGNED
            sequence = stamp.commit
        elif stamp.commit is not None and dialect.proposals and text.startswith("XA START"):
            flags |= HAVE_COMMIT | PROPOSAL
            sequence = stamp.commit - 1
        if dialect.branch_count and text.startswith("XA START"):
            branches = stamp.branches
    return gcn_event(like, flags, sequence, branches)


def _older(event: Piece, first: str, stamp: Stamp | None, dialect: Dialect) -> Iterator[Piece]:
    text = event.text if event.type == QUERY else ""
    if stamp is None or dialect.name == "log":
        yield event
        return
    if not first.startswith("XA ") and stamp.commit is not None:
        if dialect.name == "query" and event.type == QUERY:
            event = with_variable(event, COMMIT_VARIABLE, stamp.commit)
        if dialect.name == "sequence" and event.type == XID:
            yield sequence_event(event, COMMIT, stamp.commit)
    if dialect.name == "query":
        if text.startswith("XA END") and stamp.snapshot is not None:
            event = with_variable(event, PREPARE_VARIABLE, stamp.snapshot)
        elif text.startswith("XA COMMIT") and stamp.commit is not None:
            event = with_variable(event, COMMIT_VARIABLE, stamp.commit)
    if dialect.name == "sequence" and text.startswith("XA COMMIT") and stamp.commit is not None:
        yield sequence_event(event, COMMIT, stamp.commit)
    yield event
    if dialect.name == "sequence" and text.startswith("XA START") and stamp.snapshot is not None:
        yield sequence_event(event, SNAPSHOT, stamp.snapshot)


def _measured(events: Sequence[Piece], checksum: bool) -> list[Piece]:
    """Return a group with the transaction length that its GTID event then has; tagged GTIDs keep theirs."""
    at = next(i for i, e in enumerate(events) if e.type in GTIDS)
    gtid, rest = events[at], sum(19 + len(e.body) + 4 * checksum for e in events[at + 1 :])
    times = 14 if len(gtid.body) > 49 and gtid.body[48] & 0x80 else 7
    where = 42 + times  # behind flags, sid, gno, the logical clock and the timestamps
    if gtid.type not in GTIDS[:2] or len(gtid.body) <= where:
        return list(events)
    head, versions = gtid.body[:where], gtid.body[where + _width(gtid.body[where]) :]
    for width in (1, 3, 4, 9):
        total = rest + 19 + where + width + len(versions) + 4 * checksum
        if len(_lenenc(total)) == width:
            changed = replace(gtid, body=head + _lenenc(total) + versions)
            return [*events[:at], changed, *events[at + 1 :]]
    raise ValueError(f"no length-encoded integer holds {rest}")


def _head(event: Piece, dialect: Dialect) -> Piece:
    """Return the format description with another server version, and as many event types as wanted."""
    body = event.body
    if dialect.version is not None:
        body = body[:2] + dialect.version.encode().ljust(50, b"\0") + body[52:]
    if dialect.types is not None:
        lengths = body[57:-1][: dialect.types].ljust(dialect.types, b"\0")
        body = body[:57] + lengths + body[-1:]
    return replace(event, body=body)


def _is_head(event: Piece) -> bool:
    return event.type in (FORMAT_DESCRIPTION, PREVIOUS_GTIDS)


def _first_query(group: Sequence[Piece]) -> str:
    return next((e.text for e in group if e.type == QUERY), "")


def _like(event: Piece, kind: int, body: bytes, flags: int) -> Piece:
    return replace(event, type=kind, flags=flags, body=body)


def _unmarked(event: Piece) -> Piece:
    return replace(event, flags=0) if event.type in (SEQUENCE, CONSENSUS, PREVIOUS_CONSENSUS, GCN) else event


def _width(first: int) -> int:
    return {252: 3, 253: 4, 254: 9}.get(first, 1)


def _lenenc(value: int) -> bytes:
    if value < 251:
        return bytes([value])
    first, width = next((f, w) for f, w in ((252, 2), (253, 3), (254, 8)) if value < 1 << 8 * w)
    return bytes([first]) + value.to_bytes(width, "little")
