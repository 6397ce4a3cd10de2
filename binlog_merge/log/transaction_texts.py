"""Which transaction each row is of, as Arrow arrays of text: its GTID, and its order key.

`numbers` are the rows' transactions, as numbers in `transactions`, which has the columns X_* of `kernels.log_index`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from binlog_merge.binlog.kernels.row_facts import KEY_DIGITS, gtids, order_keys


def gtid_array(numbers: Any, transactions: Any, prefix: bytes | None) -> Any:
    """Return the GTIDs: `prefix` (the UUID and a colon), then the rank. Null without a prefix: the log has none."""
    count = len(numbers)
    if prefix is None:
        return pa.nulls(count, pa.string())
    offsets, out = np.empty(count + 1, np.int32), np.empty(count * (len(prefix) + 19), np.uint8)
    used = gtids(numbers, transactions, np.frombuffer(prefix, np.uint8).copy(), offsets, out)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(out[:used]))


def order_key_array(numbers: Any, transactions: Any, buffer: Any) -> Any:
    """Return the order keys, of 54 digits each; null where the log does not say them.

    `buffer` has the segment's bytes; empty, keys are those that `transactions` itself has.
    """
    count = len(numbers)
    out, valid = np.empty(count * KEY_DIGITS, np.uint8), np.empty(count, np.uint8)
    found = order_keys(numbers, transactions, buffer, out, valid)
    offsets = np.arange(count + 1, dtype=np.int32) * KEY_DIGITS
    mask = None if found == count else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(out), mask, count - found)
