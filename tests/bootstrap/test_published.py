"""Bootstraps that come before the merge."""

import shutil
from pathlib import Path
from threading import Timer

import pytest

from binlog_merge.bootstrap.published import awaited
from binlog_merge.errors import NotYet
from binlog_merge.files.log_folder import LogFolder
from tests.binlog_server.merged import merged


def test_the_first_merge_is_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    there = tmp_path / "merged"
    with pytest.raises(NotYet, match="no merge has written"):
        awaited(LogFolder(there), 0.3, said.append)
    assert [line.endswith("waiting for the first that does") for line in said] == [True]
    Timer(0.3, shutil.copytree, (merged("two-nodes"), there)).start()
    assert awaited(LogFolder(there), 60, said.append).last_rank > 0
