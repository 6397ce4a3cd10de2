"""The files of a node that failed over, as `status` counts them."""

import json
import uuid
from pathlib import Path

from binlog_merge.cli.status_text import lines_of
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.files.servers import FollowingServer, LogEnd, add_server
from binlog_merge.observe.status.metrics import exposition
from binlog_merge.observe.status.node_files import NodeFiles, further
from binlog_merge.observe.status.observer import Observer
from binlog_merge.observe.status.values import FilePosition
from tests.merge_e2e.cases import case_named, copy_case


def test_the_files_of_a_later_server_come_last(tmp_path: Path) -> None:
    folder = "000002-00000000-0000-0000-0000-000000000002"
    server = FollowingServer(folder, folder[7:], "mysql://b", 1.0, LogEnd("", "binlog.000009", 50), "", "binlog.000002")
    add_server(tmp_path, server)
    assert json.loads((tmp_path / "servers.index").read_text())["folder"] == folder
    (tmp_path / folder).mkdir()
    (tmp_path / "binlog.000009").write_bytes(bytes(50))
    (tmp_path / folder / "binlog.000002").write_bytes(bytes(70))
    files = NodeFiles.of(Node(source_id="dn-1", files=(f"{tmp_path}/*",)))
    last = FilePosition(f"{folder}/binlog.000002", 70)
    assert files.captured()[0] == last
    read = FilePosition("binlog.000009", 20)
    assert [files.unread(place) for place in (None, read, last)] == [120, 100, 0]
    assert further(last, read) == last == further(read, last)


def test_its_servers_are_told(tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path)
    config = MergeConfig.load(path)
    home = tmp_path / "nodes" / "dn-1"
    first, second = (str(uuid.UUID(int=number)) for number in (1, 2))
    (home / ".capture.json").write_text(json.dumps({"version": 1, "server_uuid": first}))
    look = Observer(config, tmp_path / "out").look
    assert [server.server_uuid for server in look().nodes["dn-1"].servers] == [first]
    assert not any(line.startswith("  servers ") for line in lines_of(look()))
    lines = [
        FollowingServer(f"{n:06d}-{found}", found, f"mysql://{found[-1]}", float(n), ended, "", "binlog.000001")
        for n, found, ended in (
            (2, second, LogEnd("", "binlog.000001", 150)),
            (3, first, None),
        )  # the second had nothing
    ]
    for line in lines:
        add_server(home, line)
    status = look()
    servers = status.nodes["dn-1"].servers
    assert [(s.server_uuid, s.since, s.ends and str(s.ends)) for s in servers] == [
        (first, None, "binlog.000001:150"),
        (second, 2.0, None),
        (first, 3.0, None),
    ]
    shown = [" ".join(line.split()) for line in lines_of(status)]
    assert f"servers dn-1 {first} the first left after binlog.000001:150" in shown
    assert f"{first} mysql://1 since 1970-01-01T00:00:03.000Z is captured" in shown
    text = exposition(status, "text/plain")[0].decode()
    assert f'binlog_merge_node_server{{node="dn-1",server_uuid="{first}"}} 1.0' in text
    assert f'binlog_merge_node_server{{node="dn-1",server_uuid="{second}"}} 0.0' in text
    assert 'binlog_merge_node_switches_total{node="dn-1"} 2.0' in text
    assert 'binlog_merge_node_last_switch_timestamp_seconds{node="dn-1"} 3.0' in text
    assert status.to_dict()["nodes"]["dn-1"]["servers"][1]["server"] == "mysql://2"
    (home / "servers.index").write_text("damaged")
    assert "node-unreadable" in {problem.code for problem in look().problems}
