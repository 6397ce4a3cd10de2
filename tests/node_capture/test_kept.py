"""Closed captured files that are kept in a store: a new host takes from there what its server has purged."""

import os
import shutil
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, ObjectStoreUnreachable, Purged
from binlog_merge.files.captured import hole_of
from binlog_merge.files.head import file_identity
from binlog_merge.files.needed import CapturedBefore, Needed
from binlog_merge.files.objects import FolderObjects
from binlog_merge.files.servers import LogEnd
from binlog_merge.files.source import LocalSource
from binlog_merge.node_capture.begin import prepared
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.kept import Keeper, KeptFiles
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


def test_what_is_kept_of_a_log_that_was_reset_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    """The new log's files have the names of the old one's: they are kept all the same, and they alone are taken."""
    from tests.files.binlogs import series

    (tmp_path / "kept").mkdir()
    (tmp_path / "a").mkdir()
    kept = KeptFiles(str(tmp_path / "kept"), "dn-1")
    old = series(tmp_path / "a", 1, 2, 3, 4)

    def keep() -> None:
        Keeper(kept, lambda: (NodeFiles(tmp_path / "a", "dn-1"), ""), lambda text: None).keep()

    keep()
    assert len(kept.there()) == 3
    old[3].unlink()
    for path in old[:3]:
        data = path.read_bytes()
        began = int.from_bytes(data[4:8], "little") + 1000
        path.write_bytes(data[:4] + began.to_bytes(4, "little") + data[8:] + b"longer")
    keep()
    keep()
    assert len(kept.there()) == 5
    with LocalSource(str(old[0])) as source:
        identity = file_identity(source)
    assert identity is not None
    at = LogEnd("", old[0].name, 4)
    needed = Needed("dn-1", at, identity, at, at, None, CapturedBefore(str(uuid.uuid4()), 4), "merged")
    (tmp_path / "new").mkdir()
    assert kept.take(tmp_path / "new", needed) == 2
    for path in old[:2]:
        assert (tmp_path / "new" / path.name).read_bytes() == path.read_bytes()
    later = replace(needed, oldest=LogEnd("", old[1].name, 4))
    assert sorted(name[:16] for name in kept.remove(later, time.time() + 10)) == [old[0].name] * 2
    assert len(kept.there()) == 3


def test_what_was_taken_in_part_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is away in between leaves nothing from which a capture would go on at the server."""
    from tests.files.binlogs import series

    (tmp_path / "kept").mkdir()
    kept = KeptFiles(str(tmp_path / "kept"), "dn-1")
    paths = series(tmp_path / "a", 1, 2, 3)
    for path in paths:
        kept.put(path, path.name)
    with LocalSource(str(paths[0])) as source:
        identity = file_identity(source)
    assert identity is not None
    at = LogEnd("", paths[0].name, 4)
    needed = Needed("dn-1", at, identity, at, at, None, CapturedBefore(str(uuid.uuid4()), 4), "merged")
    home, fetch = tmp_path / "new", FolderObjects.fetch
    home.mkdir()

    def once(self: FolderObjects, name: str, path: Path, size: int) -> str | None:
        def away(*_: object) -> None:
            raise ObjectStoreUnreachable("it is away")

        monkeypatch.setattr(FolderObjects, "fetch", away)
        return fetch(self, name, path, size)

    monkeypatch.setattr(FolderObjects, "fetch", once)
    with pytest.raises(ObjectStoreUnreachable):
        kept.take(home, needed)
    monkeypatch.setattr(FolderObjects, "fetch", fetch)
    assert prepared(home, needed, lambda text: None) == needed
    assert kept.take(home, needed) == 3
    assert prepared(home, needed, lambda text: None) is None
    assert [(home / path.name).read_bytes() for path in paths] == [path.read_bytes() for path in paths]


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
