"""Which files a node has, and every way in which they cannot be the whole of what it wrote."""

import os
import shutil
import socket
import struct
import tempfile
from pathlib import Path
from uuid import UUID

import pytest

from binlog_merge.binlog.gtid import Gtid, GtidSet
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import (
    ChecksumMismatch,
    ConfigError,
    DuplicateFile,
    EncryptedBinlog,
    FileChanged,
    IoError,
    MergeError,
    MissingFile,
    NoFiles,
    TruncatedEvent,
    UnsupportedInput,
    WrongNode,
)
from binlog_merge.files import listing
from binlog_merge.files.directory import discover
from binlog_merge.files.globs import expand
from binlog_merge.files.node_file import Discovery, KnownFile, open_known
from tests.files.binlogs import binlog, event, series


def config(folder: Path, *nodes: str, server_id: int | None = None) -> MergeConfig:
    return MergeConfig(
        version=1,
        name="n",
        nodes=tuple(Node(source_id=n, files=(f"{folder}/{n}/*",), server_id=server_id) for n in nodes),
    )


def found(folder: Path, *nodes: str) -> Discovery:
    return discover(config(folder, *nodes))


def refused(kind: type[MergeError], folder: Path, *nodes: str) -> MergeError:
    with pytest.raises(kind) as caught:
        found(folder, *nodes)
    assert caught.value.node is not None
    assert caught.value.remedy
    return caught.value


def test_files_come_in_order_of_their_numbers(tmp_path: Path) -> None:
    series(tmp_path / "a", 999_999, 1_000_000, 1_000_001, server_id=1)
    series(tmp_path / "b", 7, server_id=2)
    nodes = found(tmp_path, "b", "a").nodes
    assert [f.name for f in nodes["a"]] == ["mysql-bin.999999", "mysql-bin.1000000", "mysql-bin.1000001"]
    assert list(nodes) == ["b", "a"]


def test_what_the_head_says(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    gtids = struct.pack("<Q", 1) + bytes(16) + struct.pack("<QQQ", 1, 1, 6)
    data = binlog(b"x", version="8.0.36-log", timestamp=1_700_000_000, server_id=11, in_use=True, previous=gtids)
    (tmp_path / "a" / "bin.000003").write_bytes(data)
    file = found(tmp_path, "a").nodes["a"][0]
    assert (file.number, file.size, file.in_use) == (3, len(data), True)
    assert (file.server_version, file.server_id, file.checksum_alg) == ("8.0.36-log", 11, 1)
    assert (file.created, file.first_timestamp, file.previous_gtids) == (1_700_000_000, 1_700_000_000, gtids)


def test_identity_stays_while_a_file_grows_and_is_closed(tmp_path: Path) -> None:
    path = series(tmp_path / "a", 1)[0]
    path.write_bytes(binlog(b"x", in_use=True))
    before = found(tmp_path, "a").nodes["a"][0]
    path.write_bytes(binlog(b"x", b"y", in_use=False))
    after = found(tmp_path, "a").nodes["a"][0]
    assert before.identity == after.identity
    path.write_bytes(binlog(b"x", timestamp=1_795_000_009))
    assert found(tmp_path, "a").nodes["a"][0].identity != before.identity


def test_without_checksums_and_without_previous_gtids(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "bin.000001").write_bytes(binlog(b"x", alg=0, previous=None))
    file = found(tmp_path, "a").nodes["a"][0]
    assert (file.checksum_alg, file.previous_gtids) == (0, None)


def test_previous_gtids_longer_than_the_first_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    long = bytes(200_000)
    (tmp_path / "a" / "bin.000001").write_bytes(binlog(b"x", previous=long))
    assert found(tmp_path, "a").nodes["a"][0].previous_gtids == long


def test_index_and_other_files_are_left_out_and_listed(tmp_path: Path) -> None:
    series(tmp_path / "a", 1)
    for name, text in {"mysql-bin.index": "x", "README": "hello", "mysql-bin.000001~": "x", "tiny.txt": ""}.items():
        (tmp_path / "a" / name).write_text(text)
    discovery = found(tmp_path, "a")
    assert [f.name for f in discovery.nodes["a"]] == ["mysql-bin.000001"]
    assert sorted(Path(f.path).name for f in discovery.ignored) == [
        "README",
        "mysql-bin.000001~",
        "mysql-bin.index",
        "tiny.txt",
    ]


@pytest.mark.parametrize("name", ["mysql-bin.000002.gz", "mysql-bin.000002.zst"])
def test_a_compressed_file_is_not_left_out(tmp_path: Path, name: str) -> None:
    series(tmp_path / "a", 1)
    (tmp_path / "a" / name).write_bytes(b"\x1f\x8b")
    assert "decompress" in refused(UnsupportedInput, tmp_path, "a").remedy


@pytest.mark.parametrize("name", ["mysql-bin.000002.bak", "mysql-bin.2", "binlog"])
def test_a_binlog_without_a_number_is_not_left_out(tmp_path: Path, name: str) -> None:
    series(tmp_path / "a", 1)
    (tmp_path / "a" / name).write_bytes(binlog(b"y"))
    refused(UnsupportedInput, tmp_path, "a")


def test_no_files(tmp_path: Path) -> None:
    series(tmp_path / "a", 1)
    assert refused(NoFiles, tmp_path, "a", "b").node == "b"


def test_a_folder_for_files(tmp_path: Path) -> None:
    series(tmp_path / "a", 1)
    bad = MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=(str(tmp_path / "a"),)),))
    with pytest.raises(IoError, match="is a folder"):
        discover(bad)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((1, 3), "mysql-bin.000002 is missing between mysql-bin.000001 and mysql-bin.000003"),
        ((1, 2, 9), "mysql-bin.000003 to mysql-bin.000008 are missing between mysql-bin.000002 and mysql-bin.000009"),
    ],
)
def test_a_gap_names_both_neighbours(tmp_path: Path, numbers: tuple[int, ...], says: str) -> None:
    series(tmp_path / "a", *numbers)
    assert refused(MissingFile, tmp_path, "a").message == says


def test_the_same_number_twice(tmp_path: Path) -> None:
    first = series(tmp_path / "a", 1)[0]
    series(tmp_path / "a" / "old", 1)
    both = MergeConfig(
        version=1, name="n", nodes=(Node(source_id="a", files=(f"{tmp_path}/a/*.000*", f"{tmp_path}/a/old/*")),)
    )
    with pytest.raises(DuplicateFile, match="identical beginnings"):
        discover(both)
    first.write_bytes(binlog(b"other"))
    with pytest.raises(DuplicateFile, match="different contents"):
        discover(both)


def test_one_path_matched_by_two_patterns_is_one_file(tmp_path: Path) -> None:
    series(tmp_path / "a", 1, 2)
    patterns = (f"{tmp_path}/a/*", f"{tmp_path}/a/mysql-bin.000001")
    both = MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=patterns),))
    assert len(discover(both).nodes["a"]) == 2


def test_a_copy_under_the_next_number(tmp_path: Path) -> None:
    path = series(tmp_path / "a", 1)[0]
    shutil.copy(path, tmp_path / "a" / "mysql-bin.000002")
    assert "begins exactly as" in refused(DuplicateFile, tmp_path, "a").message


def test_an_older_shorter_copy_still_in_use(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "bin.000001").write_bytes(binlog(b"x" * 3000, b"y" * 9000, b"z"))
    (tmp_path / "a" / "bin.000002").write_bytes(binlog(b"x" * 3000, in_use=True))
    refused(DuplicateFile, tmp_path, "a")


def test_one_file_given_to_two_nodes(tmp_path: Path) -> None:
    path = series(tmp_path / "a", 1)[0]
    (tmp_path / "b").mkdir()
    shutil.copy(path, tmp_path / "b" / "mysql-bin.000001")
    error = refused(DuplicateFile, tmp_path, "a", "b")
    assert error.node == "b"
    assert "of node a" in error.message


def test_two_empty_files_of_one_second_are_not_copies(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "bin.000001").write_bytes(binlog())
    (tmp_path / "a" / "bin.000002").write_bytes(binlog())
    assert len(found(tmp_path, "a").nodes["a"]) == 2


def test_two_series_in_one_node(tmp_path: Path) -> None:
    series(tmp_path / "a", 1, name="mysql-bin")
    series(tmp_path / "a", 2, name="binlog")
    assert "binlog.*, mysql-bin.*" in refused(ConfigError, tmp_path, "a").message


def test_another_server_inside_a_node(tmp_path: Path) -> None:
    series(tmp_path / "a", 1, server_id=1)
    series(tmp_path / "a", 2, server_id=2)
    assert "written by server id 2, but mysql-bin.000001 by 1" in refused(WrongNode, tmp_path, "a").message


def test_one_server_under_two_nodes(tmp_path: Path) -> None:
    series(tmp_path / "a", 1, server_id=1)
    series(tmp_path / "b", 2, server_id=1)
    error = refused(WrongNode, tmp_path, "a", "b")
    assert error.node == "b"
    assert "of node a" in error.message


def test_the_configured_server_id(tmp_path: Path) -> None:
    series(tmp_path / "a", 1, server_id=5)
    discover(config(tmp_path, "a", server_id=5))
    with pytest.raises(WrongNode, match="the configuration expects 6"):
        discover(config(tmp_path, "a", server_id=6))


OURS, OTHER = "8a94f357-aab4-11df-86ab-c80aa9429562", "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("previous", "first", "fits"),
    [
        ((), None, True),
        ((OURS,), None, True),
        ((OURS, OTHER), None, True),
        ((OTHER,), OURS, True),
        ((OTHER,), None, False),
        ((), OTHER, False),
    ],
)
def test_the_configured_server_uuid(tmp_path: Path, previous: tuple[str, ...], first: str | None, fits: bool) -> None:
    gtids = GtidSet.of((UUID(sid).bytes, "", 1, 5) for sid in previous).pack()
    data = binlog(previous=gtids)
    if first is not None:
        data += event(33, Gtid(flags=0, sid=UUID(first).bytes, gno=1).pack(), at=len(data))
    write(tmp_path, data)
    node = Node(source_id="a", files=(f"{tmp_path}/a/*",), server_uuid=OURS)
    config = MergeConfig(version=1, name="n", nodes=(node,))
    if fits:
        discover(config)
    else:
        with pytest.raises(WrongNode, match="GTIDs of 11111111"):
            discover(config)


def write(folder: Path, data: bytes, *, later: bool = False) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "mysql-bin.000001").write_bytes(data)
    if later:
        series(folder / "a", 2)


def test_encrypted(tmp_path: Path) -> None:
    write(tmp_path, b"\xfdbin" + bytes(600))
    assert refused(EncryptedBinlog, tmp_path, "a").position == 0


def test_mariadb(tmp_path: Path) -> None:
    write(tmp_path, binlog(version="10.11.18-MariaDB-log"))
    refused(UnsupportedInput, tmp_path, "a")


def test_mysql_5_5(tmp_path: Path) -> None:
    write(tmp_path, binlog(version="5.5.62-log"))
    refused(UnsupportedInput, tmp_path, "a")


def test_before_mysql_5_0(tmp_path: Path) -> None:
    write(tmp_path, b"\xfebin" + event(1, bytes(56), at=4))
    refused(UnsupportedInput, tmp_path, "a")


@pytest.mark.parametrize("data", [b"", b"\xfe", b"\xfebin", binlog()[:20], binlog()[:100]])
def test_a_last_file_without_its_first_event_is_left_out(tmp_path: Path, data: bytes) -> None:
    series(tmp_path / "a", 1)
    (tmp_path / "a" / "mysql-bin.000002").write_bytes(data)
    discovery = found(tmp_path, "a")
    assert [f.name for f in discovery.nodes["a"]] == ["mysql-bin.000001"]
    assert "no complete event yet" in discovery.ignored[0].reason


def test_an_earlier_file_without_its_first_event_is_damage(tmp_path: Path) -> None:
    write(tmp_path, binlog()[:20], later=True)
    refused(TruncatedEvent, tmp_path, "a")


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


@pytest.mark.parametrize("at", [*range(4), 8, *range(13, 24), *range(25, 70), *range(70, 124, 7)])
def test_any_damage_of_the_first_event_is_refused(tmp_path: Path, at: int) -> None:
    write(tmp_path, flipped(binlog(b"x"), at), later=True)
    with pytest.raises((ChecksumMismatch, UnsupportedInput, TruncatedEvent)):
        found(tmp_path, "a")


def test_zeros_and_text_are_not_binlogs(tmp_path: Path) -> None:
    for i, data in enumerate((bytes(1000), b"hello world, this is not a binlog")):
        (tmp_path / str(i)).mkdir()
        write(tmp_path / str(i), data)
        refused(ChecksumMismatch, tmp_path / str(i), "a")


def test_uris_are_read_through_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URI of a local file system, kept from the local shortcut, stands for s3:// here."""
    paths = series(tmp_path / "a", 1, 2)
    series(tmp_path / "a" / "deep", 1)
    monkeypatch.setattr("binlog_merge.files.globs.local_path", lambda path: None)
    monkeypatch.setattr("binlog_merge.files.source.local_path", lambda path: None)
    for pattern in ("a/mysql-bin.*", "a/mysql-bin.00000[12]", "?/mysql-bin.*"):
        remote = MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=(f"file://{tmp_path}/{pattern}",)),))
        assert [f.path for f in discover(remote).nodes["a"]] == [f"file://{path}" for path in paths]
    one = MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=(f"file://{paths[0]}",)),))
    assert len(discover(one).nodes["a"]) == 1
    none = MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=(f"file://{tmp_path}/zz/*",)),))
    with pytest.raises(NoFiles):
        discover(none)


# --- what is no file, or not one yet ---------------------------------------------------------------------------------


def _special(path: Path, kind: str) -> None:
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
def test_what_has_a_binlogs_name_and_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    series(tmp_path / "a", 1)
    _special(tmp_path / "a" / "mysql-bin.000002", kind)
    error = refused(UnsupportedInput, tmp_path, "a")
    assert kind in error.message and error.file == str(tmp_path / "a" / "mysql-bin.000002")


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
def test_what_is_no_file_and_has_another_name_is_left_out_and_listed(tmp_path: Path, kind: str) -> None:
    series(tmp_path / "a", 1)
    _special(tmp_path / "a" / "mysql.sock", kind)
    assert [(Path(f.path).name, f.reason) for f in found(tmp_path, "a").ignored] == [
        ("mysql.sock", f"a {kind}, not a file")
    ]


def test_a_folder_with_a_binlogs_name_is_listed_and_leaves_a_gap(tmp_path: Path) -> None:
    series(tmp_path / "a", 1)
    _special(tmp_path / "a" / "mysql-bin.000002", "folder")
    assert [f.reason for f in found(tmp_path, "a").ignored] == ["a folder, not a file"]
    series(tmp_path / "a", 3)
    assert "mysql-bin.000002 is missing" in refused(MissingFile, tmp_path, "a").message


@pytest.mark.parametrize("size", [0, 1, 3, 4, 22, 23, 60, 118])
def test_a_file_that_a_server_has_only_just_made(tmp_path: Path, size: int) -> None:
    head = binlog(b"x", timestamp=1_795_000_009)
    path = tmp_path / "a" / "mysql-bin.000002"
    series(tmp_path / "a", 1)
    path.write_bytes(head[:size])
    discovery = found(tmp_path, "a")
    assert [f.name for f in discovery.nodes["a"]] == ["mysql-bin.000001"]
    assert [(f.path, f.reason) for f in discovery.ignored] == [
        (str(path), "the last file, and it has no complete event yet")
    ]
    series(tmp_path / "a", 3)
    error = refused(TruncatedEvent, tmp_path, "a")
    assert (error.file, error.position) == (str(path), size)
    for number in (1, 3):
        (tmp_path / "a" / f"mysql-bin.00000{number}").unlink()
    error = refused(NoFiles, tmp_path, "a")
    assert error.file == str(path) and error.message == "the node's only file has no complete event yet"


def test_a_relay_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    description = event(15, struct.pack("<H50sIB", 4, b"9.7.4", 0, 19) + bytes(42) + b"\1", at=4, flags=0x40)
    (tmp_path / "a" / "host-relay-bin.000002").write_bytes(b"\xfebin" + description)
    error = refused(UnsupportedInput, tmp_path, "a")
    assert "relay log" in error.message and "log_replica_updates" in error.remedy


def test_links(tmp_path: Path) -> None:
    outside = series(tmp_path / "elsewhere", 1)[0]
    (tmp_path / "a").mkdir()
    link = tmp_path / "a" / "mysql-bin.000001"
    link.symlink_to(outside)
    assert [f.name for f in found(tmp_path, "a").nodes["a"]] == ["mysql-bin.000001"]
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    assert "link to nothing" in refused(IoError, tmp_path, "a").message
    link.unlink()
    link.symlink_to(link)
    assert "symbolic link" in refused(IoError, tmp_path, "a").message


def test_what_nothing_matches_is_said(tmp_path: Path) -> None:
    error = refused(NoFiles, tmp_path, "a")
    assert f"{tmp_path}/a: No such file or directory" in error.message
    (tmp_path / "a").write_text("")
    assert f"{tmp_path}/a is not a folder" in refused(NoFiles, tmp_path, "a").message


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's rights")
def test_what_may_not_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        paths = series(folder / "a", 1, 2)
        paths[1].chmod(0)
        try:
            os.seteuid(65534)
            error = refused(IoError, folder, "a")
            assert (error.message, error.file) == ("Permission denied", str(paths[1]))
            os.seteuid(0)
            (folder / "a").chmod(0o311)
            os.seteuid(65534)
            assert "cannot be listed: Permission denied" in refused(IoError, folder, "a").message
            os.seteuid(0)
            folder.chmod(0o600)
            os.seteuid(65534)
            assert "Permission denied" in refused(NoFiles, folder, "a").message
        finally:
            os.seteuid(0)


def test_a_file_that_is_purged_while_the_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series(tmp_path / "a", 1, 2, 3)
    purged = str(tmp_path / "a" / "mysql-bin.000001")
    monkeypatch.setattr(listing, "expand", lambda pattern: [*expand(pattern), purged])
    Path(purged).unlink()
    discovery = found(tmp_path, "a")
    assert [f.number for f in discovery.nodes["a"]] == [2, 3]
    assert [(f.path, f.reason) for f in discovery.ignored] == [(purged, "it went away while the folder was read")]


# --- between discovery and reading -----------------------------------------------------------------------------------


def _known(folder: Path) -> tuple[Path, KnownFile]:
    path = series(folder, 1)[0]
    return path, found(folder.parent, folder.name).nodes[folder.name][0].known


def test_a_file_that_grew_is_read_to_where_it_ended(tmp_path: Path) -> None:
    path, known = _known(tmp_path / "a")
    data = path.read_bytes()
    path.write_bytes(data + b"more")
    buffer = bytearray(len(data) + 4)
    with open_known(known) as source:
        assert source.read_into(memoryview(buffer), 0) == len(data) == source.size
    path.write_bytes(data[:4] + bytes([*data[4:21], data[21] ^ 1]) + data[22:])  # closed meanwhile, or opened
    open_known(known).close()


def test_a_file_that_got_shorter_is_told(tmp_path: Path) -> None:
    path, known = _known(tmp_path / "a")
    data = path.read_bytes()
    source = open_known(known)
    path.write_bytes(data[:-1])
    with pytest.raises(FileChanged) as caught:
        source.read_into(memoryview(bytearray(len(data))), 0)
    assert (caught.value.node, caught.value.file, caught.value.position) == ("a", str(path), len(data) - 1)
    with pytest.raises(FileChanged, match=f"has {len(data) - 1} bytes, and had {len(data)}"):
        open_known(known)


def test_a_file_that_was_replaced_or_is_gone_is_told(tmp_path: Path) -> None:
    path, known = _known(tmp_path / "a")
    path.write_bytes(binlog(b"1", b"2", timestamp=1_795_000_077))
    with pytest.raises(FileChanged, match="not the one"):
        open_known(known)
    path.unlink()
    with pytest.raises(FileChanged, match="is gone"):
        open_known(known)
    os.mkfifo(path)
    with pytest.raises(IoError, match="a FIFO"):
        open_known(known)
