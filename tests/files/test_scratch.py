"""Folders for the moment: each is its maker's alone, whoever sweeps meanwhile; those of the dead go."""

import tempfile
import threading
from pathlib import Path

import pytest

from binlog_merge.files import scratch
from tests.effort import effort


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_that_is_made_is_not_swept() -> None:
    """Others that begin at the same moment sweep what nobody holds: also what is not held yet."""
    done = threading.Event()
    parent = scratch.users_folder()

    def sweeping() -> None:
        while not done.is_set():
            scratch._sweep(parent, scratch._TASK)

    others = [threading.Thread(target=sweeping) for _ in range(3)]
    for other in others:
        other.start()
    try:
        for number in range(effort(400, 20_000)):
            with scratch.scratch_folder() as folder:
                (folder / "file").write_bytes(b"%d" % number)
                assert (folder / "file").read_bytes() == b"%d" % number
            assert not folder.exists()
    finally:
        done.set()
        for other in others:
            other.join()
    assert not list(parent.iterdir())


def test_what_the_dead_have_left_goes() -> None:
    left = scratch.users_folder() / f"{scratch._TASK}dead"
    left.mkdir()
    (left / scratch._LOCK).touch()
    with scratch.scratch_folder():
        assert not left.exists()
