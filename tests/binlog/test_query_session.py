"""A statement is read in its client's character set, and means what its session makes of it."""

import struct

import pytest

from binlog_merge.binlog.query import Query, StatusVar, parse_status_vars
from binlog_merge.binlog.query_session import SessionVariables, session_of, with_databases
from binlog_merge.streams.mariadb.events import clamped
from snapshot_store.ddl import apply_ddl, parse_dump

GBK, LATIN1, UTF8MB4 = 28, 8, 255


def event(sql: bytes, client: int, more: bytes = b"") -> Query:
    """Return a QUERY event as a server writes it: character sets of client, connection and server."""
    status = struct.pack("<BHHH", 4, client, client, UTF8MB4) + more
    return Query.parse(Query(1, 0, 0, b"shop", sql, status).pack())


def test_a_gbk_clients_names_and_literals_are_what_it_wrote() -> None:
    query = event("CREATE TABLE 订单 (名称 VARCHAR(9) DEFAULT '无' COMMENT '誠')".encode("gbk"), GBK)
    assert query.text.startswith("CREATE TABLE 订单 (名称")
    after = apply_ddl(parse_dump("CREATE DATABASE shop"), query.text, "shop", session_of(query)).catalog
    column = after.table("shop", "订单").columns[0]
    assert (column.name, column.comment) == ("名称", "誠")
    assert session_of(query).charset_connection == "gbk"


def test_bytes_that_are_no_text_come_back_as_they_were() -> None:
    query = event(b"CREATE TABLE `\xff\xfe` (a INT)", UTF8MB4)
    assert query.text.encode("utf-8", "surrogateescape") == query.query


def test_the_first_timestamp_is_what_the_session_says() -> None:
    sql = "CREATE TABLE t (a TIMESTAMP)"
    found = {}
    for explicit in (0, 1):
        session = session_of(event(sql.encode(), LATIN1, struct.pack("<BB", 16, explicit)), 50744)
        table = apply_ddl(parse_dump("CREATE DATABASE shop"), sql, "shop", session).catalog.table("shop", "t")
        found[explicit] = table.columns[0].nullable
    assert found == {0: False, 1: True}


MANY = [f"d{number}" for number in range(17)]


@pytest.mark.parametrize(
    ("databases", "written"),
    [
        ((), None),
        (("shop",), b"\x0c\x01shop\0"),
        (("d9", "d10", "d1"), b"\x0c\x03d9\0d10\0d1\0"),
        (("two", "日本", "shop"), b"\x0c\x03\xe6\x97\xa5\xe6\x9c\xac\0two\0shop\0"),
        (MANY[:16], b"\x0c\x10" + b"".join(name.encode() + b"\0" for name in sorted(MANY[:16], reverse=True))),
        (MANY, b"\x0c\xfe"),
    ],
    ids=["none", "one", "numbers", "utf8", "most", "too-many"],
)
def test_databases_are_listed_as_a_server_lists_them(databases: tuple[str, ...], written: bytes | None) -> None:
    """As seen in the binlogs of a 9.7: the last name first, of more than 16 none; before the microseconds."""
    session = SessionVariables(invoker_user="root", microseconds=5, atomic=True)
    raw, without = session.status_vars(7, databases), session.status_vars(7)
    if written is None:
        assert raw == without
        return
    at = raw.index(written)
    assert raw[:at] + raw[at + len(written) :] == without
    assert raw[at + len(written)] == StatusVar.Q_MICROSECONDS
    assert clamped(raw) == clamped(without), "MariaDB does not know the list"


def test_another_list_takes_the_place_of_one_that_is_there() -> None:
    """As of a statement of which a stream has a part."""
    session = SessionVariables(microseconds=5, atomic=True)
    query = Query(1, 0, 0, b"", b"DROP TABLE a.t", session.status_vars(7, ("a", "b")))
    assert with_databases(query, {"a"}).status_raw == session.status_vars(7, ("a",))
    found, unknown = parse_status_vars(with_databases(query, {"a"}).status_raw)
    assert found[StatusVar.Q_UPDATED_DB_NAMES] == (b"a",) and not unknown
    none = Query(1, 0, 0, b"", b"DROP TABLE a.t", session.status_vars(7))
    assert with_databases(none, {"a"}) == none, "a log of an earlier build"
