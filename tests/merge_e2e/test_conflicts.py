"""One transaction with two commit TSOs: nothing of it comes out, and both places are told."""

import struct
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.kernels.index_rows import note_tsos
from binlog_merge.errors import CommitTsoConflict
from binlog_merge.pipeline.assemble import several_tsos
from binlog_merge.pipeline.assemble.several_tsos import CompareTask, DealTask, compare, deal
from binlog_merge.pipeline.base.blocks import Held, holding, write_block
from binlog_merge.pipeline.scan.carriers import CARRIERS
from tests.effort import keeping
from tests.merge_e2e.local import merge, written
from tests.polardbx.logs import Log, end, gcn, rows, start
from tests.simulator import wire
from tests.simulator.wire import Event

TSO = 1_790_000_000_000 << 22


class Shard:
    """One node's log, in which commits carry their TSOs as a carrier does."""

    def __init__(self, number: int, carrier: str) -> None:
        self.number, self.carrier = number, carrier
        self.log = Log(server=number)
        self.prepared: dict[int, int] = {}

    def branch(self, transaction: int, tso: int) -> None:
        if self.carrier == "polardbx":
            self.prepared[transaction] = len(self.log.data)
            self.log.group(*start(transaction, group=f"G{self.number}"))
            self.log.group(end(transaction, group=f"G{self.number}"), before=[gcn(tso, 5)])
            return
        if self.carrier == "commit-table":
            self._group(wire.query("BEGIN"), None, None, *commit_row(f"app-{transaction}", tso), wire.xid(7))
        xid = f"X'{f'app-{transaction}'.encode().hex()}',X'{self.number:02x}',1"
        prepare = Event(wire.XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 1) + b"xy")
        self.prepared[transaction] = len(self.log.data)
        self.log.group(wire.query(f"XA START {xid}"), *rows(), wire.query(f"XA END {xid}"), prepare)
        original = {
            "original-commit-timestamp": tso >> 9,
            "original-commit-timestamp-us": (tso >> 22) * 1000,
        }
        self._group(wire.query(f"XA COMMIT {xid}"), tso if self.carrier == "gtid" else None, original.get(self.carrier))

    def _group(self, event: Event, number: int | None, original: int | None, *more: Event) -> None:
        log = self.log
        log.starts.append(len(log.data))
        log.gno += 1
        gtid = wire.Gtid(wire.GTID, bytes([self.number]) * 16, number or log.gno, 1_790_000_000_000_000, original)
        for one in (gtid.event(log.gno - 1, log.gno, [event, *more]), event, *more):
            log.write(one)


def commit_row(gtrid: str, tso: int) -> list[Event]:
    """Return the row (gtrid, tso) of the commit table."""
    name, table = b"__cdc__", b"__commit_ts__"
    body = (
        (77).to_bytes(6, "little") + b"\1\0" + bytes([len(name)]) + name + b"\0" + bytes([len(table)]) + table + b"\0"
    )
    image = b"\2\0\2\3\0" + bytes([len(gtrid)]) + gtrid.encode() + struct.pack("<q", tso)
    return [
        Event(wire.TABLE_MAP, body + b"\2\x0f\x08\2\xc8\0\0"),
        Event(wire.WRITE, (77).to_bytes(6, "little") + b"\1\0" + image),
    ]


def save(shards: list[Shard], folder: Path, carrier: str) -> Path:
    for shard in shards:
        shard.log.save(folder / f"n{shard.number}")
    values = {
        "version": 1, "name": "made", "commit-tso": {"carrier": carrier}, "base": {"logical": "base.sql"},
        "nodes": [{"source-id": f"dn-{s.number}", "files": f"n{s.number}/dn-1/binlog.*"} for s in shards],
    }  # fmt: skip
    (folder / "base.sql").write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a bigint);")
    (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
    return folder / "cluster.yaml"


def tso(n: int) -> int:
    return TSO + (n << 22)


CARRIED = [name for name in CARRIERS if name != "gtid-time"]  # where clocks give the order nothing is joined


@pytest.mark.parametrize("carrier", CARRIED)
@pytest.mark.parametrize("partitions", keeping([6], [None, 6]))  # a branch of which another part has the rest
def test_nothing_of_it_comes_out(carrier: str, partitions: int | None, tmp_path: Path) -> None:
    shards = [Shard(1, carrier), Shard(2, carrier)]
    for number in range(1, 9):
        for shard in shards:
            shard.branch(number, tso(20 if (number, shard.number) == (5, 2) else number))
    config = save(shards, tmp_path, carrier)
    for _ in range(2):
        with pytest.raises(CommitTsoConflict) as raised:
            merge(config, tmp_path / "out", partitions=partitions)
        error = raised.value
        assert (error.exit_code, error.node, str(error.order_key)[:19]) == (30, "dn-1", str(tso(5)))
        assert error.position == shards[0].prepared[5] and str(tmp_path / "n1") in str(error.file)
        place = f"{tmp_path}/n2/dn-1/binlog.000001:{shards[1].prepared[5]}"
        assert f"{tso(5)} on node dn-1, but {tso(20)} on node dn-2 ({place})" in error.message
        assert merge_count(tmp_path / "out") == 4


def merge_count(out: Path) -> int:
    return sum(data.count(b"# CTS::") for data in written(out).values())


def test_many_branches_are_compared_in_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_tsos, "IN_DRIVER", -1)
    monkeypatch.setattr(several_tsos, "DEALT", 1)
    monkeypatch.setattr(several_tsos, "COMPARED", 4)
    test_nothing_of_it_comes_out("polardbx", 6, tmp_path)


@given(st.lists(st.tuples(st.integers(0, 30) | st.integers(-(2**63), 2**63 - 1), st.integers(0, 2)), max_size=80))
def test_what_tasks_find_is_what_a_dictionary_finds(pairs: list[tuple[int, int]]) -> None:
    known: dict[int, int] = {}
    wanted = sorted({x for x, t in pairs if known.setdefault(x, t) != t})
    held, paths = Held(), [f"held:{i}" for i in range(4)]
    columns = [tuple(np.array([pair[i] for pair in pairs[n::5]], np.int64) for i in (0, 1)) for n in range(5)]
    with holding(held), mock.patch.object(several_tsos, "AT_ONCE", 8):
        for path, (transaction, times) in zip(paths, columns, strict=False):
            write_block(path, {"transaction": transaction, "tso": times, "flags": np.zeros_like(times)})
        for number in (0, 2):
            deal(DealTask(f"held:dealt-{number}", 4, tuple(paths[number : number + 2])))
        edges = several_tsos._shares((columns[4][0], columns[4][1]), 4)
        shares = [CompareTask(share, ("held:dealt-0", "held:dealt-2"), edges[share]) for share in range(4)]
        assert sorted(np.concatenate([compare(task) for task in shares]).tolist()) == wanted


def test_more_ids_with_several_tsos_than_can_be_an_error_are_none() -> None:
    many = np.arange(several_tsos.MANY + 1, dtype=np.int64)
    both = [(many, np.zeros_like(many)), (many, np.ones_like(many))]
    assert len(several_tsos.different(both)) == 0
    assert len(several_tsos.different(both, several_tsos.MANY + 1)) == several_tsos.MANY + 1
    assert len(several_tsos.different([(many[1:], tsos[1:]) for _, tsos in both])) == several_tsos.MANY


def test_it_stops_only_what_it_reaches(tmp_path: Path) -> None:
    shards = [Shard(1, "polardbx"), Shard(2, "polardbx")]
    for number in range(1, 4):
        for shard in shards:
            shard.branch(number, tso(number + (number == 3) * shard.number))
    config = save(shards, tmp_path, "polardbx")
    assert merge(config, tmp_path / "out", stop_tso=tso(3)).transactions == 2
    with pytest.raises(CommitTsoConflict):
        merge(config, tmp_path / "out")


@pytest.mark.parametrize(
    ("carrier", "well"), [("polardbx", False), ("gtid", True), ("original-commit-timestamp", True)]
)
def test_a_name_that_is_used_again(carrier: str, well: bool, tmp_path: Path) -> None:
    """PolarDB-X never does; another coordinator may, and then the same nodes have it each time."""
    shards = [Shard(1, carrier), Shard(2, carrier)]
    for time in range(1, 4):
        for shard in shards:
            shard.branch(7, tso(time))
    config = save(shards, tmp_path, carrier)
    if well:
        assert merge(config, tmp_path / "out").transactions == 3
        return
    with pytest.raises(CommitTsoConflict):
        merge(config, tmp_path / "out")


@given(
    st.lists(st.tuples(st.integers(0, 40) | st.integers(0, 2**63 - 1), st.integers(0, 3)), max_size=60),
    st.sampled_from([1, 2, 8]),
)
def test_the_hash_table_finds_what_a_dictionary_finds(pairs: list[tuple[int, int]], parts: int) -> None:
    transaction, times = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    known: dict[int, int] = {}
    wanted = {x for x, t in pairs if known.setdefault(x, t) != t}
    found, count = np.zeros(64, np.int64), 0
    for part in range(parts):
        table = np.full((128, 2), -1, np.int64)
        for half in (slice(0, 30), slice(30, None)):
            count = int(note_tsos(transaction[half], times[half], table, part, parts, found, count))
    assert set(found[:count].tolist()) == wanted
    if len(wanted) > 1:
        full: Callable[..., int] = note_tsos
        assert full(transaction, times, np.full((128, 2), -1, np.int64), 0, 1, found[:1], 0) == -1
