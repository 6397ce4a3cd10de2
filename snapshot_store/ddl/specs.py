"""Parts of statements as values, as written: columns, keys, options, partitions, queries.

`parse` creates them; `resolve` fills in what was not written.
"""

from dataclasses import dataclass
from typing import Literal

from snapshot_store.model import Attributes, Default, Generated, IndexPart
from snapshot_store.mysql.sql.cursor import TableName
from snapshot_store.mysql.sql.types import TypeSpec


@dataclass(frozen=True, slots=True)
class Value:
    """A literal as a default; the column's type decides which value it denotes.

    `kind` is "string", "number" or "bits" (a hexadecimal or bit literal, as written). `charset` is that of an
    introducer, as in _latin1'x'.
    """

    kind: Literal["string", "number", "bits"]
    text: str
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A key as written; `kind` is "primary", "unique", "index", "fulltext" or "spatial"."""

    kind: str
    name: str | None
    parts: tuple[IndexPart, ...]
    algorithm: str | None = None
    visible: bool = True
    attributes: Attributes = ()


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """A foreign key as written; `on_delete` and `on_update` are "" if it does not say."""

    name: str | None
    index_name: str | None
    columns: tuple[str, ...]
    table: TableName
    referenced: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""


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
    attributes: Attributes = ()


@dataclass(frozen=True, slots=True)
class Options:
    """Table or schema options; None where not given. `with_rows`: START TRANSACTION, the table's rows follow."""

    charset: str | None = None
    collation: str | None = None
    engine: str | None = None
    comment: str | None = None
    auto_increment: int | None = None
    attributes: Attributes = ()
    with_rows: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as written; `kind` is "RANGE" or "LIST" if it is defined by values, else "".

    `tuples` are the values as the server prints them, () if they are not understood. A tuple has one expression for
    each column of RANGE COLUMNS and LIST COLUMNS, and a single one for RANGE and LIST. `said` is what is said of it and
    of its subpartitions besides, as (name, options in SQL).
    """

    name: str
    kind: str = ""
    values: tuple[str, ...] = ()
    subpartitions: tuple[str, ...] = ()
    tuples: tuple[tuple[str, ...], ...] = ()
    said: Attributes = ()


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """PARTITION BY; `column` if the expression is a single column. `sub` is the SUBPARTITION BY clause.

    `algorithm` is that of KEY, 0 for the server's own choice.
    """

    method: str
    columns: tuple[str, ...]
    column: str | None = None
    expression: str = ""
    linear: bool = False
    sub: "PartitionSpec | None" = None
    count: int | None = None
    partitions: tuple[Partition, ...] = ()
    algorithm: int = 0


@dataclass(frozen=True, slots=True)
class SelectItem:
    """`*`, `t.*` (column None), or a column with its alias."""

    table: TableName | None
    column: str | None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A table of FROM; `outer`: a join may leave its columns NULL."""

    table: TableName
    alias: str | None = None
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query that only names columns; `merged`: USING or NATURAL merges two columns into one."""

    items: tuple[SelectItem, ...]
    sources: tuple[QuerySource, ...]
    merged: bool = False
