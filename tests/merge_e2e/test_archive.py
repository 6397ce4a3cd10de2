"""The archive: closed files are sent there before they may go, and are read there as if they were here."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.sections import Archive, Retention
from binlog_merge.errors import ConfigError
from binlog_merge.files.archive import FAILPOINTS
from binlog_merge.files.archived import read_note
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.remote_log import opened_log
from binlog_merge.observe.status.observer import Observer
from binlog_merge.pipeline import archiving
from binlog_merge.pipeline.rounds import Rounds
from tests.binlog_server.running import remote_mysqlbinlog, serving, without
from tests.command_line import command_line
from tests.effort import THOROUGH, keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.killed import merge_until
from tests.merge_e2e.local import LocalRunner, merge, state_of, written
from tests.object_store import KEY, SECRET, Store


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case with DDL, cut into several output files."""
    return copy_case(case_named("ddl-by-markers"), tmp_path_factory.mktemp("archive") / "case", max_size(4000))


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield


@pytest.fixture(params=keeping(["s3 zstd", "folder"], ["s3", "s3 zstd", "folder", "folder zstd"]))
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """An archive of each kind."""
    kind, _, compress = str(request.param).partition(" ")
    if kind == "folder":
        (tmp_path / "archive").mkdir()
        return Archive(to=str(tmp_path / "archive"), compress=compress or "none")
    s3: Store = request.getfixturevalue("s3")
    return Archive(to=s3.uri("kept"), compress=compress or "none")


def with_archive(case: Path, archive: Archive | None, **retention: Any) -> MergeConfig:
    config = MergeConfig.load(case)
    return config.model_copy(update={"archive": archive, "retention": Retention(**retention)})


def closed(case: Path) -> dict[str, bytes]:
    return dict(sorted(whole(case).items())[:-1])


def here(out: Path) -> list[str]:
    return sorted(path.name for path in out.glob("binlog.0*"))


def test_removed_files_are_read_in_the_archive(archive: Archive, case: Path, tmp_path: Path) -> None:
    out, local = tmp_path / "out", tmp_path / "local"
    merge(case, local)
    found = merge(with_archive(case, archive, size=1), out)
    assert found.removed["files"] == list(whole(case))[: len(found.removed["files"])]
    assert len(here(out)) == 1, "all closed files but the last are removed"
    with opened_log(archive.to) as there:
        read = {file.name: there.path(file).read_bytes() for file in there.state().files}
    assert read == {name: data for name, data in whole(case).items() if name in read}
    assert set(found.removed["files"]) <= set(read)
    for verb in (
        ["verify", "OUT"], ["position-of", "--tso", state_of(local).files[1].last_key, "OUT"],
        ["tso-of", "--position", f"binlog.000001:{state_of(local).files[0].size}", "OUT"],
        ["replay", "--from", "OUT", "--dry-run"], ["inspect", "-v", "OUT/binlog.000001"],
    ):  # fmt: skip
        one, other = (command_line([word.replace("OUT", str(where)) for word in verb]) for where in (out, local))
        assert one.returncode == 0, one.stderr
        assert one.stdout.replace(str(out), "X") == other.stdout.replace(str(local), "X")
    with serving(out) as running, serving(local) as whole_log:
        assert running.events(without(GtidSet())) == whole_log.events(without(GtidSet()))
        assert running.query("SHOW BINARY LOGS") == whole_log.query("SHOW BINARY LOGS")
        assert running.query("SELECT @@gtid_purged") == whole_log.query("SELECT @@gtid_purged")
    assert not merge(with_archive(case, archive, size=1), out).files, "and it goes on"


@pytest.mark.mysql
def test_mysqlbinlog_gets_removed_files(s3: Store, case: Path, tmp_path: Path) -> None:
    merge(with_archive(case, Archive(to=s3.uri("kept"), compress="zstd"), size=1), tmp_path / "out")
    (tmp_path / "raw").mkdir()
    with serving(tmp_path / "out") as running:
        remote_mysqlbinlog(running.port, "-R", "--raw", "--to-last-log", "binlog.000001", folder=tmp_path / "raw")
    assert {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()} == whole(case)


@pytest.mark.parametrize(
    "failpoint",
    keeping(
        # A file is there and not named; and it is named, and nothing is removed yet.
        ["object-before-manifest:kill", "removal-after-manifest:kill"],
        [*(f"{name}:kill" for name in FAILPOINTS), *(f"{name}:kill:2" for name in FAILPOINTS),
         "object-before-manifest:kill", "object-after-manifest:kill:2", "removal-after-manifest:kill",
         "removal-after-file:kill"],
    ),
)  # fmt: skip
@pytest.mark.parametrize("compress", ["none", "zstd"] if THOROUGH else ["zstd"])
def test_killed_at_each_step(failpoint: str, compress: str, case: Path, s3: Store, tmp_path: Path) -> None:
    place = s3.uri("kept", f"access_key={KEY}", f"secret_key={SECRET}")
    config, out = with_archive(case, Archive(to=place, compress=compress), size=1), tmp_path / "out"  # type: ignore[arg-type]
    assert merge_until(failpoint, config, out)
    folder = LogFolder(out)
    seen = {file.name: folder.path(file).read_bytes() for file in folder.state().files}
    assert seen == {name: data for name, data in whole(case).items() if name in seen}
    assert len(seen) == len(whole(case)), "nothing was removed that is not archived"
    merge(config, out)
    folder = LogFolder(out)
    assert {file.name: folder.path(file).read_bytes() for file in folder.state().files} == whole(case)
    assert len(here(out)) == 1
    assert sum(name.startswith("binlog.0") for name in s3.objects("kept/")) == len(closed(case))
    note = (out / "archive.json").read_text()
    assert SECRET not in note and KEY not in note


def test_a_store_that_fails_stops_no_merge(s3: Store, case: Path, tmp_path: Path) -> None:
    out, nowhere = tmp_path / "out", s3.uri("kept", bucket="no-such-bucket")
    found = merge(with_archive(case, Archive(to=nowhere), size=1), out)
    assert written(out) == whole(case)
    assert any("no bucket 'no-such-bucket'" in warning for warning in found.warnings)
    assert found.removed["kept_for_archive"][0] == "binlog.000001"
    seen = Observer(with_archive(case, Archive(to=nowhere)), out).look()
    assert [p.code for p in seen.problems if p.code.startswith("archive")] == ["archive-failed"]
    assert seen.archive is not None and seen.archive.waiting_files == len(closed(case))
    refused = command_line(["purge", out, "--to", "binlog.000002", "--force"])
    assert refused.returncode == 57 and written(out) == whole(case)
    s3.client().create_bucket(Bucket="no-such-bucket")
    try:
        merge(with_archive(case, Archive(to=nowhere)), out)
        seen = Observer(with_archive(case, Archive(to=nowhere)), out).look()
        assert seen.archive is not None and not seen.archive.waiting_files and not seen.problems
        purged = command_line(["purge", out, "--to", "binlog.000003"])
        assert purged.returncode == 0, purged.stderr
        assert command_line(["verify", out]).returncode == 0
    finally:
        other = Store(s3.address, "no-such-bucket")
        for name in other.objects():
            s3.client().delete_object(Bucket="no-such-bucket", Key=name)
        s3.client().delete_bucket(Bucket="no-such-bucket")


def test_without_archive_files_may_go_again(case: Path, tmp_path: Path) -> None:
    out, archive = tmp_path / "out", Archive(to=str(tmp_path / "not mounted"))
    found = merge(with_archive(case, archive), out)
    assert any("no such folder" in warning for warning in found.warnings)
    assert command_line(["purge", out, "--to", "binlog.000002"]).returncode == 57
    assert merge(with_archive(case, None), out).warnings == merge(case, tmp_path / "local").warnings
    assert command_line(["purge", out, "--to", "binlog.000002"]).returncode == 0


def test_another_log_is_not_mixed_in(case: Path, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    archive = Archive(to=str(tmp_path / "archive"))
    merge(with_archive(case, archive), tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "archive").rglob("*") if path.is_file()}
    again = merge(with_archive(case, archive, size=1), tmp_path / "again")
    assert not again.removed.get("kept_for_archive"), "the same bytes are archived already"
    other = copy_case(case_named("two-nodes"), tmp_path / "two", max_size(5000))
    found = merge(with_archive(other, archive), tmp_path / "other")
    assert any("holds the log of" in warning for warning in found.warnings)
    cut = copy_case(case.parent, tmp_path / "cut", max_size(9000))
    found = merge(with_archive(cut, archive), tmp_path / "elsewhere")
    assert any("another binlog.000001" in warning for warning in found.warnings)
    assert {path: path.read_bytes() for path in (tmp_path / "archive").rglob("*") if path.is_file()} == before


def test_a_changed_file_is_not_archived(case: Path, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    out = tmp_path / "out"
    merge(case, out)
    data = bytearray((out / "binlog.000001").read_bytes())
    data[300] ^= 1
    (out / "binlog.000001").write_bytes(data)
    config = with_archive(case, Archive(to=str(tmp_path / "archive")))
    sender = archiving.Archiver(config, out)
    sender.published(Manifest.load(out).state)
    assert sender.problem is not None and "binlog.000001" in sender.problem
    assert not list((tmp_path / "archive").glob("binlog.0*"))


def test_beside_rounds(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is mounted late: rounds go on, and send what they have closed when it comes."""
    monkeypatch.setattr(archiving, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(archiving, "_LAST_PAUSE", 0.05)
    place, out = tmp_path / "archive", tmp_path / "out"
    config = with_archive(case, Archive(to=str(place), compress="zstd"), size=1)
    with Rounds(LocalRunner(), config, out) as rounds:
        assert rounds.merge(end_of_input=True).removed["kept_for_archive"]
        assert written(out) == whole(case)
        time.sleep(0.1)
        place.mkdir()
        _eventually(lambda: len(list(place.glob("binlog.0*"))) == len(closed(case)))
        _eventually(lambda: (note := read_note(out)) is not None and len(note.files) == len(closed(case)))
    merge(config, out)
    assert len(here(out)) == 1
    with opened_log(str(place)) as there:
        assert {file.name: there.path(file).read_bytes() for file in there.state().files} == closed(case)


def _eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_contradicts_it(case: Path, s3: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="local folder"):
        merge(with_archive(case, Archive(to=str(tmp_path))), s3.uri("merged"))
    text = case.read_text()
    path = tmp_path / "cluster.yaml"
    for setting, words in (
        ("archive: 'hdfs://server/kept'", "archive"),
        ("archive: {to: kept, compress: lz4}", "compress"),
        ("archive: kept\nretention: {size: 1GB, schemas: true}", "schemas"),
    ):
        path.write_text(f"{text}\n{setting}\n")
        with pytest.raises(ConfigError, match=words):
            MergeConfig.load(path)
    path.write_text(f"{text}\narchive: kept\n")
    loaded = MergeConfig.load(path)
    assert (
        loaded.archive == Archive(to=str(tmp_path / "kept")) and loaded.settings() == MergeConfig.load(case).settings()
    )
