r"""A statement is read, and written, in the session that it ran in, whatever ran before it and whoever decides on it.

Shards run the same under different sql_modes: `"x"` is a string or a name, `\` stands for itself or not.
"""

import itertools

import pytest

from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.identity import event_under, logical_under
from binlog_merge.pipeline.coordinate.shards.log import ShardLog
from binlog_merge.pipeline.coordinate.shards.log_json import log_from_json, log_to_json
from binlog_merge.pipeline.coordinate.shards.net_change import plain, same_ddl
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all
from binlog_merge.pipeline.coordinate.shards.values import WRITTEN, Outcome, ShardDdl, ShardEvent
from binlog_merge.pipeline.coordinate.shards.writing import writing_session
from snapshot_store.ddl import DdlSession
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from tests.pipeline.coordinate.shards.scenario import Cluster, cluster

LOGICAL = ("shop", "t")
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
MODES = [
    DdlSession(sql_mode=mode) for mode in (0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, ANSI_QUOTES | NO_BACKSLASH_ESCAPES)
]
WAYS = pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
PAIRS = pytest.mark.parametrize(("first", "second"), list(itertools.product(MODES, repeat=2)))

NOTE = r"""a "b" \ 'c'"""


def said(text: str, session: DdlSession) -> str:
    """Return a string as a session writes it, in double quotes where they make one."""
    text = text if not session.backslash_escapes else text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'" if session.ansi_quotes else '"' + text.replace('"', '""') + '"'


def named(name: str, session: DdlSession) -> str:
    """Return a name as a session may quote it."""
    return f'"{name}"' if session.ansi_quotes else quote_name(name)


def adding(table: str, session: DdlSession, column: str = "note", text: str = NOTE) -> str:
    name, column = named(table, session), named(column, session)
    return f"ALTER TABLE {name} ADD COLUMN {column} VARCHAR(30) DEFAULT {said(text, session)}"


def check(made: Cluster, way: str, decided: str = "") -> Outcome:
    """Check that each statement that is written, read in the session that it is written in, makes the table it says."""
    outcome = made.outcome(way)
    table = join_all(made.members[LOGICAL].values())
    for logical in outcome.logical:
        session = WRITTEN if logical.ran is None else made.sessions[logical.ran]
        for sql in logical.statements:
            assert logical.session.sql_mode == session.sql_mode
            if table is not None and logical.table is not None:
                table = applied(table, sql, session if logical.own else writing_session(session))
        assert logical.table is None or table == logical.table
    assert decided in [sql for logical in outcome.logical for sql in logical.statements] + [""]
    return outcome


def columns(outcome: Outcome) -> dict[str, str | None]:
    assert outcome.table is not None
    return {c.name: c.default.text if c.default is not None else None for c in outcome.table.columns}


@WAYS
@PAIRS
def test_shards_of_different_sessions_run_the_same(way: str, first: DdlSession, second: DdlSession) -> None:
    made = cluster(TABLE, "n1.t1", "n2.t2")
    made.run("n1", adding("t1", first), first)
    made.run("n2", adding("t2", second), second)
    outcome = check(made, way)
    assert outcome.stop is None
    assert not outcome.open
    assert len(outcome.logical) == 1
    assert columns(outcome)["note"] == NOTE


@WAYS
@PAIRS
def test_what_waits_is_written_when_an_event_of_another_session_ends_the_wait(
    way: str, first: DdlSession, second: DdlSession
) -> None:
    for change in ("MODIFY a VARCHAR(60) DEFAULT {}", "CHANGE a b VARCHAR(60) DEFAULT {}"):
        made = cluster(TABLE, "n1.t1", "n2.t2")
        made.run("n1", f"ALTER TABLE {named('t1', first)} {change.format(said(NOTE, first))}", first)
        made.run("n1", adding("t1", second, "more"), second)
        made.run("n2", f"DROP TABLE {named('t2', second)}", second)
        outcome = check(made, way)
        assert outcome.stop is None


@WAYS
@PAIRS
def test_a_shard_counts_as_having_run_what_another_session_wrote(
    way: str, first: DdlSession, second: DdlSession
) -> None:
    made = cluster(TABLE, "n1.t1", "n2.t2")
    made.run("n1", f"ALTER TABLE {named('t1', first)} MODIFY a VARCHAR(60) DEFAULT {said(NOTE, first)}", first)
    made.run("n1", adding("t1", second, "more"), second)
    made.decide(way, "as-if-done", shard="t2")
    outcome = check(made, way)
    assert outcome.stop is None
    assert columns(outcome)["a"] == NOTE


@WAYS
@pytest.mark.parametrize("session", MODES)
def test_an_operator_writes_in_a_session_of_his_own(way: str, session: DdlSession) -> None:
    made = cluster(TABLE, "n1.t1", "n2.t2")
    made.run("n1", f"ALTER TABLE {named('t1', session)} MODIFY a VARCHAR(60) DEFAULT {said(NOTE, session)}", session)
    text = r'ALTER TABLE shop.t MODIFY a VARCHAR(60) DEFAULT "it\'s"'
    made.decide(way, "emit", text)
    outcome = check(made, way, text)
    assert outcome.stop is None
    assert columns(outcome)["a"] == "it's"


@pytest.mark.parametrize("session", MODES)
def test_events_under_another_name_keep_their_text_in_their_session(session: DdlSession) -> None:
    made = cluster(TABLE, "n1.t1")
    made.run(
        "n2",
        f"CREATE TABLE {named('t2', session)} (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT {said('x', session)})",
        session,
    )
    made.run("n1", f"ALTER TABLE {named('t1', session)} MODIFY a VARCHAR(9) DEFAULT {said('x', session)}", session)
    for event in made.events[LOGICAL]:
        moved = event_under(event, LOGICAL, ("shop", "u"))
        assert "`shop`.`u`" in moved.sql, moved  # type: ignore[union-attr]
    for logical in made.outcome("optimistic").logical:
        moved_ddl = logical_under(logical, LOGICAL, ("shop", "u"))
        assert all("`shop`.`u`" in sql for sql in moved_ddl.statements), moved_ddl


def test_one_text_is_two_statements_in_two_sessions() -> None:
    made = cluster("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "n1.t1", "n2.t2")
    sql = 'ALTER TABLE {} ADD CHECK (b <> "a")'
    made.run("n1", sql.format("t1"), MODES[0])
    made.run("n2", sql.format("t2"), MODES[1])
    first, second = (event for event in made.events[LOGICAL] if isinstance(event, ShardDdl))
    assert first.sql == second.sql
    assert not same_ddl(first, second)
    assert same_ddl(first, first)


def test_a_backslash_does_not_hide_the_end_of_a_string() -> None:
    session = DdlSession(sql_mode=NO_BACKSLASH_ESCAPES)
    a, b = (rf"ALTER TABLE t ADD x CHAR(1) DEFAULT '\', ADD y CHAR(2) DEFAULT '{text}'" for text in ("Ab", "aB"))
    assert plain(a, session) != plain(b, session)
    assert plain(a.replace("ADD", "add"), session) == plain(a, session)


def test_the_sessions_of_all_events_are_kept() -> None:
    made = cluster(TABLE, "n1.t1")
    session = MODES[3]
    for node, sql in (
        ("n2", f"CREATE TABLE {named('t2', session)} (id INT PRIMARY KEY, a INT)"),
        ("n1", adding("t1", session)),
        ("n1", "TRUNCATE TABLE t1"),
        ("n1", "DROP TABLE t1"),
    ):
        made.run(node, sql, session)
    events: list[tuple[tuple[str, str], ShardEvent]] = [(LOGICAL, event) for event in made.events[LOGICAL]]  # type: ignore[misc]
    read = log_from_json(log_to_json(ShardLog(events=events))).events
    assert [event for _, event in read] == [event for _, event in events]
    assert [event.session for _, event in read] == [session] * 4  # type: ignore[union-attr]
