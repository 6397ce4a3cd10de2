"""A statement is read in its client's character set, and means what its session makes of it."""

import struct

from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import session_of
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
