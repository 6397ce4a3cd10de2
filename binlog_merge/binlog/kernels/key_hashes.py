"""Hashes of the cells in some columns of rows events, and Bloom filters of them: what the index of keys consists of.

    wanted[column]   0: not wanted; NUMBER: an integer; TEXT + n: bytes behind n bytes of length

Values that MySQL may hold to be equal have the same hash, or are marked. An integer has that of its 64 bits, whatever
its type; one that is negative if it is signed has both. Texts of printable ASCII have that of their lower case without
trailing spaces (and NULs); any other text is hashed as it is, and its group is marked OTHER_TEXT: under a collation it
may equal anything. A group with a row whose cell is NULL, or not in the event (or only as a difference), is NOT_HELD.

The filters are the split block Bloom filters of Apache Parquet: a key sets a bit in each of the eight words of one
block (https://parquet.apache.org/docs/file-format/bloomfilter/).

Hashes of rows' keys whose cells are equal if their bytes are: numbers, times, members of ENUM and SET.

The plain twin is in `tests/pipeline/gather/test_key_changes.py`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import bit, hash_bytes
from binlog_merge.binlog.kernels.row_cells import ABSENT as _ABSENT
from binlog_merge.binlog.kernels.row_cells import FIXED
from binlog_merge.binlog.kernels.row_cells import NULL as _NULL
from binlog_merge.binlog.kernels.row_lengths import bitmaps_begin, cell_length, string_length
from binlog_merge.binlog.kernels.types import VARCHAR

NUMBER, TEXT = 1, 2
NOT_HELD, OTHER_TEXT = 1, 2
BAD, MORE_ROOM = -1, -2
"""Returned instead of a count: an event is malformed; `hashes` is too small."""
WORDS: Final = 8
"""The words of 32 bits in a block."""
K_BODY, K_END, K_KIND, K_GROUP = range(4)

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)


@njit(inline="always")
def _mixed(value: Any) -> Any:
    """Return the finalizer of SplitMix64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(inline="always")
def _number(value: int) -> Any:
    return _mixed(np.uint64(value) + np.uint64(0x9E3779B97F4A7C15))


@njit(cache=True, nogil=True, _nrt=False)
def number_hash(value: int) -> int:
    """Return the hash of an integer's 64 bits, as int64."""
    return np.int64(_number(value))


@njit(cache=True, nogil=True, _nrt=False)
def text_hash(b: Any, begin: int, end: int, found: Any) -> int:
    """Write the hash of a text into found[0]; return 0, or OTHER_TEXT if it is not printable ASCII."""
    while end > begin and (b[end - 1] == 32 or b[end - 1] == 0):
        end -= 1
    plain, raw = np.uint64(0xCBF29CE484222325), np.uint64(0x84222325CBF29CE4)
    prime, is_plain = np.uint64(0x100000001B3), True
    # Both are carried along, as only the end tells which one counts: a text is then read once.
    for i in range(begin, end):
        char = np.uint64(b[i])
        raw = (raw ^ char) * prime
        if char < 32 or char > 126:
            is_plain = False
        if 65 <= char <= 90:
            char += np.uint64(32)
        plain = (plain ^ char) * prime
    found[0] = np.int64(_mixed(plain if is_plain else raw))
    return 0 if is_plain else OTHER_TEXT


@njit(inline="always")
def _length(b: Any, at: int, end: int, kind: int, meta: int) -> int:
    """Return a cell's length, BAD if it does not fit."""
    if kind >= FIXED:
        return kind - FIXED if at + kind - FIXED <= end else BAD
    if kind == VARCHAR:
        size = string_length(b, at, end, meta)
        return size if size >= 0 and at + size <= end else BAD
    return cell_length(b, at, end, kind, meta)


@njit(cache=True, nogil=True, _nrt=False)
def hash_events(
    b: Any, events: Any, types: Any, metas: Any, wanted: Any, hashes: Any, groups: Any, count: int, flags: Any,
    last: Any, found: Any,
) -> int:  # fmt: skip
    """Hash the wanted cells of rows events (K_*) of one table map behind the `count` hashes that are there.

    Returns the new count, BAD or MORE_ROOM. A cell's group is that of its event plus the number of its column among the
    wanted ones; `flags` are by group. Cells that an UPDATE's after image does not hold are those of its before
    image. `last` has room for a hash a wanted column, `found` for one.
    """
    columns, width = len(types), len(last)
    for i in range(len(events)):
        kind, end, group = events[i, K_KIND], events[i, K_END], events[i, K_GROUP]
        if kind == t.PARTIAL_UPDATE_ROWS_EVENT:
            for w in range(width):
                flags[group + w] |= NOT_HELD
            continue
        images = 2 if t.is_whole_update(kind) else 1
        present = bitmaps_begin(b, events[i, K_BODY], end, kind, columns)
        if present < 0:
            return BAD
        bitmap = (columns + 7) >> 3
        at = present + bitmap * images
        fresh = True
        while at < end:
            begun = at
            for image in range(images):
                if count + 2 * width > len(hashes):
                    return MORE_ROOM
                base = present + image * bitmap
                held = np.int64(0)
                for c in range(columns):
                    held += bit(b, base, c)
                nulls = at
                at += (held + 7) >> 3
                if at > end:
                    return BAD
                n, w = 0, 0
                for c in range(columns):
                    code = wanted[c]
                    if held != columns and not bit(b, base, c):
                        if code:
                            if image == 0:
                                flags[group + w] |= NOT_HELD
                            w += 1
                        continue
                    if not bit(b, nulls, n):
                        size = _length(b, at, end, types[c], metas[c])
                        if size < 0:
                            return BAD
                        if code == NUMBER:
                            value = np.int64(0)
                            for k in range(size):
                                value |= np.int64(b[at + k]) << (8 * k)
                            found[0] = np.int64(_number(value))
                            if fresh or found[0] != last[w]:
                                last[w] = found[0]
                                hashes[count], groups[count] = found[0], group + w
                                count += 1
                                if size < 8 and size > 0 and b[at + size - 1] & 128:
                                    value |= np.int64(-1) << (8 * size)
                                    hashes[count], groups[count] = np.int64(_number(value)), group + w
                                    count += 1
                        elif code:
                            flags[group + w] |= text_hash(b, min(at + code - TEXT, at + size), at + size, found)
                            if fresh or found[0] != last[w]:
                                last[w] = found[0]
                                hashes[count], groups[count] = found[0], group + w
                                count += 1
                        at += size
                    elif code:
                        flags[group + w] |= NOT_HELD
                    if code:
                        w += 1
                    n += 1
                fresh = False
            if at == begun:
                return BAD
    return count


@njit(inline="always")
def _block(value: Any, blocks: int) -> int:
    return np.int64(((value >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32))


@njit(cache=True, nogil=True, _nrt=False)
def add_to_filters(hashes: Any, bounds: Any, first_blocks: Any, blocks: Any, words: Any) -> int:
    """Add hashes bounds[i] to bounds[i + 1] to the filter that begins with block first_blocks[i] of `words`."""
    for i in range(len(blocks)):
        for j in range(bounds[i], bounds[i + 1]):
            value = np.uint64(hashes[j])
            at = (first_blocks[i] + _block(value, blocks[i])) * WORDS
            low = np.uint32(value & np.uint64(0xFFFFFFFF))
            for k in range(WORDS):
                words[at + k] |= np.uint32(1) << (np.uint32(low * _SALTS[k]) >> np.uint32(27))
    return 0


@njit(cache=True, nogil=True, _nrt=False)
def in_filters(hashed: int, first_blocks: Any, blocks: Any, words: Any, found: Any) -> int:
    """Write into found[i] whether the filter that begins with block first_blocks[i] may have a hash."""
    value = np.uint64(hashed)
    low = np.uint32(value & np.uint64(0xFFFFFFFF))
    for i in range(len(blocks)):
        at = (first_blocks[i] + _block(value, blocks[i])) * WORDS
        found[i] = blocks[i] > 0
        for k in range(WORDS):
            if found[i] and not (words[at + k] >> (np.uint32(low * _SALTS[k]) >> np.uint32(27))) & np.uint32(1):
                found[i] = False
    return 0


VALUE: Final = 0
NULL: Final = 1
"""A part of the key is NULL: it equals nothing."""
ABSENT: Final = 2
"""The image does not hold a part of the key."""


@njit(cache=True, nogil=True, _nrt=False)
def hash_keys(
    b: Any, starts: Any, sizes: Any, columns: Any, side: int, rows: Any, seed: int, values: Any, states: Any
) -> None:
    """Write the hash of each row's key, and whether it has one; `starts` and `sizes` are those of `row_cells`."""
    for n in range(len(rows)):
        row = rows[n]
        value, state = np.int64(seed), np.int64(VALUE)
        for i in range(len(columns)):
            c = columns[i]
            size = np.int64(sizes[side, c, row])
            if size == _NULL:
                state = NULL
            elif size == _ABSENT:
                state = state if state == NULL else ABSENT
            elif size >= 0:
                value = hash_bytes(b, np.int64(starts[side, c, row]), size, value)
        values[n], states[n] = value, state
