"""What must hold of a simulated PolarDB-X cluster's merge, however it is cut; each check is a function of a seed."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.oracle.polardbx.merge import merge_polardbx
from tests.polardbx.apply import apply_merged, comparable, tables_of, user_tables
from tests.polardbx.history import run
from tests.polardbx.knobs import Knobs
from tests.polardbx.play import play, spliced, write_files
from tests.polardbx.read import comparable as plain
from tests.polardbx.read import read_merged
from tests.polardbx.simulate import DIALECTS, LOG, Simulation, cluster_yaml, simulate
from tests.polardbx.steps import counted
from tests.polardbx.truth import Expected, expected, final
from tests.polardbx.world import World
from tests.soak.properties import config_of, same_files, small_buffers


def same_transactions(got: list[Expected], simulation: Simulation) -> None:
    """Compare transaction by transaction, row by row; the first difference is told."""
    ordered = simulation.world.knobs.hints
    for number, (one, other) in enumerate(zip(got, simulation.truth, strict=False)):
        left, right = plain(one, ordered), plain(other, ordered)
        if left.sql is not None and not left.key:
            left = replace(left, key=right.key)
        assert left == right, f"seed {simulation.seed}, transaction {number}"
    if len(got) != len(simulation.truth):
        longer = got if len(got) > len(simulation.truth) else simulation.truth
        rest = longer[min(len(got), len(simulation.truth))]
        pytest.fail(f"seed {simulation.seed}: {len(got)} transactions, not {len(simulation.truth)}: {rest}")


def check_whole(seed: int, folder: Path, server: MySqlServer | None = None, ways: int = 2) -> None:
    """The merge says what simulator and oracle mean, however the work is cut; a server that applies it agrees."""
    rng = random.Random(seed)
    simulation = simulate(seed, folder / "case")
    found: list[dict[str, bytes]] = []
    for way in range(ways):
        with small_buffers(rng):
            partitions = rng.choice((None, rng.randrange(1, 10)))
            merge(config_of(simulation, rng), folder / f"out-{way}", partitions=partitions)
        found.append(written(folder / f"out-{way}"))
        assert found[way] == found[0], f"seed {seed}: not the same in {partitions} partitions"
    same_transactions(read_merged(found[0], folder), simulation)
    same_files(found[0], merge_polardbx(simulation.cluster_yaml).files)
    if server is not None:
        check_applied(simulation, found[0], folder, server)


def check_applied(simulation: Simulation, files: dict[str, bytes], folder: Path, server: MySqlServer) -> None:
    """Applied to a real server: all money is there after every transaction, and in the end every row is right."""
    server.drop_databases()
    totals = apply_merged(server, simulation.world.base, files, folder, ask=True)
    assert set(totals) == {str(simulation.total)}, f"seed {simulation.seed}: {totals}"
    # A DDL of PolarDB-X's own is a transaction of comments alone.
    assert len(totals) == sum(1 for t in simulation.truth if t.rows or t.private or t.beat)
    assert user_tables(server) == set(simulation.tables)
    found = tables_of(server, simulation.tables)
    for name, (_, state) in simulation.tables.items():
        assert comparable(found[name]) == comparable(state), f"seed {simulation.seed}, {name}"


def check_real(seed: int, folder: Path, nodes: Mapping[str, MySqlServer], target: MySqlServer) -> None:
    """Real servers run the statements of a history; their binlogs become data nodes', and the merge is applied."""
    rng = random.Random(seed)
    log = seed % 2 == 1
    dialect = LOG if log else DIALECTS[seed // 2 % len(DIALECTS)]
    extras = Knobs(120, len(nodes), 60, scale=False, extras=log, log=log, keyless=log)
    world = World(rng, replace(extras, dialects=(dialect,)))
    run(world)
    for node in nodes.values():
        node.drop_databases()
        node.execute("RESET BINARY LOGS AND GTIDS")
    play(world.steps, nodes)
    for name, node in nodes.items():
        write_files(folder / "case" / "nodes" / name, spliced(node, counted(world.steps, world.stamps, name), dialect))
    (folder / "case" / "cluster.yaml").write_text(yaml.safe_dump(cluster_yaml(world, rng), sort_keys=False))
    simulation = Simulation(seed, world, folder / "case", {}, {}, expected(world), final(world))
    merge(simulation.cluster_yaml, folder / "out")
    files = written(folder / "out")
    same_transactions(read_merged(files, folder), simulation)
    same_files(files, merge_polardbx(simulation.cluster_yaml).files)
    check_applied(simulation, files, folder, target)
