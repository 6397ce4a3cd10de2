"""A MySQL server as the target of a bootstrap, step by step: a kill between two steps, keys that only collate alike."""

from typing import Any

import pytest

from binlog_merge.bootstrap import run
from binlog_merge.bootstrap.mysql_server import MysqlServer
from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.parties import Options
from binlog_merge.bootstrap.values import COPYING, Chunk, Identity, Name, Progress, Reading, Shard, Stage
from binlog_merge.errors import ReplayStopped
from binlog_merge.files.failpoint import VARIABLE, FailpointReached
from binlog_merge.log.log import Log
from binlog_merge.targets.server.mysql import MysqlTarget
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table
from snapshot_store.server import ServerAddress
from tests.binlog_server.merged import merged
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

BODY = "(a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, b INT)"
CATALOG = parse_dump(f"CREATE DATABASE bank; USE bank; CREATE TABLE t {BODY};")
NAME = ("bank", "t")
READING = Reading(CATALOG.table(*NAME), CATALOG.table(*NAME).columns, (0,))
FIRST, SECOND = Shard("dn", "bank_0", "t"), Shard("dn", "bank_1", "t")


def _chunk(shard: Shard, key: str) -> Chunk:
    text = key.encode().hex()
    return Chunk(shard, READING, [(text, "1", text)], (text,), True)


def _begun(target: MysqlServer) -> Stage:
    stage = Stage(COPYING, 1, 7, (NAME,), {"dn": Identity("a", 0)})
    target.begin(stage, CATALOG, Log(merged("two-nodes")), stage.tables)
    assert target.insert(_chunk(FIRST, "x"), Progress(("78",), True, 1), replace=False) == []
    return stage


def _target(server: MySqlServer) -> MysqlServer:
    cluster = Log(merged("two-nodes")).cluster_uuid
    return MysqlServer(MysqlTarget(ServerAddress(socket=server.socket), cluster))


def test_what_is_emptied_is_not_believed_to_be_copied(mysql_server: MySqlServer, monkeypatch: Any) -> None:
    """The round begins anew, as another server has the node; a kill; the first server has it again."""
    with _target(mysql_server) as target:
        stage = _begun(target)
        monkeypatch.setenv(VARIABLE, "bootstrap-tables:raise")
        with pytest.raises(FailpointReached):
            target.begin_round(Stage(COPYING, 1, 7, (NAME,), {"dn": Identity("b", 0)}), CATALOG)
        monkeypatch.delenv(VARIABLE)
    with _target(mysql_server) as target:
        assert target.stage() == stage
        assert mysql_server.query("SELECT COUNT(*) FROM bank.t") == [(0,)]
        assert target.progress() == {}


class _Node:
    name = "dn"

    def __init__(self, server: MySqlServer) -> None:
        self.address = ServerAddress(socket=server.socket)

    def reader(self, identity: Identity | None) -> NodeReader:
        return NodeReader(self.name, lambda: (self.address, None), None, identity)


class _Places:
    def name(self, shard: Shard) -> Name | None:
        return NAME if shard in (FIRST, SECOND) else None

    def reading(self, shard: Shard, table: Table) -> Reading:
        return READING


@pytest.mark.parametrize("other", ["x", "X"])
def test_keys_of_two_shards_that_collate_alike_stop_it(other: str, mysql_server: MySqlServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(run, "_LOOKS", 2)
    for shard, key in ((FIRST, "x"), (SECOND, other)):
        mysql_server.execute(f"CREATE DATABASE {shard.schema}; CREATE TABLE {shard.schema}.t {BODY}")
        mysql_server.execute(f"INSERT INTO {shard.schema}.t VALUES ('{key}', 1)")
    places: Any = _Places()
    nodes: Any = [_Node(mysql_server)]
    with _target(mysql_server) as target:
        _begun(target)
        work = run._Bootstrap(Log(merged("two-nodes")), places, nodes, target, Options(), lambda text: None)
        with pytest.raises(ReplayStopped, match=r"2 shards of bank\.t have a row with the same key") as stopped:
            work._insert(_chunk(SECOND, other), target.progress())
        message = stopped.value.message
        assert "the same key, a='x': " in message.lower()
        assert str(FIRST) in message and str(SECOND) in message
        for remedy in ("`copies`", "`key: true`", "`source-pattern`"):
            assert remedy in stopped.value.remedy
    assert mysql_server.query("SELECT a FROM bank.t") == [("x",)]
