"""What each row of a batch has of its event and its transaction, written into the buffers of Arrow arrays.

`transactions` are the transaction's number of each row; `facts` have the columns X_* of `log_index`.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.log_index import X_AT, X_ID, X_NODE, X_RANK, X_SEQ, X_TSO
from binlog_merge.binlog.kernels.log_walk import E_AT, E_KIND, E_TRANSACTION
from binlog_merge.binlog.kernels.memory import copy, load_16, load_32, store_16, store_32

KEY_DIGITS = 54
WORD = 6
"""The length of the words of `words`."""


@njit(cache=True, nogil=True, _nrt=False)
def of_events(
    counts: Any, events: Any, base: int, codes: Any, transactions: Any, kinds: Any, positions: Any, numbers: Any
) -> int:
    """Write what each row has of its event: the transaction, the code of its type, the position, its number there.

    `counts` are the rows of each event. Events at the same place are one. Returns the number of rows.
    """
    before, row, number = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(len(counts)):
        at, transaction, code = events[i, E_AT], events[i, E_TRANSACTION], codes[events[i, E_KIND]]
        if at != before:
            before, number = at, np.int64(0)
        for _ in range(counts[i]):
            transactions[row], kinds[row], positions[row], numbers[row] = transaction, code, base + at, number
            number += 1
            row += 1
    return row


@njit(cache=True, nogil=True, _nrt=False)
def words(codes: Any, texts: Any, out: Any) -> int:
    """Write the word of each code, one of those of WORD bytes each in `texts`; return the number of words."""
    for i in range(len(codes)):
        at, to = WORD * np.int64(codes[i]), WORD * i
        store_32(out, to, load_32(texts, at))
        store_16(out, to + 4, load_16(texts, at + 4))
    return len(codes)


@njit(inline="always")
def _write(out: Any, at: int, value: int, digits: int) -> None:
    for i in range(at + digits - 1, at - 1, -1):
        out[i] = 48 + value % 10
        value //= 10


@njit(cache=True, nogil=True, _nrt=False)
def order_keys(transactions: Any, facts: Any, b: Any, out: Any, valid: Any) -> int:
    """Write the order key of each row, 54 bytes each; where there is none `valid` is 0. Return the number of keys.

    X_AT is the offset of a key's text in the buffer `b`, -1 if it is not there; an empty buffer has none.
    """
    count = np.int64(0)
    for i in range(len(transactions)):
        row = facts[transactions[i]]
        at = i * KEY_DIGITS
        valid[i] = 1 if row[X_TSO] >= 0 else 0
        count += valid[i]
        if valid[i] and i > 0 and transactions[i] == transactions[i - 1]:
            copy(out, at, out, at - KEY_DIGITS, KEY_DIGITS)
        elif valid[i] and len(b) > 0 and row[X_AT] >= 0:
            copy(out, at, b, row[X_AT], KEY_DIGITS)
        elif valid[i]:
            _write(out, at, row[X_TSO], 19)
            _write(out, at + 19, row[X_ID], 19)
            _write(out, at + 38, row[X_SEQ], 10)
            _write(out, at + 48, row[X_NODE], 6)
        else:
            _write(out, at, 0, KEY_DIGITS)
    return count


@njit(cache=True, nogil=True, _nrt=False)
def gtids(transactions: Any, facts: Any, prefix: Any, offsets: Any, out: Any) -> int:
    """Write `prefix` and the rank of each row's transaction; `offsets` has one more entry than there are rows.

    Returns the number of bytes; `out` must have room for 19 digits a row.
    """
    at, begun = np.int64(0), np.int64(0)
    for i in range(len(transactions)):
        offsets[i] = at
        if i > 0 and transactions[i] == transactions[i - 1]:
            size = at - begun
            copy(out, at, out, begun, size)
            begun, at = at, at + size
            continue
        begun = at
        copy(out, at, prefix, np.int64(0), len(prefix))
        at += len(prefix)
        rank, digits = facts[transactions[i], X_RANK], np.int64(1)
        rest = rank // 10
        while rest > 0:
            digits += 1
            rest //= 10
        _write(out, at, rank, digits)
        at += digits
    offsets[len(transactions)] = at
    return at
