"""Statements as values, as written, before any default is filled in.

`parse` creates them, `apply` applies them to a catalog.
"""

from dataclasses import dataclass, field

from snapshot_store.ddl.actions import Action
from snapshot_store.ddl.specs import ColumnSpec, Constraint, Options, PartitionSpec, Query
from snapshot_store.mysql.sql.cursor import TableName


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with a list of columns and constraints in the order written, a query, or both."""

    table: TableName
    if_not_exists: bool
    items: tuple[ColumnSpec | Constraint, ...]
    options: Options
    partitioning: PartitionSpec | None = None
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    """CREATE TABLE … LIKE."""

    table: TableName
    if_not_exists: bool
    like: TableName


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE."""

    tables: tuple[TableName, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE VIEW, with OR REPLACE or IF NOT EXISTS, or ALTER VIEW (`must_exist`).

    `sources` are the tables and views that its query names.
    """

    view: TableName
    replaces: bool = False
    if_not_exists: bool = False
    must_exist: bool = False
    sources: tuple[TableName, ...] = ()


@dataclass(frozen=True, slots=True)
class DropViews:
    """DROP VIEW."""

    views: tuple[TableName, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameTables:
    """RENAME TABLE: (old, new) pairs, applied in order."""

    pairs: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """TRUNCATE TABLE, which does not change the definition."""

    table: TableName


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool
    options: Options


@dataclass(frozen=True, slots=True)
class AlterSchema:
    """ALTER DATABASE; the name may be left out."""

    name: str | None
    options: Options


@dataclass(frozen=True, slots=True)
class DropSchema:
    """DROP DATABASE."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """A statement that changes no table's definition; `what` are its first words, `schema` is that of USE."""

    what: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE, CREATE INDEX or DROP INDEX (see `kind`): a table and the actions on it."""

    table: TableName
    actions: tuple[Action, ...] = field(default=())
    kind: str = "ALTER TABLE"
    if_exists: bool = False


Statement = (
    CreateTable
    | CreateTableLike
    | CreateView
    | DropViews
    | DropTables
    | RenameTables
    | TruncateTable
    | CreateSchema
    | AlterSchema
    | DropSchema
    | AlterTable
    | Ignored
)
