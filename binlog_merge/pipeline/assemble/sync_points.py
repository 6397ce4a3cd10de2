"""Sync points of PolarDB-X: reorders the local transactions that a node commits while one is in progress.

A sync point (`CALL trigger_sync_point_trx()`) is a moment at which the cluster and its copy can be compared. Between
its prepare and its commit on a node, a local transaction that is not later than the node's commits before the prepare
follows right after those, not after the commits made meanwhile (polardbx-cdc `RuntimeContext`,
`TransactionBufferEventFilter`):

    P3 C3(tso 7)   Ps   L   P4 C4(tso 9)   L'   Cs(tso 10)   L''        L (7, 1)   L' (7, 2)   L'' (10, 1)

A local that is later, as it carries a commit TSO of its own that is greater, keeps its usual key. A sync point that is
rolled back or in doubt changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.binlog.wire import Buffer
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import LocalKeys, Patch
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import read_group
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.scan.values import ScanResult
from snapshot_store.tso import OrderKey

PieceOffset = tuple[int, int]  # a piece of the node, an offset in its file
Greatest = tuple[int, int]

_NOT_LOCAL = k.DDL | k.MARKER | k.PLACEHOLDER


@dataclass(frozen=True, slots=True)
class Window:
    """From a sync point's prepare to its commit, with the greatest (tso, transaction) committed before it."""

    start: PieceOffset
    end: PieceOffset
    greatest: Greatest


def windows(node: ScannedNode) -> list[Window]:
    """Return a node's windows, in order. A window ends at the next sync point's prepare or any sync point's commit."""
    prepared: dict[tuple[int, int], tuple[PieceOffset, Greatest]] = {}
    marks: list[tuple[PieceOffset, Greatest | None]] = []
    for number, (piece, carry, block) in enumerate(zip(node.pieces, node.carries, node.blocks, strict=True)):
        before = (carry.max_tso, carry.max_transaction)
        raised = _raised(piece, block.patch)
        for branch in piece.open:
            if branch.flags & k.SYNC_POINT:
                seen = (before, (branch.max_tso, branch.max_transaction), *_until(raised, branch.start))
                prepared[branch.xid] = ((number, branch.start), max(seen))
        for late in piece.late:
            begun = prepared.pop(late.xid, None)
            if late.branch is not None and late.branch[3] & k.SYNC_POINT:
                begun = (number, late.branch[0]), max(before, late.greatest, *_until(raised, late.branch[0]))
            if begun is not None and not late.rollback:
                marks += [begun, ((number, late.commit_at), None)]
    marks.sort(key=lambda mark: mark[0])
    found = list[Window]()
    open_: tuple[PieceOffset, Greatest] | None = None
    for place, now in marks:
        if open_ is not None:
            found.append(Window(open_[0], place, open_[1]))
        open_ = None if now is None else (place, now)
    return found


def _raised(piece: ScanResult, patch: Patch) -> list[tuple[int, Greatest]]:
    """Return the commits whose TSO the piece itself did not know, with their offsets."""
    greatest = {index: (tso, transaction) for index, tso, transaction in patch.raised}
    return [(late.commit_at, greatest[late.local]) for late in piece.late if late.local in greatest]


def _until(raised: Iterable[tuple[int, Greatest]], offset: int) -> list[Greatest]:
    return [greatest for at, greatest in raised if at < offset]


@dataclass
class _Locals:
    """A node's locals, loaded piece by piece on demand."""

    node: ScannedNode
    _read: dict[int, tuple[dict[str, Column], LocalKeys]] = field(default_factory=dict)

    def of(self, number: int) -> tuple[dict[str, Column], LocalKeys]:
        if number not in self._read:
            self._read[number] = self.node.blocks[number].local()
        return self._read[number]

    def count(self, greatest: Greatest, last: int) -> int:
        """Return how many locals follow a commit, up to and including piece `last`."""
        for number in range(last, -1, -1):
            keys = self.of(number)[1]
            here = keys.alive & (keys.tso == greatest[0]) & (keys.transaction == greatest[1])
            if here.any():
                return int(keys.seq[here].max())
            if len(keys.tso) and (keys.tso[0], keys.transaction[0]) < greatest:
                return 0
        carry = self.node.carries[0]
        return carry.seq if (carry.max_tso, carry.max_transaction) == greatest else 0

    def inside(self, window: Window) -> Iterator[tuple[int, int]]:
        """Yield (piece, index) of the locals in a window that follow a commit made within it."""
        for number in range(window.start[0], window.end[0] + 1):
            columns, keys = self.of(number)
            start = columns["start"]
            here: npt.NDArray[np.bool_] = keys.alive & ((columns["flags"] & _NOT_LOCAL) == 0)
            here &= (keys.tso != window.greatest[0]) | (keys.transaction != window.greatest[1])
            if number == window.start[0]:
                here &= start > window.start[1]
            if number == window.end[0]:
                here &= start < window.end[1]
            for i in np.flatnonzero(here).tolist():
                yield number, i


def moved_locals(node: ScannedNode) -> dict[int, list[tuple[int, OrderKey]]]:
    """Return, by piece, the (index, new key) of locals that belong right after the commits before a sync point."""
    found: dict[int, list[tuple[int, OrderKey]]] = {}
    locals_, last, gone = _Locals(node), dict[Greatest, int](), Counter[Greatest]()
    for window in windows(node):
        for number, index in locals_.inside(window):
            columns, keys = locals_.of(number)
            if not _is_before(node, number, index, columns, window.greatest[0]):
                continue
            if window.greatest not in last:
                # An earlier window may have moved away locals that followed the same commit.
                last[window.greatest] = locals_.count(window.greatest, window.end[0]) - gone[window.greatest]
            last[window.greatest] += 1
            gone[int(keys.tso[index]), int(keys.transaction[index])] += 1
            key = OrderKey(*window.greatest, last[window.greatest], node.input.number)
            found.setdefault(number, []).append((index, key))
    return found


def _is_before(node: ScannedNode, number: int, index: int, columns: dict[str, Column], tso: int) -> bool:
    file = node.pieces[number].file_index
    data = read_group(node.input, file, int(columns["start"][index]), int(columns["end"][index]))
    own = own_tso(transaction_events(data, node.input.files[file].checksum_alg == 1))
    return own is not None and own <= tso


def carries(kind: int, body: Buffer) -> bool:
    """Return whether a PolarDB-X event carries a commit TSO (in the scan kernel `_carried`)."""
    if kind == EventType.SEQUENCE_EVENT:
        return body[0] == k.SEQUENCE_COMMIT
    return body[0] & (k.GCN_COMMIT | k.GCN_PROPOSAL) == k.GCN_COMMIT


def own_tso(events: Iterable[RawEvent]) -> int | None:
    """Return the commit TSO that a local transaction's group carries, -1 if it carries none.

    None if the group is not a local transaction but, say, a branch that was committed in one phase.
    """
    tso, is_local = -1, False
    for event in events:
        body = event.body
        if event.type_code in (EventType.SEQUENCE_EVENT, EventType.GCN_EVENT):
            tso = int.from_bytes(body[1:9], "little", signed=True) if carries(event.type_code, body) else tso
        elif event.type_code == EventType.QUERY_EVENT:
            query = Query.parse(body)
            is_local |= query.text == "BEGIN"
            tso = int(query.status_vars.get(StatusVar.Q_LIZARD_COMMIT_GCN, tso))
    return tso if is_local else None
