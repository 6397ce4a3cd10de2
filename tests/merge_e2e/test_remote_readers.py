"""Readers of an output on S3: the answers that they give about a local copy, also while more is published."""

import fcntl
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.log import DumpRequest, PublishedLog
from binlog_merge.binlog_server.stream import AtEnd, Events, stream
from binlog_merge.errors import ManifestError, ObjectStoreRefused, ObjectStoreUnreachable, UnannouncedDdl
from binlog_merge.files import away, object_output, remote_log
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.object_manifest import Segment
from binlog_merge.files.object_output import ObjectOutput
from binlog_merge.files.objects import FolderObjects
from binlog_merge.files.remote_log import opened_log
from binlog_merge.files.scratch import reading_folder, users_folder
from tests.binlog_server.running import remote_mysqlbinlog, serving, without
from tests.command_line import command_line
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, state_of, written
from tests.object_store import KEY, SECRET, Faults, Store


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case with DDL, cut into several output files."""
    return copy_case(case_named("ddl-by-markers"), tmp_path_factory.mktemp("remote") / "case", max_size(4000))


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test work folders of its own, see that nothing stays in them, and look often."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(remote_log, "_EVERY", 0.01)
    yield
    left = [path.name for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".output")]
    assert not left


def dumped(log: PublishedLog) -> list[tuple[str, int, bytes]]:
    """Return what a reader with nothing gets, up to the end of what is published."""
    found: list[tuple[str, int, bytes]] = []
    for item in stream(log, DumpRequest("", 4)):
        if isinstance(item, AtEnd):
            return found
        if isinstance(item, Events):
            found += [(item.file, 0, bytes(event)) for event in item.each()]
    raise AssertionError


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_reader_whose_folder_is_removed_makes_it_anew(case: Path, s3: Store, tmp_path: Path) -> None:
    cluster, place = copy_case(case.parent, tmp_path / "case"), s3.uri("merged")
    merge(cluster, place)  # type: ignore[arg-type]
    with opened_log(place) as folder:
        log = PublishedLog(folder)
        before, state = dumped(log), folder.state()
        shutil.rmtree(folder.directory.parent)
        log.refresh()
        assert dumped(log) == before
        shutil.rmtree(folder.directory)
        assert folder.state() == state
        shutil.rmtree(folder.directory)
        assert dumped(log) == before
        shutil.rmtree(folder.directory)
        with folder.schema_store() as (store, _):
            assert store.stat().st_size


def test_a_folder_that_is_removed_while_the_manifest_comes_is_made_anew(
    case: Path, s3: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(case, s3.uri("merged"))
    write = object_output.write_whole

    def removed_first(path: Path, *rest: Any) -> None:
        monkeypatch.setattr(object_output, "write_whole", write)
        shutil.rmtree(path.parent)
        write(path, *rest)

    with opened_log(s3.uri("merged"), schema=False) as folder:
        rank = folder.state().rank
        shutil.rmtree(folder.directory)
        monkeypatch.setattr(object_output, "write_whole", removed_first)
        folder.check()
        assert folder.state().rank == rank > 0


@pytest.mark.parametrize("seed", keeping([0], range(2)))
def test_a_reader_sees_what_is_published_meanwhile(seed: int, case: Path, s3: Store, tmp_path: Path) -> None:
    cluster, place, local = copy_case(case.parent, tmp_path / "case"), s3.uri("merged"), tmp_path / "local"
    nodes = {home.name: GrowingNode.of(home) for home in sorted((cluster.parent / "nodes").iterdir())}
    seen: list[PublishedLog] = []
    with ExitStack() as stack:
        for places in [*schedule(nodes, 5, False, random.Random(seed)), None]:
            for name, there in ({} if places is None else places).items():
                nodes[name].grow(there, anywhere=False)
            for out in (place, local):
                with suppress(UnannouncedDdl):  # before a cluster's first marker nothing tells that there will be one
                    merge(cluster, out, end_of_input=places is None)
            if not seen and state_of(local).files:
                seen.append(PublishedLog(stack.enter_context(opened_log(place))))
            for log in seen:
                time.sleep(0.02)
                log.folder.refresh()
                log.refresh()
                assert log.folder.state().files == state_of(local).files
                assert dumped(log) == dumped(PublishedLog(local))
        assert seen


@pytest.mark.extended  # such records: test_object_store
def test_it_reads_on_over_a_record_that_says_all(
    case: Path, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_merge.files.object_manifest.FOLD", 3)
    merge(case, tmp_path / "local")
    tsos = sorted({int(file.first_key[:19]) for file in state_of(tmp_path / "local").files})
    merge(case, s3.uri("merged"), stop_tso=tsos[1], end_of_input=False)
    reader = ObjectOutput(s3.uri("merged"))
    reader.load()
    for tso in (*tsos[2:7], None):
        merge(case, s3.uri("merged"), stop_tso=tso, end_of_input=tso is None)
    assert reader.advance() and not reader.advance()
    again = ObjectOutput(s3.uri("merged"))
    again.load()
    assert (reader.state, reader.names) == (again.state, again.names)


def test_little_is_kept_of_what_was_read(case: Path, s3: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away.Away.__init__, "__defaults__", (lambda *_: False, 1))
    merge(case, s3.uri("merged"))
    with opened_log(s3.uri("merged")) as folder:
        files = folder.state().files
        first = folder.opened(files[0])
        for file in files:
            with folder.opened(file) as again:
                assert len(again.read()) == file.size
        kept = [path.name for path in folder.directory.glob("binlog.*")]
        assert kept == [files[-1].name]
        assert len(first.read()) == files[0].size, "what is open is read to its end"
        first.close()


def test_a_serve_of_s3(case: Path, s3: Store, tmp_path: Path) -> None:
    merge(case, tmp_path / "local")
    tso = int(state_of(tmp_path / "local").files[2].first_key[:19])
    merge(case, s3.uri("merged"), stop_tso=tso, end_of_input=False)
    with opened_log(s3.uri("merged"), schema=False) as folder, folder.following(print), serving(folder) as running:
        rank = folder.state().rank
        assert 0 < rank < state_of(tmp_path / "local").rank
        merge(case, s3.uri("merged"))
        eventually(lambda: str(running.query("SELECT @@gtid_executed")[0][0]).endswith(f"-{_rank(tmp_path)}"))
        with serving(tmp_path / "local") as other:
            assert running.events(without(GtidSet())) == other.events(without(GtidSet()))
            assert running.query("SHOW BINARY LOGS") == other.query("SHOW BINARY LOGS")
            name = state_of(tmp_path / "local").files[1].name
            asked = f"SHOW BINLOG EVENTS IN '{name}'"
            assert running.query(asked) == other.query(asked)


def _rank(folder: Path) -> int:
    return state_of(folder / "local").rank


@pytest.mark.mysql
def test_mysqlbinlog_fetches_the_files_from_s3(case: Path, s3: Store, tmp_path: Path) -> None:
    merge(case, s3.uri("merged"))
    (tmp_path / "raw").mkdir()
    with opened_log(s3.uri("merged"), schema=False) as folder, serving(folder) as running:
        first = folder.state().files[0].name
        remote_mysqlbinlog(running.port, "-R", "--raw", "--to-last-log", first, folder=tmp_path / "raw")
    merge(case, tmp_path / "local")
    assert {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()} == written(tmp_path / "local")


def test_a_store_that_does_not_answer_for_a_while(case: Path, s3: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_log, "_AFTER_FAILURE", 0.05)
    monkeypatch.setattr("binlog_merge.files.objects._READ_ATTEMPTS", 1)
    merge(case, s3.uri("merged"), stop_tso=1)
    said: list[str] = []
    with opened_log(s3.uri("merged")) as folder:
        advance = ObjectOutput.advance
        failures = iter([ObjectStoreUnreachable("it is silent")] * 3)

        def failing(self: ObjectOutput) -> bool:
            for error in failures:
                raise error
            return advance(self)

        monkeypatch.setattr(ObjectOutput, "advance", failing)
        with folder.following(said.append):
            eventually(lambda: len(said) == 2)
        assert "it is silent" in said[0] and "again" in said[1]
        folder.check()
        monkeypatch.setattr(ObjectOutput, "advance", lambda self: (_ for _ in ()).throw(ManifestError("it is damaged")))
        with folder.following(said.append):
            eventually(lambda: _problem(folder) is not None)


def _problem(folder: Any) -> ManifestError | None:
    try:
        folder.check()
    except ManifestError as error:
        return error
    return None


def test_a_store_that_fails_at_random(case: Path, s3: Store, tmp_path: Path) -> None:
    merge(case, s3.uri("merged"))
    merge(case, tmp_path / "local")
    with Faults(s3, 7, share=0.3) as faults:
        with opened_log(s3.uri("merged").replace(s3.address, faults.address)) as folder:
            assert dumped(PublishedLog(folder)) == dumped(PublishedLog(tmp_path / "local"))
        assert faults.done


def test_verbs_that_ask(case: Path, s3: Store, tmp_path: Path) -> None:
    place, local = s3.uri("merged", f"access_key={KEY}", f"secret_key={SECRET}"), tmp_path / "local"
    merge(case, place)
    merge(case, local)
    file = state_of(local).files[2]
    shown = ""
    for verb in (
        ["verify", "OUT"], ["replay", "--from", "OUT", "--dry-run"], ["position-of", "--tso", file.last_key, "OUT"],
        ["tso-of", "--position", f"{file.name}:{file.size}", "OUT"], ["schema", "history", "*", "--store", "OUT"],
        ["schema", "check", "--store", "OUT"], ["schema", "sql", "SELECT * FROM versions", "--store", "OUT"],
        ["ddl", "locks", "--out", "OUT"], ["inspect", "-v", f"OUT/{file.name}"],
    ):  # fmt: skip
        remote, here = (command_line([_in(word, where) for word in verb]) for where in (place, str(local)))
        assert remote.returncode == here.returncode, (verb, remote.stderr)
        assert _without_place(remote.stdout) == _without_place(here.stdout), verb
        shown += remote.stdout + remote.stderr
    asked = command_line(["status", "--config", case, "--out", place, "-o", "json"])
    assert f'"transactions": {state_of(local).rank}' in asked.stdout, asked.stderr
    shown += asked.stdout + asked.stderr
    exported = command_line(["schema", "export", tmp_path / "parquet", "--store", place])
    assert exported.returncode == 0 and list((tmp_path / "parquet").iterdir())
    assert SECRET not in shown + exported.stdout and KEY not in shown + exported.stdout


def _in(word: str, where: str) -> str:
    if not word.startswith("OUT") or "?" not in where:
        return word.replace("OUT", where)
    path, _, options = where.partition("?")
    return f"{path}{word.removeprefix('OUT')}?{options}"


def _without_place(text: str) -> list[str]:
    return [line for line in text.splitlines() if "local" not in line and "s3://" not in line]


@pytest.mark.parametrize("verb", [["serve", "OUT"], ["verify", "OUT"], ["schema", "check", "--store", "OUT"],
                                  ["status", "--config", "{config}", "--out", "OUT"]])  # fmt: skip
def test_what_is_wrong_is_said_at_once(verb: list[str], case: Path, s3: Store) -> None:
    for place, code in (
        (s3.uri("nothing"), ManifestError.exit_code),
        (s3.uri("x", bucket="no-such-bucket"), ObjectStoreRefused.exit_code),
        (s3.uri("x", address="http://127.0.0.1:1"), ObjectStoreUnreachable.exit_code),
    ):
        if verb[0] == "serve" and code == ManifestError.exit_code:
            continue  # it waits for the first merge, as beside an empty folder
        done = command_line([word.replace("OUT", place).replace("{config}", str(case)) for word in verb])
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("verb", "instead"),
    [
        (["purge", "OUT", "--to", "binlog.000002"], "retention.size"),
        (["ddl", "resolve", "a.b", "--skip", "--out", "OUT"], "local"),
    ],
)
def test_verbs_that_cannot_say_what_can(verb: list[str], instead: str, case: Path, s3: Store) -> None:
    done = command_line([word.replace("OUT", s3.uri("merged")).replace("{config}", str(case)) for word in verb])
    assert done.returncode == 2 and instead in done.stderr


def test_what_a_killed_reader_has_left_is_removed() -> None:
    with reading_folder() as folder:
        left = users_folder() / "reading-killed"
        left.mkdir()
        (left / ".lock").write_text("")
        (left / "binlog.000001").write_text("x")
        held = users_folder() / "reading-now"
        held.mkdir()
        fd = os.open(held / ".lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with reading_folder() as other:
            assert not left.exists() and held.exists() and folder.exists() and other.exists()
        os.close(fd)
    assert not folder.exists() and not other.exists()


def test_a_copy_that_was_tidied_away_is_brought_anew(tmp_path: Path) -> None:
    """What a log grows by then is not put behind zeros."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "binlog.000001").write_bytes(b"0123456789")
    (tmp_path / "copies").mkdir()
    parts = [Segment(0, 10, "binlog.000001")]
    copies = away.Away(FolderObjects(tmp_path / "store"), lambda file: parts, tmp_path / "copies")
    file = OutputFile("binlog.000001", 5, False, "", "", 1, 1, 0, 1, 1)
    copies.path(file).unlink()
    assert copies.path(replace(file, size=10)).read_bytes() == b"0123456789"
