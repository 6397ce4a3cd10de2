"""What is measured with a filter is the merge that it says."""

from pathlib import Path

import pytest

from benchmarks import filtered
from benchmarks.runner import InlineRunner
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Rows


def test_half_of_the_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered.shutil, "rmtree", lambda *_, **__: None)
    filtered.run_one(InlineRunner(), tmp_path / "made", 300, filtered.EXPRESSION)
    binlog = Log(tmp_path / "made" / "merged")
    assert sum(isinstance(item, Rows) for item in binlog.items()) == 150 and binlog.last_rank == 301
