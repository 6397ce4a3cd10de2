"""The actions of ALTER TABLE: one class for each kind.

`conditional` in some: with IF EXISTS, or IF NOT EXISTS, which MariaDB has (`conditions`).
"""

from dataclasses import dataclass

from snapshot_store.ddl.specs import ColumnSpec, Constraint, Options, Partition, PartitionSpec, Value
from snapshot_store.model import Default
from snapshot_store.mysql.sql.cursor import TableName


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """An action on partitions; `kind` is its first word, `names` may be ("ALL",)."""

    kind: str
    names: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()
    count: int | None = None
    table: TableName | None = None
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class SetPartitioning:
    """PARTITION BY in an ALTER, or REMOVE PARTITIONING (None)."""

    spec: PartitionSpec | None


@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """FIRST (`after` None) or AFTER a column."""

    after: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnSpec
    position: ColumnPosition | None = None
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, or MODIFY where the name stays."""

    old: str
    column: ColumnSpec
    position: ColumnPosition | None = None
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT, or DROP DEFAULT (None)."""

    name: str
    default: Default | Value | None
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class SetVisible:
    """ALTER COLUMN or ALTER INDEX … VISIBLE or INVISIBLE."""

    what: str  # "column" or "index"
    name: str
    visible: bool
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD a key, foreign key or check."""

    constraint: Constraint
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP a key, foreign key or check; `kind` "any" drops whichever has the name."""

    kind: str  # "index", "foreign key", "check" or "any"
    name: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class RenameIndex:
    """RENAME INDEX."""

    old: str
    new: str
    conditional: bool = False


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


@dataclass(frozen=True, slots=True)
class SetEnforced:
    """ALTER CHECK … [NOT] ENFORCED."""

    name: str
    enforced: bool


@dataclass(frozen=True, slots=True)
class Rebuild:
    """FORCE, ALGORITHM=COPY, or ORDER BY these columns: the table is rebuilt with the same definition."""

    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFile:
    """DISCARD or IMPORT TABLESPACE: the table's rows are removed or added with its file."""

    kind: str


Action = (
    AddColumn
    | ChangeColumn
    | RenameColumn
    | DropColumn
    | SetDefault
    | SetVisible
    | SetEnforced
    | AddConstraint
    | DropConstraint
    | RenameIndex
    | RenameTo
    | Convert
    | SetOptions
    | SetPartitioning
    | PartitionWork
    | Rebuild
    | TableFile
)
CONDITIONAL = (
    AddColumn,
    ChangeColumn,
    RenameColumn,
    DropColumn,
    SetDefault,
    AddConstraint,
    DropConstraint,
    RenameIndex,
    SetVisible,
    PartitionWork,
)
