"""Published files that somebody has changed: the next merge stops and names them; a right copy is believed."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ManifestError
from binlog_merge.files.hashed_lines import _canonical, _digest
from binlog_merge.files.intact import NOTE_NAME
from binlog_merge.files.manifest import MANIFEST_NAME
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge, state_of, written

CASE = case_named("rotation")


class Output:
    """An output of several files, the last of them open, which another run goes on with."""

    def __init__(self, folder: Path) -> None:
        self.config = copy_case(CASE, folder / "case", self._small_files)
        merge(self.config, folder / "whole")
        self.whole = written(folder / "whole")
        self.out = folder / "out"
        merge(self.config, self.out, end_of_input=False)
        self.names = [file.name for file in state_of(self.out).files]
        assert len(self.names) >= 3
        assert state_of(self.out).open_file is not None

    @staticmethod
    def _small_files(config: dict[str, Any]) -> None:
        config.setdefault("output", {})["max-size"] = 12_000

    def refused(self, name: str) -> ManifestError:
        before = {path.name: path.read_bytes() for path in self.out.glob("binlog.0*")}
        with pytest.raises(ManifestError) as caught:
            merge(self.config, self.out)
        assert caught.value.file == str(self.out / name)
        assert "put it back from a copy" in caught.value.remedy
        assert {path.name: path.read_bytes() for path in self.out.glob("binlog.0*")} == before
        return caught.value

    def goes_on(self) -> tuple[str, ...]:
        result = merge(self.config, self.out)
        assert written(self.out) == self.whole
        return result.read_again


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path)


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[random.Random(path.name).randrange(4, len(data))] ^= 4
    path.write_bytes(data)


def _shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _another(path: Path) -> None:
    size = path.stat().st_size
    other = next(p for p in sorted(path.parent.glob("binlog.0*")) if p != path)
    path.write_bytes((other.read_bytes() * 20)[:size])


@pytest.mark.parametrize("change", [_flipped, _shorter, _emptied, _zeros, _another])
def test_a_file_that_was_changed_in_place(output: Output, change: Callable[[Path], None]) -> None:
    for name in output.names:
        path = output.out / name
        data = path.read_bytes()
        change(path)
        output.refused(name)
        path.write_bytes(data)
    assert set(output.goes_on()) == set(output.names)


def test_every_byte_of_a_file_counts(output: Output) -> None:
    path = output.out / output.names[0]
    data = path.read_bytes()
    for at in (0, 4, 30, 130, *random.Random(1).choices(range(len(data)), k=30), len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 128]) + data[at + 1 :])
        output.refused(path.name)


def test_the_open_file_is_looked_at_even_if_its_time_is_put_back(output: Output) -> None:
    path = output.out / output.names[-1]
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "last bytes" in output.refused(path.name).message


def test_a_closed_file_with_something_behind_it(output: Output) -> None:
    path = output.out / output.names[0]
    path.write_bytes(path.read_bytes() + b"x")
    assert "the manifest says" in output.refused(path.name).message


def test_what_a_crash_left_behind_the_open_file_is_cut_off(output: Output) -> None:
    path = output.out / output.names[-1]
    path.write_bytes(path.read_bytes() + b"half a transaction")
    assert path.name in output.goes_on()


def test_files_may_be_purged_from_the_front_only(output: Output) -> None:
    second = output.out / output.names[1]
    second.rename(output.out / "kept")
    assert "a later one is there" in output.refused(second.name).message
    (output.out / "kept").rename(second)
    for name in output.names[:2]:
        (output.out / name).unlink()
    merge(output.config, output.out)
    assert written(output.out) == {name: data for name, data in output.whole.items() if name not in output.names[:2]}


@pytest.mark.parametrize("copy", [shutil.copyfile, shutil.copy2])
def test_a_copy_of_an_output_goes_on(output: Output, copy: Callable[..., Any]) -> None:
    before = output.out
    output.out = before.with_name("copied")
    shutil.copytree(before, output.out, copy_function=copy)
    assert list(output.goes_on()) == output.names  # read whole once
    assert output.goes_on() == ()  # and believed then


def test_a_touched_file_is_read_and_believed(output: Output) -> None:
    os.utime(output.out / output.names[0], (1, 1))
    assert output.goes_on() == (output.names[0],)
    assert output.goes_on() == ()


@pytest.mark.parametrize("note", keeping([None, b"[1]"], [None, b"", b"[1]", b'{"binlog.000001": 7}', b"\xff"]))
def test_without_the_note_everything_is_read(output: Output, note: bytes | None) -> None:
    (output.out / NOTE_NAME).unlink()
    if note is not None:
        (output.out / NOTE_NAME).write_bytes(note)
    assert list(output.goes_on()) == output.names


def test_an_older_manifest_goes_on(output: Output) -> None:
    (output.out / NOTE_NAME).unlink()
    path, previous, lines = output.out / MANIFEST_NAME, "", []
    for line in path.read_bytes().splitlines():
        values = json.loads(line) | {"previous": previous}
        del values["sha256"]
        for file in values.get("files", ()):
            del file["tail"]
        previous = _digest(values)
        lines.append(_canonical({**values, "sha256": previous}) + b"\n")
    path.write_bytes(b"".join(lines))
    damaged = output.out / output.names[0]
    data = damaged.read_bytes()
    _flipped(damaged)
    output.refused(damaged.name)
    damaged.write_bytes(data)
    assert list(output.goes_on()) == output.names
