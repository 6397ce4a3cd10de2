"""The class attack on keys: random DDL on the keys of two shards that give all keys alike, with rows between.

What the target holds in the end is the rows of both shards, and its unique keys are theirs with the shard.
"""

import random
from collections.abc import Iterator

import pytest

from binlog_merge.errors import MergeError
from tests.effort import effort, keeping
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Route, Session, Stage, columns_of, refuses
from tests.merge_e2e.shards.test_colliding_keys import MODES, SHARD_IN_KEY
from tests.mysql_server import MySqlServer

pytestmark = [pytest.mark.mysql]

T = ("k", "t")


def statements(chance: random.Random, server: MySqlServer) -> Iterator[str]:
    """Yield statements on the table as it is now; a server may refuse some."""
    number = 0
    while True:
        number += 1
        names = list(columns_of(server, T))
        keys = sorted(unique_keys(server))
        some = lambda: ", ".join(chance.sample(names, min(len(names), chance.randint(1, 2))))  # noqa: B023, E731
        one, key, new = chance.choice(names), chance.choice(keys or ["x"]), f"c{number}"
        place = chance.choice(["", " FIRST", f" AFTER {one}"])
        clauses = [
            f"ADD UNIQUE KEY u{number} ({some()})",
            f"ADD UNIQUE ({some()})",
            f"ADD CONSTRAINT u{number} UNIQUE INDEX USING BTREE ({some()})",
            f"ADD KEY k{number} ({some()})",
            f"ADD COLUMN {new} INT UNIQUE{place}",
            f"ADD {new} INT NOT NULL DEFAULT {number}{place}",
            f"DROP COLUMN {one}",
            f"DROP PRIMARY KEY, ADD PRIMARY KEY ({some()})",
            f"RENAME COLUMN {one} TO r{number}",
            f"CHANGE {one} r{number} BIGINT UNIQUE",
            f"MODIFY {one} BIGINT{place}",
            f"DROP {'PRIMARY KEY' if key == 'PRIMARY' else f'KEY {key}'}",
            f"RENAME INDEX {key} TO n{number}",
        ]
        if chance.random() < 0.1:
            yield f"CREATE UNIQUE INDEX u{number} ON k.t ({some()})"
        else:
            yield f"ALTER TABLE k.t {', '.join(chance.sample(clauses, chance.choice([1, 1, 2])))}"


def unique_keys(server: MySqlServer) -> dict[str, list[str]]:
    """Return the unique keys of the table, with their columns."""
    keys: dict[str, list[str]] = {}
    asked = (
        "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = 'k' AND "
        "table_name = 't' AND non_unique = 0 ORDER BY index_name, seq_in_index"
    )
    for name, column in server.query(asked):
        keys.setdefault(str(name), []).append(str(column))
    return keys


def write(session: Session, columns: list[str], number: int, chance: random.Random) -> None:
    """Insert a row whose every value is new on its shard, and change others."""
    session.run(f"SET binlog_row_image = {chance.choice(['FULL', 'MINIMAL'])}")
    listed, values = ", ".join(columns), ", ".join(str(10 * number + i) for i in range(len(columns)))
    refuses(session, f"INSERT INTO k.t ({listed}) VALUES ({values})")
    one, other = chance.choice(columns), chance.choice(columns)
    refuses(session, f"UPDATE k.t SET {one} = {one} + 1000 ORDER BY {other} LIMIT 1")
    if chance.random() < 0.3:
        session.run(f"DELETE FROM k.t ORDER BY {other} DESC LIMIT 1")


@pytest.mark.parametrize("seed", keeping([0], range(effort(4, 60))))
def test_key_stories(seed: int, stage: Stage) -> None:
    chance = random.Random(seed)
    stage.clear()
    route = Route("k", "t", T, SHARD_IN_KEY)
    with stage.scene(f"keys-{seed}", (route,)) as (nodes, played):
        first, second = nodes["n1"], nodes["n2"]
        for node in (first, second):
            node.run("CREATE DATABASE k")
            node.run("CREATE TABLE k.t (a INT PRIMARY KEY, b INT UNIQUE, c INT, KEY c (c))")
        made, ran = statements(chance, first.server), 0
        for number in range(1, 40):
            sql, seeded = next(made), chance.random()
            columns = list(columns_of(first.server, T))
            for node in (first, second):
                write(node, columns, number, random.Random(seeded))
            if not refuses(first, sql):
                second.run(sql)
                ran += 1
            if ran == 6:
                break
    columns = list(columns_of(first.server, T))
    listed = ", ".join(columns)
    wanted = sorted(
        ((*row, node) for node, server in stage.nodes.items() for row in server.query(f"SELECT {listed} FROM k.t")),
        key=repr,
    )
    for mode in MODES:
        path = stage.configuration(f"keys-{seed}-{mode}", played, mode)
        try:
            result = merge(path, path.parent / "out")
        except MergeError as error:
            assert mode == "optimistic", (seed, error)  # where shards that differ for a moment may be in doubt
            continue
        stage.target.drop_databases()
        stage.carry_out(path.parent / "out")
        assert sorted(stage.target.query(f"SELECT {listed}, c_shard FROM k.t"), key=repr) == wanted, (seed, mode)
        assert not any("keys collide" in warning for warning in result.warnings)
        keys = {name: [*names, "c_shard"] for name, names in unique_keys(first.server).items()}
        assert unique_keys(stage.target) == keys, (seed, mode)
