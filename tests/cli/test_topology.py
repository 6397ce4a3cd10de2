"""`topology show` against the oracle, which follows the markers' states by itself, and `list` against the files."""

import json
import random
from pathlib import Path

import pytest

from binlog_merge.binlog.events import walk
from binlog_merge.cli import main
from binlog_merge.cli.schema.store import opened
from binlog_merge.cli.topology import placed_in
from binlog_merge.errors import ConfigError
from snapshot_store.names import Moment, NamePattern
from snapshot_store.tso import OrderKey
from tests.effort import seed_of_search
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge, written
from tests.oracle.polardbx.merge import merge_polardbx
from tests.oracle.polardbx.topology import Topology
from tests.polardbx.simulate import simulate
from tests.soak.properties import config_of, cut, schedule

ANY = [NamePattern.parse("*.*")]


def told_by_oracle(config: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[OrderKey, dict[object, object]]]:
    """Return the states of the cluster, each with the key behind which it holds."""
    made: dict[int, Topology] = {}
    keep = Topology._keep

    def noting(self: Topology, key: tuple[int, int, int, int]) -> None:
        made[id(self)] = self
        keep(self, key)

    monkeypatch.setattr(Topology, "_keep", noting)
    merge_polardbx(config)
    (topology,) = made.values()
    return [(OrderKey(*key), dict(state)) for key, state in topology.history]


def found_at(out: Path, key: OrderKey) -> dict[object, object]:
    with opened(out) as store:
        try:
            found = placed_in(store, ANY, Moment.at_key(key))
        except ConfigError:
            return {}
    return {(p.node, p.schema, p.table): p.logical for p in found}


def check(out: Path, states: list[tuple[OrderKey, dict[object, object]]]) -> None:
    """Compare what holds behind each message with what the oracle says, and right before the next one."""
    assert states
    for number, (key, state) in enumerate(states):
        behind = states[number + 1][0] if number + 1 < len(states) else None
        if behind is not None and behind <= key._replace(node_seq=key.node_seq + 1):
            continue
        assert found_at(out, key) == state
        if behind is not None:
            assert found_at(out, behind.previous()) == state


@pytest.mark.parametrize("name", ["polardbx-scale-out", "polardbx-repartition", "polardbx-rename"])
def test_it_is_what_the_markers_said_at_each_moment(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_named(name) / "cluster.yaml"
    merge(case, tmp_path / "out")
    check(tmp_path / "out", told_by_oracle(case, monkeypatch))


def test_runs_go_on_from_what_was_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = seed_of_search()
    rng = random.Random(seed)
    simulation = simulate(seed, tmp_path / "case")
    states = told_by_oracle(simulation.cluster_yaml, monkeypatch)
    for places in schedule(simulation, rng, 3):
        cut(simulation, places, {}, False)
        merge(config_of(simulation, rng), tmp_path / "out", end_of_input=False)
    ends = {source: (max(files), len(files[max(files)])) for source, files in simulation.files.items()}
    cut(simulation, ends, {}, True)
    merge(config_of(simulation, rng), tmp_path / "out")
    check(tmp_path / "out", states)


def test_routes_say_it_where_no_marker_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merge(copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(60_000)), tmp_path / "out")
    assert main.run(["topology", "show", "shop.orders", "--merged", str(tmp_path / "out"), "-o", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert [(p["node"], p["table"]) for p in table["physical"]] == [
        (f"dn-{n // 3 + 1}", f"orders_{n}") for n in range(9)
    ]
    assert main.run(["topology", "show", "shop.none", "--merged", str(tmp_path / "out")]) == 2
    assert "no physical table belongs to shop.none" in capsys.readouterr().err
    assert main.run(["list", str(tmp_path / "out"), "-o", "json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    there = written(tmp_path / "out")
    assert [(f["file"], f["size"]) for f in files] == [(name, len(data)) for name, data in there.items()] and files[2:]
    number = 0
    for file, data in zip(files, there.values(), strict=True):
        count = sum(event.type_code == 33 for event in walk(data))
        assert file["gtids"].endswith(f":{number + 1}-{number + count}") and file["transactions"] == count
        assert (file["first_time"] or "") <= file["last_time"]
        number += count
    assert main.run(["list", "--merged", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.count("\n") == len(files) + 2
