"""A capture whose disk is full waits, says so once, and goes on when there is room, in the same process."""

import os
import signal
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.observe.status.observer import Observer
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import Child, captured_files, cluster, command, server_files, url_of
from tests.node_capture.test_capture import until
from tests.small_disk import small_disk

pytestmark = pytest.mark.mysql
MIB = 1 << 20


@pytest.fixture
def config(mysql_server: MySqlServer, tmp_path: Path) -> Path:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
    return cluster(tmp_path, {"dn-1": url_of(mysql_server)}, capture={"dir": str(tmp_path / "disk" / "captured")})


def following(config: Path, *options: str) -> Child:
    return command(["capture", "-c", str(config), "--stop-never", *options], config.parent / "printed")


def said(config: Path, text: str) -> int:
    """Return how often the capture has said something."""
    return sum(text in line for line in (config.parent / "printed.err").read_text().splitlines())


def grow(server: MySqlServer, mib: int) -> None:
    for _ in range(mib):
        server.execute(f"INSERT INTO d.t (b) VALUES (REPEAT('z', {MIB}))")


def test_it_waits_and_goes_on(mysql_server: MySqlServer, config: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        ballast = disk / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 56 * MIB)
        child = following(config)
        until(lambda: captured_files(config) == server_files(mysql_server))
        grow(mysql_server, 10)
        until(lambda: said(config, "No space left on device; it goes on when there is room") == 1)
        codes = {each.code for each in Observer(MergeConfig.load(config), tmp_path / "merged").look().problems}
        assert "disk-full" in codes and not codes & {"capture-failed", "capture-silent", "capture-lost"}
        held = captured_files(config)
        assert all(server_files(mysql_server)[name].startswith(data[:MIB]) for name, data in held.items())
        ballast.unlink()
        until(lambda: captured_files(config) == server_files(mysql_server))
        mysql_server.execute("FLUSH BINARY LOGS; INSERT INTO d.t (b) VALUES ('more')")
        until(lambda: captured_files(config) == server_files(mysql_server))
        child.signal(signal.SIGTERM)
        assert child.exit_code() == 128 + signal.SIGTERM
        assert (said(config, "No space left"), said(config, "there is room again")) == (1, 1)


def test_it_can_be_stopped_while_it_waits(mysql_server: MySqlServer, config: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24) as disk:
        child = following(config, "--log-level", "info")
        until(lambda: captured_files(config) == server_files(mysql_server))
        grow(mysql_server, 25)
        until(lambda: said(config, "waits for room") == 1)
        child.signal(signal.SIGTERM)
        assert child.exit_code() == 128 + signal.SIGTERM
        assert not list(disk.rglob(".room*"))
