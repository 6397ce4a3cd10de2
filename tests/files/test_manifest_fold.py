"""A manifest that is folded: the same state, from fewer lines, whatever the moment of a crash."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.errors import ManifestError
from binlog_merge.files import failpoint, manifest
from binlog_merge.files.failpoint import FailpointReached
from binlog_merge.files.manifest import MANIFEST_NAME, Folded, Manifest, encode_record
from tests.files.outputs import header, output_file, record


def grown(directory: Path, runs: int) -> Manifest:
    """Return the manifest of a directory after some more runs, each of which lengthens the open file."""
    found = Manifest.load(directory)
    if found.state.header is None:
        found.append(header())
    for _ in range(runs):
        number = found.state.run + 1
        found.append(record(number, replace(output_file(1, 100 * number, closed=False), last_rank=number)))
    return found


def kinds(directory: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (directory / MANIFEST_NAME).read_text().splitlines()]


def test_a_long_manifest_is_folded_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD_BYTES", 10_000)
    runs = 0
    while "folded" not in kinds(tmp_path) if runs else True:
        runs += 1
        written = grown(tmp_path, 1)
        assert Manifest.load(tmp_path).state == written.state
        assert written.state.run == runs
    assert kinds(tmp_path) == ["folded"]
    for _ in range(3 * runs):
        written = grown(tmp_path, 1)
        assert Manifest.load(tmp_path).state == written.state
    assert (tmp_path / MANIFEST_NAME).stat().st_size < 15_000
    assert kinds(tmp_path)[0] == "folded"
    assert kinds(tmp_path).count("folded") == 1


def test_a_header_may_follow_what_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD_BYTES", 1)
    found = grown(tmp_path, 2)
    assert kinds(tmp_path)[0] == "folded"
    monkeypatch.undo()
    found.append(replace(header(), carrier="gtid"))
    grown(tmp_path, 1)
    state = Manifest.load(tmp_path).state
    assert state.header is not None and state.header.carrier == "gtid" and state.run == 3


@pytest.mark.parametrize("place", ["manifest-before-fold", "manifest-after-fold"])
def test_a_crash_while_it_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    before = grown(tmp_path, 3).state
    monkeypatch.setattr(manifest, "FOLD_BYTES", 1)
    monkeypatch.setenv(failpoint.VARIABLE, f"{place}:raise")
    with pytest.raises(FailpointReached):
        grown(tmp_path, 1)
    monkeypatch.undo()
    state = Manifest.load(tmp_path).state
    assert state.run == before.run + 1
    assert grown(tmp_path, 2).state.run == before.run + 3


def test_a_full_disk_leaves_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD_BYTES", 1)
    (tmp_path / f".{MANIFEST_NAME}.part").mkdir()  # nothing can be written there
    written = grown(tmp_path, 5)
    assert kinds(tmp_path) == ["header"] + 5 * ["publish"]
    (tmp_path / f".{MANIFEST_NAME}.part").rmdir()
    grown(tmp_path, 1)
    assert kinds(tmp_path) == ["folded"]
    assert Manifest.load(tmp_path).state.run == written.state.run + 1


def test_only_what_was_appended_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = grown(tmp_path, 2)
    assert Manifest.load(tmp_path, known).state == known.state
    grown(tmp_path, 2)
    path = tmp_path / MANIFEST_NAME
    damaged = path.read_bytes().replace(b'"kind"', b'"kinx"', 1)
    with path.open("r+b") as file:
        file.write(damaged)
    with pytest.raises(ManifestError):
        Manifest.load(tmp_path)
    newer = Manifest.load(tmp_path, known)
    assert newer.state.run == 4
    path.write_bytes(damaged[:50])
    assert Manifest.load(tmp_path, newer).state.run == 0
    path.unlink()
    assert Manifest.load(tmp_path, newer).state.run == 0


def test_one_that_was_folded_since_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = grown(tmp_path, 2)
    monkeypatch.setattr(manifest, "FOLD_BYTES", 1)
    written = grown(tmp_path, 1)
    assert kinds(tmp_path) == ["folded"]
    assert Manifest.load(tmp_path, known).state == written.state


def test_what_is_folded_stands_first(tmp_path: Path) -> None:
    state = grown(tmp_path, 2).state
    assert state.header is not None
    with pytest.raises(ManifestError, match="folded"):
        Manifest.load(tmp_path).append(Folded(state.header, state.last, state.files))


def test_a_reader_is_not_misled_by_a_new_file_with_the_number_of_the_old_one(tmp_path: Path) -> None:
    """File systems give numbers of files again; a copy of a log in an object store is replaced all the time."""
    grown(tmp_path, 3)
    path = tmp_path / MANIFEST_NAME

    def fold() -> None:
        line, _ = encode_record(Manifest.load(tmp_path).state.folded(), "")
        path.write_bytes(line)  # into the same file

    fold()
    known = Manifest.load(tmp_path)
    for runs in (1, 30):
        grown(tmp_path, runs)  # a file of the same size, and one that is longer
        fold()
        assert Manifest.load(tmp_path, known).state == Manifest.load(tmp_path).state
    known = grown(tmp_path, 2)
    grown(tmp_path, 200)
    fold()
    assert Manifest.load(tmp_path, known).state == Manifest.load(tmp_path).state
