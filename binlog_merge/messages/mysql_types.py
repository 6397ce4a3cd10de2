"""MySQL's numbers of column types, and TiCDC's flags of columns."""

from typing import Any, Final

from snapshot_store.model import Column, Table

TYPE_CODES: Final = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8, "mediumint": 9,
    "date": 10, "time": 11, "datetime": 12, "year": 13, "varchar": 15, "varbinary": 15, "bit": 16, "vector": 225,
    "json": 245, "decimal": 246, "enum": 247, "set": 248, "tinytext": 249, "tinyblob": 249, "mediumtext": 250,
    "mediumblob": 250, "longtext": 251, "longblob": 251, "text": 252, "blob": 252, "char": 254, "binary": 254,
}  # fmt: skip
"""Field types of MySQL's protocol; shapes are 255. Source: include/field_types.h, TiDB's for VECTOR."""
BINARY: Final = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
BLOBS: Final = frozenset(("tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext"))
_BINARY, _HANDLE, _GENERATED, _PRIMARY, _UNIQUE, _MULTIPLE, _NULLABLE, _UNSIGNED = (1 << i for i in range(8))


def handle_columns(table: Table) -> frozenset[str]:
    """Return the columns by which a row is found, in lower case: of the primary key, or a unique one without NULLs."""
    index = table.primary_key
    if index is None:
        index = next((i for i in table.indexes if i.unique and _never_null(table, i)), None)
    return frozenset() if index is None else frozenset((part.column or "").lower() for part in index.parts)


def _never_null(table: Table, index: Any) -> bool:
    columns = {column.name.lower(): column for column in table.columns}
    return all(p.column is not None and not columns[p.column.lower()].nullable for p in index.parts)


def flag_of(table: Table, column: Column) -> int:
    """Return TiCDC's flag of a column. Source: cdc/model of pingcap/tiflow."""
    name, flag = column.name.lower(), 0
    flag |= _BINARY if column.type.name in BINARY else 0
    flag |= _HANDLE if name in handle_columns(table) else 0
    flag |= _GENERATED if column.generated is not None else 0
    for index in table.indexes:
        if any((part.column or "").lower() == name for part in index.parts):
            if index.name == "PRIMARY":
                flag |= _PRIMARY
            elif index.unique:
                flag |= _UNIQUE
            else:
                flag |= _MULTIPLE
            flag |= _MULTIPLE if len(index.parts) > 1 and index.unique and index.name != "PRIMARY" else 0
    flag |= _NULLABLE if column.nullable else 0
    return flag | (_UNSIGNED if column.type.unsigned else 0)
