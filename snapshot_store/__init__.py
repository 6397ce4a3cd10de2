"""Schemas through time: the logical and physical schema history of a whole cluster.

The names below are what other programs use. Each is loaded when first asked for, so importing this package is free.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapshot_store.ddl.public import apply_ddl, parse_table
    from snapshot_store.errors import (
        AlreadyExists,
        DdlNotUnderstood,
        DdlRejected,
        SnapshotStoreError,
        UnknownColumn,
        UnknownIndex,
        UnknownSchema,
        UnknownTable,
    )
    from snapshot_store.lattice.tables import Incomparable, compare, join
    from snapshot_store.model import Catalog, Column, Default, Generated, Index, IndexPart, Schema, Table
    from snapshot_store.mysql.column_type import ColumnType
    from snapshot_store.mysql.sql.session import DdlSession

__all__ = [
    "AlreadyExists",
    "Catalog",
    "Column",
    "ColumnType",
    "DdlNotUnderstood",
    "DdlRejected",
    "DdlSession",
    "Default",
    "Generated",
    "Incomparable",
    "Index",
    "IndexPart",
    "Schema",
    "SnapshotStoreError",
    "Table",
    "UnknownColumn",
    "UnknownIndex",
    "UnknownSchema",
    "UnknownTable",
    "apply_ddl",
    "compare",
    "join",
    "parse_table",
]

_ERRORS = (
    "AlreadyExists DdlNotUnderstood DdlRejected SnapshotStoreError UnknownColumn UnknownIndex UnknownSchema "
    "UnknownTable"
)
_HOMES = {
    **dict.fromkeys(("apply_ddl", "parse_table"), "snapshot_store.ddl.public"),
    "DdlSession": "snapshot_store.mysql.sql.session",
    **dict.fromkeys(_ERRORS.split(), "snapshot_store.errors"),
    **dict.fromkeys(
        ("Catalog", "Column", "ColumnType", "Default", "Generated", "Index", "IndexPart", "Schema", "Table"),
        "snapshot_store.model",
    ),
    **dict.fromkeys(("Incomparable", "compare", "join"), "snapshot_store.lattice.tables"),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
