"""A history, written to a folder as a case: node files, base schemas, cluster.yaml; and its truth."""

import random
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from tests.simulator.columns import Table
from tests.simulator.rows import Image, as_logical
from tests.simulator.transactions import COMMIT_ROWS, MARKER, Committed, Key, Knobs
from tests.simulator.turns import in_turn
from tests.simulator.world import World, new_world

LogicalRow = tuple[str, str, Image, Image]  # table, kind, before, after


@dataclass(frozen=True)
class Truth:
    """One transaction as it must come out: a DDL's text, or row changes in order."""

    key: str
    sql: str | None
    rows: tuple[LogicalRow, ...] = ()


@dataclass(frozen=True)
class Simulation:
    """A written history. `files` are the nodes' bytes; `ends` the places at which a node's log may be cut."""

    seed: int
    folder: Path
    files: dict[str, dict[str, bytes]]
    ends: dict[str, list[tuple[str, int]]]
    truth: tuple[Truth, ...]
    has_markers: bool

    @property
    def cluster_yaml(self) -> Path:
        return self.folder / "cluster.yaml"


def simulate(seed: int, folder: Path, steps: int | None = None, large: int | None = None) -> Simulation:
    """Write the history of a seed; it is a pure function of the arguments."""
    rng = random.Random(seed)
    carriers = ("commit-table",) * 3 + ("original-commit-timestamp", "original-commit-timestamp-us", "gtid")
    carrier = rng.choice(carriers)
    sizes = (2**29, 2**29, 400, 3_000, 20_000)
    knobs = Knobs(
        carrier=carrier,
        realistic=carrier.startswith("original") or rng.random() < 0.5,
        large=large if large is not None else rng.choice((10, 100, 100, 2_000, 60_000)),
        steps=steps if steps is not None else rng.choice((20, 80, 150, 300)),
        max_size=rng.choice(sizes),
        ddl=rng.choice((4, 30, 90)),
    )
    count = rng.choice((1, 2, 2, 3, 4))
    world, base = _run(rng, knobs, count)
    while count > 1 and not any(commit.key[0] for commit in world.log):
        world, base = _run(rng, knobs, count)  # without any commit TSO nothing would say in which order the nodes are
    files = {n.source_id: {n.name(i): bytes(d) for i, d in enumerate(n.files)} for n in world.nodes}
    _write(folder, files, base, _cluster(rng, world))
    ends = {n.source_id: [(n.name(file), offset) for file, offset in n.ends] for n in world.nodes}
    return Simulation(seed, folder, files, ends, truth_of(world), any(c.sql for c in world.log))


def _run(rng: random.Random, knobs: Knobs, count: int) -> tuple[World, dict[str, str]]:
    """Return a history and what its nodes began with."""
    world = new_world(rng, knobs, count)
    base = {"logical": _logical_dump(world)} | {n.source_id: _dump(world, n.source_id) for n in world.nodes}
    world.run()
    return world, base


def _write(folder: Path, files: dict[str, dict[str, bytes]], base: dict[str, str], cluster: dict[str, Any]) -> None:
    (folder / "base").mkdir(parents=True, exist_ok=True)
    for name, text in base.items():
        (folder / "base" / f"{name}.sql").write_text(text)
    for source, named in files.items():
        (folder / "nodes" / source).mkdir(parents=True, exist_ok=True)
        for name, data in named.items():
            (folder / "nodes" / source / name).write_bytes(data)
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster, sort_keys=False))


def _cluster(rng: random.Random, world: World) -> dict[str, Any]:
    routes = [
        {
            "schema-pattern": "shop_*", "table-pattern": f"t{i}_*",
            "target-schema": "shop", "target-table": f"t{i}",
        }
        for i in range(8)
    ]  # fmt: skip
    sources = [n.source_id for n in world.nodes]
    carrier = "auto" if world.knobs.carrier != "gtid" and rng.random() < 0.3 else world.knobs.carrier
    nodes: list[dict[str, Any]] = [{"source-id": s, "files": [f"nodes/{s}/binlog.*"]} for s in sources]
    return {
        "version": 1,
        "name": "simulated",
        "nodes": nodes,
        "routes": routes,
        "ignore-schemas": ["ign_*"],
        "commit-tso": {"carrier": carrier},
        "markers": {"missing": "warn"},  # shards change at random, and no marker need come
        "base": {
            "logical": "base/logical.sql",
            "physical": {s: f"base/{s}.sql" for s in sources if rng.random() < 0.7},
        },
        "output": {
            "max-size": world.knobs.max_size,
            "gtid": rng.choice(("on", "on", "anonymous")),
            "dependencies": "commit-order",
        },
    }


def _logical_dump(world: World) -> str:
    return _sql((t.schema, t.name, t.logical) for t in world.tables)


def _dump(world: World, source: str) -> str:
    tables = [(s.schema, s.name, t) for table in world.tables for s, t in table.shards(source)]
    hidden = [(schema, name, t) for (node, schema, name), t in world.shapes.items() if node == source]
    own = [("__cdc__", "__commit_ts__", COMMIT_ROWS), ("__cdc__", "__cdc_ddl_record__", MARKER)]
    return _sql([*tables, *(h for h in hidden if h[0] != "mysql"), *own])


def _sql(tables: Any) -> str:
    text = ""
    for schema, group in groupby(sorted(tables, key=lambda t: t[:2]), key=lambda t: t[0]):
        text += f"CREATE DATABASE IF NOT EXISTS `{schema}`;\nUSE `{schema}`;\n"
        text += "".join(f"{table.create(f'`{name}`')};\n" for _, name, table in group)
    return text


def truth_of(world: World) -> tuple[Truth, ...]:
    """Return what must come out, in order."""
    found = []
    ordered = sorted(world.log, key=lambda c: (c.key, c.place))
    for key, group in groupby(ordered, key=lambda c: c.key):
        branches = list(group)
        text = f"{key[0]:019d}{key[1]:019d}{key[2]:010d}{key[3]:06d}"
        ddl = [c for c in branches if c.sql is not None]
        if ddl:
            found.append(Truth(text, ddl[0].sql))
            continue
        branches = [c for c in branches if c.changes]  # one that touches nothing of ours counts for nothing
        us = _commit_us(key, max((c.source_us for c in branches), default=0))
        changes = in_turn(c.changes for c in branches)
        rows = [as_logical(change, _at(world, change.logical, key), us) for change in changes]
        if rows:
            found.append(Truth(text, None, tuple(rows)))
    return tuple(found)


def _commit_us(key: Key, source_us: int) -> int:
    millis = key[0] >> 22
    return millis * 1000 if 10**12 <= millis < 4294967296000 else source_us


def _at(world: World, name: str, key: Key) -> Table:
    versions = [v for v in world.logical if v[1] == name and v[0] < key]
    table = max(versions, key=lambda v: v[0])[2]
    assert table is not None
    return table


__all__ = ["Committed", "Simulation", "Truth", "simulate"]
