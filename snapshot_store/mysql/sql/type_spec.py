"""A column type as a statement writes it, before the table's defaults are known."""

from dataclasses import dataclass

from snapshot_store.mysql.column_type import ColumnType


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A column's type as written: `type` has no character set; the requested one is resolved with the table's."""

    type: ColumnType
    charset: str | None = None
    collation: str | None = None
    binary: bool = False
    characters: int | None = None  # of TEXT(n) and BLOB(n)
