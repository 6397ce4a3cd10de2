"""PolarDB-X's kinds of transactions through the whole merge: what comes out of them, in memory and streamed."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.merge_e2e.editing import ROWS_QUERY
from tests.merge_e2e.editing import Log as File
from tests.merge_e2e.local import merge, written
from tests.pipeline.gather.test_giant import SIZES, shrink
from tests.polardbx.logs import Log, end, gcn, text
from tests.polardbx.read import read_merged
from tests.polardbx.truth import Expected
from tests.simulator import wire
from tests.simulator.wire import Event

Statement = tuple[int, str]  # the value that is inserted, the hint in front


def hint(seq: int, server: int | None = None, sub: int = 0) -> str:
    return f"/*DRDS /10.0.0.1/15f3a-{seq}/{sub}/{server or ''}/ */ "


def inserts(statements: Sequence[Statement]) -> list[Event]:
    events = []
    for value, comment in statements:
        table_map = (9).to_bytes(6, "little") + b"\1\0\1d\0\1t\0\1\x08\0\0"
        row = (9).to_bytes(6, "little") + b"\1\0\2\0\1\1\0" + struct.pack("<q", value)
        events += [wire.rows_query(f"{comment}INSERT INTO t VALUES ({value})")] if comment else []
        events += [Event(wire.TABLE_MAP, table_map), Event(wire.WRITE, row)]
    return events


class Cluster:
    """Two nodes that each have a part of `d.t`."""

    def __init__(self) -> None:
        self.logs = {"dn-1": Log(server=1), "dn-2": Log(server=2)}

    def prepare(self, node: str, number: int, *statements: Statement, group: str = "G", form: int = 1,
                one_phase: bool = False) -> None:  # fmt: skip
        xid = text(number, group, form)
        prepared = Event(wire.XA_PREPARE, struct.pack("<BIII", one_phase, form, 1, 1) + b"xy")
        events = [wire.query(f"XA START {xid}"), *inserts(statements), wire.query(f"XA END {xid}"), prepared]
        self.logs[node].group(*events, before=[gcn(500, 5 if one_phase else 3)])

    def commit(self, node: str, number: int, tso: int, *, group: str = "G", form: int = 1) -> None:
        self.logs[node].group(end(number, group=group, format_id=form), before=[gcn(tso, 5)])

    def distributed(self, number: int, tso: int, rows: dict[str, Sequence[Statement]], form: int = 1) -> None:
        for node, statements in rows.items():
            self.prepare(node, number, *statements, form=form)
        for node in rows:
            self.commit(node, number, tso, form=form)

    def save(self, folder: Path, **output: object) -> Path:
        for node, log in self.logs.items():
            log.save(folder / node)
        nodes = [{"source-id": node, "files": f"{node}/dn-1/binlog.*"} for node in self.logs]
        values = {"version": 1, "name": "made", "nodes": nodes, "base": {"logical": "base.sql"}, "output": output}
        (folder / "base.sql").write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a bigint);")
        (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
        return folder / "cluster.yaml"


@pytest.fixture(params=[None, *SIZES], ids=["in-memory", "pieces-of-64", "pieces-of-300", "pieces-of-2000"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster whose transactions are, but for the first way, all too big to hold."""
    if request.param is not None:
        shrink(monkeypatch, *request.param)
    return Cluster()


def merged(cluster: Cluster, folder: Path, **output: object) -> list[Expected]:
    result = merge(cluster.save(folder, **output), folder / "out")
    assert result.warnings == () or output
    return read_merged(written(folder / "out"), folder)


def values(entry: Expected) -> list[int]:
    """Return the values inserted, in order."""
    found = []
    for table, kind, _, after in entry.rows:
        assert (table, kind) == ("d.t", "insert") and after is not None
        cell = after[0]
        assert isinstance(cell, bytes)
        found.append(int.from_bytes(cell, "little", signed=True))
    return found


def key(tso: int, number: int, seq: int = 0, node: int = 0) -> str:
    return f"{tso:019d}{number:019d}{seq:010d}{node:06d}"


def test_statements_come_in_the_order_of_their_traces(cluster: Cluster, tmp_path: Path) -> None:
    one = [(n, hint(n)) for n in (1, 4, 5, 10, 12)]
    other = [(n, hint(n)) for n in (2, 3, 6, 9, 11)]
    cluster.distributed(1, 100, {"dn-2": other, "dn-1": one})
    cluster.distributed(2, 200, {"dn-1": [(1, hint(1)), (3, hint(1, sub=2))], "dn-2": [(2, hint(1, sub=1))]})
    first, second = merged(cluster, tmp_path)
    assert values(first) == [1, 2, 3, 4, 5, 6, 9, 10, 11, 12] and values(second) == [1, 2, 3]


def test_without_traces_branches_follow_each_other(cluster: Cluster, tmp_path: Path) -> None:
    cluster.distributed(1, 100, {"dn-2": [(3, ""), (4, "")], "dn-1": [(1, ""), (2, "")]})
    assert [values(entry) for entry in merged(cluster, tmp_path)] == [[1, 2, 3, 4]]


def test_rows_deleted_because_their_time_is_over(cluster: Cluster, tmp_path: Path) -> None:
    cluster.distributed(1, 100, {"dn-1": [(1, "")], "dn-2": [(2, "")]}, form=3)
    cluster.distributed(2, 200, {"dn-1": [(3, "")]})
    found = merged(cluster, tmp_path)
    assert [(entry.key, entry.archive) for entry in found] == [(key(100, 1), True), (key(200, 2), False)]


def test_where_polardb_x_says_that_it_was_an_archive(cluster: Cluster, tmp_path: Path) -> None:
    cluster.distributed(1, 100, {"dn-1": [(1, "")], "dn-2": [(2, "")]}, form=3)
    merge(cluster.save(tmp_path, cts="end"), tmp_path / "out")
    told = [e for e in File.load(written(tmp_path / "out")["binlog.000001"]).events if e.type == ROWS_QUERY]
    assert told[-1].body[1:].decode() == f"CTS::{key(100, 1)}::ARCHIVE"


def test_the_server_id_of_a_client_that_wants_its_changes_known(cluster: Cluster, tmp_path: Path) -> None:
    cluster.distributed(1, 100, {"dn-1": [(1, hint(1))], "dn-2": [(2, hint(2, server=4711))]})
    cluster.distributed(2, 200, {"dn-1": [(3, hint(1))], "dn-2": [(4, hint(2))]})
    cluster.distributed(3, 300, {"dn-2": [(5, hint(1, server=2**32 - 1))]})
    found = merged(cluster, tmp_path)
    assert [(entry.server, values(entry)) for entry in found] == [(4711, [1, 2]), (None, [3, 4]), (2**32 - 1, [5])]


def test_branches_that_share_a_read_view(cluster: Cluster, tmp_path: Path) -> None:
    """A group has several branches, which commit in any order: one transaction."""
    for view, statements in enumerate([[(1, hint(1)), (5, hint(5))], [(2, hint(2))], [(4, hint(4))]]):
        cluster.prepare("dn-1", 1, *statements, group=f"G@{view:04d}")
    cluster.prepare("dn-2", 1, (3, hint(3)), group="H@0000")
    for view in (2, 0, 1):
        cluster.commit("dn-1", 1, 100, group=f"G@{view:04d}")
    cluster.commit("dn-2", 1, 100, group="H@0000")
    found = merged(cluster, tmp_path)
    assert [(entry.key, values(entry)) for entry in found] == [(key(100, 1), [1, 2, 3, 4, 5])]


def test_one_phase_commits_are_transactions_of_their_node(cluster: Cluster, tmp_path: Path) -> None:
    """Their TSO is not bound by any prepare, so it counts for nothing."""
    cluster.distributed(1, 100, {"dn-1": [(1, "")], "dn-2": [(2, "")]})
    cluster.prepare("dn-1", 2, (3, ""), one_phase=True)
    cluster.prepare("dn-2", 2, (4, ""), one_phase=True)
    cluster.distributed(3, 200, {"dn-1": [(5, "")], "dn-2": [(6, "")]})
    found = merged(cluster, tmp_path)
    assert [(entry.key, values(entry)) for entry in found] == [
        (key(100, 1), [1, 2]), (key(100, 1, 1, 1), [3]), (key(100, 1, 1, 2), [4]), (key(200, 3), [5, 6]),
    ]  # fmt: skip


@pytest.mark.parametrize(("group", "form"), [("__CDC___SINGLE_GROUP", 1), ("__CDC___SINGLE_GROUP@0001", 1), ("G", 4)])
def test_what_is_the_cluster_s_own_work(cluster: Cluster, group: str, form: int, tmp_path: Path) -> None:
    cluster.distributed(1, 100, {"dn-1": [(1, "")], "dn-2": [(2, "")]})
    cluster.prepare("dn-1", 2, (9, ""), group=group, form=form)
    cluster.commit("dn-1", 2, 300, group=group, form=form)
    cluster.prepare("dn-1", 3, (9, ""), group=group, form=form, one_phase=True)
    cluster.logs["dn-1"].group(wire.query("BEGIN"), *inserts([(3, "")]), wire.xid(7), before=[gcn(1, 1)])
    found = merged(cluster, tmp_path)
    # It takes no place either: the local transaction stands right behind the first.
    assert [(entry.key, values(entry)) for entry in found] == [(key(100, 1), [1, 2]), (key(100, 1, 1, 1), [3])]
