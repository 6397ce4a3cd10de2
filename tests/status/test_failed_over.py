"""The files of a node that failed over, as `status` counts them."""

import json
from pathlib import Path

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.sections import Node
from binlog_merge.files.servers import FollowingServer
from binlog_merge.status.node_files import NodeFiles, further
from binlog_merge.status.values import FilePosition


def test_the_files_of_a_later_server_come_last(tmp_path: Path) -> None:
    folder = "000002-00000000-0000-0000-0000-000000000002"
    server = FollowingServer(
        folder, folder[7:], "mysql://b", 1.0, ("", "binlog.000009", 50), GtidSet(), "binlog.000002"
    )
    (tmp_path / "servers.index").write_text(server.to_line() + "\n")
    assert json.loads(server.to_line())["folder"] == folder
    (tmp_path / folder).mkdir()
    (tmp_path / "binlog.000009").write_bytes(bytes(50))
    (tmp_path / folder / "binlog.000002").write_bytes(bytes(70))
    files = NodeFiles.of(Node(source_id="dn-1", files=(f"{tmp_path}/*",)))
    last = FilePosition(f"{folder}/binlog.000002", 70)
    assert files.captured()[0] == last
    read = FilePosition("binlog.000009", 20)
    assert [files.unread(place) for place in (None, read, last)] == [120, 100, 0]
    assert further(last, read) == last == further(read, last)
