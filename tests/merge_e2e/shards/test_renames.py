"""Tables that are renamed, on real servers: rows go with their tables, and the target has what all nodes have."""

import os
import random
from pathlib import Path

import pytest

from binlog_merge.cli import main
from binlog_merge.errors import ShardDdlStopped
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.run import replay
from tests.effort import crossed, effort, keeping
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards import random_renames
from tests.merge_e2e.shards.renames import CARRIED, IN_DOUBT, Story, T, Teller, check
from tests.merge_e2e.shards.stage import Played, Stage, rows_of, tables
from tests.tables.test_duckdb import differences, loaded, tables_at, tables_of
from tests.targets.server.test_replay import target_of

pytestmark = [pytest.mark.mysql]

Told = dict[str, tuple[int, Played]]
Captured = pytest.CaptureFixture[str]
ERROR = {"shard-doubts": "error"}
MODES = ("pessimistic", "optimistic")


@pytest.fixture(scope="module")
def told(stage: Stage) -> Told:
    """All stories, told once."""
    found = {}
    for number, story in enumerate(CARRIED, 1):
        found[story.name] = (number, Teller(stage, story, number).tell())
    return found


# All of them are compared with the nodes below too, by a replay of one log of all; alone are those of each kind.
ALONE = crossed(CARRIED, MODES)[::2]


@pytest.mark.parametrize(
    ("story", "mode"), keeping(ALONE, crossed(CARRIED, MODES)), ids=lambda value: str(getattr(value, "id", value))
)
def test_the_target_has_what_the_nodes_have(stage: Stage, told: Told, story: Story, mode: str) -> None:
    number, played = told[story.name]
    stage.target.drop_databases()
    path = stage.configuration(f"{mode}-{story.id}", [played], mode, sections={**ERROR, **story.sections})
    out = path.parent / "out"
    result = merge(path, out)
    assert [w for w in result.warnings if not story.warned or story.warned not in w] == []
    assert result.waiting_shards == ()
    assert [lock["sql"] for lock in result.locks if not story.waits or story.waits not in lock["sql"]] == []
    stage.carry_out(out)
    check(stage, played, number, not story.sections.get("online-ddl", True))


def grown(path: Path, whole: dict[str, bytes], rng: random.Random, rounds: int) -> dict[str, bytes]:
    """Merge a copy of a case while its nodes write; returns what comes out at last, of which all before is a part."""
    nodes = {home.name: GrowingNode.of(home) for home in sorted(path.parent.iterdir()) if home.is_dir()}
    out = path.parent / "out"
    for number, places in enumerate(schedule(nodes, rounds, False, rng), 1):
        for name, place in places.items():
            nodes[name].grow(place, False)
        merge(path, out, end_of_input=number == rounds, partitions=rng.choice([None, 2, 5]))
        assert_prefix(written(out), whole)
    return written(out)


@pytest.mark.parametrize("mode", keeping(["optimistic"], MODES))  # one mode is enough to cut
@pytest.mark.parametrize("seed", range(int(os.environ.get("RENAME_SEEDS", "1"))))
def test_merges_cut_into_runs_come_to_the_same(stage: Stage, told: Told, mode: str, seed: int) -> None:
    played = [told[one.name][1] for one in CARRIED if not one.sections]
    one = stage.configuration(f"{mode}-{seed}-whole", played, mode, sections=ERROR)
    merge(one, one.parent / "out", partitions=3)
    whole = written(one.parent / "out")
    rng = random.Random(seed)
    path = stage.configuration(f"{mode}-{seed}-cut", played, mode, sections=ERROR)
    assert grown(path, whole, rng, effort(4, 12)) == whole


@pytest.mark.parametrize(
    ("story", "mode"), crossed(IN_DOUBT, MODES), ids=lambda value: str(getattr(value, "id", value))
)
def test_what_no_statement_says_stops_the_merge_or_is_told(stage: Stage, story: Story, mode: str) -> None:
    number = 100 + 2 * IN_DOUBT.index(story) + (mode == "optimistic")
    played = Teller(stage, story, number).tell()
    stage.target.drop_databases()
    path = stage.configuration(f"doubt-{mode}-{story.id}", [played], mode, sections={**ERROR, **story.sections})
    out = path.parent / "out"
    with pytest.raises(ShardDdlStopped) as raised:
        merge(path, out)
    error, wanted = raised.value, story.fill(story.doubt, number)
    assert error.exit_code == 42 and wanted in error.message
    assert error.node and error.file and error.position
    assert "shard-doubts: warn" in (error.remedy or "") and "by hand" in (error.remedy or "")
    before = written(out)
    with pytest.raises(ShardDdlStopped):
        merge(path, out)
    assert written(out) == before  # a prefix, as far as it goes
    stage.configuration(f"doubt-{mode}-{story.id}", [played], mode, sections=story.sections)  # which may go on
    result = merge(path, out)
    told = [warning for warning in result.warnings if wanted in warning]
    assert told and f"{Path(error.file).name}:{error.position}; " in told[0] and "by hand" in told[0]
    stage.carry_out(out)


def shown(capsys: Captured, *arguments: str) -> str:
    assert main.run(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("decision", "mode"),
    keeping(
        [("as-if-done", MODES[0]), ("skip", MODES[1])],
        [(decision, mode) for decision in ("as-if-done", "skip") for mode in MODES],
    ),
)
def test_a_shard_that_does_not_follow(stage: Stage, capsys: Captured, mode: str, decision: str) -> None:
    """What waits is shown; what is decided counts for rows before and behind it, until the shard follows."""
    number = 200 + 2 * (mode == "optimistic") + (decision == "skip")
    begun = Teller(stage, Story(f"begun {number}", BEGUN), number).tell()
    path = stage.configuration(f"resolve-{number}", [begun], mode, sections=ERROR)
    out, a = path.parent / "out", f"r{number}a"
    result = merge(path, out)
    (lock,) = result.locks
    assert (lock["stage"], lock["sql"]) == ("waiting", f"RENAME TABLE `{a}`.`t` TO `{a}`.`u`")
    assert (lock["done"], lock["awaited"]) == ([f"n1/{a}/u"], [f"n2/{a}/t"])
    assert [(one["node"], one["table"]) for one in result.waiting_shards] == [("n1", "u")]
    assert f"RENAME TABLE `{a}`.`t` TO `{a}`.`u`" in shown(capsys, "ddl", "locks", "--out", str(out))
    told = ["ddl", "resolve", f"{a}.t", "--out", str(out)]
    assert main.run([*told, "--emit", "ALTER TABLE t ADD x INT"]) != 0
    assert "--as-if-done" in capsys.readouterr().err
    shown(capsys, *told, *(["--as-if-done", f"n2/{a}/t"] if decision == "as-if-done" else ["--skip"]))
    later = Teller(stage, Story(f"later {number}", LATER), number, begun=True, counter=500).tell()
    path = stage.configuration(f"resolve-{number}", [begun, later], mode, sections=ERROR)
    result = merge(path, out)
    assert (result.locks, result.waiting) == ((), 0)
    stage.target.drop_databases()
    stage.carry_out(out)
    name = (a, "u" if decision == "as-if-done" else "t")
    assert [one for one in tables(stage.target) if one[0] == a] == [name]
    rows = [row for node in stage.nodes.values() for row in rows_of(node, (a, "u"), ["id", "v"])]
    assert sorted(rows_of(stage.target, name, ["id", "v"])) == sorted(rows)


BEGUN = f"""
    n1 CREATE TABLE t {T}
    n2 CREATE TABLE t {T}
    n1 rows t
    n2 rows t
    n1 RENAME TABLE t TO u
    n1 rows u
    n2 rows t
    """
LATER = """
    n2 rows t
    n1 rows u
    n2 UPDATE t SET v = 'later'
    n2 RENAME TABLE t TO u
    n2 rows u
    n1 UPDATE u SET v = 'last' WHERE id < 20
    n1 rows u
    """


STORIES = int(os.environ.get("RENAME_STORIES", str(effort(1, 4))))
FIRST = int(os.environ.get("RENAME_FIRST", "0"))


@pytest.mark.extended  # each kind of rename has a story above
@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
def test_random_stories(stage: Stage, seed: int) -> None:
    """Both modes, in one run and in several: the target has what the nodes have."""
    number = 300 + seed - FIRST
    played = Teller(stage, Story(f"random {seed}", random_renames.story(seed)), number).tell()
    for mode in ("pessimistic", "optimistic"):
        path = stage.configuration(f"random-{seed}-{mode}", [played], mode, sections=ERROR)
        out = path.parent / "out"
        result = merge(path, out)
        assert (result.locks, result.waiting) == ((), 0)
        stage.target.drop_databases()
        stage.carry_out(out)
        check(stage, played, number)
        path = stage.configuration(f"random-{seed}-{mode}-cut", [played], mode, sections=ERROR)
        assert grown(path, written(out), random.Random(seed), 5) == written(out)


@pytest.mark.parametrize("count", [6, pytest.param(len(CARRIED), marks=pytest.mark.extended)])
def test_replays_carry_renames(stage: Stage, told: Told, count: int, tmp_path: Path) -> None:
    """A replay with several sessions into a server, and one into a DuckDB file, come to what the nodes have."""
    stories = [one for one in CARRIED if not one.sections][:count]
    path = stage.configuration(
        f"replayed-{count}", [told[one.name][1] for one in stories], "pessimistic", sections=ERROR
    )
    merge(path, path.parent / "out")
    binlog = Log(path.parent / "out")
    stage.target.drop_databases()
    stage.target.execute("SET GLOBAL time_zone = '+00:00'")
    replay(binlog, target_of(stage.target, binlog), ReplayOptions(workers=3))
    for one in stories:
        number, played = told[one.name]
        check(stage, played, number)
    loaded(binlog, tmp_path / "file.db")
    expected, found = tables_at(stage.target), tables_of(tmp_path / "file.db")
    assert found.keys() == expected.keys()
    assert {table: differences(found[table], expected[table]) for table in expected} == {
        table: [] for table in expected
    }
