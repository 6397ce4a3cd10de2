"""ALTER TABLE with clauses of all kinds together: the target has everything that the nodes have.

Also what no row depends on, such as comments and options; and a check or a foreign key only when all shards have it:
until then rows that it would refuse may come from those that have not.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.effort import effort
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Played, Session, Stage, create_of, refuses, tables
from tests.merge_e2e.shards.test_removals import rows, target

pytestmark = [pytest.mark.mysql]

MODES = ("pessimistic", "optimistic")
CREATE = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT NOT NULL, KEY ka (a), CONSTRAINT {t}_c0 CHECK (a > 0), "
    "CONSTRAINT {t}_f0 FOREIGN KEY (a) REFERENCES par (id))"
)
CLAUSES = (
    "ADD COLUMN p INT", "ADD COLUMN q INT NOT NULL DEFAULT 4",
    "ADD CONSTRAINT {t}_fk FOREIGN KEY (p) REFERENCES par (id)",
    "ADD CONSTRAINT {t}_fb FOREIGN KEY (b) REFERENCES par (id) ON DELETE RESTRICT", "ADD KEY kp (p)",
    "ADD UNIQUE u (id, q)", "ADD CONSTRAINT {t}_c CHECK (q > 0)", "ADD CONSTRAINT {t}_cb CHECK (b > 0)",
    "COMMENT = 'x'", "ROW_FORMAT = COMPRESSED", "STATS_PERSISTENT = 1", "ADD INDEX kb (b) COMMENT 'i'",
    "MODIFY a BIGINT COMMENT 'z'", "MODIFY b INT NOT NULL COMMENT 'w'", "ALTER INDEX ka INVISIBLE", "DROP INDEX ka",
    "DROP FOREIGN KEY {t}_f0", "DROP CHECK {t}_c0", "ALTER CHECK {t}_c0 NOT ENFORCED",
    "ADD COLUMN r INT COMMENT 'rr' FIRST", "RENAME COLUMN b TO bb", "DROP COLUMN b", "ADD COLUMN p2 INT INVISIBLE",
    "ADD COLUMN s VARCHAR(20) CHARACTER SET latin1", "ADD FULLTEXT INDEX ft (s)", "ALTER COLUMN b SET DEFAULT 5",
    "RENAME INDEX ka TO kaa", "ADD COLUMN g INT AS (b + 1) STORED", "ADD COLUMN h INT CHECK (h <> 3)",
    "ADD COLUMN k2 INT UNIQUE",
)  # fmt: skip


@dataclass(frozen=True)
class Altered:
    """A table of each node, and the statement that all have run."""

    name: str
    alter: str


def play(stage: Stage, name: str, alters: Mapping[str, str], rng: random.Random) -> tuple[list[Altered], Played]:
    """Run one statement on the shards of each table, one after the other; what a server refuses is none of it."""
    done = list[Altered]()
    stage.clear()
    with stage.scene(name, ()) as (sessions, played):
        for node, session in sessions.items():
            session.run("CREATE DATABASE x")
            session.run("USE x")
            session.run("CREATE TABLE par (id INT PRIMARY KEY)")
            if node == "n1":
                session.run("INSERT INTO par VALUES (1), (2), (3), (4), (5)")
        for table, alter in ((table, text.format(t=table)) for table, text in alters.items()):
            if played_on(dict(sessions), table, alter, rng):
                done.append(Altered(table, alter))
    return done, played[0]


def played_on(sessions: dict[str, Session], table: str, alter: str, rng: random.Random) -> bool:
    """Run a statement on both shards of a table, with rows that it may refuse in between."""
    first, second = rng.sample(sorted(sessions), 2)
    for node in (first, second):
        sessions[node].run("SET foreign_key_checks = 0")
        sessions[node].run(CREATE.format(t=table))
        sessions[node].run(f"INSERT INTO {table} (id, a, b) VALUES ({node[1]}, 1, 2)")
    if refuses(sessions[first], f"ALTER TABLE {table} {alter}"):
        for node in (first, second):
            sessions[node].run(f"DROP TABLE {table}")
        return False
    refuses(sessions[first], f"UPDATE {table} SET a = -7")  # if there is no such check any more
    sessions[first].run(f"UPDATE {table} SET a = 3")
    sessions[second].run(f"UPDATE {table} SET b = -9")  # neither a check nor a key is there yet
    sessions[second].run(f"UPDATE {table} SET b = 2")
    sessions[second].run(f"ALTER TABLE {table} {alter}")
    for node in (first, second):
        sessions[node].run(f"UPDATE {table} SET a = 2")
    return True


def random_alters(rng: random.Random, count: int) -> dict[str, str]:
    return {f"t{n}": ", ".join(rng.sample(CLAUSES, rng.randint(2, 4))) for n in range(count)}


def lines(text: str) -> list[str]:
    """Return a SHOW CREATE TABLE in lines, in no order: that of indexes and columns is not what this is about."""
    return sorted(line.strip().rstrip(",") for line in text.split("\n"))


def check(stage: Stage, alters: Mapping[str, str], seed: int, modes: tuple[str, ...] = MODES) -> int:
    """Merge in each mode: the target has the rows and definitions that the nodes have. Returns how many tables."""
    done, played = play(stage, f"clauses {seed}", alters, random.Random(seed))
    for mode in modes:
        path = stage.configuration(f"clauses-{seed}-{mode}", [played], mode, sections={"shard-doubts": "error"})
        result = merge(path, path.parent / "out")
        assert (result.warnings, result.locks, result.waiting_shards) == ((), (), ())
        held = target(stage, path.parent / "out")
        for one in done:
            union = [row for s in stage.nodes.values() for row in rows(s, ("x", one.name))]
            where = f"seed {seed}, {mode}, {one.name}: {one.alter}"
            assert sorted(map(sorted_, held["x", one.name])) == sorted(map(sorted_, union)), where
            server = stage.nodes["n1"]
            assert lines(create_of(stage.target, ("x", one.name))) == lines(create_of(server, ("x", one.name))), where
        assert set(tables(stage.target)) == {("x", "par"), *(("x", one.name) for one in done)}
    return len(done)


def sorted_(row: tuple[object, ...]) -> list[str]:
    return sorted(map(repr, row))


@pytest.mark.extended  # random ones; the next has one of each kind
@pytest.mark.parametrize("seed", range(effort(1, 12)))
def test_clauses_of_all_kinds(stage: Stage, seed: int) -> None:
    count = effort(16, 40)
    assert check(stage, random_alters(random.Random(seed), count), seed) > count // 4


def test_a_key_and_what_it_stands_on_come_in_one_statement(stage: Stage) -> None:
    """So do checks, several indexes, comments and options, with columns and without."""
    alters = (
        "ADD COLUMN p INT, ADD CONSTRAINT {t}_fk FOREIGN KEY (p) REFERENCES par (id)",
        "ADD CONSTRAINT {t}_fb FOREIGN KEY (b) REFERENCES par (id), ADD COLUMN p2 INT",
        "ADD COLUMN p INT, ADD CONSTRAINT {t}_fb FOREIGN KEY (a) REFERENCES par (id)",
        "ADD COLUMN p INT COMMENT 'c', ADD INDEX k (p), ADD UNIQUE u (id, p), COMMENT = 'x', ROW_FORMAT = COMPRESSED",
        "ADD CONSTRAINT {t}_cb CHECK (b > 0), ADD COLUMN p INT",
        "ADD CONSTRAINT {t}_cb CHECK (b > 0)",
        "DROP CHECK {t}_c0, DROP COLUMN b, ADD COLUMN r INT FIRST",
        "DROP COLUMN b, MODIFY a INT COMMENT 'z', COMMENT = 'x'",
        "RENAME COLUMN b TO bb, COMMENT = 'x', ADD COLUMN p INT",
        "DROP FOREIGN KEY {t}_f0, DROP INDEX ka, ADD COLUMN r INT FIRST",
    )
    assert check(stage, {f"t{n}": alter for n, alter in enumerate(alters)}, 100) == len(alters)
