"""Random stories of statements that move, copy, exchange or empty whole tables, on two nodes that have no markers.

    xN_n1.t1, xN_n1.t2, xN_n2.t1, xN_n2.t2     shards of xN.t
    xN_n1.a, xN_n1.b, yN_n1.a, xN_n2.a, …      tables of their own, in two databases of each node

What the target holds in the end is held against the nodes' union, table by table.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pymysql

from binlog_merge.pipeline.values import MergeResult
from tests.merge_e2e.shards.stage import Name, Played, Route, Rows, Session, Stage, columns_of, rows_of, tables
from tests.mysql_server import MySqlServer

NODES = ("n1", "n2")
COLUMNS = "(id INT PRIMARY KEY, v INT)"
PARTITIONS = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (40), PARTITION q VALUES LESS THAN MAXVALUE)"
SHARDS, OWN = ("t1", "t2", "t3"), ("a", "b", "c", "w")


@dataclass
class Story:
    """One story: its numbers in the servers' names, and the statements in turn, each with its node."""

    seed: int
    steps: list[tuple[str, str]] = field(default_factory=list)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the one route that there is."""
        return (Route(f"x{self.seed}_n?", "t?", (f"x{self.seed}", "t")),)

    def logical(self, name: Name) -> Name:
        """Return the logical table that a node's table belongs to."""
        return self.routes[0].target if self.routes[0].takes(*name) else name

    def text(self) -> str:
        """Return it for people to read and play again."""
        return "\n".join(f"{node}: {sql}" for node, sql in self.steps)


class Teller:
    """Makes a story up while it is played, by what is there; statements that a server refuses are none of it."""

    def __init__(self, seed: int, sessions: dict[str, Session]) -> None:
        self.rng = random.Random(seed)
        self.story = Story(seed)
        self.sessions = sessions
        self.row = 0
        # Stories about shards soon stop; most stories leave them alone but for their rows.
        self.shards_too = self.rng.random() < 0.4

    def run(self, length: int) -> Story:
        """Play a story of so many statements."""
        for node in NODES:
            for letter in "xy":
                self.step(node, f"CREATE DATABASE {letter}{self.story.seed}_{node}")
            self.sessions[node].run(f"USE x{self.story.seed}_{node}")
            for name in ("t1", "t2", "a", "b"):
                self.step(node, f"CREATE TABLE {self._name(node, name)} {COLUMNS}")
            self.step(node, f"CREATE TABLE {self._name(node, 'w')} {COLUMNS} {PARTITIONS}")
        for _ in range(length):
            for _ in range(self.rng.randint(1, 3)):
                self._rows()
            self._statement()
        for _ in range(4):
            self._rows()
        return self.story

    def step(self, node: str, sql: str) -> bool:
        """Run a statement, and remember it if it was taken."""
        try:
            self.sessions[node].run(sql)
        except pymysql.err.MySQLError:
            return False
        self.story.steps.append((node, sql))
        return True

    def _name(self, node: str, table: str, letter: str = "x") -> str:
        return f"{letter}{self.story.seed}_{node}.{table}"

    def _there(self, node: str, shards: bool) -> list[str]:
        found = [
            f"{schema}.{name}"
            for schema, name in base_tables(self.sessions[node].server)
            if schema in (f"x{self.story.seed}_{node}", f"y{self.story.seed}_{node}")
        ]
        return [name for name in found if shards or not re.search(r"\.t\d$", name)]

    def _any(self, node: str, shards: bool) -> str:
        there = self._there(node, shards)
        return self.rng.choice(there) if there else self._name(node, "a")

    def _new(self, node: str) -> str:
        pool = (*OWN, *SHARDS) if self.shards_too and self.rng.random() < 0.4 else OWN
        return self._name(node, self.rng.choice(pool), self.rng.choice("xxy"))

    def _rows(self) -> None:
        node = self.rng.choice(NODES)
        table = self._any(node, True)
        self.row += 1
        match self.rng.randint(0, 5):
            case 0:
                self.step(node, f"UPDATE {table} SET v = v + 1")
            case 1:
                self.step(node, f"DELETE FROM {table} ORDER BY id LIMIT 1")
            case _:
                self.step(node, f"INSERT INTO {table} (id, v) VALUES ({self.row}, {self.row})")

    def _statement(self) -> None:
        for _ in range(20):
            node = self.rng.choice(NODES)
            if self.step(node, self._made_up(node)):
                return

    def _made_up(self, node: str) -> str:
        """Return a statement that may well do."""
        one, other = (self._any(node, self.shards_too) for _ in range(2))
        new, away = self._new(node), self._name(node, "z")
        return self.rng.choice(
            (
                f"RENAME TABLE {one} TO {new}",
                f"RENAME TABLE {one} TO {away}, {other} TO {one}, {away} TO {other}",
                f"RENAME TABLE {one} TO {new}, {other} TO {one}",
                f"ALTER TABLE {one} RENAME TO {new}",
                f"ALTER TABLE {one} RENAME TO {new}, ADD COLUMN c{self.row} INT",
                f"CREATE TABLE {new} LIKE {one}",
                f"CREATE TABLE {new} LIKE {one}",
                f"CREATE TABLE {new} {COLUMNS}",
                f"CREATE TABLE {new} SELECT * FROM {one}",
                f"ALTER TABLE {self._partitioned(node)} EXCHANGE PARTITION {self.rng.choice('pq')} WITH TABLE {other}"
                " WITHOUT VALIDATION",
                f"ALTER TABLE {self._partitioned(node)} EXCHANGE PARTITION p WITH TABLE {other}",
                f"ALTER TABLE {self._partitioned(node)} TRUNCATE PARTITION p",
                f"ALTER TABLE {self._partitioned(node)} DROP PARTITION p",
                f"CREATE OR REPLACE VIEW {self._name(node, 'seen')} AS SELECT id FROM {one}",
                f"DROP VIEW {self._name(node, 'seen')}",
                f"TRUNCATE TABLE {one}",
                f"DROP TABLE {one}",
                f"ALTER TABLE {one} ADD COLUMN d{self.row} INT DEFAULT {self.row}",
                f"ALTER TABLE {one} DROP COLUMN v",
            )
        )

    def _partitioned(self, node: str) -> str:
        asked = (
            "SELECT DISTINCT table_schema, table_name FROM information_schema.partitions "
            f"WHERE partition_name IS NOT NULL AND table_schema LIKE '_{self.story.seed}\\_%'"
        )
        found = [f"{schema}.{name}" for schema, name in self.sessions[node].ask(asked)]
        return self.rng.choice(found) if found else self._name(node, "w")


def base_tables(server: MySqlServer) -> list[Name]:
    """Return a server's tables that are no views."""
    asked = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'VIEW'"
    views = {(str(schema), str(name)) for schema, name in server.query(asked)}
    return [name for name in tables(server) if name not in views]


def play(stage: Stage, seed: int, length: int) -> tuple[Story, Played]:
    """Play a story on the nodes; what was there before goes without a word in their binlogs."""
    stage.clear()
    with stage.scene(f"story {seed}", Story(seed).routes) as (sessions, played):
        story = Teller(seed, dict(sessions)).run(length)
    return story, played[0]


Held = dict[Name, tuple[tuple[str, ...], Rows]]


def union(stage: Stage, story: Story) -> Held:
    """Return what the nodes hold together, by logical table: the names of columns, and rows in their order."""
    found: dict[Name, list[tuple[MySqlServer, Name]]] = {}
    for server in stage.nodes.values():
        for name in base_tables(server):
            found.setdefault(story.logical(name), []).append((server, name))
    return {logical: _held([(server, name) for server, name in tables_]) for logical, tables_ in sorted(found.items())}


def held(stage: Stage) -> Held:
    """Return what the target holds."""
    return {name: _held([(stage.target, name)]) for name in base_tables(stage.target)}


def _held(parts: list[tuple[MySqlServer, Name]]) -> tuple[tuple[str, ...], Rows]:
    columns = sorted({c for server, name in parts for c in columns_of(server, name)})
    rows: Rows = []
    for server, name in parts:
        own = [c for c in columns if c in columns_of(server, name)]
        for row in rows_of(server, name, own):
            values = dict(zip(own, row, strict=True))
            rows.append(tuple(values.get(c) for c in columns))
    return tuple(columns), sorted(rows, key=repr)


def differences(story: Story, theirs: Held, ours: Held) -> dict[Name, str]:
    """Return the tables in which target and nodes differ, and how."""
    found = {}
    for name in sorted(theirs.keys() | ours.keys()):
        if name not in theirs or name not in ours:
            there = "only the nodes have it" if name in theirs else "only the target has it"
            found[name] = f"{there}: {len((theirs.get(name) or ours[name])[1])} rows"
        elif theirs[name] != ours[name] and not _half_way(story, name, theirs[name], ours[name]):
            found[name] = f"nodes {theirs[name]}, target {ours[name]}"
    return found


def _half_way(story: Story, name: Name, theirs: Any, ours: Any) -> bool:
    """Tell whether shards that do not have the same columns yet hold the same rows in those that all of them have."""
    if name != story.routes[0].target or theirs[0] == ours[0]:
        return False
    shared = [c for c in ("id", "v") if c in theirs[0] and c in ours[0]]
    picked = [[tuple(row[side[0].index(c)] for c in shared) for row in side[1]] for side in (theirs, ours)]
    return sorted(picked[0], key=repr) == sorted(picked[1], key=repr)


def named(result: MergeResult, name: Name) -> bool:
    """Tell whether a result names a table: in a warning, or as held."""
    schema, table = name
    words = [rf"\b{schema}\.{table}\b", rf"{schema}/{table}\b", rf"`{schema}`\.`{table}`"]
    if table == "t":
        words += [rf"{schema}_n\d[./]t\d\b"]
    said = "\n".join((*result.warnings, *map(str, result.waiting_shards), *(str(lock) for lock in result.locks)))
    held_rows = {(one["schema"], one["table"]) for one in result.waiting_shards}
    return any(re.search(word, said) for word in words) or any(
        (table == "t" and s.startswith(schema) and re.fullmatch(r"t\d", t)) or (s, t) == name for s, t in held_rows
    )


def seeds(first: int, count: int) -> Iterator[int]:
    """Yield the seeds of so many stories."""
    yield from range(first, first + count)
