"""Logical tables over physical ones, and the DDL that changes them at different moments on different nodes."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tests.simulator.columns import NOW, Column, Table
from tests.simulator.rows import Shard


@dataclass(frozen=True)
class Change:
    """One ALTER: the statement without its table's name, and both tables."""

    text: str  # with {t} for the table's name
    after: Table
    visible: bool = True

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

    def shards(self, source: str) -> list[tuple[Shard, Table]]:
        """Return a node's physical tables and their shapes."""
        return [(shard, table) for (node, shard), table in self.shapes.items() if node == source]

    def begin(self, change: Change, rng: random.Random) -> None:
        """Begin a DDL. Values stay within both types of a column until it is over."""
        self.change, self.todo = change, list(self.shapes)
        self.marker_first = rng.random() < 0.3
        self.marked = self.settled = False
        if not change.visible:
            self.todo = []

    def end(self) -> None:
        """End a DDL: every physical table and the logical one are alike, but for columns' order."""
        change = self.change
        assert change is not None
        if change.visible:
            self.logical = change.after.settled()
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


def _placed(rng: random.Random, table: Table, column: Column) -> tuple[str, Table]:
    """Return where a new column goes, as SQL, and the table with it there; never before the primary key."""
    at = rng.randrange(1, len(table.columns) + 1)
    columns = (*table.columns[:at], column, *table.columns[at:])
    word = "" if at == len(table.columns) and rng.random() < 0.7 else f" AFTER `{table.columns[at - 1].name}`"
    return word, Table(columns)


def _add(table: LogicalTable, rng: random.Random) -> Change | None:
    if len(table.logical.columns) > 12:
        return None
    table.serial += 1
    column = _new_column(rng, f"n{table.serial}")
    place, after = _placed(rng, table.logical, column)
    return Change(f"ALTER TABLE {{t}} ADD COLUMN {column.sql()}{place}", after)


def _drop(table: LogicalTable, rng: random.Random) -> Change | None:
    if len(table.logical.columns) < 3:
        return None
    gone = rng.choice(table.logical.columns[1:])
    after = Table(tuple(c for c in table.logical.columns if c is not gone))
    return Change(f"ALTER TABLE {{t}} DROP COLUMN `{gone.name}`", after)


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
    new = replace(new, safe=old)
    columns = list(table.logical.columns)
    columns[table.logical.index(old.name)] = new
    return Change(f"ALTER TABLE {{t}} MODIFY COLUMN {new.sql()}", Table(tuple(columns)))


def _move(table: LogicalTable, rng: random.Random) -> Change | None:
    if len(table.logical.columns) < 3:
        return None
    moved = rng.choice(table.logical.columns[1:])
    rest = Table(tuple(c for c in table.logical.columns if c is not moved))
    place, after = _placed(rng, rest, moved)
    return Change(f"ALTER TABLE {{t}} MODIFY COLUMN {moved.sql()}{place}", after) if place else None


def _index(table: LogicalTable, rng: random.Random) -> Change | None:
    plain = [c for c in table.logical.columns if not c.is_blob]
    table.serial += 1
    name = rng.choice(plain).name
    return Change(f"CREATE INDEX i{table.serial} ON {{t}} (`{name}`)", table.logical)


def _hidden(table: LogicalTable, rng: random.Random) -> Change | None:
    """A marker that is not for users: it changes nothing."""
    return Change("ALTER TABLE {t} COMMENT = 'hidden'", table.logical, visible=False)


ALTERS: tuple[Callable[[LogicalTable, random.Random], Change | None], ...] = (
    _add, _add, _drop, _modify, _modify, _move, _index, _hidden,
)  # fmt: skip


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
