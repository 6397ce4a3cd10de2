"""Finds on which earlier transaction each one depends, and writes it into its GTID event as last_committed.

A transaction's *writeset* are hashes of the keys of its rows as they come out. A history has, for each hash, the number
of the last transaction that had it: what a transaction depends on is the greatest number that its hashes have there
(MySQL's rules: sql/rpl_trx_tracking.cc). A *barrier* depends on the transaction before it, and all behind it depend on
it: a statement, what may change rows of other tables (deletes of rows that foreign keys refer to, rows of tables that
are not known), and transactions above LARGE. One *in order* depends on the transaction before it, too, but is no
barrier: some key of its rows is not known, and whatever may be equal to it is then looked for under the hash of the
unknown value of that key.

    tables[t]   T_*: the steps of a table's rows (`row_lengths`), its slots and its keys
    slots[s]    S_*: a column of keys; in rows without NULLs the step that its cells are in, their place there, their
                size (0: it differs)
    keys[k]     K_*: a seed, a role, parts
    parts[p]    P_*: the place of a part's cells, how its value is compared; of a text how many bytes of length are
                before it, how many characters count (0: all), the byte that does not count at its end (-1: none), and
                of one that is compared by its characters' weights their number, and whether it is in UTF-8
    weights[n]  the weights of each character up to U+FFFF: `snapshot_store.mysql.text.weights`

A transaction's rows are taken one after the other, while their bytes are at hand; what they touch is listed, and goes
into the history when the transaction ends (`ended`). So one that is given up leaves nothing behind, and the places of
the history that it will need are on their way from memory by then.

The plain twin is `tests/merge_e2e/writesets_twin.py`.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import (
    bit,
    fetch,
    hash_bytes,
    i64,
    same_bytes,
    store_32,
    store_64,
    u16,
    u32,
    u48,
)
from binlog_merge.binlog.kernels.row_cells import ABSENT, NULL
from binlog_merge.binlog.kernels.row_lengths import BAD, bitmaps_begin, cell, prefixed

MOST: Final = 25_000
"""The hashes that a history holds (`binlog_transaction_dependency_history_size` of MySQL up to 9.x, by default)."""
SLOTS: Final = 1 << 16
LARGE: Final = 1 << 24
"""The length of a transaction from which on it is a barrier, whatever it does: it need not be in memory as a whole."""
LISTED: Final = 1 << 16
"""How many keys' values a transaction may touch: with more it is a barrier."""

(
    AT, GROUP, SEQUENCE, PARENT, FLAGS, START, LIVE, USED, UNKNOWN, ON, LIST_END,
    *(TRANSACTIONS, FREE, BARRIERS_OF_STATEMENTS, BARRIERS_OF_PARENTS, BARRIERS_OF_SIZE, IN_ORDER),
) = range(17)  # fmt: skip
REGISTERS: Final = 17
"""AT is the event that is next. GROUP is the GTID event of the transaction that it is in, -1: none. START is the number
of the transaction that all behind it depend on, LIVE the hashes in the history, USED its slots in use, UNKNOWN how many
of the hashes are of unknown values. ON is 0 where dependencies are not asked for, LIST_END the end of what is listed.
The last six count transactions: all, those that depend on none right before them, those that are barriers, and why, and
those in order."""
L_HASH, L_UNKNOWN, L_HOW, L_FIELDS = range(4)
"""What is listed of a key: its value's hash, that of its unknown value, and what is to be done (`_TOUCH`)."""

LAST_COMMITTED: Final = 26
"""The place of last_committed in a GTID event's body; sequence_number follows."""
FINISHED, NEW_TABLE, BAD_EVENT, BAD_ROWS = range(4)
T_STEPS, T_SLOT, T_SLOTS, T_KEY, T_KEYS, T_WAITS, T_PLAIN, T_FIELDS = range(8)
FREE_ROWS, ORDERED_ROWS, BARRIER_ROWS = range(3)
"""T_WAITS: whether all transactions with rows of a table are in order, or barriers. T_PLAIN: whether its only key is
one column that is compared by its bytes, and which stands at one place in all rows: before it are no columns of other
lengths, or with NULL."""
S_COLUMN, S_STEP, S_OFFSET, S_SIZE, S_FIELDS = range(5)
K_SEED, K_ROLE, K_PART, K_PARTS, K_FIELDS = range(5)
P_SLOT, P_HOW, P_LENGTH_BYTES, P_PREFIX, P_PAD, P_WEIGHTS, P_UTF8, P_FIELDS = range(8)
IDENTITY, UNIQUE, REFERENCED, FOREIGN = range(4)
"""A key that identifies rows; another unique one; columns that foreign keys refer to; columns of a foreign key."""
BYTES, NUMBER_OF_SIGN, DECIMAL, TEXT, BINARY_TEXT, OLD_TIMESTAMP, OLD_DATETIME, OLD_TIME = range(8)
"""How values are compared: by their bytes; as FLOAT and DOUBLE, whose -0 is 0; as DECIMAL; text by the weights of its
characters; text by its bytes; moments in the formats of before 5.6 as those that have been written since."""

_BARRIER_STATEMENT, _BARRIER_PARENT, _BARRIER_SIZE, _IN_ORDER, _BEGUN = 1, 2, 4, 8, 16
_BARRIER = _BARRIER_STATEMENT | _BARRIER_PARENT | _BARRIER_SIZE
_VALUE, _NO_VALUE, _NOT_HELD, _NOT_KNOWN = range(4)
_TOUCH, _LOOK_UP, _UNKNOWN_VALUE = range(3)
_OF_UNKNOWN = 0x5851F42D4C957F2D


class Sets(NamedTuple):
    """The tables whose rows are taken, the history, what the open transaction touches, and room for a row's cells."""

    reg: Any  # int64[REGISTERS]
    tables: Any  # int64[n, T_FIELDS]
    steps: Any  # int64
    slots: Any  # int64[n, S_FIELDS]
    keys: Any  # int64[n, K_FIELDS]
    parts: Any  # int64[n, P_FIELDS]
    weights: Any  # int64[n, 65536]
    history: Any  # int64[SLOTS, 2]: a hash (0: none), the number of the last transaction that had it
    spare: Any  # int64[MOST + 8, 2]
    listed: Any  # int64[LISTED, L_FIELDS]
    starts: Any  # int64[2, slots]: where a row's cells begin, in the image before and in that after
    sizes: Any  # int64[2, slots]
    given: Any  # bool[slots]


@njit(inline="always")
def _first_slot(hashed: int, slots: int) -> int:
    return ((hashed >> 1) ^ (hashed >> 33)) & (slots - 1)


@njit(forceinline=True, _nrt=False)
def _slot_of(history: Any, hashed: int) -> int:
    mask = len(history) - 1
    slot = _first_slot(hashed, len(history))
    while history[slot, 0] != 0 and history[slot, 0] != hashed:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True, _nrt=False)
def _make_room(reg: Any, history: Any, spare: Any) -> None:
    """Forget what stands before START, when the slots are used up."""
    count = np.int64(0)
    for slot in range(len(history)):
        if history[slot, 0] != 0 and history[slot, 1] > reg[START]:
            spare[count, 0], spare[count, 1] = history[slot, 0], history[slot, 1]
            count += 1
        history[slot, 0] = 0
    for n in range(count):
        slot = _slot_of(history, spare[n, 0])
        history[slot, 0], history[slot, 1] = spare[n, 0], spare[n, 1]
    reg[USED] = count


@njit(forceinline=True, _nrt=False)
def _look_up(reg: Any, history: Any, hashed: int) -> None:
    slot = _slot_of(history, hashed)
    if history[slot, 0] != 0 and history[slot, 1] > reg[PARENT] and history[slot, 1] < reg[SEQUENCE]:
        reg[PARENT] = history[slot, 1]


@njit(forceinline=True, _nrt=False)
def _touch(reg: Any, history: Any, spare: Any, hashed: int) -> None:
    """Depend on the last transaction with a hash, and be the last one."""
    slot = _slot_of(history, hashed)
    if history[slot, 0] == 0:
        if reg[LIVE] > MOST:
            return  # the history begins anew behind this transaction
        if reg[USED] * 4 > 3 * len(history):
            _make_room(reg, history, spare)
            slot = _slot_of(history, hashed)
        history[slot, 0] = hashed
        reg[USED] += 1
        reg[LIVE] += 1
    elif history[slot, 1] <= reg[START]:
        reg[LIVE] += 1
    elif history[slot, 1] > reg[PARENT] and history[slot, 1] < reg[SEQUENCE]:
        reg[PARENT] = history[slot, 1]
    history[slot, 1] = reg[SEQUENCE]


@njit(forceinline=True, _nrt=False)
def _list(reg: Any, history: Any, listed: Any, hashed: int, seed: int, how: int) -> None:
    """Note what the open transaction does with a key's value; its place in the history will be needed soon."""
    n = reg[LIST_END]
    if n >= len(listed):
        reg[FLAGS] |= _BARRIER_SIZE
        return
    listed[n, L_HASH], listed[n, L_UNKNOWN], listed[n, L_HOW] = hashed, seed ^ _OF_UNKNOWN | 1, how
    reg[LIST_END] = n + 1
    fetch(history, 16 * _first_slot(hashed, len(history)))


@njit(cache=True, nogil=True, _nrt=False)
def _binary_text(b: Any, begin: int, end: int, part: Any, value: int) -> int:
    """Return the hash of a text's bytes, -1 if it is not known which of them count."""
    prefix = part[P_PREFIX]
    if prefix > 0 and end - begin > prefix:
        for i in range(begin, end):
            if b[i] < 32 or b[i] > 126:
                return -1  # characters may have several bytes each
        end = begin + prefix
    while end > begin and b[end - 1] == part[P_PAD]:
        end -= 1
    return hash_bytes(b, begin, end - begin, value)


@njit(cache=True, nogil=True, _nrt=False)
def _text(b: Any, begin: int, end: int, part: Any, weights: Any, value: int) -> int:
    """Return the hash of the weights of a text's characters, -1 if they are not known."""
    prime = np.uint64(0x100000001B3)
    mixed = np.uint64(value) ^ np.uint64(0xCBF29CE484222325)
    left = part[P_PREFIX] if part[P_PREFIX] else end - begin
    pads = part[P_PAD] >= 0
    kept, space = mixed, weights[32]
    at = begin
    while at < end and left > 0:
        code = np.int64(b[at])
        at += 1
        if part[P_UTF8] and code >= 0x80:
            more = np.int64(1 if code < 0xE0 else 2)
            if code < 0xC2 or code >= 0xF0 or at + more > end:
                return -1
            code &= 0x3F >> more
            for n in range(more):
                code = code << 6 | np.int64(b[at + n] & 0x3F)
            at += more
        left -= 1
        weight = weights[code]
        if weight < 0:
            return -1
        is_space = weight == space
        while weight:
            mixed = (mixed ^ np.uint64(weight & 0xFFFF)) * prime
            weight >>= 16
            if not is_space:
                kept = mixed
    if pads:
        mixed = kept
    mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(cache=True, nogil=True, _nrt=False)
def _moment(b: Any, start: int, how: int, value: int) -> int:
    """Return the hash of a moment in a format of before 5.6: that of the same one in the format since, whose bytes
    begin with the greatest (MySQL internals: `my_datetime_packed_to_binary`).
    """
    size = np.int64(4)
    packed = np.int64(u32(b, start))
    if how == OLD_DATETIME:
        digits, size = i64(b, start), np.int64(5)
        date, time = digits // 1000000, digits % 1000000
        day = (date // 10000 * 13 + date // 100 % 100) << 5 | (date % 100)
        packed = (day << 17 | (time // 10000) << 12 | (time // 100 % 100) << 6 | (time % 100)) + (1 << 39)
    elif how == OLD_TIME:
        digits, size = np.int64(b[start]) | np.int64(u16(b, start + 1)) << 8, np.int64(3)
        if digits >= 1 << 23:
            digits -= 1 << 24
        time = abs(digits)
        packed = (time // 10000) << 12 | (time // 100 % 100) << 6 | (time % 100)
        packed = (1 << 23) + (packed if digits >= 0 else -packed)
    prime = np.uint64(0x9E3779B97F4A7C15)  # as `hash_bytes`
    mixed = np.uint64(value) ^ (np.uint64(size) * prime)
    for n in range(size):
        mixed = (mixed ^ np.uint64(packed >> (8 * (size - 1 - n)) & 255)) * prime
        mixed ^= mixed >> np.uint64(31)
    return np.int64(mixed & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(forceinline=True, _nrt=False)
def _part(b: Any, part: Any, weights: Any, start: int, size: int, value: int) -> int:
    """Return a key's hash with one more part, -1 if it is not known which values that equals."""
    how = part[P_HOW]
    if how == TEXT:
        return _text(b, start + part[P_LENGTH_BYTES], start + size, part, weights[part[P_WEIGHTS]], value)
    if how == BINARY_TEXT:
        return _binary_text(b, start + part[P_LENGTH_BYTES], start + size, part, value)
    if how >= OLD_TIMESTAMP:
        return _moment(b, start, how, value)
    if how == NUMBER_OF_SIGN:
        any_bit = np.int64(b[start + size - 1] & 127)
        for i in range(size - 1):
            any_bit |= np.int64(b[start + i])
        if any_bit == 0:
            return hash_bytes(b, start, 0, value)
    elif how == DECIMAL and b[start] == 0x7F:
        rest = np.int64(255)
        for i in range(1, size):
            rest &= np.int64(b[start + i])
        if rest == 255:  # -0: all bits of 0 are inverted
            return hash_bytes(b, start, 0, value)
    elif how == DECIMAL and b[start] == 0x80:
        rest = np.int64(0)
        for i in range(1, size):
            rest |= np.int64(b[start + i])
        if rest == 0:
            return hash_bytes(b, start, 0, value)
    return hash_bytes(b, start, size, value)


@njit(forceinline=True, _nrt=False)
def _key(b: Any, key: Any, parts: Any, weights: Any, starts: Any, sizes: Any, image: int) -> tuple[int, int]:
    """Return whether an image has a value of a key, and its hash."""
    value, state = key[K_SEED], _VALUE
    for p in range(key[K_PART], key[K_PART] + key[K_PARTS]):
        size = sizes[image, parts[p, P_SLOT]]
        if size == NULL:
            return _NO_VALUE, value
        if size == ABSENT:
            state = _NOT_HELD
        elif state == _VALUE:
            value = _part(b, parts[p], weights, starts[image, parts[p, P_SLOT]], size, value)
            if value < 0:
                state, value = _NOT_KNOWN, np.int64(0)
    return state, value | 1  # 0 is no hash


@njit(forceinline=True, _nrt=False)
def _is_changed(b: Any, key: Any, parts: Any, starts: Any, sizes: Any, given: Any) -> bool:
    """Return whether an update may change a key."""
    for p in range(key[K_PART], key[K_PART] + key[K_PARTS]):
        slot = parts[p, P_SLOT]
        if not given[slot]:
            continue
        before, after = sizes[0, slot], sizes[1, slot]
        if before != after:
            return True
        for i in range(after):
            if b[starts[0, slot] + i] != b[starts[1, slot] + i]:
                return True
    return False


@njit(forceinline=True, _nrt=False)
def _take_row(
    reg: Any, b: Any, table: Any, keys: Any, parts: Any, weights: Any, history: Any, listed: Any, kind: int,
    starts: Any, sizes: Any, given: Any,
) -> None:  # fmt: skip
    """Add a row to its transaction's writeset."""
    is_write, is_update = t.is_write(kind), t.is_update(kind)
    for k in range(table[T_KEY], table[T_KEY] + table[T_KEYS]):
        key = keys[k]
        role, seed = key[K_ROLE], key[K_SEED]
        if is_update and role != IDENTITY and not _is_changed(b, key, parts, starts, sizes, given):
            continue
        if role == REFERENCED and not is_write:
            reg[FLAGS] |= _BARRIER_PARENT
            continue
        if role == FOREIGN:
            if is_write or is_update:
                state, hashed = _key(b, key, parts, weights, starts, sizes, 1 if is_update else 0)
                if state == _VALUE:
                    _list(reg, history, listed, hashed, seed, _LOOK_UP)
                elif state != _NO_VALUE:
                    reg[FLAGS] |= _IN_ORDER
            continue
        for image in range(2 if is_update else 1):
            takes = is_write or image == 1
            if image == 1 and role == IDENTITY and not _is_changed(b, key, parts, starts, sizes, given):
                continue
            state, hashed = _key(b, key, parts, weights, starts, sizes, image)
            if state == _VALUE:
                _list(reg, history, listed, hashed, seed, _TOUCH)
            elif role == IDENTITY or state != _NO_VALUE:
                # All that take a value of this key behind the transaction depend on it.
                _list(reg, history, listed, seed ^ _OF_UNKNOWN | 1, seed, _UNKNOWN_VALUE)
                if role == IDENTITY or takes:
                    reg[FLAGS] |= _IN_ORDER


@njit(inline="always")
def _cut_whole(
    b: Any, at: int, end: int, steps: Any, first: int, slots: Any, starts: Any, sizes: Any, image: int, given: Any
) -> int:
    """Note the wanted cells of an image with all columns and no NULL; return its end, BAD if it does not fit.

    `first` is where the steps of such rows begin (`row_lengths`); the slots have their step and their place in it.
    """
    s, n = np.int64(0), np.int64(0)
    while True:
        step = first + 3 * s
        before, prefix = steps[step], steps[step + 1]
        length = np.int64(0)
        if prefix:
            if at + before + prefix > end:
                return BAD
            length = prefixed(b, at + before, prefix)
            if length > steps[step + 2]:
                return BAD
        while n < len(slots) and slots[n, S_STEP] == s:
            starts[image, n] = at + slots[n, S_OFFSET]
            sizes[image, n] = slots[n, S_SIZE] if slots[n, S_SIZE] else prefix + length
            given[n] = True  # the image before may have lacked it
            n += 1
        at += before + prefix + length
        if prefix == 0:  # the last step
            return at if at <= end else BAD
        s += 1


@njit(inline="always")
def _cut_some(
    b: Any, at: int, end: int, steps: Any, shape: int, count: int, base: int, nulls: int, slots: Any, starts: Any,
    sizes: Any, image: int, given: Any,
) -> int:  # fmt: skip
    """Note the wanted cells of an image with some columns, or NULLs; return its end, BAD if it does not fit."""
    n, slot = np.int64(0), np.int64(0)
    for c in range(count):
        is_wanted = slot < len(slots) and slots[slot, S_COLUMN] == c
        if not bit(b, base, c):
            if is_wanted:
                given[slot] = False
                if image == 0:
                    sizes[0, slot] = ABSENT
                else:
                    sizes[1, slot], starts[1, slot] = sizes[0, slot], starts[0, slot]
                slot += 1
            continue
        size = np.int64(NULL)
        if not bit(b, nulls, n):
            size = cell(b, at, end, steps, shape + 4 * c)
            if size < 0:
                return BAD
        if is_wanted:
            starts[image, slot], sizes[image, slot], given[slot] = at, size, True
            slot += 1
        if size > 0:
            at += size
        n += 1
    return at


@njit(inline="always")
def _end_of_whole(b: Any, at: int, end: int, steps: Any, first: int) -> int:
    """Return the end of an image with all columns and no NULL, BAD if it does not fit."""
    while True:
        before, prefix = steps[first], steps[first + 1]
        at += before
        if prefix == 0:  # the last step
            return at if at <= end else BAD
        if at + prefix > end:
            return BAD
        length = prefixed(b, at, prefix)
        if length > steps[first + 2]:
            return BAD
        at += prefix + length
        first += 3


@njit(inline="always")
def _end_of_some(b: Any, at: int, end: int, steps: Any, column: int, count: int, nulls: int) -> int:
    """Return the end of an image with all columns, of which some are NULL; BAD if it does not fit."""
    bits = np.int64(b[nulls])
    for c in range(count):
        if c and c & 7 == 0:
            bits = np.int64(b[nulls + (c >> 3)])
        if bits & 1 == 0:
            prefix = steps[column + 1]
            if prefix:
                if at + prefix > end:
                    return BAD
                length = prefixed(b, at, prefix)
                if length > steps[column + 2]:
                    return BAD
                at += prefix + length
            else:
                at += steps[column]
        bits >>= 1
        column += 4
    return at if at <= end else BAD


@njit(forceinline=True, _nrt=False)
def _take_plain(
    reg: Any, b: Any, at: int, end: int, images: int, steps: Any, shape: int, count: int, slot: Any, seed: int,
    history: Any, listed: Any,
) -> bool:  # fmt: skip
    """Take the rows of a table whose only key is plain, from images with all columns; return whether they fit."""
    first = shape + 4 * count
    nulls, place, size = (count + 7) >> 3, slot[S_OFFSET], slot[S_SIZE]
    last = np.uint8((1 << (count & 7)) - 1) if count & 7 else np.uint8(255)
    while at < end:
        before = np.int64(0)
        for _ in range(images):
            if at + nulls > end:
                return False
            any_null = b[at + nulls - 1] & last
            for n in range(nulls - 1):
                any_null |= b[at + n]
            key = at + nulls + place
            if any_null:
                at = _end_of_some(b, at + nulls, end, steps, shape, count, at)
            else:
                at = _end_of_whole(b, at + nulls, end, steps, first)
            if at < 0:
                return False
            if any_null and bit(b, key - nulls - place, slot[S_COLUMN]):
                reg[FLAGS] |= _IN_ORDER  # of a column that has no NULL: nothing is known of its value
                _list(reg, history, listed, seed ^ _OF_UNKNOWN | 1, seed, _UNKNOWN_VALUE)
                before = -1
                continue
            if before <= 0 or not same_bytes(b, before, b, key, size):
                _list(reg, history, listed, hash_bytes(b, key, size, seed) | 1, seed, _TOUCH)
            before = key
    return True


@njit(cache=True, nogil=True, _nrt=False)
def take_rows(d: Sets, b: Any, body: int, end: int, kind: int, number: int) -> bool:
    """Add the rows of an event of a table to their transaction's writeset; return whether they fit their table map.

    `b[body:end]` is the event's body.
    """
    reg, table, steps, keys, parts = d.reg, d.tables[number], d.steps, d.keys, d.parts
    weights, history, listed, starts, sizes, given = d.weights, d.history, d.listed, d.starts, d.sizes, d.given
    if reg[FLAGS] & _BARRIER:
        return True
    if table[T_WAITS] == BARRIER_ROWS:
        reg[FLAGS] |= _BARRIER_PARENT
        return True
    if table[T_WAITS] == ORDERED_ROWS:
        reg[FLAGS] |= _IN_ORDER
    if not table[T_KEYS]:
        return True
    shape = table[T_STEPS] + 3
    count, json = steps[shape - 3], steps[shape - 2]
    first = shape + 4 * count
    slots = d.slots[table[T_SLOT] : table[T_SLOT] + table[T_SLOTS]]
    at = bitmaps_begin(b, body, end, kind, count)
    if at < 0:
        return False
    bitmap, present = (count + 7) >> 3, at
    images = 2 if t.is_update(kind) else 1
    at += bitmap * images
    held_0, held_1 = np.int64(0), np.int64(0)
    for c in range(count):
        held_0 += bit(b, present, c)
        if images == 2:
            held_1 += bit(b, present + bitmap, c)
    if table[T_PLAIN] and held_0 == count and held_1 == count * (images - 1) and kind != t.PARTIAL_UPDATE_ROWS_EVENT:
        seed = keys[table[T_KEY], K_SEED]
        return _take_plain(reg, b, at, end, images, steps, shape, count, slots[0], seed, history, listed)
    while at < end:
        begun = at
        for image in range(images):
            if image == 1 and kind == t.PARTIAL_UPDATE_ROWS_EVENT:
                if at >= end or b[at] > 1:
                    return False
                at += 1 + ((json + 7) >> 3 if b[at] else 0)
            held = held_0 if image == 0 else held_1
            nulls = at
            at += (held + 7) >> 3
            if at > end:
                return False
            whole = held == count
            if whole:
                any_null = np.uint8(0)
                for n in range(held >> 3):
                    any_null |= b[nulls + n]
                if held & 7:
                    any_null |= b[at - 1] & np.uint8((1 << (held & 7)) - 1)
                whole = any_null == 0
            if whole:
                at = _cut_whole(b, at, end, steps, first, slots, starts, sizes, image, given)
            else:
                base = present + image * bitmap
                at = _cut_some(b, at, end, steps, shape, count, base, nulls, slots, starts, sizes, image, given)
            if at < 0:
                return False
        if at == begun:
            return False
        _take_row(reg, b, table, keys, parts, weights, history, listed, kind, starts, sizes, given)
    return at == end


@njit(inline="always")
def begun(d: Sets) -> None:
    """Begin a transaction; what an open one touched is forgotten."""
    d.reg[FLAGS] = d.reg[LIST_END] = 0


@njit(cache=True, nogil=True, _nrt=False)
def ended(d: Sets, sequence: int, length: int) -> int:
    """End the open transaction, which has this number and length; return the number of the one that it depends on."""
    reg, history, spare, listed = d.reg, d.history, d.spare, d.listed
    if length > LARGE:
        reg[FLAGS] |= _BARRIER_SIZE
    flags = reg[FLAGS]
    reg[SEQUENCE], reg[PARENT] = sequence, reg[START]
    for n in range(0 if flags & _BARRIER else reg[LIST_END]):
        hashed, how = listed[n, L_HASH], listed[n, L_HOW]
        if how == _LOOK_UP:
            _look_up(reg, history, hashed)
        else:
            _touch(reg, history, spare, hashed)
        if how == _UNKNOWN_VALUE:
            reg[UNKNOWN] += 1
        elif reg[UNKNOWN]:
            _look_up(reg, history, listed[n, L_UNKNOWN])
    parent = reg[PARENT]
    if flags & (_BARRIER | _IN_ORDER):
        parent = sequence - 1
    if reg[LIVE] > MOST:
        history[:] = 0  # all of it stands before START then, and few slots in use are found at the first look
        reg[USED] = 0
    if flags & _BARRIER or reg[LIVE] > MOST:
        reg[START], reg[LIVE], reg[UNKNOWN] = sequence, 0, 0
    reg[TRANSACTIONS] += 1
    reg[FREE] += parent < sequence - 1
    if flags & _BARRIER_STATEMENT:
        reg[BARRIERS_OF_STATEMENTS] += 1
    elif flags & _BARRIER_SIZE:
        reg[BARRIERS_OF_SIZE] += 1
    elif flags & _BARRIER_PARENT:
        reg[BARRIERS_OF_PARENTS] += 1
    elif flags & _IN_ORDER:
        reg[IN_ORDER] += 1
    return parent


@njit(cache=True, nogil=True, _nrt=False)
def _packed(b: Any, at: int) -> int:
    first = np.int64(b[at])
    if first < 251:
        return first
    if first == 252:
        return u16(b, at + 1)
    if first == 253:
        return u16(b, at + 1) | (np.int64(b[at + 3]) << 16)
    return i64(b, at + 1)


@njit(cache=True, nogil=True, _nrt=False)
def _end(d: Any, b: Any, maps: Any, patch: bool) -> int:
    """End the transaction at GROUP: write what it depends on (last_committed) into its GTID event, and return that."""
    reg = d.reg
    group, sequence = reg[GROUP], reg[SEQUENCE]
    if reg[FLAGS] & _BARRIER_STATEMENT:
        maps[:, 0] = -1  # what refers to a table may be another thing from here on
    parent = ended(d, sequence, _packed(b, group + 19 + 49))
    if patch and parent < sequence - 1:
        length = u32(b, group + 9)
        store_64(b, group + 19 + LAST_COMMITTED, np.uint64(parent))
        store_32(b, group + length - 4, np.uint32(crc32(b, group, length - 4)))
    reg[GROUP] = -1
    return parent


@njit(cache=True, nogil=True, _nrt=False)
def restore(history: Any, entries: Any) -> None:
    """Fill an empty history with pairs of a hash and a number."""
    for n in range(len(entries)):
        slot = _slot_of(history, entries[n, 0])
        history[slot, 0], history[slot, 1] = entries[n, 0], entries[n, 1]


@njit(cache=True, nogil=True, _nrt=False)
def map_hash(b: Any, body: int, end: int) -> int:
    """Return the hash of a table map's body without its number: tables of two shards may differ under one number."""
    return hash_bytes(b, body + 8, end - body - 8, 0) | 1


@njit(forceinline=True, _nrt=False)
def map_slot(maps: Any, table_id: int, hashed: int) -> int:
    """Return the slot of the map with a number and a hash (0: the one in force under that number), or a free one."""
    slot = table_id & (len(maps) - 1)
    while maps[slot, 0] >= 0 and (maps[slot, 0] != table_id or maps[slot, 2] != hashed):
        slot = (slot + 1) & (len(maps) - 1)
    return slot


@njit(cache=True, nogil=True, _nrt=False)
def depend(d: Sets, b: Any, end: int, maps: Any, parents: Any, patch: bool) -> int:
    """Take whole events of a merged file, b[reg[AT]:end], that end with a transaction's last one.

    With `patch` each GTID event gets what it depends on; `parents` gets (number, what it depends on) of each
    transaction, as many as it has room for. `maps` are (table id, number of the table, hash): those known by their
    hash, and that in force under each id, whose hash is 0. Returns FINISHED, NEW_TABLE (a table map, at AT, that `maps`
    does not have), BAD_EVENT or BAD_ROWS.
    """
    reg = d.reg
    done = np.int64(0)
    while reg[AT] < end:
        i = reg[AT]
        if i + 19 + 4 > end:
            return BAD_EVENT
        length = u32(b, i + 9)
        if length < 19 + 4 or i + length > end:
            return BAD_EVENT
        kind = np.int64(b[i + 4])
        body, body_end = i + 19, i + length - 4
        if kind == t.GTID_LOG_EVENT or kind == t.ANONYMOUS_GTID_LOG_EVENT:
            if reg[GROUP] >= 0:
                parent = _end(d, b, maps, patch)
                if done < len(parents):
                    parents[done, 0], parents[done, 1] = reg[SEQUENCE], parent
                done += 1
            if body_end - body < 50 or body_end - body < 49 + (1 if b[body + 49] < 251 else 9 if b[body + 49] == 254
                                                               else 3 if b[body + 49] == 252 else 4):  # fmt: skip
                return BAD_EVENT
            begun(d)
            reg[GROUP], reg[SEQUENCE] = i, i64(b, body + LAST_COMMITTED + 8)
            if _packed(b, body + 49) > LARGE:
                reg[FLAGS] = _BARRIER_SIZE
        elif reg[GROUP] < 0 or reg[FLAGS] & _BARRIER_SIZE:
            pass  # the head of a file, its end, or what is not looked at
        elif kind == t.QUERY_EVENT:
            is_begin = body_end - body >= 18
            if is_begin:
                for n in range(5):
                    is_begin = is_begin and b[body_end - 5 + n] == (66, 69, 71, 73, 78)[n]
                text = body + 13 + u16(b, body + 11) + np.int64(b[body + 8]) + 1
                is_begin = is_begin and text == body_end - 5
            if not is_begin or reg[FLAGS] & _BEGUN:
                reg[FLAGS] |= _BARRIER_STATEMENT
            reg[FLAGS] |= _BEGUN
        elif kind == t.TABLE_MAP_EVENT or t.is_rows(kind):
            if body_end - body < 8:
                return BAD_EVENT
            table_id = u48(b, body)
            slot = map_slot(maps, table_id, 0)
            if kind == t.TABLE_MAP_EVENT:
                known = map_slot(maps, table_id, map_hash(b, body, body_end))
                if maps[known, 0] < 0:
                    return NEW_TABLE
                maps[slot, 1] = maps[known, 1]
            elif maps[slot, 0] < 0:
                if table_id != t.NO_TABLE:
                    return BAD_ROWS
            elif not take_rows(d, b, body, body_end, kind, maps[slot, 1]):
                return BAD_ROWS
        elif kind != t.ROWS_QUERY_LOG_EVENT and kind != t.XID_EVENT:
            reg[FLAGS] |= _BARRIER_STATEMENT
        reg[AT] = i + length
    if reg[GROUP] >= 0:
        parent = _end(d, b, maps, patch)
        if done < len(parents):
            parents[done, 0], parents[done, 1] = reg[SEQUENCE], parent
    return FINISHED
