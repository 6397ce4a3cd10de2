"""Files of a log in a store, of which a reader has brought a part when its copy is removed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.files import away
from binlog_merge.files.away import Away
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.object_manifest import Segment
from binlog_merge.files.objects import FolderObjects

BLOCK = 100
DATA = {f"binlog.00000{number}": bytes(range(number, number + 250)) * 2 for number in (1, 2)}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Away]:
    monkeypatch.setattr(away, "BLOCK", BLOCK)
    for folder in ("store", "copies"):
        (tmp_path / folder).mkdir()
    for name, data in DATA.items():
        (tmp_path / "store" / name).write_bytes(data)

    def away_of(**options: Any) -> Away:
        objects = FolderObjects(tmp_path / "store")
        return Away(objects, lambda file: (Segment(0, file.size, file.name),), tmp_path / "copies", **options)

    return away_of


def _file(name: str) -> OutputFile:
    return OutputFile(name, len(DATA[name]), True, "", "", 1, 1, 0, 1, 0)


def test_a_reader_whose_copy_is_gone_reads_no_holes(made: Callable[..., Away], tmp_path: Path) -> None:
    """What it has brought before is not in the copy that is made anew."""
    name = next(iter(DATA))
    with made().opened(_file(name), 0) as source:
        assert source.read(BLOCK) == DATA[name][:BLOCK]
        (tmp_path / "copies" / name).unlink()
        source.seek(0)
        assert source.read(3 * BLOCK) == DATA[name][: 3 * BLOCK]


def test_a_reader_whose_copy_made_room_for_another_reads_no_holes(made: Callable[..., Away]) -> None:
    first, second = DATA
    files = made(most_bytes=1)
    with files.opened(_file(first), 0) as source, files.opened(_file(second), 0) as other:
        assert (source.read(BLOCK), other.read(BLOCK)) == (DATA[first][:BLOCK], DATA[second][:BLOCK])
        source.seek(0)
        assert source.read(3 * BLOCK) == DATA[first][: 3 * BLOCK]


def test_what_comes_into_another_file_is_not_noted_as_here(
    made: Callable[..., Away], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is removed while a request is under way: another reader has the first one still."""
    name = next(iter(DATA))
    files = made()
    with files.opened(_file(name), 0) as one, files.opened(_file(name), 0) as other:
        _remove_in_the_next_request(monkeypatch)
        other.seek(2 * BLOCK)
        assert other.read(BLOCK) == DATA[name][2 * BLOCK : 3 * BLOCK]
        one.seek(2 * BLOCK)
        assert one.read(BLOCK) == DATA[name][2 * BLOCK : 3 * BLOCK]


@pytest.mark.parametrize("with_folder", [False, True])
def test_a_copy_that_is_removed_while_a_request_is_under_way_is_brought_anew(
    with_folder: bool, made: Callable[..., Away], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has it open: what comes in its place may have its inode, but not what it had."""
    name = next(iter(DATA))
    files = made()
    with files.opened(_file(name), 0) as source:
        assert source.read(BLOCK) == DATA[name][:BLOCK]
    _remove_in_the_next_request(monkeypatch, with_folder)
    assert files.path(_file(name)).read_bytes() == DATA[name]


def _remove_in_the_next_request(monkeypatch: pytest.MonkeyPatch, with_folder: bool = False) -> None:
    """Let the copy be gone before the bytes of the next request are written into it."""
    fetch = FolderObjects.fetch

    def removed_first(self: FolderObjects, name: str, path: Path, *rest: int) -> str | None:
        monkeypatch.setattr(FolderObjects, "fetch", fetch)
        path.unlink()
        if with_folder:
            path.parent.rmdir()
        return fetch(self, name, path, *rest)

    monkeypatch.setattr(FolderObjects, "fetch", removed_first)
