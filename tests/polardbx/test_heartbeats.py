"""Heartbeats: they move idle nodes on, and come out where the configuration wants them."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from binlog_merge.errors import ManifestError
from tests.effort import effort
from tests.merge_e2e.editing import GTID, QUERY, ROWS_QUERY, XID, Log, assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, written
from tests.mysql_server import mysqlbinlog
from tests.polardbx.cluster import HEARTBEAT
from tests.polardbx.steps import Values, Write
from tests.polardbx.test_faults import MADE, NODES, TABLE, Made, made

__all__ = ["made"]

SECOND = 1000 << 22
TEXT = "# TSO HEARTBEAT TXN"


def beat(made: Made, nodes: Sequence[str] = tuple(NODES)) -> str:
    """Write a heartbeat on every node, as the daemon's leader does; returns its order key."""
    row: Values = {"id": 1, "sname": "heartbeat", "gmt_modified": MADE}
    made.everywhere(
        {n: [Write(f"__cdc___{i:06d}", "__cdc_heartbeat___89vr", HEARTBEAT, row, row)] for i, n in enumerate(nodes)}
    )
    return f"{made.tso:019d}{len(made.stamps):019d}{0:016d}"


def with_output(config: Path, **values: object) -> Path:
    document = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**document, "output": {**document.get("output", {}), **values}}))
    return config


def beats(files: dict[str, bytes]) -> list[str]:
    """Return the order keys of the heartbeats that came out, each a transaction of four events."""
    found = []
    for data in files.values():
        events = Log.load(data).events
        for i, event in enumerate(events):
            if event.type == ROWS_QUERY and TEXT.encode() in event.body:
                assert [e.type for e in events[i - 2 : i + 2]] == [GTID, QUERY, ROWS_QUERY, XID]
                key, text = event.body[1:].decode().split("\n")
                assert text == TEXT
                found.append(key.removeprefix("# CTS::"))
    return found


def ticking(made: Made) -> list[str]:
    """Let two minutes pass, three heartbeats a second at times; returns the keys of those in every 30th second."""
    start = made.tso
    due = []
    for quarter in range(0, 480, 3):
        made.tso = start + quarter * SECOND // 4
        key = beat(made)
        if (made.tso >> 22) // 1000 % 30 == 0:
            due.append(key)
        if quarter % 60 == 0:
            made.rows(quarter + 2)
    return due


def test_none_comes_out_by_default(made: Made, tmp_path: Path) -> None:
    ticking(made)
    result = merge(made.save(tmp_path), tmp_path / "out")
    assert (result.transactions, beats(written(tmp_path / "out"))) == (9, [])


@pytest.mark.parametrize("partitions", [None, 1, 7])
def test_those_of_every_thirtieth_second_come_out(made: Made, partitions: int | None, tmp_path: Path) -> None:
    due = ticking(made)
    config = with_output(made.save(tmp_path), heartbeat="30s")
    result = merge(config, tmp_path / "out", partitions=partitions)
    assert beats(written(tmp_path / "out")) == due
    assert 4 <= len(due) <= 8
    assert (result.transactions, result.ddl) == (9 + len(due), 0)


def test_where_polardb_x_puts_the_order_key(made: Made, tmp_path: Path) -> None:
    made.tso = (1_790_000_100_000 << 22) - (1 << 22)
    key = beat(made)
    merge(with_output(made.save(tmp_path), heartbeat="1s", cts="end"), tmp_path / "out")
    events = Log.load(written(tmp_path / "out")["binlog.000001"]).events[-5:]
    assert [e.type for e in events] == [GTID, QUERY, ROWS_QUERY, XID, ROWS_QUERY]
    assert (events[2].body[1:].decode(), events[4].body[1:].decode()) == (TEXT, f"CTS::{key}")
    assert events[1].text == "BEGIN"
    assert {e.timestamp for e in events} == {1_790_000_100}


@pytest.mark.mysql
def test_mysqlbinlog_reads_them(made: Made, tmp_path: Path) -> None:
    due = ticking(made)
    merge(with_output(made.save(tmp_path), heartbeat="30s"), tmp_path / "out")
    printed = mysqlbinlog([tmp_path / "out" / "binlog.000001"], "--verify-binlog-checksum", "-vv").decode()
    assert printed.count(TEXT) == len(due)


def test_an_idle_node_is_moved_on(made: Made, tmp_path: Path) -> None:
    """Only dn-1 works. What it committed comes out up to the last heartbeat, and dn-2 holds back the rest."""
    for number in range(3):
        made.everywhere({"dn-1": [Write("d_0", "t_x", TABLE, None, {"id": 100 + number, "v": 1})]})
    without = merge(made.save(tmp_path / "before"), tmp_path / "before" / "out", end_of_input=False)
    assert (without.transactions, without.held_back_by) == (1, "dn-2")
    beat(made)
    made.everywhere({"dn-1": [Write("d_0", "t_x", TABLE, None, {"id": 200, "v": 1})]})
    result = merge(made.save(tmp_path), tmp_path / "out", end_of_input=False)
    assert (result.transactions, result.held, result.held_back_by) == (4, 1, "dn-2")


def test_cut_into_any_runs(made: Made, tmp_path: Path) -> None:
    ticking(made)
    config = with_output(made.save(tmp_path), heartbeat="5s", **{"max-size": 9000})
    merge(config, tmp_path / "whole")
    whole = written(tmp_path / "whole")
    assert len(beats(whole)) > 20
    for seed in range(effort(2, 4)):
        rng, out = random.Random(seed), tmp_path / f"out-{seed}"
        made.save(tmp_path)
        nodes = {name: GrowingNode.of(tmp_path / name) for name in NODES}
        plan = schedule(nodes, 5, False, rng)
        with_output(config, heartbeat="5s", **{"max-size": 9000})
        for number, places in enumerate(plan, 1):
            for name, place in places.items():
                nodes[name].grow(place, False)
            merge(config, out, end_of_input=number == len(plan), partitions=rng.choice([None, 3]))
            assert_prefix(written(out), whole)
        assert written(out) == whole


def test_an_output_keeps_its_heartbeats(made: Made, tmp_path: Path) -> None:
    config = with_output(made.save(tmp_path), heartbeat="30s")
    merge(config, tmp_path / "out")
    with pytest.raises(ManifestError, match=r"output\.heartbeat was 30, is now None"):
        merge(with_output(config, heartbeat="off"), tmp_path / "out")
