"""Ordinary applications on three shards: the merged log gives a replica and DuckDB what the shards hold together.

Or it stops, and says what to do; that is done, and then it gives them that.
"""

import os
import random
import re
import shlex
import shutil
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
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
from tests.tables.test_duckdb import differences, tables_at, tables_of

pytestmark = [pytest.mark.mysql]


KNOWN_STOPS: Final = ()
"""Habits with which a story does not end as it must; none has them."""
APART: Final = ("stray_statement", "create_select_with_options")
"""Habits that have a test of their own."""
HABITS_TRIED: Final = os.environ.get("APPLICATIONS_HABITS", "").split() or [
    name for name in HABITS if name not in (*KNOWN_STOPS, *APART)
]


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


def play(stage: Stage, seed: int, habits: Sequence[str]) -> Story:
    """Install one application or two on the shards, and do to them what habits are."""
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


def attack(stage: Stage, seed: int, habits: Sequence[str], mode: str) -> list[str]:
    """Play a story, merge it, and compare; returns what had to be done on the way. Raises UnequalError."""
    story = play(stage, seed, habits)
    sections = {"shard-doubts": "error", **story.cluster.sections}
    path = stage.configuration(f"application-{seed}", [story.played], mode, sections=sections)
    out = path.parent / "out"
    try:
        told, done = merge_and_follow(path, out)
        if story.cluster.late:
            done += decide(path, out)
            told += _late(stage, story, path, out)
        compare(stage, story, out, told)
    except (MergeError, AssertionError, RuntimeError) as error:
        raise UnequalError(f"{story.text()}{path}\n{type(error).__name__}: {error}") from error
    shutil.rmtree(path.parent)
    return done


def compare(stage: Stage, story: Story, out: Path, told: Sequence[str]) -> None:
    """Compare target and DuckDB with the shards, but for tables of which warnings have `told` that they differ."""
    theirs = union(stage, story.cluster)
    stage.target.drop_databases()
    stage.carry_out(out)
    ours = held(stage)
    for name in theirs.keys() | ours.keys():
        named = any(".".join(name) in text.replace("/", ".") for text in told)
        assert theirs.get(name) == ours.get(name) or named, (
            f"{name} on the target: {ours.get(name)}, {theirs.get(name)}"
        )
    assert cli.run(["replay", "--merged", str(out), "--to", f"duckdb://{out.parent}/copy.db"]) == 0
    expected, copy = tables_at(stage.target), tables_of(out.parent / "copy.db")
    assert copy.keys() == expected.keys()
    for name in copy:
        assert differences(copy[name], expected[name]) == [], f"{name} in DuckDB"


def decide(path: Path, out: Path) -> list[str]:
    """Decide as `ddl locks` proposes for what waits, and merge; returns the decisions."""
    done: list[str] = []
    pattern = r"^ *binlog-merge (ddl resolve .* --as-if-done .*)$"
    while proposed := re.findall(pattern, _said(["ddl", "locks", "--merged", str(out)]), re.M):
        _said(shlex.split(proposed[0]))
        merge(path, out)
        done.append(proposed[0])
    return done


def _late(stage: Stage, story: Story, path: Path, out: Path) -> list[str]:
    """Let shards run what they have not run, and merge that."""
    for node, sql in story.cluster.late:
        stage.nodes[node].execute(sql, story.cluster.db)
        shutil.copyfile(story.played.files[node], path.parent / node / story.played.files[node].name)
    return merge_and_follow(path, out)[0]


def _said(words: list[str]) -> str:
    """Return what a command prints, which must succeed."""
    with redirect_stdout(StringIO()) as said:
        assert cli.run(words) == 0, words
    return said.getvalue()


def merge_and_follow(path: Path, out: Path) -> tuple[list[str], list[str]]:
    """Merge, and do what each stop says is to be done.

    Returns what the stops, and warnings behind them, have said, and what was done.
    """
    told, done = list[str](), list[str]()
    while len(done) < 10:
        try:
            warnings = merge(path, out).warnings
            return ([*told, *warnings] if done else []), done
        except MergeError as error:
            done.append(follow(error, path, out))
            told.append(error.message)
    raise AssertionError(f"it stops again and again: {told}")


def follow(error: MergeError, path: Path, out: Path) -> str:
    """Do what an error says is to be done, and return that; raises it if the story gives no reason for it."""
    if error.code == "shard-doubt" and "set `shard-doubts: warn`" in error.remedy:
        path.write_text(path.read_text().replace("shard-doubts: error", "shard-doubts: warn"))
        return "shard-doubts: warn"
    if error.code == "statement-dml" and (
        command := re.search(r"`binlog-merge (ddl resolve [^`]*--skip[^`]*)`", error.remedy)
    ):
        _said(shlex.split(command[1].replace("DIR", str(out))))
        return command[1]
    raise error


def habits_of(seed: int, length: int) -> list[str]:
    return random.Random(f"habits {seed}").choices(HABITS_TRIED, k=length)


def mode_of(seed: int) -> str:
    return ("pessimistic", "pessimistic", "optimistic")[seed % 3]


def test_every_habit(stage: Stage) -> None:
    """Each in one of five stories."""
    habits = random.Random("every habit").sample(HABITS_TRIED, len(HABITS_TRIED))
    for number in range(5):
        attack(stage, 100 + number, habits[number::5], mode_of(number))


@pytest.mark.extended  # habits in other company, and some of them often
@pytest.mark.parametrize(
    "seeds",
    [range(first, first + 5) for first in range(0, effort(20, 60), 5)],
    ids=str,
)
def test_applications(stage: Stage, seeds: range) -> None:
    for seed in seeds:
        attack(stage, seed, habits_of(seed, 4), mode_of(seed))


def test_a_shard_that_is_left_behind(stage: Stage) -> None:
    """`ddl locks` names the decision; with it nobody waits, and what the shard runs in the end changes nothing."""
    done = attack(stage, 77, ["new_table", "left_behind", "add_column"], "pessimistic")
    assert len(done) == 1 and "--as-if-done" in done[0]


def test_what_a_shard_has_otherwise_is_named(stage: Stage) -> None:
    """In mode `optimistic` a column that is dropped and added again is in doubt."""
    assert attack(stage, 79, ["mistaken"], "optimistic") == ["shard-doubts: warn"]


def test_copies_by_queries_with_options_of_the_table(stage: Stage) -> None:
    assert attack(stage, 81, ["create_select_with_options", "create_select"] * 2, "pessimistic") == []


def test_a_statement_in_the_way_is_left_out(stage: Stage) -> None:
    """The error gives the command that leaves out its transaction."""
    done = attack(stage, 80, ["stray_statement", "add_column"], "pessimistic")
    assert len(done) == 1 and done[0].startswith("ddl resolve")


@pytest.mark.soak
def test_applications_for_as_long_as_wanted(stage: Stage) -> None:
    """300 stories, or as many as there is time for."""
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "3600"))
    first = int(os.environ.get("SOAK_SEED", "1000"))
    count, failed = 0, list[str]()
    while count < int(os.environ.get("SOAK_STORIES", "300")) and time.monotonic() < end:
        try:
            attack(stage, first + count, habits_of(first + count, 3 + count % 8), mode_of(count))
        except UnequalError as error:
            failed.append(str(error))
        count += 1
    assert not failed, f"{len(failed)} of {count} stories:\n\n" + "\n\n".join(failed[:20])


@pytest.mark.extended  # both habits are among those of test_every_habit
def test_tables_that_are_made_and_altered_shard_by_shard(stage: Stage) -> None:
    """A shard that makes such a table later owes what the others have done to it since."""
    for seed in range(90, 90 + effort(1, 12)):
        assert attack(stage, seed, ["new_table_altered", "new_table_under_another_name"] * 2, "pessimistic") == []
