"""What the scan keeps of GTIDs and sequence numbers, against what was written, however files are cut."""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.pipeline.base.logged import MOST_SPANS
from binlog_merge.pipeline.scan.task import scan
from binlog_merge.pipeline.scan.values import ScanResult
from tests.effort import keeping
from tests.pipeline.scan.scanning import cut, tasks_of
from tests.simulator import wire
from tests.simulator.wire import Event

SIDS = (bytes(range(16)), b"\xff" * 16, b"k" * 16)
Gtid = tuple[bytes, str, int]


@dataclass
class Writer:
    """A file of one node, written group by group; `logged` are the GTIDs of its groups, `starts` where those begin."""

    data: bytearray = field(default_factory=lambda: bytearray(wire.MAGIC))
    sequence: int = 0
    logged: list[Gtid] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        body = wire.format_description("9.7.0", 0, True)
        self.data += wire.frame(Event(wire.FORMAT_DESCRIPTION, body), 9, 1, 4, True)
        self.write(Event(wire.PREVIOUS_GTIDS, struct.pack("<Q", 0), 0x80))

    def write(self, event: Event) -> None:
        self.data += wire.frame(event, 1_790_000_000, 1, len(self.data), True)

    def group(self, sid: bytes, tag: str, gno: int, *events: Event, sequence: int | None = None) -> None:
        """Write a group; without a tag and a number it has no GTID."""
        self.sequence = self.sequence + 1 if sequence is None else sequence
        kind = wire.GTID_TAGGED if tag else wire.GTID if gno else wire.ANONYMOUS_GTID
        gtid = wire.Gtid(kind, sid, gno, 1_790_000_000_000_000, tag=tag)
        self.starts.append(len(self.data))
        others = events or (wire.query("BEGIN"), wire.xid(1))
        for event in (gtid.event(0, self.sequence, others), *others):
            self.write(event)
        if gno:
            self.logged.append((sid, tag, gno))

    def scan(
        self, folder: Path, cuts: int = 0, carrier: str = "commit-table", lenient: bool = False
    ) -> list[ScanResult]:
        """Scan the file in one piece, or in pieces by a seed."""
        (folder / "n").mkdir(parents=True, exist_ok=True)
        (folder / "n" / "binlog.000001").write_bytes(self.data)
        nodes = [{"source-id": "n", "files": "n/binlog.*"}]
        values = {"version": 1, "name": "made", "nodes": nodes, "commit-tso": {"carrier": carrier}}
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        tasks = tasks_of(folder / "cluster.yaml", carrier, folder)["n"]
        tasks = cut(tasks, random.Random(cuts), 9) if cuts else tasks
        return [scan(replace(task, lenient=lenient)) for task in tasks]


def made(gtids: Sequence[Gtid]) -> GtidSet:
    return GtidSet.of((sid, tag, gno, gno + 1) for sid, tag, gno in gtids)


@pytest.mark.parametrize("seed", keeping(range(4), range(12)))
def test_sources_tags_and_parallel_appliers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    writer = Writer()
    pools = [[(sid, tag, gno) for gno in range(1, 60)] for sid in SIDS for tag in ("", "one", "two")]
    for pool in pools:  # appliers in parallel overtake each other
        for at in range(0, 59, 5):
            part = pool[at : at + 5]
            rng.shuffle(part)
            pool[at : at + 5] = part
    left = rng.sample(pools, rng.choice([1, 2, 5]))
    while left:
        pool = rng.choice(left)
        for _ in range(rng.choice([1, 1, 3])):
            if pool:
                writer.group(*pool.pop(0))
        if rng.random() < 0.05:
            writer.group(SIDS[0], "", 0)
        left = [one for one in left if one]
    for cuts in (0, 1, 2):
        results = writer.scan(tmp_path / str(cuts), cuts)
        found = [r.logged for r in results]
        assert all(r.error is None for r in results)
        assert GtidSet.of(item for one in found for item in one.all.items()) == made(writer.logged)
        assert sum(one.without for one in found) == len(writer.starts) - len(writer.logged)
        assert not any(one.twice or one.scattered or one.carrying for one in found)
        following = 1
        for one in found:
            if one.first_number >= 0:
                assert one.first_number == following
                following = one.next_number
        assert following == len(writer.starts) + 1
        assert next(one.first for one in found if one.first) == writer.logged[0]
        assert [one.last for one in found if one.last][-1] == writer.logged[-1]


def test_a_gtid_twice_in_a_piece(tmp_path: Path) -> None:
    writer = Writer()
    for gno in (1, 2, 3, 2, 4):
        writer.group(SIDS[0], "", gno)
    (result,) = writer.scan(tmp_path)
    assert result.logged.twice and result.logged.all.count == 4


def test_the_group_that_is_not_whole_does_not_count(tmp_path: Path) -> None:
    for tag in ("", "t"):
        writer = Writer()
        for gno in (5, 6, 7):
            writer.group(SIDS[0], tag, gno)
        writer.group(SIDS[0], tag, 8, wire.query("BEGIN"))
        (result,) = writer.scan(tmp_path / tag)
        assert result.unfinished == writer.starts[-1]
        assert result.logged.all == made(writer.logged[:3])


@pytest.mark.parametrize("tag", ["", "t"])
@pytest.mark.parametrize(
    ("numbers", "code", "at"),
    [
        ((1, 2, 4), "transaction-missing", 2),
        ((1, 2, 2), "transaction-twice", 2),
        ((1, 3, 2), "transaction-missing", 1),
        ((2, 3), "transaction-missing", 0),
        ((1, 2, 1), "transaction-twice", 2),
        ((1, 2, 0), "transaction-missing", 2),
        ((0, 0, 1), "transaction-missing", 2),
        ((1, 2, 3), None, 0),
        ((0, 0, 0), None, 0),
    ],
)
def test_sequence_numbers(numbers: tuple[int, ...], code: str | None, at: int, tag: str, tmp_path: Path) -> None:
    writer = Writer()
    for gno, number in enumerate(numbers, 1):
        writer.group(SIDS[0], tag, gno, sequence=number)
    (result,) = writer.scan(tmp_path / "strict")
    if code is None:
        assert result.error is None and result.groups == len(numbers)
        return
    assert result.error is not None
    assert (result.error["code"], result.error["position"]) == (code, writer.starts[at])
    assert result.groups == at
    (result,) = writer.scan(tmp_path / "lenient", lenient=True)
    assert result.error is None and result.groups == len(numbers)
    assert result.logged.breaks[0][0] == writer.starts[at]


def test_a_group_without_a_gtid_event(tmp_path: Path) -> None:
    writer = Writer()
    writer.group(SIDS[0], "", 1)
    writer.write(wire.query("BEGIN"))
    writer.write(wire.xid(2))
    (result,) = writer.scan(tmp_path)
    assert result.error is not None and "without a GTID event" in result.error["message"] and result.groups == 1


def test_gtids_that_carry_the_commit_tso_are_set_apart(tmp_path: Path) -> None:
    """Only those of XA COMMITs; they may run on from one to the next."""
    writer = Writer()
    tso = 7_507_804_160_322_961_408
    for number in range(20):
        xid = f"X'{number:02x}',X'01',1"
        prepare = Event(wire.XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 1) + b"xy")
        writer.group(SIDS[0], "", number + 1, wire.query(f"XA START {xid}"), wire.query(f"XA END {xid}"), prepare)
        writer.group(SIDS[1], "", tso + number // 2 * 2 + number % 2, wire.query(f"XA COMMIT {xid}"))
    for cuts in (0, 3):
        found = [r.logged for r in writer.scan(tmp_path / str(cuts), cuts, "gtid")]
        assert GtidSet.of(item for one in found for item in one.gtids.items()) == made(writer.logged[::2])
        assert GtidSet.of(item for one in found for item in one.carrying.items()) == made(writer.logged[1::2])


def test_too_many_intervals_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_merge.pipeline.scan.task.MOST_SPANS", 50)
    writer = Writer()
    for gno in range(1, 200, 2):
        writer.group(SIDS[0], "", gno)
    (result,) = writer.scan(tmp_path)
    assert result.logged.scattered and not result.logged.all and MOST_SPANS > 50
    assert result.logged.next_number == 101 and not result.logged.twice
