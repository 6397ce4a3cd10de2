"""Which statements in statement format surely write only what is left out: by their text, and what a server lists."""

from collections.abc import Sequence

import pytest

from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.pipeline.scan.statements import left_out
from snapshot_store.mysql.sql.session import ANSI_QUOTES
from snapshot_store.topology import SYSTEM_SCHEMAS, Topology

TOPOLOGY = Topology(ignored=SYSTEM_SCHEMAS | {"idle", "percona"})


def query(text: str, database: str = "", opened: Sequence[str] | None = None, sql_mode: int = 0) -> Query:
    """Return a statement; `opened` are the databases that the server lists: a list that is too long is none."""
    variables: dict[StatusVar, object] = {StatusVar.Q_SQL_MODE_CODE: sql_mode}
    if opened is not None:
        variables[StatusVar.Q_UPDATED_DB_NAMES] = [name.encode() for name in opened]
    return Query(1, 0, 0, database.encode(), text.encode(), status_vars=variables)


@pytest.mark.parametrize(
    ("text", "database", "opened", "kind"),
    [
        ("INSERT INTO idle.beat VALUES (1)", "app", ["idle"], "INSERT"),
        ("CALL idle.p()", "app", ["idle"], "CALL"),
        ("CALL idle.p()", "app", ["idle", "app"], None),
        ("CALL idle.p()", "app", None, None),
        ("INSERT INTO idle.beat VALUES (1)", "app", None, "INSERT"),
        ("INSERT INTO beat VALUES (1)", "idle", None, "INSERT"),
        ("INSERT INTO beat VALUES (1)", "app", None, None),
        ("INSERT INTO beat VALUES (1)", "app", ["app"], None),
        ("INSERT INTO idle.beat SELECT * FROM t", "app", ["idle", "app"], "INSERT"),
        ("INSERT INTO idle.beat SELECT * FROM t", "app", ["idle", "shop"], None),
        ("INSERT INTO idle.beat SELECT * FROM App.t", "", ["idle", "app"], "INSERT"),
        ("INSERT INTO idle.beat SELECT * FROM app.t", "", ["idle", "App"], "INSERT"),
        ("INSERT INTO idle.beat VALUES (1)", "app", ["idle", "app"], None),
        ("UPDATE idle.beat a JOIN app.t b SET b.v = 1", "", ["idle", "app"], None),
        ("UPDATE idle.beat a JOIN app.t b SET b.v = 1", "", None, None),
    ],
)
def test_what_is_left_out(text: str, database: str, opened: Sequence[str] | None, kind: str | None) -> None:
    assert left_out(query(text, database, opened), TOPOLOGY) == kind


def test_the_session_decides_what_a_name_is() -> None:
    text = 'INSERT INTO "idle"."beat" VALUES (1)'
    assert left_out(query(text, "app", sql_mode=ANSI_QUOTES), TOPOLOGY) == "INSERT"
    assert left_out(query(text, "app"), TOPOLOGY) is None


def test_what_is_no_text_is_not_left_out() -> None:
    statement = Query(1, 0, 0, b"idle", b"INSERT INTO beat VALUES ('\xff')", status_vars={})
    assert left_out(statement, TOPOLOGY) is None
