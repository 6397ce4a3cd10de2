"""What the log of shards keeps of the effects of statements, once their tables continue from a quiet state."""

from typing import Any

import pytest

from binlog_merge.pipeline.coordinate.shards.log import Settled, ShardLog
from binlog_merge.pipeline.coordinate.shards.values import LAST, Effect, Shard
from snapshot_store.tso import OrderKey

SHARD, OTHER = Shard("n1", "a", "t"), Shard("n1", "a", "u")
KEY, LATER = OrderKey(10, 1, 1, 0), OrderKey(20, 0, 0, 0)


def kept(key: OrderKey = KEY, state: OrderKey = KEY, floor: OrderKey = LATER, **changes: Any) -> bool:
    effect = Effect(SHARD, key, None, **changes)
    found = ShardLog().settled([Settled(state, {}, frozenset(), (effect,))], floor).effects
    assert found in ([], [effect])
    return bool(found)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"renames": (("v", "w"),)}, True),
        ({"to": OTHER}, True),
        ({"name": ("a", "u")}, True),
        ({"gone": True}, True),
    ],
)
def test_each_of_those_that_rename_or_remove_something_is_kept(changes: dict[str, Any], expected: bool) -> None:
    assert kept(**changes) is expected


def test_only_those_are_kept_that_the_state_includes() -> None:
    assert kept(LAST, gone=True)
    assert not kept(KEY._replace(commit_tso=11), gone=True)


def test_a_state_beside_the_floor_is_not_quiet_yet() -> None:
    assert not kept(floor=KEY._replace(commit_tso=10, node_seq=3), gone=True)
    assert kept(floor=OrderKey(11, 0, 0, 0), gone=True)
