"""Logical tables over physical ones, and the DDL that changes them at different moments on different nodes."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tests.simulator.columns import NOW, Column, Table
from tests.simulator.rows import Shard


@dataclass(frozen=True)
class Change:
    """One DDL: the statement with {t} for its table's name, and what it makes of a table (None: it drops it).

    Shards may have their columns in orders of their own, so it is applied to each.
    """

    text: str
    apply: Callable[[Table], Table | None]
    visible: bool = True
    drops: bool = False

    def sql(self, name: str) -> str:
        return self.text.replace("{t}", name)


@dataclass
class LogicalTable:
    """A logical table with its physical ones, each in its own shape while a DDL is under way."""

    schema: str
    name: str
    logical: Table
    shapes: dict[tuple[str, Shard], Table]
    open: bool = True
    change: Change | None = None
    todo: list[tuple[str, Shard]] = field(default_factory=list)
    marker_first: bool = False
    marked: bool = False
    settled: bool = False
    serial: int = 0
    planned: list[tuple[str, Shard]] = field(default_factory=list)  # shards that CREATE TABLE is to make

    def shards(self, source: str) -> list[tuple[Shard, Table]]:
        """Return a node's physical tables and their shapes."""
        return [(shard, table) for (node, shard), table in self.shapes.items() if node == source]

    def begin(self, change: Change, rng: random.Random) -> None:
        """Begin a DDL. Values stay within both types of a column until it is over."""
        self.change, self.todo = change, list(self.shapes) or list(self.planned)
        self.marker_first = rng.random() < 0.3
        self.marked = self.settled = False
        if not change.visible:
            self.todo = []
        if change.drops:
            self.open = False

    def end(self) -> None:
        """End a DDL: every physical table and the logical one are alike."""
        change = self.change
        assert change is not None
        after = change.apply(self.logical)
        if change.visible and after is not None:
            self.open = True
            self.logical = after.settled()
            self.shapes = {place: table.settled() for place, table in self.shapes.items()}
        self.change = None


def _new_column(rng: random.Random, name: str) -> Column:
    length = rng.choice((1, 20, 63, 64, 300))
    return rng.choice(
        (
            Column(name, "int"),
            Column(name, "int", nullable=False, default=7),
            Column(name, "bigint", unsigned=True, nullable=False),
            Column(name, "smallint", default=-3),
            Column(name, "tinyint", unsigned=True, nullable=False, default=200),
            Column(name, "varchar", length),
            Column(name, "varchar", max(length, 9), nullable=False, default="none"),
            Column(name, "char", rng.choice((1, 10, 100)), nullable=False, default="c"),
            Column(name, "decimal", 12, 3, nullable=False, default=Decimal("1.500")),
            Column(name, "decimal", 30, 10),
            Column(name, "datetime", 0, rng.choice((0, 3, 6)), nullable=False, default=NOW),
            Column(name, "datetime"),
            Column(name, "double"),
            Column(name, "text"),
            Column(name, "mediumtext"),
            Column(name, "blob"),
            Column(name, "date"),
            Column(name, "enum", members=("red", "green", "blue"), nullable=False, default="green"),
        )
    )


def _without(table: Table, name: str) -> Table:
    return Table(tuple(c for c in table.columns if c.name != name))


def _placed(table: Table, column: Column, after: str | None) -> Table:
    """Return the table with a column behind another, or at the end."""
    at = len(table.columns) if after is None else table.index(after) + 1
    return Table((*table.columns[:at], column, *table.columns[at:]))


def _words(after: str | None) -> str:
    return "" if after is None else f" AFTER `{after}`"


def _add(table: LogicalTable, rng: random.Random) -> Change | None:
    if len(table.logical.columns) > 12:
        return None
    table.serial += 1
    column = _new_column(rng, f"n{table.serial}")
    after = None if rng.random() < 0.4 else rng.choice(table.logical.columns).name
    return Change(f"ALTER TABLE {{t}} ADD COLUMN {column.sql()}{_words(after)}", lambda t: _placed(t, column, after))


def _drop(table: LogicalTable, rng: random.Random) -> Change | None:
    if len(table.logical.columns) < 3:
        return None
    name = rng.choice(table.logical.columns[1:]).name
    return Change(f"ALTER TABLE {{t}} DROP COLUMN `{name}`", lambda t: _without(t, name))


_WIDER: dict[str, Callable[[Column], Column | None]] = {
    "tinyint": lambda c: replace(c, type="int"),
    "smallint": lambda c: replace(c, type="bigint"),
    "int": lambda c: replace(c, type="bigint"),
    "varchar": lambda c: replace(c, length=c.length * 2 + 60) if c.length < 1000 else None,
    "decimal": lambda c: replace(c, length=c.length + 4, decimals=c.decimals + 1) if c.length < 50 else None,
    "datetime": lambda c: replace(c, decimals=6) if c.decimals < 6 and c.default != NOW else None,
    "text": lambda c: replace(c, type="mediumtext"),
    "blob": lambda c: replace(c, type="mediumblob"),
    "enum": lambda c: replace(c, members=(*c.members, f"more{len(c.members)}")) if len(c.members) < 9 else None,
    "char": lambda c: replace(c, type="varchar", length=c.length + 10),
}


def _modify(table: LogicalTable, rng: random.Random) -> Change | None:
    old = rng.choice(table.logical.columns[1:]) if len(table.logical.columns) > 1 else None
    new = _WIDER[old.type](old) if old is not None and old.type in _WIDER else None
    if old is None or new is None:
        return None
    wider = replace(new, safe=old)
    return Change(
        f"ALTER TABLE {{t}} MODIFY COLUMN {new.sql()}",
        lambda t: Table(tuple(wider if c.name == wider.name else c for c in t.columns)),
    )


def _move(table: LogicalTable, rng: random.Random) -> Change | None:
    if len(table.logical.columns) < 3:
        return None
    moved, behind = rng.sample(table.logical.columns[1:], 2)
    return Change(
        f"ALTER TABLE {{t}} MODIFY COLUMN {moved.sql()}{_words(behind.name)}",
        lambda t: _placed(_without(t, moved.name), moved, behind.name),
    )


def _index(table: LogicalTable, rng: random.Random) -> Change | None:
    plain = [c for c in table.logical.columns if not c.is_blob]
    table.serial += 1
    name = rng.choice(plain).name
    return Change(f"CREATE INDEX i{table.serial} ON {{t}} (`{name}`)", lambda t: t)


def _hidden(table: LogicalTable, rng: random.Random) -> Change | None:
    """A marker that is not for users: it changes nothing."""
    return Change("ALTER TABLE {t} COMMENT = 'hidden'", lambda t: t, visible=False)


def _truncate(table: LogicalTable, rng: random.Random) -> Change | None:
    return Change("TRUNCATE TABLE {t}", lambda t: t)


def _drop_table(table: LogicalTable, rng: random.Random) -> Change | None:
    return (
        Change("DROP TABLE {t} /* generated by server */", lambda t: None, drops=True) if rng.random() < 0.5 else None
    )


ALTERS: tuple[Callable[[LogicalTable, random.Random], Change | None], ...] = (
    _add, _add, _drop, _modify, _modify, _move, _index, _hidden, _truncate, _drop_table,
)  # fmt: skip


def new_table(rng: random.Random, number: int, sources: list[str]) -> tuple[LogicalTable, Change]:
    """Return a table that is not there yet, and the DDL that makes it."""
    table = random_table(rng, number, sources)
    made = table.logical
    table.open, table.planned, table.shapes = False, list(table.shapes), {}
    return table, Change(table.logical.create("{t}"), lambda t: made)


def random_table(rng: random.Random, number: int, sources: list[str]) -> LogicalTable:
    """Return a logical table with its physical ones spread over the nodes, or on one node under its own name."""
    names = [Column("id", "bigint", nullable=False)]
    names += [_new_column(rng, f"c{i}") for i in range(rng.randrange(0, 6))]
    table = Table(tuple(names))
    if rng.random() < 0.2:
        source, name = rng.choice(sources), f"single{number}"
        return LogicalTable("plain", name, table, {(source, Shard("plain", name, f"plain.{name}")): table})
    shapes = {}
    for i in range(rng.randrange(1, 6)):
        shard = Shard(f"shop_{i % 3}", f"t{number}_{i}", f"shop.t{number}")
        shapes[rng.choice(sources), shard] = table
    return LogicalTable("shop", f"t{number}", table, shapes)
