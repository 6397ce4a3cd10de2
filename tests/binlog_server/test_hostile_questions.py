"""Questions about definitions that are meant to exhaust the server: memory, disk, the interpreter's stack."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pymysql
import pytest

from binlog_merge.binlog_server import in_memory, questions
from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.packets import ErrorCode
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import DdlSession
from tests.binlog_server.merged import merged
from tests.binlog_server.running import Running, serving

COLUMNS = "information_schema.columns"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(merged("three-nodes-online-ddl")) as running:
        yield running


def crossed(items: str, times: int) -> str:
    """Return a SELECT from so many copies of a table."""
    return f"SELECT {items} FROM " + ", ".join(f"{COLUMNS} t{number}" for number in range(times))


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT " + "-" * 400 + f"1 FROM {COLUMNS}", ErrorCode.ER_STACK_OVERRUN_NEED_MORE),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000 + f" FROM {COLUMNS}", ErrorCode.ER_PARSE_ERROR),
        (
            crossed(f"DISTINCT CONCAT({', '.join(f't{number}.column_name' for number in range(9))})", 9),
            ErrorCode.ER_OUT_OF_RESOURCES,
        ),
        (crossed("*", 2), ErrorCode.ER_OUT_OF_RESOURCES),
    ],
    ids=["signs", "parentheses", "memory", "rows"],
)
def test_it_ends_in_an_error_and_leaves_nothing(
    sql: str, code: int, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(in_memory, "_MOST_HELD", 1 << 20)
    with running.connect() as connection, connection.cursor() as cursor:
        with pytest.raises(pymysql.MySQLError) as caught:
            cursor.execute(sql)
        assert caught.value.args[0] == code
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == ((1,),)
    assert not list(tmp_path.iterdir()), "DuckDB would go on on the disk"


def test_a_large_result_keeps_its_place_for_as_long_as_it_is_held() -> None:
    nothing = Definitions({}, {})
    sql = "SELECT schema_name FROM information_schema.schemata"

    def select() -> list[tuple[Any, ...]]:
        return questions.select(Cursor.of(sql, DdlSession()), nothing, None)[1]

    with mock.patch.multiple(in_memory, _PLACES=in_memory.places(1), _WAIT=0.01, _LARGE=0):
        rows = select()
        assert rows[0] == ("information_schema",)
        with pytest.raises(Refused) as caught:
            select()
        assert "at once" in caught.value.answer.message
        del rows
        for _ in range(3):
            assert select()
    with mock.patch.multiple(in_memory, _PLACES=in_memory.places(1), _WAIT=0.01):
        held = [select() for _ in range(3)]
    assert len(held) == 3, "a small one keeps none"
