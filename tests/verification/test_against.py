"""A server compared with the log: the same where it is, each difference named where it is not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.run import replay
from binlog_merge.verification.against import compare_with_server
from binlog_merge.verification.base import Empty
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer
from tests.tables.test_duckdb import STATEMENTS
from tests.targets.as_merged import as_merged, run_statements
from tests.targets.server.test_replay import merged, prepare, target_of

pytestmark = pytest.mark.mysql
CASE = "three-nodes-online-ddl"


@pytest.fixture(scope="module")
def binlog(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return merged(CASE, tmp_path_factory.mktemp("merged"))


@pytest.fixture
def server(mysql_server: MySqlServer, binlog: Log) -> Iterator[MySqlServer]:
    """A server that a replay has written to."""
    prepare(mysql_server, CASE)
    replay(binlog, target_of(mysql_server, binlog), ReplayOptions(last_rank=150))
    yield mysql_server


def compared(server: MySqlServer, binlog: Log, **options: Any) -> dict[str, Any]:
    """Compare with a log whose tables had no rows where it begins."""
    return compare_with_server(binlog, ServerAddress(socket=server.socket), base=Empty(), **options).to_dict()


def test_a_server_is_compared_at_its_own_position(server: MySqlServer, binlog: Log) -> None:
    found = compared(server, binlog)
    assert found["same"] and found["rank"] == 150 and found["others"] == []
    orders = found["tables"]["shop.orders"]
    assert orders["left"] == orders["right"] and orders["left"]["rows"] == _count(server)
    assert not compared(server, binlog, rank=120)["same"]
    replay(binlog, target_of(server, binlog), ReplayOptions(skip=frozenset({210})))
    assert compared(server, binlog, rank=209)["same"]
    assert compared(server, binlog)["same"]


def _count(server: MySqlServer) -> int:
    return int(server.query("SELECT COUNT(*) FROM shop.orders")[0][0])


def test_differing_rows_are_named(server: MySqlServer, binlog: Log) -> None:
    ids = [row[0] for row in server.query("SELECT id FROM shop.orders ORDER BY id LIMIT 3")]
    server.execute(
        f"UPDATE shop.orders SET price = price + 1 WHERE id = {ids[0]}; DELETE FROM shop.orders WHERE id = {ids[1]}; "
        f"UPDATE shop.orders SET id = id + 1000000 WHERE id = {ids[2]}; CREATE TABLE shop.mine (id INT)"
    )
    found = compared(server, binlog)
    assert not found["same"] and found["others"] == ["shop.mine"]
    rows = {row["key"]["id"]: row for row in found["tables"]["shop.orders"]["differences"]}
    assert set(rows) == {str(ids[0]), str(ids[1]), str(ids[2]), str(ids[2] + 1000000)}
    assert list(rows[str(ids[0])]["columns"]) == ["price"]
    assert [(rows[str(i)]["left"], rows[str(i)]["right"]) for i in (ids[1], ids[2] + 1000000)] == [(1, 0), (0, 1)]
    assert len(compared(server, binlog, most_rows=2)["tables"]["shop.orders"]["differences"]) == 2
    server.execute("ALTER TABLE shop.orders DROP COLUMN price")
    assert compared(server, binlog)["tables"]["shop.orders"]["problem"] == "the server has no column price"
    server.execute("DROP TABLE shop.orders")
    assert compared(server, binlog)["tables"]["shop.orders"]["problem"] == "it is not on the server"


def test_every_type_is_told_alike(mysql_server: MySqlServer, tmp_path: Path) -> None:
    binlog = merged("all-types", tmp_path / "merged")
    prepare(mysql_server, "all-types")
    replay(binlog, target_of(mysql_server, binlog), ReplayOptions())
    found = compared(mysql_server, binlog)
    assert {name: table["differences"] for name, table in found["tables"].items() if not table["same"]} == {}
    assert sum(table["left"]["rows"] for table in found["tables"].values()) > 50


def test_a_replica_and_tables_without_keys(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """The server whose own binlog it is has executed its GTIDs, as a replica has."""
    run_statements(mysql_server, STATEMENTS, "one")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    assert compared(mysql_server, binlog)["same"]
    mysql_server.execute("SET sql_log_bin = 0; INSERT INTO one.b VALUES ('z', 2)")
    (row,) = compared(mysql_server, binlog)["tables"]["one.b"]["differences"]
    assert (row["key"], row["left"], row["right"]) == ({"k": "z", "v": "2"}, 1, 2)


def test_a_server_that_was_filled_and_follows_as_a_replica_since(binlog: Log, tmp_path: Path) -> None:
    """Its position is what both say, and not where a bootstrap or a replay has left it."""
    with MySqlServer(tmp_path / "server", 77) as own:  # GTIDs of the log would stay on a server of other tests
        prepare(own, CASE)
        replay(binlog, target_of(own, binlog), ReplayOptions())
        own.execute(
            "UPDATE binlog_merge.replay_position SET `rank` = 150; DELETE FROM binlog_merge.replay_worker; "
            f"SET GLOBAL gtid_purged = '+{binlog.cluster_uuid}:1-210'"
        )
        found = compared(own, binlog)
        assert found["same"] and found["rank"] == 210


def test_a_server_that_says_nothing(mysql_server: MySqlServer, binlog: Log) -> None:
    with pytest.raises(ConfigError, match="does not say what it has"):
        compared(mysql_server, binlog)
    mysql_server.execute(
        "CREATE DATABASE binlog_merge; CREATE TABLE binlog_merge.replay_position (cluster CHAR(36), `rank` BIGINT); "
        "CREATE TABLE binlog_merge.replay_worker (cluster CHAR(36), ranks TEXT); "
        "CREATE TABLE binlog_merge.replay_skipped (cluster CHAR(36), `rank` BIGINT); "
        f"INSERT INTO binlog_merge.replay_position VALUES ('{binlog.cluster_uuid}', 5); "
        f"INSERT INTO binlog_merge.replay_worker VALUES ('{binlog.cluster_uuid}', '8-9')"
    )
    with pytest.raises(ReplayStopped, match="with gaps"):
        compared(mysql_server, binlog)


def test_a_server_and_the_nodes(server: MySqlServer, binlog: Log, tmp_path: Path) -> None:
    """A node, played by the same server: physical tables under two schemas make the logical one."""
    replay(binlog, target_of(server, binlog), ReplayOptions())
    server.execute("CREATE DATABASE shop_0; CREATE DATABASE shop_1")
    for number, name in enumerate(("shop_0.orders_0", "shop_0.orders_1", "shop_1.orders_2")):
        server.execute(f"CREATE TABLE {name} LIKE shop.orders")
        server.execute(f"INSERT INTO {name} SELECT * FROM shop.orders WHERE id % 3 = {number}")
    config, to = tmp_path / "cluster.yaml", f"mysql://root@localhost/?socket={server.socket}"
    config.write_text(
        "version: 1\nname: one\nnodes: [{source-id: dn-1, files: nowhere}]\nignore-schemas: [shop]\n"
        "routes: [{schema-pattern: 'shop_*', table-pattern: 'orders_*', target-schema: shop, target-table: orders}]\n"
    )
    command = ["verify", "--from", str(binlog.directory), "--against", to, "--nodes", str(config)]
    assert run([*command, "--node", f"dn-1={to}"]) == 0
    server.execute("UPDATE shop_1.orders_2 SET price = price + 1 LIMIT 1")
    assert run([*command, "--node", f"dn-1={to}"]) == 1
    assert run(command) == 2 and run([*command, "--node", to]) == 2


def test_the_command_line(server: MySqlServer, binlog: Log, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to = f"mysql://root@localhost/?socket={server.socket}"
    assert run(["verify", "--from", str(binlog.directory), "--against", to, "--base", "empty"]) == 0
    assert "holds what it should, at transaction 150" in capsys.readouterr().out
    assert run(["verify", "--from", str(binlog.directory), "--against", to]) == 3
    assert "holds what it should, as far as it can be judged: 1 of 1 tables" in capsys.readouterr().out
    (id_,) = server.query("SELECT MIN(id) FROM shop.orders")[0]
    server.execute(f"UPDATE shop.orders SET price = 1 WHERE id = {id_}")
    assert run(["verify", "--from", str(binlog.directory), "--against", to]) == 1
    assert f"id={id_}: price is 1.00, should be" in capsys.readouterr().out
    assert run(["verify", str(binlog.directory), "--against", to, "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["tables"]["shop.orders"]["same"] is False
    for wrong in (
        [],
        [str(binlog.directory), "--from", "x"],
        [str(binlog.directory), "--node", "a=b"],
        [str(binlog.directory), "--base", "empty"],
    ):
        assert run(["verify", *wrong]) == 2
    assert run(["verify", str(binlog.directory), "--against", "nowhere://"]) == 2
