"""A data node's binlog as groups with the commit TSOs that it carries, and the order keys that these give."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.oracle.binlog import (
    ANONYMOUS_GTID,
    GTID,
    GTID_TAGGED,
    OUTSIDE,
    QUERY,
    TRANSACTION_PAYLOAD,
    Event,
    Group,
    OracleError,
    Xid,
    advance,
    parse_gtid,
    parse_query,
    read_file,
    unpack_payload,
)
from tests.oracle.config import Node
from tests.oracle.order import Branch, Key, NodeOrder, table_maps, transaction_id, written_rows

GCN, SEQUENCE, CONSENSUS = 105, 80, (101, 102, 103, 104)
MACHINERY = ("__drds_global_tx_log", "__drds_redo_log", "polarx_global_trx_log")
SYNC_POINT = "__polardbx_sync_point__"


@dataclass(frozen=True)
class Carried:
    """A group, and the commit TSO that stands in it."""

    group: Group
    tso: int | None


def carried_tso(event: Event) -> int | None:
    """Return the commit TSO of event 105 (flag 4, but not a proposal: 16) or 80 (type 2)."""
    first = event.body[0]
    told = first == 2 if event.type == SEQUENCE else first & 4 and not first & 16
    return int.from_bytes(event.body[1:9], "little") if told else None


def read_node(node: Node) -> tuple[str, list[Carried]]:
    """Return the server version of the first file and all groups of a node."""
    versions, found = [], list[Carried]()
    for number, path in enumerate(node.files):
        version, events = read_file(path)
        versions.append(version)
        found += _cut(path.name, number, events)
    return versions[0], found


def _cut(name: str, number: int, events: list[Event]) -> Iterator[Carried]:
    """Cut a file's events into groups; event 105 in front of a GTID event belongs to its group."""
    group: Group | None = None
    tso: int | None = None
    for outer in events:
        if outer.type in OUTSIDE or outer.type in CONSENSUS:
            continue
        if outer.type in (GCN, SEQUENCE):
            told = carried_tso(outer)
            if group is None and (outer.type == GCN or told is not None):
                group = Group(number, name, events=[outer])
            tso = tso if told is None else told
            continue
        if outer.ignorable:
            continue
        if group is None:
            group = Group(number, name)
        if outer.type in (GTID, ANONYMOUS_GTID, GTID_TAGGED):
            if group.gtid is not None or group.kind:
                raise OracleError(f"{name}:{outer.start}: a transaction begins inside another")
            group.gtid = parse_gtid(outer)
            group.events.append(outer)
            continue
        ended = False
        for event in unpack_payload(outer) if outer.type == TRANSACTION_PAYLOAD else [outer]:
            group.events.append(event)
            ended = advance(group, event)
        if ended:
            _check_length(group, [e for e in events if group.start <= e.start < group.events[-1].end])
            if group.kind == "commit" and (variable := parse_query(group.events[-1]).commit_gcn) is not None:
                tso = variable
            yield Carried(group, tso)
            group, tso = None, None


def _check_length(group: Group, there: list[Event]) -> None:
    """Raise where a group is not as long as its GTID event says, with or without what is passed over in it."""
    if group.gtid is None or group.gtid.length is None:
        return
    begin = next(e.start for e in group.events if e.type in (GTID, ANONYMOUS_GTID, GTID_TAGGED))
    end = group.events[-1].end
    passed = sum(e.end - e.start for e in there if e.start > begin and (e.ignorable or e.type in CONSENSUS))
    if group.gtid.length not in (end - begin, end - begin - passed, end - group.start):
        raise OracleError(f"{group.where()}: {end - begin} bytes, its GTID event says {group.gtid.length}")


def is_ignored(xid: Xid) -> bool:
    """Tell whether a transaction takes no part: a recovery task, the cluster's own group, or it asks for that."""
    own = xid.bqual.partition(b"@")[0] == b"__CDC___SINGLE_GROUP"
    return xid.gtrid.startswith(b"POLARDB-X-RECOVER-TASK@") or own or xid.format_id in (2, 4)


def logged(groups: list[Carried]) -> dict[int, int]:
    """Return what the transaction log says: transaction number -> commit TSO. The TSO is its second BIGINT."""
    found: dict[int, int] = {}
    for carried in groups:
        for tmap, image in written_rows(carried.group, "", MACHINERY[0], exact=False):
            at = [i for i, column in enumerate(tmap.columns) if column.type == 8][1]
            number, tso = image[0], image[at]
            if isinstance(number, bytes) and isinstance(tso, bytes):
                found[int.from_bytes(number, "little")] = int.from_bytes(tso, "little")
    return found


@dataclass
class PxOrder(NodeOrder):
    """What one node's binlog says; `archive` holds the keys of archive transactions."""

    archive: set[Key] = field(default_factory=set)
    window: tuple[Xid, tuple[int, int], int] | None = None  # a sync point, the greatest at its prepare, its followers

    def follow(self) -> Key:
        """Return the key of what has no TSO: it stands behind the greatest so far."""
        self.counter += 1
        return (*self.greatest, self.counter, self.node.number)

    def follow_local(self, tso: int | None) -> Key:
        """Return the key of a transaction of the node alone; a sync point under way keeps it before what came since."""
        if self.window is None or self.window[1] == self.greatest or (tso is not None and tso > self.window[1][0]):
            return self.follow()
        xid, greatest, followers = self.window
        self.window = (xid, greatest, followers + 1)
        return (*greatest, followers + 1, self.node.number)

    def rise(self, key: Key) -> None:
        """Take in a commit TSO."""
        if key[:2] > self.greatest:
            if self.window is not None and self.window[1] == self.greatest:
                self.window = (self.window[0], self.greatest, self.counter)
            self.greatest, self.counter = key[:2], 0


def order_node(node: Node, version: str, groups: list[Carried], log: dict[int, int]) -> PxOrder:
    """Walk a node's groups in file order and give every committed one its key."""
    state = PxOrder(node, version)
    prepared: dict[Xid, Group] = {}
    committed = {c.group.xid for c in groups if c.group.kind == "commit"}
    for carried in groups:
        group, xid = carried.group, carried.group.xid
        if xid is not None and is_ignored(xid):
            continue
        if group.kind == "prepare":
            assert xid is not None
            prepared[xid] = group
            if xid in committed and any(table.startswith(SYNC_POINT) for (_, table), _ in table_maps(group)):
                state.window = (xid, state.greatest, state.counter)
        elif group.kind == "rollback":
            assert xid is not None
            prepared.pop(xid, None)
        elif group.kind == "commit":
            assert xid is not None
            if state.window is not None and state.window[0] == xid:
                state.window = None
            number = transaction_id(xid.gtrid)
            tso = carried.tso if carried.tso is not None else log.get(number)
            key = state.follow() if tso is None else (tso, number, 0, 0)
            state.rise(key)
            state.branches.append(Branch(key, node, prepared.pop(xid), group.commit_us()))
            if xid.format_id == 3:
                state.archive.add(key)
        elif group.kind == "ddl":
            state.ddl.append(Branch(state.follow(), node, group, group.commit_us()))
        elif group.kind != "undone":
            _local(state, carried)
    state.in_doubt = [(xid, (0, 0, 0, 0)) for xid in prepared]
    return state


def _local(state: PxOrder, carried: Carried) -> None:
    """Place a transaction that was never prepared: with the key its row of the transaction log gives, or behind."""
    group = carried.group
    told = logged([carried])
    others = [name for (_, name), _ in table_maps(group) if not name.startswith(MACHINERY[0])]
    key: Key
    if told:
        ((number, tso),) = told.items()
        key = (tso, number, 0, 0)
        state.rise(key)
        if not others:
            return
    else:
        key = state.follow_local(carried.tso) if group.kind == "local" else state.follow()
    state.branches.append(Branch(key, state.node, group, group.commit_us()))


_HINT = re.compile(rb"/\*DRDS /[^/]*/([^/]*)/([^/]*)/([^/]*)/")


def hint_of(event: Event) -> tuple[tuple[int, int], int | None] | None:
    """Return the trace and the server id that a Rows_query event tells."""
    found = _HINT.search(event.body[1:])
    if found is None:
        return None
    sequence = found[1].partition(b"-")[2]
    return (int(sequence or b"0"), int(found[2] or b"0")), int(found[3]) if found[3] else None


def query_text(group: Group) -> str:
    """Return the text of a group's first QUERY event that is not BEGIN."""
    return next(t for e in group.events if e.type == QUERY and (t := parse_query(e).text) != "BEGIN")
