"""XA transaction ids in a kernel: parsed from statements, hashed to 128 bits, kept in open-addressing hash tables.

An id is represented by two 64-bit hashes, so that no two branches that are open at the same time are confused.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.scan_layout import (
    ARCHIVE_XID,
    FOREIGN_XID,
    GTRID_1,
    GTRID_2,
    IGNORED_XID,
    NORMAL_XID,
    STRANGE_XID,
    TRANSACTION_ID,
    XID_1,
    XID_2,
    XID_KIND,
)

_DRDS = np.frombuffer(b"drds-", np.uint8).copy()
_RECOVER = np.frombuffer(b"POLARDB-X-RECOVER-TASK@", np.uint8).copy()
_OWN_GROUP = np.frombuffer(b"__CDC___SINGLE_GROUP", np.uint8).copy()

FNV_PRIME = np.uint64(0x100000001B3)
FNV_BASIS = np.uint64(0xCBF29CE484222325)


@njit(inline="always")
def _hex_digit(c: int) -> int:
    if 48 <= c <= 57:
        return c - 48
    if 97 <= c <= 102:
        return c - 87
    if 65 <= c <= 70:
        return c - 55
    return -1


@njit(inline="always")
def mix(h1: Any, h2: Any, byte: int) -> Any:
    h1 = (h1 ^ np.uint64(byte)) * FNV_PRIME
    h2 = (h2 + np.uint64(byte) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h2 ^= h2 >> np.uint64(32)
    return h1, h2


@njit(cache=True)
def parse_xid(b: Any, at: int, end: int, reg: Any) -> bool:
    """Parse `X'gtrid',X'bqual',formatID` into the XID, GTRID, TRANSACTION_ID and XID_KIND registers.

    Returns False if it is malformed. The transaction id is the hexadecimal number after `drds-` (PolarDB-X), else
    FNV-1a of the gtrid. The plain twin is in `tests.polardbx.xids`.
    """
    h1, h2 = FNV_BASIS, np.uint64(0)
    number, is_drds, in_number = np.int64(0), True, True
    is_recover, is_own, is_branch, shown = True, True, True, 0
    for part in range(2):
        if at + 3 > end or b[at] != 88 or b[at + 1] != 39:  # X'
            return False
        at += 2
        length = 0
        while at + 1 < end and b[at] != 39:
            high, low = _hex_digit(b[at]), _hex_digit(b[at + 1])
            if high < 0 or low < 0:
                return False
            byte = high * 16 + low
            if part == 1:
                if length < len(_OWN_GROUP):
                    is_own = is_own and byte == _OWN_GROUP[length]
                elif length == len(_OWN_GROUP):
                    is_branch = byte == 64  # @, and the number of a share-read-view branch
            else:
                if length < len(_RECOVER):
                    is_recover = is_recover and byte == _RECOVER[length]
                if length < 5:
                    is_drds = is_drds and byte == _DRDS[length]
                elif in_number:
                    digit = _hex_digit(byte)
                    if digit < 0:
                        in_number = False
                    else:
                        number = (number << 4) | digit
            h1, h2 = mix(h1, h2, byte)
            length += 1
            at += 2
        if at >= end or b[at] != 39:
            return False
        at += 1
        if at >= end or b[at] != 44:  # a comma
            return False
        at += 1
        if part == 1:
            is_own = is_own and is_branch and length >= len(_OWN_GROUP)
        else:
            is_recover = is_recover and length >= len(_RECOVER)
            is_drds = is_drds and length > 5
            reg[GTRID_1], reg[GTRID_2] = np.int64(h1), np.int64(h2)
            if is_drds:
                reg[TRANSACTION_ID] = number & np.int64(0x7FFFFFFFFFFFFFFF)
            else:
                reg[TRANSACTION_ID] = np.int64(h1 & np.uint64(0x7FFFFFFFFFFFFFFF))
        h1, h2 = mix(h1, h2, 256)  # the parts end somewhere: 'ab','c' is not 'a','bc'
    while at < end and b[at] != 32:
        if not 48 <= b[at] <= 57:
            return False
        h1, h2 = mix(h1, h2, b[at])
        shown = min(shown * 10 + b[at] - 48, 1 << 31)
        at += 1
    reg[XID_1], reg[XID_2] = np.int64(h1), np.int64(h2)
    kind = NORMAL_XID
    if is_recover or (is_drds and (is_own or shown == 2 or shown == 4)):
        kind = IGNORED_XID
    elif is_drds and shown == 3:
        kind = ARCHIVE_XID
    elif is_drds and shown != 1:
        kind = STRANGE_XID
    elif not is_drds:
        kind = FOREIGN_XID
    reg[XID_KIND] = kind
    return True


@njit(inline="always")
def find(table: Any, k1: int, k2: int, state_column: int) -> int:
    """Return the slot of (k1, k2), or ~slot of the empty slot at which the search ended."""
    mask = len(table) - 1
    slot = np.int64((np.uint64(k1) ^ (np.uint64(k2) >> np.uint64(7))) & np.uint64(mask))
    while table[slot, state_column] != 0:
        if table[slot, 0] == k1 and table[slot, 1] == k2:
            return slot
        slot = (slot + 1) & mask
    return ~slot


@njit(cache=True)
def rehash(old: Any, new: Any, state_column: int, drop_dead: bool) -> int:
    """Copy the entries of an open-addressing table into a bigger, empty one; return their number."""
    count = 0
    for i in range(len(old)):
        state = old[i, state_column]
        if state == 0 or (drop_dead and state == 2):
            continue
        slot = find(new, old[i, 0], old[i, 1], state_column)
        slot = ~slot if slot < 0 else slot
        for column in range(old.shape[1]):  # assigning a whole row takes numba two seconds to compile
            new[slot, column] = old[i, column]
        count += 1
    return count
