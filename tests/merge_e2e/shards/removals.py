"""Random stories of tables that all shards empty, drop and make again, each at its own time, with rows in between.

    xN_n1.t1, xN_n2.t1, xN_n2.t2     shards of xN.t, by a route
    xN_n1.a, xN_n2.a, …              tables of the same name on both nodes (in a database xN of each)

Every node runs the same program, from which a shard may lag by any number of statements. Keys come again: each
statement that empties is followed by inserts of the keys that were there.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.merge_e2e.shards.stage import Name, Played, Route, Session, Stage

NODES = ("n1", "n2")
PARTS = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10000), PARTITION q VALUES LESS THAN MAXVALUE)"
COLUMNS = "(id INT PRIMARY KEY, v INT)"


@dataclass
class Removing:
    """One story: what was run, in turn."""

    seed: int
    steps: list[str] = field(default_factory=list)
    row: int = 0

    @property
    def database(self) -> str:
        return f"x{self.seed}"

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the route of the shards; the other tables have the same name everywhere."""
        return (Route(f"{self.database}_n?", "t?", (self.database, "t")),)

    def shards(self) -> list[tuple[str, str]]:
        """Return the shards of one logical table, each with its node."""
        if self.seed % 2:
            return [(node, f"{self.database}_{node}.{t}") for node, t in (("n1", "t1"), ("n2", "t1"), ("n2", "t2"))]
        return [(node, f"{self.database}.t") for node in NODES]

    def program(self, rng: random.Random) -> list[list[str]]:
        """Return what every shard runs, in this order; the statements of one step stand in one transaction's place."""
        create = f"CREATE TABLE {{t}} {COLUMNS}"
        partitioned = rng.random() < 0.3
        steps: list[list[str]] = [[f"{create} {PARTS if partitioned else ''}"], ["rows"]]
        for _ in range(rng.randint(1, 4)):
            what = rng.choice(("truncate", "drop", "again", "if exists", "partition", "alter", "database", "delete"))
            if what == "truncate":
                steps.append(["TRUNCATE TABLE {t}"])
            elif what == "again" or (what in ("if exists", "drop") and rng.random() < 0.7):
                steps += [["DROP TABLE IF EXISTS {t}"], [create + (PARTS if partitioned else "")]]
            elif what == "partition" and partitioned:
                steps.append([f"ALTER TABLE {{t}} {rng.choice(('TRUNCATE', 'DROP'))} PARTITION p"])
                partitioned = "DROP" not in steps[-1][0]
            elif what == "alter":
                steps.append([f"ALTER TABLE {{t}} ADD COLUMN c{len(steps)} INT DEFAULT {len(steps)}"])
            elif what == "delete":
                steps += [["DELETE FROM {t}"], ["TRUNCATE TABLE {t}"]]
            elif what in ("drop", "database"):
                steps.append(["DROP TABLE {t}"])
                break
            steps.append(["rows"])
        return steps

    def rows(self, number: int) -> Iterator[str]:
        """Yield changes of rows; keys are the shard's own, and come again after each statement that empties."""
        for key in range(3):
            yield f"REPLACE INTO {{t}} (id, v) VALUES ({10 * number + key}, {self.row})"
        yield f"INSERT IGNORE INTO {{t}} (id, v) VALUES ({20000 + number}, {self.row})"
        yield f"UPDATE {{t}} SET v = v + 1 WHERE id = {10 * number + 1}"


def play(stage: Stage, seed: int, unfinished: bool = False) -> tuple[Removing, Played]:
    """Play a story on the nodes; with `unfinished` a shard may stop anywhere in the program."""
    story, rng = Removing(seed), random.Random(seed)
    stage.clear()
    with stage.scene(f"removing {seed}", story.routes) as (sessions, played):
        for node, session in sessions.items():
            for database in (story.database, f"{story.database}_{node}"):
                session.run(f"CREATE DATABASE {database}")
        shards = story.shards()
        program = story.program(rng)
        for number, shard in enumerate(shards):
            step(story, dict(sessions), shard, number, program[0])
        places = [1] * len(shards)
        ends = [rng.randint(1, len(program)) if unfinished else len(program) for _ in shards]
        while any(place < end for place, end in zip(places, ends, strict=True)):
            number = rng.choice([n for n, place in enumerate(places) if place < ends[n]])
            for _ in range(rng.randint(1, 3)):
                if places[number] < ends[number] and not alone(program, places, number):
                    step(story, dict(sessions), shards[number], number, program[places[number]])
                    places[number] += 1
    return story, played[0]


def alone(program: list[list[str]], places: list[int], number: int) -> bool:
    """Return whether a shard is to change its table while another has none: that one would not be waited for."""
    without = (program[p][0].startswith("CREATE") for n, p in enumerate(places) if n != number and p < len(program))
    return any(without) and not program[places[number]][0].startswith(("CREATE", "rows"))


def step(story: Removing, sessions: dict[str, Session], shard: tuple[str, str], number: int, what: list[str]) -> None:
    """Run one step of the program on a shard."""
    node, table = shard
    for text in what:
        for sql in story.rows(number) if text == "rows" else (text,):
            story.row += 1
            sessions[node].run(sql.format(t=table))
            story.steps.append(f"{node}: {sql.format(t=table)}")


def logical(story: Removing, name: Name) -> Name:
    """Return the logical table of a node's table."""
    return story.routes[0].target if story.routes[0].takes(*name) else name
