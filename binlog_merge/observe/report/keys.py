"""The order keys of a segment's transactions, and their times by these: columns of many at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.observe.report.bins import Numbers
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS, OrderKey


@dataclass(frozen=True, slots=True)
class Keys:
    """The order keys of transactions, a column for each part; those that the log does not hold are not `known`."""

    known: npt.NDArray[np.bool_]
    tso: Numbers
    transaction: Numbers
    seq: Numbers
    node: Numbers

    def at(self, number: int) -> OrderKey:
        """Return the key of a transaction."""
        return OrderKey(
            int(self.tso[number]), int(self.transaction[number]), int(self.seq[number]), int(self.node[number])
        )

    def text(self, number: int) -> str | None:
        """Return the 54 digits of a transaction's key, None if it is not known."""
        return self.at(number).text() if self.known[number] else None


def timed(keys: Keys) -> npt.NDArray[np.bool_]:
    """Return which keys are known and have a commit TSO that carries time."""
    millis = keys.tso >> LOGICAL_BITS
    return keys.known & (millis >= FIRST_MILLIS) & (millis < LAST_MILLIS)


def times_of(keys: Keys, committed: Numbers, begins_us: int | None) -> Numbers:
    """Return the transactions' times in µs: of their commit TSOs, in the log's order, as far as these carry time.

    `begins_us` is the time of the first TSO, at which those before it stand; None in a log whose TSOs carry none. A
    commit time in the same millisecond is as good, and more exact.
    """
    millis = keys.tso >> LOGICAL_BITS
    within = timed(keys)
    times = np.where(within & (committed // 1000 != millis), millis * 1000, committed)
    if begins_us is not None:
        times[keys.known & ~within] = begins_us
    return times


def keys_of(facts: Numbers) -> Keys:
    """Return the order keys of the transactions of which `log.table_changes.transactions_of` says these facts."""
    return Keys(facts[:, x.X_TSO] >= 0, *facts[:, [x.X_TSO, x.X_ID, x.X_SEQ, x.X_NODE]].T)
