"""Commit times and order keys of all transactions of a segment, taken from its bytes at once.

    GTID event's body    flags 1 | sid 16 | gno 8 | type 1 = 2 | last_committed 8 | sequence_number 8 | immediate 7 …
    rows-query event     header 19 | length 1 | "# CTS::" or "CTS::" | 54 digits …

The plain twins are `Segment.begin` and `Segment.key`; they say of the first transaction what stands in an earlier
window.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EVENT_HEADER_LEN
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.log.segments import Segment
from binlog_merge.observe.report.bins import Numbers
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS, OrderKey

_LOGICAL: Final = 2
_TYPE: Final = EVENT_HEADER_LEN + 25
_IMMEDIATE: Final = _TYPE + 17
_MARKS: Final = (b"# CTS::", b"CTS::")
_DIGITS: Final = 54
_PARTS: Final = ((0, 19), (19, 38), (38, 48), (48, 54))


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


def commit_times(segment: Segment) -> Numbers:
    """Return the transactions' commit times in µs since 1970: of the GTID event, else of its header."""
    buffer, at = segment.buffer, segment.transactions[:, k.T_GTID]
    times = np.zeros(len(at), np.int64)
    here = np.flatnonzero(at >= 0)
    starts = at[here]
    seconds = _little(buffer, starts, 4) * 1_000_000
    whole = _little(buffer, starts + 9, 4) >= _IMMEDIATE + 7
    typed = np.flatnonzero(whole)[buffer[starts[whole] + _TYPE] == _LOGICAL]
    seconds[typed] = _little(buffer, starts[typed] + _IMMEDIATE, 7) & ((1 << 55) - 1)
    times[here] = seconds
    if len(at) and at[0] < 0 and segment.carried is not None:
        times[0] = segment.carried.commit_us
    return times


def _little(buffer: npt.NDArray[np.uint8], at: Numbers, size: int) -> Numbers:
    values = np.zeros(len(at), np.int64)
    for i in range(size):
        values |= buffer[at + i].astype(np.int64) << (8 * i)
    return values


def keys_of(segment: Segment) -> Keys:
    """Return the order keys of a segment's transactions."""
    buffer, at = segment.buffer, segment.transactions[:, k.T_COMMENT]
    columns = np.zeros((4, len(at)), np.int64)
    known = np.zeros(len(at), bool)
    here = np.flatnonzero(at >= 0)
    sizes = _little(buffer, at[here] + 9, 4)
    for mark in _MARKS:
        text = EVENT_HEADER_LEN + 1
        fits = here[sizes >= text + len(mark) + _DIGITS]
        for i, letter in enumerate(mark):
            fits = fits[buffer[at[fits] + text + i] == letter]
        digits = buffer[(at[fits] + text + len(mark))[:, None] + np.arange(_DIGITS)].astype(np.int64) - ord("0")
        valid = ((digits >= 0) & (digits <= 9)).all(axis=1)
        fits, digits = fits[valid], digits[valid]
        for part, (begin, end) in enumerate(_PARTS):
            columns[part, fits] = digits[:, begin:end] @ (10 ** np.arange(end - begin, dtype=np.int64)[::-1])
        known[fits] = True
    if len(at) and at[0] < 0 and segment.carried_key is not None:
        known[0] = True
        columns[:, 0] = segment.carried_key
    return Keys(known, columns[0], columns[1], columns[2], columns[3])
