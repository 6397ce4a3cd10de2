"""Which tables wait together, against what follows from its definition step by step; shares of about equal weight."""

from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from binlog_merge.pipeline.order.waits import shares, waiting_components
from snapshot_store.tso import ORIGIN

SHARDS = [Shard("a", "d", table) for table in "pqrstuvw"]
SOME = st.sampled_from(SHARDS)
SETS = st.lists(st.frozensets(SOME, max_size=3), max_size=8)
EFFECTS = st.lists(st.builds(Effect, SOME, st.just(ORIGIN), st.none(), to=st.none() | SOME), max_size=3)


def _reached(found: set[Shard], ties: list[frozenset[Shard]]) -> set[Shard]:
    while True:
        more = found.union(*(tie for tie in ties if tie & found))
        if more == found:
            return found
        found = more


@given(SETS, EFFECTS, st.data())
def test_everything_within_reach_of_an_effect_is_in_its_component(
    tables: list[frozenset[Shard]], effects: list[Effect], data: st.DataObject
) -> None:
    linked = data.draw(st.lists(st.frozensets(SOME, max_size=2), min_size=len(tables), max_size=len(tables)))
    some = [number for number, touched in enumerate(tables) if touched]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(some), st.sampled_from(some)), max_size=4)) if some else []
    ties = [*tables, *(tables[a] | tables[b] for a, b in pairs)]
    ties += [touched | others for touched, others in zip(tables, linked, strict=True) if touched]
    ties += [frozenset({e.shard, e.to}) for e in effects if e.to is not None]
    every = {frozenset(_reached({effect.shard}, ties)) for effect in effects}
    expected = {numbers for known in every if (numbers := frozenset(n for n in some if tables[n] & known))}
    found = waiting_components(tables, pairs, effects, linked)
    assert set(found) == expected
    assert len(found) == len(expected)


@given(st.lists(st.integers(0, 100), max_size=12), st.integers(1, 4))
def test_every_component_is_in_one_share_and_none_is_much_heavier(weights: list[int], most: int) -> None:
    found = shares(weights, most)
    assert sorted(index for share in found for index in share) == list(range(len(weights)))
    sums = [sum(weights[index] for index in share) for share in found]
    assert len(found) == min(most, len(weights))
    assert not sums or max(sums) - min(sums) <= max(weights, default=0)
