"""Nodes whose versions are of the calendar, as MySQL's are since 26.7: greater than all before, in every comparison."""

import zlib
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import version_number
from binlog_merge.files.manifest import Manifest
from snapshot_store import parse_table
from snapshot_store.mysql.sql.session import DdlSession
from tests.binlog_server.running import serving
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge

_VERSION = slice(4 + 19 + 2, 4 + 19 + 2 + 50)


def _written_by(path: Path, version: str) -> None:
    """Let a file say that another version has written it."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[4 + 9 : 4 + 13], "little")
    data[_VERSION] = version.encode().ljust(50, b"\0")
    in_use = data[4 + 17]
    data[4 + 17] &= 0xFE  # as the server clears it for the sum
    data[size : size + 4] = zlib.crc32(data[4:size]).to_bytes(4, "little")
    data[4 + 17] = in_use
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (("26.7.0", "9.7.4"), "26.7.0"),
        (("9.7.4", "26.10.0-commercial"), "26.10.0-commercial"),
        (("26.7.0", "26.10.0"), "26.10.0"),
    ],
)
def test_the_newest_version_is_announced(versions: tuple[str, str], newest: str, tmp_path: Path) -> None:
    config = copy_case(case_named("two-nodes"), tmp_path / "case")
    files = sorted(config.parent.rglob("binlog.0*"))
    nodes = sorted({file.parent for file in files})
    assert len(nodes) == 2
    for file in files:
        _written_by(file, versions[nodes.index(file.parent)])
    merge(config, tmp_path / "out")
    state = Manifest.load(tmp_path / "out").state
    assert state.header is not None and state.header.server_version == newest
    with serving(tmp_path / "out") as running:
        assert running.query("SELECT VERSION()") == [(f"{newest}-binlog-merge",)]
        assert running.query(f"SELECT /*!{version_number(newest)} 1, */ /*!270100 3, */ 2") == [(1, 2)]


def test_numbers_of_versions_are_in_the_order_of_the_versions() -> None:
    versions = ["5.7.44-log", "8.0.36", "8.4.5", "9.7.4-2", "26.7.0", "26.7.1-tr", "26.10.0", "27.1.0"]
    numbers = [version_number(version) for version in versions]
    assert numbers == sorted(numbers) and version_number("26.10.2") == 261002


@pytest.mark.parametrize(("version", "columns"), [(90704, ["a"]), (260700, ["a", "b"]), (261000, ["a", "b", "c"])])
def test_what_a_comment_keeps_for_a_version(version: int, columns: list[str]) -> None:
    sql = "CREATE TABLE t (a INT /*!260700 , b INT */ /*!261000 , c INT */ /*!270100 , d INT */)"
    assert [column.name for column in parse_table(sql, session=DdlSession(server_version=version)).columns] == columns
