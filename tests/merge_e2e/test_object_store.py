"""Outputs on S3: the bytes of a local output, whatever the store does meanwhile, and nothing half-published."""

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.sections import Output, Retention
from binlog_merge.errors import (
    ConfigError,
    ManifestError,
    MergeError,
    ObjectStoreRefused,
    ObjectStoreUnreachable,
    OutputBusy,
    UnannouncedDdl,
)
from binlog_merge.files import object_manifest, object_output
from binlog_merge.files.object_output import FAILPOINTS, ObjectOutput
from binlog_merge.files.publish import output_directory
from binlog_merge.files.remote_log import opened_log
from binlog_merge.pipeline.run import run_merge
from tests.command_line import command_line
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.killed import merge_until
from tests.merge_e2e.local import HeldRunner, LocalRunner, Result, Task, merge, state_of, written
from tests.object_store import KEY, SECRET, Faults, Store


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case with DDL, cut into several output files."""
    return copy_case(case_named("ddl-by-markers"), tmp_path_factory.mktemp("objects") / "case", max_size(4000))


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test work folders of its own, and see that nothing stays in them."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield
    left = [path.name for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".output")]
    assert not left


def uri(s3: Store, *options: str, address: str | None = None) -> str:
    """Return where outputs go; with keys, since a process that is forked has not this one's environment."""
    return s3.uri("out/merged", f"access_key={KEY}", f"secret_key={SECRET}", *options, address=address)


def named(s3: Store) -> dict[str, bytes]:
    """Return the objects of files, by name."""
    return {name: data for name, data in s3.objects("out/merged/").items() if name.startswith("binlog.0")}


def published(place: str) -> dict[str, bytes]:
    """Return what readers see."""
    with opened_log(place) as log:
        return {file.name: log.path(file).read_bytes() for file in log.state().files}


@pytest.mark.parametrize(
    "name",
    keeping(
        ["ddl-by-markers"],  # several files
        ["ddl-by-markers", "rotation", "two-nodes", "shards-optimistic", "strange-names", "large-blobs"],
    ),
)
def test_the_bytes_are_those_of_a_local_output(name: str, s3: Store, tmp_path: Path) -> None:
    cluster = copy_case(case_named(name), tmp_path / "case", max_size(5000))
    found, local = merge(cluster, uri(s3)), merge(cluster, tmp_path / "local")
    assert named(s3) == written(tmp_path / "local") == published(uri(s3))
    assert s3.objects("out/merged/")["binlog.index"] == (tmp_path / "local" / "binlog.index").read_bytes()
    assert [file["name"] for file in found.files] == [file["name"] for file in local.files]
    assert all(file["path"].startswith("s3://cluster-logs/out/merged/binlog.") for file in found.files)
    assert SECRET not in str(found) and KEY not in str(s3.objects())
    again = merge(cluster, uri(s3))
    assert not again.files and again.warnings == merge(cluster, tmp_path / "local").warnings


@pytest.mark.parametrize("name", keeping(["shards-optimistic"], ["ddl-by-markers", "shards-optimistic"]))
def test_executors_that_share_no_folder_give_the_same_bytes(name: str, s3: Store, tmp_path: Path) -> None:
    cluster = copy_case(case_named(name), tmp_path / "case", max_size(5000))
    s3.put("out/merged/parts/killed/binlog.000001", b"of another run")
    for tso in (1 << 61, None):
        merge(cluster, uri(s3), runner=HeldRunner(), stop_tso=tso, end_of_input=tso is None)
    assert named(s3) == whole(cluster) == published(uri(s3))
    assert not s3.objects("out/merged/parts/")


def test_it_goes_on_as_the_nodes_write(case: Path, s3: Store, tmp_path: Path) -> None:
    cluster = copy_case(case.parent, tmp_path / "case")
    nodes = {home.name: GrowingNode.of(home) for home in sorted((cluster.parent / "nodes").iterdir())}
    closed: dict[str, str] = {}
    for places in schedule(nodes, 5, False, random.Random(3)):
        for name, place in places.items():
            nodes[name].grow(place, anywhere=False)
        with suppress(UnannouncedDdl):  # before a cluster's first marker nothing tells that there will be one
            merge(cluster, uri(s3), end_of_input=False)
        output = ObjectOutput(uri(s3))
        output.load()
        tags = {file.name: output.objects.below()[file.name].tag for file in output.state.files if file.closed}
        assert {name: tags[name] for name in closed} == closed
        closed = tags
    merge(cluster, uri(s3))
    assert named(s3) == whole(case)
    assert len(s3.objects("out/merged/schema/")) == 1


@pytest.mark.parametrize(
    "failpoint",
    keeping(
        # Before the record that names the files.
        ("object-before-manifest:kill:2",),
        [*(f"{name}:kill" for name in FAILPOINTS), "object-before-file:kill:2", "object-before-manifest:kill:2",
         "object-after-manifest:kill:2", "after-gather:kill", "publish-after-rename:kill:2"],
    ),
)  # fmt: skip
def test_killed_between_any_two_puts(failpoint: str, case: Path, s3: Store) -> None:
    assert merge_until(failpoint, case, uri(s3))
    seen = ObjectOutput(uri(s3))
    seen.load()
    if seen.state.header is not None:
        assert_prefix(published(uri(s3)), whole(case))
    merge(case, uri(s3))
    assert named(s3) == whole(case) == published(uri(s3))


class OvertakenRunner(LocalRunner):
    """Before the files are written, another merge into the same output begins and ends."""

    def __init__(self, other: Callable[[], object]) -> None:
        self._other = other

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if name == "gather":
            self._other()
        return super().run(name, function, tasks)


def test_of_two_writers_one_loses(case: Path, s3: Store, tmp_path: Path) -> None:
    config = MergeConfig.load(case)
    merge(case, uri(s3), stop_tso=1)  # both go on from one record
    slow = OvertakenRunner(lambda: merge(case, uri(s3), work=tmp_path / "fast"))
    with pytest.raises(OutputBusy) as raised:
        run_merge(slow, config, uri(s3), end_of_input=True, work=tmp_path / "slow")
    assert raised.value.exit_code == 25 and "meanwhile" in str(raised.value)
    assert named(s3) == whole(case) == published(uri(s3))


def test_the_loser_does_not_harm_what_the_winner_has_published(case: Path, s3: Store, tmp_path: Path) -> None:
    """The slow one has seen less of the nodes' files, so what it would write is other bytes."""
    cluster = copy_case(case.parent, tmp_path / "case")
    nodes = {home.name: GrowingNode.of(home) for home in sorted((cluster.parent / "nodes").iterdir())}
    for name, place in schedule(nodes, 3, False, random.Random(5))[-2].items():
        nodes[name].grow(place, anywhere=False)

    def everything() -> None:
        merge(case, uri(s3), work=tmp_path / "fast")

    with pytest.raises(MergeError) as raised:
        run_merge(OvertakenRunner(everything), MergeConfig.load(cluster), uri(s3), work=tmp_path / "slow")
    assert raised.value.exit_code == 25
    assert published(uri(s3)) == whole(case)


def test_two_drivers_of_one_machine(case: Path, s3: Store) -> None:
    def second() -> None:
        with pytest.raises(OutputBusy):
            merge(case, uri(s3))

    run_merge(OvertakenRunner(second), MergeConfig.load(case), uri(s3), end_of_input=True)
    assert named(s3) == whole(case)


def test_what_somebody_left_under_a_files_name_stays(case: Path, s3: Store) -> None:
    s3.put("out/merged/binlog.000002", b"nobody knows whose")
    merge(case, uri(s3))
    found = named(s3)
    assert found["binlog.000002"] == b"nobody knows whose"
    assert published(uri(s3)) == whole(case)
    other = next(name for name in found if name.startswith("binlog.000002."))
    assert f"./{other}\n".encode() in s3.objects("out/merged/")["binlog.index"]


def test_every_so_many_records_one_says_all(case: Path, s3: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_manifest, "FOLD", 3)
    tsos = sorted({int(file.first_key[:19]) for file in _files(case, s3)})
    for tso in tsos[1:9]:
        merge(case, uri(s3), stop_tso=tso, end_of_input=False)
        records = s3.objects("out/merged/manifest/")
        needed = {"head.jsonl", json.loads(records["head.jsonl"].splitlines()[0])["base"].rpartition("/")[2]}
        for name in records.keys() - needed:
            s3.client().delete_object(Bucket=s3.bucket, Key=f"out/merged/manifest/{name}")
    assert len(needed) == 2 and "000000000001.jsonl" not in needed
    merge(case, uri(s3))
    assert published(uri(s3)) == whole(case)


def _files(case: Path, s3: Store) -> Sequence[object_output.OutputFile]:
    place = s3.uri("elsewhere", f"access_key={KEY}", f"secret_key={SECRET}")
    merge(case, place)
    output = ObjectOutput(place)
    output.load()
    return output.state.files


@pytest.mark.parametrize(
    "change",
    keeping(["cut", "a record is removed"], ["cut", "grown", "removed", "a record is removed", "a record is changed"]),
)
def test_published_objects_that_were_changed(change: str, case: Path, s3: Store) -> None:
    merge(case, uri(s3))
    client, names = s3.client(), sorted(named(s3))
    key = f"out/merged/{names[1]}"
    if change in ("cut", "grown"):
        data = named(s3)[names[1]]
        s3.put(key, data[:-1] if change == "cut" else data + b"x")
    elif change == "removed":
        client.delete_object(Bucket=s3.bucket, Key=key)
    elif change == "a record is removed":
        client.delete_object(Bucket=s3.bucket, Key="out/merged/manifest/000000000001.jsonl")
    else:
        record = s3.objects("out/merged/manifest/")["000000000001.jsonl"]
        s3.put("out/merged/manifest/000000000001.jsonl", record.replace(b'"name"', b'"Name"', 1))
    with pytest.raises(ManifestError) as raised:
        merge(case, uri(s3))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("seed", keeping([0], range(3)))
def test_a_store_that_fails_at_random(seed: int, case: Path, s3: Store) -> None:
    expected = whole(case)
    with Faults(s3, seed, share=0.3 + 0.1 * seed) as faults:
        for _ in range(20):
            try:
                merge(case, uri(s3, address=faults.address))
                break
            except ObjectStoreUnreachable:
                output = ObjectOutput(uri(s3))
                output.load()
                if output.state.header is not None:
                    assert_prefix(published(uri(s3)), expected)
        else:
            pytest.fail("twenty merges have failed")
        assert faults.done
    assert published(uri(s3)) == expected


def test_retention_removes_objects(case: Path, s3: Store, tmp_path: Path) -> None:
    config = MergeConfig.load(case)
    small = config.model_copy(update={"retention": Retention(size=6_000)})
    merge(small, uri(s3))
    left = named(s3)
    assert 0 < len(left) < len(whole(case)) and left == published(uri(s3))
    assert left == {name: data for name, data in whole(case).items() if name in left}
    assert command_line(["verify", uri(s3)]).returncode == 0
    assert not merge(small, uri(s3)).files
    old = config.model_copy(update={"retention": Retention(age="1s")})
    with pytest.raises(ConfigError, match="folder"):
        merge(old, uri(s3))
    with pytest.raises(ConfigError, match="5 GiB"):
        merge(config.model_copy(update={"output": Output(max_size=8 << 30)}), uri(s3))


@pytest.mark.spark
def test_from_s3_to_s3_on_spark(spark: Any, s3: Store, tmp_path: Path) -> None:
    from binlog_merge.spark.job import merge as merge_on_spark

    cluster = copy_case(case_named("two-nodes"), tmp_path / "case", max_size(5000))
    config = MergeConfig.load(cluster)
    nodes = []
    for node in config.nodes:
        for path in Path(node.files[0]).parent.iterdir():
            s3.put(f"logs/{node.source_id}/{path.name}", path.read_bytes())
        place = s3.uri(f"logs/{node.source_id}/binlog.*", f"access_key={KEY}", f"secret_key={SECRET}")
        nodes.append(node.model_copy(update={"files": (place,)}))
    remote = config.model_copy(update={"nodes": tuple(nodes)})
    with s3.checking() as (key, secret):
        mine = [each.replace(KEY, key).replace(SECRET, secret) for node in nodes for each in node.files]
        remote = remote.model_copy(
            update={"nodes": tuple(n.model_copy(update={"files": (f,)}) for n, f in zip(nodes, mine, strict=True))}
        )
        out = s3.uri("out/merged", f"access_key={key}", f"secret_key={secret}")
        found = merge_on_spark(spark, remote, out, end_of_input=True, work=tmp_path / "work")
    assert named(s3) == whole(cluster)
    assert secret not in str(found)
    assert not any(secret.encode() in data for data in s3.objects("out/").values())


def test_refusals_are_said_before_java_is_started(case: Path, s3: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_merge.cli.merge.Session.__call__", lambda *_: pytest.fail("Java was started"))
    for place, code in (
        (
            s3.uri("x", f"access_key={KEY}", f"secret_key={SECRET}", bucket="no-such-bucket"),
            ObjectStoreRefused.exit_code,
        ),
        (uri(s3, address="http://127.0.0.1:1"), ObjectStoreUnreachable.exit_code),
    ):
        done = command_line(["merge", "--config", case, "--out", place, "-o", "json"])
        assert done.returncode == code, done.stderr
        assert SECRET not in done.stdout + done.stderr and KEY not in done.stdout + done.stderr


@pytest.mark.extended  # more verbs: test_remote_readers
def test_readers(case: Path, s3: Store, tmp_path: Path) -> None:
    place = uri(s3)
    merge(case, place)
    merge(case, tmp_path / "local")
    verified = command_line(["verify", place])
    assert verified.returncode == 0, verified.stderr
    replayed = command_line(["replay", "--from", place, "--to", f"parquet://{tmp_path}/changes"])
    assert replayed.returncode == 0, replayed.stderr
    last = state_of(tmp_path / "local").files[-1].last_key
    found = command_line(["position-of", "--tso", last, place])
    assert found.stdout == command_line(["position-of", "--tso", last, tmp_path / "local"]).stdout
    shown = command_line(["inspect", "-vv", place.replace("merged?", "merged/binlog.000001?")])
    assert shown.returncode == 0, shown.stderr
    local = command_line(["inspect", "-vv", tmp_path / "local" / "binlog.000001"])
    assert shown.stdout.splitlines()[1:] == local.stdout.splitlines()[1:]
    for done in (verified, replayed, found, shown):
        assert SECRET not in done.stdout + done.stderr and KEY not in done.stdout + done.stderr
    nothing = command_line(["verify", s3.uri("nothing", f"access_key={KEY}", f"secret_key={SECRET}")])
    assert nothing.returncode == 28


def test_a_work_folder_with_something_else_in_it(case: Path, s3: Store, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("all of it")
    with pytest.raises(ConfigError, match="not empty"):
        merge(case, uri(s3), work=tmp_path / "work")
    assert (tmp_path / "work" / "thesis.txt").exists()


@pytest.mark.parametrize("place", ["s3://bucket/merged", Path("s3://bucket/merged")])
def test_no_folder_is_named_like_a_scheme(place: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        output_directory(place)
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


@pytest.mark.parametrize(("name", "what"), [(b"what?", "holds a ?"), (b"caf\xe9", "is not UTF-8")])
def test_a_folder_that_libraries_cannot_name_is_refused(name: bytes, what: str, tmp_path: Path) -> None:
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    with pytest.raises(ConfigError, match=re.escape(what)):
        output_directory(place)
    assert not place.exists()
