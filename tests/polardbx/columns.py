"""Columns of made-up tables, and the values that MySQL gives to rows which were there before the column."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from tests.simulator.columns import Column, Table, Value

IMPLICIT, ROW_ID = "_drds_implicit_id_", "__#alibaba_rds_row_id#__"
"""The keys of tables without one: the cluster's own column, and the one that a data node adds to table maps."""


@dataclass(frozen=True)
class Keyless(Table):
    """A table that its user gave no key. With `implicit` the cluster has given it one, without it the data node."""

    implicit: bool = True

    def create(self, name: str) -> str:
        """Return CREATE TABLE; the cluster's own column is the key where it is there."""
        lines = [c.sql() + (" AUTO_INCREMENT" if c.name == IMPLICIT else "") for c in self.columns]
        if self.named(IMPLICIT) is not None:
            lines.append(f"PRIMARY KEY (`{IMPLICIT}`)")
        return f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + "\n) DEFAULT CHARSET=utf8mb4"

    @property
    def stored(self) -> Table:
        """Return the table as table maps and row images have it."""
        if self.implicit:
            return self
        return Table((*self.columns, Column(ROW_ID, "bigint", nullable=False)))


def keyed(table: Table) -> Table:
    """Return a logical table with the cluster's own key, where it has one: what its physical tables are."""
    if isinstance(table, Keyless) and table.implicit:
        return replace(table, columns=(*table.columns, Column(IMPLICIT, "bigint", nullable=False)))
    return table


def stored(table: Table) -> Table:
    """Return a physical table as table maps and row images have it."""
    return table.stored if isinstance(table, Keyless) else table


def hidden_key(row: int) -> int:
    """Return the hidden key of a row: each has its own."""
    return 10**9 + row


def new_column(rng: random.Random, name: str) -> Column:
    """Make up a column that ALTER TABLE ADD can add to a table with rows."""
    return rng.choice(
        (
            Column(name, "int"),
            Column(name, "int", nullable=False, default=7),
            Column(name, "bigint", unsigned=True),
            Column(name, "smallint", default=-3),
            Column(name, "varchar", rng.choice((1, 20, 63, 300))),
            Column(name, "varchar", 30, nullable=False, default="none"),
            Column(name, "char", 10, nullable=False, default="c"),
            Column(name, "decimal", 12, 3, nullable=False, default=Decimal("1.500")),
            Column(name, "datetime", 0, rng.choice((0, 3, 6))),
            Column(name, "text"),
            Column(name, "enum", members=("red", "green", "blue"), nullable=False, default="green"),
        )
    )


def filled(column: Column) -> Value:
    """Return what a row gets that was written without the column."""
    if column.default is not None:
        return column.default
    return None if column.nullable else 0 if column.type in ("int", "bigint", "smallint") else ""


WIDER: dict[str, Callable[[Column], Column]] = {
    "smallint": lambda c: replace(c, type="int"),
    "int": lambda c: replace(c, type="bigint"),
    "varchar": lambda c: replace(c, length=c.length + 300),
    "decimal": lambda c: replace(c, length=c.length + 4, decimals=c.decimals + 1),
    "text": lambda c: replace(c, type="mediumtext"),
    "enum": lambda c: replace(c, members=(*c.members, f"more{len(c.members)}")),
}
"""MODIFY COLUMN that keeps every value, also while only some physical tables have it."""


def without(table: Table, name: str) -> Table:
    return replace(table, columns=tuple(c for c in table.columns if c.name != name))


def placed(table: Table, column: Column, after: str | None) -> Table:
    """Return the table with a column behind another, or at the end."""
    at = len(table.columns) if after is None else table.index(after) + 1
    return replace(table, columns=(*table.columns[:at], column, *table.columns[at:]))


def changed(table: Table, column: Column) -> Table:
    return replace(table, columns=tuple(column if c.name == column.name else c for c in table.columns))
