"""A real cluster whose processes are killed, and whose store fails: the right bytes, or an error that is documented.

Two workers of one core share nothing but a store; all blocks stay on the executors that wrote them. One merge has the
most likely faults, an extended one the driver's, `make test THOROUGH=1` has the others.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.errors import EngineFailed, ObjectStoreUnreachable, OutputBusy
from binlog_merge.files.failpoint import VARIABLE
from binlog_merge.files.object_output import ObjectOutput
from binlog_merge.files.remote_log import opened_log
from tests.effort import THOROUGH
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import assert_prefix
from tests.object_store import Faults, Store
from tests.spark.cluster import Cluster
from tests.spark.sabotage import Pause, Strike
from tests.spark.submitting import Submitted, Submitter, stored

pytestmark = pytest.mark.spark
thorough = pytest.mark.skipif(not THOROUGH, reason="takes minutes; THOROUGH=1")
CASE = case_named("three-nodes-online-ddl")
HOLDING = case_named("shards-pessimistic")
MOST = 20_000
ONE_CORE = ("spark.cores.max=1",)
STRIKES = (("scan", "executor"), ("gather", "worker"))


@pytest.fixture
def submitter(two_machines: Cluster, tmp_path: Path) -> Iterator[Submitter]:
    """Two workers of one core; a test before may have lost one."""
    while two_machines.workers < 2:
        two_machines.add_worker(cores=1)
    with Submitter(two_machines, tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What merges of CASE write on one machine."""
    found = whole(copy_case(CASE, tmp_path_factory.mktemp("local") / "case", max_size(MOST)))
    assert len(found) > 2
    return found


def published(place: str) -> dict[str, bytes]:
    """Return what readers see; nothing if nothing is published."""
    output = ObjectOutput(place)
    output.load()
    if output.state.header is None:
        return {}
    with opened_log(place) as log:
        return {file.name: log.path(file).read_bytes() for file in log.state().files}


def left(s3: Store) -> list[str]:
    """Return the objects that no reader needs."""
    return [name for name in s3.objects("merged/") if name.startswith("parts/") or name.count(".") > 1]


def struck(folder: Path) -> list[str]:
    """Return which strikes have hit."""
    return sorted(path.name for path in folder.iterdir())


def folder_of(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def test_an_executor_and_a_worker_are_killed(
    submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """In one merge: the executor when it has scanned, the worker when it has written."""
    folder, out = folder_of(tmp_path, "struck"), s3.uri("merged")
    strikes = [Strike(stage, kills, "after", 1, str(folder)) for stage, kills in STRIKES]
    code, said = submitter.merge(stored(CASE, tmp_path / "case", s3, MOST), out, strikes=strikes)
    submitter.cluster.workers -= 1
    assert code == 0 and struck(folder) == ["gather-0", "scan-0"], said
    assert published(out) == expected and not left(s3)


@pytest.mark.extended  # a driver that is killed between puts: merge_e2e/test_object_store
def test_an_executor_the_driver_and_a_worker_are_killed(
    submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    config, out = stored(CASE, tmp_path / "case", s3, MOST), s3.uri("merged")
    first, second = folder_of(tmp_path, "first"), folder_of(tmp_path, "second")
    executor = Strike("scan", "executor", "after", 1, str(first))
    code, said = submitter.merge(config, out, strikes=[executor], **{VARIABLE: "after-order:kill"})
    assert code != 0 and struck(first) == ["scan-0"], said
    assert published(out) == {}
    worker = Strike("gather", "worker", "after", 1, str(second))
    code, said = submitter.merge(config, out, strikes=[worker])
    submitter.cluster.workers -= 1
    assert code == 0 and struck(second) == ["gather-0"], said
    assert published(out) == expected and not left(s3)


@thorough
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stage", ["scan", "order", "gather"])
@pytest.mark.parametrize("kills", ["executor", "worker"])
def test_killed_in_each_stage(
    kills: str, stage: str, when: str, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Of workers one dies, of executors two, one after the other."""
    strike = Strike(stage, kills, when, 1 if kills == "worker" else 2, str(folder_of(tmp_path, "struck")))
    out = s3.uri("merged")
    code, said = submitter.merge(stored(CASE, tmp_path / "case", s3, MOST), out, strikes=[strike])
    submitter.cluster.workers -= kills == "worker"
    assert code == 0 and len(struck(Path(strike.folder))) == strike.times, said
    assert published(out) == expected and not left(s3)


@thorough
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_rows_are_held(when: str, submitter: Submitter, s3: Store, tmp_path: Path) -> None:
    strike = Strike("hold", "executor", when, 1, str(folder_of(tmp_path, "struck")))
    out = s3.uri("merged")
    code, said = submitter.merge(stored(HOLDING, tmp_path / "case", s3, MOST), out, strikes=[strike])
    assert code == 0 and struck(Path(strike.folder)), said
    assert published(out) == whole(copy_case(HOLDING, tmp_path / "local", max_size(MOST))) and not left(s3)


@thorough
@pytest.mark.parametrize(("stage", "when"), [("scan", "after"), ("order", "before"), ("order", "after")])
def test_all_executors_are_killed_between_stages(
    stage: str, when: str, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """With them go all blocks: the driver that coordinates, and the next stage, have them made anew."""
    pause = Pause(stage, when, str(folder_of(tmp_path, "pause")))
    out = s3.uri("merged")
    merge = submitter.submit(stored(CASE, tmp_path / "case", s3, MOST), out, pauses=[pause])
    wait_for(pause, merge)
    killed = submitter.cluster.kill_executors()
    go(pause)
    assert merge.ended() == 0 and killed >= 2, merge.said()
    assert published(out) == expected and not left(s3)


def wait_for(pause: Pause, merge: Submitted) -> None:
    """Wait until the driver has come to its pause."""
    while not Path(pause.folder, "waits").exists():
        assert merge.process.poll() is None, merge.said()
        time.sleep(0.05)


def go(pause: Pause) -> None:
    Path(pause.folder, "go").touch()


@thorough
@pytest.mark.parametrize(
    "failpoint",
    ["after-scan", "after-gather", "object-before-schema", "object-before-manifest:2", "object-after-manifest:2"],
)
def test_the_driver_is_killed_and_run_again(
    failpoint: str, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    config, out = stored(CASE, tmp_path / "case", s3, MOST), s3.uri("merged")
    name, _, visit = failpoint.partition(":")  # the manifest's first record names no files
    assert submitter.merge(config, out, **{VARIABLE: f"{name}:kill" + f":{visit}" * bool(visit)})[0] != 0
    assert published(out) == (expected if name == "object-after-manifest" else {})
    code, said = submitter.merge(config, out)
    assert code == 0, said
    assert published(out) == expected and not left(s3)


@thorough
@pytest.mark.parametrize("stage", ["scan", "gather"])
def test_the_driver_and_its_java_are_killed_while_tasks_run(
    stage: str, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """The tasks of the dead driver go on for a while, and write beside those of the next one."""
    config, out = stored(CASE, tmp_path / "case", s3, MOST), s3.uri("merged")
    pause = Pause(stage, "task", str(folder_of(tmp_path, "pause")))
    merge = submitter.submit(config, out, pauses=[pause])
    wait_for(pause, merge)
    os.killpg(merge.process.pid, signal.SIGKILL)
    merge.ended()
    again = submitter.submit(config, out)
    go(pause)
    assert again.ended() == 0, again.said()
    assert published(out) == expected and not left(s3)


@thorough
@pytest.mark.parametrize(("stage", "when"), [("scan", "after"), ("gather", "before"), ("gather", "after")])
def test_of_two_drivers_one_wins(
    stage: str, when: str, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """One waits while the other merges from beginning to end; they are on two machines, as far as they know."""
    config, out = stored(CASE, tmp_path / "case", s3, MOST), s3.uri("merged")
    pause = Pause(stage, when, str(folder_of(tmp_path, "pause")))
    slow = submitter.submit(config, out, *ONE_CORE, pauses=[pause])
    wait_for(pause, slow)
    code, said = submitter.merge(config, out, *ONE_CORE)
    assert code == 0, said
    go(pause)
    assert slow.ended() == OutputBusy.exit_code, slow.said()
    assert "output-busy" in slow.said() and "Traceback" not in slow.said()
    assert published(out) == expected and not left(s3)


@thorough
def test_two_drivers_that_race(submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]) -> None:
    """From gather on; before that, the second one might find the first record of the manifest taken."""
    config, out = stored(CASE, tmp_path / "case", s3, MOST), s3.uri("merged")
    pauses = [Pause("gather", "before", str(folder_of(tmp_path, f"pause-{n}"))) for n in range(2)]
    merges = []
    for pause in pauses:
        merges.append(submitter.submit(config, out, *ONE_CORE, pauses=[pause]))
        wait_for(pause, merges[-1])
    for pause in pauses:
        go(pause)
    codes = sorted(merge.ended() for merge in merges)
    assert codes == [0, OutputBusy.exit_code], [merge.said() for merge in merges]
    assert published(out) == expected and not left(s3)


@thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_store_that_fails_at_random(
    seed: int, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """500, 503 and cut connections, for driver and executors; what is published is always a prefix."""
    with Faults(s3, seed, share=0.1 + 0.1 * seed) as faults:
        config = stored(CASE, tmp_path / "case", s3, MOST, address=faults.address)
        for _ in range(6):
            code, said = submitter.merge(config, s3.uri("merged", address=faults.address))
            if code == 0:
                break
            assert code == ObjectStoreUnreachable.exit_code, said
            assert "Traceback" not in said
            if found := published(s3.uri("merged")):
                assert_prefix(found, expected)
        else:
            pytest.fail("six merges have failed")
        assert faults.done
    assert published(s3.uri("merged")) == expected and not left(s3)


@thorough
@pytest.mark.parametrize("stage", ["scan", "gather"])
def test_executors_that_always_die_end_the_merge(
    stage: str, submitter: Submitter, s3: Store, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    strike = Strike(stage, "executor", "before", 1000, str(folder_of(tmp_path, "struck")))
    config, out = stored(CASE, tmp_path / "case", s3, MOST), s3.uri("merged")
    code, said = submitter.merge(config, out, strikes=[strike])
    assert code == EngineFailed.exit_code, said
    assert f"Spark could not finish the stage {stage}" in said and 4 <= len(struck(Path(strike.folder))) < 20, said
    assert published(out) == {}
    assert submitter.merge(config, out)[0] == 0
    assert published(out) == expected and not left(s3)
