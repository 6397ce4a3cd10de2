"""Tables that shards make one after the other, while those that have them change them: what is made late owes the rest.

Every shard runs the same program in the end, each at its own time, with rows in between; a shard may also make its
table as it has become elsewhere. The target has what the nodes have together.
"""

import random
from dataclasses import dataclass, field

import pytest

from binlog_merge.cli import main
from binlog_merge.errors import ShardDdlStopped
from tests.effort import effort, keeping
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import Played, Route, Session, Stage, create_of, tables
from tests.merge_e2e.shards.test_removals import rows, target
from tests.merge_e2e.shards.test_renames import grown

pytestmark = [pytest.mark.mysql]

STRICT = {"shard-doubts": "error"}
MODES = ("pessimistic", "optimistic")
FILLED = ("INSERT INTO t VALUES ({n}1, 1)",)
CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b BIGINT NOT NULL DEFAULT 7, w BIGINT)"
Shard = tuple[str, str]


@dataclass
class Late:
    """One story: the program that every shard runs, and what was run, in turn."""

    seed: int
    rng: random.Random
    steps: list[str] = field(default_factory=list)
    row: int = 0

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the route of the shards."""
        return (Route(f"x{self.seed}_n?", "t?", (f"x{self.seed}", "t")),)

    def shards(self) -> list[Shard]:
        """Return the shards of one logical table, each with its node."""
        places = (("n1", "t1"), ("n1", "t2"), ("n2", "t1"), ("n2", "t2"))
        return self.rng.sample([(node, f"x{self.seed}_{node}.{t}") for node, t in places], self.rng.randint(2, 4))

    def program(self) -> list[str]:
        """Return what is done to the table after it is made."""
        found, names = list[str](), ["a", "b", "w"]
        for number in range(self.rng.randint(1, 5)):
            match self.rng.choice(
                ("add", "add", "add two", "drop", "rename", "narrow", "index", "unique", "comment", "null")
            ):
                case "add":
                    found.append(f"ADD COLUMN c{number} INT NOT NULL DEFAULT {number}")
                case "add two":
                    found.append(f"ADD COLUMN c{number} VARCHAR(9) AFTER id, ADD COLUMN d{number} INT DEFAULT 3")
                case "drop" if len(names) > 1:
                    found.append(f"DROP COLUMN {names.pop(self.rng.randrange(len(names)))}")
                case "rename":
                    place = self.rng.randrange(len(names))
                    found.append(f"RENAME COLUMN {names[place]} TO {names[place]}x")
                    names[place] += "x"
                case "narrow" if "w" in names:
                    found.append("MODIFY COLUMN w INT")
                case "index":
                    found.append(f"ADD INDEX i{number} ({self.rng.choice(names)})")
                case "unique":
                    found.append(f"ADD UNIQUE INDEX u{number} (id, {self.rng.choice(names)})")
                case "comment":
                    found.append(f"COMMENT = 'number {number}'")
                case "null" if "a" in names:
                    found.append("MODIFY COLUMN a BIGINT")
        return [f"ALTER TABLE {{t}} {one}" for one in found]


def play(stage: Stage, seed: int, unfinished: bool = False) -> tuple[Late, Played]:
    """Play a story on the nodes; with `unfinished` a shard may stop anywhere in the program."""
    rng = random.Random(seed)
    story = Late(seed, rng)
    stage.clear()
    with stage.scene(f"late {seed}", story.routes) as (sessions, played):
        for node, session in sessions.items():
            session.run(f"CREATE DATABASE x{seed}_{node}")
        shards, program = story.shards(), story.program()
        places = dict.fromkeys(shards, -1)
        ends = {shard: rng.randint(-1, len(program)) if unfinished else len(program) for shard in shards}
        while behind := [shard for shard in shards if places[shard] < ends[shard]]:
            shard = rng.choice(behind[:2])
            for _ in range(rng.randint(1, 3)):
                if places[shard] < ends[shard]:
                    advance(story, dict(sessions), places, shard, program)
            for one in rng.choices([shard for shard in shards if places[shard] >= 0] or [shard], k=2):
                write(story, dict(sessions), one)
    return story, played[0]


def advance(
    story: Late, sessions: dict[str, Session], places: dict[Shard, int], shard: Shard, program: list[str]
) -> None:
    """Let a shard run the next statement of the program; or make its table as another has it."""
    like = [other for other, place in places.items() if place >= 0 and other[0] == shard[0]]
    if places[shard] < 0 and like and story.rng.random() < 0.4:
        other = story.rng.choice(like)
        run(story, sessions, shard, f"CREATE TABLE {{t}} LIKE {other[1]}")
        places[shard] = places[other]
        return
    run(story, sessions, shard, CREATE if places[shard] < 0 else program[places[shard]])
    places[shard] += 1


def write(story: Late, sessions: dict[str, Session], shard: Shard) -> None:
    """Write rows of a shard with whatever columns it has."""
    node, table = shard
    schema, name = table.split(".")
    story.row += 1
    found = sessions[node].ask(
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{schema}' AND table_name = '{name}' "
        "AND column_name <> 'id'"
    )
    if not found:
        return
    names = [str(column) for (column,) in found]
    values = ", ".join(str(story.rng.randint(0, 99)) for _ in names)
    run(story, sessions, shard, f"INSERT INTO {{t}} (id, {', '.join(names)}) VALUES ({story.row}, {values})")
    if story.rng.random() < 0.4:
        run(story, sessions, shard, f"UPDATE {{t}} SET {story.rng.choice(names)} = 5 ORDER BY id LIMIT 1")
    if story.rng.random() < 0.2:
        run(story, sessions, shard, "DELETE FROM {t} ORDER BY id LIMIT 1")


def run(story: Late, sessions: dict[str, Session], shard: Shard, sql: str) -> None:
    """Run a statement on a shard."""
    sessions[shard[0]].run(sql.format(t=shard[1]))
    story.steps.append(f"{shard[0]}: {sql.format(t=shard[1])}")


def attack(stage: Stage, seed: int, modes: tuple[str, ...], cut: bool = False) -> None:
    """The target has what the nodes have, and nothing waits; cut into runs it comes to the same bytes."""
    story, played = play(stage, seed)
    expected = sorted(
        (row for server in stage.nodes.values() for name in tables(server) for row in rows(server, name)), key=repr
    )
    for mode in modes:
        path = stage.configuration(f"late-{seed}-{mode}", [played], mode, sections=STRICT)
        out = path.parent / "out"
        where = f"seed {seed}, {mode}, {path}\n" + "\n".join(story.steps)
        try:
            result = merge(path, out)
        except Exception as error:
            raise AssertionError(where) from error
        assert (result.warnings, result.locks, result.waiting_shards) == ((), (), ()), where
        assert list(target(stage, out).values()) == [expected], where
        if cut:
            again = stage.configuration(f"cut-{seed}-{mode}", [played], mode, sections=STRICT)
            assert grown(again, written(out), random.Random(seed), 5) == written(out), where


@pytest.mark.extended  # random ones; the next has whole migrations
@pytest.mark.parametrize(
    "seeds",
    keeping([range(4)], [range(first, first + 4) for first in range(0, effort(8, 80), 4)]),
    ids=str,
)
def test_shards_that_make_their_tables_late(stage: Stage, seeds: range) -> None:
    for seed in seeds:
        attack(stage, seed, ("pessimistic",), cut=seed % 4 == 0)


T = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
B = "ADD COLUMN b INT DEFAULT 3"
MIGRATIONS = {
    "renamed": [T, "RENAME TABLE t TO u", "INSERT INTO u VALUES ({n}1, 1)"],
    "altered and renamed": [T, f"ALTER TABLE t {B}", "RENAME TABLE t TO u", "INSERT INTO u VALUES ({n}1, 1, 1)"],
    "altered and renamed at once": [T, f"ALTER TABLE t {B}, RENAME TO u", "INSERT INTO u VALUES ({n}1, 1, 1)"],
    "renamed and altered": [
        T, "RENAME TABLE t TO u", "INSERT INTO u VALUES ({n}1, 1)", f"ALTER TABLE u {B}",
        "INSERT INTO u VALUES ({n}2, 2, 2)",
    ],
    "renamed twice": [T, "RENAME TABLE t TO u", "RENAME TABLE u TO v", "INSERT INTO v VALUES ({n}1, 1)"],
    "filled, emptied again and renamed": [
        T, "INSERT INTO t VALUES ({n}1, 1)", "DELETE FROM t", "RENAME TABLE t TO u", "INSERT INTO u VALUES ({n}1, 4)"
    ],
    "dropped": [T, "INSERT INTO t VALUES ({n}1, 1)", "DROP TABLE t"],
}  # fmt: skip


def migrate(stage: Stage, name: str, statements: list[str]) -> tuple[list[Played], dict[tuple[str, str], list[object]]]:
    """Let one shard after the other run a whole migration; returns it with what the shards hold together."""
    stage.clear()
    with stage.scene(name, ()) as (sessions, played):
        for session in sessions.values():
            session.run("CREATE DATABASE s")
            session.run("USE s")
        for node, session in sessions.items():
            for sql in statements:
                session.run(sql.replace("{n}", node[1]))
    expected: dict[tuple[str, str], list[object]] = {}
    for server in stage.nodes.values():
        for table in tables(server):
            expected.setdefault(table, []).extend(rows(server, table))
    return played, {table: sorted(held, key=repr) for table, held in expected.items()}


@pytest.mark.parametrize("name", keeping([*MIGRATIONS][1::2], MIGRATIONS))
def test_a_shard_runs_a_whole_migration_before_the_next_one_begins(stage: Stage, name: str) -> None:
    played, expected = migrate(stage, name, MIGRATIONS[name])
    for mode in ("pessimistic", "optimistic"):
        path = stage.configuration(f"{name}-{mode}".replace(" ", "-"), played, mode, sections=STRICT)
        result = merge(path, path.parent / "out")
        assert (result.warnings, result.locks, result.waiting_shards) == ((), (), ())
        assert target(stage, path.parent / "out") == expected


@pytest.mark.parametrize("mode", keeping(["optimistic"], MODES))
def test_rows_before_such_a_rename_are_in_doubt(stage: Stage, mode: str) -> None:
    """With `shard-doubts: warn` the target has what the error says."""
    filled = [T, "INSERT INTO t VALUES ({n}1, 1)", "RENAME TABLE t TO u", "INSERT INTO u VALUES ({n}2, 2)"]
    played, expected = migrate(stage, "filled", filled)
    path = stage.configuration(f"filled-{mode}", played, mode, sections=STRICT)
    with pytest.raises(ShardDdlStopped, match=r"rows that are in s\.t so far go with it, as it is dropped") as raised:
        merge(path, path.parent / "out")
    assert "copy the rows that n2/s/u has there into s.u by hand" in (raised.value.remedy or "")
    assert "set `shard-doubts: warn`" in (raised.value.remedy or "")
    stage.configuration(f"filled-{mode}", played, mode, sections={"shard-doubts": "warn"})
    result = merge(path, path.parent / "out")
    assert len(result.warnings) == 1 and result.locks == ()
    assert (21, 1) in expected["s", "u"]
    assert target(stage, path.parent / "out") == {("s", "u"): [row for row in expected["s", "u"] if row != (21, 1)]}


@pytest.mark.parametrize(
    ("filled", "mode"),
    keeping([((), MODES[0]), (FILLED, MODES[1])], [(f, mode) for f in ((), FILLED) for mode in MODES]),
)
def test_a_truncate_after_those_of_others_is_decided(stage: Stage, mode: str, filled: tuple[str, ...]) -> None:
    """Nothing shows whether the others will run it again: it waits. If it is skipped, what was there before stays."""
    played, expected = migrate(stage, "emptied", [T, *filled, "TRUNCATE TABLE t", "INSERT INTO t VALUES ({n}2, 2)"])
    path = stage.configuration(f"emptied-{mode}-{len(filled)}", played, mode, sections=STRICT)
    out = path.parent / "out"
    (lock,) = merge(path, out).locks
    assert (lock["sql"], lock["done"], lock["awaited"]) == ("TRUNCATE TABLE `s`.`t`", ["n2/s/t"], ["n1/s/t"])
    assert main.run(["ddl", "resolve", "s.t", "--skip", "--out", str(out)]) == 0
    assert merge(path, out).locks == ()
    left = [(21, 1)] if filled else []
    assert target(stage, out) == {("s", "t"): sorted([*expected["s", "t"], *left], key=repr)}


OTHERWISE = [
    T, "INSERT INTO t VALUES ({n}1, 1)", "ALTER TABLE t ADD KEY (a)", "TRUNCATE TABLE t",
    "INSERT INTO t VALUES ({n}2, 1)", "DROP TABLE t",
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT)", "INSERT INTO t VALUES ({n}1, 'x', 1)",
    "UPDATE t SET b = 2",
]  # fmt: skip


@pytest.mark.parametrize("mode", keeping(["optimistic"], MODES))
def test_a_table_that_is_made_otherwise_after_a_drop(stage: Stage, mode: str) -> None:
    """The first table of a shard that runs all this late fits no more, and need not: it will be dropped."""
    played, expected = migrate(stage, "otherwise", OTHERWISE)
    path = stage.configuration(f"otherwise-{mode}", played, mode, sections=STRICT)
    out = path.parent / "out"
    result = merge(path, out)
    assert (result.warnings, result.locks, result.waiting_shards) == ((), (), ())
    assert target(stage, out) == expected
    cut = stage.configuration(f"otherwise-cut-{mode}", played, mode, sections=STRICT)
    assert grown(cut, written(out), random.Random(1), 5) == written(out)


STRANGE = "is made with a schema that the logical table neither has nor is about to have"


def test_a_table_that_fits_nowhere_stops_until_it_is_dropped(stage: Stage) -> None:
    """Pessimistic: the merge stops at it, and goes on once the shard has dropped it, as the remedy says."""
    first, _ = migrate(stage, "strange", [])
    path = stage.configuration("strange", first, "pessimistic", sections=STRICT)
    parts = [OTHERWISE, OTHERWISE[:5], OTHERWISE[5:]]
    plays, out = list(first), path.parent / "out"
    for node, statements, stops in zip(("n1", "n2", "n2"), parts, (False, True, False), strict=True):
        with stage.scene("strange", ()) as (sessions, played):
            sessions[node].run("USE s")
            for sql in statements:
                sessions[node].run(sql.replace("{n}", node[1]))
        plays += played
        stage.configuration("strange", plays, "pessimistic", sections=STRICT)
        if stops:
            with pytest.raises(ShardDdlStopped, match=STRANGE) as raised:
                merge(path, out)
            assert "if it drops the table later, merge again then" in (raised.value.remedy or "")
        else:
            assert merge(path, out).locks == ()
    held = [row for server in stage.nodes.values() for row in rows(server, ("s", "t"))]
    assert target(stage, out) == {("s", "t"): sorted(held, key=repr)}


def test_a_table_that_fits_nowhere_is_given_a_route_or_a_beginning(stage: Stage) -> None:
    """Pessimistic: both remedies that the stop names are followed to their end."""
    stage.clear()
    with stage.scene("unlike", ()) as (sessions, first):
        for node, columns in (("n1", "a INT"), ("n2", "b VARCHAR(9)")):
            sessions[node].run("CREATE DATABASE s")
            sessions[node].run(f"CREATE TABLE s.t (id INT PRIMARY KEY, {columns})")
            sessions[node].run(f"INSERT INTO s.t VALUES ({node[1]}1, {node[1]})")
    path = stage.configuration("unlike", first, "pessimistic", sections=STRICT)
    with pytest.raises(ShardDdlStopped, match=STRANGE) as raised:
        merge(path, path.parent / "out")
    for words in ("a route of its own", "`base.logical` and each node's `base.physical`"):
        assert words in (raised.value.remedy or "")
    own = Played("unlike", first[0].files, (Route("s", "t", ("s", "t_n2"), source="n2"),))
    path = stage.configuration("unlike-routed", [own], "pessimistic", sections=STRICT)
    merge(path, path.parent / "out")
    assert target(stage, path.parent / "out") == {("s", "t"): [(11, 1)], ("s", "t_n2"): [(21, "2")]}
    # The shards are made alike, and the merge begins there, with a target that has their rows.
    stage.nodes["n2"].execute("ALTER TABLE s.t ADD a INT AFTER id, DROP b")
    stage.target.drop_databases()
    stage.target.execute("CREATE DATABASE s")
    stage.target.execute(stage.nodes["n1"].query("SHOW CREATE TABLE s.t")[0][1].replace("`t`", "s.t"))
    stage.target.execute("INSERT INTO s.t VALUES (11, 1), (21, NULL)")
    with stage.scene("alike", ()) as (sessions, later):
        for session in sessions.values():
            session.run("UPDATE s.t SET a = id")
            session.run("INSERT INTO s.t VALUES (@@server_id + 50, 5)")
    base = stage.folder / "alike.sql"
    base.write_text("CREATE DATABASE s;\nCREATE TABLE s.t (id INT NOT NULL PRIMARY KEY, a INT DEFAULT NULL);\n")
    given = {"logical": str(base), "physical": dict.fromkeys(stage.nodes, str(base))}
    path = stage.configuration("alike", later, "pessimistic", sections={**STRICT, "base": given})
    merge(path, path.parent / "out")
    stage.carry_out(path.parent / "out")
    held = [row for server in stage.nodes.values() for row in rows(server, ("s", "t"))]
    assert sorted(rows(stage.target, ("s", "t"))) == sorted(held)


@pytest.mark.parametrize("mode", keeping(["pessimistic"], MODES))
def test_a_table_that_leaves_its_route_is_made_in_the_words_of_its_session(stage: Stage, mode: str) -> None:
    """Without rows it is no doubt; with NO_BACKSLASH_ESCAPES its CREATE TABLE has other strings."""
    stage.clear()
    columns = r"(id INT PRIMARY KEY, v VARCHAR(9) DEFAULT 'a\b' COMMENT 'it''s \n', w INT)"
    with stage.scene("leaves", (Route("s", "t?", ("s", "t")),)) as (sessions, played):
        for sql in (
            "CREATE DATABASE s",
            "USE s",
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
            f"CREATE TABLE t1 {columns}",
            f"CREATE TABLE t2 {columns}",
            "INSERT INTO t2 (id, w) VALUES (2, 2)",
            "RENAME TABLE t1 TO x",
            "INSERT INTO x (id, w) VALUES (1, 1)",
        ):
            sessions["n1"].run(sql)
    path = stage.configuration(f"leaves-{mode}", played, mode, sections=STRICT)
    assert merge(path, path.parent / "out").warnings == ()
    assert target(stage, path.parent / "out") == {("s", "t"): [(2, r"a\b", 2)], ("s", "x"): [(1, r"a\b", 1)]}
    assert create_of(stage.target, ("s", "x")) == create_of(stage.nodes["n1"], ("s", "x"))
