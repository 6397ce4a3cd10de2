"""Tables of which a warning was given, followed through the DDL that comes out."""

import pytest

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.ddl import Doubted, Placed, Warned, passed_on
from binlog_merge.pipeline.coordinate.shards.values import LAST, Name
from snapshot_store.mysql.sql.session import ANSI_QUOTES, DdlSession
from snapshot_store.tso import OrderKey

SWAP = "RENAME TABLE x.a TO x.z, x.b TO x.a, x.z TO x.b"
EXCHANGE = "ALTER TABLE x.w EXCHANGE PARTITION p WITH TABLE x.a"


def at(moment: int) -> OrderKey:
    return OrderKey(moment, 0, 0, 1)


def ddl(*statements: str) -> list[Placed]:
    """Return statements at the moments 1, 2, …"""
    return [Placed(DdlPlace(at(i)), "x", "a", sql, None) for i, sql in enumerate(statements, 1)]


def session(ddl: Placed) -> DdlSession:
    """Return the session of a statement: names are in double quotes where it has any."""
    return DdlSession(sql_mode=ANSI_QUOTES if '"' in ddl.sql else 0)


def warned(moment: int, *tables: str) -> Warned:
    return Warned(at(moment), tuple(name(table) for table in tables), f"log:{moment}")


def name(text: str) -> Name:
    schema, _, table = text.rpartition(".")
    return schema or "x", table


@pytest.mark.parametrize(
    ("statements", "passed", "doubted"),
    [
        (["RENAME TABLE x.a TO y.b"], ["a > y.b"], {"y.b"}),
        (["RENAME TABLE x.c TO x.d"], [], {"a"}),
        (['RENAME TABLE "x"."a" TO "x"."b"'], ["a > b"], {"b"}),
        ([SWAP], ["a > b"], {"b"}),
        ([SWAP, SWAP], ["a > b", "b > a"], {"a"}),
        (["RENAME TABLE x.a TO x.old, x.new TO x.a"], ["a > old"], {"old"}),
        (["ALTER TABLE x.a ADD c INT, RENAME TO x.b"], ["a > b"], {"b"}),
        ([EXCHANGE], ["a > w"], {"a", "w"}),
        ([EXCHANGE, EXCHANGE], ["a > w"], {"a", "w"}),
        ([EXCHANGE, "DROP TABLE x.a", "RENAME TABLE x.w TO x.a"], ["a > w", "w > a"], {"a"}),
        (["TRUNCATE TABLE x.a", SWAP], [], set()),
        (["ALTER TABLE x.a TRUNCATE PARTITION p", SWAP], ["a > b"], {"b"}),
        (["DROP TABLE x.b, x.a", SWAP], [], set()),
        (["DROP DATABASE x", SWAP], [], set()),
        (["CREATE TABLE x.b LIKE x.a", "CREATE TABLE x.c (a INT)", "no statement"], [], {"a"}),
    ],
)
def test_what_becomes_of_a_table_in_doubt(statements: list[str], passed: list[str], doubted: set[str]) -> None:
    left, found = passed_on({}, [warned(0, "a")], ddl(*statements), LAST, session)
    short = [f"{one.old[1]} > {'.'.join(one.new).removeprefix('x.')}" for one in found]
    assert (short, set(left)) == (passed, {name(text) for text in doubted})
    assert {one.where for one in found} | set(left.values()) <= {"log:0"}


def test_tables_are_called_as_they_are_behind_the_statement() -> None:
    renamed = ddl("RENAME TABLE x.a TO x.b")
    assert passed_on({}, [warned(1, "b")], renamed, LAST, session) == ({("x", "b"): "log:1"}, ())
    assert passed_on({}, [warned(1, "a")], renamed, LAST, session) == ({("x", "a"): "log:1"}, ())


def test_what_was_said_first_counts() -> None:
    assert passed_on({}, [warned(1, "a"), warned(2, "a", "b")], [], LAST, session)[0] == {
        ("x", "a"): "log:1",
        ("x", "b"): "log:2",
    }


def test_a_run_that_ends_anywhere_makes_no_difference() -> None:
    told, statements = [warned(0, "a"), warned(3, "c")], ddl(SWAP, EXCHANGE, "RENAME TABLE x.b TO x.a", EXCHANGE)
    whole = passed_on({}, told, statements, LAST, session)
    for moment in range(6):
        doubted: Doubted
        doubted, before = passed_on({}, told, statements, at(moment), session)
        later = (
            [one for one in told if one.key >= at(moment)],
            [one for one in statements if one.place.key >= at(moment)],
        )
        doubted, behind = passed_on(doubted, *later, LAST, session)
        assert (doubted, (*before, *behind)) == whole
