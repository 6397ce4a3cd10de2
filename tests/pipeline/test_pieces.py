"""Carried blocks: whatever was cut into pieces comes out, whole or in parts, from no more pieces than are needed."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.pipeline.base import pieces
from binlog_merge.pipeline.base.pieces import Between, Part, Span, Whole, extent_of, in_pieces, joined, needed, rows_of

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
COLUMNS = st.dictionaries(
    st.sampled_from(["tso", "start", "end", "flags"]),
    st.sampled_from([0, 1, 255, 256, 1 << 22, 1 << 40, GREATEST, LEAST]),
    min_size=1,
).flatmap(
    lambda scales: st.integers(0, 40).flatmap(
        lambda count: st.fixed_dictionaries(
            {
                name: st.lists(st.integers(min(0, s), max(0, s)), min_size=count, max_size=count)
                for name, s in scales.items()
            }
        )
    )
)
ROWS = st.sampled_from([1, 2, 7, 1 << 15])


def cut(columns: dict[str, list[int]], rows: int) -> list[bytes]:
    """Return pieces of so many rows."""
    with mock.patch.object(pieces, "PIECE_ROWS", rows):
        return in_pieces({name: np.array(values, np.int64) for name, values in columns.items()})


def brought(block: list[bytes], part: Part) -> list[bytes]:
    """Return the pieces that a reader of a part gets."""
    return [block[number] for number in needed([extent_of(piece) for piece in block], part)]


@given(COLUMNS, st.booleans(), ROWS)
def test_any_columns_come_out(found: dict[str, list[int]], ascending: bool, rows: int) -> None:
    columns = {name: sorted(values) if ascending else values for name, values in found.items()}
    block = cut(columns, rows)
    assert {name: values.tolist() for name, values in joined(brought(block, Whole())).items()} == columns
    for name in columns:
        assert {n: v.tolist() for n, v in joined(block, (name,)).items()} == {name: columns[name]}
        narrowed = [pieces.only(piece, (name,)) for piece in block]
        assert {n: v.tolist() for n, v in joined(narrowed).items()} == {name: columns[name]}
        assert [extent_of(p)[:2] for p in narrowed] == [extent_of(p)[:2] for p in block]


@given(
    st.lists(st.integers(-20, 20) | st.sampled_from([LEAST, GREATEST]), max_size=30),
    st.integers(-22, 22) | st.just(LEAST),
    st.integers(-22, 22) | st.just(GREATEST),
    ROWS,
)
def test_the_part_between_two_tsos(found: list[int], low: int, high: int, rows: int) -> None:
    block = cut({"tso": sorted(found), "row": list(range(len(found)))}, rows)
    some = brought(block, Between(low, high))
    columns = joined(some)
    start, stop = np.searchsorted(columns["tso"], [low, max(low, high)])
    inside = [(i, t) for i, t in enumerate(sorted(found)) if low <= t < high]
    assert list(zip(columns["row"][start:stop].tolist(), columns["tso"][start:stop].tolist(), strict=True)) == inside
    first, last = (inside[0][0] // rows, inside[-1][0] // rows) if inside else (0, 0)
    assert len(some) <= last - first + 1


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=3), ROWS)
def test_some_rows_of_a_block_with_gaps(count: int, spans: list[tuple[int, int]], rows: int) -> None:
    block = cut({"row": list(range(count))}, rows)
    extents = [extent_of(piece) for piece in block]
    wanted = sorted({number for span in spans for number in needed(extents, Span(*span))})
    for start, stop in spans:
        found = rows_of([block[number] for number in wanted], start, stop)
        assert found["row"].tolist() == list(range(count))[start:stop]


def test_what_grows_evenly_is_narrow() -> None:
    rows = 100_000
    columns = {"tso": 1_780_000_000_000 << 22 | 7 + np.arange(rows) * 100, "start": np.arange(rows) * 300 + 4}
    assert sum(map(len, in_pieces(columns))) < rows // 100


def test_no_piece_is_large() -> None:
    """The JVM holds several copies of a row at once."""
    wild = np.random.default_rng(1).integers(LEAST, GREATEST, 300_000)
    assert max(map(len, in_pieces({str(name): wild for name in range(14)}))) < 4 << 20
