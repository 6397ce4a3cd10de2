"""`capture` and `run` of real MariaDB nodes: their files as they are, and a replica that holds what they hold."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from binlog_merge.api import capture
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import walk
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError, UnsupportedInput, WrongNode
from binlog_merge.mariadb_nodes.folder import FolderTranslation
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture as capture_as_it_is
from tests.cli.test_run_live import follow, running, served_port, until
from tests.mariadb_nodes.stories import contents
from tests.mariadb_server import MariaDbServer
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tools.demo_live.cluster import free_ports

pytestmark = [pytest.mark.mariadb, pytest.mark.mysql]
_USER = ("CREATE USER rep@'%' IDENTIFIED BY 'pw'", "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO rep@'%'")
_CHECKPOINT = 43
_BEAT = ("CREATE DATABASE idle", "CREATE TABLE idle.beat (id INT PRIMARY KEY, at DATETIME(6))",
         "GRANT INSERT, DELETE ON idle.beat TO rep@'%'")  # fmt: skip


class Nodes:
    """MariaDB servers that can be reached by TCP, and the configuration of a cluster of them."""

    def __init__(self, folder: Path, *options: tuple[str, ...]) -> None:
        self.folder, self.servers = folder, list[MariaDbServer]()
        self.ports = free_ports(len(options))
        for number, (port, own) in enumerate(zip(self.ports, options, strict=True), 1):
            reached = ("--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", "--log-bin=mysql-bin")
            server = MariaDbServer(folder / f"server-{number}", 100 + number, (*reached, "--binlog-format=ROW", *own))
            server.path.mkdir()
            self.servers.append(server)

    def configured(self, **sections: object) -> Path:
        """Write the shortest configuration of the nodes, and what is given besides; returns its path."""
        nodes = [
            {"source-id": f"shard-{number}", "server": f"mysql://rep:pw@127.0.0.1:{port}"}
            for number, port in enumerate(self.ports, 1)
        ]
        values = {"version": 1, "name": "shop", "nodes": nodes, "shard-mode": "pessimistic",
                  "commit-tso": {"carrier": "gtid-time"}, **sections}  # fmt: skip
        path = self.folder / "cluster.yaml"
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        return path

    def raw(self, number: int) -> Path:
        """Return the folder of a node's captured files as they are on the server."""
        return self.folder / "captured" / f"shard-{number}" / ".mariadb"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    compressed = ("--log-bin-compress=1", "--log-bin-compress-min-len=10", "--binlog-checksum=NONE")
    with ExitStack() as stack:
        opened = Nodes(tmp_path, ("--binlog-checksum=CRC32",), compressed)
        for server in opened.servers:
            stack.enter_context(server)
            for sql in _USER:
                server.query(sql)
        yield opened


def _alike(nodes: Nodes) -> int:
    """Compare all captured files with the servers' own, but for the flag of a file in use; returns their bytes."""
    size = 0
    for number, server in enumerate(nodes.servers, 1):
        names = sorted(path.name for path in nodes.raw(number).glob("mysql-bin.*"))
        assert names == sorted(path.name for path in server.data.glob("mysql-bin.??????"))
        for name in names:
            found, expected = (bytearray((path / name).read_bytes()) for path in (nodes.raw(number), server.data))
            found[21] = expected[21] = 0
            if name == names[-1] and len(expected) - len(found) <= _CHECKPOINT:  # written a moment later
                del expected[len(found) :]
            assert found == expected, f"{number}: {name}"
            size += len(found)
    return size


def test_files_are_captured_as_they_are_and_translated(nodes: Nodes, tmp_path: Path) -> None:
    config = MergeConfig.load(nodes.configured())
    told: list[str] = []
    for server in nodes.servers:
        server.query("CREATE DATABASE shop")
        server.query("CREATE TABLE shop.t (id INT PRIMARY KEY, a VARCHAR(300) COMPRESSED)")
    capture(config, report=lambda node, text: told.append(text))
    for step in range(3):
        for server in nodes.servers:
            server.query(f"INSERT INTO shop.t VALUES ({step}, REPEAT('a', 200))")
            if step:
                server.query("FLUSH BINARY LOGS")
        # What a crash leaves at a file's end is fetched again.
        last = sorted(nodes.raw(1).glob("mysql-bin.*"))[-1]
        last.write_bytes(last.read_bytes() + b"half an event")
        capture(config, report=lambda node, text: told.append(text))
        assert _alike(nodes) > 0
    kinds = {event.type_code for path in nodes.raw(1).glob("mysql-bin.*") for event in walk(path.read_bytes())}
    assert EventType.MARIADB_ANNOTATE_ROWS_EVENT in kinds
    assert not any("IDENTIFIED" in text for text in told) and any("CREATE USER …" in text for text in told)
    for number in (1, 2):
        made, again = nodes.raw(number).parent, tmp_path / f"again-{number}"
        FolderTranslation([str(nodes.raw(number))], again, lambda text: None).advance()
        for path in again.glob("mysql-bin.*"):
            found, expected = (bytearray(one.read_bytes()) for one in (made / path.name, path))
            found[21] = expected[21] = 0
            assert found == expected
    # What retention removes goes, and stays away.
    first = nodes.raw(1).parent / "mysql-bin.000001"
    first.unlink()
    capture(config)
    assert (first.exists(), (nodes.raw(1) / first.name).exists()) == (False, False)


@pytest.mark.extended
def test_a_file_that_a_crash_has_ended_is_whole(nodes: Nodes, tmp_path: Path) -> None:
    """Statements that became two have GTIDs that no later file lists."""
    nodes.ports = nodes.ports[:1]
    config, (server, _) = MergeConfig.load(nodes.configured()), nodes.servers
    server.query("CREATE DATABASE shop")
    server.query("CREATE OR REPLACE TABLE shop.t (id INT PRIMARY KEY)")
    server.query("CREATE TABLE shop.copy (id INT PRIMARY KEY) SELECT * FROM shop.t")
    capture(config)
    assert server._process is not None
    server._process.kill()
    server._process.wait()
    server.start()
    server.query("INSERT INTO shop.t VALUES (1)")
    capture(config)
    merge(config, tmp_path / "merged")


@pytest.mark.extended
def test_another_server_and_what_cannot_be_done_are_refused(nodes: Nodes, tmp_path: Path) -> None:
    config = MergeConfig.load(nodes.configured())
    capture(config)
    ports = nodes.ports
    nodes.ports = [ports[1], ports[0]]
    with pytest.raises(WrongNode):
        capture(MergeConfig.load(nodes.configured()))
    nodes.ports = [ports[0], ports[0]]
    shutil.rmtree(tmp_path / "captured")
    with pytest.raises(WrongNode, match="is the server that node shard-"):
        capture(MergeConfig.load(nodes.configured()))
    nodes.ports = ports
    (tmp_path / "kept").mkdir()
    with pytest.raises(UnsupportedInput, match="archived"):
        capture(MergeConfig.load(nodes.configured(capture={"archive": str(tmp_path / "kept")})))
    shutil.rmtree(tmp_path / "captured")
    with pytest.raises(UnsupportedInput, match="is a MariaDB"):
        capture_as_it_is(config, Path(config.capture.dir), CaptureOptions())
    with pytest.raises(MergeError, match="gtid_mode"):
        path = nodes.configured()
        path.write_text(path.read_text().replace(f"server: mysql://rep:pw@127.0.0.1:{ports[0]}",
                                                 f"server: ['mysql://rep:pw@127.0.0.1:{ports[0]}']"))  # fmt: skip
        capture(MergeConfig.load(path))


@pytest.mark.extended
def test_a_replica_follows_a_run(nodes: Nodes, mysql_server: MySqlServer, tmp_path: Path) -> None:
    """`run` with the shortest configuration; the nodes beat, since MariaDB logs no commit times."""
    beat = {"interval": "500ms", "statement": "REPLACE INTO idle.beat VALUES (1, NOW(6))"}
    nodes.configured(heartbeat=beat, **{"ignore-schemas": ["idle"]})
    for server in nodes.servers:
        for sql in _BEAT:
            server.query(sql)
        server.query("CREATE DATABASE shop")
        server.query("CREATE TABLE shop.orders (id INT PRIMARY KEY, v INT)")

    def rows() -> set[tuple[str | None, ...]]:
        return {row for server in nodes.servers for row in contents(server, "shop", "orders")[1]}

    with running(tmp_path, "--port", "0") as run:
        for number, server in enumerate(nodes.servers):
            server.query(f"INSERT INTO shop.orders VALUES ({number}, 1), ({10 + number}, 2)")
        replica = mysql_server
        replica.drop_databases()
        replica.execute("RESET BINARY LOGS AND GTIDS")
        follow(replica, served_port(run))
        for column in ("a", "b"):
            for number, server in enumerate(nodes.servers):
                for _ in range(2):
                    server.query(f"ALTER TABLE shop.orders ADD COLUMN IF NOT EXISTS {column} INT DEFAULT 7")
                server.query(f"INSERT INTO shop.orders (id, v) VALUES ({ord(column) * 10 + number}, 3)")
                server.query("FLUSH BINARY LOGS")
        try:
            until(lambda: _has(replica) and set(contents(replica, "shop", "orders")[1]) == rows())
        except AssertionError:
            raise AssertionError(run.log.read_text()[-6000:]) from None
        finally:
            replica.execute("STOP REPLICA; RESET REPLICA ALL")
        assert contents(replica, "shop", "orders")[0] == ["id", "v", "a", "b"]
        assert run.end() == 0
    assert json.loads((nodes.raw(1) / ".capture.json").read_text())["server_uuid"]


def _has(server: MySqlServer) -> bool:
    asked = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 'orders'"
    return bool(server.query(asked))
