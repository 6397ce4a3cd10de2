"""Removing files: what may go, and that a removal killed at any step is finished by the next start, or never was."""

import os
import shutil
import time
from pathlib import Path

import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.files import failpoint
from binlog_merge.files import manifest as manifests
from binlog_merge.files.head import read_head
from binlog_merge.files.manifest import CapturedFile, Manifest
from binlog_merge.files.publish import recover
from binlog_merge.files.removal import (
    FAILPOINTS,
    LAST_SEEN_SECONDS,
    Reader,
    attached_readers,
    before_file,
    finish,
    for_readers,
    older_than,
    over,
    remove,
)
from binlog_merge.files.source import open_source
from binlog_merge.files.state_notes import NOTES_FOLDER, STALE_SECONDS, write_state_note
from tests.files.outputs import RUNS, listing, run
from tests.merge_e2e.cases import case_named

NAMES = [f"binlog.{number:06d}" for number in (1, 2, 3)]
CAPTURED = sorted((case_named("rotation") / "nodes" / "dn-1").glob("binlog.0*"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for _ in RUNS:
        run(tmp_path / "out")
    return tmp_path / "out"


def captured(tmp_path: Path) -> tuple[Path, list[CapturedFile]]:
    """Return a folder with captured files, and the first two of them."""
    folder = tmp_path / "dn-1"
    shutil.copytree(CAPTURED[0].parent, folder)
    found = []
    for path in CAPTURED[:2]:
        with open_source(str(path)) as source:
            head = read_head(source, "dn-1", str(path))
        assert head is not None
        found.append(CapturedFile(path.name, head.identity, path.stat().st_size))
    return folder, found


def test_what_may_go(out: Path) -> None:
    state = Manifest.load(out).state
    os.utime(out / NAMES[0], (1000, 1000))
    assert [f.name for f in older_than(out, state, 1001)] == NAMES[:1]
    assert older_than(out, state, 1000) == []
    assert [f.name for f in older_than(out, state, time.time() + 9)] == NAMES[:2], "the open file stays"
    assert [f.name for f in over(state, 90_700)] == NAMES[:1]
    assert over(state, 91_200) == []
    assert [f.name for f in over(state, 1)] == NAMES[:2]
    assert [f.name for f in before_file(state, NAMES[1])] == NAMES[:1]
    with pytest.raises(ConfigError, match=r"no file binlog.000009: its files are binlog.000001 to binlog.000003"):
        before_file(state, "binlog.000009")


def test_what_readers_still_have_to_get_stays(out: Path) -> None:
    chosen = over(Manifest.load(out).state, 1)
    choice = for_readers(chosen, [Reader("a", NAMES[1]), Reader("b", NAMES[2])])
    assert ([f.name for f in choice.files], [f.name for f in choice.kept]) == (NAMES[:1], NAMES[1:2])
    assert choice.readers == (Reader("a", NAMES[1]),)
    assert for_readers(chosen, [Reader("new", "")]).files == (), "it may need everything"
    note = out / NOTES_FOLDER / "serve-h-1.json"
    write_state_note(note, {"readers": [{"peer": "a", "file": NAMES[1]}]})
    assert attached_readers(out) == (Reader("a", NAMES[1]),)
    assert attached_readers(out, time.time() + STALE_SECONDS + 1), "it may be held up: by a full disk, say"
    assert attached_readers(out, time.time() + LAST_SEEN_SECONDS + 1) == (), "that serve is gone"
    note.write_text("{}")
    assert attached_readers(out)[0].file == "", "of a damaged note nothing is known"


@pytest.mark.parametrize("setting", [*(f"{name}:raise" for name in FAILPOINTS), "removal-after-file:raise:3", ""])
@pytest.mark.parametrize("folded", [False, True])
def test_a_killed_removal_is_finished_or_never_was(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, folded: bool
) -> None:
    folder, gone = captured(tmp_path)
    before = listing(out)
    manifest = Manifest.load(out)
    if folded:
        monkeypatch.setattr(manifests, "FOLD_BYTES", 1)
    monkeypatch.setattr(failpoint, "_visits", {})
    if setting:
        monkeypatch.setenv(failpoint.VARIABLE, setting)
    try:
        remove(out, manifest, over(manifest.state, 1), {folder: gone})
        assert not setting
    except failpoint.FailpointReached:
        monkeypatch.delenv(failpoint.VARIABLE)
    manifest = Manifest.load(out)
    recover(out, manifest, "binlog")
    finish(out, manifest, {"dn-1": folder})
    there = [path.name for path in sorted(folder.glob("binlog.0*"))]
    found = {name: data for name, data in listing(out).items() if name != "manifest.jsonl"}
    if setting == "manifest-torn:raise":
        assert manifest.state.gone is None and there == [path.name for path in CAPTURED]
        assert found == {name: data for name, data in before.items() if name != "manifest.jsonl"}
        return
    assert found == {NAMES[2]: before[NAMES[2]], "binlog.index": f"./{NAMES[2]}\n".encode()}
    assert there == [path.name for path in CAPTURED[2:]]
    state = manifest.state
    assert state.gone is not None
    assert (state.gone.files, state.gone.bytes, state.gone.last_rank, state.first_rank) == (2, 1200, 2, 3)
    assert (state.gone.captured_files, state.next_number) == (2, 4)
    assert (Path(out / "manifest.jsonl").read_text().count("\n") == 1) is folded


def test_a_captured_file_of_the_same_name_that_came_later_stays(out: Path, tmp_path: Path) -> None:
    folder, gone = captured(tmp_path)
    manifest = Manifest.load(out)
    shutil.copy(CAPTURED[2], folder / CAPTURED[0].name)
    remove(out, manifest, [], {folder: gone})
    finish(out, manifest, {"dn-1": folder})
    assert (folder / CAPTURED[0].name).exists() and not (folder / CAPTURED[1].name).exists()
