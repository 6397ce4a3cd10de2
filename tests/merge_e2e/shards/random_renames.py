"""Random stories of renames: tables that one node has alone, and tables that both have and rename alike.

The nodes make what both have at the beginning, and then go on, each in its time; one may be done before the other
begins.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

T = "(id INT PRIMARY KEY, v VARCHAR(40))"
FREE = ("t", "u", "x", "{b}.t", "{b}.u")


@dataclass
class Program:
    """The statements of one set of tables, which `nodes` run in this order, each in its own time.

    `names` are the tables that there are behind all statements so far; `rows` say which a node has at each.
    """

    nodes: tuple[str, ...]
    prefix: str
    rng: random.Random
    names: list[str] = field(default_factory=list)
    statements: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    number: int = 0
    begun: int = 0

    def write(self, count: int) -> None:
        """Add statements."""
        for _ in range(3):
            self._create()
        self.begun = len(self.statements)
        for _ in range(count):
            self.rng.choice([self._rename, self._rename, self._swap, self._chain, self._alter, self._both])()
            if len(self.nodes) == 1 and self.rng.random() < 0.3:
                self._create()
            if len(self.nodes) == 1 and self.rng.random() < 0.15 and len(self.names) > 1:
                self._run(f"DROP TABLE {self.names.pop(self.rng.randrange(len(self.names)))}")

    def _run(self, sql: str) -> None:
        self.statements.append((sql, tuple(self.names)))

    def _free(self, but: tuple[str, ...] = ()) -> str | None:
        free = [name for name in map(self._own, FREE) if name not in self.names and name not in but]
        return self.rng.choice(free) if free else None

    def _own(self, name: str) -> str:
        database, dot, table = name.rpartition(".")
        return f"{database}{dot}{self.prefix}{table}"

    def _create(self) -> None:
        name = self._free()
        if name is None:
            return
        like = self.rng.choice(self.names) if self.names and self.rng.random() < 0.4 else None
        self.names.append(name)
        self._run(f"CREATE TABLE {name} LIKE {like}" if like else f"CREATE TABLE {name} {T}")

    def _move(self, old: str, new: str) -> None:
        self.names[self.names.index(old)] = new

    def _rename(self) -> None:
        old, new = self.rng.choice(self.names), self._free()
        if new is not None:
            self._move(old, new)
            self._run(self.rng.choice(["RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME {}"]).format(old, new))

    def _swap(self) -> None:
        aside = self._free()
        if len(self.names) < 2 or aside is None:
            return
        one, other = self.rng.sample(self.names, 2)
        if self.rng.random() < 0.5:
            self._run(f"RENAME TABLE {one} TO {aside}, {other} TO {one}, {aside} TO {other}")
            return
        for old, new in ((one, aside), (other, one), (aside, other)):
            self._move(old, new)
            self._run(f"RENAME TABLE {old} TO {new}")

    def _chain(self) -> None:
        end = self._free()
        if len(self.names) < 2 or end is None:
            return
        one, other = self.rng.sample(self.names, 2)
        self._move(one, end)
        self._move(other, one)
        self._run(f"RENAME TABLE {one} TO {end}, {other} TO {one}")

    def _alter(self) -> None:
        self.number += 1
        self._run(f"ALTER TABLE {self.rng.choice(self.names)} ADD COLUMN w{self.number} INT DEFAULT {self.number}")

    def _both(self) -> None:
        old, new = self.rng.choice(self.names), self._free()
        if new is not None:
            self.number += 1
            self._move(old, new)
            self._run(f"ALTER TABLE {old} ADD COLUMN w{self.number} INT, RENAME TO {new}")


def story(seed: int) -> str:
    """Return the script of a story."""
    return "\n".join(_lines(random.Random(seed)))


def _lines(rng: random.Random) -> Iterator[str]:
    programs = [Program(("n1",), "a", rng), Program(("n2",), "b", rng), Program(("n1", "n2"), "c", rng)]
    for program in programs:
        program.write(rng.randint(2, 6))
    turns = [(node, program) for program in programs for node in program.nodes]
    has: dict[tuple[str, int], tuple[str, ...]] = {}
    for node, program in turns:
        yield from (f"{node} {sql}" for sql, _ in program.statements[: program.begun])
        has[node, id(program)] = program.statements[program.begun - 1][1]
    left = [(node, program, at) for node, program in turns for at in range(program.begun, len(program.statements))]
    order = [(node, program) for node, program, _ in left]
    rng.shuffle(order)
    reached = {(node, id(program)): program.begun for node, program in turns}
    for node, program in order:
        sql, names = program.statements[reached[node, id(program)]]
        reached[node, id(program)] += 1
        yield f"{node} {sql}"
        has[node, id(program)] = names
        for _ in range(rng.randint(0, 3)):
            yield from _rows(rng, has)


def _rows(rng: random.Random, has: dict[tuple[str, int], tuple[str, ...]]) -> Iterator[str]:
    """Yield changes of rows of tables that there are."""
    node = rng.choice(["n1", "n2"])
    there = [name for (one, _), names in has.items() if one == node for name in names]
    if not there:
        return
    if rng.random() < 0.7:
        yield f"{node} rows {rng.choice(there)}"
        return
    one, other = rng.choice(there), rng.choice(there)
    yield f"{node} BEGIN"
    yield f"{node} UPDATE {one} SET v = LEFT(CONCAT(v, '{rng.randint(0, 9)}'), 40)"
    yield f"{node} rows {other}"
    yield f"{node} COMMIT"
