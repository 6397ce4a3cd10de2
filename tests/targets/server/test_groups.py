"""Who may go on: groups commit in order, wait for what they name, and give way to those before them."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from binlog_merge.targets.server.groups import Group, Stopped, Turns, Yielded


def groups(count: int) -> list[Group]:
    return [Group(number=number) for number in range(1, count + 1)]


def begun(pool: ThreadPoolExecutor, work: Callable[[], None]) -> "Future[None]":
    return pool.submit(work)


def test_commits_come_in_order() -> None:
    turns, order = Turns(True), groups(5)
    told: list[int] = []

    def commit(group: Group) -> None:
        turns.commit(group)
        told.append(group.number)
        turns.done(group)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(commit, reversed(order)))
    assert told == [1, 2, 3, 4, 5]


def test_relaxed_they_wait_for_what_they_name_only() -> None:
    turns, (one, two, three) = Turns(False), groups(3)
    turns.commit(three)
    turns.done(three)
    assert turns.are_done([three]) and not turns.are_done([one, three])
    with ThreadPoolExecutor(1) as pool:
        waits = begun(pool, lambda: turns.after([one, three], two))
        turns.done(one)
        waits.result(10)


@pytest.mark.parametrize("keep", [True, False])
def test_those_behind_give_way_to_a_favoured_one(keep: bool) -> None:
    turns, (one, two, three) = Turns(keep), groups(3)
    with ThreadPoolExecutor(2) as pool:
        waits = begun(pool, lambda: turns.commit(three) if keep else turns.after([two], three))
        turns.favour(two)
        with pytest.raises(Yielded):
            waits.result(10)
        gives_way = begun(pool, lambda: turns.give_way(three))
        turns.give_way(one)
        if keep:
            turns.commit(one)
        turns.done(one)
        assert not gives_way.done()
        turns.commit(two)
        turns.done(two)
        gives_way.result(10)
    turns.commit(three)


def test_behind_a_failure_nobody_goes_on() -> None:
    turns, (one, two, three) = Turns(True), groups(3)
    with ThreadPoolExecutor(1) as pool:
        waits = begun(pool, lambda: turns.commit(three))
        turns.fail(2)
        with pytest.raises(Stopped):
            waits.result(10)
    turns.commit(one)
    turns.done(one)
    with pytest.raises(Stopped):
        turns.give_way(three)
    turns.stop()
    with pytest.raises(Stopped):
        turns.commit(two)
