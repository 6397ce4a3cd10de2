"""Writes transactions of a binlog around rows events that are given as bodies: GTID? BEGIN body* XID."""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.frame import (
    BEGIN_SIZE,
    GTID_SIZE,
    XID_SIZE,
    length_width,
    write_begin,
    write_gtid,
    write_header,
    write_xid,
)
from binlog_merge.binlog.kernels.memory import copy

B_BEGIN, B_END, B_KIND = range(3)
FRAME = 23
"""The bytes of an event that are not its body: header and checksum."""
MOST_AROUND = GTID_SIZE + 9 + BEGIN_SIZE + XID_SIZE
"""The most bytes of GTID event, BEGIN and XID."""


@njit(cache=True, nogil=True, _nrt=False)
def write_transactions(data: Any, bodies: Any, counts: Any, commit_us: Any, sid: Any, reg: Any, out: Any) -> int:
    """Write transactions of `counts` bodies each (B_*, in `data`) that committed at `commit_us`; return the end.

    Without a `sid` they have no GTID events. RANK and SEQUENCE are those of the transaction before the first one.
    """
    o, first = np.int64(0), np.int64(0)
    for n in range(len(counts)):
        last = first + counts[n]
        reg[k.RANK] += 1
        reg[k.SEQUENCE] += 1
        reg[k.TIMESTAMP] = commit_us[n] // 1000000
        if len(sid) > 0:
            length = GTID_SIZE + BEGIN_SIZE + XID_SIZE
            for i in range(first, last):
                length += FRAME + bodies[i, B_END] - bodies[i, B_BEGIN]
            width = length_width(length)
            o += write_gtid(out, o, reg, sid, commit_us[n], length + width, width, 0)
        o = write_begin(out, o, reg)
        for i in range(first, last):
            size = bodies[i, B_END] - bodies[i, B_BEGIN]
            copy(out, o + 19, data, bodies[i, B_BEGIN], size)
            write_header(out, o, reg, bodies[i, B_KIND], size + FRAME, 0)
            o += size + FRAME
        o = write_xid(out, o, reg)
        first = last
    return o
