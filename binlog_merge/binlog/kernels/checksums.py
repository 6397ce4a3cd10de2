"""CRC32 of many adjacent texts, and of many events."""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import load_32, u32


@njit(cache=True, nogil=True, _nrt=False)
def crc32_each(b: Any, offsets: Any, out: Any) -> None:
    """Write the CRC32 of each text `b[offsets[i]:offsets[i + 1]]` to `out[i]`."""
    for i in range(len(out)):
        out[i] = crc32(b, offsets[i], offsets[i + 1] - offsets[i])


@njit(cache=True, nogil=True, _nrt=False)
def sound_to(b: Any, end: int) -> int:
    """Return the offset of the first incomplete event of `b[:end]`; -1 - offset if an event is damaged.

    Every event must have a checksum, as those of a merged binlog do.
    """
    at = 0
    while at + 19 <= end:
        size = u32(b, at + 9)
        if size < 23:
            return -1 - at
        if at + size > end:
            return at
        stop = at + size - 4
        if np.uint32(crc32(b, at, stop - at)) != np.uint32(load_32(b, stop)):
            return -1 - at
        at += size
    return at
