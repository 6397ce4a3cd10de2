"""Closed captured files that are kept in a store: a new host takes from there what its server has purged."""

import os
import shutil
import time
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, ObjectStoreUnreachable, Purged
from binlog_merge.files.captured import hole_of
from binlog_merge.node_capture.kept import KeptFiles
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import capture_now, captured_files, cluster, server_files, url_of
from tests.object_store import Store

pytestmark = pytest.mark.mysql


def write(server: MySqlServer, megabytes: int) -> None:
    for number in range(megabytes):
        server.execute(f"INSERT INTO d.t (b) VALUES (REPEAT('{number % 10}', 1000000))")


@pytest.mark.parametrize("where", ["store", "folder"])
def test_a_new_host_takes_what_the_server_has_purged(
    where: str, mysql_server: MySqlServer, tmp_path: Path, s3: Store
) -> None:
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
    place = s3.uri("captured") if where == "store" else str(tmp_path / "kept")
    Path(tmp_path / "kept").mkdir()
    config = cluster(tmp_path, {"dn-1": url_of(mysql_server)}, capture={"archive": place}, retention={"captured": "1s"})
    out, home = tmp_path / "out", tmp_path / "captured" / "dn-1"
    write(mysql_server, 4)
    capture_now(config)
    merge(config, out, end_of_input=False)
    write(mysql_server, 2)
    mysql_server.execute("FLUSH BINARY LOGS")
    write(mysql_server, 1)
    mysql_server.execute("FLUSH BINARY LOGS; INSERT INTO d.t (b) VALUES ('a')")
    capture_now(config)
    wholes = captured_files(config)
    *closed, last = sorted(wholes)
    kept = KeptFiles(place, "dn-1")
    assert sorted(kept.there()) == closed and wholes == server_files(mysql_server)
    shutil.rmtree(tmp_path / "captured")
    mysql_server.execute(f"PURGE BINARY LOGS TO '{last}'")

    lines: list[str] = []
    capture_now(config, merged=str(out), report=lambda node, text: lines.append(text))
    assert any(f"{len(closed)} files are taken from the archive" in line for line in lines), lines
    hole = hole_of(str(home / closed[0]))
    assert hole is not None and hole.end - hole.begin > 3_000_000
    for name, data in captured_files(config).items():
        assert data[-100:] == wholes[name][-100:] and len(data) == len(wholes[name])
    merge(config, out)

    other = tmp_path / "whole"
    for name, data in wholes.items():
        other.joinpath("captured", "dn-1").mkdir(parents=True, exist_ok=True)
        other.joinpath("captured", "dn-1", name).write_bytes(data)
    shutil.copy(config, other / "cluster.yaml")
    merge(other / "cluster.yaml", other / "out")
    assert written(out) == written(other / "out")

    # What no run needs any more goes, when it is old enough, and when another file is kept.
    time.sleep(1.1)
    mysql_server.execute("FLUSH BINARY LOGS")
    capture_now(config, merged=str(out))
    assert sorted(kept.there()) == [last]

    # Without it the node cannot go on, and the error says so.
    shutil.rmtree(tmp_path / "captured")
    config = cluster(tmp_path, {"dn-1": url_of(mysql_server)})
    mysql_server.execute("FLUSH BINARY LOGS")
    mysql_server.execute(f"PURGE BINARY LOGS TO '{max(server_files(mysql_server))}'")
    with pytest.raises(Purged) as caught:
        capture_now(config, merged=str(out))
    assert "`capture.archive`" in caught.value.remedy


def test_other_bytes_under_a_name(tmp_path: Path) -> None:
    """A server that was reset writes its first files again: the kept ones stay."""
    from tests.files.binlogs import series

    (tmp_path / "kept").mkdir()
    kept = KeptFiles(str(tmp_path / "kept"), "dn-1")
    (tmp_path / "a").mkdir()
    (path,) = series(tmp_path / "a", 1)
    kept.put(path, path.name)
    kept.put(path, path.name)
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    kept.put(path, path.name)
    found = sorted(kept.there())
    assert len(found) == 2 and found[0] == path.name and found[1].startswith(f"{path.name}.")
    assert (tmp_path / "kept" / "dn-1" / path.name).read_bytes() == data


def test_a_url_as_directory_is_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    text = "version: 1\nname: c\nnodes: [{source-id: a, server: 'mysql://a'}]\ncapture: {dir: 's3://b/captured'%s}\n"
    path.write_text(text % "")
    config = MergeConfig.load(path)
    assert config.capture.archive == "s3://b/captured"
    assert config.capture.dir == str(tmp_path / "captured")
    path.write_text(text % ", archive: 's3://c/captured'")
    with pytest.raises(ConfigError, match="short for `archive`"):
        MergeConfig.load(path)
    assert os.sep in config.capture.dir


def test_a_store_that_is_away(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """What is captured does not depend on it, unless there is nothing to go on with."""
    away = "?endpoint_override=http://127.0.0.1:9&region=x&access_key=a&secret_key=b"
    config = cluster(tmp_path, {"dn-1": url_of(mysql_server)}, capture={"archive": f"s3://b/captured{away}"})
    lines: list[str] = []
    mysql_server.execute("FLUSH BINARY LOGS")
    with pytest.raises(ObjectStoreUnreachable):
        capture_now(config, merged=f"s3://b/merged{away}")
    capture_now(config)
    capture_now(config, merged=f"s3://b/merged{away}", report=lambda node, text: lines.append(text))
    assert captured_files(config) == server_files(mysql_server)
    assert any("goes on with what is captured" in line for line in lines)
    assert any("captured files are not kept, and tried again" in line for line in lines)
