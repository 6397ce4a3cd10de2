"""The values that a route writes into extra columns of the logical table (DM: `extract-table` and others)."""

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Extractor:
    """Extracts a value from a name; `key`: the column is part of the table's keys.

    Raises ValueError for a regular expression that is invalid or without a group.
    """

    regexp: str
    target_column: str
    key: bool = False

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
        """Return the text captured from a name, '' if the name does not match."""
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
        """Return the names of the extra columns."""
        return tuple(e.target_column for e in (self.table, self.schema, self.source) if e is not None)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the extra columns that are part of the table's keys."""
        return tuple(e.target_column for e in (self.table, self.schema, self.source) if e is not None and e.key)

    def values(self, node: str, schema: str, table: str) -> tuple[tuple[str, str], ...]:
        """Return (column, value) for the rows of a physical table."""
        pairs = ((self.table, table), (self.schema, schema), (self.source, node))
        return tuple((e.target_column, e.value(name)) for e, name in pairs if e is not None)


@lru_cache(maxsize=256)
def _compiled(regexp: str) -> re.Pattern[str]:
    return re.compile(regexp)
