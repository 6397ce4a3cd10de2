"""Carried blocks: whatever was packed comes out, whole or in parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.pipeline.base.blocks import Between, packed, unpacked

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


@given(COLUMNS, st.booleans())
def test_any_columns_come_out(found: dict[str, list[int]], ascending: bool) -> None:
    columns = {name: np.array(sorted(v) if ascending else v, np.int64) for name, v in found.items()}
    data = packed(columns)
    assert {name: values.tolist() for name, values in unpacked(data).items()} == {
        n: v.tolist() for n, v in columns.items()
    }
    for name in columns:
        assert {n: v.tolist() for n, v in unpacked(data, (name,)).items()} == {name: columns[name].tolist()}


@given(st.lists(st.integers(LEAST, GREATEST), max_size=30), st.integers(LEAST, GREATEST), st.integers(LEAST, GREATEST))
def test_the_part_between_two_tsos(found: list[int], low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    tso = np.array(sorted(found), np.int64)
    part = Between(low, high).of({"tso": tso, "row": np.arange(len(tso))})
    assert part["tso"].tolist() == [t for t in sorted(found) if low <= t < high]
    assert part["row"].tolist() == [i for i, t in enumerate(sorted(found)) if low <= t < high]


def test_what_grows_evenly_is_narrow() -> None:
    rows = 100_000
    columns = {"tso": 1_780_000_000_000 << 22 | 7 + np.arange(rows) * 100, "start": np.arange(rows) * 300 + 4}
    assert len(packed(columns)) < 3 * rows
