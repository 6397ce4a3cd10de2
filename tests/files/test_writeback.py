"""Write-behind: everything gets to the disk, and no error is lost."""

import os
from pathlib import Path

import pytest

from binlog_merge.files import disk
from binlog_merge.files.disk import WriteBehind


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "STEP", 4096)


def test_flushes_as_the_file_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: flushed.append(os.fstat(fd).st_size))
    with (tmp_path / "file").open("wb", buffering=0) as file:
        behind = WriteBehind(file.fileno())
        for number in range(8):
            file.write(bytes(2048))
            behind.wrote(2048 * (number + 1))
        behind.finish()
    assert len(flushed) == 4
    assert flushed[-1] == 8 * 2048


def test_small_files_take_no_thread(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        behind = WriteBehind(file.fileno())
        behind.wrote(4095)
        assert behind._thread is None
        behind.finish()


def test_an_error_is_raised_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with (tmp_path / "file").open("wb") as file:
        behind = WriteBehind(file.fileno())
        behind.wrote(4096)
        with pytest.raises(OSError, match="Input/output error"):
            behind.finish()
        with pytest.raises(OSError, match="Input/output error"):
            behind.finish()


def test_goes_on_behind_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    with (tmp_path / "file").open("wb") as file:
        behind = WriteBehind(file.fileno())
        behind.wrote(8192)
        behind.truncated(0)
        behind.wrote(4096)
        behind.finish()
    assert len(flushed) == 2
