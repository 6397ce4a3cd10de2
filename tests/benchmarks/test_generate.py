"""The generated binlogs are what they claim to be: whole, repeatable, and merged as the oracle merges them."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.generate import Generated, generate, parse_size
from benchmarks.giants import Giant, make
from benchmarks.held import make as make_held
from benchmarks.runner import InlineRunner, ProcessRunner
from benchmarks.schedule import Workload
from benchmarks.tables import MODES, Mode
from binlog_merge.binlog.header import walk
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge
from tests.effort import THOROUGH, keeping
from tests.mysql_server import PREFIX
from tests.oracle import merge_case


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are generated without processes, each of which would load all kernels."""
    monkeypatch.setattr("benchmarks.generate.ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))


def small(folder: Path, mode: Mode = "identity", *, unkind: bool = False) -> Generated:
    return generate(folder, Workload(size=100_000, mode=mode, unkind=unkind, nodes=3, window=20))


def by_commit_order(config: str) -> MergeConfig:
    """The oracle does not know which rows transactions touch."""
    return MergeConfig.load(config).continuing({})


def merged(config: str, out: Path) -> dict[str, bytes]:
    run_merge(InlineRunner(), by_commit_order(config), out, end_of_input=True)
    return {path.name: path.read_bytes() for path in out.glob("binlog.0*")}


@pytest.mark.extended  # the giants below and test_files_are_rotated, too
@pytest.mark.parametrize(
    ("mode", "unkind"),
    keeping(
        [("trim", True)],
        [(mode, bool(unkind)) for i, mode in enumerate(MODES) for unkind in ((0, 1) if THOROUGH else (i % 2,))],
    ),
)
@pytest.mark.usefixtures("in_this_process")
def test_merges_as_the_oracle_does(tmp_path: Path, mode: Mode, unkind: bool) -> None:
    made = small(tmp_path / "cluster", mode, unkind=unkind)
    assert merged(made.config, tmp_path / "merged") == merge_case(Path(made.config)).files


@pytest.mark.usefixtures("in_this_process")
def test_every_event_is_whole(tmp_path: Path) -> None:
    made = small(tmp_path / "cluster", unkind=True)
    for file in made.files:
        kinds = [event.type_code for event in walk(Path(file).read_bytes(), file)]
        assert kinds[:2] == [15, 35]
        assert kinds[-1] == 4
        assert {33, 2, 19, 16, 38} <= set(kinds)


def test_the_same_workload_gives_the_same_bytes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """In processes, and in this one."""
    one = small(tmp_path / "one")
    request.getfixturevalue("in_this_process")
    two = small(tmp_path / "two")
    assert [Path(f).read_bytes() for f in one.files] == [Path(f).read_bytes() for f in two.files]


@pytest.mark.usefixtures("in_this_process")
def test_files_are_rotated(tmp_path: Path) -> None:
    made = generate(tmp_path / "cluster", Workload(size=200_000, nodes=2, file_size=40_000))
    assert len(made.files) > 4
    assert merged(made.config, tmp_path / "merged") == merge_case(Path(made.config)).files


@pytest.mark.mysql
@pytest.mark.usefixtures("in_this_process")
def test_mysqlbinlog_reads_them(tmp_path: Path) -> None:
    made = small(tmp_path / "cluster", "trim", unkind=True)
    for file in made.files:
        subprocess.run(
            [str(PREFIX / "bin" / "mysqlbinlog"), "--verify-binlog-checksum", "-vv", file],
            check=True,
            capture_output=True,
        )


@pytest.mark.parametrize("giant", [Giant("one", 5, 3000), Giant("two", 40, 300, per_event=8, nodes=2)])
@pytest.mark.parametrize("extra", [False, True])
def test_giants_merge_as_the_oracle_does(tmp_path: Path, giant: Giant, extra: bool) -> None:
    config = make(tmp_path / "cluster", giant, extra=extra)
    assert merged(config, tmp_path / "merged") == merge_case(Path(config)).files


@pytest.mark.usefixtures("in_this_process")
def test_processes_write_what_one_process_does(tmp_path: Path) -> None:
    made = small(tmp_path / "cluster")
    expected = merged(made.config, tmp_path / "inline")
    shutil.rmtree(tmp_path / "inline")
    with ProcessRunner(2) as runner:
        run_merge(runner, by_commit_order(made.config), tmp_path / "merged", end_of_input=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "merged").glob("binlog.0*")} == expected


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 10**9), ("1GiB", 1 << 30), ("512 MB", 512 * 10**6), ("7", 7)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_the_shards_of_the_bench_are_held_or_not(tmp_path: Path) -> None:
    for held in (True, False):
        config = MergeConfig.load(make_held(tmp_path / str(held), 300, held=held))
        result = run_merge(InlineRunner(), config, tmp_path / str(held) / "merged", end_of_input=True)
        assert (result.transactions, result.waiting) == (301, 0)
    one, other = (tmp_path / held / "merged" / "binlog.000001" for held in ("True", "False"))
    positions = [path.read_bytes().index(b"ALTER TABLE") for path in (one, other)]
    assert positions[0] < 1000 and positions[1] < 1000
