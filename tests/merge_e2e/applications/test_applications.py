"""Ordinary applications on three shards: the merged log gives a replica and DuckDB what the shards hold together.

Or it stops, and says what to do; that is done, and then it gives them that.
"""

import os
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from binlog_merge.cli import main as cli
from binlog_merge.errors import MergeError
from tests.effort import effort
from tests.merge_e2e.applications.cluster import NODES, Cluster, logical
from tests.merge_e2e.applications.habits import HABITS
from tests.merge_e2e.applications.schemas import APPLICATIONS
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Name, Played, Rows, Stage, columns_of, rows_of
from tests.merge_e2e.shards.stories import Held, base_tables, held
from tests.replay.duckdb.test_duckdb import differences, tables_at, tables_of

pytestmark = [pytest.mark.mysql]


KNOWN_STOPS: Final = ("create_select", "new_table_altered", "gh_ost", "pt_osc", "old_names")
"""Habits that end in a stop without a way on."""
LEFT_OUT: Final = frozenset(os.environ.get("APPLICATIONS_WITHOUT", " ".join(KNOWN_STOPS)).split())


class UnequalError(AssertionError):
    """A story that does not end as it must."""


@dataclass(frozen=True)
class Story:
    """A story that was played."""

    cluster: Cluster
    played: Played
    habits: tuple[str, ...]

    def text(self) -> str:
        """Return it for people to read."""
        told = "\n".join(f"{node}: {sql}" for node, sql in self.cluster.steps)
        return f"seed {self.cluster.seed}: {', '.join(self.habits)}\n{told}\n"


def play(stage: Stage, seed: int, length: int) -> Story:
    """Install one application or two on the shards, and let things happen to them."""
    rng = random.Random(seed)
    stage.clear()
    with stage.scene(f"application {seed}", ()) as (sessions, played):
        cluster = Cluster(seed, dict(sessions), rng)
        for node in NODES:
            unless = rng.choice(("", "IF NOT EXISTS "))
            cluster.on(node, f"CREATE DATABASE {unless}{cluster.db} DEFAULT CHARACTER SET utf8mb4")
        cluster.use(cluster.db)
        for install in rng.sample(APPLICATIONS, rng.randint(1, 2)):
            install(cluster)
        cluster.work(4)
        habits = rng.choices([name for name in HABITS if name not in LEFT_OUT], k=length)
        for name in habits:
            HABITS[name](cluster)
            cluster.work(rng.randint(0, 2))
    return Story(cluster, Played(played[0].name, played[0].files, tuple(cluster.routes)), tuple(habits))


def union(stage: Stage, cluster: Cluster) -> Held:
    """Return what the shards hold together, by logical table, but for what is left out."""
    found: dict[Name, tuple[tuple[str, ...], Rows]] = {}
    for node, server in stage.nodes.items():
        for name in base_tables(server):
            if name[0] in cluster.sections.get("ignore-schemas", ()):
                continue
            columns = tuple(sorted(columns_of(server, name)))
            rows = rows_of(server, name, columns)
            if node != NODES[0] and name[1] == "countries":
                continue  # a copy, of which one comes out
            before = found.setdefault(logical(cluster, node, name), (columns, []))
            assert before[0] == columns, f"the story has left {name} at {node} with other columns"
            before[1].extend(rows)
    return {name: (columns, sorted(rows, key=repr)) for name, (columns, rows) in found.items()}


def attack(stage: Stage, seed: int, length: int, mode: str) -> str:
    """Play a story, merge it, and compare; returns how it went. Raises UnequalError."""
    story = play(stage, seed, length)
    theirs = union(stage, story.cluster)
    sections = {"shard-doubts": "error", **story.cluster.sections}
    path = stage.configuration(f"application-{seed}", [story.played], mode, sections=sections)
    out = path.parent / "out"
    try:
        followed = merge_and_follow(path, out)
        stage.target.drop_databases()
        stage.carry_out(out)
        ours = held(stage)
        names = theirs.keys() | ours.keys()
        unequal = {
            n: (theirs.get(n), ours.get(n))
            for n in names
            if theirs.get(n) != ours.get(n) and not any(f"{n[0]}.{n[1]}" in text.replace("/", ".") for text in followed)
        }
        assert not unequal, f"the target differs: {unequal}"
        assert cli.run(["replay", "--merged", str(out), "--to", f"duckdb://{path.parent}/copy.db"]) == 0
        expected, copy = tables_at(stage.target), tables_of(path.parent / "copy.db")
        assert copy.keys() == expected.keys()
        wrong = {name: found for name in copy if (found := differences(copy[name], expected[name]))}
        assert not wrong, f"DuckDB differs: {wrong}"
    except (MergeError, AssertionError, RuntimeError) as error:
        raise UnequalError(f"{story.text()}{path}\n{type(error).__name__}: {error}") from error
    shutil.rmtree(path.parent)
    return "stopped" if followed else "equal"


def merge_and_follow(path: Path, out: Path) -> list[str]:
    """Merge, and do what each stop says is to be done; returns what the stops, and warnings behind them, have said."""
    said: list[str] = []
    for _ in range(4):
        try:
            warnings = merge(path, out).warnings
            return [*said, *warnings] if said else []
        except MergeError as error:
            follow(error, path)
            said.append(error.message)
    raise AssertionError(f"it stops again and again: {said}")


def follow(error: MergeError, path: Path) -> None:
    """Do what an error says is to be done; raises it if the story gives no reason for it."""
    if error.code == "shard-doubt" and "set `shard-doubts: warn`" in error.remedy:
        path.write_text(path.read_text().replace("shard-doubts: error", "shard-doubts: warn"))
        return
    raise error


def mode_of(seed: int) -> str:
    return ("pessimistic", "pessimistic", "optimistic")[seed % 3]


@pytest.mark.parametrize("seeds", [range(first, first + 5) for first in range(0, effort(20, 60), 5)], ids=str)
def test_applications(stage: Stage, seeds: range) -> None:
    for seed in seeds:
        attack(stage, seed, 4, mode_of(seed))


@pytest.mark.soak
def test_applications_for_as_long_as_wanted(stage: Stage) -> None:
    """300 stories, or as many as there is time for."""
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "3600"))
    first = int(os.environ.get("SOAK_SEED", "1000"))
    count, failed = 0, list[str]()
    while count < int(os.environ.get("SOAK_STORIES", "300")) and time.monotonic() < end:
        try:
            attack(stage, first + count, 3 + count % 8, mode_of(count))
        except UnequalError as error:
            failed.append(str(error))
        count += 1
    assert not failed, f"{len(failed)} of {count} stories:\n\n" + "\n\n".join(failed[:20])
