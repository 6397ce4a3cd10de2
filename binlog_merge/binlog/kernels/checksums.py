"""CRC32 of many texts that lie side by side."""

from typing import Any

from numba import njit

from binlog_merge.binlog.kernels.crc32 import crc32


@njit(cache=True, nogil=True, _nrt=False)
def crc32_each(b: Any, offsets: Any, out: Any) -> None:
    """Write the CRC32 of each text `b[offsets[i]:offsets[i + 1]]` to `out[i]`."""
    for i in range(len(out)):
        out[i] = crc32(b, offsets[i], offsets[i + 1] - offsets[i])
