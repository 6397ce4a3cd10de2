"""The scan against the oracle's walk: every file, cut anywhere, read in buffers of any size."""

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.pipeline.coordinate.read_again import physical_ddl
from binlog_merge.pipeline.order.task import GREATEST, LEAST
from binlog_merge.pipeline.scan import task as scan_stage
from binlog_merge.pipeline.scan import walk as scan_walk
from snapshot_store.tso import ORIGIN, OrderKey
from tests.effort import THOROUGH, effort
from tests.merge_e2e.cases import CASES
from tests.merge_e2e.simulator import Simulator, Style
from tests.oracle import OracleError
from tests.pipeline.scan.scanning import Expected, cut, expected, ordered, scanned, tasks_of


@pytest.fixture(
    params=[pytest.param(case, marks=() if i % 3 == 0 else pytest.mark.heavy) for i, case in enumerate(CASES)],
    ids=lambda case: str(case.name),
)
def config(request: pytest.FixtureRequest) -> Path:
    return Path(request.param) / "cluster.yaml"


_known = cache(expected)  # of the cases, whose files stay as they are


def _expected(config: Path, carrier: str | None = None) -> tuple[str, dict[str, Expected]]:
    try:
        return _known(config, carrier)
    except OracleError as error:
        pytest.skip(str(error))


def test_whole_files_and_any_pieces_of_them(config: Path, tmp_path: Path) -> None:
    carrier, wanted = _expected(config)
    rng = random.Random(str(config))
    for source_id, tasks in tasks_of(config, carrier, tmp_path).items():
        for pieces in ([*tasks], cut(tasks, rng, 4), cut(tasks, rng, 40)):
            node = scanned(config, pieces)
            assert node.error is None
            assert ordered(node) == wanted[source_id].rows
            assert node.watermark(0) == wanted[source_id].watermark
            assert tuple(ddl.key for ddl in physical_ddl(node, ORIGIN, ORIGIN)) == wanted[source_id].ddl


@pytest.mark.extended  # made-up histories below have this carrier, too
@pytest.mark.heavy
def test_clocks_of_nodes_instead_of_commit_tsos(config: Path, tmp_path: Path) -> None:
    wanted = _expected(config, "gtid-time")[1]
    rng = random.Random(str(config))
    for source_id, tasks in tasks_of(config, "gtid-time", tmp_path).items():
        for pieces in ([*tasks], cut(tasks, rng, 10)):
            node = scanned(config, pieces)
            assert node.error is None
            assert ordered(node) == wanted[source_id].rows
            assert node.watermark(0) == wanted[source_id].watermark
            assert tuple(ddl.key for ddl in physical_ddl(node, ORIGIN, ORIGIN)) == wanted[source_id].ddl


def test_buffers_of_any_size(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each case one size, by turns; with THOROUGH=1 all."""
    sizes = (64, 333, 5000)
    for chunk in sizes if THOROUGH else [sizes[CASES.index(config.parent) % 3]]:
        (tmp_path / str(chunk)).mkdir()
        _in_buffers(config, chunk, tmp_path / str(chunk), monkeypatch)


def _in_buffers(config: Path, chunk: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carrier, wanted = _expected(config)
    for module in (scan_stage, scan_walk):
        monkeypatch.setattr(module, "CHUNK", chunk)
    monkeypatch.setattr(scan_stage, "GIANT_EVENT", 20_000)  # such an event is not held in memory
    for source_id, tasks in tasks_of(config, carrier, folder).items():
        assert ordered(scanned(config, tasks)) == wanted[source_id].rows


@given(
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.sampled_from(["commit-table", "gtid", "original-commit-timestamp", "gtid-time"]),
)
@settings(max_examples=effort(20, 40), deadline=None)
def test_made_up_histories_cut_anywhere(seed: int, cuts: int, carrier: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = Simulator(seed, Style(nodes=2, steps=80, rotate=0.05, carrier=carrier)).write(folder)
        used, wanted = expected(config)
        for source_id, tasks in tasks_of(config, carrier, folder).items():
            node = scanned(config, cut(tasks, random.Random(cuts), 12))
            assert node.error is None
            assert (ordered(node), node.watermark(0)) == (wanted[source_id].rows, wanted[source_id].watermark), used


@given(st.integers(0, 10_000), st.lists(st.integers(0, 100), max_size=8))
@settings(max_examples=25, deadline=None)
def test_ranges_cut_anywhere_give_the_same_order(seed: int, shares: list[int]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = Simulator(seed, Style(nodes=1, steps=150, rotate=0.05)).write(folder)
        carrier, wanted = expected(config)
        tasks = tasks_of(config, carrier, folder)["dn-1"]
        node = scanned(config, cut(tasks, random.Random(seed), 3))
        tsos = sorted({key.commit_tso for key, _, _, _ in wanted["dn-1"].rows}) or [0]
        bounds = sorted({tsos[min(len(tsos) - 1, share * len(tsos) // 100)] + share % 2 for share in shares})
        ranges = list(zip([LEAST, *bounds], [*bounds, GREATEST], strict=True))
        assert ordered(node, ranges) == wanted["dn-1"].rows


@given(st.integers(0, 10_000), st.floats(0, 1), st.sampled_from(["commit-table", "gtid-time"]))
@settings(max_examples=effort(30, 60), deadline=None)
def test_nothing_that_arrives_later_is_below_the_watermark(seed: int, share: float, carrier: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = Simulator(seed, Style(nodes=1, steps=120, rotate=0, carrier=carrier)).write(folder)
        path = folder / "nodes" / "dn-1" / "binlog.000001"
        whole = ordered(scanned(config, tasks_of(config, carrier, folder)["dn-1"]))
        data = path.read_bytes()
        path.write_bytes(data[: 158 + int((len(data) - 158) * share)][:-1] if share < 1 else data)
        now = scanned(config, tasks_of(config, carrier, folder)["dn-1"], end_of_input=False)
        seen, watermark = set(ordered(now)), now.watermark(0)
        later = [row[0] for row in whole if row not in seen]
        assert seen <= set(whole)
        if watermark is not None:
            assert all(key >= watermark for key in later)
            assert watermark > OrderKey(0, 0, 0, 0)
