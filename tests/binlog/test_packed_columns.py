"""Packed columns are as narrow as a plain twin makes them, and come out as they were."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import packed_columns as p
from binlog_merge.pipeline.base.pieces import in_pieces, joined

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
NUMBERS = st.sampled_from([LEAST, GREATEST, 0, 1, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32]) | st.integers(-9, 9)
COLUMNS = st.integers(0, 6).flatmap(
    lambda n: st.lists(st.lists(NUMBERS, min_size=n, max_size=n), min_size=1, max_size=4)
)


def wrapped(number: int) -> int:
    return (number - LEAST) % (1 << 64) + LEAST


def plain(values: list[int]) -> tuple[int, bytes]:
    """Return the bytes that each number of a column takes, and all of them."""
    best = None
    for numbers in (values, [wrapped(b - a) for a, b in pairwise(values)]):
        least, most = (min(numbers), max(numbers)) if numbers else (0, 0)
        width = next(width for width in (0, 1, 2, 4, 8) if most - least < 1 << 8 * width)
        data = b"".join(((number - least) % (1 << 64)).to_bytes(8, "little")[:width] for number in numbers)
        best = (width, data) if best is None or width < best[0] else best
    assert best is not None
    return best


@settings(deadline=None)  # the first call compiles
@given(COLUMNS)
@example([[LEAST, GREATEST], [0, 0]])
@example([[]])
def test_columns_are_packed_as_by_the_plain_twin_and_come_out_again(columns: list[list[int]]) -> None:
    wide, layout = np.array(columns, np.int64).reshape(len(columns), -1), np.zeros((len(columns), p.L_FIELDS), np.int64)
    out = np.zeros(wide.nbytes, np.uint8)
    size = int(p.pack(wide, layout, out))
    twin = [plain(values) for values in columns]
    assert layout[:, p.L_WIDTH].tolist() == [width for width, _ in twin]
    assert out[:size].tobytes() == b"".join(data for _, data in twin)
    if columns[0]:
        extremes = [[min(values), max(values)] for values in columns]
        assert layout[:, [p.L_LEAST, p.L_MOST]].tolist() == extremes
    for wanted in ([*range(len(columns))], [len(columns) - 1], []):
        found = np.empty((len(wanted), wide.shape[1]), np.int64)
        assert p.unpack(out[:size].copy(), 0, layout, np.array(wanted, np.int64), found)
        assert found.tolist() == [columns[number] for number in wanted]


def test_a_piece_that_is_cut_is_refused() -> None:
    (piece,) = in_pieces({"tso": np.array([7, 900, 3]), "end": np.array([1, 2, 4])})
    assert [values.tolist() for values in joined([piece]).values()] == [[7, 900, 3], [1, 2, 4]]
    with pytest.raises(ValueError, match="not whole"):
        joined([piece[:-1]])
