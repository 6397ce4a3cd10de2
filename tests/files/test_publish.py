"""Publishing, killed at every step: the next run ends with the same bytes as one that was never killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog_merge.errors import InternalError, IoError, ManifestError, OutputBusy, RenderedDamaged
from binlog_merge.files import failpoint
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.parts import Rendered
from binlog_merge.files.publish import FAILPOINTS, part_path, publish, recover
from binlog_merge.files.source import open_source
from tests.files.outputs import RUNS, contents, header, listing, output_file, record, run, write
from tests.forked import forked


def undisturbed(folder: Path) -> list[dict[str, bytes]]:
    """Return what the directory holds after each run."""
    after = []
    for _ in RUNS:
        run(folder)
        after.append(listing(folder))
    return after


def test_two_runs(tmp_path: Path) -> None:
    first, second = undisturbed(tmp_path)
    assert sorted(first) == ["binlog.000001", "binlog.000002", "binlog.index", "manifest.jsonl"]
    assert second["binlog.index"] == b"./binlog.000001\n./binlog.000002\n./binlog.000003\n"
    assert second["binlog.000002"] == contents(2, 700)
    run(tmp_path)
    assert listing(tmp_path) == second


def killed(folder: Path, setting: str) -> None:
    assert forked(run, folder, failpoint=setting) == -signal.SIGKILL


# The first run has no file to go on in; the second renames one, and its record has two visits as the header is there.
_NEVER = (
    {"publish-appended:kill", "publish-appended:kill:2"},
    {"publish-after-rename:kill:2", "manifest-torn:kill:3"},
)


@pytest.mark.parametrize(
    "setting",
    [
        *(f"{name}:kill" for name in FAILPOINTS),
        "publish-appended:kill:2",
        "publish-after-rename:kill:2",
        "manifest-torn:kill:3",
    ],
)
@pytest.mark.parametrize("runs_before", [0, 1])
def test_a_killed_run_is_made_again_byte_for_byte(tmp_path: Path, setting: str, runs_before: int) -> None:
    expected = undisturbed(tmp_path / "undisturbed")
    out = tmp_path / "out"
    for _ in range(runs_before):
        run(out)
    if setting in _NEVER[runs_before]:
        return
    killed(out, setting)
    recover(out, Manifest.load(out), "binlog")
    published = Manifest.load(out).state.run
    assert published == runs_before or setting == "publish-after-manifest:kill"
    held = {name: data for name, data in listing(out).items() if name != "manifest.jsonl"}
    before = {} if published == 0 else {k: v for k, v in expected[published - 1].items() if k != "manifest.jsonl"}
    assert held == before
    while Manifest.load(out).state.run < len(RUNS):
        run(out)
    assert listing(out) == expected[-1]


def test_failpoints_can_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoint.VARIABLE, "publish-before-manifest:raise")
    with pytest.raises(failpoint.FailpointReached):
        run(tmp_path)
    monkeypatch.delenv(failpoint.VARIABLE)
    run(tmp_path)
    assert Manifest.load(tmp_path).state.run == 1


def test_files_of_someone_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(b"a server's own")
    with pytest.raises(ManifestError, match="not an output of binlog-merge"):
        run(tmp_path)
    assert (tmp_path / "binlog.000001").read_bytes() == b"a server's own"


def test_other_names_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    run(tmp_path)
    for name in ("notes.txt", "binlog.bak", "otherbinlog.000009", "binlog.00009"):
        (tmp_path / name).write_text("mine")
    recover(tmp_path, Manifest.load(tmp_path), "binlog")
    assert {"notes.txt", "binlog.bak", "otherbinlog.000009", "binlog.00009"} <= set(listing(tmp_path))


def test_closed_files_may_be_purged_but_the_open_one_may_not(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "binlog.000001").unlink()
    recover(tmp_path, Manifest.load(tmp_path), "binlog")
    assert (tmp_path / "binlog.index").read_bytes() == b"./binlog.000002\n"
    run(tmp_path)
    assert (tmp_path / "binlog.index").read_bytes() == b"./binlog.000002\n./binlog.000003\n"
    (tmp_path / "binlog.000003").unlink()
    with pytest.raises(ManifestError, match="goes on in it"):
        recover(tmp_path, Manifest.load(tmp_path), "binlog")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("binlog.000001", contents(1, 499)),
        ("binlog.000001", contents(1, 501)),
        ("binlog.000002", contents(2, 299)),
        ("binlog.000002", b"X" + contents(2, 400)),
    ],
)
def test_changed_published_bytes_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    run(tmp_path)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ManifestError):
        recover(tmp_path, Manifest.load(tmp_path), "binlog")


def test_a_file_of_another_size_than_its_record_is_not_published(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    manifest.append(header())
    part = write(part_path(tmp_path, "binlog.000001"), b"short")
    one = record(1, output_file(1, 500, closed=False))
    with pytest.raises(InternalError, match="5 bytes, not 500"):
        publish(tmp_path, manifest, one, {"binlog.000001": part})
    with pytest.raises(InternalError, match="other files"):
        publish(tmp_path, manifest, one, {})
    with pytest.raises(IoError):
        publish(tmp_path, manifest, one, {"binlog.000001": Rendered(tmp_path / "none", 500, 0)})


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a hole": lambda data: data[:10] + bytes(20) + data[30:],
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"0",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("number", [2, 3])
def test_what_is_not_as_its_task_wrote_it_is_not_published(
    tmp_path: Path, number: int, damage: Callable[[bytes], bytes]
) -> None:
    """Neither what the open file grows by, nor a new one; and the next run goes on as if nothing had been."""
    run(tmp_path)
    before, state = listing(tmp_path), Manifest.load(tmp_path).state
    manifest = Manifest.load(tmp_path)
    parts = {
        2: write(part_path(tmp_path, "binlog.000002"), contents(2, 700)[300:]),
        3: write(part_path(tmp_path, "binlog.000003"), contents(3, 90_000)),
    }
    parts[number].path.write_bytes(damage(parts[number].path.read_bytes()))
    files = [output_file(n, length, closed=closed) for n, length, closed in RUNS[2]]
    with pytest.raises(RenderedDamaged, match=f"binlog.00000{number} has"):
        publish(tmp_path, manifest, record(2, *files), {f"binlog.00000{n}": part for n, part in parts.items()})
    assert Manifest.load(tmp_path).state == state and listing(tmp_path) == before
    run(tmp_path)
    assert listing(tmp_path)["binlog.000003"] == contents(3, 90_000)
    assert listing(tmp_path)["binlog.000002"] == contents(2, 700)


def test_two_merges_of_one_output(tmp_path: Path) -> None:
    with OutputLock(tmp_path), pytest.raises(OutputBusy, match=f"process {os.getpid()}"), OutputLock(tmp_path):
        pass
    with OutputLock(tmp_path):
        pass


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import os,signal,sys; from binlog_merge.files.lock import OutputLock\n"
        "with OutputLock(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    with OutputLock(tmp_path):
        pass


def test_an_output_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(IoError), OutputLock(tmp_path / "file" / "out"):
        pass


@pytest.mark.parametrize("remote", [False, True])
def test_sources_read_ranges(tmp_path: Path, remote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a b.000001"
    path.write_bytes(bytes(range(256)))
    name = f"file://{tmp_path}/a%20b.000001"
    if remote:
        monkeypatch.setattr("binlog_merge.files.source.local_path", lambda path: None)
    with open_source(name) as source:
        assert source.size == 256
        buffer = bytearray(10)
        assert source.read_into(memoryview(buffer), 5) == 10
        assert buffer == bytes(range(5, 15))
        assert source.read_into(memoryview(buffer), 250) == 6
        assert buffer[:6] == bytes(range(250, 256))
        assert source.read_into(memoryview(buffer), 256) == 0
        assert source.read_into(memoryview(buffer), 1000) == 0
        assert source.read_into(memoryview(bytearray()), 0) == 0
    source.close()
    with pytest.raises(IoError):
        open_source(name + "x")


def test_a_file_in_place_of_the_directory_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("something")
    for place in (file, file / "below"):
        with pytest.raises(IoError, match="no directory"), OutputLock(place):
            pass
    assert file.read_text() == "something"
