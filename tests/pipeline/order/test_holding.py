"""Holding by numbers: the same as `arrange`, which is written to be read."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from binlog_merge.pipeline.order.hold_kernel import HELD, hold
from snapshot_store.tso import OrderKey
from tests.pipeline.order.arranging import Touching, arrange

SHARDS = [Shard("n", "d", name) for name in "abcd"]
KEYS = st.builds(OrderKey, st.integers(0, 6), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1))
SETS = st.lists(st.frozensets(st.sampled_from(SHARDS), max_size=3), min_size=1, max_size=5)


@st.composite
def effects(draw: st.DrawFn) -> list[Effect]:
    """Effects as coordination has them: none takes effect before it stands, nor before an earlier one of its shard."""
    found: list[Effect] = []
    for shard in SHARDS:
        latest: DdlPlace | None = DdlPlace(OrderKey(0, 0, 0, 0))
        for key in sorted(draw(st.frozensets(KEYS, max_size=3))):
            own = draw(st.none() | st.builds(DdlPlace, KEYS, st.integers(0, 1)))
            latest = None if own is None or latest is None else max(own, latest, DdlPlace(key))
            found.append(Effect(shard, key, latest))
    for key in sorted(draw(st.frozensets(KEYS, max_size=2))):
        moved = draw(st.lists(st.sampled_from(SHARDS), unique=True, max_size=4))
        to = draw(st.permutations(SHARDS))
        # All by one statement, some names in a ring perhaps.
        found += [Effect(shard, key, DdlPlace(key), to=to[i]) for i, shard in enumerate(moved) if to[i] != shard]
    return found


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 4)), max_size=30), SETS, effects())
def test_numbers_say_what_arrange_says(
    rows: list[tuple[OrderKey, int]], sets: list[frozenset[Shard]], found: list[Effect]
) -> None:
    taken = {e.key for e in found} | {e.place.key for e in found if e.place is not None}
    # No transaction stands where a DDL stands.
    rows = sorted((key, number % len(sets)) for key, number in rows if key not in taken)
    touched: dict[OrderKey, frozenset[Shard]] = {}
    for key, number in rows:
        touched[key] = touched.get(key, frozenset()) | sets[number]
    places = {t.key: place for t, place in arrange([Touching(*pair) for pair in touched.items()], found)}
    keys = np.array([key for key, _ in rows], np.int64).reshape(-1, 4).T
    held = hold(keys, np.array([number for _, number in rows], np.int64), sets, found)
    for (key, _), place in zip(rows, held.place.tolist(), strict=True):
        said = None if place == HELD else DdlPlace(key) if place == 0 else held.places[place - 1]
        assert said == places[key]


def test_many_rows_are_held_without_an_object_each() -> None:
    n = 200_000
    keys = np.zeros((4, n), np.int64)
    keys[0] = np.arange(n) * 2 + 2
    sets = np.arange(n, dtype=np.int64) % 2
    until = DdlPlace(OrderKey(n + 1, 0, 0, 0))
    found = [Effect(SHARDS[0], OrderKey(1, 0, 0, 0), until)]
    held = hold(keys, sets, [frozenset(SHARDS[:1]), frozenset(SHARDS[1:2])], found)
    assert held.places == (until,)
    assert int(np.count_nonzero(held.place)) == n // 4
    assert not np.any(held.place[1::2])
    assert not np.any(held.place[keys[0] > n + 1])
