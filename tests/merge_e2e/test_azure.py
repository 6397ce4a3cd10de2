"""Azure's blobs: inputs, output, archive and readers, against Azurite; run where AZURITE names its program."""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.sections import Archive, Retention
from binlog_merge.errors import ObjectStoreRefused, ObjectStoreUnreachable, OutputBusy
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.object_output import FAILPOINTS
from binlog_merge.files.objects import Objects
from binlog_merge.files.remote_log import opened_log
from binlog_merge.pipeline.run import run_merge
from tests.azure_store import ACCOUNT, KEY, PROGRAM, AzureStore, azure_store
from tests.command_line import command_line
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.local import LocalRunner, Result, Task, merge

pytestmark = pytest.mark.skipif(not PROGRAM, reason="AZURITE does not name Azurite's program azurite-blob")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_case(case_named("ddl-by-markers"), tmp_path_factory.mktemp("azure") / "case", max_size(4000))


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureStore]:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    with azure_store(tmp_path) as store:
        yield store


def read(place: str) -> dict[str, bytes]:
    with opened_log(place) as log:
        return {file.name: log.path(file).read_bytes() for file in log.state().files}


def test_from_azure_to_azure(case: Path, azure: AzureStore, tmp_path: Path) -> None:
    config, nodes = MergeConfig.load(case), []
    for node in config.nodes:
        logs = Objects(azure.uri(f"logs/{node.source_id}"))
        for path in Path(node.files[0]).parent.iterdir():
            assert logs.create(path.name, path)
        nodes.append(node.model_copy(update={"files": (azure.uri(f"logs/{node.source_id}/binlog.*"),)}))
    remote = config.model_copy(update={"nodes": tuple(nodes)})
    tsos = sorted({int(name) for name in (1 << 60, 1 << 61)})
    for tso in (*tsos, None):
        merge(remote, azure.uri("merged"), stop_tso=tso, end_of_input=tso is None)
    assert read(azure.uri("merged")) == whole(case)
    assert command_line(["verify", azure.uri("merged")]).returncode == 0


def test_it_grows_and_is_fenced(case: Path, azure: AzureStore, tmp_path: Path) -> None:
    place = azure.uri("merged")
    merge(case, tmp_path / "local")
    keys = [int(file.first_key[:19]) for file in LogFolder(tmp_path / "local").state().files]
    for tso in keys[1:4]:
        merge(case, place, stop_tso=tso + 1, end_of_input=False)  # an open file that grows

    class Overtaken(LocalRunner):
        def run(self, name: str, function: object, tasks: Sequence[Task]) -> list[Result]:  # type: ignore[override]
            if name == "gather":
                merge(case, place, work=tmp_path / "fast")
            return super().run(name, function, tasks)  # type: ignore[arg-type]

    with pytest.raises(OutputBusy):
        run_merge(Overtaken(), MergeConfig.load(case), place, end_of_input=True, work=tmp_path / "slow")
    assert read(place) == whole(case)
    assert len([name for name in Objects(place).below() if name.startswith("binlog.0")]) == len(whole(case))


@pytest.mark.parametrize("failpoint", keeping(["object-before-manifest"], FAILPOINTS))  # all of them: on S3
def test_stopped_between_any_two_puts(
    failpoint: str, case: Path, azure: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINLOG_MERGE_FAILPOINT", f"{failpoint}:raise")
    with pytest.raises(Exception, match=failpoint):
        merge(case, azure.uri("merged"))
    monkeypatch.delenv("BINLOG_MERGE_FAILPOINT")
    merge(case, azure.uri("merged"))
    assert read(azure.uri("merged")) == whole(case)


def test_an_archive(case: Path, azure: AzureStore, tmp_path: Path) -> None:
    archive = Archive(to=azure.uri("kept"), compress="zstd")
    update = {"archive": archive, "retention": Retention(size=1)}
    merge(MergeConfig.load(case).model_copy(update=update), tmp_path / "out")
    folder = LogFolder(tmp_path / "out")
    assert len(list((tmp_path / "out").glob("binlog.0*"))) == 1
    assert {file.name: folder.path(file).read_bytes() for file in folder.state().files} == whole(case)


def test_what_is_wrong(case: Path, azure: AzureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(place: str) -> int:
        done = command_line(["verify", place])
        assert KEY not in done.stdout + done.stderr
        return done.returncode

    assert refused(azure.uri("merged", container="no-such")) == ObjectStoreRefused.exit_code
    assert refused(azure.uri("merged", address="http://127.0.0.1:1")) == ObjectStoreUnreachable.exit_code
    assert refused(azure.uri("merged")) == 28
    for key in (base64.b64encode(b"another").decode(), "no key"):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
        assert refused(azure.uri("merged")) == ObjectStoreRefused.exit_code
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    assert refused(azure.uri("merged")) == ObjectStoreRefused.exit_code
