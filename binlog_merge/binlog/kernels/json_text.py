"""Values as JSON text, many at a time: strings with quotes and escapes, bytes in base64, decimals as bytes.

Arrow's layout in and out: value i is `data[offsets[i]:offsets[i + 1]]`; every `…_sizes` kernel writes the offsets of
the result, for which the kernel beside it needs a buffer of the size returned.
"""

from typing import Any, Final

import numpy as np
from numba import njit

_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).copy()
BASE64_URL: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8).copy()
_SHORT: Final = np.zeros(32, np.uint8)
for _code, _letter in ((8, "b"), (9, "t"), (10, "n"), (12, "f"), (13, "r")):
    _SHORT[_code] = ord(_letter)


@njit(cache=True, nogil=True, _nrt=False)
def quoted_sizes(offsets: Any, data: Any, out: Any) -> int:
    """Write the offsets of the JSON strings; return their total."""
    at = np.int64(0)
    for i in range(len(offsets) - 1):
        out[i] = at
        at += 2
        for j in range(offsets[i], offsets[i + 1]):
            byte = data[j]
            if byte < 32:
                at += 2 if _SHORT[byte] else 6
            elif byte == 34 or byte == 92:
                at += 2
            else:
                at += 1
    out[len(offsets) - 1] = at
    return at


@njit(cache=True, nogil=True, _nrt=False)
def quoted(offsets: Any, data: Any, out: Any) -> None:
    """Write texts in UTF-8 as JSON strings."""
    at = np.int64(0)
    for i in range(len(offsets) - 1):
        out[at] = 34
        at += 1
        for j in range(offsets[i], offsets[i + 1]):
            byte = data[j]
            if byte >= 32 and byte != 34 and byte != 92:
                out[at] = byte
                at += 1
            elif byte >= 32 or _SHORT[byte]:
                out[at] = 92
                out[at + 1] = byte if byte >= 32 else _SHORT[byte]
                at += 2
            else:
                out[at], out[at + 1], out[at + 2], out[at + 3] = 92, 117, 48, 48
                out[at + 4], out[at + 5] = _HEX[byte >> 4], _HEX[byte & 15]
                at += 6
        out[at] = 34
        at += 1


@njit(cache=True, nogil=True, _nrt=False)
def base64_sizes(offsets: Any, out: Any) -> int:
    """Write the offsets of base64 texts in quotes; return their total."""
    at = np.int64(0)
    for i in range(len(offsets) - 1):
        out[i] = at
        at += 2 + (offsets[i + 1] - offsets[i] + 2) // 3 * 4
    out[len(offsets) - 1] = at
    return at


@njit(cache=True, nogil=True, _nrt=False)
def base64(offsets: Any, data: Any, alphabet: Any, out: Any) -> None:
    """Write bytes as base64 texts in quotes."""
    at = np.int64(0)
    for i in range(len(offsets) - 1):
        out[at] = 34
        at += 1
        j, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        while j < end:
            left = end - j
            bits = np.int64(data[j]) << 16
            if left > 1:
                bits |= np.int64(data[j + 1]) << 8
            if left > 2:
                bits |= np.int64(data[j + 2])
            out[at] = alphabet[bits >> 18]
            out[at + 1] = alphabet[(bits >> 12) & 63]
            out[at + 2] = alphabet[(bits >> 6) & 63] if left > 1 else 61
            out[at + 3] = alphabet[bits & 63] if left > 2 else 61
            at += 4
            j += 3
        out[at] = 34
        at += 1


@njit(cache=True, nogil=True, _nrt=False)
def big_endian(width: int, data: Any, offsets: Any, out: Any) -> int:
    """Write integers of `width` bytes, little-endian, as the fewest big-endian bytes of two's complement.

    `offsets` has one more entry than there are integers. Returns the number of bytes. Source: java.math.BigInteger.
    """
    at = np.int64(0)
    for i in range(len(offsets) - 1):
        offsets[i] = at
        base = np.int64(i) * width
        top = width - 1
        fill = 255 if data[base + top] >= 128 else 0
        while top > 0 and data[base + top] == fill and (data[base + top - 1] >= 128) == (fill == 255):
            top -= 1
        for j in range(top, -1, -1):
            out[at] = data[base + j]
            at += 1
    offsets[len(offsets) - 1] = at
    return at
