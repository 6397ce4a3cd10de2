"""The primary keys of made-up rows: no key of a table comes twice, but for rows that move between branches.

Branches are made in turn, and a key that one has freed may be taken by one that is made later, on whatever node. So
there is an order in which a single server takes all of them.
"""

import random
from dataclasses import dataclass, field

from tests.simulator.columns import Value

Key = tuple[str, Value]  # logical table, value


@dataclass
class Keys:
    """Gives keys to the rows of a transaction. `used` are those of the whole history, `free` may be taken again."""

    rng: random.Random
    used: set[Key]
    free: list[Key] = field(default_factory=list)
    statements: int = 0

    def new(self, table: str, drawn: Value) -> Value:
        """Return the key of a row that there was before: what was drawn, if nothing had it yet."""
        while (table, drawn) in self.used:
            drawn = self.rng.randrange(-(2**63), 2**63)
        self.used.add((table, drawn))
        return drawn

    def taken(self, table: str, drawn: Value) -> Value:
        """Return a key for a row that comes: at times one that is free now."""
        free = [key for key in self.free if key[0] == table]
        if not free or self.rng.random() < 0.5:
            return self.new(table, drawn)
        self.free.remove(found := self.rng.choice(free))
        return found[1]
