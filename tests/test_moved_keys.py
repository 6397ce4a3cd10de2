"""The order keys of what comes out at places are in the order of the places, whatever nodes the events are of."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.moved_keys import DdlPlace, is_moved, key_of, moved_key, place_of
from binlog_merge.pipeline.coordinate.shards.together import in_order_of_keys
from snapshot_store.tso import ORIGIN, OrderKey

KEYS = st.builds(OrderKey, st.integers(1, 2), st.integers(0, 1), st.integers(0, 2), st.integers(1, 4))
PLACES = st.lists(st.builds(DdlPlace, KEYS, st.integers(0, 3)), max_size=12)


@given(PLACES, KEYS)
def test_keys_are_in_the_order_of_places(places: list[DdlPlace], floor: OrderKey) -> None:
    stands = in_order_of_keys(places, ORIGIN)
    found = [stands.get(place, place) for place in sorted(set(places))]
    keys = [key for place in found for key in (key_of(place), moved_key(place))]
    assert all(a < b for a, b in pairwise(keys))
    assert [place_of(key) for key in keys[::2]] == found == [place_of(key) for key in keys[1::2]]
    assert [is_moved(key) for key in keys] == [False, True] * len(found)
    # Events that differ in more than the node stay where they are, and so does what has come out.
    assert all(place.key[:3] == moved.key[:3] and moved.key < place.key for place, moved in stands.items())
    assert all(place.key >= floor for place in in_order_of_keys(places, floor))
