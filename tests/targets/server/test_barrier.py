"""Barriers: no row passes its table's DDL, no table waits for another's, and DDL keeps its order."""

import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from binlog_merge.binlog.query import Query
from binlog_merge.filters.ddl import ddl_events, is_global
from binlog_merge.filters.kinds import ACTIONS
from binlog_merge.log.statement import Statement
from binlog_merge.targets.server.barrier import PendingDdl, Position
from binlog_merge.targets.server.statements import plan_statement
from tests.filters.vectors import vectors
from tests.targets.server.ticdc_barrier import (
    MAX_TABLE_BARRIERS,
    REDO_BARRIER_ACTIONS,
    TicdcManager,
    pending_ddl,
    should_execute,
)

CASES = vectors("ddl_barrier.json")
ACTION_OF = {kind: action for action, kind in reversed(ACTIONS.items())} | {"drop database": "ActionDropSchema"}


def chosen(test: Any) -> Any:
    found = [pytest.param(case, id=case["id"]) for case in CASES if test(case)]
    skipped = [pytest.param({}, marks=pytest.mark.skip("no ddl_barrier.json beside the repository"))]
    return pytest.mark.parametrize("case", found or skipped)


def ddl(table: object, commit_ts: int, kind: str = "add column", seq: int = 0) -> PendingDdl:
    return PendingDdl(Position(commit_ts, seq), (table,), is_global(ACTION_OF[kind]))


def of_case(value: dict[str, Any]) -> PendingDdl:
    return ddl(value["table_id"], value["commit_ts"], value["type"])


@chosen(lambda c: c["id"].startswith("next_ddl"))
def test_the_next_ddl_as_in_ticdc(case: dict[str, Any]) -> None:
    manager = TicdcManager()
    running = [of_case(case["executing"])] if case["executing"] else []
    for one in sorted([*running, *map(of_case, case["pending"])], key=lambda d: d.position):
        manager.push(one)
    for one in running:
        manager.start(one)
    found = manager.next()
    assert found is not None and found.position.commit_ts == case["expect"]["next_commit_ts"]


@chosen(lambda c: "table_barriers" in c["expect"] or "table_barriers_count" in c["expect"])
def test_barriers_as_in_ticdc(case: dict[str, Any]) -> None:
    manager = TicdcManager()
    manager.advance(case["ddl_resolved_ts"])
    if case["just_sent"]:
        sent = of_case(case["just_sent"])
        manager.push(sent)
        manager.start(sent)
        manager.finish(sent)
    pending = case.get("pending") or [{"table_id": i, "commit_ts": i, "type": "add column"} for i in range(512)]
    for one in sorted(map(of_case, pending), key=lambda d: d.position):
        manager.push(one)
    barrier, expect = manager.barrier(), case["expect"]
    assert (barrier.global_ts, barrier.min_ts) == (expect["global_barrier_ts"], expect["min_table_barrier_ts"])
    if "table_barriers" in expect:
        assert {str(table): ts for table, ts in barrier.tables.items()} == expect["table_barriers"]
    else:
        assert len(barrier.tables) == expect["table_barriers_count"]


@chosen(lambda c: c["id"].startswith("snapshot_ts"))
def test_where_the_list_of_tables_is_taken(case: dict[str, Any]) -> None:
    manager = TicdcManager(case["start_ts"])
    manager.advance(case["ddl_resolved_ts"])
    assert manager.snapshot_ts(case["checkpoint_ts"]) == case["expect"]["snapshot_ts"]


@chosen(lambda c: c["id"].startswith("exec_condition"))
def test_when_a_ddl_is_carried_out(case: dict[str, Any]) -> None:
    one = ddl(1, case["next_ddl_commit_ts"])
    log = (case["checkpoint_ts"], case.get("redo_checkpoint_ts"), case.get("redo_ddl_resolved_ts"))
    if case["checkpoint_ts"] > case["next_ddl_commit_ts"]:
        with pytest.raises(ValueError, match="has passed the DDL"):  # TiCDC panics before it asks
            should_execute(one, *log)
    else:
        assert should_execute(one, *log) is case["expect"]["execute"]


@chosen(lambda c: c["id"].startswith("is_global"))
def test_what_everything_waits_for(case: dict[str, Any]) -> None:
    assert is_global(case["action"]) is case["expect"]["is_global"]
    assert (case["action"] in REDO_BARRIER_ACTIONS) is case["expect"]["redo_barrier"]


@chosen(lambda c: c["id"].startswith("multi/"))
def test_statements_on_several_tables_are_carried_out_part_by_part(case: dict[str, Any]) -> None:
    def plain(sql: str) -> str:
        return re.sub(r"\s+", " ", sql.replace("`", "")).upper()

    found = [plain(event.text) for event in ddl_events(case["ddl"])]
    expected = [plain(sql) for sql in case["expect"]["executed"]]
    # Of a list to be dropped TiDB makes jobs from the last to the first; here, as in MySQL, it is done as written.
    assert found == (expected[::-1] if "jobs" in case["expect"] else expected)


# Our own cases.


def test_ddl_of_one_table_holds_up_only_that_table() -> None:
    manager = TicdcManager()
    manager.push(ddl("t1", 10))
    manager.advance(20)
    assert manager.admits(["t1"], Position(10)) and not manager.admits(["t1"], Position(10, 1))
    assert not manager.admits(["t2", "t1"], Position(11)) and manager.admits(["t2"], Position(15))
    barrier = manager.barrier()
    assert (barrier.of("t1"), barrier.of("t2"), barrier.global_ts) == (10, 20, 20)


def test_one_ddl_runs_at_a_time_unless_more_may() -> None:
    one, two, three = ddl("t1", 10), ddl("t2", 11), ddl("t1", 12)
    manager = TicdcManager()
    for each in (one, two, three):
        manager.push(each)
    manager.start(one)
    assert manager.next() == one
    with pytest.raises(ValueError, match="must wait"):
        manager.start(two)
    beside = TicdcManager(max_executing=4)
    for each in (one, two, three):
        beside.push(each)
    beside.start(one)
    assert beside.next() == two
    beside.start(two)
    assert beside.executing == (one, two)
    with pytest.raises(ValueError, match="must wait"):
        beside.start(three)
    beside.finish(one)
    assert beside.next() == three and len(beside) == 2


def test_a_global_ddl_waits_for_all_and_all_for_it() -> None:
    first, every, last = ddl("t1", 10), ddl("t9", 11, "create table"), ddl("t2", 12)
    manager = TicdcManager(max_executing=9)
    for each in (first, every, last):
        manager.push(each)
    manager.start(first)
    assert manager.next() == first
    for each in (every, last):
        with pytest.raises(ValueError, match="must wait"):
            manager.start(each)
    manager.finish(first)
    assert manager.next() == every and not manager.admits(["t3"], Position(11, 1))


def test_what_was_just_finished_counts_until_the_next_round() -> None:
    manager, one = TicdcManager(), ddl("t1", 10)
    manager.push(one)
    manager.advance(20)
    manager.start(one)
    manager.finish(one)
    assert manager.barrier().of("t1") == 10
    manager.tick()
    assert manager.barrier().of("t1") == 20 and manager.next() is None


def test_more_than_256_barriers_become_one_for_all() -> None:
    manager = TicdcManager()
    for i in range(300):
        manager.push(ddl(i, 1000 + i))
    manager.advance(5000)
    barrier = manager.barrier()
    assert len(barrier.tables) == MAX_TABLE_BARRIERS and barrier.global_ts == 1000 + MAX_TABLE_BARRIERS
    assert barrier.of("other") == 1256 and barrier.of(299) == 1256 and barrier.of(0) == 1000


def test_a_storm_of_ddl_leaves_nothing_behind() -> None:
    manager = TicdcManager(max_executing=8)
    for i in range(10_000):
        manager.push(ddl(f"t{i % 1000}", i, "create table" if i % 500 == 499 else "add column"))
    order = []
    while one := manager.next():
        assert not manager.admits(["t0"], Position(100_000)) or len(manager) < 1000
        manager.start(one)
        manager.finish(one)
        order.append(one.position)
    assert order == sorted(order) and len(order) == 10_000 and len(manager) == 0
    assert manager.admits(["t0"], Position(100_000)) and not manager._of_table


@pytest.mark.parametrize(
    ("sql", "everything_waits"),
    [
        ("ALTER TABLE t ADD a INT", False),
        ("ALTER TABLE unknown ADD a INT", True),
        ("CREATE TABLE unknown (a INT)", True),
        ("RENAME TABLE t TO u", True),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (a)", True),
        ("TRUNCATE t", False),
        ("DROP DATABASE d", True),
    ],
)
def test_what_is_global_in_a_merged_binlog(sql: str, everything_waits: bool) -> None:
    (event,) = ddl_events(sql, "d")
    made = pending_ddl(event, Position(1), lambda table: table == ("d", "t"), payload="…")
    assert made.is_global is everything_waits and made.payload == "…"


@pytest.mark.parametrize(
    ("sql", "ties"),
    [
        ("ALTER TABLE t ADD a INT COMMENT 'RENAME, FOREIGN'", False),
        ("ALTER TABLE t MODIFY a INT", False),
        ("ALTER TABLE t CHANGE a A INT", False),
        ("ALTER TABLE t CHANGE a b INT", True),
        ("ALTER TABLE t ADD c INT, RENAME COLUMN a TO b", True),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (a)", True),
        ("ALTER TABLE t DROP FOREIGN KEY f", True),
        ("ALTER TABLE t DROP CONSTRAINT f", True),
        ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u (a))", True),
        ("CREATE TABLE t (`references` INT)", False),
        ("RENAME TABLE t TO u", True),
        ("ALTER TABLE t RENAME TO u", True),
        ("DROP DATABASE d", True),
        ("DROP TABLE t, u", False),
        ("DROP SOMETHING t", True),
    ],
)
def test_what_ties_tables_in_a_merged_binlog(sql: str, ties: bool) -> None:
    assert plan_statement(Statement(Query(1, 0, 0, b"d", sql.encode())), None).ties is ties


def test_another_order_is_refused() -> None:
    manager = TicdcManager()
    manager.push(ddl("t1", 10))
    with pytest.raises(ValueError, match="pushed after"):
        manager.push(ddl("t1", 9))
    with pytest.raises(ValueError, match="pushed twice"):
        manager.push(ddl("t1", 10))
    with pytest.raises(ValueError, match="was not started"):
        manager.finish(ddl("t1", 10))
    with pytest.raises(ValueError, match="is of no table"):
        manager.push(PendingDdl(Position(11), ()))
    with pytest.raises(ValueError, match="has passed the DDL"):
        should_execute(ddl("t1", 10), 11)


TABLES = ["t0", "t1", "t2", "t3"]


class Replaying(RuleBasedStateMachine):
    """A stream of rows and DDL, applied in any order that the manager allows."""

    @initialize(max_executing=st.integers(1, 4))
    def begin(self, max_executing: int) -> None:
        self.manager = TicdcManager(max_executing=max_executing)
        self.stream: list[tuple[Position, tuple[str, ...], PendingDdl | None]] = []
        self.rows: list[tuple[Position, tuple[str, ...]]] = []
        self.applied: list[tuple[Position, tuple[str, ...], bool]] = []

    def _position(self, step: int) -> Position:
        last = self.stream[-1][0] if self.stream else Position(0)
        return Position(last.commit_ts + 1) if step else Position(last.commit_ts, last.seq + 1)

    @rule(step=st.integers(0, 1), tables=st.lists(st.sampled_from(TABLES), min_size=1, max_size=2, unique=True))
    def rows_come(self, step: int, tables: list[str]) -> None:
        position = self._position(step)
        self.stream.append((position, tuple(tables), None))
        self.rows.append((position, tuple(tables)))

    @rule(step=st.integers(0, 1), table=st.sampled_from(TABLES), every=st.booleans())
    def ddl_comes(self, step: int, table: str, every: bool) -> None:
        one = PendingDdl(self._position(step), (table,), every)
        self.stream.append((one.position, (table,), one))
        self.manager.push(one)

    @precondition(lambda self: self.rows)
    @rule(pick=st.integers(0))
    def rows_are_applied(self, pick: int) -> None:
        position, tables = self.rows[pick % len(self.rows)]
        waits = any(
            one is not None and at < position and (one.is_global or set(one.tables) & set(tables))
            for at, _, one in self.stream
            if one is not None and (at, one.tables, True) not in self.applied
        )
        # Exactly what stands before them on their own tables holds them up, and nothing else.
        assert self.manager.admits(tables, position) is not waits
        if not waits:
            self.rows.remove((position, tables))
            self.applied.append((position, tables, False))

    @rule()
    def ddl_starts(self) -> None:
        one = self.manager.next()
        if one is None or one in self.manager.executing:
            return
        before = [r for r in self.rows if r[0] < one.position and (one.is_global or set(r[1]) & set(one.tables))]
        if not before:
            self.manager.start(one)

    @precondition(lambda self: self.manager.executing)
    @rule(pick=st.integers(0))
    def ddl_ends(self, pick: int) -> None:
        running = self.manager.executing
        one = running[pick % len(running)]
        self.manager.finish(one)
        self.applied.append((one.position, tuple(str(t) for t in one.tables), True))

    @invariant()
    def ddl_of_a_table_keeps_its_order(self) -> None:
        for table in TABLES:
            places = [at for at, tables, is_ddl in self.applied if is_ddl and table in tables]
            assert places == sorted(places)

    @invariant()
    def no_row_passes_the_ddl_of_its_table(self) -> None:
        of = {at: one for at, _, one in self.stream if one is not None}
        for i, (at, tables, is_ddl) in enumerate(self.applied):
            for later, named, later_is_ddl in self.applied[i + 1 :]:
                one = of.get(later) if later_is_ddl else of.get(at) if is_ddl else None
                if one is not None and is_ddl is not later_is_ddl and (one.is_global or set(tables) & set(named)):
                    assert at < later

    @invariant()
    def at_most_so_many_run(self) -> None:
        assert len(self.manager.executing) <= self.manager.max_executing


TestReplaying = Replaying.TestCase
TestReplaying.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
