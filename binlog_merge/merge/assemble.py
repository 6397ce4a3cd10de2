"""Assemble: settle, per node, what a piece of its log could not know by itself.

Three things cross the edges between pieces: prepared branches whose end comes later, commit rows that came earlier, and
the greatest commit TSO so far, which gives transactions without a TSO their place. All are few, so the driver walks the
pieces of a node in order with a `Carry`, and hands each piece the `Patch` that makes its block final.

    piece 1        P1 P2 C1(tso 7)            carry: greatest 7, open {P2}
    piece 2   L    C2(tso 9)   L              patch: L is (7, seq 1), P2 commits at 9, L is (9, seq 1)
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels.scan_layout import SYNC_POINT
from binlog_merge.errors import CommitTsoConflict, MissingCommitTso, UnsupportedInput
from snapshot_store.tso import OrderKey

Hash = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LateCommit:
    """An XA COMMIT or ROLLBACK that its piece could not join. `branch` is (start, end, set, flags) where the prepare is
    known.

    `local` is the index of its placeholder among the piece's locals, -1 where its TSO is known.
    """

    local: int
    locals_before: int
    xid: Hash
    gtrid: Hash
    transaction: int
    tso: int | None
    rollback: bool
    commit_us: int
    commit_at: int
    branch: tuple[int, int, int, int] | None
    greatest: tuple[int, int] = (0, 0)  # the greatest (tso, transaction) in the piece before the branch


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """A prepared branch that nothing in its piece ended."""

    xid: Hash
    gtrid: Hash
    transaction: int
    start: int
    end: int
    set: int
    flags: int
    max_tso: int
    max_transaction: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared branch, where its bytes are, and the greatest commit TSO before it in its log."""

    gtrid: Hash
    transaction: int
    file_index: int
    start: int
    end: int
    tables: tuple[tuple[str, str], ...]
    flags: int
    max_tso: int


@dataclass(frozen=True, slots=True)
class EdgeBranch:
    """A committed branch whose prepare and commit lie in different pieces."""

    tso: int
    transaction: int
    file_index: int
    start: int
    end: int
    commit_us: int
    tables: tuple[tuple[str, str], ...]
    flags: int


@dataclass(frozen=True, slots=True)
class KeptBranch:
    """A prepared branch that committed without a commit TSO, in the place of the local with this index."""

    local: int
    file_index: int
    start: int
    end: int
    tables: tuple[tuple[str, str], ...]
    flags: int
    gtrid: Hash = (0, 0)
    commit_at: int = 0
    behind: int = 0  # the greatest commit TSO before its prepare


@dataclass(frozen=True, slots=True)
class Carry:
    """What the pieces of a node's log up to some place hand to the next."""

    max_tso: int = 0
    max_transaction: int = 0
    seq: int = 0
    commit_rows: Mapping[Hash, int] = field(default_factory=dict)
    open: Mapping[Hash, Prepared] = field(default_factory=dict)

    def to_dict(self, file_names: Sequence[str]) -> dict[str, Any]:
        """Return plain values for the manifest; files by name, since indexes change from run to run."""
        name = lambda p: file_names[p.file_index] if p.file_index >= 0 else ""  # noqa: E731
        return {
            "max_tso": self.max_tso,
            "max_transaction": self.max_transaction,
            "seq": self.seq,
            "commit_rows": [[*gtrid, tso] for gtrid, tso in self.commit_rows.items()],
            "open": [
                [*xid, *p.gtrid, p.transaction, name(p), p.start, p.end, p.tables, p.flags, p.max_tso]
                for xid, p in self.open.items()
            ],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], file_names: Sequence[str]) -> "Carry":
        """Read what `to_dict` wrote. A branch in a file that is gone has been merged already: its file index is -1.

        It is still needed, for its XA COMMIT may stand in a file that will be read again.
        """
        index = {name: i for i, name in enumerate(file_names)}
        prepared = {}
        for x1, x2, g1, g2, transaction, file, start, end, tables, flags, max_tso in values["open"]:
            named = tuple((schema, table) for schema, table in tables)
            prepared[(x1, x2)] = Prepared((g1, g2), transaction, index.get(file, -1), start, end, named, flags, max_tso)
        rows = {(g1, g2): tso for g1, g2, tso in values["commit_rows"]}
        return cls(values["max_tso"], values["max_transaction"], values["seq"], rows, prepared)


@dataclass(frozen=True, slots=True)
class Patch:
    """What makes the locals of one block final: the greatest key that comes in, and what became of its placeholders.

    `raised` holds (index among the locals, tso, transaction) for every late commit, which raises the greatest key from
    there on.
    `kept` holds the placeholders that stay, because their XA COMMIT has no commit TSO: what their piece could not know
    of them when the prepare lies in an earlier one.
    """

    max_tso: int
    max_transaction: int
    seq: int
    raised: tuple[tuple[int, int, int], ...] = ()
    dropped: tuple[int, ...] = ()
    kept: tuple[KeptBranch, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalKeys:
    """The order keys of a block's locals, less their node number; `alive` is False for dropped placeholders."""

    tso: npt.NDArray[np.int64]
    transaction: npt.NDArray[np.int64]
    seq: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]


def local_keys(max_tso: npt.NDArray[np.int64], max_transaction: npt.NDArray[np.int64], patch: Patch) -> LocalKeys:
    """Return the keys of locals from the greatest commit their own piece had seen before each, and the patch.

    A local inherits the greatest of: what its piece had committed before it, what came in, and late commits before it.
    """
    n = len(max_tso)
    tso, transaction = max_tso.copy(), max_transaction.copy()
    for start, raised_tso, raised_transaction in ((0, patch.max_tso, patch.max_transaction), *patch.raised):
        tail_tso, tail_transaction = tso[start:], transaction[start:]
        lower = (tail_tso < raised_tso) | ((tail_tso == raised_tso) & (tail_transaction < raised_transaction))
        tail_tso[lower], tail_transaction[lower] = raised_tso, raised_transaction
    alive = np.ones(n, np.bool_)
    alive[list(patch.dropped)] = False
    seq = np.zeros(n, np.int64)
    if n:
        changed = np.empty(n, np.bool_)
        changed[0] = True
        changed[1:] = (tso[1:] != tso[:-1]) | (transaction[1:] != transaction[:-1])
        counted = np.cumsum(alive)
        run_start = np.maximum.accumulate(np.where(changed, np.arange(n), 0))
        before_run: npt.NDArray[np.int64] = counted[run_start] - alive[run_start]
        seq = counted - before_run
        inherits = (tso == patch.max_tso) & (transaction == patch.max_transaction)
        seq[inherits] += patch.seq
    return LocalKeys(tso, transaction, seq, alive)


class Piece(Protocol):
    """What assemble needs of a scanned piece (`stages.scan.ScanResult`)."""

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


@dataclass(frozen=True, slots=True)
class Assembled:
    """A piece made final: its patch, the branches that its late commits completed, and what goes on to the next
    piece.
    """

    patch: Patch
    edges: tuple[EdgeBranch, ...]
    carry: Carry
    new_edges: tuple[tuple[int, int, int], ...]  # (tso, transaction, commit offset) of the edges
    without_tso: tuple[tuple[Hash, int], ...]  # (gtrid, commit offset) of XA COMMITs kept as locals
    lost: tuple[tuple[int, int, int], ...] = ()  # (tso, transaction, commit offset) of XA COMMITs without a prepare


@dataclass
class _Pass:
    """The mutable state of one pass over one piece."""

    piece: Piece
    max_tso: int  # what came in
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


def assemble_piece(piece: Piece, carry: Carry, elsewhere: Sequence[int] = ()) -> Assembled:
    """Join a piece's late commits with what earlier pieces left, and sum up what it leaves itself.

    `elsewhere` are locals, by index, that do not stand behind the greatest commit (`job.sync_points`). Raises
    UnsupportedInput for an XA COMMIT whose prepare is nowhere in the input, where its TSO is not known either: its
    rows would be lost, and nobody knows where.
    """
    work = _Pass(piece, carry.max_tso, dict(carry.commit_rows), dict(carry.open), dropped=list(elsewhere))
    for g1, g2, tso in piece.commit_rows:
        known = work.rows.setdefault((g1, g2), tso)
        if known != tso:
            raise CommitTsoConflict(f"one XA transaction has two commit TSOs on this node: {known} and {tso}")
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
            max(branch.max_tso, carry.max_tso, _greatest_before(work, branch.start)),
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
    )


def _greatest_before(work: _Pass, offset: int) -> int:
    """Return the greatest TSO of late commits that stand before an offset of the piece."""
    count = bisect_left(work.new_edges, offset, key=lambda edge: edge[2])
    return work.greatest[count - 1] if count else 0


def lost_branch(commit_at: int) -> UnsupportedInput:
    """Return the error of an XA COMMIT, at this offset, whose prepare is nowhere in the input."""
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
        behind = max(work.max_tso, late.greatest[0], _greatest_before(work, start))
        prepared = Prepared(late.gtrid, late.transaction, piece.file_index, start, end, tables, flags, behind)
    if late.rollback:
        return  # a rollback of a branch that was prepared before our input began changes nothing
    tso = late.tso if late.tso is not None else work.rows.get(late.gtrid)
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
    """Return the greatest (tso, transaction) behind the piece and how many locals follow it."""
    dropped = np.array(sorted(patch.dropped), np.int64)
    live_after = lambda index: piece.local - index - int(np.count_nonzero(dropped >= index))  # noqa: E731
    best = max(
        (patch.max_tso, patch.max_transaction),
        (piece.max_tso, piece.max_transaction),
        *((tso, transaction) for _, tso, transaction in patch.raised),
    )
    if best == (patch.max_tso, patch.max_transaction):
        return (*best, patch.seq + live_after(0))
    places = [index for index, tso, transaction in patch.raised if (tso, transaction) == best]
    if best == (piece.max_tso, piece.max_transaction):
        places.append(piece.local - piece.locals_after_max)
    return (*best, live_after(min(places)))


def node_watermark(
    carry: Carry, node_seq: int, max_disorder: int = 0, prepared_earlier: bool = True
) -> OrderKey | None:
    """Return the least order key that may still arrive from a node, or None when it has shown no commit TSO yet.

    The next transaction without a TSO sorts right behind the greatest one; a branch that is still prepared may commit
    with any TSO greater than those committed before its prepare, and a branch not yet prepared with any greater than
    all. `prepared_earlier` False: every transaction takes its place as it commits, whenever it was prepared.
    """
    if carry.max_tso == 0 and carry.max_transaction == 0:
        return None
    least = OrderKey(carry.max_tso, carry.max_transaction, carry.seq + 1, node_seq)
    for prepared in carry.open.values() if prepared_earlier else ():
        # Locals in a sync point's window stand right behind what was committed before it.
        behind = 0 if prepared.flags & SYNC_POINT else 1
        least = min(least, OrderKey(prepared.max_tso + behind, 0, 0, 0))
    if max_disorder:
        least = min(least, OrderKey(max(0, carry.max_tso - max_disorder), 0, 0, 0))
    return least


def check_without_tso(by_node: Mapping[str, Iterable[tuple[Hash, int]]]) -> None:
    """Raise MissingCommitTso when a distributed transaction has no commit TSO: its branches could not be put
    together.
    """
    seen: dict[Hash, tuple[str, int]] = {}
    for node, commits in by_node.items():
        for gtrid, position in commits:
            other = seen.setdefault(gtrid, (node, position))
            if other[0] != node:
                raise MissingCommitTso(
                    f"an XA transaction committed on nodes {other[0]} and {node} has no commit TSO",
                    node=node,
                    position=position,
                )


def split_transactions(by_node: Mapping[str, Iterable[tuple[Hash, int]]]) -> list[str]:
    """Say how many distributed transactions without a commit TSO come out branch by branch, as PolarDB-X lets them."""
    nodes: dict[Hash, set[str]] = {}
    for node, commits in by_node.items():
        for gtrid, _ in commits:
            nodes.setdefault(gtrid, set()).add(node)
    split = [found for found in nodes.values() if len(found) > 1]
    if not split:
        return []
    return [
        f"{len(split)} XA transactions on nodes {', '.join(sorted(set().union(*split)))} have no commit TSO: "
        "their branches come out as transactions of their own"
    ]
