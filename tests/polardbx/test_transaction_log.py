"""The oldest clusters: commit TSOs in a transaction log, on one node of each transaction, whenever each log is read."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import merge, written
from tests.polardbx.logs import Log, end, local, logged, start
from tests.simulator import wire
from tests.simulator.wire import Event

TSO = 7_507_804_160_000_000_000


@dataclass
class Cluster:
    """Nodes as clusters of old write them: prepare everywhere, fetch the TSO, log it on one node, commit."""

    nodes: int
    logs: list[Log] = field(init=False)
    old: list[dict[str, bytes]] = field(init=False)
    tso: int = TSO
    serial: int = 0

    def __post_init__(self) -> None:
        self.logs = [Log(server=number + 1) for number in range(self.nodes)]
        self.old = [{} for _ in self.logs]

    def prepare(self, *nodes: int) -> int:
        self.serial += 1
        for node in nodes:
            self.logs[node].group(*start(self.serial, group=f"G{node}"))
        return self.serial

    def decide(self, transaction: int, node: int, *, policy: bool = True) -> None:
        """Write the transaction's row, without a TSO where it is of a kind that has none."""
        self.tso += 1 << 22
        row = logged(transaction, self.tso if policy else None, "new")
        self.logs[node].group(wire.query("BEGIN"), *row, wire.xid(1))

    def commit(self, transaction: int, *nodes: int) -> None:
        for node in nodes:
            self.logs[node].group(end(transaction, group=f"G{node}"))

    def everywhere(self) -> None:
        """Commit a transaction on all nodes."""
        nodes = range(self.nodes)
        transaction = self.prepare(*nodes)
        self.decide(transaction, 0)
        self.commit(transaction, *nodes)

    def local(self, node: int) -> None:
        self.logs[node].group(*local())

    def rotate(self, node: int) -> None:
        """Go on in another file; what is in the one before is never cut."""
        log = self.logs[node]
        name = f"binlog.{len(self.old[node]) + 1:06d}"
        following = f"binlog.{len(self.old[node]) + 2:06d}"
        log.write(Event(wire.ROTATE, (4).to_bytes(8, "little") + following.encode()))
        self.old[node][name] = bytes(log.data)
        self.logs[node] = Log(server=node + 1)
        self.logs[node].gno = log.gno

    def path(self, folder: Path, node: int) -> Path:
        return folder / f"n{node}" / "dn-1" / f"binlog.{len(self.old[node]) + 1:06d}"

    def save(self, folder: Path) -> Path:
        for number, log in enumerate(self.logs):
            log.save(folder / f"n{number}")
            self.path(folder, number).write_bytes(log.data)
            for name, data in self.old[number].items():
                (folder / f"n{number}" / "dn-1" / name).write_bytes(data)
        values = {
            "version": 1, "name": "old", "commit-tso": {"carrier": "polardbx"}, "base": {"logical": "base.sql"},
            "nodes": [
                {"source-id": f"dn-{n + 1}", "files": f"n{n}/dn-1/binlog.*"} for n in range(self.nodes)
            ],
        }  # fmt: skip
        (folder / "base.sql").write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a bigint);")
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        return folder / "cluster.yaml"

    def cut(self, folder: Path, *ends: int | None) -> None:
        """Let each node have written its first groups; None: all of them."""
        for number, (log, count) in enumerate(zip(self.logs, ends, strict=True)):
            places = [*log.starts, len(log.data)]
            data = log.data if count is None else log.data[: places[count]]
            self.path(folder, number).write_bytes(data)


def test_a_row_that_comes_in_a_later_run(tmp_path: Path) -> None:
    """dn-2 has committed, dn-1's log ends before the row: nothing of the transaction may come out yet."""
    cluster = Cluster(2)
    cluster.everywhere()
    transaction = cluster.prepare(0, 1)
    cluster.decide(transaction, 0)
    cluster.commit(transaction, 1)
    cluster.local(1)
    cluster.commit(transaction, 0)
    cluster.everywhere()
    config = cluster.save(tmp_path)
    whole = merge(config, tmp_path / "whole")
    assert (whole.transactions, whole.branches, whole.warnings) == (4, 7, ())
    for ends in ((3, None), (4, None), (4, 6)):
        out = tmp_path / f"out-{ends}"
        cluster.cut(tmp_path, *ends)
        first = merge(config, out, end_of_input=False)
        assert first.transactions == 1 and first.held and not first.warnings
        assert first.held_back_by == "dn-1" if ends[0] == 4 else "dn-2"
        cluster.cut(tmp_path, None, None)
        assert merge(config, out).warnings == ()
        assert written(out) == written(tmp_path / "whole")


def test_a_row_that_came_in_an_earlier_run(tmp_path: Path) -> None:
    cluster = Cluster(3)
    cluster.everywhere()
    transaction = cluster.prepare(1, 2)
    cluster.decide(transaction, 0)  # a node that has no branch of it, in a file that is not read again
    cluster.rotate(0)
    for _ in range(2):
        cluster.everywhere()
    cluster.commit(transaction, 1)
    cluster.everywhere()
    cluster.commit(transaction, 2)
    config = cluster.save(tmp_path)
    whole = merge(config, tmp_path / "whole")
    assert (whole.transactions, whole.branches) == (5, 14)
    for ends in ((1, 5, 5), (None, 5, 5), (None, 7, None)):
        out = tmp_path / f"out-{ends}"
        cluster.cut(tmp_path, *ends)
        merge(config, out, end_of_input=False)
        assert_prefix(written(out), written(tmp_path / "whole"))
        cluster.cut(tmp_path, None, None, None)
        merge(config, out)
        assert written(out) == written(tmp_path / "whole")


def test_one_without_a_tso_waits_no_longer_than_it_must(tmp_path: Path) -> None:
    """Its branches come out by themselves once every node has shown what was prepared behind its commit."""
    cluster = Cluster(2)
    cluster.everywhere()
    transaction = cluster.prepare(0, 1)
    cluster.decide(transaction, 0, policy=False)
    cluster.commit(transaction, 0, 1)
    config = cluster.save(tmp_path)
    first = merge(config, tmp_path / "out", end_of_input=False)
    assert (first.transactions, first.held, first.warnings) == (1, 2, ())
    cluster.everywhere()
    config = cluster.save(tmp_path)
    second = merge(config, tmp_path / "out", end_of_input=False)
    assert second.transactions == 3 and "transactions of their own" in second.warnings[0]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(1, 6))])
def test_any_history_in_any_runs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    cluster = Cluster(rng.choice((2, 3)))
    cluster.everywhere()
    prepared: list[tuple[int, list[int]]] = []
    decided: list[tuple[int, list[int]]] = []
    for _ in range(40):
        step = rng.random()
        if step < 0.3:
            nodes = rng.sample(range(cluster.nodes), rng.randint(1, cluster.nodes))
            prepared.append((cluster.prepare(*nodes), nodes))
        elif step < 0.6 and prepared:
            transaction, nodes = prepared.pop(rng.randrange(len(prepared)))
            cluster.decide(transaction, nodes[0], policy=rng.random() < 0.85)
            decided.append((transaction, rng.sample(nodes, len(nodes))))
        elif step < 0.9 and decided:
            transaction, nodes = decided[at := rng.randrange(len(decided))]
            cluster.commit(transaction, nodes.pop())
            if not nodes:
                decided.pop(at)
        else:
            cluster.local(rng.randrange(cluster.nodes))
    for transaction, nodes in prepared:
        cluster.decide(transaction, nodes[0])
    for transaction, nodes in prepared + decided:
        cluster.commit(transaction, *nodes)
    config = cluster.save(tmp_path)
    merge(config, tmp_path / "whole")
    whole = written(tmp_path / "whole")
    for way in range(3):
        out = tmp_path / f"out-{way}"
        ends = [sorted(rng.choices(range(1, len(log.starts) + 1), k=4)) for log in cluster.logs]
        for places in zip(*ends, strict=True):
            cluster.cut(tmp_path, *places)
            merge(config, out, end_of_input=False, partitions=rng.choice((None, 3)))
            assert_prefix(written(out), whole)
        cluster.cut(tmp_path, *([None] * cluster.nodes))
        merge(config, out)
        assert written(out) == whole
