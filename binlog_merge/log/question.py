"""A question about the changes of a log's rows, and what it selects in a log.

Question        what a user asks, in the user's words: on the command line, in Python, in Spark, in `sql`
Selection       what that is in one log, checked: of a table, which rows and which of their columns
ManySelection   the same of many tables
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

import pyarrow as pa

from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import STOP, ZeroDates
from binlog_merge.errors import ConfigError, UnknownTable
from binlog_merge.filters.expressions import Op
from binlog_merge.log.changes import OPS
from binlog_merge.log.columns import Shape, shape_of
from binlog_merge.log.log import Log, Range
from binlog_merge.log.place import Place, parse_place, zone_named
from binlog_merge.log.table_changes import FIELDS, schema_of
from binlog_merge.log.versions import TableVersions, all_versions_between, history_of, versions_between
from binlog_merge.log.where import Where, condition_on
from snapshot_store.model import Table
from snapshot_store.names import NamePattern
from snapshot_store.tso import OrderKey

Name = tuple[str, str]
Moment = str | int | datetime | None
"""A place in a log as a user gives it; see `place`."""
Texts = str | Sequence[str] | None
EVERY: Final = NamePattern("*", "*", (True, True))
MANY_FIELDS: Final[dict[str, Any]] = {
    "schema": pa.string(),
    "table": pa.string(),
    **FIELDS,
    "before": pa.large_string(),
    "after": pa.large_string(),
}
"""The columns of a batch of many tables: `before` and `after` are JSON text."""


@dataclass(frozen=True)
class Question:
    """What is asked of the changes of a log's rows. Lists may be given as any sequences.

    `tables` is a name like shop.orders, or names with commas and patterns; None: all tables. `start` and `stop` are
    places in the log as `place` reads them. `where` is a condition of MySQL's SQL on the columns of one table, before
    or after, with TIMESTAMPs in `time_zone`, in which `start` and `stop` without a zone are read, too. `columns` are
    those of `before` and `after`, which have the types that the table has `as_of` a TSO or an order key, else those of
    all its versions in the range, merged by name (`columns`). `fields` are the columns of the batches. With
    `temporal_text` dates and times are MySQL's text; else `zero_dates` says what becomes of 0000-00-00. `option` stands
    before an argument's name in messages.
    """

    tables: str | Name | None = None
    start: Moment = None
    stop: Moment = None
    where: str | None = None
    operations: Texts = None
    columns: Texts = None
    as_of: str | int | None = None
    time_zone: str = "UTC"
    fields: Texts = None
    temporal_text: bool = False
    zero_dates: ZeroDates = STOP
    limit: int | None = None
    option: str = ""

    def __post_init__(self) -> None:
        for name in ("operations", "columns", "fields"):
            given = getattr(self, name)
            listed = (given,) if isinstance(given, str) else given
            object.__setattr__(self, name, None if listed is None else tuple(listed))

    @property
    def patterns(self) -> tuple[NamePattern, ...] | None:
        """Return which tables it is about if these may be many, None if it is one table. Raises ConfigError."""
        if self.tables is None:
            return (EVERY,)
        if isinstance(self.tables, tuple):
            return None
        patterns = tuple(map(_pattern_of, split_names(self.tables)))
        return patterns if len(patterns) > 1 or any(patterns[0].wild) else None

    @property
    def name(self) -> Name:
        """Return the name of the one table. Raises ConfigError."""
        return name_of(self.tables or "*.*")

    def range_in(self, log: Log) -> Range:
        """Return the transactions of a log that it is about. Raises what `Log.between` does."""
        zone_named(self.time_zone)
        start, stop = (
            None if given is None else parse_place(f"{self.option}{name}", given, self.time_zone)
            for name, given in (("start", self.start), ("stop", self.stop))
        )
        return log.between(start, stop)

    def of_table(self, versions: TableVersions, every: TableVersions, between: Range) -> "Selection":
        """Return what it selects of a table with these versions in the range; `every` are those of all times.

        Raises ConfigError for a wrong condition, operation or column, and UnknownTable.
        """
        return Selection(
            *between,
            versions,
            self._shape(versions if self.as_of is None else every),
            _known(self.fields, FIELDS),
            operations_of(self.operations, self.option),
            None if self.where is None else condition_on(versions.tables(), self.where, self.time_zone),
            self.temporal_text,
            self.columns is None and self.as_of is None,
            self.zero_dates,
            self.limit,
        )

    def of_many(self, versions: Mapping[Name, TableVersions], between: Range) -> "ManySelection":
        """Return what it selects of the tables that match its patterns; `versions` are of those that are known."""
        for name in ("where", "columns", "as_of"):
            if getattr(self, name) is not None:
                raise _for_one_table(name)
        if self.zero_dates != STOP:
            raise _for_one_table("zero_dates")
        fields, operations = _known(self.fields, MANY_FIELDS), operations_of(self.operations, self.option)
        return ManySelection(*between, self.patterns or (), versions, fields, operations)

    def _shape(self, versions: TableVersions) -> Shape:
        """Return the shape of `before` and `after`. Raises ConfigError and UnknownTable."""
        tables = versions.tables()
        if self.as_of is not None:
            option = f"{self.option}as-of" if self.option else "as_of"
            table = versions.at(_key(parse_place(option, self.as_of)))
            if table is None:
                raise UnknownTable(f"{option} {self.as_of}: {versions.schema}.{versions.name} is not there then")
            tables = (table,)
        shape = shape_of(tables, self.temporal_text, self.zero_dates)
        return shape if self.columns is None else shape.only(self.columns, f"{self.option}columns")


def _for_one_table(name: str) -> ConfigError:
    return ConfigError(f"{name} is for one table", remedy="name it: table='shop.orders'")


@dataclass(frozen=True, slots=True)
class Selection:
    """Changes of a table's rows in a log: of transactions `first` to `last`, none if the first is greater.

    `shape` is that of `before` and `after`, `fields` are some of `table_changes.FIELDS`. If the shape is the `whole`
    table's, a row with a column that it lacks is an error.
    """

    first: int
    last: int
    versions: TableVersions
    shape: Shape
    fields: tuple[str, ...] = tuple(FIELDS)
    ops: tuple[Op, ...] = OPS
    where: Where | None = None
    temporal_text: bool = False
    whole: bool = True
    zero_dates: ZeroDates = STOP
    limit: int | None = None

    @property
    def name(self) -> Name:
        """Return the table's schema and name."""
        return self.versions.schema, self.versions.name

    @property
    def schema(self) -> Any:
        """Return the schema of the batches."""
        return schema_of(self.shape, self.fields)

    def wants(self, schema: str, table: str) -> bool:
        """Return whether rows of a table are selected."""
        return (schema, table) == self.name


@dataclass(frozen=True, slots=True)
class ManySelection:
    """Changes of the rows of tables that match a pattern; `versions` are of those that the schema store knows.

    `schemas` and `tables`: only these, None for all.
    """

    first: int
    last: int
    patterns: tuple[NamePattern, ...]
    versions: Mapping[Name, TableVersions] = field(default_factory=dict)
    fields: tuple[str, ...] = tuple(MANY_FIELDS)
    ops: tuple[Op, ...] = OPS
    schemas: frozenset[str] | None = None
    tables: frozenset[str] | None = None

    @property
    def schema(self) -> Any:
        """Return the schema of the batches."""
        return pa.schema([(name, MANY_FIELDS[name]) for name in self.fields])

    def wants(self, schema: str, table: str) -> bool:
        """Return whether rows of a table are selected."""
        if (self.schemas is not None and schema not in self.schemas) or (
            self.tables is not None and table not in self.tables
        ):
            return False
        return any(pattern.matches(schema, table) for pattern in self.patterns)

    def of_rows(self, witness: TableMap, key: OrderKey | None) -> Selection:
        """Return what is selected of one table, of rows with a table map. Raises UnknownTableSchema."""
        name = (witness.schema, witness.table)
        versions = self.versions.get(name) or TableVersions(*name)
        now = versions.of_rows(witness, key)
        known = versions.tables()
        names = {column.name.lower() for table in known for column in table.columns}
        lacks = any(column.name.lower() not in names for column in now.columns)
        fields = tuple(dict.fromkeys((*(name for name in self.fields if name in FIELDS), "position", "row")))
        shape = _text_shape((*known, now) if lacks else known)
        return Selection(self.first, self.last, versions, shape, fields, self.ops, None, True, whole=False)


AnySelection = Selection | ManySelection


@lru_cache(maxsize=1000)
def _text_shape(tables: tuple[Table, ...]) -> Shape:
    """Return the shape of a table over its versions; it is asked for again with each part of a log."""
    return shape_of(tables, temporal_text=True)


def select(log: Log, question: Question) -> Selection:
    """Return what a question about one table selects in a log. Raises ConfigError, UnknownTable and OutsideLog."""
    between = question.range_in(log)
    versions = versions_between(log, *question.name, *between)
    every = versions if question.as_of is None else history_of(log, *question.name)
    return question.of_table(versions, every, between)


def select_any(log: Log, question: Question) -> AnySelection:
    """Return what a question about one table, or about many, selects in a log; see `select`."""
    if (patterns := question.patterns) is None:
        return select(log, question)
    between = question.range_in(log)
    return question.of_many(all_versions_between(log, patterns, *between), between)


def _pattern_of(text: str) -> NamePattern:
    try:
        return NamePattern.parse(text)
    except ValueError as error:
        raise ConfigError(f"table {text!r}: {error}", remedy="write SCHEMA.TABLE, like shop.orders") from None


def split_names(text: str) -> list[str]:
    """Return the names in a list with commas, which may stand in backticks, too."""
    return [name.strip() for name in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text)] or [text]


def zero_dates_of(option: str, text: str) -> ZeroDates:
    """Return the rules that an option has for dates that no calendar has. Raises ConfigError."""
    try:
        return ZeroDates.parse(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}", remedy="write null, text, stop, or born=null,at=text") from None


def name_of(table: str | Name) -> Name:
    """Return the schema and the name of a table as a user writes it. Raises ConfigError."""
    if isinstance(table, tuple):
        return table
    pattern = _pattern_of(table)
    if any(pattern.wild):
        why = "is a pattern" if "." in table else "names no schema"
        raise ConfigError(f"table {table!r} {why}", remedy="name one table, like shop.orders")
    return pattern.schema, pattern.table


def _known(fields: Iterable[str] | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are asked for, None for all. Raises ConfigError for one that is not known."""
    there = tuple(known)
    for name in fields or ():
        if name not in there:
            raise ConfigError(f"there is no column {name}; there are {', '.join(there)}")
    return there if fields is None else tuple(fields)


def operations_of(given: Texts, option: str = "") -> tuple[Op, ...]:
    """Return the operations that are asked for, None for all; `option` stands before the name of the option, `op`.

    Raises ConfigError for one that there is not.
    """
    for op in given or ():
        if op not in OPS:
            raise ConfigError(f"{option}op: {op} is no operation; they are {', '.join(OPS)}")
    return OPS if given is None else cast(tuple[Op, ...], tuple(given))


def _key(place: Place) -> OrderKey:
    if place.kind == "key" and place.moment is not None:
        return place.moment.first
    if place.kind == "tso" and place.moment is not None:
        return place.moment.after.previous()
    raise ConfigError(f"{place.option} {place.text!r} is no TSO", remedy="give a commit TSO, or an order key")
