"""A log cut, ended or damaged anywhere: whole groups are found once each, and nothing else is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.pipeline.scan.task import scan
from binlog_merge.pipeline.scan.values import PieceBlock, ScanResult, ScanTask
from tests.pipeline.scan.scanning import ordered, scanned, tasks_of
from tests.polardbx.logs import Log, end, gcn, local, start


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ScanTask, list[int]]:
    """A log of branches and local transactions: its configuration, a task for all of it, where its groups begin."""
    folder, log = tmp_path_factory.mktemp("log"), Log()
    for events in (local(), start(1), [gcn(7, 5), end(1)], local("u")):
        log.group(*events)
    config = log.save(folder, carrier="polardbx")
    (task,) = tasks_of(config, "polardbx", folder)["dn-1"]
    return config, task, [*log.starts, len(log.data)]


def places(task: ScanTask, starts: list[int], step: int) -> Iterator[tuple[int, int]]:
    """Yield offsets behind the head, those about the groups' edges among them, and how many groups end before each."""
    edges = {at + by for at in starts for by in (-1, 0, 1)}
    for at in sorted({*range(starts[0], task.size, step), *edges} & {*range(starts[0], task.size)}):
        yield at, sum(s <= at for s in starts) - 1


def pieces(task: ScanTask, at: int) -> list[ScanTask]:
    other = PieceBlock(f"{task.block.path}-2")
    return [replace(task, stop=at), replace(task, start=at, block=other, piece=1, exact=False)]


@pytest.mark.heavy
def test_cut_anywhere(made: tuple[Path, ScanTask, list[int]]) -> None:
    config, task, starts = made
    whole = ordered(scanned(config, [task]))
    assert [key.commit_tso for key, *_ in whole] == [0, 7, 7]
    for at, _ in places(task, starts, 4):
        found = [scan(piece) for piece in pieces(task, at)]
        before = sum(s < at for s in starts[:-1])
        assert [result.groups for result in found] == [before, len(starts) - 1 - before]
    for at, _ in places(task, starts, 61):
        assert ordered(scanned(config, pieces(task, at))) == whole


def test_ended_anywhere(made: tuple[Path, ScanTask, list[int]]) -> None:
    _, task, starts = made
    for at, before in places(task, starts, 3):
        found = scan(replace(task, file=replace(task.file, size=at)))
        assert (found.groups, found.error) == (before, None)
        assert found.end == starts[before] or before == 0
        inside = at != starts[before]
        assert (found.truncated is not None or found.unfinished is not None) == inside
        if found.truncated is not None:
            assert starts[before] <= found.truncated < at


def test_damaged_anywhere(made: tuple[Path, ScanTask, list[int]]) -> None:
    _, task, starts = made
    path = Path(task.file.path)
    data = path.read_bytes()
    try:
        for at, before in places(task, starts, 5):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
            found: ScanResult = scan(task)
            assert found.groups == before, at
            # A length that points behind the file looks as if the file were cut; what else is changed is damage.
            place = found.truncated if found.error is None else found.error["position"]
            assert place is not None and starts[before] <= place <= at, at
    finally:
        path.write_bytes(data)
