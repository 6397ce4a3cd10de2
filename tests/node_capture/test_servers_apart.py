"""Servers are told apart by their UUIDs: one is never two nodes, and two may have one server_id."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError, ServerRefused, WrongNode
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture
from binlog_merge.redaction import redacted
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import capture_now, captured_files, cluster, server_files, url_of

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def _alike(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MySqlServer]]:
    """Two servers with the server_id that MySQL gives each that does not say another."""
    folder = tmp_path_factory.mktemp("alike")
    with MySqlServer(folder / "1", 1) as one, MySqlServer(folder / "2", 1) as two:
        yield [one, two]


@pytest.fixture
def alike(_alike: list[MySqlServer], tmp_path: Path) -> tuple[list[MySqlServer], Path]:
    for number, server in enumerate(_alike, 1):
        server.drop_databases()
        server.execute(f"RESET BINARY LOGS AND GTIDS; CREATE DATABASE d{number}; CREATE TABLE d{number}.t (a INT)")
        server.execute(f"INSERT INTO d{number}.t VALUES ({number})")
    routes = [{"schema-pattern": f"d{n}", "target-schema": f"d{n}"} for n in (1, 2)]
    urls: dict[str, str | list[str]] = {f"dn-{n}": url_of(server) for n, server in enumerate(_alike, 1)}
    return _alike, cluster(tmp_path, urls, routes=routes)


def refused(kind: type[MergeError], config: Path) -> MergeError:
    with pytest.raises(kind) as caught:
        capture_now(config, retry_seconds=0.2)
    return caught.value


def test_two_servers_of_one_server_id(alike: tuple[list[MySqlServer], Path], tmp_path: Path) -> None:
    """Their captures know the servers, also of a file without GTIDs; without captures, their GTIDs tell them apart."""
    servers, config = alike
    servers[1].execute("RESET BINARY LOGS AND GTIDS")
    capture_now(config)
    merge(config, tmp_path / "idle")
    servers[1].execute("CREATE TABLE d2.u (a INT); INSERT INTO d2.u VALUES (3)")
    shutil.rmtree(tmp_path / "captured")
    capture_now(config)
    merge(config, tmp_path / "out")
    with_records = written(tmp_path / "out")
    for record in (tmp_path / "captured").glob("*/.capture.json"):
        record.unlink()
    merge(config, tmp_path / "gtids")
    assert written(tmp_path / "gtids") == with_records
    assert all(name in b"".join(with_records.values()) for name in (b"\x02d1\x00\x01t", b"\x02d2\x00\x01u"))


def test_one_server_id_of_servers_that_nothing_tells_apart(
    alike: tuple[list[MySqlServer], Path], tmp_path: Path
) -> None:
    servers, config = alike
    servers[1].execute("RESET BINARY LOGS AND GTIDS")
    capture_now(config)
    for record in (tmp_path / "captured").glob("*/.capture.json"):
        record.unlink()
    with pytest.raises(WrongNode) as caught:
        merge(config, tmp_path / "out")
    assert "server id 1 also wrote" in caught.value.message and "binlog-merge capture" in caught.value.remedy
    capture_now(config)  # what the remedy says: a record of each is made anew
    merge(config, tmp_path / "out")


def test_one_server_as_two_nodes(alike: tuple[list[MySqlServer], Path], tmp_path: Path) -> None:
    """Nothing is stored twice: the second one is refused at its first connection, whichever that is."""
    servers, _ = alike
    config = cluster(tmp_path, {"dn-1": url_of(servers[0]), "dn-2": f"{url_of(servers[0])}&again=1"})
    error = refused(WrongNode, config)
    assert error.node in ("dn-1", "dn-2")
    other = "dn-2" if error.node == "dn-1" else "dn-1"
    assert f"is the server that node {other} has" in error.message
    assert "correct the `server` of one of the two nodes" in error.remedy
    assert error.node is not None and not captured_files(config, error.node)
    assert captured_files(config, other) == server_files(servers[0])


@pytest.mark.parametrize(
    ("address", "password", "remedy"),
    [
        ("mysql://nobody@localhost/?socket={socket}", None, "no password was given: give --password-file"),
        ("mysql://nobody@localhost/?socket={socket}", "x", "check user and password, and from which hosts"),
        ("mysql://root@127.0.0.1:1", None, "check host and port, that the server runs"),
        ("mysql://root@no-such-host.invalid:3306", None, "check the host's name, no-such-host.invalid"),
    ],
)
def test_what_to_do_where_there_is_no_way_in(
    alike: tuple[list[MySqlServer], Path], tmp_path: Path, address: str, password: str | None, remedy: str
) -> None:
    url = address.format(socket=alike[0][0].socket)
    loaded = MergeConfig.load(cluster(tmp_path, {"dn-1": url}))
    with pytest.raises(ServerRefused) as caught:
        capture(loaded, tmp_path / "captured", CaptureOptions(retry_seconds=0.2), password=password)
    assert remedy in caught.value.remedy
    assert redacted(caught.value.remedy) == caught.value.remedy  # what it says to write is not hidden as a secret
