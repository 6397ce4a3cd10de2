"""Statements as values: what was written, before any default is filled in.

`parse` makes them, `apply` gives them their meaning.
"""

from dataclasses import dataclass, field
from typing import Literal

from snapshot_store.ddl.cursor import TableName
from snapshot_store.model import ColumnType, Default, Generated, IndexPart


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A column's type as written: `type` without character set, which is asked for here and resolved by the table."""

    type: ColumnType
    charset: str | None = None
    collation: str | None = None
    binary: bool = False
    characters: int | None = None  # of TEXT(n) and BLOB(n)


@dataclass(frozen=True, slots=True)
class Value:
    """A literal as a default; its column's type decides what it is.

    `kind` is "string", "number" or "bits", which is a hexadecimal or bit literal as written.
    """

    kind: Literal["string", "number", "bits"]
    text: str


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A key as written; `kind` is "primary", "unique", "index", "fulltext" or "spatial"."""

    kind: str
    name: str | None
    parts: tuple[IndexPart, ...]
    algorithm: str | None = None
    visible: bool = True


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """A foreign key as written; `actions` is the text of its ON DELETE and ON UPDATE."""

    name: str | None
    index_name: str | None
    columns: tuple[str, ...]
    table: TableName
    referenced: tuple[str, ...]
    actions: str = ""


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A CHECK constraint; `own_column` is the column it is written in, if any."""

    name: str | None
    expression: str
    enforced: bool = True
    own_column: str | None = None


Constraint = KeySpec | ForeignKeySpec | CheckSpec


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as written, with the keys and checks written inside it, in their order."""

    name: str
    type: TypeSpec
    nullable: bool | None = None
    default: Default | Value | None = None
    on_update_now: bool = False
    auto_increment: bool = False
    generated: Generated | None = None
    invisible: bool = False
    comment: str = ""
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """Table or schema options; None where not given."""

    charset: str | None = None
    collation: str | None = None
    engine: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with a list of columns and constraints, in the order written."""

    table: TableName
    if_not_exists: bool
    items: tuple[ColumnSpec | Constraint, ...]
    options: Options


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
class RenameTables:
    """RENAME TABLE: pairs, carried out one after the other."""

    pairs: tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """TRUNCATE TABLE: empties it, changes no shape."""

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
    """A statement that changes no table's shape; `what` are its leading words."""

    what: str


@dataclass(frozen=True, slots=True)
class Position:
    """FIRST (`after` None) or AFTER a column."""

    after: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnSpec
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, or MODIFY where the name stays."""

    old: str
    column: ColumnSpec
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT, or DROP DEFAULT (None)."""

    name: str
    default: Default | Value | None


@dataclass(frozen=True, slots=True)
class SetVisible:
    """ALTER COLUMN or ALTER INDEX … VISIBLE or INVISIBLE."""

    what: str  # "column" or "index"
    name: str
    visible: bool


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD a key, foreign key or check."""

    constraint: Constraint


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP a key, foreign key or check; `kind` "any" finds out by the name."""

    kind: str  # "index", "foreign key", "check" or "any"
    name: str


@dataclass(frozen=True, slots=True)
class RenameIndex:
    """RENAME INDEX."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME TO."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Convert:
    """CONVERT TO CHARACTER SET; `charset` "" for DEFAULT."""

    charset: str
    collation: str | None


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Table options in an ALTER."""

    options: Options


Action = (
    AddColumn
    | ChangeColumn
    | RenameColumn
    | DropColumn
    | SetDefault
    | SetVisible
    | AddConstraint
    | DropConstraint
    | RenameIndex
    | RenameTo
    | Convert
    | SetOptions
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE, CREATE INDEX or DROP INDEX (`kind` says which): a table and what is done to it."""

    table: TableName
    actions: tuple[Action, ...] = field(default=())
    kind: str = "ALTER TABLE"


Statement = (
    CreateTable
    | CreateTableLike
    | DropTables
    | RenameTables
    | TruncateTable
    | CreateSchema
    | AlterSchema
    | DropSchema
    | AlterTable
    | Ignored
)
