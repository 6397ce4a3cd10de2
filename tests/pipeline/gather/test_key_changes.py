"""Hashes of keys are equal exactly where plain Python takes the keys for equal, whatever lies in their cells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import key_hashes
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE, NULL

CELLS = st.none() | st.just("absent") | st.binary(min_size=4, max_size=4) | st.sampled_from([bytes(4), b"\1\0\0\0"])
Cell = bytes | str | None


def plain(key: list[Cell]) -> tuple[int, object]:
    """Return the state of a key and what equals what."""
    if None in key:
        return key_hashes.NULL, None
    return (key_hashes.ABSENT, None) if "absent" in key else (key_hashes.VALUE, tuple(key))


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=8)))
def test_hashes_are_equal_where_keys_are(keys: list[list[Cell]]) -> None:
    cells = [cell if isinstance(cell, bytes) else b"" for key in keys for cell in key]
    ends = np.cumsum([len(cell) for cell in cells])
    shape = (len(keys), len(keys[0]))
    starts, sizes = np.zeros((2, shape[1], shape[0]), np.int32), np.full((2, shape[1], shape[0]), NONE, np.int32)
    starts[1] = (ends - [len(cell) for cell in cells]).reshape(shape).T
    told = [len(c) if isinstance(c, bytes) else NULL if c is None else ABSENT for key in keys for c in key]
    sizes[1] = np.array(told).reshape(shape).T
    found = []
    for seed in (65, 66):
        values, states = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        buffer, columns, rows = np.frombuffer(b"".join(cells), np.uint8), np.arange(shape[1]), np.arange(len(keys))
        key_hashes.hash_keys(buffer, starts, sizes, columns, 1, rows, seed, values, states)
        assert states.tolist() == [plain(key)[0] for key in keys]
        found += [(seed, key, value) for key, value in zip(keys, values.tolist(), strict=True)]
    whole = [(seed, plain(key)[1], value) for seed, key, value in found if plain(key)[0] == key_hashes.VALUE]
    for seed, key, value in whole:
        assert all((value == hashed) == ((seed, key) == (of, other)) for of, other, hashed in whole)
