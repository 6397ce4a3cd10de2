"""Takes a merged binlog apart into events, and puts each into a packet of MySQL's protocol.

    | length 3 | sequence 1 | prefix ... | event ... |       the length is that of prefix and event

Both kernels run without the interpreter's lock, so that readers of a server do not wait for each other.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import copy, i64, load_32, store_32, u32

# registers of `sound_events`
AT, COUNT = range(2)
REGISTERS: Final = 2
# why it stopped
UNSOUND, FULL, ASKED = range(3)


@njit(cache=True, nogil=True, _nrt=False)
def sound_events(b: Any, known: int, reg: Any, sizes: Any) -> int:
    """Note the sizes of complete events with a right checksum from `reg[AT]` on; return why it stopped.

    UNSOUND: the bytes end, or the next event is cut or damaged. FULL: `sizes` is. ASKED: the next event is sound, and a
    GTID whose number is `known` at most: whether the reader has the transaction is for Python to say.
    """
    end = len(b)
    while True:
        at = reg[AT]
        if at + 23 > end:
            return UNSOUND
        size = u32(b, at + 9)
        if size < 23 or at + size > end:
            return UNSOUND
        stop = at + size - 4
        if np.uint32(crc32(b, at, stop - at)) != np.uint32(load_32(b, stop)):
            return UNSOUND
        if reg[COUNT] >= len(sizes):
            return FULL
        if known > 0 and b[at + 4] == t.GTID_LOG_EVENT and (stop - at < 44 or i64(b, at + 36) <= known):
            return ASKED
        sizes[reg[COUNT]] = size
        reg[COUNT] += 1
        reg[AT] = at + size


@njit(cache=True, nogil=True, _nrt=False)
def frame_events(b: Any, sizes: Any, sequence: int, prefix: Any, out: Any) -> int:
    """Write the packets of adjacent events to `out`, which has room for them; return how many bytes they are.

    `sequence` is the first packet's number, mod 256. Each event is smaller than a packet.
    """
    at, o, ahead = 0, 0, len(prefix)
    for i in range(len(sizes)):
        size = np.int64(sizes[i])
        store_32(out, o, np.uint32((size + ahead) | (((sequence + i) & 255) << 24)))
        for j in range(ahead):
            out[o + 4 + j] = prefix[j]
        copy(out, o + 4 + ahead, b, at, size)
        at += size
        o += 4 + ahead + size
    return o
