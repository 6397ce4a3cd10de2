"""Many shards: what goes along from event to event is what a count from the beginning comes to."""

from hypothesis import given

from binlog_merge.shard.composed import compose
from binlog_merge.shard.joined import join_all, order
from binlog_merge.shard.lock import Lock
from binlog_merge.shard.optimistic import OptimisticRun
from binlog_merge.shard.shapes import by_identity, one
from binlog_merge.shard.values import Event, Start
from binlog_merge.shard.waiting import Queues
from snapshot_store import parse_table
from tests.shard.scenario import SESSION, ran, written
from tests.shard.test_termination import LOGICAL, UNHURRIED, Story, stories

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"


def check_counts(lock: Lock) -> None:
    """Fail if the census that went along is not that of the shards as they stand."""
    anew = Lock(lock.normal, lock.waiting, lock.rules)
    assert sorted(map(repr, lock.census)) == sorted(map(repr, anew.census))
    assert (lock.joined, lock.settled, lock.all_ready) == (anew.joined, anew.settled, anew.all_ready)
    assert lock.joined == join_all(lock.normal.values())
    assert lock.all_ready == all(lock.ready().values())


def check_lines(run: Queues) -> None:
    """Fail if what is known of the lines is not what they are."""
    lines = dict(run.lines)
    assert set(lines) >= set(run.lock.waiting) and all(lines.values())
    assert run.lines.in_conflict == set(lines) - set(run.lock.waiting)
    assert run.lines.longer == {shard for shard, line in lines.items() if len(line) > 1}
    assert {shard: change for change, shards in run.lines.changes for shard in shards} == {
        shard: compose(line) for shard, line in lines.items()
    }
    heads = [lines[shard][0] for shard in run.lines.in_conflict]
    found = run.lines.conflicts()
    assert found == sorted(found, key=lambda ddl: (ddl.key, ddl.shard))
    assert {(h.before, h.steps) for h in heads} == {(h.before, h.steps) for h in found}


class Checked(OptimisticRun):
    """Checks itself after every event."""

    def take(self, event: Event) -> None:
        super().take(event)
        check_counts(self.lock)
        check_lines(self)


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
    assert plain == narrow and one(plain) is not one(narrow)
    assert (order(plain, plain), order(narrow, plain), order(plain, narrow)) == (0, -1, 1)


def test_partitions_count_whatever_was_seen_before() -> None:
    ran(CREATE, "t1 t2", "t1 ADD COLUMN b INT").outcome("optimistic")
    made = ran(f"{CREATE} PARTITION BY HASH (id) PARTITIONS 4", "t1 t2", "t1 COALESCE PARTITION 1")
    made.run("n2", "ALTER TABLE t2 COALESCE PARTITION 1")
    outcome = made.outcome("optimistic")
    assert (written(outcome), outcome.swallowed) == (["ALTER TABLE `shop`.`t` COALESCE PARTITION 1"], ())


def test_equal_tables_are_one_object() -> None:
    first, again = (parse_table(CREATE) for _ in range(2))
    assert first is not again and one(first) is one(again)


def test_what_is_remembered_is_told_by_objects() -> None:
    asked = []

    @by_identity
    def count(*tables: object) -> int:
        asked.append(tables)
        return len(tables)

    a, b = [1], [1]
    assert [count(a), count(a), count(b), count(a, b), count()] == [1, 1, 1, 2, 0]
    assert len(asked) == 4
