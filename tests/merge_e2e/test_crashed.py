"""A node that crashed goes on with a new file; a copy that was cut looks the same, and is not taken for that."""

import os
import shutil
import signal
from pathlib import Path

import pytest
import yaml

from binlog_merge.binlog.header import walk
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import TruncatedEvent
from binlog_merge.pipeline.rounds import Rounds
from tests.merge_e2e.local import LocalRunner, merge, written
from tests.mysql_server import MySqlServer

SQL = "INSERT INTO d.t (b) VALUES ('a'); INSERT INTO d.t (b) VALUES ('b')"


def crash(server: MySqlServer) -> None:
    """Kill a server, and start it again: what it had written stays."""
    pid = int((server.path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    while server.running:
        pass
    server.restart()


def config_of(folder: Path, files: Path) -> Path:
    values = {
        "version": 1, "name": "crashed", "shard-mode": "pessimistic", "commit-tso": {"carrier": "gtid-time"},
        "nodes": [{"source-id": "dn-1", "files": f"{files}/binlog.[0-9]*"}],
    }  # fmt: skip
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.mysql
def test_a_node_that_crashed(tmp_path: Path) -> None:
    with MySqlServer(tmp_path / "server", server_id=9) as server:
        server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b TEXT)")
        server.execute(f"{SQL}; SET gtid_next = 'AUTOMATIC:tag'; {SQL.split(';')[0]}; SET gtid_next = 'AUTOMATIC'")
        crash(server)
        server.execute(SQL)
        crash(server)
        crash(server)  # a file without transactions
        server.execute(SQL)
    config = config_of(tmp_path, server.data)
    assert merge(config, tmp_path / "merged").to_dict()["transactions"] == 9

    copy = tmp_path / "copy"
    copy.mkdir()
    for path in server.data.glob("binlog.0*"):
        shutil.copy(path, copy)
    first = copy / "binlog.000001"
    whole = first.read_bytes()
    groups = [event.offset for event in walk(whole) if event.type_code in (33, 42)]
    first.write_bytes(whole[: groups[-1]])
    with pytest.raises(TruncatedEvent, match="no ROTATE or STOP") as caught:
        merge(config_of(tmp_path, copy), tmp_path / "cut")
    assert caught.value.file == str(first) and "the node crashed" in caught.value.remedy


@pytest.mark.extended  # test_a_node_that_crashed; rounds: test_rounds
@pytest.mark.mysql
def test_a_node_that_crashes_while_it_is_merged_in_rounds(tmp_path: Path) -> None:
    """A round that goes on inside the file, behind what was published, still knows that the file is whole."""
    with MySqlServer(tmp_path / "server", server_id=9) as server:
        server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b TEXT)")
        config = config_of(tmp_path, server.data)
        with Rounds(LocalRunner(), MergeConfig.load(config), tmp_path / "rounds") as rounds:
            for _ in range(3):
                server.execute(SQL)
                rounds.merge()
            crash(server)
            server.execute(SQL)
            rounds.merge()
    merge(config, tmp_path / "rounds")
    merge(config, tmp_path / "once")
    assert written(tmp_path / "rounds") == written(tmp_path / "once") != {}
