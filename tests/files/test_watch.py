"""Folders that are watched: whoever waits goes on when something changes, and at a stop."""

import os
import resource
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import pytest

from binlog_merge.files.watch import LOCAL, FolderWatch, _types_of_file_systems

LONG = 3600.0
"""A wait that only ends in time if something ends it."""


def local(folder: Path) -> bool:
    return _types_of_file_systems().get(folder.stat().st_dev) in LOCAL


@pytest.fixture(autouse=True)
def _told(tmp_path: Path) -> None:
    if not local(tmp_path):
        pytest.skip("nothing tells of changes in the folder of the tests")


def meanwhile(action: Callable[[], object], watch: FolderWatch, stop: Event) -> None:
    """Wait, with an action in another thread while this one waits, or has not begun to."""
    thread = Thread(target=action)
    thread.start()
    watch.wait(stop, LONG, LONG)
    thread.join()


def appended(path: Path) -> Callable[[], object]:
    def append() -> None:
        with path.open("ab") as file:
            file.write(b"x")

    return append


def test_a_wait_ends_when_a_file_grows_appears_or_is_replaced(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    grown = other / "binlog.000001"
    grown.touch()
    with FolderWatch([one, other]) as watch:
        assert watch.tells
        for change in (appended(grown), (one / "new").touch, lambda: (one / "new").replace(grown), grown.unlink):
            meanwhile(change, watch, Event())


def test_what_changed_before_the_wait_ends_it(tmp_path: Path) -> None:
    with FolderWatch([tmp_path]) as watch:
        appended(tmp_path / "a")()
        watch.wait(Event(), LONG, LONG)
        appended(tmp_path / "a")()
        assert watch.take()
        assert not watch.take()


def test_a_stop_ends_it(tmp_path: Path) -> None:
    stop = Event()
    with FolderWatch([tmp_path]) as watch:
        meanwhile(stop.set, watch, stop)
    with FolderWatch(["/proc/self"]) as watch:  # only the kernel knows when these change
        assert not watch.tells
        assert watch.take()
        meanwhile(stop.set, watch, stop)
        with pytest.raises(ValueError, match="nothing tells"):
            watch.fileno()


def test_other_files_than_the_named_one_do_not_count(tmp_path: Path) -> None:
    stop, named = Event(), tmp_path / "manifest"
    with FolderWatch([tmp_path], "manifest") as watch:
        appended(tmp_path / "other")()
        assert not watch.take()

        def both() -> None:
            appended(tmp_path / "other")()
            appended(named)()

        meanwhile(both, watch, stop)


@pytest.mark.parametrize("folders", [[], ["missing"], ["/proc", "."]])
def test_without_inotify_nothing_tells(folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with FolderWatch(folders) as watch:
        assert not watch.tells
        watch.wait(Event(), LONG, 0.0)


def test_a_wait_of_a_process_with_many_files(tmp_path: Path) -> None:
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(least, min(most, 2048)), most))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (least, most))
        while stack.enter_context(Path(os.devnull).open("rb")).fileno() < 1024:
            pass
        with FolderWatch([tmp_path]) as watch:
            assert watch.fileno() > 1024
            meanwhile(appended(tmp_path / "a"), watch, Event())
