"""Many shards: what goes along from event to event is what a count from the beginning comes to."""

from collections import Counter

from hypothesis import given

from binlog_merge.pipeline.coordinate.shards.optimistic.keeper import LockKeeper
from binlog_merge.pipeline.coordinate.shards.optimistic.lock import Lock, Standing
from binlog_merge.pipeline.coordinate.shards.optimistic.queues import change_of
from binlog_merge.pipeline.coordinate.shards.optimistic.run import OptimisticRun
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Shapes, order
from binlog_merge.pipeline.coordinate.shards.values import Event, Start
from snapshot_store import parse_table
from tests.pipeline.coordinate.shards.scenario import SESSION, ran, written
from tests.pipeline.coordinate.shards.test_termination import LOGICAL, UNHURRIED, Story, stories

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"


def check_counts(lock: Lock) -> None:
    """Fail if the counts that went along are not those of the shards as they are."""
    anew = Counter(Standing(table, lock.waiting.get(shard)) for shard, table in lock.normal.items())
    assert lock.counts == anew
    assert lock.joined == lock.shapes.join(lock.normal.values())
    assert lock.all_ready == all(lock.ready().values())


def check_queues(run: LockKeeper) -> None:
    """Fail if what is known of the queues is not what they are."""
    queues = dict(run.queues)
    assert set(queues) >= set(run.lock.waiting) and all(queues.values())
    assert run.queues.in_conflict == set(queues) - set(run.lock.waiting)
    assert run.queues.longer == {shard for shard, queue in queues.items() if len(queue) > 1}
    assert {shard: change for change, shards in run.queues.changes for shard in shards} == {
        shard: change_of(queue) for shard, queue in queues.items()
    }
    heads = [queues[shard][0].ddl for shard in run.queues.in_conflict]
    found = [info.ddl for info in run.queues.conflicts()]
    assert found == sorted(found, key=lambda ddl: (ddl.key, ddl.shard))
    assert {(h.before, h.steps) for h in heads} == {(h.before, h.steps) for h in found}


class Checked(OptimisticRun):
    """Checks itself after every event."""

    def take(self, event: Event) -> None:
        super().take(event)
        check_counts(self.lock)
        check_queues(self)


@UNHURRIED
@given(stories(detours=True))
def test_what_goes_along_is_what_a_count_from_the_beginning_comes_to(story: Story) -> None:
    made = story.cluster()
    run = Checked(Start(made.members[LOGICAL]), SESSION)
    for event in made.events.get(LOGICAL, []):
        run.take(event)
    assert run.outcome().logical == made.outcome("optimistic").logical


def test_two_hundred_shards_wait_for_the_last_and_go_on_together() -> None:
    steps = ("RENAME COLUMN a TO b", "ADD COLUMN c INT")
    tables = " ".join(f"t{i}" for i in range(200))
    made = ran(CREATE, tables, *(f"t{i} {step}" for i in range(199) for step in steps))
    waits = made.outcome("optimistic")
    assert (len(waits.open), waits.logical) == (2, ())
    for step in steps:
        made.run("n199", f"ALTER TABLE t199 {step}")
    outcome = made.outcome("optimistic")
    assert written(outcome) == [f"ALTER TABLE `shop`.`t` {step}" for step in steps]
    assert not outcome.open and all(effect.place is not None for effect in outcome.effects)


def test_display_widths_count_whatever_was_compared_before() -> None:
    plain, narrow = (parse_table(f"CREATE TABLE t (a {type} NOT NULL)") for type in ("INT", "INT(5)"))
    shapes = Shapes()
    assert plain == narrow and shapes.of(plain) != shapes.of(narrow)
    assert (order(plain, plain), order(narrow, plain), order(plain, narrow)) == (0, -1, 1)


def test_partitions_count_whatever_was_seen_before() -> None:
    ran(CREATE, "t1 t2", "t1 ADD COLUMN b INT").outcome("optimistic")
    made = ran(f"{CREATE} PARTITION BY HASH (id) PARTITIONS 4", "t1 t2", "t1 COALESCE PARTITION 1")
    made.run("n2", "ALTER TABLE t2 COALESCE PARTITION 1")
    outcome = made.outcome("optimistic")
    assert (written(outcome), outcome.swallowed) == (["ALTER TABLE `shop`.`t` COALESCE PARTITION 1"], ())


def test_equal_tables_have_one_number() -> None:
    shapes = Shapes()
    first, again = (parse_table(CREATE) for _ in range(2))
    assert first is not again and shapes.of(first) == shapes.of(again)
    assert shapes[shapes.of(again)] == first


def test_a_join_is_the_same_in_any_order_and_none_where_tables_contradict() -> None:
    shapes = Shapes()
    small, other, wide = (
        shapes.of(parse_table(f"CREATE TABLE t (id INT PRIMARY KEY{more})"))
        for more in ("", ", a INT", ", a INT, b INT")
    )
    extra = shapes.of(parse_table("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(5))"))
    joined = shapes.join([small, other, wide])
    assert joined is not None and joined == shapes.join([wide, small, small, other])
    assert (shapes.order(joined, wide), shapes.order(small, wide)) == (0, -1)
    assert shapes.join([other, extra]) is None and shapes.join([]) is None
