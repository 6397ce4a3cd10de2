"""Rounds into an object store: the files are those of one merge, and a new host needs nothing but the store."""

import itertools
import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog_server.log import DumpRequest, PublishedLog
from binlog_merge.binlog_server.stream import AtEnd, Events, stream
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.sections import Retention
from binlog_merge.errors import (
    IoError,
    LeaseLost,
    ManifestError,
    MergeError,
    ObjectStoreRefused,
    ObjectStoreUnreachable,
    OutputBusy,
    UnannouncedDdl,
)
from binlog_merge.files import away, failpoint, intact, object_manifest, object_output
from binlog_merge.files.hashed_lines import encode
from binlog_merge.files.manifest import CLAIMED_VERSION, MANIFEST_NAME, OutputFile, Record, encode_record
from binlog_merge.files.object_output import FAILPOINTS, SCHEMA_NAME, ObjectOutput
from binlog_merge.files.objects import Objects, put_new
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.pipeline import discover, run
from binlog_merge.pipeline.rounds import IN_DRIVER, Rounds
from snapshot_store.store import db
from tests.effort import effort, keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import GTIDS, Log, assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import HeldRunner, LocalRunner, merge
from tests.object_store import KEY, SECRET, Faults, Store
from tests.store_proxy import Mode, StoreProxy


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield


def uri(s3: Store, address: str | None = None) -> str:
    return s3.uri("out/merged", f"access_key={KEY}", f"secret_key={SECRET}", address=address)


def published(place: str) -> dict[str, bytes]:
    with opened_log(place) as log:
        return {file.name: log.path(file).read_bytes() for file in log.state().files}


def nodes_of(path: Path) -> dict[str, GrowingNode]:
    return {home.name: GrowingNode.of(home) for home in sorted((path.parent / "nodes").iterdir())}


def settled(place: str) -> ObjectOutput:
    """Return the output once each closed file is an object of its own, or no more of them become one."""
    output = ObjectOutput(place)
    output.load()
    return output


CASES = ["ddl-by-markers", "three-nodes-online-ddl", "shards-optimistic", "shards-pessimistic", "in-doubt"]


@pytest.mark.parametrize("seed", keeping([0, 1], range(20)))
def test_rounds_on_any_host_give_the_files_of_one_merge(
    seed: int, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes end now and then, and each next one has an empty disk; small folds and segments come all the time."""
    rng = random.Random(seed)
    monkeypatch.setattr(object_manifest, "FOLD", rng.choice([2, 5, 64]))
    monkeypatch.setattr(object_output, "SEGMENT", rng.choice([500, 8 << 20]))
    monkeypatch.setattr(object_output, "_REMEMBERED", rng.choice([0, 3000, 16 << 20]))
    path = copy_case(case_named(rng.choice(CASES)), tmp_path / "case", max_size(rng.choice([2000, 6000, 1 << 20])))
    good, place = whole(path), uri(s3)
    nodes, config, rounds = nodes_of(path), MergeConfig.load(path), effort(8, 30)
    with ExitStack() as stack:
        merging: Rounds | None = None
        reader = None
        for number, places in enumerate(schedule(nodes, rounds, True, rng), 1):
            for name, at in places.items():
                nodes[name].grow(at, True)
            if merging is None or rng.random() < 0.3:
                stack.close()
                merging = stack.enter_context(
                    Rounds(
                        rng.choice([LocalRunner, HeldRunner])(),
                        config,
                        place,
                        partitions=rng.choice([None, 5]),
                        in_driver=rng.choice([0, 4000, IN_DRIVER]),
                        work=tmp_path / f"host-{number}",
                    )
                )
            with suppress(*(() if number == rounds else (UnannouncedDdl,))):
                merging.merge(end_of_input=number == rounds)
            output = ObjectOutput(place)
            output.load()
            if output.state.header is None:
                continue
            assert_prefix(published(place), good)
            if reader is None:
                reader = output
            reader.advance()
            assert reader.state == output.state and reader.names == output.names
            last = output.state.last
            for name, state in last.nodes.items() if last is not None and rng.random() < 0.5 else ():
                nodes[name].remove_before(state.checkpoint["file"])
    assert published(place) == good


@pytest.mark.parametrize("seed", keeping([0], range(10)))
def test_of_the_open_file_comes_what_a_reader_reads(
    seed: int, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is back costs the store what it lacks, by position and by GTID; it gets the log's bytes."""
    monkeypatch.setattr(away, "BLOCK", 256)
    monkeypatch.setattr("binlog_merge.binlog_server.stream._CHUNK", 2048)
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(1 << 20))
    merge(path, tmp_path / "local")
    nodes, number = nodes_of(path), 12
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        for each, places in enumerate(schedule(nodes, number, False, random.Random(seed)), 1):
            for name, at in places.items():
                nodes[name].grow(at, False)
            with suppress(*(() if each == number else (UnannouncedDdl,))):
                rounds.merge(end_of_input=each == number)
    local = PublishedLog(tmp_path / "local")
    (opened,) = local.view().files
    data = (tmp_path / "local" / opened.name).read_bytes()
    last = transactions_of_file(tmp_path / "local", opened)[-3]
    has = local.view().gtids_of(RankSet.upto(opened.last_rank - 3))
    for start in (DumpRequest(opened.name, last), DumpRequest("", 4, has)):
        with StoreProxy(s3) as proxy, opened_log(uri(s3, proxy.address)) as folder:
            log = PublishedLog(folder)
            assert log.view().files == local.view().files and len(folder.begins(opened)) > 4
            before = proxy.read
            came = sent(log, start)
            assert came == sent(local, start) and came.endswith(data[last:])
            assert len(data) - last <= proxy.read - before < len(data) / 2
            assert folder.path(opened).read_bytes() == data
            assert proxy.read - before == len(data), "nothing comes twice"
    with opened_log(uri(s3)) as folder, ThreadPoolExecutor(3) as readers:
        log = PublishedLog(folder)
        ranks = [random.Random(seed + each).randrange(opened.last_rank + 1) for each in range(12)]
        starts = [DumpRequest("", 4, log.view().gtids_of(RankSet.upto(rank))) for rank in ranks]
        assert [*readers.map(lambda start: sent(log, start), starts)] == [sent(local, start) for start in starts]


def sent(log: PublishedLog, start: DumpRequest) -> bytes:
    """Return the events that a reader gets, up to the end of what is published."""
    items = itertools.takewhile(lambda item: not isinstance(item, AtEnd), stream(log, start))
    return b"".join(bytes(item.data) for item in items if isinstance(item, Events))


def transactions_of_file(folder: Path, file: OutputFile) -> list[int]:
    """Return where the transactions of a file begin."""
    return [event.at for event in Log.load((folder / file.name).read_bytes()).events if event.type in GTIDS]


def grown(tmp_path: Path, share: float = 0.5) -> tuple[Path, dict[str, GrowingNode], dict[str, bytes]]:
    """Return a case whose nodes have written a part of their first file, the nodes, and its whole output."""
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(4000))
    good, nodes = whole(path), nodes_of(path)
    for node in nodes.values():
        node.grow((0, int(len(node.files[0][1]) * share)), anywhere=True)
    return path, nodes, good


def finish(nodes: dict[str, GrowingNode]) -> None:
    for node in nodes.values():
        node.grow((len(node.files) - 1, len(node.files[-1][1])), anywhere=False)


@pytest.mark.parametrize(
    "place",
    keeping(
        ["object-before-file", "object-after-manifest"],
        [*FAILPOINTS, "publish-appended", "publish-before-manifest", "manifest-torn"],
    ),
)
def test_a_round_that_fails_is_made_again(
    place: str, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, nodes, good = grown(tmp_path)
    monkeypatch.setattr(object_manifest, "FOLD", 1)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        rounds.merge()
        finish(nodes)
        with monkeypatch.context() as patch:
            patch.setenv(failpoint.VARIABLE, f"{place}:raise")
            with pytest.raises(failpoint.FailpointReached):
                rounds.merge(end_of_input=True)
        rounds.merge(end_of_input=True)
    assert published(uri(s3)) == good


@pytest.mark.parametrize("seed", keeping([0], range(6)))
def test_rounds_go_on_where_a_store_fails(seed: int, s3: Store, tmp_path: Path) -> None:
    """Answers are lost after what they tell of was done, requests are refused and cut."""
    path, nodes, good = grown(tmp_path, 0.2)
    rng = random.Random(seed)
    with Faults(s3, seed, share=0.15) as faults, ExitStack() as stack:
        merging: Rounds | None = None
        places = schedule(nodes, 6, True, rng)
        for number, at in enumerate(places, 1):
            for name, place in at.items():
                nodes[name].grow(place, True)
            for _ in range(20):
                try:
                    if merging is None:
                        merging = stack.enter_context(
                            Rounds(LocalRunner(), MergeConfig.load(path), uri(s3, faults.address))
                        )
                    merging.merge(end_of_input=number == len(places))
                    break
                except ObjectStoreUnreachable:
                    continue
            else:
                pytest.fail("twenty rounds have failed")
        assert faults.done
    assert published(uri(s3)) == good


def test_who_was_overtaken_writes_nothing_more(s3: Store, tmp_path: Path) -> None:
    path, nodes, good = grown(tmp_path)
    config = MergeConfig.load(path)
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "one") as one:
        one.merge()
        with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "other") as other:
            other.claim(1, "other")
            finish(nodes)
            before = s3.objects("out/merged/manifest/")
            with pytest.raises(OutputBusy) as raised:
                one.merge()
            assert raised.value.exit_code == 25
            assert s3.objects("out/merged/manifest/") == before
            other.merge(end_of_input=True)
            with pytest.raises(OutputBusy):
                other.claim(1, "other")
    assert published(uri(s3)) == good
    assert settled(uri(s3)).state.epoch == 1


def test_what_is_not_allowed_any_more_is_not_put(s3: Store, tmp_path: Path) -> None:
    path, nodes, good = grown(tmp_path)
    lost = threading.Event()

    def allowed() -> None:
        if lost.is_set():
            raise OutputBusy("the lease is over")

    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3), allowed=allowed) as rounds:
        rounds.merge()
        finish(nodes)
        lost.set()
        before = s3.objects("out/merged/")
        with pytest.raises(OutputBusy):
            rounds.merge(end_of_input=True)
        assert s3.objects("out/merged/") == before
        lost.clear()
        rounds.merge(end_of_input=True)
    assert published(uri(s3)) == good


def test_objects_do_not_add_up(s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there after many rounds is what there is after a few: records, segments and stores are folded."""
    monkeypatch.setattr(object_manifest, "FOLD", 4)
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case")
    good, nodes, rng = whole(path), nodes_of(path), random.Random(1)
    most: dict[str, int] = {}
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        for places in schedule(nodes, effort(25, 80), True, rng):
            for name, place in places.items():
                nodes[name].grow(place, True)
            rounds.merge()
            there = s3.objects("out/merged/")
            output = rounds._output.elsewhere
            assert output is not None
            known = output.names.objects() | set(output._old)
            assert {name for name in there if name.startswith("open/")} <= known  # what is not named will be removed
            for folder in ("manifest/", "open/", "schema/"):
                most[folder] = max(most.get(folder, 0), sum(name.startswith(folder) for name in there))
        rounds.merge(end_of_input=True)
    assert published(uri(s3)) == good
    # A head and two folds; segments and notes since the fold before the last; stores as DDL brings them.
    assert most["manifest/"] <= 4 and most["open/"] <= 4 * 5 and most["schema/"] <= 2, most


def test_what_a_killed_writer_left_is_removed_and_nothing_else(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, nodes, good = grown(tmp_path)
    config = MergeConfig.load(path)
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "one") as rounds:
        rounds.merge()
    s3.put("out/merged/open/binlog.000001/000000000000-000000000009-left", b"left here")
    s3.put("out/merged/notes.txt", b"a user's own")
    time.sleep(2.1)  # the store's clock counts seconds
    finish(nodes)
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "two") as rounds:
        rounds.merge()
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "three") as rounds:
        rounds.merge()
    left = "open/binlog.000001/000000000000-000000000009-left"
    assert left in s3.objects("out/merged/")  # the clocks of a store's machines may go apart
    monkeypatch.setattr(object_output, "_CLOCKS", 1.0)
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "four") as rounds:
        rounds.merge(end_of_input=True)
    there = s3.objects("out/merged/")
    assert left not in there and "notes.txt" in there
    assert published(uri(s3)) == good


def test_a_merge_that_ends_goes_on_from_rounds_and_makes_whole_objects(s3: Store, tmp_path: Path) -> None:
    path, nodes, good = grown(tmp_path)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        rounds.merge()
    finish(nodes)
    merge(path, uri(s3), end_of_input=False)
    merge(path, uri(s3))
    assert published(uri(s3)) == good
    assert whole_objects(s3) == good
    assert not [name for name in s3.objects("out/merged/open/") if "note" not in name]


@pytest.mark.parametrize("how", ["rounds", "merge", "another-name"])
def test_an_object_of_a_merge_that_ended_is_kept_when_rounds_have_made_it_grow(
    how: str, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open file is an object, then has segments after it, then is that object again, or another, as a whole."""
    monkeypatch.setattr(object_manifest, "FOLD", 1)
    path, nodes, good = grown(tmp_path, 0.1)
    merge(path, uri(s3), end_of_input=False)
    if how == "another-name":  # where nobody has seen the object, as of one that an executor has put
        monkeypatch.setattr(ObjectOutput, "_replaced", lambda self, file, at: put_new(self.objects, file.name, at))
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        for share in (0.2,) if how == "merge" else (0.2, 0.4, 0.6, 0.8, 1.0):
            for node in nodes.values():
                node.grow((0, int(len(node.files[0][1]) * share)), anywhere=True)
            rounds.merge()
            while any(thread.name.startswith("put ") for thread in threading.enumerate()):
                time.sleep(0.01)
    finish(nodes)
    merge(path, uri(s3))
    assert published(uri(s3)) == good
    output = settled(uri(s3))
    assert whole_objects(s3) == {output.names.of(name): data for name, data in good.items()}
    assert (output.names.files != {}) == (how == "another-name")


def test_a_file_that_is_made_whole_while_a_round_is_made_again_has_all_its_bytes(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new host brings a closed file's segments, one of them late: by then it has begun anew."""
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(20_000))
    good, nodes, config = whole(path), nodes_of(path), MergeConfig.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(ObjectOutput, "_compose", lambda *_: None)
        with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "one") as rounds:
            for share in (0.1, 0.2, 0.4, 0.6):
                for node in nodes.values():
                    node.grow((0, int(len(node.files[0][1]) * share)), anywhere=True)
                rounds.merge()
    output = settled(uri(s3))
    file = next(f for f in output.state.files if f.closed and len(output.names.segments.get(f.name, ())) > 1)
    late, begun, fetch = threading.Event(), threading.Event(), Objects.fetch

    def fetched(self: Objects, name: str, to: Path, size: int, start: int = 0, at: int = 0) -> str | None:
        if at and file.name in name and not begun.is_set():
            begun.set()
            late.wait(60)
        return fetch(self, name, to, size, start, at)

    monkeypatch.setattr(Objects, "fetch", fetched)
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "two") as rounds:
        assert begun.wait(60)
        rounds.again()
        late.set()
        while any(thread.name.startswith("put ") for thread in threading.enumerate()):
            time.sleep(0.01)
        finish(nodes)
        rounds.merge(end_of_input=True)
        rounds.merge(end_of_input=True)
        assert file.name not in settled(uri(s3)).names.segments
    assert published(uri(s3)) == good
    assert whole_objects(s3)[file.name] == good[file.name]


def test_a_segment_that_a_dead_writer_left_is_not_taken(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host begins between a segment and its record, and removes what is older than the head."""
    monkeypatch.setattr(object_output, "_CLOCKS", 1.0)
    path, nodes, good = grown(tmp_path)
    config = MergeConfig.load(path)
    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "one") as one:
        one.merge()
        finish(nodes)
        with monkeypatch.context() as patch:
            patch.setenv(failpoint.VARIABLE, "object-before-schema:raise")
            with pytest.raises(failpoint.FailpointReached):
                one.merge(end_of_input=True)
        with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "two") as two:
            time.sleep(2.1)  # the store's clock counts seconds
            two.claim(1, "two")

            def other_host(name: str) -> None:
                if name == "object-before-schema":
                    with Rounds(LocalRunner(), config, uri(s3), work=tmp_path / "three"):
                        pass

            monkeypatch.setattr(object_output, "failpoint", other_host)
            two.merge(end_of_input=True)
    assert published(uri(s3)) == good


def test_a_file_is_found_that_became_one_object_while_it_was_brought(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has seen the newer manifest before it misses a segment."""
    path, nodes, good = grown(tmp_path)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        rounds.merge()
        finish(nodes)
        rounds.merge(end_of_input=True)
    with opened_log(uri(s3)) as log:
        fetch, names = Objects.fetch, [file.name for file in log.state().files]

        def fetched(self: Objects, *args: object) -> str | None:
            monkeypatch.setattr(Objects, "fetch", fetch)
            merge(path, uri(s3))
            time.sleep(1)
            log.refresh()
            return fetch(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(Objects, "fetch", fetched)
        last = log.state().files[-1]
        assert last.name == names[-1] and log.path(last).read_bytes() == good[last.name]


def whole_objects(s3: Store) -> dict[str, bytes]:
    return {name: data for name, data in s3.objects("out/merged/").items() if name.startswith("binlog.0")}


def test_a_merge_that_finds_nothing_new_makes_whole_objects(s3: Store, tmp_path: Path) -> None:
    path, nodes, good = grown(tmp_path)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        rounds.merge()
        finish(nodes)
        rounds.merge(end_of_input=True)
    assert whole_objects(s3).keys() != good.keys()
    merge(path, uri(s3))
    assert whole_objects(s3) == good == published(uri(s3))


def as_before(s3: Store) -> None:
    """Write an output's records as versions before this one did: an object each."""
    output = ObjectOutput(uri(s3))
    output.load()
    state = output.state
    assert state.header is not None and state.last is not None
    records: list[Record] = [state.header, replace(state.last, run=1, files=state.files)]
    digest = ""
    for name in s3.objects("out/merged/manifest/"):
        s3.client().delete_object(Bucket=s3.bucket, Key=f"out/merged/manifest/{name}")
    for number, record in enumerate(records, 1):
        line, digest = encode_record(record, digest)
        second, digest = encode("objects", {"files": {}, "schema": output.names.schema, "writer": "before"}, digest)
        s3.put(f"out/merged/manifest/{number:012d}.jsonl", line + second)


def test_an_output_of_an_older_version_goes_on(s3: Store, tmp_path: Path) -> None:
    path, nodes, good = grown(tmp_path)
    merge(path, uri(s3), end_of_input=False)
    before = published(uri(s3))
    as_before(s3)
    assert published(uri(s3)) == before
    finish(nodes)
    reader = ObjectOutput(uri(s3))
    reader.load()
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        rounds.merge(end_of_input=True)
    assert reader.advance()
    assert published(uri(s3)) == good
    # An older version that comes now finds what says that it is too old.
    third = s3.objects("out/merged/manifest/")["000000000003.jsonl"].splitlines()[0]
    assert json.loads(third)["format_version"] == CLAIMED_VERSION


def test_a_damaged_head_is_an_error(s3: Store, tmp_path: Path) -> None:
    path, _, _ = grown(tmp_path)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3)) as rounds:
        rounds.merge()
    data = s3.objects("out/merged/manifest/")["head.jsonl"]
    rng = random.Random(4)
    for _ in range(effort(60, 600)):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            match rng.randrange(3):
                case 0:
                    damaged[at] ^= 1 << rng.randrange(8)
                case 1:
                    del damaged[at:]
                case _:
                    damaged[at:at] = rng.randbytes(rng.randint(1, 4))
            if not damaged:
                break
        s3.put("out/merged/manifest/head.jsonl", bytes(damaged))
        output = ObjectOutput(uri(s3))
        try:
            output.load()
        except ManifestError as error:
            assert error.file is not None
        else:  # cut after whole records: what was published then
            assert data.startswith(damaged.rstrip(b"\n")) or output.state.header is not None


def test_who_has_lost_the_lease_by_the_end_of_a_round_leaves_the_index_to_the_next(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that was stopped after its last record would else write an index of long ago over a newer one."""
    path, nodes, _ = grown(tmp_path)
    lost = False

    def allowed() -> None:
        if lost:
            raise LeaseLost("another has taken over")

    append = object_manifest.ObjectManifest.append

    def appended(*arguments: Any) -> None:
        nonlocal lost
        append(*arguments)
        lost = True

    index = "out/merged/binlog.index"
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3), work=tmp_path / "host", allowed=allowed) as rounds:
        rounds.merge()
        before = s3.objects(index)
        assert before
        for node in nodes.values():
            node.grow((0, len(node.files[0][1]) * 3 // 4), anywhere=True)
        with monkeypatch.context() as patch:
            patch.setattr(object_manifest.ObjectManifest, "append", appended)
            rounds.merge()
        assert s3.objects(index) == before
        lost = False
        finish(nodes)
        rounds.merge(end_of_input=True)
        assert s3.objects(index) != before


@pytest.mark.parametrize("follows", [True, False])
def test_a_store_that_ignores_conditions_is_refused(follows: bool, s3: Store, tmp_path: Path) -> None:
    path, _, _ = grown(tmp_path)
    with StoreProxy(s3) as proxy:
        proxy.mode = Mode.BLIND
        place = uri(s3, proxy.address)
        with pytest.raises(ObjectStoreRefused, match="If-None-Match and If-Match") as raised:
            if follows:
                with Rounds(LocalRunner(), MergeConfig.load(path), place) as rounds:
                    rounds.merge()
            else:
                merge(path, place, end_of_input=False)
        assert raised.value.exit_code == 54
        assert s3.objects("out/merged/") == {}
        proxy.mode = Mode.PASS
        with Rounds(LocalRunner(), MergeConfig.load(path), place) as rounds:
            rounds.merge()
            proxy.mode = Mode.BLIND
            before = s3.objects("out/merged/")
            with pytest.raises(ObjectStoreRefused):
                rounds.claim(1, "one")
            assert s3.objects("out/merged/") == before


def test_an_object_of_a_file_that_is_removed_while_it_is_put_goes(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is closed, and removed by `retention.size`, before all of it is one object."""
    path, nodes, _ = grown(tmp_path, 0.1)
    config = MergeConfig.load(path).model_copy(update={"retention": Retention(size=6_000)})
    late, compose = threading.Event(), ObjectOutput._compose_now

    def composed(self: ObjectOutput, *args: Any) -> None:
        late.wait(60)
        compose(self, *args)

    monkeypatch.setattr(ObjectOutput, "_compose_now", composed)
    monkeypatch.setattr("binlog_merge.pipeline.retention.EVERY_SECONDS", 0.0)
    with Rounds(LocalRunner(), config, uri(s3)) as rounds:
        for share in (0.3, 0.5, 0.7, 0.9):
            for node in nodes.values():
                node.grow((0, int(len(node.files[0][1]) * share)), anywhere=True)
            rounds.merge()
        assert settled(uri(s3)).state.gone is not None
        late.set()
        while any(thread.name.startswith("put ") for thread in threading.enumerate()):
            time.sleep(0.01)
        finish(nodes)
        rounds.merge(end_of_input=True)
        while any(thread.name.startswith("put ") for thread in threading.enumerate()):
            time.sleep(0.01)
        rounds.claim(1, "one")  # one record more
    output = settled(uri(s3))
    named = {output.names.of(file.name) for file in output.state.files}
    assert {name for name in s3.objects("out/merged/") if name.startswith("binlog.0")} <= named


def test_a_note_that_a_full_disk_takes_none_of_does_not_make_the_open_file_damaged(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not known to be right is read whole, and the local copy has the end of it alone: the rest is brought."""
    path, nodes, good = grown(tmp_path)
    for module in (intact, object_output):
        monkeypatch.setattr(module, "TAIL", 200)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3), work=tmp_path / "one") as rounds:
        rounds.merge()
    finish(nodes)
    monkeypatch.setattr(intact, "write_whole", full)
    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3), work=tmp_path / "two") as rounds:
        hole = dict(rounds._output.elsewhere._holes)  # type: ignore[union-attr]
        assert max(hole.values()) > 0 and not (tmp_path / "two" / intact.NOTE_NAME).exists()
        rounds.merge(end_of_input=True)
    assert published(uri(s3)) == good


def full(path: Path, *_: object) -> None:
    raise IoError("No space left on device", file=str(path))


@pytest.mark.parametrize(
    ("before", "again"),
    [
        ("copy_whole", True),
        *(
            pytest.param(before, again, marks=pytest.mark.extended)
            for before in ("coordinate_nodes", "gather_files", "keep_schemas", "copy_whole", "_end", "put_in_place")
            for again in (True, False)
            if (before, again) != ("copy_whole", True)
        ),
    ],
)
def test_a_folder_that_is_removed_in_a_round_ends_no_merge(
    before: str, again: bool, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the schema store is written: what is missing then is no store that somebody must mend."""
    path, nodes, good = grown(tmp_path)
    work, times = tmp_path / "work", list[str]()
    module = run if hasattr(run, before) else db
    function = getattr(module, before)

    def removed(*arguments: Any) -> Any:
        if not times:
            times.append(before)
            shutil.rmtree(work)
            if again:
                work.mkdir()
        return function(*arguments)

    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3), work=work) as rounds:
        rounds.merge()
        finish(nodes)
        monkeypatch.setattr(module, before, removed)
        try:
            rounds.merge(end_of_input=True)
        except MergeError as error:
            assert error.may_pass, error
        assert times
        rounds.merge(end_of_input=True)
    assert published(uri(s3)) == good


@pytest.mark.parametrize(
    ("gone", "before"),
    [
        ("", "claim"),
        ("", "_recovered"),
        (MANIFEST_NAME, "_recovered"),
        (SCHEMA_NAME, "has_news"),
        (SCHEMA_NAME, "keep_schemas"),
        (SCHEMA_NAME, "publish_run"),
    ],
)
def test_what_is_removed_of_the_copy_is_never_removed_from_the_store(
    gone: str, before: str, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever that is: the round fails, as for a folder that is not mounted, and the next one makes the copy anew."""
    path, nodes, good = grown(tmp_path)
    work, times = tmp_path / "work", list[float]()

    def remove() -> None:
        if gone:
            (work / gone).unlink()
        else:
            shutil.rmtree(work)
            work.mkdir()

    def removing(function: Callable[..., Any]) -> Callable[..., Any]:
        def removed(*arguments: Any) -> Any:
            if not times:
                times.append(time.time())
                remove()
            return function(*arguments)

        return removed

    with Rounds(LocalRunner(), MergeConfig.load(path), uri(s3), work=work) as rounds:
        rounds.merge()
        header = settled(uri(s3)).state.header
        finish(nodes)
        if before == "claim":
            remove()
            rounds.claim(1, "one")
        elif before == "has_news":
            remove()
            assert rounds.has_news()
        else:
            if before == "_recovered":
                rounds.claim(1, "one")
            module = discover if before == "_recovered" else run
            monkeypatch.setattr(module, before, removing(getattr(module, before)))
            with pytest.raises(IoError):
                rounds.merge(end_of_input=True)
        assert settled(uri(s3)).names.schema is not None
        rounds.merge(end_of_input=True)
    assert settled(uri(s3)).state.header == header
    assert published(uri(s3)) == good
