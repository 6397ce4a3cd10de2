"""A history of a seed, written as a case: the data nodes' binlogs, cluster.yaml; and its truth."""

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.polardbx.history import run
from tests.polardbx.knobs import Knobs
from tests.polardbx.splice import Dialect
from tests.polardbx.truth import Expected, expected, final
from tests.polardbx.world import State, World
from tests.polardbx.write import ends, write_nodes
from tests.simulator.columns import Table

DIALECTS = (
    Dialect("gcn"),
    Dialect("gcn", consensus=True, branch_count=True, proposals=True),
    Dialect("gcn", behind_gtid=True, bare=True),
    Dialect("gcn", local_tso=True),
    Dialect("query"),
    Dialect("query", local_tso=True),
    Dialect("sequence"),
    Dialect("sequence", heartbeats=5, local_tso=True),
)
LOG = Dialect("log")


@dataclass(frozen=True)
class Simulation:
    """A written history; `ends` are the places, per node, at which its log may be cut."""

    seed: int
    world: World
    folder: Path
    files: dict[str, dict[str, bytes]]
    ends: dict[str, list[tuple[str, int]]]
    truth: list[Expected]
    tables: dict[str, tuple[Table, State]]

    @property
    def cluster_yaml(self) -> Path:
        return self.folder / "cluster.yaml"

    @property
    def total(self) -> int:
        """Return the sum of all balances, which no transaction changes but the one that opens the accounts."""
        return 12 * 1000


def simulate(seed: int, folder: Path, knobs: Knobs | None = None, dialect: Dialect | None = None) -> Simulation:
    """Write the history of a seed; it is a pure function of the arguments."""
    rng = random.Random(seed)
    knobs = knobs or replace(knobs_of(rng), first=seed)
    world = World(rng, replace(knobs, dialects=(dialect,)) if dialect else knobs)
    run(world)
    files = write_nodes(world.steps, world.stamps, world.numbers, rng, world.dialects)
    for node, named in files.items():
        (folder / "nodes" / node).mkdir(parents=True, exist_ok=True)
        for name, data in named.items():
            (folder / "nodes" / node / name).write_bytes(data)
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster_yaml(world, rng), sort_keys=False))
    places = {node: [(name, at) for name, data in named.items() for at in ends(data)] for node, named in files.items()}
    return Simulation(seed, world, folder, files, places, expected(world), final(world))


def knobs_of(rng: random.Random) -> Knobs:
    """Make up what a history is like."""
    keyless = rng.random() < 0.3  # changes of rows without a key can only be told by whole images
    log = rng.random() < 0.25
    return Knobs(
        rng.choice((60, 120, 240)), rng.choice((1, 2, 2, 3, 4)), rng.choice((40, 120, 300)), hints=rng.random() < 0.8,
        extras=rng.random() < 0.7, log=log, keyless=keyless, row_ids=keyless,
        images=("FULL",) if keyless or rng.random() < 0.5 else ("FULL", "MINIMAL", "NOBLOB"),
        dialects=dialects_of(rng, log), heartbeat=rng.choice((0, 0, 1, 2)),
    )  # fmt: skip


def dialects_of(rng: random.Random, log: bool) -> tuple[Dialect, ...]:
    """Return what the nodes' dialects are chosen from: one, or several in one cluster."""
    if log:
        return (LOG,) if rng.random() < 0.5 else (*[LOG] * len(DIALECTS), *DIALECTS)
    return (rng.choice(DIALECTS),) if rng.random() < 0.7 else DIALECTS


def cluster_yaml(world: World, rng: random.Random) -> dict[str, Any]:
    """Return the configuration: the nodes, and that they are PolarDB-X's; everything else is in their binlogs."""
    beats = {"heartbeat": f"{world.knobs.heartbeat}s"} if world.knobs.heartbeat else {}
    return {
        "version": 1,
        "name": "polardbx",
        "nodes": [{"source-id": node, "files": [f"nodes/{node}/binlog.*"]} for node in world.numbers],
        "commit-tso": {"carrier": rng.choice(("auto", "polardbx"))},
        "output": {
            "max-size": rng.choice((2**29, 2**29, 3000, 20_000)),
            "gtid": rng.choice(("on", "anonymous")),
            "dependencies": "commit-order",
            **beats,
        },
    }
