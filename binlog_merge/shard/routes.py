"""What a route writes into columns of the logical table: from which table, schema and node a row comes.

    extract-table:  {table-regexp: "t_(.*)", target-column: "c_table"}     a row of t_7 has c_table '7'

The groups that a regular expression captures are joined; without a match the column is empty. Source: pingcap/tidb
`pkg/util/table-router`, `FetchExtendColumn` and `extractVal`.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from snapshot_store.model import Column, ColumnType, Default, Table

LONGEST = 255
"""Characters of an extracted column, where the logical table is not there to say it."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Takes a value out of a name. Raises ValueError for a regular expression that is none, or captures nothing."""

    regexp: str
    target_column: str

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.regexp).groups
        except re.error as error:
            raise ValueError(f"{self.regexp!r} is not a regular expression: {error}") from None
        if not groups:
            raise ValueError(f"{self.regexp!r} captures nothing: put what is to be taken in parentheses")
        if not self.target_column:
            raise ValueError("target-column is empty")

    def value(self, name: str) -> str:
        """Return what is captured of a name, '' where it does not match."""
        found = _compiled(self.regexp).search(name)
        return "" if found is None else "".join(group or "" for group in found.groups())


@dataclass(frozen=True, slots=True)
class Extract:
    """The extractors of a route, in the order of their columns."""

    table: Extractor | None = None
    schema: Extractor | None = None
    source: Extractor | None = None

    def __post_init__(self) -> None:
        names = [column.lower() for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"two extractors of a route write the same column: {', '.join(self.columns)}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are written."""
        return tuple(e.target_column for e in (self.table, self.schema, self.source) if e is not None)

    def values(self, node: str, schema: str, table: str) -> tuple[tuple[str, str], ...]:
        """Return (column, value) for the rows of a physical table."""
        pairs = ((self.table, table), (self.schema, schema), (self.source, node))
        return tuple((e.target_column, e.value(name)) for e, name in pairs if e is not None)


def with_columns(table: Table, extract: Extract, like: Table | None = None) -> Table:
    """Return a shard's table with the extracted columns, as it stands in the logical order of tables.

    They are what `like`, the logical table, has under these names, else VARCHAR; behind the shard's own columns, which
    keep one of the same name.
    """
    added = [_column(name, table, like) for name in extract.columns if table.index_of(name) is None]
    return replace(table, columns=(*table.columns, *added))


def filled(logical: Table, extract: Extract, node: str, schema: str, table: str) -> Table:
    """Return the logical table with what a shard's rows get in the extracted columns for their DEFAULT."""
    values = {name.lower(): value for name, value in extract.values(node, schema, table)}
    columns = tuple(
        replace(c, default=Default("literal", values[c.name.lower()])) if c.name.lower() in values else c
        for c in logical.columns
    )
    return replace(logical, columns=columns)


def _column(name: str, table: Table, like: Table | None) -> Column:
    place = None if like is None else like.index_of(name)
    if like is not None and place is not None:
        return like.columns[place]
    type = ColumnType("varchar", LONGEST, charset=table.charset, collation=table.collation)
    return Column(name, type, nullable=False, default=Default("literal", ""))


@lru_cache(maxsize=256)
def _compiled(regexp: str) -> re.Pattern[str]:
    return re.compile(regexp)
