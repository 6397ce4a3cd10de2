"""What a status says of captures of a real server: followed, complete, lost, failed, and killed."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.files.state_notes import CAPTURE_NOTE
from binlog_merge.node_capture.node import CaptureOptions
from binlog_merge.node_capture.nodes import capture
from binlog_merge.observe.status.values import CaptureStatus, FilePosition, Status
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import Child, capture_now, cluster, server_files, url_of
from tests.observe.status.looking import Cluster, codes, eventually

pytestmark = pytest.mark.mysql


@pytest.fixture
def live(mysql_server: MySqlServer, tmp_path: Path) -> Cluster:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGTEXT)")
    mysql_server.execute("INSERT INTO d.t (b) VALUES ('a'), ('b')")
    return Cluster(cluster(tmp_path, {"dn-1": url_of(mysql_server)}), tmp_path / "merged")


def _capture_of(status: Status) -> CaptureStatus:
    found = status.nodes["dn-1"].capture
    assert found is not None
    return found


def _end(server: MySqlServer) -> FilePosition:
    name, data = max(server_files(server).items())
    return FilePosition(name, len(data))


def test_a_capture_that_follows_is_seen_and_its_merge(mysql_server: MySqlServer, live: Cluster) -> None:
    stop, results, observer = threading.Event(), list[Any](), live.observer()
    folder = Path(live.config.capture.dir)
    follow = lambda: results.append(capture(live.config, folder, CaptureOptions(follow=True), stop=stop))  # noqa: E731
    assert observer.look().nodes["dn-1"].capture is None
    thread = threading.Thread(target=follow)
    thread.start()
    try:
        assert eventually(lambda: observer.look().nodes["dn-1"].captured == _end(mysql_server))
        assert eventually(lambda: observer.look().nodes["dn-1"].capture is not None)
        assert eventually(lambda: _capture_of(observer.look()).state == "connected")
        merge(live.path, live.out, end_of_input=False)
        status = observer.look()
        node = status.nodes["dn-1"]
        assert status.healthy and not status.problems and node.read == node.captured and node.unread_bytes == 0
        assert _capture_of(status).server == str(url_of(mysql_server)).partition("localhost")[0] + str(
            mysql_server.socket
        )
        assert status.lag_seconds is not None and 0 <= status.lag_seconds < 600
        mysql_server.execute("INSERT INTO d.t (b) VALUES ('c')")
        assert eventually(lambda: observer.look().nodes["dn-1"].captured == _end(mysql_server))
        assert observer.look().nodes["dn-1"].unread_bytes > 0
        merge(live.path, live.out, end_of_input=False)
        assert observer.look().nodes["dn-1"].unread_bytes == 0
    finally:
        stop.set()
        thread.join()
    assert results and _capture_of(observer.look()).state == "stopped" and not observer.look().healthy


def test_a_capture_to_the_end_is_complete(live: Cluster) -> None:
    capture_now(live.path)
    found = _capture_of(live.look())
    assert (found.state, found.silent, found.text) == ("complete", False, "")
    assert "capture-failed" not in codes(live.look())


def test_a_connection_that_is_lost_is_a_warning_then_an_error(live: Cluster) -> None:
    """Nobody listens there: the capture tries again, then gives up."""
    path = cluster(live.path.parent, {"dn-1": "mysql://root@127.0.0.1:1"})
    lost = Cluster(path, live.out)
    errors: list[MergeError] = []

    def follow() -> None:
        try:
            capture(lost.config, Path(lost.config.capture.dir), CaptureOptions(follow=True, retry_seconds=3))
        except MergeError as error:
            errors.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    assert eventually(lambda: "capture-lost" in codes(lost.look()))
    thread.join()
    status = lost.look()
    assert "capture-failed" in codes(status) and not status.healthy
    assert errors and errors[0].message in _capture_of(status).text


def test_a_capture_that_was_killed_is_silent_after_a_while(live: Cluster) -> None:
    config = MergeConfig.load(live.path)
    work = lambda: capture(config, Path(config.capture.dir), CaptureOptions(follow=True))  # noqa: E731
    child = Child(work)
    path = Path(config.capture.dir) / "dn-1" / CAPTURE_NOTE
    assert eventually(lambda: path.exists() and json.loads(path.read_bytes())["state"] == "connected")
    child.signal(9)
    assert child.exit_code() == -9
    assert "capture-silent" not in codes(live.look())
    note = json.loads(path.read_bytes())
    path.write_text(json.dumps({**note, "at": time.time() - 60}))
    status = live.look()
    assert "capture-silent" in codes(status) and _capture_of(status).silent
