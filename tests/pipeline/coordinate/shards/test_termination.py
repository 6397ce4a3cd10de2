"""However the DDL of shards interleaves: if they end alike, nothing waits, and the logical table is like theirs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all, order
from snapshot_store.ddl import parse_dump
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from tests.pipeline.coordinate.shards.scenario import (
    SESSION,
    Cluster,
    check_agreement,
    cluster,
    merged,
    placed,
    written,
)

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 1, KEY k (a))"
LOGICAL = ("shop", "t")
NAMES = st.sampled_from("abcd")
CLAUSES = st.one_of(
    st.builds("ADD COLUMN {} INT".format, NAMES),
    st.builds("ADD COLUMN {} INT NOT NULL".format, NAMES),
    st.builds("ADD COLUMN {} INT NOT NULL DEFAULT 5 FIRST".format, NAMES),
    st.builds("ADD COLUMN {} INT, DROP COLUMN {}".format, NAMES, NAMES),
    st.builds("DROP COLUMN {}".format, NAMES),
    st.builds("RENAME COLUMN {} TO {}".format, NAMES, NAMES),
    st.builds("RENAME COLUMN a TO b, RENAME COLUMN b TO a".format),
    st.builds("CHANGE {} {} BIGINT".format, NAMES, NAMES),
    st.builds("MODIFY {} BIGINT NOT NULL".format, NAMES),
    st.builds("MODIFY {} VARCHAR(20)".format, NAMES),
    st.builds("MODIFY {} INT UNSIGNED".format, NAMES),
    st.builds("ALTER {} SET DEFAULT 9".format, NAMES),
    st.builds("ALTER {} DROP DEFAULT".format, NAMES),
    st.builds("ADD INDEX k ({})".format, NAMES),
    st.just("DROP INDEX k"),
    st.builds("ADD UNIQUE u ({})".format, NAMES),
    st.just("COMMENT='x'"),
)
# There and back again.
DETOURS = st.sampled_from(
    [
        ("ADD COLUMN z INT", "DROP COLUMN z"),
        ("ADD COLUMN z INT NOT NULL", "DROP COLUMN z"),
        ("RENAME COLUMN id TO y", "RENAME COLUMN y TO id"),
        ("CHANGE id y BIGINT", "CHANGE y id INT"),
        ("MODIFY id BIGINT", "MODIFY id INT"),
        ("MODIFY id INT UNSIGNED", "MODIFY id INT"),
        ("ADD INDEX i (id)", "DROP INDEX i"),
    ]
)


def start() -> Table:
    (table,) = parse_dump(TABLE, "shop").tables.values()
    return table


def after(table: Table, clauses: Sequence[str]) -> Table | None:
    """Return the table behind some clauses; None if a server would refuse one."""
    try:
        for clause in clauses:
            table = applied(table, f"ALTER TABLE t {clause}", SESSION)
    except SnapshotStoreError:
        return None
    return table


@dataclass(frozen=True)
class Story:
    """What each shard runs, and in which order the shards take turns; "row" is a change of rows."""

    shards: tuple[tuple[str, ...], ...]
    turns: tuple[int, ...]
    cut: int = 0  # of its events, as many are known at first

    def in_turn(self) -> Iterator[tuple[int, str]]:
        """Yield what happens, each as (shard, what)."""
        left = [list(texts) for texts in self.shards]
        for turn in self.turns:
            shard = turn % len(left)
            yield from ((shard, text) for text in left[shard][:1])
            del left[shard][:1]
        for shard, texts in enumerate(left):
            yield from ((shard, text) for text in texts)

    def cluster(self) -> Cluster:
        made = cluster(TABLE, *(f"n{i}.t{i}" for i in range(len(self.shards))))
        for shard, text in self.in_turn():
            made.run(
                f"n{shard}", f"INSERT INTO t{shard} VALUES ()" if text == "row" else f"ALTER TABLE t{shard} {text}"
            )
        return made


@st.composite
def stories(draw: st.DrawFn, detours: bool) -> Story:
    """Shards that run the same DDL, by detours or not, with rows in between."""
    clauses: list[str] = []
    for clause in draw(st.lists(CLAUSES, min_size=1, max_size=5)):
        if after(start(), [*clauses, clause]) is not None:
            clauses.append(clause)
    shards = []
    for _ in range(draw(st.integers(2, 3))):
        mine = list(clauses)
        if detours:
            mine = swapped(mine, draw(st.integers(0, 4)))
            for there, back in draw(st.lists(DETOURS, max_size=1)):
                i, j = sorted((draw(st.integers(0, len(mine))), draw(st.integers(0, len(mine)))))
                longer = [*mine[:i], there, *mine[i:j], back, *mine[j:]]
                mine = longer if ends_like(longer, clauses) else mine
        for place in sorted(draw(st.lists(st.integers(0, len(mine)), max_size=4)), reverse=True):
            mine.insert(place, "row")
        shards.append(tuple(mine))
    turns = draw(st.lists(st.integers(0, 2), max_size=sum(map(len, shards))))
    return Story(tuple(shards), tuple(turns), draw(st.integers(0, sum(map(len, shards)))))


def swapped(clauses: list[str], place: int) -> list[str]:
    """Return the clauses with two neighbours swapped, where that comes to the same table."""
    other = [*clauses[:place], *reversed(clauses[place : place + 2]), *clauses[place + 2 :]]
    return other if ends_like(other, clauses) else clauses


def ends_like(clauses: list[str], others: list[str]) -> bool:
    mine, theirs = after(start(), clauses), after(start(), others)
    return mine is not None and theirs is not None and order(mine, theirs) == 0


def check(story: Story, way: str) -> None:
    made = story.cluster()
    outcome = made.outcome(way)
    rows = made.rows.get(LOGICAL, [])
    check_agreement(outcome)
    assert all(order(outcome.table, table) == 0 for table in outcome.members.values() if outcome.table is not None)
    entries = [
        e for e in merged(rows, outcome, start(), made.events.get(LOGICAL, [])) if e.startswith("t") and "@" in e
    ]
    for shard in outcome.members:
        mine = [f"{row.shard.table}@{row.key.commit_tso}" for row in rows if row.shard == shard]
        assert [e for e in entries if e.partition("@")[0] == shard.table] == mine
    # What is known of a part of the logs does not change when more becomes known.
    part = made.outcome(way, until=story.cut)
    assert part.stop is None
    assert outcome.logical[: len(part.logical)] == part.logical
    assert {e for e in part.effects if e.place is not None} <= set(outcome.effects)
    unknown = [event.key for event in made.events.get(LOGICAL, [])[story.cut :]]
    for (row, early), (_, late) in zip(placed(rows, part), placed(rows, outcome), strict=True):
        assert late is not None
        if not unknown or row.key < unknown[0]:
            assert early == late or (early is None and late.key >= unknown[0])
    # Nor does it matter in which order the shards are named.
    made.members[LOGICAL] = dict(reversed(made.members[LOGICAL].items()))
    assert made.outcome(way).logical == outcome.logical


UNHURRIED = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(stories(detours=True))
def test_optimistic_shards_that_end_alike_are_at_one(story: Story) -> None:
    check(story, "optimistic")


@UNHURRIED
@given(stories(detours=False))
def test_pessimistic_shards_that_run_the_same_are_at_one(story: Story) -> None:
    check(story, "pessimistic")


@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_a_story_told_twice_is_the_same(way: str) -> None:
    story = Story(
        (("ADD COLUMN c INT", "row", "RENAME COLUMN c TO d"), ("ADD COLUMN c INT", "RENAME COLUMN c TO d")), (0, 1)
    )
    assert written(story.cluster().outcome(way)) == written(story.cluster().outcome(way))
    assert join_all(story.cluster().outcome(way).members.values()) is not None
