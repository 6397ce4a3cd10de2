"""The order keys of local transactions, derived from the greatest commit before them in their node's log."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from binlog_merge.pipeline.base.branches import KeptBranch


@dataclass(frozen=True, slots=True)
class Patch:
    """The data from other pieces that completes the locals of a block.

    `max_tso`, `max_transaction` and `seq` are the greatest key before the piece. `raised` has (index among the locals,
    tso, transaction) of every late commit, which raises the greatest key from that local on. `dropped` are placeholders
    that are not transactions of their own. `kept` are the placeholders that stay because their XA COMMIT has no commit
    TSO, with the data of their prepare, which may be in an earlier piece.
    """

    max_tso: int
    max_transaction: int
    seq: int
    raised: tuple[tuple[int, int, int], ...] = ()
    dropped: tuple[int, ...] = ()
    kept: tuple[KeptBranch, ...] = ()

    def following(self, first: int, count: int) -> "Patch":
        """Return the patch of `count` locals from number `first` on, but for `kept`, whose numbers stay."""
        return replace(
            self,
            raised=tuple((max(0, at - first), tso, number) for at, tso, number in self.raised if at < first + count),
            dropped=tuple(at - first for at in self.dropped if first <= at < first + count),
        )


@dataclass(frozen=True, slots=True)
class LocalKeys:
    """The order keys of a block's locals, without the node number; `alive` is False for dropped placeholders."""

    tso: npt.NDArray[np.int64]
    transaction: npt.NDArray[np.int64]
    seq: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]


def local_keys(max_tso: npt.NDArray[np.int64], max_transaction: npt.NDArray[np.int64], patch: Patch) -> LocalKeys:
    """Return the keys of locals, from the greatest commit before each in its own piece and the patch.

    A local inherits the greatest of: commits before it in its piece, the key before the piece, and late commits before
    it.
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
