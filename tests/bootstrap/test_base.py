"""`schema import --nodes`: what stands between where a captured log begins and now, of every server and in any SQL."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.bootstrap.published import CapturedNode
from binlog_merge.cli.schema.import_nodes import base_of
from binlog_merge.errors import ConfigError
from binlog_merge.files.servers import FollowingServer, add_server
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql


class _Topology:
    def logical_schema(self, node: str, schema: str) -> str | None:
        return "bank" if schema == "bank_0" else None


class _Places:
    topology = _Topology()

    def name(self, shard: Any) -> tuple[str, str] | None:
        return ("bank", shard.table) if shard.schema == "bank_0" else None


def _copied(server: MySqlServer, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in server.binlog_files():
        shutil.copy(path, folder)


@pytest.fixture
def node(mysql_server: MySqlServer, tmp_path: Path) -> CapturedNode:
    mysql_server.execute("CREATE DATABASE bank_0; CREATE DATABASE other; CREATE TABLE bank_0.t (a INT PRIMARY KEY)")
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    return CapturedNode("dn", (ServerAddress(socket=mysql_server.socket),), tmp_path / "dn")


def test_ddl_of_a_server_that_took_over_is_seen(mysql_server: MySqlServer, node: CapturedNode) -> None:
    """The first server's file has the same name, and is longer."""
    mysql_server.execute("CREATE TABLE other.t (a INT); DROP TABLE other.t; CREATE TABLE other.t (a INT)")
    _copied(mysql_server, node.directory)
    mysql_server.execute("RESET BINARY LOGS AND GTIDS; ALTER TABLE bank_0.t ADD c INT")
    ((uuid,),) = mysql_server.query("SELECT @@server_uuid")
    server = FollowingServer(f"000002-{uuid}", str(uuid), "", 0.0, None, "", "binlog.000001")
    add_server(node.directory, server)
    _copied(mysql_server, node.directory / server.folder)
    places: Any = _Places()
    with pytest.raises(ConfigError, match=r"has DDL on bank_0\.t already: ALTER TABLE bank_0\.t ADD c INT"):
        base_of(node, places)


@pytest.mark.parametrize(
    ("sql", "concerned"),
    [
        ('SET sql_mode = \'ANSI_QUOTES\'; ALTER TABLE "bank_0"."t" ADD c INT', "bank_0"),
        ("ALTER TABLE bank_0.t ADD c INT, ALGORITHM=INPLACE", "bank_0"),
        ('SET sql_mode = \'ANSI_QUOTES\'; CREATE TABLE "other"."t" (a INT)', None),
    ],
)
def test_ddl_is_seen_as_the_session_meant_it(
    sql: str, concerned: str | None, mysql_server: MySqlServer, node: CapturedNode
) -> None:
    mysql_server.execute(sql)
    _copied(mysql_server, node.directory)
    places: Any = _Places()
    if concerned is None:
        assert ("bank_0", "t") in base_of(node, places).catalog.tables
        return
    with pytest.raises(ConfigError, match=f"has DDL on {concerned}"):
        base_of(node, places)
