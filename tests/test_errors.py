"""Errors: one exit code each, and all they know survives the way from an executor."""

import json
import pickle
from pathlib import Path

import pytest

from binlog_merge.errors import (
    CHECK_PATH,
    ERROR_CLASSES,
    EXIT_CODES,
    ChecksumMismatch,
    InternalError,
    IoError,
    MergeError,
    io_remedy,
)
from snapshot_store.tso import OrderKey


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_errors_travel(kind: type[MergeError]) -> None:
    error = kind("a\nb", node="n", file="f", position=0, order_key=OrderKey(1, 2, 3, 4), remedy="do")
    through_json = MergeError.from_dict(json.loads(json.dumps(error.to_dict())))
    for copy in (pickle.loads(pickle.dumps(error)), through_json):
        assert type(copy) is kind
        assert copy.to_dict() == error.to_dict()
        assert str(copy) == str(error)


def test_codes_are_distinct() -> None:
    assert len({row.exit_code for row in EXIT_CODES}) == len(EXIT_CODES)
    assert len({row.code for row in EXIT_CODES}) == len(EXIT_CODES)
    assert [row.exit_code for row in EXIT_CODES] == sorted(row.exit_code for row in EXIT_CODES)
    assert {cls for cls in MergeError.__subclasses__() if cls.__module__ == MergeError.__module__} == set(ERROR_CLASSES)


def test_text_says_what_where_and_what_to_do() -> None:
    error = ChecksumMismatch("the checksum differs", file="mysql-bin.000003", position=4711)
    assert str(error).splitlines() == [
        "checksum-mismatch: the checksum differs",
        "  where:      file mysql-bin.000003, position 4711",
        "  what to do: copy the file from the node again and compare it with `mysqlbinlog --verify-binlog-checksum`",
    ]


def test_located_fills_in_only_what_is_unknown() -> None:
    error = ChecksumMismatch("x", position=0).located(node="n", file="f", position=9, order_key=OrderKey(1, 2, 3, 4))
    assert (error.node, error.file, error.position) == ("n", "f", 0)
    assert error.order_key == OrderKey(1, 2, 3, 4).text()


def test_an_unknown_code_is_an_internal_error() -> None:
    assert type(MergeError.from_dict({"code": "new", "message": "m"})) is InternalError


def test_what_to_do_about_a_file_is_what_may_help(tmp_path: Path) -> None:
    """Where the path is wrong it is to be checked, where a disk is full there is to be room."""
    (tmp_path / "file").touch()
    long = tmp_path / ("x" * 300)
    for path in (tmp_path / "nothing", tmp_path / "file" / "in it", tmp_path, long):
        with pytest.raises(OSError) as caught:
            path.read_bytes()
        assert io_remedy(caught.value) == CHECK_PATH, path
    with pytest.raises(OSError) as caught, Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x")
    assert "free space" in IoError("full", remedy=io_remedy(caught.value)).remedy
