"""Rows of different shards with one key: the merge says so, names both, and only where a server would stop."""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from binlog_merge.ask.life import life_of
from binlog_merge.bootstrap.plan import RoutedTables
from binlog_merge.bootstrap.published import CapturedNode
from binlog_merge.cli.output import summary
from binlog_merge.cli.schema.import_nodes import NodeBase, logical_of, overlaps_of
from binlog_merge.cli.verify import lines_of
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.modes import Modes
from binlog_merge.errors import KeysInDoubt
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import history_of
from binlog_merge.observe.status.observer import Observer
from binlog_merge.pipeline.gather import collisions
from binlog_merge.pipeline.rounds import Rounds
from binlog_merge.values.key_values import StandingKeys
from binlog_merge.verification.whole import verify
from snapshot_store.introspect import introspect
from snapshot_store.server import ServerAddress
from tests.effort import effort, keeping
from tests.merge_e2e.local import LocalRunner, merge, written
from tests.merge_e2e.shards.stage import Played, Route, Session, Stage

pytestmark = [pytest.mark.mysql]

ROUTE = Route("d_n?", "t?", ("d", "t"))
ANYWAY = {"key-doubts": "warn"}
Nodes = dict[str, Session]


def play(
    stage: Stage, name: str, columns: str, story: Callable[[Nodes], None], routes: Sequence[Route] = (ROUTE,)
) -> list[Played]:
    """Make a shard on each node, and let a story happen on them."""
    stage.clear()
    with stage.scene(name, routes) as (nodes, files):
        for node, session in nodes.items():
            session.run(f"CREATE DATABASE d_{node}")
            session.run(f"USE d_{node}")
            session.run(f"CREATE TABLE t1 ({columns})")
        story(nodes)
    return list(files)


def told(stage: Stage, name: str, columns: str, story: Callable[[Nodes], None]) -> list[str]:
    """Return what the merge of a story says of colliding keys."""
    path = stage.configuration(name, play(stage, name, columns, story), "pessimistic", sections=ANYWAY)
    return colliding(merge(path, path.parent / "out").warnings)


def colliding(warnings: tuple[str, ...]) -> list[str]:
    return [warning for warning in warnings if warning.startswith("keys collide")]


def problems(path: Path) -> list[str]:
    """Return what `status` says of colliding keys."""
    status = Observer(MergeConfig.load(path), path.parent / "out").look()
    return [problem.text for problem in status.problems if problem.code == "keys-collide"]


def both_count(nodes: Nodes) -> None:
    for n in range(3):
        for node, session in nodes.items():
            session.run(f"INSERT INTO t1 (v) VALUES ('{n} of {node}')")


def verified(out: Path) -> list[str]:
    with opened_log(str(out)) as folder:
        return [fault.text() for fault in verify(Log(folder), history_of(folder.directory)).keys.faults.values()]


def test_counters_that_collide(stage: Stage) -> None:
    (warning,) = told(stage, "count", "id INT AUTO_INCREMENT PRIMARY KEY, v TEXT", both_count)
    assert "n2/d_n2/t1 inserted a row of d.t with the PRIMARY key id=1 " in warning
    assert "which a row of n1/d_n1/t1 has" in warning
    assert "3 such keys were seen" in warning
    out = stage.folder / "count" / "out"
    (fault,) = verified(out)
    assert fault.startswith("d.t: ") and "with the PRIMARY key id=1, which" in fault and fault.endswith("3 rows are so")
    with opened_log(str(out)) as folder:
        (doubt,) = life_of(Log(folder), ("d", "t"), {"id": "2"}).doubts
    assert " inserts the row that stands since " in doubt and "Two shards gave a row this key" in doubt
    assert problems(stage.folder / "count" / "cluster.yaml") == [warning]
    assert "`copies`" in warning and "`source-pattern`" in warning and "`key: true`" in warning


def test_before_anything_is_published_it_is_an_error(stage: Stage) -> None:
    """Whose ways out cost nothing then: one is gone here; nothing is left behind, and the output is what it makes."""
    played = play(stage, "first", "id INT AUTO_INCREMENT PRIMARY KEY, v TEXT", both_count)
    path = stage.configuration("first", played, "pessimistic", sections={"output": {"max-size": "4KiB"}})
    out = path.parent / "out"
    with pytest.raises(KeysInDoubt) as caught:
        merge(path, out)
    assert "n2/d_n2/t1 inserted a row of d.t with the PRIMARY key id=1 " in caught.value.message
    assert caught.value.order_key in caught.value.message and caught.value.result is None
    ways = ("`copies`", "`key: true`", "`source-pattern`", "`key-doubts: warn`", "remove")
    assert all(way in caught.value.remedy for way in ways)
    assert not written(out) and Manifest.load(out).state.rank == 0
    shutil.rmtree(out)
    extract = {"schema-regexp": "d_(.*)", "target-column": "c_shard", "key": True}
    keyed = Route("d_n?", "t?", ("d", "t"), {"extract-schema": extract})
    stage.configuration("first", [replace(played[0], routes=(keyed,))], "pessimistic")
    assert colliding(merge(path, out).warnings) == []
    stage.target.drop_databases()
    stage.carry_out(out)
    assert len(stage.target.query("SELECT * FROM d.t")) == 6


def by_text(nodes: Nodes) -> None:
    for session in nodes.values():
        session.run("INSERT INTO t1 VALUES ('DE', 'x'), ('Österreich', 'y')")


def test_values_of_texts_are_told(stage: Stage) -> None:
    (warning,) = told(stage, "text", "code VARCHAR(20) PRIMARY KEY, v TEXT", by_text)
    assert "PRIMARY key code='DE'" in warning and "2 such keys" in warning


def by_unique_key(nodes: Nodes) -> None:
    nodes["n1"].run("INSERT INTO t1 VALUES (1, 'a@x'), (2, NULL)")
    nodes["n2"].run("INSERT INTO t1 VALUES (3, 'b@x'), (4, NULL)")
    nodes["n2"].run("UPDATE t1 SET mail = 'a@x' WHERE id = 3")


def test_a_unique_key_that_is_updated_to_anothers(stage: Stage) -> None:
    (warning,) = told(stage, "unique", "id INT PRIMARY KEY, mail VARCHAR(20) UNIQUE", by_unique_key)
    assert "mail key mail='a@x'" in warning


def by_other_letters(nodes: Nodes) -> None:
    nodes["n1"].run("INSERT INTO t1 VALUES ('straße-a', 'a', 97), ('c', 'c', 1)")
    nodes["n1"].run("UPDATE t1 SET id = 'C' WHERE id = 'c'")
    nodes["n2"].run("INSERT INTO t1 VALUES ('STRAßE-A', 'b', 65), ('C', 'd', 2)")
    nodes["n2"].run("INSERT INTO t1 VALUES ('e', 'A ', 3)")


CASED = "id VARCHAR(20) PRIMARY KEY, u VARCHAR(9) COLLATE utf8mb4_general_ci UNIQUE, n INT UNIQUE"


def test_texts_that_a_collation_takes_for_equal(stage: Stage) -> None:
    """The merge knows the case of ASCII letters, `verify` spaces at the end as well; 97 is not 65, whose bytes are a
    and A.
    """
    (warning,) = told(stage, "cased", CASED, by_other_letters)
    assert "PRIMARY key id='STRAßE-A'" in warning and "2 such keys" in warning
    first, second = verified(stage.folder / "cased" / "out")
    assert "PRIMARY key id='STRAßE-A'" in first and "2 rows are so" in first
    assert "u key u='A '" in second


COLUMNS = "id INT AUTO_INCREMENT PRIMARY KEY, v INT, w INT UNIQUE"


def moved_by_application(nodes: Nodes) -> None:
    nodes["n1"].run("INSERT INTO t1 VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
    nodes["n1"].run("DELETE FROM t1 WHERE id = 1")
    nodes["n2"].run("INSERT INTO t1 VALUES (1, 1, 1)")
    nodes["n1"].run("UPDATE t1 SET id = 9, w = 9 WHERE id = 2")
    nodes["n2"].run("REPLACE INTO t1 VALUES (2, 1, 2)")
    nodes["n2"].run("INSERT INTO t1 VALUES (4, 1, 5) ON DUPLICATE KEY UPDATE v = 2")


def emptied(nodes: Nodes) -> None:
    nodes["n1"].run("INSERT INTO t1 VALUES (1, 1, 1)")
    for session in nodes.values():
        session.run("ALTER TABLE t1 ADD COLUMN x INT")
    nodes["n2"].run("INSERT INTO t1 VALUES (2, 1, 2, 1)")


def apart(nodes: Nodes) -> None:
    for n, session in enumerate(nodes.values(), 1):
        session.run(f"SET auto_increment_increment = 2, auto_increment_offset = {n}")
        for _ in range(50):
            session.run("INSERT INTO t1 (v) VALUES (1)")


def kept_by_minimal_images(nodes: Nodes) -> None:
    """A DELETE whose image has only the primary key frees the other key, too."""
    for session in nodes.values():
        session.run("SET binlog_row_image = 'MINIMAL'")
    nodes["n1"].run("INSERT INTO t1 VALUES (1, 1, 1)")
    nodes["n1"].run("DELETE FROM t1")
    nodes["n2"].run("INSERT INTO t1 VALUES (2, 1, 1)")


def kept_by_minimal_images_again(nodes: Nodes) -> None:
    """Each such DELETE does, not only the first one of those that are looked at together."""
    for session in nodes.values():
        session.run("SET binlog_row_image = 'MINIMAL'")
    for number in range(3):
        nodes["n1"].run(f"INSERT INTO t1 VALUES ({2 * number}, 1, 1)")
        nodes["n1"].run("DELETE FROM t1")
        nodes["n2"].run(f"INSERT INTO t1 VALUES ({2 * number + 1}, 1, 1)")
        nodes["n2"].run("DELETE FROM t1")


def set_to_null(nodes: Nodes) -> None:
    """An UPDATE that makes NULL of a unique key frees it, whatever of the row the images hold."""
    for image, one in (("FULL", 1), ("MINIMAL", 3)):
        nodes["n1"].run(f"SET binlog_row_image = '{image}'")
        nodes["n1"].run(f"INSERT INTO t1 VALUES ({one}, 1, {one})")
        nodes["n1"].run(f"UPDATE t1 SET w = NULL WHERE id = {one}")
        nodes["n2"].run(f"INSERT INTO t1 VALUES ({one + 1}, 1, {one})")


@pytest.mark.parametrize(
    "story", [moved_by_application, emptied, apart, kept_by_minimal_images, kept_by_minimal_images_again, set_to_null]
)
def test_keys_that_a_server_takes(stage: Stage, story: Callable[[Nodes], None]) -> None:
    assert told(stage, story.__name__, COLUMNS, story) == []
    stage.target.drop_databases()
    out = stage.folder / story.__name__ / "out"
    stage.carry_out(out)
    assert verified(out) == []
    with opened_log(str(out)) as folder:
        assert [life_of(Log(folder), ("d", "t"), {"id": str(key)}).doubts for key in (1, 2, 3)] == 3 * [()]


def cascading(nodes: Nodes) -> None:
    """Rows that a parent's DELETE removes are in no binlog."""
    for session in nodes.values():
        session.run("CREATE TABLE c1 (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t1 (id) ON DELETE CASCADE)")
    nodes["n1"].run("INSERT INTO t1 VALUES (1)")
    nodes["n1"].run("INSERT INTO c1 VALUES (7, 1)")
    nodes["n1"].run("DELETE FROM t1")
    nodes["n2"].run("INSERT INTO t1 VALUES (2)")
    nodes["n2"].run("INSERT INTO c1 VALUES (7, 2)")


def test_rows_that_a_cascade_removes(stage: Stage) -> None:
    routes = (ROUTE, Route("d_n?", "c?", ("d", "c")))
    played = play(stage, "cascade", "id INT PRIMARY KEY", cascading, routes)
    path = stage.configuration("cascade", played, "pessimistic")
    result = merge(path, path.parent / "out")
    assert colliding(result.warnings) == [] and verified(path.parent / "out") == []
    assert result.keys["cascading"] == ["d.c"]
    said = [line for line in summary(result.to_dict(), "out") if line.startswith("  keys ")]
    assert said == ["  keys       not looked at of d.c, whose rows a foreign key's CASCADE may remove unseen"]
    with opened_log(str(path.parent / "out")) as folder:
        found = verify(Log(folder), history_of(folder.directory))
    assert found.to_dict()["cascading"] == ["d.c"] and said[0] in lines_of(found, "out")


def test_between_rounds(stage: Stage) -> None:
    """What one round inserts stands in the next, and the status tells of it for as long as the log has it."""
    played = play(stage, "rounds", "id INT PRIMARY KEY", lambda nodes: None)
    for node, key in (("n1", 7), ("n2", 7), ("n2", 8)):
        with stage.scene(f"round {key} of {node}", [ROUTE]) as (nodes, files):
            nodes[node].run(f"INSERT INTO d_{node}.t1 VALUES ({key})")
        played += files
    path = stage.configuration("rounds", played[:1], "pessimistic")
    out, said = path.parent / "out", list[list[str]]()
    with Rounds(LocalRunner(), MergeConfig.load(path), out) as rounds:
        for count in range(1, 5):
            stage.configuration("rounds", played[:count], "pessimistic", routed=played[:1])
            said.append(colliding(rounds.merge(end_of_input=True).warnings))
    assert [len(one) for one in said] == [0, 0, 1, 0]
    assert problems(path) == said[2]


def test_between_files_and_with_few_keys_held(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the output are written apart, and of many keys only some are held."""

    def many(nodes: Nodes) -> None:
        for session in nodes.values():
            for n in range(0, 4000, 500):
                session.run("INSERT INTO t1 (v) VALUES " + ",".join(f"('{k}')" for k in range(n, n + 500)))

    monkeypatch.setattr(collisions, "MOST_KEYS", 600)
    monkeypatch.setattr(collisions, "_SENT", 300)
    played = play(stage, "files", "id INT AUTO_INCREMENT PRIMARY KEY, v TEXT", many)
    path = stage.configuration("files", played, "pessimistic", sections={"output": {"max-size": "32KiB"}} | ANYWAY)
    result = merge(path, path.parent / "out")
    assert len(result.files) > 2
    (warning,) = colliding(result.warnings)
    assert "PRIMARY key id=" in warning and "such keys were seen" in warning
    assert result.keys["some"] == ["d.t"] and result.keys["looked_at"] == result.keys["bytes"]
    monkeypatch.setattr(collisions, "_LOOKED_AT", 10_000)
    monkeypatch.setattr("binlog_merge.pipeline.gather.input_reader.WINDOW_BYTES", 4_000)
    in_part = merge(path, path.parent / "in part")
    assert 10_000 <= in_part.keys["looked_at"] < in_part.keys["bytes"] == result.keys["bytes"]
    said = "\n".join(summary(in_part.to_dict(), "out"))
    assert f"{in_part.keys['looked_at']:,} of {in_part.keys['bytes']:,} bytes were looked at" in said
    assert "some were looked at of d.t" in said


KEYS = {
    "numbers": ("id INT PRIMARY KEY, u INT UNIQUE, v INT", [1, 2, 3, 4, 5], [1, 2, 3, None]),
    "texts": ("id VARCHAR(9) PRIMARY KEY, u VARBINARY(4) UNIQUE, v INT", ["a", "b", "ö", "c "], ["x", "y", None]),
    "letters": (
        "id VARCHAR(9) PRIMARY KEY, u VARCHAR(4) COLLATE utf8mb4_general_ci UNIQUE, v INT",
        ["a", "A", "b", "ö", "bö", "Bö"],
        ["x", "X", "y", None],
    ),
    "pairs": ("id DECIMAL(5,2), u DATE, v INT, PRIMARY KEY (u, id)", [1.5, -2, 0], ["2020-01-01", "2021-01-01"]),
}


def at_random(seed: int, ids: list[Any], others: list[Any]) -> Callable[[Nodes], None]:
    """Return a story of statements of one node after the other, without DDL in three of four."""
    chosen = random.Random(seed)

    def value(values: list[Any]) -> str:
        found = chosen.choice(values)
        return "NULL" if found is None else repr(found)

    def story(nodes: Nodes) -> None:
        if seed % 4 == 3:
            nodes["n2"].run("SET binlog_row_image = 'MINIMAL'")
        for step in range(chosen.randint(3, 12)):
            session = chosen.choice(list(nodes.values()))
            statement = chosen.choice(
                [f"INSERT IGNORE INTO t1 VALUES ({value(ids)}, {value(others)}, {step})"] * 5
                + [f"DELETE FROM t1 WHERE id = {value(ids)}", f"UPDATE t1 SET v = {step} WHERE id = {value(ids)}"]
                + [f"UPDATE IGNORE t1 SET id = {value(ids)} WHERE id = {value(ids)}"]
                + [f"UPDATE IGNORE t1 SET u = {value(others)} WHERE id = {value(ids)}"]
                + [f"REPLACE INTO t1 VALUES ({value(ids)}, {value(others)}, {step})"]
            )
            session.run(statement)
            if seed % 4 == 1 and step == 4:
                for one in nodes.values():
                    one.run("ALTER TABLE t1 ADD COLUMN w INT, ALGORITHM = INSTANT")
                    one.run("ALTER TABLE t1 DROP COLUMN w")

    return story


def attacked(stage: Stage, seeds: range) -> Counter[tuple[bool, bool]]:
    """Merge random stories; what is said must be so on a server that applies them, and where no DDL is, all of it."""
    found: Counter[tuple[bool, bool]] = Counter()
    for seed in seeds:
        kind = list(KEYS)[(seed + seed // 4) % 4]
        columns, ids, others = KEYS[kind]
        said = bool(told(stage, "random", columns, at_random(seed, ids, others)))
        faults = verified(stage.folder / "random" / "out")
        stage.target.drop_databases()
        refused = ""
        try:
            stage.carry_out(stage.folder / "random" / "out")
        except RuntimeError as error:
            refused = str(error)
        twice = "1062" in refused
        assert not said or twice, (seed, refused)
        assert not faults or twice, (seed, faults, refused)
        if seed % 4 != 1:
            assert said is twice and bool(faults) is twice, (seed, said, faults, refused)
        found[said, twice] += 1
        shutil.rmtree(stage.folder / "random")
    return found


@pytest.mark.extended  # each kind of collision has a story of its own above
def test_random_stories(stage: Stage) -> None:
    found = attacked(stage, range(effort(12, 36)))
    assert found[True, True] > 2 and found[False, False] > 2


@pytest.mark.soak
def test_many_random_stories(stage: Stage) -> None:
    attacked(stage, range(1000, 1300))


def seen_on_servers(stage: Stage, columns: str, story: Callable[[Nodes], None]) -> list[str]:
    """Return what `schema import --nodes` says of the shards of d.t."""
    path = stage.configuration("seen", play(stage, "seen", columns, story), "pessimistic")
    places = RoutedTables.of(MergeConfig.load(path))
    captured = [CapturedNode(n, (ServerAddress(socket=s.socket),), stage.folder) for n, s in stage.nodes.items()]
    bases = {
        node: NodeBase(introspect(ServerAddress(socket=s.socket)).catalog, "", 0) for node, s in stage.nodes.items()
    }
    return [one.text for one in overlaps_of(captured, bases, logical_of(bases, places), places)]


def copied(nodes: Nodes) -> None:
    for session in nodes.values():
        session.run("INSERT INTO t1 VALUES ('DE', 'Germany'), ('AT', 'Austria')")


def told_apart(nodes: Nodes) -> None:
    for n, session in enumerate(nodes.values()):
        session.run(f"INSERT INTO t1 VALUES ({n + 1}, 'x')")


@pytest.mark.parametrize(
    ("columns", "story", "said"),
    [
        (
            "id INT AUTO_INCREMENT PRIMARY KEY, v TEXT",
            both_count,
            "d_n1.t1 of node n1 and d_n2.t1 of node n2 both have a row id=1, and 3",
        ),
        (
            "id INT AUTO_INCREMENT PRIMARY KEY, v TEXT",
            lambda nodes: None,
            "both count id by AUTO_INCREMENT, in steps of 1",
        ),
        ("code CHAR(2) PRIMARY KEY, name TEXT", copied, "have the same 2 rows: it looks like a copy"),
        ("id INT PRIMARY KEY, name TEXT", told_apart, None),
        ("id INT, name TEXT", told_apart, None),
    ],
)
def test_shards_are_looked_at_before_anything_is_merged(
    stage: Stage, columns: str, story: Callable[[Nodes], None], said: str | None
) -> None:
    told = seen_on_servers(stage, columns, story)
    assert [one for one in told if said is not None and one.startswith("d.t: ") and said in one] == told
    assert len(told) == (said is not None)


def test_of_more_keys_than_are_told_nothing_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = collisions.KeysOfTask(cast(Any, None), Modes(default="pessimistic"), 2)
    keys._keys = {collisions.KeyName("d", table, "PRIMARY", ("id",)): StandingKeys() for table in ("t", "u")}
    keys._facts = dict.fromkeys(keys._keys, ())
    seen = keys.seen()
    assert seen is not None and not seen.interrupted
    monkeypatch.setattr(collisions, "_MOST_TABLES", 1)
    seen = keys.seen()
    assert seen is not None and seen.interrupted


@pytest.mark.parametrize("image", keeping(["MINIMAL"], ["FULL", "MINIMAL", "NOBLOB"]))  # which lacks the key
def test_a_doubt_behind_an_update_that_leaves_the_key_alone(image: str, stage: Stage) -> None:
    """Or a part of the key, which is not in the image after it."""

    def story(nodes: Nodes) -> None:
        for session in nodes.values():
            session.run(f"SET binlog_row_image = '{image}'")
        nodes["n1"].run("INSERT INTO t1 VALUES (1, 5, 'a', 'x'), (2, 5, 'b', 'x')")
        nodes["n1"].run("UPDATE t1 SET v = 'c'")
        nodes["n1"].run("UPDATE t1 SET k = 6 WHERE id = 2")
        nodes["n2"].run("INSERT INTO t1 VALUES (1, 5, 'd', 'x'), (2, 5, 'e', 'x'), (2, 6, 'e', 'x')")

    told(stage, f"left {image}", "id INT, k INT, v VARCHAR(9), w TEXT, PRIMARY KEY (id, k)", story)
    with opened_log(str(stage.folder / f"left {image}" / "out")) as folder:
        lives = [life_of(Log(folder), ("d", "t"), {"id": i, "k": k}) for i, k in ("15", "25", "26")]
    for life, doubts in zip(lives, (1, 0, 1), strict=True):
        assert [" inserts the row that stands since " in doubt for doubt in life.doubts] == doubts * [True]
