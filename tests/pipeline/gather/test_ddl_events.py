"""The events of a DDL, of one that only PolarDB-X knows, and of a transaction's order key behind XID; as servers take
them.
"""

import contextlib
import random
import socket
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import DictCursor

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import parse_event, walk
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.pipeline.base.render_values import CtsPlace, FileHead, LogicalDdl
from binlog_merge.pipeline.gather.renderer import heartbeat, pack_ddl, pack_head
from binlog_merge.polardbx.ddl.comments import PolarxComment
from snapshot_store.tso import OrderKey
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog

SECOND = 1_700_000_000
KEY = OrderKey(7507804164223664192, 1234567, 0, 0)
COMMENT = PolarxComment("ALTER TABLE t dbpartition by hash(a)", KEY).text()


def head(cts: CtsPlace = "begin", *, anonymous: bool = False, number: int = 1) -> FileHead:
    return FileHead(9001, "9.7.4", 90704, uuid.UUID(int=number).bytes, anonymous, cts)


def ddl(sql: str, text: str | None = None, *, rows_query: bool = False, server_id: int | None = None) -> LogicalDdl:
    about_schema = "DATABASE" in sql
    return LogicalDdl(
        KEY, "shop", sql, SessionVariables(), about_schema, text, server_id=server_id, rows_query=rows_query
    )


def log(top: FileHead, ddls: list[LogicalDdl]) -> bytes:
    """Return a binlog file of these DDLs."""
    data = pack_head(top, SECOND, 0)
    for rank, one in enumerate(ddls, start=1):
        events, _ = pack_ddl(top, one, rank=rank, sequence=rank, commit_us=SECOND * 1_000_000, position=len(data))
        data += events
    return data


def events_of(one: LogicalDdl, cts: CtsPlace = "begin") -> list[tuple[str, str, int]]:
    """Return (type, text, server id) of a DDL's events behind its GTID; checksums and positions are checked."""
    data = log(head(cts), [one])
    found = []
    for event in walk(data[4:], checksum=True, offset=4):
        assert event.header.log_pos == event.offset + event.header.event_size
        text = ""
        if event.type_code == EventType.QUERY_EVENT:
            text = Query.parse(event.body).text
        elif event.type_code == EventType.ROWS_QUERY_LOG_EVENT:
            text = bytes(event.body[1:]).decode()
        found.append((EventType(event.type_code).name, text, event.header.server_id))
    _, packed = pack_ddl(head(cts), one, rank=1, sequence=1, commit_us=SECOND * 1_000_000, position=4)
    assert len(found) == 2 + packed
    return found[3:]


def named(events: list[tuple[str, str, int]]) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text, _ in events]


def test_a_ddl_is_one_query_with_its_comment_lines() -> None:
    text = COMMENT + "CREATE TABLE t (a int)"
    assert named(events_of(ddl("CREATE TABLE t (a int)", text))) == [("QUERY_EVENT", text)]
    assert named(events_of(ddl("CREATE TABLE t (a int)"))) == [("QUERY_EVENT", "CREATE TABLE t (a int)")]


def test_one_that_only_polardbx_knows_stands_in_a_transaction_without_rows() -> None:
    cts = f"# CTS::{KEY.text()}"
    begin, end = ("QUERY_EVENT", "BEGIN"), ("XID_EVENT", "")
    middle = [("ROWS_QUERY_LOG_EVENT", cts), ("QUERY_EVENT", COMMENT)]
    assert named(events_of(ddl("", COMMENT))) == [begin, *middle, end]
    one = ("ROWS_QUERY_LOG_EVENT", f"{cts}\n{COMMENT}")
    assert named(events_of(ddl("", COMMENT, rows_query=True))) == [begin, one, end]


def test_the_order_key_can_stand_at_the_end() -> None:
    mark = ("ROWS_QUERY_LOG_EVENT", f"CTS::{KEY.text()}")
    assert named(events_of(ddl("DROP TABLE t"), "end")) == [("QUERY_EVENT", "DROP TABLE t"), mark]
    private = named(events_of(ddl("", COMMENT, rows_query=True), "end"))
    assert private == [("QUERY_EVENT", "BEGIN"), ("ROWS_QUERY_LOG_EVENT", COMMENT), ("XID_EVENT", ""), mark]
    assert len(events_of(ddl("", COMMENT), "both")) == 5


def test_the_server_that_ran_it_is_named() -> None:
    assert {server for _, _, server in events_of(ddl("", COMMENT, server_id=77), "both")} == {77}
    assert {server for _, _, server in events_of(ddl("DROP TABLE t"))} == {9001}


def test_long_and_strange_texts_keep_their_length_byte_in_range() -> None:
    long = PolarxComment("CREATE TABLEGROUP " + "\u8868" * 70_000, KEY).text()
    [(_, text)] = [e for e in named(events_of(ddl("", long, rows_query=True))) if e[0] == "ROWS_QUERY_LOG_EVENT"]
    assert text.endswith(long)


# A key behind XID is no part of a transaction: MySQL 9.7 as a replica frees that event twice, and crashes.
FOR_REPLICAS: list[tuple[CtsPlace, bool]] = [("begin", False), ("begin", True)]
VARIANTS: list[tuple[CtsPlace, bool]] = [*FOR_REPLICAS, ("end", False), ("both", True)]


def variant(number: int) -> bytes:
    """Return a file that makes database d<number> with two tables; between them are private DDL, one in a database that
    is not there, and a heartbeat.
    """
    cts, rows_query = VARIANTS[number]
    schema = f"d{number}"
    statements = [
        ddl(f"CREATE DATABASE {schema}"),
        ddl(f"CREATE TABLE {schema}.t (a int)", f"{COMMENT}CREATE TABLE {schema}.t (a int)"),
        ddl("", COMMENT, rows_query=rows_query),
        ddl(f"ALTER TABLE {schema}.t", f"{COMMENT}ALTER TABLE {schema}.t"),
        ddl("", COMMENT, rows_query=rows_query),
        ddl(f"CREATE TABLE {schema}.u (a int)"),
    ]
    made = [LogicalDdl(d.key, "", d.sql, SessionVariables(), True, d.text, None, d.rows_query) for d in statements]
    made[3:3] = [replace(made[2], schema="polardbx"), heartbeat(made[2].key)]
    return log(head(cts, number=number + 1), made)


@pytest.mark.mysql
def test_mysqlbinlog_and_a_client_apply_every_form(mysql_server: MySqlServer, tmp_path: Path) -> None:
    for number in range(len(VARIANTS)):
        path = tmp_path / f"binlog.{number + 1:06d}"
        path.write_bytes(variant(number))
        mysql_server.apply(mysqlbinlog([path], "--verify-binlog-checksum"))
        assert [t for (t,) in mysql_server.query("SHOW TABLES", f"d{number}")] == ["t", "u"]
    executed = str(mysql_server.query("SELECT @@GLOBAL.gtid_executed")[0][0])
    assert executed.count(":1-8") == len(VARIANTS)


@pytest.mark.extended  # by clients: above; replicas of logs with DDL: binlog_server/test_replica
@pytest.mark.mysql
def test_a_replica_applies_what_is_for_replicas(mysql_server: MySqlServer, tmp_path: Path) -> None:
    with MySqlServer(tmp_path / "source", server_id=9001, port=_free_port()) as source:
        source.execute("CREATE USER repl; GRANT REPLICATION SLAVE ON *.* TO repl")
        source.stop()
        names = [f"binlog.{number + 1:06d}" for number in range(len(FOR_REPLICAS))]
        for number, name in enumerate(names):
            (source.data / name).write_bytes(variant(number))
        (source.data / "binlog.index").write_text("".join(f"./{name}\n" for name in names))
        source.start()
        try:
            mysql_server.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port}, SOURCE_USER='repl', "
                "GET_SOURCE_PUBLIC_KEY=1, SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4; START REPLICA"
            )
            last = f"d{len(FOR_REPLICAS) - 1}"
            for _ in range(3000):  # far longer than it takes
                status = _replica_status(mysql_server)
                assert not (status["Last_SQL_Error"] or status["Last_IO_Error"])
                if mysql_server.query(
                    f"SELECT 1 FROM information_schema.tables WHERE table_schema='{last}' LIMIT 1, 1"
                ):
                    break
                time.sleep(0.1)
            for number in range(len(FOR_REPLICAS)):
                assert [t for (t,) in mysql_server.query("SHOW TABLES", f"d{number}")] == ["t", "u"]
        finally:
            mysql_server.execute("STOP REPLICA; RESET REPLICA ALL")


def _free_port() -> int:
    """Return a port that is free and stays so: connections that go out take theirs from 32768 on."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("none of a hundred ports is free")


def _replica_status(server: MySqlServer) -> dict[str, Any]:
    connection = server.connect()
    try:
        with connection.cursor(DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            return dict(cursor.fetchone() or {})
    finally:
        connection.close()


@pytest.mark.mysql
@pytest.mark.parametrize("cts", ["end", "both"])
def test_transactions_with_the_key_behind_xid_are_the_same_but_for_it(
    cts: CtsPlace, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    case = case_named("two-nodes")
    plain = copy_case(case, tmp_path / "plain")
    marked = copy_case(case, tmp_path / "marked", lambda values: values["output"].update(cts=cts))
    assert not any("replica" in warning for warning in merge(plain, tmp_path / "a").warnings)
    result = merge(marked, tmp_path / "b")
    assert any("MySQL 9.7 as a replica crashes" in warning for warning in result.warnings)
    (before,), (after,) = written(tmp_path / "a").values(), written(tmp_path / "b").values()
    assert _transactions(after, cts) == _transactions(before, "begin")
    text = mysqlbinlog([tmp_path / "b" / "binlog.000001"], "--verify-binlog-checksum")
    mysql_server.apply((case / "base" / "logical.sql").read_bytes())
    mysql_server.apply(text)
    assert result.transactions - result.ddl == len(_transactions(after, cts))


def _transactions(data: bytes, cts: CtsPlace) -> list[tuple[str, list[tuple[int, bytes]]]]:
    """Return (order key, events) of each transaction; keys where `cts` says, and nowhere else."""
    found: list[tuple[str, list[tuple[int, bytes]]]] = []
    for event in walk(data[4:], checksum=True, offset=4):
        assert event.header.log_pos == event.offset + event.header.event_size
        parse_event(event, None)
        kind, body = event.type_code, bytes(event.body)
        if kind in (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT):
            found.append(("", []))
        elif kind == EventType.ROWS_QUERY_LOG_EVENT:
            text, (key, events) = body[1:].decode(), found[-1]
            assert body[0] == len(text)
            ends = text.startswith("CTS::")
            assert ends or text.startswith("# CTS::")
            assert cts == "both" or ends == (cts == "end")
            assert key in ("", text[-54:])
            found[-1] = (text[-54:], events)
        elif found:
            found[-1][1].append((kind, body))
    return [(key, events) for key, events in found if len(events) > 1]  # no DDL
