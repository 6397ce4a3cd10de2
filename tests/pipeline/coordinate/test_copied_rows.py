"""How many rows a table and its copy have, read from a server's binlog: what the server counts, or nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.query import Query
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.yaml import parse_yaml
from binlog_merge.files.directory import discover
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.coordinate import row_counts as counting
from binlog_merge.pipeline.coordinate.row_counts import copied_rows, rows_at
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

MADE = (
    "CREATE DATABASE a; CREATE TABLE a.t (id INT PRIMARY KEY, v VARCHAR(900)) PARTITION BY RANGE (id) "
    "(PARTITION p VALUES LESS THAN (100), PARTITION q VALUES LESS THAN (MAXVALUE)); CREATE TABLE a.u LIKE a.t; "
    "CREATE TABLE a.s (id INT PRIMARY KEY, v VARCHAR(900)); INSERT INTO a.t VALUES (1, 'a'), (2, 'b'), (3, 'c')"
)
COUNTED = {
    "as they are": "INSERT INTO a.u SELECT * FROM a.t WHERE id > 1",
    "deleted": "DELETE FROM a.t WHERE id < 3; INSERT INTO a.u VALUES (9, 'x'); REPLACE INTO a.u VALUES (9, 'y')",
    "updated": "UPDATE a.t SET id = id + 10; INSERT IGNORE INTO a.u SELECT * FROM a.t",
    "emptied": "INSERT INTO a.u SELECT * FROM a.t; TRUNCATE TABLE a.u; INSERT INTO a.u VALUES (7, NULL)",
    "in transactions": "BEGIN; INSERT INTO a.u VALUES (5, 'x'); SAVEPOINT s; DELETE FROM a.t; ROLLBACK TO s; COMMIT",
    "compressed": "SET binlog_transaction_compression = ON; INSERT INTO a.u SELECT id + 50, REPEAT('x', 900) FROM a.t",
    "in several files": "INSERT INTO a.u SELECT * FROM a.t; FLUSH BINARY LOGS; DELETE FROM a.u WHERE id = 1",
    "renamed": "RENAME TABLE a.t TO a.x, a.u TO a.t, a.x TO a.u; INSERT INTO a.t VALUES (70, 'z')",
    "altered": "ALTER TABLE a.u ADD COLUMN w INT, ADD KEY (v(9)); INSERT INTO a.u (id) VALUES (1), (2)",
    "made again": "INSERT INTO a.u VALUES (1, 'x'); DROP TABLE a.u; CREATE TABLE a.u LIKE a.t",
}
UNKNOWN = {
    "a partition is emptied": "ALTER TABLE a.t TRUNCATE PARTITION p",
    "a partition is dropped": "ALTER TABLE a.u DROP PARTITION p",
    "a partition is exchanged": "ALTER TABLE a.t EXCHANGE PARTITION p WITH TABLE a.s",
    "a branch is prepared": "XA START 'x'; INSERT INTO a.u VALUES (1, 'x'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'",
}


def counted(server: MySqlServer, story: str) -> tuple[int, int] | None:
    """Return what is counted at the end of the server's binlog."""
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(f"{MADE}; {story}")
    node = node_of(server)
    last = node.files[-1]
    return copied_rows(node, last.path, last.size, ("a", "t"), ("a", "u"), lambda schema, table: (schema, table))


def node_of(server: MySqlServer) -> NodeInput:
    text = f"version: 1\nname: c\nnodes: [{{source-id: n, files: ['{server.data}/binlog.0*']}}]"
    config = MergeConfig.from_document(parse_yaml(text, "cluster.yaml"), Path(), "cluster.yaml")
    return NodeInput("n", 1, discover(config).nodes["n"], 0, Carry(), None, NodeGtids())


@pytest.mark.parametrize("name", COUNTED)
def test_they_are_those_of_the_server(name: str, mysql_server: MySqlServer) -> None:
    found = counted(mysql_server, COUNTED[name])
    assert found == mysql_server.query("SELECT (SELECT COUNT(*) FROM a.t), (SELECT COUNT(*) FROM a.u)")[0]


def test_rows_that_a_truncate_has_removed_may_still_be_in_the_output(mysql_server: MySqlServer) -> None:
    """Also under another name; a table that was empty when it was truncated has had none."""
    full = "INSERT INTO a.u VALUES (1, 'x'); TRUNCATE TABLE a.u"
    for story, name, rows in (
        ("TRUNCATE TABLE a.u; INSERT INTO a.u VALUES (1, 'x')", "u", 1),
        ("INSERT INTO a.u VALUES (1, 'x'); DELETE FROM a.u", "u", 0),
        (full, "u", None),
        (f"{full}; RENAME TABLE a.u TO a.w", "w", None),
        (f"{full}; RENAME TABLE a.u TO a.w", "t", 3),
    ):
        mysql_server.execute(f"DROP DATABASE IF EXISTS a; RESET BINARY LOGS AND GTIDS; {MADE}; {story}")
        node = node_of(mysql_server)
        last = node.files[-1]
        assert rows_at(node, last.path, last.size, ("a", name), lambda schema, table: (schema, table)) == rows, story


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_no_event_tells_is_unknown(name: str, mysql_server: MySqlServer) -> None:
    assert counted(mysql_server, UNKNOWN[name]) is None


def test_a_table_that_is_dropped_for_its_copy_counts_as_it_was(mysql_server: MySqlServer) -> None:
    assert counted(mysql_server, "INSERT INTO a.u SELECT * FROM a.t WHERE id = 1; DROP TABLE a.t") == (3, 1)


def test_a_long_log_is_not_read_again(mysql_server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_BYTES", 700)
    assert counted(mysql_server, COUNTED["as they are"]) is None


def test_rows_that_are_rolled_back_do_not_count(mysql_server: MySqlServer) -> None:
    """As a transaction with tables that know no transactions may end: the last one's XID is a ROLLBACK here."""
    mysql_server.execute(f"RESET BINARY LOGS AND GTIDS; {MADE}; DELETE FROM a.t WHERE id = 2")
    (file,) = node_of(mysql_server).files
    events = list(counting._events(file, file.size))
    end = events[-1]
    assert end.type_code == EventType.XID_EVENT
    body = Query(1, 0, 0, b"a", b"ROLLBACK").pack()
    rolled_back = replace(end, header=replace(end.header, type_code=EventType.QUERY_EVENT), body=body)
    commit = replace(rolled_back, body=Query(1, 0, 0, b"a", b"COMMIT").pack())
    for last, rows in (([end], 2), ([commit], 2), ([rolled_back, commit], 3)):
        tables = counting._Tables(lambda schema, table: (schema, table))
        for event in [*events[:-1], *last]:
            tables.take(event, file)
        assert tables.rows["a", "t"] == rows
