"""Writes binary JSON documents of a column as the server's text, in Arrow's layout.

Two passes: the first one checks the documents and counts the bytes; the second writes. What is not written here are
doubles and opaque values, and documents that no server writes: the first pass notes their places, and the second one
takes their texts from the caller. The plain twin is `binlog.json_binary`, which says how a document is laid out and
what is refused; objects whose keys are not in the server's order go to it too, as it keeps one of two equal keys.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.memory import copy, i64, u8, u16, u32

DEPTH: Final = 100
"""How deep a document may be: the rows that `stack` needs."""
FRAME: Final = 7
"""The columns that `stack` needs."""
BASE, END, COUNT, INDEX, WIDTH, KEYS, ENTRIES = range(FRAME)
F_START, F_END, F_KIND, F_CELL = range(4)
"""Of a place: where its bytes begin and end, what it is, and in which cell."""
DOUBLE, OPAQUE, ODD = range(3)
"""F_KIND; ODD is a whole document."""

_SMALL_OBJECT, _LARGE_OBJECT, _LARGE_ARRAY, _LITERAL = 0, 1, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15
_SHORT: Final = np.zeros(32, np.uint8)
for _code, _letter in ((8, "b"), (9, "t"), (10, "n"), (12, "f"), (13, "r")):
    _SHORT[_code] = ord(_letter)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
_LITERALS: Final = np.frombuffer(b"null truefalse", np.uint8).copy()


@njit(inline="always")
def _put_2(out: Any, o: int, first: int, second: int, writes: bool) -> int:
    if writes:
        out[o], out[o + 1] = first, second
    return o + 2


@njit(cache=True, nogil=True, _nrt=False)
def _put_literal(number: int, out: Any, o: int, writes: bool) -> int:
    begin = 5 * number - (number == 2)
    size = 5 if number == 2 else 4
    if writes:
        for i in range(size):
            out[o + i] = _LITERALS[begin + i]
    return o + size


@njit(cache=True, nogil=True, _nrt=False)
def _put_number(value: int, signed: bool, out: Any, o: int, writes: bool) -> int:
    """Write a number of 64 bits in decimal."""
    rest = np.uint64(value)
    if signed and value < 0:
        rest = np.uint64(0) - rest
        if writes:
            out[o] = 45
        o += 1
    digits, left = 1, rest
    while left >= np.uint64(10):
        left //= np.uint64(10)
        digits += 1
    if writes:
        for i in range(digits - 1, -1, -1):
            out[o + i] = np.uint8(48) + np.uint8(rest % np.uint64(10))
            rest //= np.uint64(10)
    return o + digits


@njit(cache=True, nogil=True, _nrt=False)
def _put_string(b: Any, at: int, size: int, out: Any, o: int, writes: bool) -> int:
    """Write a string with quotes and escapes."""
    if writes:
        out[o] = 34
    o += 1
    plain = True
    for i in range(size):
        byte = u8(b, at + i)
        plain &= byte >= 32 and byte != 34 and byte != 92
    if plain:
        if writes:
            copy(out, o, b, at, size)
        o += size
    else:
        for i in range(size):
            byte = u8(b, at + i)
            if byte >= 32 and byte != 34 and byte != 92:
                if writes:
                    out[o] = byte
                o += 1
            elif byte >= 32 or _SHORT[byte]:
                o = _put_2(out, o, 92, byte if byte >= 32 else np.int64(_SHORT[byte]), writes)
            else:
                o = _put_2(out, o, 92, 117, writes)
                o = _put_2(out, o, 48, 48, writes)
                o = _put_2(out, o, np.int64(_HEX[byte >> 4]), np.int64(_HEX[byte & 15]), writes)
    if writes:
        out[o] = 34
    return o + 1


@njit(inline="always")
def _in_order(b: Any, one: int, one_size: int, other: int, other_size: int) -> bool:
    """Return whether a key stands before another one: shorter, or as long and less."""
    if one_size != other_size:
        return one_size < other_size
    for i in range(one_size):
        if u8(b, one + i) != u8(b, other + i):
            return u8(b, one + i) < u8(b, other + i)
    return False


@njit(inline="always")
def _blob(b: Any, at: int, end: int) -> tuple[int, int]:
    """Return where the bytes behind a length begin, and the length; -1 for one that is none."""
    size = np.int64(0)
    for i in range(5):
        if at + i >= end:
            return at, np.int64(-1)
        byte = u8(b, at + i)
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            at += i + 1
            return at, size if size <= end - at else np.int64(-1)
    return at, np.int64(-1)


@njit(inline="always")
def _number_of(b: Any, at: int, kind: int) -> int:
    if kind == _INT16:
        return np.int64(np.int16(u16(b, at)))
    if kind == _UINT16:
        return u16(b, at)
    if kind == _INT32:
        return np.int64(np.int32(u32(b, at)))
    if kind == _UINT32:
        return u32(b, at)
    return i64(b, at)


@njit(inline="always")
def _size_of(kind: int) -> int:
    if kind in (_INT16, _UINT16):
        return 2
    return 4 if kind in (_INT32, _UINT32) else 8


@njit(inline="always")
def _offset(b: Any, at: int, width: int) -> int:
    return u32(b, at) if width == 4 else u16(b, at)


@njit(cache=True, nogil=True, _nrt=False)
def _document(
    b: Any, at: int, end: int, cell: int, stack: Any, places: Any, n: int, texts: Any, data: Any, out: Any, o: int,
    writes: bool,
) -> tuple[int, int]:  # fmt: skip
    """Write a document; return where it ends in `out` and the number of places. -1 for the first: it is odd; for the
    second: there are more than `places` has room for.
    """
    if at == end:  # as the server reads it
        return _put_literal(0, out, o, writes), n
    budget, depth = end - at, -1
    kind, place, bound = u8(b, at), at + 1, end
    inline = False  # the value is in its entry
    while True:
        if kind <= _LARGE_ARRAY:
            if depth + 1 >= DEPTH:
                return -1, n
            width = 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
            if bound - place < 2 * width:
                return -1, n
            count, size = _offset(b, place, width), _offset(b, place + width, width)
            is_object = kind <= _LARGE_OBJECT
            head = 2 * width + count * (1 + width + (width + 2 if is_object else 0))
            budget -= head
            if head > size or size > bound - place or budget < 0:
                return -1, n
            depth += 1
            stack[depth, BASE], stack[depth, END] = place, place + size
            stack[depth, COUNT], stack[depth, INDEX], stack[depth, WIDTH] = count, 0, width
            stack[depth, KEYS] = place + 2 * width if is_object else -1
            stack[depth, ENTRIES] = place + head - count * (1 + width)
            if writes:
                out[o] = 123 if is_object else 91
            o += 1
        elif kind == _LITERAL:
            if bound - place < 1:
                return -1, n
            budget -= 0 if inline else 1
            number = u8(b, place)
            if number > 2 or budget < 0:
                return -1, n
            o = _put_literal(number, out, o, writes)
        elif kind <= _UINT64:
            size = _size_of(kind)
            budget -= 0 if inline else size
            if bound - place < size or budget < 0:
                return -1, n
            o = _put_number(_number_of(b, place, kind), kind != _UINT64, out, o, writes)
        elif kind == _STRING:
            place, size = _blob(b, place, bound)
            budget -= size
            if size < 0 or budget < 0:
                return -1, n
            o = _put_string(b, place, size, out, o, writes)
        elif kind in (_DOUBLE, _OPAQUE):
            begin, size = place, np.int64(8)
            if kind == _OPAQUE:
                place, size = _blob(b, place + 1, bound)
            budget -= size
            if size < 0 or size > bound - place or budget < 0:
                return -1, n
            if writes:
                length = texts[n + 1] - texts[n]
                copy(out, o, data, texts[n], length)
                o += length
            elif n == len(places):
                return o, -1
            else:
                places[n, F_START], places[n, F_END] = begin, place + size
                places[n, F_KIND], places[n, F_CELL] = DOUBLE if kind == _DOUBLE else OPAQUE, cell
            n += 1
        else:
            return -1, n
        # What comes next: the next member of the innermost container that has one.
        while depth >= 0 and stack[depth, INDEX] == stack[depth, COUNT]:
            if writes:
                out[o] = 125 if stack[depth, KEYS] >= 0 else 93
            o += 1
            depth -= 1
        if depth < 0:
            return o, n
        index, width, base, bound = stack[depth, INDEX], stack[depth, WIDTH], stack[depth, BASE], stack[depth, END]
        stack[depth, INDEX] = index + 1
        if index:
            o = _put_2(out, o, 44, 32, writes)
        if stack[depth, KEYS] >= 0:
            entry = stack[depth, KEYS] + index * (width + 2)
            key, size = base + _offset(b, entry, width), u16(b, entry + width)
            budget -= size
            if size > bound - key or budget < 0:
                return -1, n
            if index:
                before, before_size = base + _offset(b, entry - width - 2, width), u16(b, entry - 2)
                if not _in_order(b, before, before_size, key, size):
                    return -1, n
            o = _put_string(b, key, size, out, o, writes)
            o = _put_2(out, o, 58, 32, writes)
        entry = stack[depth, ENTRIES] + index * (1 + width)
        kind, place = u8(b, entry), entry + 1
        inline = kind == _LITERAL or (_INT16 <= kind <= _UINT64 and _size_of(kind) <= width)
        if not inline:
            offset = _offset(b, place, width)
            if offset > bound - base:
                return -1, n
            place = base + offset


@njit(cache=True, nogil=True, _nrt=False)
def measure(b: Any, starts: Any, sizes: Any, prefix: int, stack: Any, odd: Any, places: Any) -> tuple[int, int]:
    """Return how many bytes the texts have without those at `places`, and how many places there are.

    A negative size means no value. `odd` gets 1 for a document that is a place as a whole. -1 for the second: `places`
    has no room.
    """
    total, n = np.int64(0), np.int64(0)
    for i in range(len(starts)):
        odd[i] = 0
        if sizes[i] < 0:
            continue
        at, end, before = starts[i] + prefix, starts[i] + sizes[i], n
        o = np.int64(-1)
        if at <= end:
            o, n = _document(b, at, end, i, stack, places, n, stack[0], odd, odd, total, False)
            if n < 0:
                return total, -1
        if o >= 0:
            total = o
            continue
        odd[i], n = 1, before
        if n == len(places):
            return total, -1
        places[n, F_START], places[n, F_END], places[n, F_KIND], places[n, F_CELL] = starts[i], end, ODD, i
        n += 1
    return total, n


@njit(cache=True, nogil=True, _nrt=False)
def write(
    b: Any, starts: Any, sizes: Any, prefix: int, stack: Any, odd: Any, places: Any, texts: Any, data: Any,
    offsets: Any, valid: Any, out: Any,
) -> None:  # fmt: skip
    """Write what `measure` has measured. Text i of the places is `data[texts[i]:texts[i + 1]]`."""
    o, n = np.int64(0), np.int64(0)
    for i in range(len(starts)):
        offsets[i] = o
        valid[i] = sizes[i] >= 0
        if odd[i]:
            length = texts[n + 1] - texts[n]
            copy(out, o, data, texts[n], length)
            o += length
            n += 1
        elif sizes[i] >= 0:
            at, end = starts[i] + prefix, starts[i] + sizes[i]
            o, n = _document(b, at, end, i, stack, places, n, texts, data, out, o, True)
    offsets[len(starts)] = o
