"""Columns of made-up tables, and the values that MySQL gives to rows which were there before the column."""

import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from tests.simulator.columns import Column, Table, Value


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
    return Table(tuple(c for c in table.columns if c.name != name))


def placed(table: Table, column: Column, after: str | None) -> Table:
    """Return the table with a column behind another, or at the end."""
    at = len(table.columns) if after is None else table.index(after) + 1
    return Table((*table.columns[:at], column, *table.columns[at:]))


def changed(table: Table, column: Column) -> Table:
    return Table(tuple(column if c.name == column.name else c for c in table.columns))
