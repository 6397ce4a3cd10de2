"""What is done with the merged log of MariaDB nodes: distributed transactions by a commit table, `serve`, `replay`; and
a cluster of MariaDB and MySQL nodes.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from binlog_merge.cli import main as cli
from binlog_merge.errors import DdlNotUnderstoodError, ShardDdlStopped
from binlog_merge.mariadb_nodes.folder import FolderTranslation
from tests.binlog_server.running import PASSWORD, USER
from tests.clients.served import served
from tests.mariadb_nodes.stories import contents
from tests.mariadb_server import MariaDbServer
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.tables.test_duckdb import differences, tables_at, tables_of

pytestmark = [pytest.mark.mariadb, pytest.mark.mysql]
_OPTIONS = ("--log-bin=mysql-bin", "--binlog-format=ROW", "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_general_ci")  # fmt: skip
_ACCOUNT = "CREATE TABLE shop.account (id INT PRIMARY KEY, owner VARCHAR(20), amount INT)"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MariaDbServer]]:
    folder = tmp_path_factory.mktemp("maria")
    with ExitStack() as stack:
        found = [MariaDbServer(folder / f"n{number}", 100 + number, _OPTIONS) for number in (1, 2)]
        for server in found:
            server.path.mkdir()
            stack.enter_context(server)
        yield found


@pytest.fixture
def nodes(servers: list[MariaDbServer]) -> list[MariaDbServer]:
    """The servers, with logs that begin anew."""
    for server in servers:
        for schema in ("shop", "__cdc__"):
            server.query(f"DROP DATABASE IF EXISTS {schema}")
        server.query("RESET MASTER")
    return servers


def _configured(folder: Path, files: dict[str, str], **sections: object) -> Path:
    values = {"version": 1, "name": "shop", "nodes": [{"source-id": n, "files": f} for n, f in files.items()],
              "shard-mode": "pessimistic", **sections}  # fmt: skip
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def _translated(nodes: list[MariaDbServer], folder: Path) -> dict[str, str]:
    for number, server in enumerate(nodes, 1):
        FolderTranslation([str(server.data)], folder / f"n{number}", lambda text: None).advance()
    return {f"n{number}": f"{folder}/n{number}/mysql-bin.*" for number in range(1, len(nodes) + 1)}


def _transfer(nodes: list[MariaDbServer], number: int, prepared_first: int) -> None:
    """Move an amount from one node to the other: one transaction of two branches, whose TSO a commit table has."""
    xid, tso = f"'g{number}','b'", (time.time_ns() // 1_000_000 << 22) + number
    sessions = [server.connect() for server in nodes]
    order = (prepared_first, 1 - prepared_first)
    for node in order:
        with sessions[node].cursor() as cursor:
            for sql in (
                f"XA START {xid}", f"UPDATE shop.account SET amount = amount + {1 - 2 * node} WHERE id = {node}",
                f"XA END {xid}", f"XA PREPARE {xid}",
            ):  # fmt: skip
                cursor.execute(sql)
    for node in order:
        nodes[node].query(f"INSERT INTO __cdc__.__commit_ts__ (gtrid, tso) VALUES ('g{number}', {tso})")
        with sessions[node].cursor() as cursor:
            cursor.execute(f"XA COMMIT {xid}")
    for session in sessions:
        session.close()


@pytest.mark.extended
def test_a_distributed_transaction_comes_out_whole_and_is_served_and_replayed(
    nodes: list[MariaDbServer], tmp_path: Path
) -> None:
    for node, server in enumerate(nodes):
        server.query("CREATE DATABASE __cdc__")
        server.query("CREATE TABLE __cdc__.__commit_ts__ (gtrid VARCHAR(64) PRIMARY KEY, tso BIGINT UNSIGNED)")
        server.query("CREATE DATABASE shop")
        server.query(_ACCOUNT)
        server.query(f"INSERT INTO shop.account VALUES ({node}, 'owner {node}', 100), ({10 + node}, NULL, 0)")
    for number in range(1, 21):
        _transfer(nodes, number, number % 2)
        if number == 10:
            for server in nodes:
                server.query("ALTER TABLE shop.account ADD COLUMN IF NOT EXISTS note TEXT DEFAULT 'none'")
    files = _translated(nodes, tmp_path)
    path = _configured(tmp_path, files, **{"commit-tso": {"carrier": "commit-table"}})
    out = tmp_path / "out"
    result = merge(path, out)
    assert (result.warnings, result.locks, result.waiting) == ((), (), 0)
    rows = {row for server in nodes for row in contents(server, "shop", "account")[1]}

    with MySqlServer(tmp_path / "replica", 200) as replica, served(out, tmp_path) as server:
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={server.port}, SOURCE_USER='{USER}', "
            f"SOURCE_PASSWORD='{PASSWORD}', GET_SOURCE_PUBLIC_KEY=1, SOURCE_AUTO_POSITION=1; START REPLICA"
        )
        (wanted,) = server.query("SELECT @@gtid_executed")[0]
        assert replica.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{wanted}', 300)") == [(0,)]
        assert set(contents(replica, "shop", "account")[1]) == rows
        # Each transfer is one transaction: the replica's log has two rows in each.
        replica.execute("STOP REPLICA; FLUSH BINARY LOGS")
        whole = replica.query("SHOW BINARY LOGS")[0][0]
        events = [str(row[2]) for row in replica.query(f"SHOW BINLOG EVENTS IN '{whole}'")]
        updates = " ".join(events).split("Gtid")
        assert sum(group.count("Update_rows") == 2 for group in updates) == 20
        assert sum(group.count("Update_rows") == 1 for group in updates) == 0
        expected = tables_at(replica)

    assert cli.run(["replay", "--merged", str(out), "--to", f"duckdb://{tmp_path / 'copy.duckdb'}"]) == 0
    found = tables_of(tmp_path / "copy.duckdb")
    assert found.keys() == expected.keys()
    for name in found:
        assert differences(found[name], expected[name]) == [], name


_UUIDS = (
    "11111111-2222-1333-8444-555555555555", "a1b2c3d4-e5f6-4789-9abc-def012345600",
    "018f3f3e-1c2d-7aaa-bbbb-ccccddddeeff", "00000000-0000-0000-0000-000000000000",
)  # fmt: skip


def test_uuids_are_those_of_the_node(nodes: list[MariaDbServer], mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Tables of MariaDB have those of versions 1 to 5 in another order; its log has them all as their texts."""
    node = nodes[0]
    node.query("CREATE DATABASE shop")
    columns = f"b BINARY(16), u UUID DEFAULT UUID(), d UUID DEFAULT '{_UUIDS[0]}'"
    node.query(f"CREATE TABLE shop.t (id UUID PRIMARY KEY, {columns})")
    for text in _UUIDS:
        node.query(f"INSERT INTO shop.t (id, b) VALUES ('{text}', UNHEX(REPLACE('{text}', '-', '')))")
    node.query("SET STATEMENT binlog_row_image=MINIMAL FOR UPDATE shop.t SET u = id")
    node.query("ALTER TABLE shop.t MODIFY u BINARY(16), MODIFY b UUID, ADD UNIQUE id (u), ADD e UUID DEFAULT NULL")
    node.query("ALTER TABLE shop.t MODIFY e UUID DEFAULT (UUID())")
    node.query("INSERT INTO shop.t (id) VALUES ('ffffffff-ffff-4fff-8fff-ffffffffffff')")
    node.query(f"DELETE FROM shop.t WHERE id = '{_UUIDS[2]}'")
    node.query(f"UPDATE shop.t SET d = id WHERE id = '{_UUIDS[1]}'")
    path = _configured(tmp_path, _translated(nodes[:1], tmp_path), **{"commit-tso": {"carrier": "gtid-time"}})
    merge(path, tmp_path / "out")
    mysql_server.drop_databases()
    mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    mysql_server.apply(mysqlbinlog([tmp_path / "out" / name for name in written(tmp_path / "out")]))
    ours, theirs = (
        server.query(f"SELECT HEX(u), {', '.join(shown.format(name) for name in ('id', 'b', 'd', 'e'))} FROM shop.t")
        for server, shown in ((mysql_server, "BIN_TO_UUID({})"), (node, "CAST({} AS CHAR)"))
    )
    assert len(ours) == 4 and set(ours) == set(theirs)
    mysql_server.execute("INSERT INTO shop.t (id) VALUES (UUID_TO_BIN(UUID()))")
    assert mysql_server.query(f"SELECT COUNT(*) FROM shop.t WHERE d = UUID_TO_BIN('{_UUIDS[0]}')") == [(4,)]
    node.query("ALTER TABLE shop.t MODIFY d CHAR(36)")
    _translated(nodes[:1], tmp_path)
    with pytest.raises(DdlNotUnderstoodError, match="give the statements that do it there"):
        merge(path, tmp_path / "out")


_ALIKE = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.account (id INT PRIMARY KEY, owner VARCHAR(20)) COLLATE utf8mb4_general_ci",
    "INSERT INTO shop.account VALUES ({0}, 'ü'), ({1}, NULL)",
    "ALTER TABLE shop.account ADD COLUMN doc TEXT, ADD COLUMN at DATETIME(3)",
    "UPDATE shop.account SET doc = 'text' WHERE id = {0}",
    "DELETE FROM shop.account WHERE id = {1}",
    "CREATE INDEX k ON shop.account (owner)",
    "INSERT INTO shop.account (id) VALUES ({1})",
)
_NOT_ALIKE = (
    ("CREATE DATABASE shop", "CREATE TABLE shop.account (id INT PRIMARY KEY, owner VARCHAR(20))"),  # another collation
    ("CREATE DATABASE shop", "CREATE TABLE shop.account (id INT PRIMARY KEY, doc JSON) COLLATE utf8mb4_general_ci"),
)


def _both(maria: MariaDbServer, mysql: MySqlServer, folder: Path, statements: Sequence[str]) -> Path:
    """Run statements on a node of each kind; return their cluster's configuration."""
    for sql in statements:
        maria.query(sql.format(0, 10))
        mysql.query(sql.format(1, 11))
    files = _translated([maria], folder)
    files["n2"] = str(mysql.binlog_files()[0].parent / "binlog.*")
    return _configured(folder, files, **{"commit-tso": {"carrier": "gtid-time"}})


def test_a_cluster_of_both_kinds(nodes: list[MariaDbServer], tmp_path: Path) -> None:
    """Tables must be alike: where the default collations differ, it must be said; JSON is another type on MariaDB."""
    with MySqlServer(tmp_path / "node", 150) as other:
        result = merge(_both(nodes[0], other, tmp_path, _ALIKE), tmp_path / "out")
        assert (result.warnings, result.locks, result.waiting) == ((), (), 0)
        copy = tmp_path / "copy.duckdb"
        assert cli.run(["replay", "--merged", str(tmp_path / "out"), "--to", f"duckdb://{copy}"]) == 0
        columns, rows = tables_of(copy)["shop", "account"]
        assert columns == ["id", "owner", "doc", "at"]
        assert [row[:3] for row in rows] == [(0, "ü", "text"), (1, "ü", "text"), (10, None, None), (11, None, None)]
        for number, statements in enumerate(_NOT_ALIKE):
            nodes[0].query("DROP DATABASE shop")
            nodes[0].query("RESET MASTER")
            other.drop_databases()
            other.execute("RESET BINARY LOGS AND GTIDS")
            folder = tmp_path / f"apart-{number}"
            folder.mkdir()
            with pytest.raises(ShardDdlStopped, match="shop/account"):
                merge(_both(nodes[0], other, folder, statements), folder / "out")
