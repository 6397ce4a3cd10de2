"""Joins the pieces of a node's log: settles what a piece could not know by itself.

Three things cross the boundaries between pieces: prepared branches that end later, commit rows that came earlier, and
the greatest commit TSO so far, which positions transactions without a TSO. All are few, so the driver walks the pieces
of a node in order with a `Carry`, and makes for each piece the `Patch` that completes its block.

    piece 1        P1 P2 C1(tso 7)            carry: greatest 7, open {P2}
    piece 2   L    C2(tso 9)   L              patch: L is (7, seq 1), P2 commits at 9, L is (9, seq 1)

A branch may be prepared again, in the log of the server that the node went over to, if the file in which it was
prepared is not there any more. It keeps the bound for its TSO that it had in the first place.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from binlog_merge.errors import CommitTsoConflict, UnsupportedInput
from binlog_merge.pipeline.assemble.values import Patch
from binlog_merge.pipeline.base.branches import Carry, EdgeBranch, Hash, KeptBranch, LateCommit, OpenBranch, Prepared


class Piece(Protocol):
    """The attributes of a scanned piece (`pipeline.scan.values.ScanResult`) that assemble needs."""

    @property
    def file_index(self) -> int: ...
    @property
    def local(self) -> int: ...
    @property
    def max_tso(self) -> int: ...
    @property
    def max_transaction(self) -> int: ...
    @property
    def locals_after_max(self) -> int: ...
    @property
    def sets(self) -> tuple[tuple[tuple[str, str], ...], ...]: ...
    @property
    def late(self) -> tuple[LateCommit, ...]: ...
    @property
    def open(self) -> tuple[OpenBranch, ...]: ...
    @property
    def commit_rows(self) -> tuple[tuple[int, int, int], ...]: ...
    @property
    def again(self) -> tuple[Hash, ...]: ...


@dataclass(frozen=True, slots=True)
class Assembled:
    """A completed piece: its patch, the branches that its late commits completed, and the carry for the next piece."""

    patch: Patch
    edges: tuple[EdgeBranch, ...]
    carry: Carry
    new_edges: tuple[tuple[int, int, int], ...]  # (tso, transaction, commit offset) of the edges
    without_tso: tuple[tuple[Hash, int], ...]  # (gtrid, commit offset) of XA COMMITs kept as locals
    lost: tuple[tuple[int, int, int], ...] = ()  # (tso, transaction, commit offset) of XA COMMITs without a prepare
    asks: bool = False  # for a commit row that may be among those that pieces have used


@dataclass
class _Pass:
    """The mutable state of one pass over one piece."""

    piece: Piece
    max_tso: int  # the greatest before the piece
    rows: dict[Hash, int]
    open: dict[Hash, Prepared]
    raised: list[tuple[int, int, int]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    kept: list[KeptBranch] = field(default_factory=list)
    edges: list[EdgeBranch] = field(default_factory=list)
    new_edges: list[tuple[int, int, int]] = field(default_factory=list)
    greatest: list[int] = field(default_factory=list)  # of the TSOs in new_edges, up to each
    without_tso: list[tuple[Hash, int]] = field(default_factory=list)
    lost: list[tuple[int, int, int]] = field(default_factory=list)
    asks: bool = False
    before: dict[Hash, int] = field(default_factory=dict)  # the greatest TSO before what is prepared again was prepared


def assemble_piece(piece: Piece, carry: Carry, elsewhere: Sequence[int] = ()) -> Assembled:
    """Join a piece's late commits with the carry of earlier pieces, and compute the carry for the next.

    `elsewhere` are indexes of locals that do not follow the greatest commit (`assemble.sync_points`). Raises
    UnsupportedInput for an XA COMMIT without a commit TSO whose prepare is not in the input: its rows would be lost, at
    an unknown key.
    """
    work = _Pass(piece, carry.max_tso, dict(carry.commit_rows), dict(carry.open), dropped=list(elsewhere))
    for g1, g2, tso in piece.commit_rows:
        known_tso = work.rows.setdefault((g1, g2), tso)
        if known_tso != tso:
            raise CommitTsoConflict(f"one XA transaction has two commit TSOs on this node: {known_tso} and {tso}")
    for xid in piece.again:
        known = work.open.get(xid)
        if known is not None and known.file_index < 0:
            work.before[xid] = work.open.pop(xid).max_tso
    for late in piece.late:
        _settle(work, late)
    patch = Patch(
        carry.max_tso, carry.max_transaction, carry.seq, tuple(work.raised), tuple(work.dropped), tuple(work.kept)
    )
    max_tso, max_transaction, seq = _leaving(piece, patch)
    for branch in piece.open:
        if branch.xid in work.open:
            raise UnsupportedInput(
                "an XA transaction is prepared twice",
                position=branch.start,
                remedy="the node's files overlap or were edited; copy them from the node again",
            )
        work.open[branch.xid] = Prepared(
            branch.gtrid,
            branch.transaction,
            piece.file_index,
            branch.start,
            branch.end,
            piece.sets[branch.set],
            branch.flags,
            work.before.get(branch.xid, max(branch.max_tso, carry.max_tso, _greatest_before(work, branch.start))),
        )
    wanted = {p.gtrid for p in work.open.values()}
    unused = {(g1, g2) for g1, g2, _ in piece.commit_rows} | set(carry.commit_rows)
    spent = {late.gtrid for late in piece.late}
    rows = {g: tso for g, tso in work.rows.items() if g in wanted or (g in unused and g not in spent)}
    return Assembled(
        patch,
        tuple(work.edges),
        Carry(max_tso, max_transaction, seq, rows, work.open),
        tuple(work.new_edges),
        tuple(work.without_tso),
        tuple(work.lost),
        work.asks,
    )


def _greatest_before(work: _Pass, offset: int) -> int:
    """Return the greatest TSO of the late commits before an offset of the piece, 0 if there is none."""
    count = bisect_left(work.new_edges, offset, key=lambda edge: edge[2])
    return work.greatest[count - 1] if count else 0


def lost_branch(commit_at: int) -> UnsupportedInput:
    """Return the error for an XA COMMIT at this offset whose prepare is not in the input."""
    return UnsupportedInput(
        "an XA COMMIT has no XA PREPARE in the input: the rows of this transaction are not there",
        position=commit_at,
        remedy="give the earlier binlog files of this node, or a base taken when no XA transaction was prepared",
    )


def _settle(work: _Pass, late: LateCommit) -> None:
    piece = work.piece
    prepared = work.open.pop(late.xid, None)
    if late.branch is not None:
        start, end, set_number, flags = late.branch
        tables = piece.sets[set_number]
        greatest = work.before.get(late.xid, max(work.max_tso, late.greatest[0], _greatest_before(work, start)))
        prepared = Prepared(late.gtrid, late.transaction, piece.file_index, start, end, tables, flags, greatest)
    if late.rollback:
        return  # a rollback of a branch that was prepared before our input began changes nothing
    tso = late.tso if late.tso is not None else work.rows.get(late.gtrid)
    work.asks |= tso is None or work.rows.get(late.gtrid, tso) != tso
    if prepared is None:
        if tso is None:
            raise lost_branch(late.commit_at)
        work.lost.append((tso, late.transaction, late.commit_at))
        if late.local >= 0:
            work.dropped.append(late.local)
            work.raised.append((late.locals_before, tso, late.transaction))
        return
    if tso is None:
        work.kept.append(
            KeptBranch(
                late.local,
                prepared.file_index,
                prepared.start,
                prepared.end,
                prepared.tables,
                prepared.flags,
                late.gtrid,
                late.commit_at,
                prepared.max_tso,
            )
        )
        work.without_tso.append((late.gtrid, late.commit_at))
        return
    if late.local >= 0:
        work.dropped.append(late.local)
        work.raised.append((late.locals_before, tso, late.transaction))
    work.new_edges.append((tso, late.transaction, late.commit_at))
    work.greatest.append(max(tso, work.greatest[-1]) if work.greatest else tso)
    work.edges.append(
        EdgeBranch(
            tso,
            late.transaction,
            prepared.file_index,
            prepared.start,
            prepared.end,
            late.commit_us,
            prepared.tables,
            prepared.flags,
        )
    )


def _leaving(piece: Piece, patch: Patch) -> tuple[int, int, int]:
    """Return the greatest (tso, transaction) at the end of the piece, and how many locals follow it."""
    dropped = np.array(sorted(patch.dropped), np.int64)
    live_after = lambda index: piece.local - index - int(np.count_nonzero(dropped >= index))  # noqa: E731
    best = max(
        (patch.max_tso, patch.max_transaction),
        (piece.max_tso, piece.max_transaction),
        *((tso, transaction) for _, tso, transaction in patch.raised),
    )
    if best == (patch.max_tso, patch.max_transaction):
        return (*best, patch.seq + live_after(0))
    starts = [index for index, tso, transaction in patch.raised if (tso, transaction) == best]
    if best == (piece.max_tso, piece.max_transaction):
        starts.append(piece.local - piece.locals_after_max)
    return (*best, live_after(min(starts)))
